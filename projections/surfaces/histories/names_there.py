"""What names mean in the history of a machine that shared a book, for a ledger that does not have that book.

From its first sync on, such a machine shows its entries under the names of the book, and entries of other machines,
which its own ledger does not have.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.decisions.edit import rename_in_top
from tallybook.ledger.events import (
    BookTaken,
    NamesMeant,
    PlaybookEdited,
    PlaybookOrdered,
    PointAdded,
    PointEdited,
    PointSeeded,
)
from tallybook.ledger.names import read_sections
from tallybook.ledger.records import make_batch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tallybook.ledger.events import Event
    from tallybook.ledger.records import Batch, EventRecord

_MAKES_ENTRY: Final = (PointAdded, PointSeeded)
OF_THE_BOOK: Final = " of the book"
"""What follows the name of an entry that only the book has; no name ends so."""


@attrs.define
class NamesThere:
    """The names of one history, as far as it was read.

    Attributes:
        own: Name in the book → the name that an entry of this history had before.
        made: The names that this history gave its entries.
        left: Names that mean entries of other machines by now.
        shares: Whether there was a sync.
    """

    own: dict[str, str] = attrs.field(factory=dict)
    made: set[str] = attrs.field(factory=set)
    left: set[str] = attrs.field(factory=set)
    shares: bool = False

    def translate(self, batch: Batch) -> Batch:
        """Return the next batch with the names that its entries had before any sync."""
        new = {one.name for one in batch.events if isinstance(one, _MAKES_ENTRY)}
        translated = self._translate(batch, new) if self.shares else batch
        self.made |= new | {one.name for one in translated.events if isinstance(one, PointEdited)}
        for event in batch.events:
            if isinstance(event, BookTaken):
                self.shares = True
                self.own |= dict(zip(event.new_names, event.names, strict=False))
                self.left = {*self.own.values()} - self.own.keys()
        return translated

    def _translate(self, batch: Batch, new: Collection[str]) -> Batch:
        by_id = {name for one in batch.events if isinstance(one, NamesMeant) for name in one.names}
        fixed = {*new, *by_id}
        return make_batch(*(self._record(one, fixed) for one in batch.records), chain=batch.chain)

    def _record(self, record: EventRecord, fixed: Collection[str]) -> EventRecord:
        event: Any = record.event
        if isinstance(event, PlaybookEdited):
            sections = (read_sections(json.loads(event.top)) or {}) if event.top else {}
            names = {name: self._name(name, fixed) for listed in sections.values() for name in listed}
            return attrs.evolve(record, event=attrs.evolve(event, top=rename_in_top(event.top or "", names)))
        if isinstance(event, NamesMeant | BookTaken) or (isinstance(event, PointEdited) and self._is_new(event.name)):
            return record
        return attrs.evolve(record, event=attrs.evolve(event, **self._renamed(event, fixed)))

    def _is_new(self, name: str) -> bool:
        """Return whether a manual edit of a name is taken for a new entry: no entry of this history ever had it."""
        return name not in self.own and name not in self.made

    def _renamed(self, event: Event, fixed: Collection[str]) -> Mapping[str, Any]:
        changes: dict[str, Any] = {}
        if hasattr(event, "name"):
            changes["name"] = self._name(event.name, fixed)
        fields = ("names",) if isinstance(event, PlaybookOrdered) else ("merged",)
        for field in fields:
            if hasattr(event, field):
                changes[field] = tuple(self._name(name, fixed) for name in getattr(event, field))
        return changes

    def _name(self, name: str, fixed: Collection[str]) -> str:
        if name in fixed:
            return name
        if name in self.own:
            return self.own[name]
        return name if name in self.made and name not in self.left else name + OF_THE_BOOK
