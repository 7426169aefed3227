"""A plain model of a shared book: what one ledger shows to which all machines had appended in the book's order.

It is written from the contract. Entries have no names here: each is known by the id of the event that made it. So the
model says which entry every event means, and the names that Tallybook gives have to lead to the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.ledger.events import Entry
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.records import Batch, EventRecord, make_batch
from tallybook.ledger.sharing.landing import names_in
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.playbook.view import PLAYBOOK, Playbook

MAKERS: Final = (events.PointAdded, events.PointSeeded, events.PointEdited, events.PointMatched)
NAMED: Final = (
    events.PointRetired,
    events.PointRestored,
    events.PointPinned,
    events.PointUnpinned,
    events.PointPlaced,
    events.PointLimited,
    events.PointReworded,
    events.PointRemoved,
)
SHARED: Final = (
    *MAKERS,
    *NAMED,
    events.PlaybookAdopted,
    events.PointRated,
    events.PlaybookUpdated,
    events.PlaybookOrdered,
    events.PlaybookEdited,
    events.PointMerged,
    events.EventsVoided,
    # An imported delivery that was here already.
    events.EventRepeated,
)
UNKNOWN: Final = "unknown "
"""What begins the name of an entry of which the model does not know which it is."""
_AT: Final = "2026-11-23T12:00:00.000000Z"
REPEATABLE: Final = (
    events.PointRated,
    events.PlaybookUpdated,
    events.PointEdited,
    events.PointRemoved,
    events.PlaybookOrdered,
    events.PlaybookEdited,
)
"""What of a delivery that the book has already has no effect, unless it makes an entry."""


@attrs.frozen(eq=False)
class Intent:
    """An own batch of a machine, with entries in place of names.

    Attributes:
        records: Its events of shared kinds.
        key: Its idempotency key.
        was: The entries as the machine showed them before it.
        voided: The ids that its undo of a session names.
        copies: Entries that a person added by hand although another one had the text.
    """

    records: tuple[EventRecord, ...]
    key: str | None
    was: Mapping[str, Entry]
    voided: tuple[str, ...] = ()
    copies: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        """Return what identifies it."""
        return self.records[0].id


class Seen(NamedTuple):
    """How an event landed that makes an entry or edits one, where the model follows that.

    Attributes:
        to: The entry that it was joined to, None for none.
        helpful: Its count of helpful ratings.
        harmful: Its count of harmful ratings.
        kept: Whether it left the text of its entry.
        without_text: Whether its own copy of that text was redacted by then, or is by now.
    """

    to: str | None
    helpful: int
    harmful: int
    kept: bool = False
    without_text: bool = False


@attrs.frozen
class _Landed:
    """What the book holds after some batches.

    Attributes:
        batches: Its batches, with entries in place of names.
        keys: The idempotency keys in it.
        joined: Entry → the entry with the same text that it was joined to.
        edited: Edit → its entry. A ledger without the book that imports the edit gets an entry of its own from it.
        made: Every entry that was made.
    """

    batches: tuple[Batch, ...] = ()
    keys: frozenset[str] = frozenset()
    joined: Mapping[str, str] = attrs.field(factory=dict)
    edited: Mapping[str, str] = attrs.field(factory=dict)
    made: frozenset[str] = frozenset()

    def playbook(self) -> Playbook:
        """Return what one ledger with these batches shows."""
        return fold_history(PLAYBOOK, lambda: self.batches)


class BookModel:
    """Folds batches of all machines in any order.

    A text that was redacted cannot be compared on every machine, and what another history of the book lacks lands from
    the old one. There the model follows what landing did, and checks that it joined equal texts.

    Attributes:
        redacted: Texts that a machine redacted.
        relanded: Ids of events that may have landed a second time.
        texts: Id of an event → the texts that it has.
        entry_texts: Entry → every text that it was given.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.redacted: set[str] = set()
        self.relanded: set[str] = set()
        self.texts: dict[str, set[str]] = {}
        self.entry_texts: dict[str, set[str]] = {}
        self._first: dict[str, Intent] = {}
        self._forms: dict[tuple[str, str], Intent] = {}
        self._landed: dict[tuple[Any, ...], _Landed] = {(): _Landed()}

    @property
    def follows(self) -> bool:
        """Return whether it follows what landing did anywhere."""
        return bool(self.redacted or self.relanded)

    def note(self, intent: Intent, label: str) -> None:
        """Take a batch that a machine has acknowledged."""
        for record in intent.records:
            self._first.setdefault(record.id, intent)
            self._forms[label, record.id] = intent
            text = getattr(record.event, "text", None)
            # An edit that leaves the text has none of its own.
            if text and getattr(record.event, "change", "") != "kept":
                self.texts.setdefault(record.id, set()).add(text)
            if text and text != REDACTED:
                self.entry_texts.setdefault(getattr(record.event, "name", ""), set()).add(text)

    def find(self, id_: str, writer: str) -> Intent | None:
        """Return the batch that an event belongs to, as a machine has it that published it; None for no such event."""
        return self._forms.get((writer, id_)) or self._first.get(id_)

    def find_copies(self, records: Iterable[EventRecord], seen: Iterable[Entry]) -> frozenset[str]:
        """Return the entries that a person added by hand although the machine where he did it showed their text.

        Args:
            records: Events that a machine recorded or imported.
            seen: The entries that it showed before them.
        """
        copies: set[str] = set()
        texts = {entry.text for entry in seen}
        for record in records:
            first = self._first.get(record.id)
            event: Any = record.event
            is_new = isinstance(event, events.PointEdited) and event.name == record.id
            if (is_new and event.text in texts) if first is None else record.id in first.copies:
                copies.add(record.id)
        return frozenset(copies)

    def text(self, id_: str) -> str | None:
        """Return the text of an event as the machine recorded it that made it; None for no such event or text."""
        intent = self._first.get(id_)
        records = () if intent is None else intent.records
        return next((getattr(record.event, "text", None) for record in records if record.id == id_), None)

    def copy_forms(self, label: str, new: str) -> None:
        """Note that another machine has the batches of one."""
        self._forms |= {(new, id_): intent for (of, id_), intent in self._forms.items() if of == label}

    def is_same(self, entry: str, other: str) -> bool:
        """Return whether two entries are one, or had the same text, so that they may have been joined."""
        return entry == other or not self.entry_texts.get(entry, set()).isdisjoint(self.entry_texts.get(other, set()))

    def playbook(self, order: Sequence[Intent], landed: Mapping[str, Seen]) -> Playbook:
        """Return what one ledger shows that got these batches in this order, following what landing made of events."""
        return self._land(order, landed).playbook()

    def unshared(self, intents: Sequence[Intent]) -> Playbook:
        """Return what a ledger with these batches shows that shares nothing."""
        batches: list[Batch] = []
        first = 1
        for intent in intents:
            records = [attrs.evolve(record, seq=seq) for seq, record in enumerate(intent.records, first)]
            batches.append(make_batch(*records))
            first += len(records)
        return fold_history(PLAYBOOK, lambda: batches)

    def concerns_nobody(self, order: Sequence[Intent], landed: Mapping[str, Seen]) -> bool:
        """Return whether the last of these batches has no event for the others."""
        before, after = self._land(order[:-1], landed), self._land(order, landed)
        return len(before.batches) == len(after.batches)

    def _land(self, order: Sequence[Intent], landed: Mapping[str, Seen]) -> _Landed:
        # What is followed is part of what is asked.
        steps = tuple((intent, self._followed(intent, landed)) for intent in order)
        start = len(steps)
        while steps[:start] not in self._landed:
            start -= 1
        done = self._landed[steps[:start]]
        for index in range(start, len(steps)):
            done = _append(done, order[index], dict(steps[index][1]))
            self._landed[steps[: index + 1]] = done
        return done

    def _followed(self, intent: Intent, landed: Mapping[str, Seen]) -> tuple[tuple[str, Seen], ...]:
        if not self.follows:
            return ()
        return tuple(
            (record.id, landed[record.id])
            for record in intent.records
            if isinstance(record.event, MAKERS)
            and record.id in landed
            and (record.id in self.relanded or record.event.text in self.redacted)
        )


