"""What a stretch of the ledger speaks of: the places where it names an entry or a session, and when it was recorded.

It may name a place too many, and never one too few: whoever asks reads what stands there. Pure.
"""

from __future__ import annotations

from functools import lru_cache
import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.encoding.header import parse_session
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
"""Kind of event → the key under which all of it is found."""

ABOUT: Final = frozenset(
    kind for kind, _ in EVENT_TYPES.values() if kind in {*CHANGES, PointNoted} and "name" in attrs.fields_dict(kind)
)
"""Kinds that say something of an entry that they name."""


@lru_cache(maxsize=16_384)
def entry(name: str) -> str:
    """Return the key of an entry."""
    return f"entry {dumps(name)}"


@lru_cache(maxsize=1024)
def session(name: str) -> str:
    """Return the key of a session."""
    return f"session {dumps(name)}"


def sessions(beginning: str) -> str:
    """Return how the keys of all sessions begin whose ids begin so."""
    return session(beginning)[:-1]


def names(batch: Batch) -> set[str]:
    """Return the entries of which a batch says something that counts, or is told of them."""
    found = set()
    for event in batch.events:
        if type(event) in ABOUT:
            found.add(event.name)  # type: ignore[union-attr]
            if isinstance(event, PointMerged):
                found.update(event.merged)
    return found


def _keys(batch: Batch, by: Collection[bytes]) -> set[str]:
    found = set(map(entry, names(batch)))
    found.update(_ALSO[kind] for kind in map(type, batch.events) if kind in _ALSO)
    found.update(session(name) for name in map(parse_session, by) if name is not None)
    return found


@attrs.define
class Stretch:
    """Batches that follow one another, and what they speak of.

    Attributes:
        begin: The place before the first.
        before: The place before the last, which is read again: it proves that this is the ledger.
        end: The place behind the last.
        first_at: When the first was recorded, empty where there is none.
        last_at: When the last was.
        least: The earliest time of them all.
        greatest: The latest.
        told: Key → the batches that may be meant, each by its distance from the beginning in bytes, divided by blanks:
            as text, a line each, behind a line feed. Empty until it is told.
        places: The same while it grows.
    """

    begin: Position = START
    before: Position = START
    end: Position = START
    first_at: str = ""
    last_at: str = ""
    least: str = ""
    greatest: str = ""
    told: bytes = b""
    places: dict[str, list[str]] = attrs.field(factory=dict)

    @classmethod
    def behind(cls, mark: Position) -> Stretch:
        """Return one that begins at a place."""
        return cls(mark, mark, mark)

    @property
    def events(self) -> int:
        """Return how many events there are in it."""
        return self.end.seq - self.begin.seq

    def hear(self, batch: Batch) -> None:
        """Take in the next batch."""
        at, by = batch.unverified_authors
        place = str(batch.begin - self.begin.offset)
        for key in _keys(batch, by):
            self.places.setdefault(key, []).append(place)
        if not self.first_at:
            self.first_at = self.least = self.greatest = at
        self.least, self.greatest, self.last_at = min(self.least, at), max(self.greatest, at), at
        self.before, self.end = self.end, Position(batch.last, batch.chain, batch.end)

    def tell(self) -> None:
        """Put what it speaks of into the form in which it is kept, and grow no further."""
        lines = (f"\n{key}\t{' '.join(places)}" for key, places in self.places.items())
        self.told = ("".join(lines) + "\n").encode("utf-8", "replace")
        self.places.clear()

    def where(self, key: str) -> Iterator[int]:
        """Yield the offset of each batch that has a key."""
        yield from self._where(key.encode("utf-8", "replace") + b"\t")

    def where_begins(self, key: str) -> Iterator[int]:
        """Yield the offset of each batch that has a key that begins so, key by key."""
        yield from self._where(key.encode("utf-8", "replace"))

    def _where(self, beginning: bytes) -> Iterator[int]:
        line = self.told.find(b"\n" + beginning)
        while line >= 0:
            end = self.told.find(b"\n", line + 1)
            places = self.told[self.told.find(b"\t", line) + 1 : end]
            yield from (self.begin.offset + int(place) for place in places.split())
            line = self.told.find(b"\n" + beginning, end)


def packed(stretch: Stretch, code: str) -> bytes:
    """Return a stretch that was told as bytes, with what names the code that made it."""
    marks = (stretch.begin[:3], stretch.before[:3], stretch.end[:3])
    times = (stretch.first_at, stretch.last_at, stretch.least, stretch.greatest)
    return dumps([code, marks, times]).encode() + stretch.told


def unpacked(data: bytes, code: str) -> Stretch | None:
    """Return the stretch of such bytes, None where other code made it.

    Raises:
        ValueError, TypeError: They are none.
    """
    head, _, told = data.partition(b"\n")
    made_by, (begin, before, end), times = json.loads(head)
    if made_by != code:
        return None
    first_at, last_at, least, greatest = times
    return Stretch(
        Position(*begin), Position(*before), Position(*end), first_at, last_at, least, greatest, b"\n" + told
    )
