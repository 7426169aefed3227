"""A segment of the index: which batches of a part of the ledger concern which entry or session, and its times.

A segment may list a batch too many and never one too few: the caller reads each batch that is listed. Pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.encoding.codec import parse_session
from tallybook.ledger.events import EVENT_TYPES, EventRedacted, EventsVoided, PointMerged, PointNoted
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import START, Position
from tallybook.projections.playbook.view import CHANGES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallybook.ledger.records import Batch

MERGES: Final = "merges"
UNDOINGS: Final = "undoings"
REDACTIONS: Final = "redactions"
_ALSO: Final[dict[type[Any], str]] = {PointMerged: MERGES, EventsVoided: UNDOINGS, EventRedacted: REDACTIONS}
"""Class of event → the key that lists every batch with such an event."""

ABOUT: Final = frozenset(
    kind for kind, _ in EVENT_TYPES.values() if kind in {*CHANGES, PointNoted} and "name" in attrs.fields_dict(kind)
)
"""Classes of events that change or describe an entry that they name."""


@lru_cache(maxsize=16_384)
def entry(name: str) -> str:
    """Return the key of an entry."""
    return f"entry {dumps(name)}"


@lru_cache(maxsize=1024)
def session(name: str) -> str:
    """Return the key of a session."""
    return f"session {dumps(name)}"


def session_prefix(prefix: str) -> str:
    """Return the common beginning of the keys of all sessions whose ids have a prefix."""
    return session(prefix)[:-1]


def entries_in(batch: Batch) -> set[str]:
    """Return the entries that a batch changes or describes."""
    names = set()
    for event in batch.events:
        if type(event) in ABOUT:
            names.add(event.name)  # type: ignore[attr-defined]
            if isinstance(event, PointMerged):
                names.update(event.merged)
    return names


def _keys(batch: Batch, raters: Collection[bytes]) -> set[str]:
    keys = set(map(entry, entries_in(batch)))
    keys.update(_ALSO[kind] for kind in map(type, batch.events) if kind in _ALSO)
    keys.update(session(name) for name in map(parse_session, raters) if name is not None)
    return keys


@attrs.define
class Segment:
    """Consecutive batches, and the keys that each of them has.

    Attributes:
        begin: The position before the first batch.
        before: The position before the last batch, which is read again: it proves that the ledger is the same.
        end: The position after the last batch.
        first_at: When the first batch was recorded, empty where there is none.
        last_at: When the last batch was recorded.
        earliest: The earliest time of all batches.
        latest: The latest time of all batches.
        table: A line for each key, after a line feed: the key, a tab, and the batches that have it, as offsets from
            the beginning of the segment. Text is searched faster than it would be parsed. Empty until ``close``.
        offsets: The same by key, while the segment grows.
    """

    begin: Position = START
    before: Position = START
    end: Position = START
    first_at: str = ""
    last_at: str = ""
    earliest: str = ""
    latest: str = ""
    table: bytes = b""
    offsets: dict[str, list[str]] = attrs.field(factory=dict)

    @classmethod
    def after(cls, position: Position) -> Segment:
        """Return an empty segment that begins at a position."""
        return cls(position, position, position)

    @classmethod
    def load(cls, header: Any, body: bytes) -> Segment:
        """Return the segment of a file.

        Raises:
            ValueError, TypeError: The header is not one of a segment.
        """
        positions, (first_at, last_at, earliest, latest) = header
        begin, before, end = (Position(*position) for position in positions)
        return cls(begin, before, end, first_at, last_at, earliest, latest, b"\n" + body)

    @property
    def header(self) -> Any:
        """Return what a file says before the table."""
        times = (self.first_at, self.last_at, self.earliest, self.latest)
        return [(self.begin[:3], self.before[:3], self.end[:3]), times]

    @property
    def body(self) -> bytes:
        """Return the table as a file has it."""
        return self.table[1:]

    @property
    def events(self) -> int:
        """Return how many events the segment has."""
        return self.end.seq - self.begin.seq

    def add(self, batch: Batch) -> None:
        """Add the next batch."""
        at, raters = batch.unverified_authors
        offset = str(batch.begin - self.begin.offset)
        for key in _keys(batch, raters):
            self.offsets.setdefault(key, []).append(offset)
        if not self.first_at:
            self.first_at = self.earliest = self.latest = at
        self.earliest, self.latest, self.last_at = min(self.earliest, at), max(self.latest, at), at
        self.before, self.end = self.end, Position(batch.last, batch.chain, batch.end)

    def close(self) -> None:
        """Write the table; no batch is added after this."""
        lines = (f"\n{key}\t{' '.join(offsets)}" for key, offsets in self.offsets.items())
        self.table = ("".join(lines) + "\n").encode("utf-8", "replace")
        self.offsets.clear()

    def find(self, key: str) -> Iterator[int]:
        """Yield the offset of each batch that has a key."""
        yield from self.find_prefix(f"{key}\t")

    def find_prefix(self, prefix: str) -> Iterator[int]:
        """Yield the offset of each batch that has a key with a prefix, key by key."""
        beginning = b"\n" + prefix.encode("utf-8", "replace")
        line = self.table.find(beginning)
        while line >= 0:
            end = self.table.find(b"\n", line + 1)
            offsets = self.table[self.table.find(b"\t", line) + 1 : end]
            yield from (self.begin.offset + int(offset) for offset in offsets.split())
            line = self.table.find(beginning, end)
