"""The batches of another history, landed on a ledger: each by its id once, with names and texts decided anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import clock, events
from tallybook.ledger.encoding.codec import decode, texts_of
from tallybook.ledger.events import KIND_OF, Entry, EventRepeated, EventsVoided, PointMatched
from tallybook.ledger.line import Position, batch_key, split_key
from tallybook.ledger.playbook_constants import PLAYBOOK_NEUTRAL
from tallybook.ledger.sharing.landed_kinds import REDACTED
from tallybook.ledger.sharing.landing import LandedBatch, LandedEvent, Names, OwnBatch, land
from tallybook.ledger.sharing.publishing import Publisher
from tallybook.projections.fold import fold, fold_history
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.histories.names_there import NamesThere
from tallybook.projections.surfaces.sharing.pending_landing import ids_of_session
from tallybook.projections.surfaces.writing import secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from tallybook.ledger.events import Event
    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.ledger.storage.redacted_digests import Redactions
    from tallybook.projections.playbook.view import Playbook

MAKES_ENTRY: Final = (events.PointAdded, events.PointSeeded, events.PointEdited)
_HAS_TEXT: Final = (*MAKES_ENTRY, events.PointReworded)
# What one machine has done or has to do; another one neither did it nor can do it.
_OF_ONE_MACHINE: Final = {
    "playbook.injected",
    "reflection.requested",
    "reflection.started",
    "reflection.failed",
    "book.opened",
    "book.rules",
    "book.block",
    "event.repeated",
    "redaction.linked",
    "names.meant",
    "lift.asked",
    "lift.stopped",
    "point.reviewed",
}
_COUNTING: Final = ("helpful", "harmful")
_SAME_TEXT: Final = "the same text"


@attrs.frozen
class Ignored:
    """An event of the other history that counts nothing here.

    Attributes:
        item: What it is, with the name that it has there.
        reason: Why it counts nothing.
    """

    item: str
    reason: str


@attrs.define
class Arrival:
    """What the batches of other histories bring to a ledger.

    Attributes:
        batches: What is appended, in order.
        added: Names of the new entries.
        joined: Name there → the entry here with the same text.
        renamed: Name there → its name here, which differs.
        ratings: How many ratings count.
        known: How many batches this ledger has already.
        ignored: What counts nothing.
        masked: How many texts had a secret in them.
        redacted: Ids of events whose text was redacted there and is still here.
    """

    batches: list[RawBatch] = attrs.field(factory=list)
    added: list[str] = attrs.field(factory=list)
    joined: dict[str, str] = attrs.field(factory=dict)
    renamed: dict[str, str] = attrs.field(factory=dict)
    ratings: int = 0
    known: int = 0
    ignored: list[Ignored] = attrs.field(factory=list)
    masked: int = 0
    redacted: list[str] = attrs.field(factory=list)


class Landing:
    """Lands histories one after another on a ledger, in memory."""

    def __init__(self, own: Sequence[RawBatch], redactions: Redactions) -> None:
        """Take the ledger's batches, and the texts that were redacted in it."""
        self.arrival = Arrival()
        self._own = list(own)
        self._redactions = redactions
        self._state = fold_history(PLAYBOOK, lambda: decode(self._own))
        self._names_by_id: dict[str, str] = {}
        self._keys = {key for raw in own if (key := batch_key(raw.data))}
        self._ids: set[str] = set()
        self._texts: set[str] = set()
        for batch in decode(own):
            self._note(batch)
        now = clock.utc_now()
        at = clock.clamp_time(now.at, own[-1].position.at if own else "")
        self._publisher = Publisher("", at, clock.new_salt, self._mask)
        self._end = own[-1].position if own else Position(0, "", 0)

    def _note(self, batch: Batch) -> None:
        """Note the ids of a batch that is here, and the names of the entries that it makes."""
        for record in batch.records:
            self._ids.add(record.id.partition(".")[0])
            if isinstance(record.event, MAKES_ENTRY):
                self._names_by_id[record.id] = record.event.name
            # What came in erased needs no erasing.
            if any(text and text != REDACTED for text in texts_of(record.event).values()):
                self._texts.add(record.id)

    def _mask(self, text: str) -> str:
        masked = secrets.mask(text).text
        self.arrival.masked += masked != text
        return masked

    def land(self, history: Sequence[RawBatch]) -> None:
        """Land every batch of a history, given from its first line on, that is not here yet."""
        facts, names, there = _Facts(self._keys), Names(), NamesThere()
        for batch in map(there.translate, decode(history)):
            if any(record.id.partition(".")[0] in self._ids for record in batch.records):
                self.arrival.known += 1
                self._learn_names(batch, names)
            else:
                self._land_batch(batch, names, facts)
            for event in batch.events:
                if isinstance(event, events.EventRedacted) and event.id in self._texts:
                    self.arrival.redacted.append(event.id)
            facts.advance(batch)

    def _learn_names(self, batch: Batch, names: Names) -> None:
        """Learn under which names the entries of a batch are here that its history gave other names."""
        for record in batch.records:
            if isinstance(record.event, MAKES_ENTRY) and record.id in self._names_by_id:
                name = names.landed[record.event.name] = names.by_id[record.id] = self._names_by_id[record.id]
                if name in self._state.merged:
                    names.joined[name] = self._state.merged[name]

    def _land_batch(self, batch: Batch, names: Names, facts: _Facts) -> None:
        records = tuple(record for record in batch.records if not self._is_redacted(record))
        if not records:
            return
        # The first line has the key of all of them.
        records = (attrs.evolve(records[0], key=batch.records[0].key, payload=batch.records[0].payload), *records[1:])
        state = self._state
        landed = land(OwnBatch(records, 0), state, names, facts)
        changes = tuple(self._as_own(records, landed, names))
        self._report(records, landed)
        if not changes:
            return
        raw = self._publisher.frame(attrs.evolve(landed, events=changes), self._end)
        self._end = raw.position
        self.arrival.batches.append(raw)
        (arrived,) = decode([raw])
        self._note(arrived)
        if landed.key is not None:
            self._keys.add(split_key(landed.key)[0])
        before = set(state.entries)
        if any(isinstance(one.event, EventsVoided) for one in changes):
            self._state = fold_history(PLAYBOOK, lambda: decode([*self._own, *self.arrival.batches]))
        else:
            fold(PLAYBOOK, decode([raw]), state)
        self.arrival.added += [name for name in self._state.entries if name not in before]

    def _is_redacted(self, record: EventRecord) -> bool:
        """Return whether an event brings back a text that was redacted here; it is left out."""
        event: Any = record.event
        texts = texts_of(event).values() if isinstance(event, _HAS_TEXT) else ()
        why = next((why for text in texts if (why := self._redactions.refusal(text)) is not None), None)
        if why is not None:
            self.arrival.ignored.append(Ignored(item_of(event), why))
        return why is not None

    def _as_own(self, records: Sequence[EventRecord], landed: LandedBatch, names: Names) -> Iterator[LandedEvent]:
        """Yield what is appended here: kinds that every version of Tallybook folds, and what a book does not share."""
        by_record: dict[str, list[LandedEvent]] = {}
        for one in landed.events:
            by_record.setdefault(one.record.id, []).append(one)
        matched = {one.record.id for one in landed.events if isinstance(one.event, PointMatched)}
        for record in records:
            # The merge that an earlier import made of a match: the entry is matched here anew.
            if record.id.partition(".")[0] in matched - {record.id}:
                continue
            for one in by_record.get(record.id, ()):
                event = one.event
                if isinstance(event, PointMatched):
                    for made in _matched(event):
                        yield LandedEvent(record, made)
                elif not isinstance(event, EventRepeated):
                    yield one
            if (
                not by_record.get(record.id)
                and (kept := unshared_event(record.event, names.landed.get, self._redactions)) is not None
            ):
                yield LandedEvent(record, kept)

    def _report(self, records: Sequence[EventRecord], landed: LandedBatch) -> None:
        """Count the ratings of a landed batch, and note what counts nothing."""
        names = {record.id: getattr(record.event, "name", "") for record in records}
        as_landed: dict[str, Any] = {one.record.id: one.event for one in landed.events}
        matched = {event.name: event.to for event in as_landed.values() if isinstance(event, PointMatched)}
        fresh = {event.name for event in as_landed.values() if isinstance(event, MAKES_ENTRY)}
        joined = {names[id_]: event.to for id_, event in as_landed.items() if isinstance(event, PointMatched)}
        self.arrival.joined |= joined
        self.arrival.renamed |= {old: new for old, new in landed.renamed.items() if old not in joined}
        for record in records:
            if isinstance(record.event, events.PointRated) and record.event.rating in _COUNTING:
                event = as_landed.get(record.id)
                name = "" if event is None or isinstance(event, EventRepeated) else event.name
                name = matched.get(name, self._state.merged.get(name, name))
                if name in fresh or name in self._state.entries:
                    self.arrival.ratings += 1
                    continue
                reason = f"{name} is not in the playbook any more; `tallybook restore {name}` brings it back"
                if event is None:
                    reason = "the entry that it rates is not here"
                elif isinstance(event, EventRepeated):
                    reason = f"its delivery {landed.own.records[0].key} is recorded here already"
                self.arrival.ignored.append(Ignored(item_of(record.event), reason))


