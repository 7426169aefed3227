"""Rows of measurements: pairs that ran one after the other, their ratios, and the table in the README."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
import os
from pathlib import Path
import platform
from statistics import median

import attrs

from tallybook.ledger import clock

BEGIN, END = "<!-- benchmarks -->\n", "<!-- end of the benchmarks -->\n"
HEADINGS = ("| row | what | against | ratio | min to max | ours, theirs | measured |", "|---|---|---|---|---|---|---|")


class NotMeasuredError(Exception):
    """What a row needs is not installed here."""


@attrs.frozen
class BenchmarkOptions:
    """The options of the command line.

    Attributes:
        folder: Where files are made; deleted after the run.
        events: Length of the longest ledger, 1 or more.
        repeats: How many pairs each row takes, 1 or more; None for the row's own number.
    """

    folder: Path
    events: int
    repeats: int | None = None

    def pairs(self, usual: int) -> int:
        """Return how many pairs to measure, ``usual`` by default."""
        return usual if self.repeats is None else self.repeats


@attrs.frozen
class BenchmarkRow:
    """One row of the table.

    Attributes:
        name: The requested row.
        what: The measured operation.
        against: Its rival or its floor.
        pairs: The figures of each pair, as (ours, theirs).
        unit: Unit of the figures.
        scale: The figures are multiplied by this to be in the unit.
        is_time: Whether less is better, so that a ratio is theirs divided by ours; else it is ours divided by theirs.
    """

    name: str
    what: str
    against: str
    pairs: Sequence[tuple[float, float]]
    unit: str
    scale: float = 1.0
    is_time: bool = True

    def __str__(self) -> str:
        """Render as a line of the table."""
        ratios = [theirs / ours if self.is_time else ours / theirs for ours, theirs in self.pairs]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        sides = ", ".join(figure(median(side) * self.scale) for side in zip(*self.pairs, strict=True))
        when = f"{clock.utc_now().at[:10]}, {len(ratios)} pairs"
        cells = (self.name, self.what, self.against, f"{median(ratios):.2f}", spread, f"{sides} {self.unit}", when)
        return f"| {' | '.join(cells)} |"


def alternate(ours: Callable[[], float], theirs: Callable[[], float], pairs: int) -> list[tuple[float, float]]:
    """Measure (ours, theirs) in turn, each as often first as second, so that a drift of the machine hits both."""
    taken = []
    for index in range(pairs):
        if index % 2:
            second = theirs()
            taken.append((ours(), second))
        else:
            first = ours()
            taken.append((first, theirs()))
    return taken


def figure(value: float) -> str:
    """Return a number with about three significant digits."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 4
    return f"{value:,.{digits}f}"


def render(lines: Iterable[str]) -> str:
    """Return lines as a table in Markdown, with the machine of the measurement."""
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return "\n".join([f"Last on {machine}.", "", *HEADINGS, *lines]) + "\n"


def merge_rows(text: str, rows: Iterable[BenchmarkRow], order: Sequence[str]) -> str:
    """Return the README with these rows in its table in place of earlier ones, in an order of their names."""
    before, _, after_begin = text.partition(BEGIN)
    table, end, after = after_begin.partition(END)
    fresh = [(row.name, str(row)) for row in rows]
    measured = {name for name, _ in fresh}
    earlier = [(line.split("|")[1].strip(), line) for line in table.splitlines() if line.startswith("| ")][1:]
    lines = [row for row in earlier if row[0] in order and row[0] not in measured] + fresh
    lines.sort(key=lambda row: order.index(row[0]))
    return f"{before}{BEGIN}{render(line for _, line in lines)}{end}{after}"
