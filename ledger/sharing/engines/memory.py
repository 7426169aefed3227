"""An engine in memory: the model that the others are compared with, and the engine of the laws' random histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallybook.ledger.sharing.engines.engine import NOTHING, Appended, Contents, End, Outcome, Run, cut_at

if TYPE_CHECKING:
    from collections.abc import Sequence


class MemoryEngine:
    """Holds runs in a list. Several machines share one by sharing the object.

    Attributes:
        address: As in `Engine`.
        run_bytes: As in `Engine`.
        runs: The runs, in order; tests roll it back, empty it and change it.
        turn: Counts changes, so that a list that was rolled back and refilled has another token.
    """

    def __init__(self, address: str = "memory", run_bytes: int = 2 * 1024 * 1024) -> None:
        """Begin with nothing."""
        self.address = address
        self.run_bytes = run_bytes
        self.runs: list[Run] = []
        self.turn = 0

    def read(self, after: int, limit: int | None = None) -> Contents:
        """Return what it holds after an event number."""
        runs = tuple(run._replace(place=f"run {index}") for index, run in enumerate(self.runs, 1))
        first = runs[0].first if runs else 0
        new = tuple(run for run in runs if run.last > after)
        some = cut_at(new, limit)
        return Contents(some, first, self._end(), len(some) < len(new))

    def append(self, expected: End, runs: Sequence[Run]) -> Appended:
        """Store runs, if it still ends where that was expected."""
        if expected.token != self._end().token:
            return Appended(Outcome.MOVED)
        return self._store([*self.runs, *runs])

    def replace(self, expected: End, runs: Sequence[Run]) -> Appended:
        """Store runs in place of all, if it still ends where that was expected."""
        if expected.token != self._end().token:
            return Appended(Outcome.MOVED)
        return self._store(list(runs))

    def _store(self, runs: list[Run]) -> Appended:
        self.turn += 1
        self.runs = runs
        return Appended(Outcome.DONE, self._end())

    def _end(self) -> End:
        if not self.runs:
            return NOTHING
        return End(self.runs[-1].last, self.runs[-1].after, str(self.turn))

    def close(self) -> None:
        """Do nothing: there is no connection."""