def _append(landed: _Landed, intent: Intent, followed: Mapping[str, Seen]) -> _Landed:
    made = landed.made.union(record.id for record in intent.records if getattr(record.event, "name", "") == record.id)
    names = (landed.edited.get(name, name) for record in intent.records for name in _names_in(record.event))
    if any(name not in made and not name.startswith(UNKNOWN) for name in names):
        # It waits for the entry, which only another history of the book has.
        return landed
    state = landed.playbook()
    joined, edited = dict(landed.joined), dict(landed.edited)
    repeated = intent.key is not None and intent.key in landed.keys
    step = _Step(intent, state, joined, edited, repeated, followed)
    first = landed.batches[-1].last + 1 if landed.batches else 1
    records = [
        EventRecord(first + index, _AT, event, record.id)
        for index, (record, event) in enumerate(
            (record, event) for record in intent.records for event in step.land(record)
        )
    ]
    keys = landed.keys | ({intent.key} if intent.key is not None else frozenset())
    batches = (*landed.batches, make_batch(*records)) if records else landed.batches
    return _Landed(batches, keys, joined, edited, made)


def _names_in(event: Any) -> Iterable[str]:
    """Return the entries in an event; those in sections are names still."""
    return () if isinstance(event, events.PlaybookEdited | events.PlaybookAdopted) else names_in(event)