def unshared_event(event: Event, present: Callable[[str], str | None], redactions: Redactions) -> Event | None:
    """Return an event that changes no playbook, such as a note or a measurement, as it is recorded here.

    Args:
        event: The event.
        present: Returns the name here of the entry that a name there means; None where it is not here.
        redactions: The texts that were redacted here.

    Returns:
        None where it is of the other machine alone, or about an entry that is not here.
    """
    kind = KIND_OF.get(type(event))
    if kind not in PLAYBOOK_NEUTRAL or kind in _OF_ONE_MACHINE:
        return None
    if not isinstance(event, events.PointNoted | events.PointCited | events.PointProposed):
        return event
    name = present(event.name)
    if name is None:
        return None
    changes: dict[str, Any] = {"name": name}
    if isinstance(event, events.PointProposed):
        merged = tuple(present(one) for one in event.merged)
        if None in merged:
            return None
        changes["merged"] = merged
    for field, text in texts_of(event).items():
        if text and redactions.refusal(text) is not None:
            changes[field] = ""
    return attrs.evolve(event, **changes)


def _matched(event: PointMatched) -> Iterator[Event]:
    """Yield what a match is in a ledger of one machine: the entry, and its merge into the one with its text."""
    if event.helpful or event.harmful:
        yield events.PointSeeded(event.name, event.helpful, event.harmful, "canonical", event.text, "")
    else:
        yield events.PointAdded(event.name, event.text)
    yield events.PointMerged(event.to, (event.name,), _SAME_TEXT)


