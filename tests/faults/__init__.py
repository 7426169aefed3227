r"""Faults: what was done to a ledger, and what came of it, told as tallies of what was lost or believed.

    python -m tests.faults [ROW ...] [--count N] [--seed S] [--folder DIR]

The modules import one another as ``faults``, as the tests beside them do: the folder of the tests is on the path.
What every row is made of stands here: the setting it gets, the tally it yields, the table that comes out.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
import sys
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TESTS = str(Path(__file__).resolve().parent.parent)
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)


class NoToolError(Exception):
    """What a row needs is not here: a tool, a library, a privilege."""


@attrs.frozen
class Setting:
    """What the caller asked for.

    Attributes:
        folder: Where files are made; gone after the run.
        seed: What the faults are drawn from: the same seed, the same faults.
        count: How many faults each row makes, 1 or more; None for the row's own number.
    """

    folder: Path
    seed: int = 1
    count: int | None = None

    def times(self, usual: int) -> int:
        """Return how many faults to make where ``usual`` are meant."""
        return usual if self.count is None else self.count


@attrs.frozen
class Tally:
    """One line of a row's table.

    Attributes:
        row: The row that was asked for.
        store: What the faults were done to.
        tried: How many faults were made.
        counts: Heading → how many of them came out so; a dash (None) where that cannot be asked of this store. The
            tallies of one row have the same headings in the same order.
        note: What a reader must know of the conditions; empty without any.
        failures: Broken promises of ours, each with what repeats it; empty for a rival, and where all is well.
    """

    row: str
    store: str
    tried: int
    counts: Mapping[str, int | None]
    note: str = ""
    failures: tuple[str, ...] = ()


def _cells(tally: Tally) -> tuple[str, ...]:
    counts = ("-" if count is None else f"{count:,}" for count in tally.counts.values())
    return (tally.store, f"{tally.tried:,}", *counts)


def _table(row: str, tallies: list[Tally]) -> list[str]:
    lines = [("store", row, *tallies[0].counts), *map(_cells, tallies)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    padded.insert(1, " | ".join("-" * width for width in widths))
    return [*(f"| {line} |" for line in padded), ""]


def render(tallies: Iterable[Tally], left_out: Iterable[str]) -> str:
    """Return a table in Markdown for each row, with notes, failures and what was left out under them."""
    kept = list(tallies)
    lines = [line for row, some in groupby(kept, lambda tally: tally.row) for line in _table(row, list(some))]
    lines += [f"- {tally.store}: {tally.note}" for tally in kept if tally.note]
    lines += [f"- FAILED, {tally.row}, {tally.store}: {failure}" for tally in kept for failure in tally.failures]
    lines += [f"- left out: {why}" for why in left_out]
    return "\n".join(lines) + "\n"