@attrs.define
class _Step:
    """The landing of one batch.

    Attributes:
        intent: The batch.
        state: The playbook before it.
        joined: As in `_Landed`; entries of this batch are added.
        edited: As in `_Landed`; edits of this batch are added.
        repeated: Whether the book has the delivery already.
        followed: How events landed that it follows.
        made: Entries that this batch made so far.
        _id: The event that lands.
    """

    intent: Intent
    state: Playbook
    joined: dict[str, str]
    edited: dict[str, str]
    repeated: bool
    followed: Mapping[str, Seen]
    made: set[str] = attrs.field(factory=set)
    _id: str = ""

    def land(self, record: EventRecord) -> list[Any]:
        """Return what the book gets of an event."""
        event: Any = record.event
        self._id = record.id
        if isinstance(event, MAKERS) and event.name == record.id:
            self.made.add(record.id)
            return [self._make(event)]
        if self.repeated and isinstance(event, REPEATABLE):
            return [events.EventRepeated("")]
        if isinstance(event, events.EventsVoided):
            return [events.EventsVoided((*event.ids, *self.intent.voided), None, "")]
        changed = self._redirect(event)
        # A merge of entries that are one entry by now concerns nobody.
        return [] if isinstance(changed, events.PointMerged) and not changed.merged else [changed]

    def _redirect(self, event: Any) -> Any:
        """Return a change of entries that the machine had already, for those that stand for them now."""
        if isinstance(event, events.PointEdited):
            return self._edit(event)
        if isinstance(event, events.PlaybookOrdered):
            return events.PlaybookOrdered(tuple(dict.fromkeys(map(self._standing, event.names))))
        if isinstance(event, events.PointMerged):
            name = self._standing(event.name)
            merged = (self._standing(name) for name in event.merged)
            return events.PointMerged(name, tuple(dict.fromkeys(source for source in merged if source != name)), "")
        return event.evolve(name=self._standing(event.name)) if isinstance(event, NAMED) else event

    def _standing(self, name: str) -> str:
        name = self.edited.get(name, name)
        # An entry whose joining was undone is joined no more.
        stands = name in self.state.entries or name not in self.state.merged
        return name if stands and name not in self.made else self.joined.get(name, name)

    def _make(self, event: Any) -> Any:
        """Return an entry that is new for its machine: joined to the one that has its text, or added."""
        counts = (0, 0) if isinstance(event, events.PointAdded) or self.repeated else (event.helpful, event.harmful)
        to = next((name for name, entry in self.state.entries.items() if entry.text == event.text), None)
        if event.name in self.intent.copies:
            to = None
        if event.name in self.followed:
            return self._follow(event, self.followed[event.name])
        if isinstance(event, events.PointMatched):
            return self._match(event, counts, to)
        if to is not None:
            self.joined[event.name] = to
            now = self.state.entries[to]
            return events.PointMatched(
                event.name, to, max(counts[0] - now.helpful, 0), max(counts[1] - now.harmful, 0), event.text
            )
        if isinstance(event, events.PointAdded):
            return event
        return attrs.evolve(event, helpful=counts[0], harmful=counts[1])

    def _match(self, event: Any, counts: tuple[int, int], equal: str | None) -> Any:
        """Return an entry that was joined where it was recorded: to the same one, or else to one of its text."""
        to: str | None = self._standing(event.to)
        other = self.state.entries.get(to or "")
        if other is None or other.text != event.text:
            to = equal or (to if other is None else None)
        self.joined[event.name] = to or event.name
        return events.PointMatched(event.name, to or event.name, counts[0], counts[1], event.text)

    def _follow(self, event: Any, seen: Seen) -> Any:
        """Return an entry as it landed: joined at most to one that has its text."""
        if seen.to is not None:
            self.joined[event.name] = seen.to
            other = self.state.entries.get(seen.to)
            # An edit without a text brought it back.
            known = {event.text, REDACTED}
            assert other is None or other.text in known, f"{event.name} was joined to another text"
            return events.PointMatched(event.name, seen.to, seen.helpful, seen.harmful, event.text)
        if isinstance(event, events.PointAdded):
            return event
        return attrs.evolve(event, helpful=seen.helpful, harmful=seen.harmful)

    def _edit(self, event: events.PointEdited) -> events.PointEdited:
        """Return a manual edit as the difference from what its writer saw."""
        name = self._standing(event.name)
        self.edited[self._id] = name
        now, was = self.state.entries.get(name), self.intent.was.get(event.name)
        if was is None and event.change in {"kept", "changed"}:
            # It was imported, and its entry was joined here: what its writer saw stands in it.
            kept = event.text or "" if event.change == "kept" else ""
            was = Entry(name, kept, event.helpful_before, event.harmful_before)
        seen = self.followed.get(self._id)
        if seen is not None:
            is_unchanged = was is None or event.text == was.text
            if seen.kept and (seen.without_text or not is_unchanged):
                # Nothing is left of the text that it had: the entry keeps the one that it has without this edit.
                return events.PointEdited(name, seen.helpful, seen.harmful, REDACTED, change="kept")
            text = now.text if now is not None and (seen.kept or is_unchanged) else event.text
            return events.PointEdited(name, seen.helpful, seen.harmful, text)
        if now is None or was is None:
            return event.evolve(name=name)
        helpful = max(now.helpful + event.helpful - was.helpful, 0)
        harmful = max(now.harmful + event.harmful - was.harmful, 0)
        if event.text == REDACTED:
            return events.PointEdited(name, helpful, harmful, REDACTED, change="kept")
        return events.PointEdited(name, helpful, harmful, now.text if event.text == was.text else event.text)


def look(records: Sequence[EventRecord], entries: dict[str, str], landed: dict[str, Seen]) -> None:
    """Note which entries events of the book make, and how they landed.

    Args:
        records: The events, as the book has them.
        entries: Name in the book → entry; those that the events make are added.
        landed: Gets how each event landed.
    """
    for record in records:
        event: Any = record.event
        if isinstance(event, (*MAKERS, events.PointMatched)):
            entries.setdefault(event.name, record.id)
            to = entries.get(event.to) if isinstance(event, events.PointMatched) else None
            counts = (0, 0) if isinstance(event, events.PointAdded) else (event.helpful, event.harmful)
            kept = getattr(event, "change", "") == "kept"
            landed[record.id] = Seen(to, *counts, kept=kept, without_text=event.text in {None, REDACTED})