def item_of(event: Any) -> str:
    """Return an event and the name in it in a few words."""
    kind = KIND_OF.get(type(event), "event")
    rating = f" {event.rating}" if isinstance(event, events.PointRated) else ""
    return f"{kind} {getattr(event, 'name', '')}{rating}".rstrip()


class _Facts:
    """What landing asks about this ledger and about the other history; see `landing.Book`."""

    def __init__(self, keys: Collection[str]) -> None:
        """Take the keys of this ledger's batches, which grow while batches land."""
        self._keys = keys
        self._state: Playbook = PLAYBOOK.start()
        self._done: list[Batch] = []

    def advance(self, batch: Batch) -> None:
        """Go on to the state of the other history after a batch."""
        self._done.append(batch)
        if any(isinstance(event, EventsVoided) for event in batch.events):
            self._state = fold_history(PLAYBOOK, lambda: iter(self._done))
        else:
            fold(PLAYBOOK, [batch], self._state)

    def has_key(self, key: str) -> bool:
        return key in self._keys

    def published(self, own: OwnBatch) -> None:
        """Return None: what this ledger has already is left out before."""
        del own

    def had(self, name: str, taken: int) -> bool:
        """Return no: names mean what they mean in the other history; its entries that are here are known by id."""
        del name, taken
        return False

    def own_name(self, name: str) -> str | None:
        """Return None, as ``had`` returns no."""
        del name
        return None

    def made_name(self, id_: str) -> str | None:
        """Return None, as ``had`` returns no."""
        del id_
        return None

    def matched(self, name: str) -> str | None:
        """Return None: what was joined is merged here."""
        del name
        return None

    def linked(self, id_: str) -> frozenset[str]:
        """Return nothing: a text that was redacted there is redacted here before its batches land."""
        del id_
        return frozenset()

    def had_text(self, id_: str, name: str) -> bool:
        """Return no, as ``linked`` returns nothing."""
        del id_, name
        return False

    def has_text(self, id_: str) -> bool:
        """Return no, as ``published`` returns None."""
        del id_
        return False

    def shown(self, own: OwnBatch) -> Mapping[str, Entry]:
        del own
        return self._state.entries

    def session_ids(self, own: OwnBatch, session: str) -> tuple[str, ...]:
        del own
        return tuple(ids_of_session(self._done, session))
