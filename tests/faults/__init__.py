"""Faults: injected faults of a ledger, and tallies of lost and believed events.

    python -m tests.faults [ROW ...] [--count N] [--only TEXT] [--seed S] [--folder DIR]

The modules import one another as ``faults``, like the tests: the folder of the tests is on the path.
This module has the parts of every row: its settings and its tally.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
import sys

import attrs

_TESTS = str(Path(__file__).resolve().parent.parent)
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)


class NoToolError(Exception):
    """A tool, a library or a privilege that a row needs is missing."""


@attrs.frozen
class FaultOptions:
    """The options of the command line.

    Attributes:
        folder: Where files are made; deleted after the run.
        seed: The seed of the random faults: the same seed gives the same faults.
        count: How many faults each row makes, 1 or more; None for the row's own number.
        only: A part of the names of the faults of ``share`` and of the commands of ``at-calls``; empty for all.
    """

    folder: Path
    seed: int = 1
    count: int | None = None
    only: str = ""

    def times(self, usual: int) -> int:
        """Return how many faults to make, ``usual`` by default."""
        return usual if self.count is None else self.count


@attrs.frozen
class FaultCounts:
    """What came of some faults.

    Attributes:
        row: The requested row.
        store: The store with the faults.
        tried: How many faults were made.
        counts: Heading → the number of such results.
        note: A note on the conditions; empty without one.
        failures: Broken promises, each with what repeats it.
    """

    row: str
    store: str
    tried: int
    counts: Mapping[str, int]
    note: str = ""
    failures: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Render as lines: the counts, and each failure."""
        counts = ", ".join(f"{heading} {count:,}" for heading, count in self.counts.items())
        note = f" ({self.note})" if self.note else ""
        failures = [f"  FAILED: {failure}" for failure in self.failures]
        return "\n".join([f"{self.row}, {self.store}: {self.tried:,} made; {counts}{note}", *failures])
