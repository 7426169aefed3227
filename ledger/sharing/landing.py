"""Landing: what a machine's own batch becomes in a book that others have appended to meanwhile. Pure functions.

A batch keeps its events' ids and its order. Only what depends on the state of the book is decided anew: names that are
taken, texts that another entry has, counts that a manual edit set. Views and `sync` use the same functions, so a
machine shows its pending batches exactly as they will be in the book.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from tallybook.ledger.decisions.update import rename_in_top
from tallybook.ledger.events import (
    BookRules,
    Entry,
    EventRedacted,
    EventRepeated,
    EventsVoided,
    NamesMeant,
    PlaybookAdopted,
    PlaybookEdited,
    PlaybookOrdered,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointMatched,
    PointMerged,
    PointPinned,
    PointRated,
    PointRemoved,
    PointRestored,
    PointRetired,
    PointReworded,
    PointSeeded,
    PointUnpinned,
    RedactionLinked,
)
from tallybook.ledger.names import format_name, next_free_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallybook.ledger.decisions.update import KnownPlaybook
    from tallybook.ledger.events import Event
    from tallybook.ledger.records import EventRecord

REDACTED: Final = "[redacted]"
"""The text under which a redacted text lands: its digest would prove nothing to machines that never had it."""
IDS_A_LINE: Final = 1_000
"""As many ids as fit into one line of the ledger."""


@attrs.frozen
class OwnBatch:
    """A batch of a machine's own ledger that is not in the book yet.

    Attributes:
        records: Its events.
        taken: The book's event number that the machine's playbook contained when the batch was recorded.
    """

    records: tuple[EventRecord, ...]
    taken: int

    @property
    def key(self) -> str | None:
        """Return its idempotency key, None without one."""
        return self.records[0].key


class Book(Protocol):
    """What landing asks about the book and about the machine's own past; each is asked only where it matters."""

    def has_key(self, key: str) -> bool:
        """Return whether a batch of the book has this idempotency key."""
        ...

    def had(self, name: str, taken: int) -> bool:
        """Return whether the book had an entry of this name up to an event number of the book."""
        ...

    def own_name(self, name: str) -> str | None:
        """Return the name in the book of an entry that the own ledger made under a name; None where it made none."""
        ...

    def made_name(self, id_: str) -> str | None:
        """Return the name in the book of an entry that an event of the own ledger made; None where it made none."""
        ...

    def shown(self, own: OwnBatch) -> Mapping[str, Entry] | None:
        """Return the entries as their machine showed them before a batch; None where the book has not moved on."""
        ...

    def session_ids(self, own: OwnBatch, session: str) -> tuple[str, ...]:
        """Return the ids of a session's events that could be undone when a batch was recorded."""
        ...


@attrs.define
class Names:
    """The names of a machine's own entries in the book, as far as one landing has come.

    Attributes:
        landed: Own name → name in the book.
        by_id: Id of the event that made an entry → name in the book.
        joined: Name in the book → the entry with the same text that stands for it.
    """

    landed: dict[str, str] = attrs.field(factory=dict)
    by_id: dict[str, str] = attrs.field(factory=dict)
    joined: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen
class LandedEvent:
    """An event as the book gets it.

    Attributes:
        record: The own event, whose id, author and time it keeps.
        event: What the book gets.
    """

    record: EventRecord
    event: Event


@attrs.frozen
class LandedBatch:
    """A batch as the book gets it; without events if nothing in it concerns the others.

    Attributes:
        own: The own batch.
        events: Its events for the book, in order.
        key: Its idempotency key in the book, None without one.
        renamed: Own name → name in the book, for entries that this batch made and that have another name there.
    """

    own: OwnBatch
    events: tuple[LandedEvent, ...]
    key: str | None
    renamed: Mapping[str, str]


def land(own: OwnBatch, known: KnownPlaybook, names: Names, book: Book) -> LandedBatch:
    """Return a pending batch as it lands after the batches before it.

    Args:
        own: The batch.
        known: The playbook after the book and the batches landed so far.
        names: The names given so far; those of this batch's entries are added.
        book: Answers about the book.
    """
    repeated = own.key is not None and book.has_key(own.key)
    step = _Step(own, known, names, book, repeated, _names_meant(own, names, book))
    for record in own.records:
        step.name_created_entry(record)
    events = tuple(LandedEvent(record, event) for record in own.records for event in _land_event(step, record))
    return LandedBatch(own, events, None if repeated else own.key, step.renamed)


def _land_event(step: _Step, record: EventRecord) -> tuple[Event, ...]:
    """Return the events that one becomes: mostly one, none where it concerns nobody else."""
    change = _LANDINGS.get(type(record.event))
    return () if change is None else change(step, record)


