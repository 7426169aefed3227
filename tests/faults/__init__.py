"""Faults: injected faults of a ledger, and tallies of lost and believed events.

    python -m tests.faults [ROW ...] [--count N] [--only TEXT] [--seed S] [--folder DIR]

The modules import one another as ``faults``, like the tests: the folder of the tests is on the path.
This module has the parts of every row: its settings, its tally, and the table.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
import sys
from threading import Event
from typing import TYPE_CHECKING, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

T = TypeVar("T")

_TESTS = str(Path(__file__).resolve().parent.parent)
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)


class NoToolError(Exception):
    """A tool, a library or a privilege that a row needs is missing."""


@attrs.frozen
class Setting:
    """The options of the command line.

    Attributes:
        folder: Where files are made; deleted after the run.
        seed: The seed of the random faults: the same seed gives the same faults.
        count: How many faults each row makes, 1 or more; None for the row's own number.
        only: A part of the names of the faults that the row ``share`` makes; empty for all of them.
        stop: Set once the run is to end: the faults made until then are tallied.
    """

    folder: Path
    seed: int = 1
    count: int | None = None
    only: str = ""
    stop: Event = attrs.field(factory=Event, eq=False)

    def times(self, usual: int) -> int:
        """Return how many faults to make, ``usual`` by default."""
        return usual if self.count is None else self.count

    def until_stopped(self, faults: Iterable[T]) -> Iterator[T]:
        """Yield the faults to make until the run is to end."""
        for fault in faults:
            if self.stop.is_set():
                return
            yield fault


@attrs.frozen
class Tally:
    """One row of a table.

    Attributes:
        row: The requested row.
        store: The store with the faults.
        tried: How many faults were made.
        counts: Heading → the number of such results; the tallies of one row have the same headings in the same order.
        note: A note on the conditions; empty without one.
        failures: Broken promises, each with what repeats it.
    """

    row: str
    store: str
    tried: int
    counts: Mapping[str, int]
    note: str = ""
    failures: tuple[str, ...] = ()


SUMMARY = ("acknowledged", "lost", "doubled", "believed")
"""What every fault is asked in the end; a heading of a row that says the same in other words stands in SAME."""
SAME = {"lost": "rows lost", "believed": "silently different"}


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _table(lines: list[tuple[str, ...]]) -> list[str]:
    """Return a table in Markdown; the first row is its head."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    padded.insert(1, " | ".join("-" * width for width in widths))
    return [*(f"| {line} |" for line in padded), ""]


def _row(row: str, tallies: list[Tally]) -> list[str]:
    counts = [(tally.store, f"{tally.tried:,}", *map(_number, tally.counts.values())) for tally in tallies]
    return _table([("store", row, *tallies[0].counts), *counts])


def _summary(tallies: list[Tally]) -> list[str]:
    """Return the last table: the faults and their results, of Tallybook's own store alone."""
    lines: list[tuple[str, ...]] = [("fault", "made", *SUMMARY)]
    sums = dict.fromkeys(("made", *SUMMARY), 0)
    for tally in tallies:
        found = {name: tally.counts.get(name, tally.counts.get(SAME.get(name, name))) for name in SUMMARY}
        lines.append((f"{tally.row}: {tally.store}", f"{tally.tried:,}", *map(_number, found.values())))
        for name, count in (("made", tally.tried), *found.items()):
            sums[name] += count or 0
    return _table([*lines, ("all", *map(_number, sums.values()))])


def render(tallies: Iterable[Tally], left_out: Iterable[str]) -> str:
    """Return a table in Markdown for each row, with notes, failures and what was left out, and one for all of them."""
    kept = list(tallies)
    lines = [line for row, some in groupby(kept, lambda tally: tally.row) for line in _row(row, list(some))]
    lines += [f"- {tally.store}: {tally.note}" for tally in kept if tally.note]
    lines += [f"- FAILED, {tally.row}, {tally.store}: {failure}" for tally in kept for failure in tally.failures]
    lines += [f"- left out: {why}" for why in left_out]
    lines += [""] if lines and lines[-1] else []
    return "\n".join([*lines, *(_summary(kept) if kept else [])])
