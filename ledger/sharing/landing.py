"""Landing: what a machine's own batch becomes in a book that others have appended to meanwhile. Pure functions.

A batch keeps its events' ids and its order. Only what depends on the state of the book is decided anew: names that are
taken, texts that another entry has, counts that a manual edit set. Views and `sync` use the same functions, so a
machine shows its pending batches exactly as they will be in the book.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from tallybook.ledger.events import Entry, NamesMeant, PointAdded, PointEdited, PointMatched, PointSeeded
from tallybook.ledger.names import format_name, next_free_number, next_slug_name, slug_of
from tallybook.ledger.sharing.landed_kinds import LANDINGS, REDACTED, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallybook.ledger.events import Event
    from tallybook.ledger.records import EventRecord
    from tallybook.projections.playbook.view import Playbook

SHARED: Final = frozenset(LANDINGS)
"""Classes of the events that leave this machine."""


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
        """Return what its first line has as its idempotency key, None without one."""
        return self.records[0].delivery


class Book(Protocol):
    """What landing asks about the book and about the machine's own past; each is asked only where it matters."""

    def has_key(self, key: str) -> bool:
        """Return whether a batch of the book has this idempotency key."""
        ...

    def published(self, own: OwnBatch) -> Mapping[str, str] | None:
        """Return the entries that a batch made in the book, id → name; None where the book does not have the batch."""
        ...

    def had(self, name: str, taken: int) -> bool:
        """Return whether the book had an entry of this name up to an event number of the book."""
        ...

    def own_name(self, name: str) -> str | None:
        """Return the name in the book of an entry that the own ledger made under a name; None where it made none."""
        ...

    def matched(self, name: str) -> str | None:
        """Return the entry that an entry of the book was joined to when it landed; None where it was not joined."""
        ...

    def linked(self, id_: str) -> frozenset[str]:
        """Return the entries of the book whose text was equal to that of an own event before both were redacted."""
        ...

    def had_text(self, id_: str, name: str) -> bool:
        """Return whether an entry of the book ever had the text of an own event, which were both redacted since."""
        ...

    def has_text(self, id_: str) -> bool:
        """Return whether the book has a redacted manual edit with a text of another event, which is not redacted."""
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
        kept: Ids of manual edits whose own text is redacted, and which land with the text that their entry has by then.
    """

    landed: dict[str, str] = attrs.field(factory=dict)
    by_id: dict[str, str] = attrs.field(factory=dict)
    joined: dict[str, str] = attrs.field(factory=dict)
    kept: set[str] = attrs.field(factory=set)


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
        key: What its first line in the book has as its idempotency key, None without one.
        renamed: Own name → name in the book, for entries that this batch made and that have another name there.
    """

    own: OwnBatch
    events: tuple[LandedEvent, ...]
    key: str | None
    renamed: Mapping[str, str]


def land(own: OwnBatch, state: Playbook, names: Names, book: Book) -> LandedBatch:
    """Return a pending batch as it lands after the batches before it.

    Args:
        own: The batch.
        state: The playbook after the book and the batches landed so far.
        names: The names given so far; those of this batch's entries are added.
        book: Answers about the book.
    """
    key = own.records[0].key
    repeated = key is not None and book.has_key(key)
    step = Step(own, state, names, book, repeated, _names_meant(own, names, book))
    published = book.published(own)
    if published is not None:
        return _note_published(step, published)
    for record in own.records:
        step.name_created_entry(record)
    events = tuple(LandedEvent(record, event) for record in own.records for event in _land_event(step, record))
    return LandedBatch(own, events, None if repeated else own.key, step.renamed)


def _note_published(step: Step, published: Mapping[str, str]) -> LandedBatch:
    """Return a batch that the book has already: by an append whose answer was lost, or by another machine."""
    for record in step.own.records:
        event: Any = record.event
        name = published.get(record.id)
        if name is not None and not (isinstance(event, PointEdited) and step.resolve(event.name) is not None):
            step.names.landed[event.name] = step.names.by_id[record.id] = name
            if name != event.name:
                step.renamed[event.name] = name
    return LandedBatch(step.own, (), None, step.renamed)


def _land_event(step: Step, record: EventRecord) -> tuple[Event, ...]:
    """Return the events that one becomes: mostly one, none where it concerns nobody else."""
    change = LANDINGS.get(type(record.event))
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
class Step:
    """The landing of one batch.

    Attributes:
        own, state, names, book: As for ``land``.
        repeated: Whether the book has this delivery from another machine.
        meant: Name → name in the book, for names that the batch gives by id.
        taken_names: Names that this batch has given to its entries.
        joined: Id of an event that makes an entry → the standing entry of the same text.
        renamed: As in `LandedBatch`.
    """

    own: OwnBatch
    state: Playbook
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
        if found is None:
            return None
        joined = self.names.joined.get(found)
        if joined is None or found not in self.taken_names:
            # Where the other one was undone since, the entry stands by itself.
            stands = found in self.state.entries or found not in self.state.merged
            joined = found if stands else joined or self.book.matched(found)
        return joined or found

    def name_created_entry(self, record: EventRecord) -> None:
        """Give the entry that an event makes its name in the book: its own one, or the next free one."""
        event = record.event
        if not isinstance(event, PointAdded | PointSeeded | PointEdited | PointMatched):
            return
        if isinstance(event, PointEdited) and self.resolve(event.name) is not None:
            return
        standing = self._standing(record.id, event)
        name = self._free_name(event.name)
        self.taken_names.add(name)
        if standing is not None:
            self.joined[record.id] = standing
            self.names.joined[name] = standing
        self.names.landed[event.name] = self.names.by_id[record.id] = name
        if name != event.name:
            self.renamed[event.name] = name

    def _standing(self, id_: str, event: Any) -> str | None:
        """Return the entry of the book that has the text of a new one; None where the new one stands by itself."""
        text = text_of(event.text)
        linked = self.book.linked(id_) if text == REDACTED else frozenset[str]()

        def is_equal(entry: Entry) -> bool:
            # Two redacted texts look the same; only what was equal before is noted.
            return entry.text == text and (text != REDACTED or entry.name in linked)

        if isinstance(event, PointEdited):
            # A person may well add by hand a text that another entry has, as long as he saw that.
            shown = self.book.shown(self.own)
            if shown is None or any(map(is_equal, shown.values())):
                return None
        return next((entry.name for entry in self.state.entries.values() if is_equal(entry)), None)

    def counts(self, event: Any) -> tuple[int, int]:
        """Return the counts that a new entry brings with it: none where the book has the delivery already."""
        if self.repeated or isinstance(event, PointAdded):
            return 0, 0
        return event.helpful, event.harmful

    def _free_name(self, wanted: str) -> str:
        taken = {*self.state.used, *self.taken_names}
        if wanted not in taken:
            return wanted
        if (slug := slug_of(wanted)) is not None:
            return next_slug_name(slug, taken)
        return format_name(next_free_number(self.state.high_water, taken))