def _names_meant(own: OwnBatch, names: Names, book: Book) -> dict[str, str]:
    """Return the names of this batch that it gives by id: name → name in the book."""
    meant: dict[str, str] = {}
    for record in own.records:
        if isinstance(record.event, NamesMeant):
            for name, id_ in zip(record.event.names, record.event.ids, strict=False):
                found = names.by_id.get(id_) or book.made_name(id_)
                if found is not None:
                    meant[name] = found
    return meant


@attrs.define
class _Step:
    """The landing of one batch.

    Attributes:
        own, known, names, book: As for ``land``.
        repeated: Whether the book has this delivery from another machine.
        meant: Name → name in the book, for names that the batch gives by id.
        taken_names: Names that this batch has given to its entries.
        joined: Id of an event that makes an entry → the standing entry of the same text.
        renamed: As in `LandedBatch`.
    """

    own: OwnBatch
    known: KnownPlaybook
    names: Names
    book: Book
    repeated: bool
    meant: Mapping[str, str]
    taken_names: set[str] = attrs.field(factory=set)
    joined: dict[str, str] = attrs.field(factory=dict)
    renamed: dict[str, str] = attrs.field(factory=dict)

    def resolve(self, name: str) -> str | None:
        """Return the name in the book of the entry that a name of this batch means; None where it means none."""
        if name in self.meant:
            return self.meant[name]
        # Where the book had the name, this machine showed its own entry of that name under another one.
        if self.book.had(name, self.own.taken):
            return name
        return self.names.landed.get(name) or self.book.own_name(name)

    def resolve_standing(self, name: str) -> str | None:
        """Return as ``resolve``, and for an entry that was joined to another of the same text that other one."""
        found = self.resolve(name)
        # Where the other one was undone since, the entry stands by itself.
        return found if found is None or found in self.known.entries else self.names.joined.get(found, found)

    def name_created_entry(self, record: EventRecord) -> None:
        """Give the entry that an event makes its name in the book: its own one, or the next free one."""
        event = record.event
        if not isinstance(event, PointAdded | PointSeeded | PointEdited | PointMatched):
            return
        if isinstance(event, PointEdited) and self.resolve(event.name) is not None:
            return
        standing = self._standing(event)
        name = self._free_name(event.name)
        self.taken_names.add(name)
        if standing is not None:
            self.joined[record.id] = standing
            self.names.joined[name] = standing
        self.names.landed[event.name] = self.names.by_id[record.id] = name
        if (shown := self.names.joined.get(name, name)) != event.name:
            self.renamed[event.name] = shown

    def _standing(self, event: Any) -> str | None:
        """Return the entry of the book that has the text of a new one; None where the new one stands by itself."""
        text = _text(event.text)
        if text == REDACTED:
            return None
        if isinstance(event, PointEdited):
            # A person may well add by hand a text that another entry has, as long as he saw that.
            shown = self.book.shown(self.own)
            if shown is None or any(entry.text == text for entry in shown.values()):
                return None
        return next((name for name, entry in self.known.entries.items() if entry.text == text), None)

    def counts(self, event: Any) -> tuple[int, int]:
        """Return the counts that a new entry brings with it: none where the book has the delivery already."""
        if self.repeated or isinstance(event, PointAdded):
            return 0, 0
        return event.helpful, event.harmful

    def _free_name(self, wanted: str) -> str:
        taken = {*self.known.used_names, *self.taken_names}
        if wanted not in taken:
            return wanted
        return format_name(next_free_number(self.known.high_water, taken))


# ---- What each kind becomes ----


def _text(text: str | None) -> str:
    return REDACTED if text is None else text


