"""Names in own events that the book does not share: an entry that landed under another name is named as in the book."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.events import (
    KIND_OF,
    BookTaken,
    LiftAsked,
    PlaybookInjected,
    PointCited,
    PointNoted,
    PointProposed,
    PointReviewed,
)
from tallybook.ledger.fast_stdlib import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallybook.ledger.line import RawBatch
    from tallybook.projections.surfaces.sharing.shared_log import SharedLog

_NAMING: Final = tuple(
    b'"kind":"%b"' % KIND_OF[cls].encode()
    for cls in (LiftAsked, PlaybookInjected, PointCited, PointNoted, PointProposed, PointReviewed)
)
_TAKEN: Final = b'"kind":"%b"' % KIND_OF[BookTaken].encode()
_BODY: Final = b'"body":'
_DECODER: Final = json.JSONDecoder()


class _Sync(NamedTuple):
    """One sync of this machine.

    Attributes:
        number: Own number of the event that says so.
        taken: The book's event number that the playbook contains from there on.
        renamed: Own name → name in the book, of the entries that it published under another name.
    """

    number: int
    taken: int
    renamed: Mapping[str, str]


class OwnNames:
    """The names in one reading of the own ledger.

    A name means what it meant when its event was recorded: an own entry, unless the book had the name by then.
    """

    def __init__(self, log: SharedLog) -> None:
        """Read which entries were renamed."""
        self._log = log
        self._syncs = [
            _Sync(batch.last, event.seq, dict(zip(event.names, event.new_names, strict=False)))
            for batch in decode(raw for raw in log.own.read() if _TAKEN in raw.data)
            for event in batch.events
            if isinstance(event, BookTaken)
        ]
        if log.until is not None:
            self._syncs = [one for one in self._syncs if one.number <= log.until]
        self._has_renames = any(one.renamed for one in self._syncs)

    def rename(self, batch: RawBatch) -> RawBatch:
        """Return a batch of the own ledger with the names of the book; its bytes no longer prove themselves."""
        if not self._has_renames or not any(kind in line for line in batch.lines for kind in _NAMING):
            return batch
        return batch._replace(lines=[self._line(line, batch.first) for line in batch.lines])

    def _line(self, line: bytes, number: int) -> bytes:
        if not any(kind in line for kind in _NAMING):
            return line
        begin = line.index(_BODY) + len(_BODY)
        text = line[begin:].decode()
        body, end = _DECODER.raw_decode(text)
        if "name" in body:
            body["name"] = self._name(body["name"], number)
        for field in ("names", "held", "units", "merged"):
            if field in body:
                body[field] = [self._name(name, number) for name in body[field]]
        return line[:begin] + dumps(body).encode() + text[end:].encode()

    def _name(self, name: str, number: int) -> str:
        """Return the present name of the entry that a name meant at an own event."""
        later = next((one for one in self._syncs if one.number > number and name in one.renamed), None)
        if later is None:
            return name
        taken = max((one.taken for one in self._syncs if one.number < number), default=0)
        had = taken and name in self._log.book_playbook(taken).used
        return name if had else later.renamed[name]
