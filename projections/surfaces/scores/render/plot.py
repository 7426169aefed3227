"""A score day by day as a chart of plain characters, a column or more for each day with data."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

from tallybook.projections.surfaces.console.chart import GLYPHS, LINES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.projections.scores.periods import Series

ROWS: Final = 6
MAX_COLUMNS: Final = 62
_STEP: Final = 10
_LABEL: Final = 3
_DAY: Final = len("2026-01-16")
_FULL: Final = 100


def plot(series: Series, width: int, *, utf: bool) -> list[str]:
    """Return the lines of a chart, none wider than ``width``; the latest days where not all fit.

    Args:
        series: Days with data in order, one or more, each with a score from 0 to 100.
        width: Columns, from 10.
        utf: Whether there are other characters than ASCII.
    """
    room = min(width - _LABEL - 2, MAX_COLUMNS)
    shown = list(series)[-room:]
    wide = max(room // len(shown), 1) if len(shown) > 1 else 1
    scores = [value for _, value in shown]
    least, most = bounds(scores)
    lines, glyphs = LINES[utf], GLYPHS[utf][0]
    unit = (most - least) / ROWS
    rows = []
    for row in reversed(range(ROWS)):
        fills = [min(max((value - least) / unit - row, 0), 1) for value in scores]
        cells = "".join(glyphs[ceil(fill * (len(glyphs) - 1))] * wide for fill in fills)
        label = most if row == ROWS - 1 else ""
        rows.append(f"{label:>{_LABEL}} {lines.bar if label == '' else lines.tick}{cells}".rstrip())
    drawn = wide * len(shown)
    rows.append(f"{least:>{_LABEL}} {lines.cross}{lines.dash * drawn}")
    first, last = shown[0][0].isoformat(), shown[-1][0].isoformat()
    ends = last if first == last else f"{first}{last.rjust(max(drawn - _DAY, _DAY + 1))}"
    margin = " " * min(_LABEL + 2, max(width - len(ends), 0))
    return [*rows, *(f"{margin}{ends}".split() if len(ends) > width else [f"{margin}{ends}"])]


def bounds(scores: Sequence[int]) -> tuple[int, int]:
    """Return the scores at the bottom and the top: whole tens around the scores, so that a low score has a bar."""
    least = max((min(scores) - 1) // _STEP * _STEP, 0)
    return least, min(max(-(-max(scores) // _STEP) * _STEP, least + _STEP), _FULL)