def _adopt(step: _Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    names = {name: step.names.joined.get(landed, landed) for name, landed in step.names.landed.items()}
    return (attrs.evolve(event, top=rename_in_top(event.top or "", names)),)


def _add(step: _Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    text, name = _text(event.text), step.names.by_id[record.id]
    helpful, harmful = step.counts(event)
    if record.id in step.joined:
        to = step.known.entries[step.joined[record.id]]
        return (PointMatched(name, to.name, max(helpful - to.helpful, 0), max(harmful - to.harmful, 0), text),)
    if isinstance(event, PointAdded):
        return (PointAdded(name, text),)
    if isinstance(event, PointEdited):
        return (PointEdited(name, helpful, harmful, text),)
    return (PointSeeded(name, helpful, harmful, event.origin, text, ""),)


def _rate(step: _Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    name = step.resolve(event.name)
    return () if name is None else (PointRated(name, event.rating),)


def _edit(step: _Step, record: EventRecord) -> tuple[Event, ...]:
    """Return a manual edit as the difference between what its writer saw and what he made of it."""
    if record.id in step.names.by_id:
        return _add(step, record)
    event: Any = record.event
    text = _text(event.text)
    name = step.resolve_standing(event.name)
    if name is None:
        return ()
    now, was = step.known.entries.get(name), (step.book.shown(step.own) or {}).get(event.name)
    if now is None or was is None:
        return (PointEdited(name, event.helpful, event.harmful, text),)
    helpful, harmful = now.helpful + event.helpful - was.helpful, now.harmful + event.harmful - was.harmful
    return (PointEdited(name, max(helpful, 0), max(harmful, 0), now.text if text == was.text else text),)


def _remove(step: _Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    name = step.resolve_standing(event.name)
    return () if name is None else (PointRemoved(name),)


def _order(step: _Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    names = tuple(name for name in map(step.resolve_standing, event.names) if name is not None)
    return (PlaybookOrdered(tuple(dict.fromkeys(names))),) if names else ()


def _close_edit(step: _Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    names = {name: step.names.joined.get(landed, landed) for name, landed in step.names.landed.items()}
    # The number of the rendering that was edited means nothing on another machine.
    return (PlaybookEdited(None, event.source, rename_in_top(event.top or "", names)),)


def _curate(step: _Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    name = step.resolve_standing(event.name)
    changes: dict[str, Any] = {"name": name, "reason": ""}
    if isinstance(event, PointReworded):
        changes["text"] = _text(event.text)
    return () if name is None else (attrs.evolve(event, **changes),)


def _merge(step: _Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    name = step.resolve_standing(event.name)
    found = (step.resolve_standing(one) for one in event.merged)
    merged = tuple(dict.fromkeys(one for one in found if one is not None and one != name))
    return () if name is None or not merged else (PointMerged(name, merged, ""),)


def _void(step: _Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    ids = (*event.ids, *(step.book.session_ids(step.own, event.session) if event.session is not None else ()))
    begins = range(0, max(len(ids), 1), IDS_A_LINE)
    return tuple(EventsVoided(ids[begin : begin + IDS_A_LINE], None, "") for begin in begins)


def _match(step: _Step, record: EventRecord) -> tuple[Event, ...]:
    """Return an entry that was joined before, with what it brought then."""
    event: Any = record.event
    to = step.joined.get(record.id) or step.resolve_standing(event.to)
    name = step.names.by_id[record.id]
    # Without the other one it stands by itself.
    step.names.joined[name] = to or name
    return (PointMatched(name, to or name, event.helpful, event.harmful, _text(event.text)),)


def _keep(_: _Step, record: EventRecord) -> tuple[Event, ...]:
    return (record.event,)


def _unless_repeated(
    change: Callable[[_Step, EventRecord], tuple[Event, ...]], kind: str
) -> Callable[[_Step, EventRecord], tuple[Event, ...]]:
    """Return the same landing, which gives an event that counts nothing where the book has the delivery already."""

    def landing(step: _Step, record: EventRecord) -> tuple[Event, ...]:
        makes_entry = record.id in step.names.by_id
        return (EventRepeated(kind),) if step.repeated and not makes_entry else change(step, record)

    return landing


_LANDINGS: Final[dict[type[Any], Callable[[_Step, EventRecord], tuple[Event, ...]]]] = {
    PlaybookAdopted: _adopt,
    PointSeeded: _add,
    PointAdded: _add,
    PointRated: _unless_repeated(_rate, "point.rated"),
    PlaybookUpdated: _unless_repeated(_keep, "playbook.updated"),
    PointEdited: _unless_repeated(_edit, "point.edited"),
    PointRemoved: _unless_repeated(_remove, "point.removed"),
    PlaybookOrdered: _unless_repeated(_order, "playbook.ordered"),
    PlaybookEdited: _unless_repeated(_close_edit, "playbook.edited"),
    PointReworded: _curate,
    PointRetired: _curate,
    PointRestored: _curate,
    PointPinned: _curate,
    PointUnpinned: _curate,
    PointMerged: _merge,
    EventsVoided: _void,
    EventRedacted: _keep,
    RedactionLinked: _keep,
    # A book has these, and an own ledger does not: they land where a book is begun anew.
    PointMatched: _match,
    EventRepeated: _keep,
    BookRules: _keep,
}
"""Kinds that a book shares → what becomes of such an event. Other kinds stay in the own ledger."""

SHARED: Final = frozenset(_LANDINGS)
"""Classes of the events that leave this machine."""
