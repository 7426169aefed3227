"""Periods by name, each unpacked when it is asked for: three years of days are read and few are looked at."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Final

from tallybook.projections.scores.tally import Tally
from tallybook.projections.surfaces.scores.cache.rows import packed_tally, unpacked_tally

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OPEN: Final = 64
"""Periods that are held unpacked while others change: a packed one takes a tenth of the memory."""


class Kept(MutableMapping[str, Tally]):
    """Periods, packed until they are asked for. Whoever changes one sets it again; whoever asks for all holds all."""

    def __init__(self, rows: Mapping[str, bytes] | None = None) -> None:
        """Take the periods as they were packed."""
        self._rows = dict(rows or {})
        self._open: dict[str, Tally] = {}
        self._unpacked: set[str] = set()
        self._changed: set[str] = set()

    def __getitem__(self, name: str) -> Tally:
        """Return a period, to be looked at."""
        tally = self._open.get(name)
        if tally is None:
            tally = self._open[name] = unpacked_tally(self._rows[name])
        return tally

    def __setitem__(self, name: str, tally: Tally) -> None:
        """Keep a period that was changed."""
        self._rows.setdefault(name, b"")
        self._changed.add(name)
        self._unpacked.add(name)
        self._open[name] = tally
        while len(self._open) > OPEN:
            first = next(iter(self._open))
            self._pack(first)
            del self._open[first]

    def __delitem__(self, name: str) -> None:
        """Take a period out."""
        del self._rows[name]
        self._open.pop(name, None)
        self._unpacked.discard(name)
        self._changed.add(name)

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._rows)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._rows)

    def _pack(self, name: str) -> None:
        if name in self._unpacked:
            self._rows[name] = packed_tally(self._open[name])
            self._unpacked.discard(name)

    def rows(self) -> dict[str, bytes]:
        """Return all of them, packed."""
        for name in tuple(self._unpacked):
            self._pack(name)
        return self._rows

    def changed(self) -> set[str]:
        """Return the names of those that were changed or taken out since this was asked last."""
        changed, self._changed = self._changed, set()
        return changed
