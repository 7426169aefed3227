"""The parts of every row: settings, alternating pairs, and the table of ratios."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


class NoRivalError(Exception):
    """A rival of a row is not installed."""


@attrs.frozen
class Setting:
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
class Row:
    """One row of the table.

    Attributes:
        name: The requested row.
        what: The measured operation.
        against: Its rival or its floor.
        ratios: One for each pair; for times, the rival's divided by ours, so that above 1 ours is faster.
        ours: Our median, in ``unit``.
        theirs: The rival's median, in ``unit``.
        unit: Unit of the two medians.
        note: What a reader must know of the conditions; empty without any.
    """

    name: str
    what: str
    against: str
    ratios: tuple[float, ...]
    ours: float
    theirs: float
    unit: str
    note: str = ""

    @property
    def ratio(self) -> float:
        """Return the median of the pairs' ratios."""
        return median(self.ratios)

    def as_json(self) -> dict[str, Any]:
        """Return the row as a JSON object."""
        spread = {"ratio": self.ratio, "low": min(self.ratios), "high": max(self.ratios)}
        return attrs.asdict(self) | spread


def alternate(ours: Callable[[], float], theirs: Callable[[], float], pairs: int) -> list[tuple[float, float]]:
    """Measure both sides in turn, each as often first as second, so that a drift of the machine hits both.

    Returns:
        The figures of each pair, as (ours, theirs).
    """
    taken = []
    for index in range(pairs):
        if index % 2:
            second = theirs()
            taken.append((ours(), second))
        else:
            first = ours()
            taken.append((first, theirs()))
    return taken


def medians(taken: Iterable[tuple[float, float]], scale: float = 1.0) -> tuple[float, float]:
    """Return the median of either side, multiplied by ``scale``."""
    ours, theirs = zip(*taken, strict=True)
    return median(ours) * scale, median(theirs) * scale


def faster(taken: Iterable[tuple[float, float]]) -> tuple[float, ...]:
    """Return for each pair of times how many times as fast Tallybook is."""
    return tuple(theirs / ours for ours, theirs in taken)


def together(rows: Iterable[Row]) -> list[Row]:
    """Return each row once, with the pairs of every run that measured it."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.name, row.what, row.against), []).append(row)
    return [
        attrs.evolve(
            runs[0],
            ratios=tuple(ratio for run in runs for ratio in run.ratios),
            ours=median(run.ours for run in runs),
            theirs=median(run.theirs for run in runs),
        )
        for runs in found.values()
    ]


HEADINGS = ("row", "what", "against", "ratio", "min to max", "ours", "theirs")
LEGEND = (
    "ratio: the median over the pairs of the rival's time divided by ours, so that above 1 Tallybook is faster;",
    "for memory: the peak at that length divided by the peak at the shortest;",
    "for a forecast that held: the share that did divided by the share that was to, and 1 is as stated;",
    "for its error: the rival's divided by ours.",
)


def figure(value: float) -> str:
    """Return a number with about three significant digits."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 4
    return f"{value:,.{digits}f}"


def _cells(row: Row) -> tuple[str, ...]:
    spread = f"{min(row.ratios):.2f} to {max(row.ratios):.2f}"
    sides = [f"{figure(side)} {row.unit}" for side in (row.ours, row.theirs)]
    return (row.name, row.what, row.against, f"{row.ratio:.2f}", spread, *sides)


def render(rows: Iterable[Row], left_out: Iterable[str]) -> str:
    """Return the table in Markdown, with the notes and what was left out under it."""
    kept = list(rows)
    lines = [HEADINGS, *map(_cells, kept)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    padded.insert(1, " | ".join("-" * width for width in widths))
    notes = [f"- {row.name}, {row.what}: {row.note}" for row in kept if row.note]
    notes += [f"- left out: {why}" for why in left_out]
    return "\n".join([*(f"| {line} |" for line in padded), "", *LEGEND, "", *notes]) + "\n"
