"""A chart of an entry's counts over time in plain characters: helpful grows up from the axis, harmful down."""

from __future__ import annotations

from datetime import datetime
from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
from rich.text import Text

from tallybook.projections.surfaces.console.output import format_time
from tallybook.projections.surfaces.console.story_text import COUNTS, STATUS_NEUTRAL, is_exit
from tallybook.projections.surfaces.console.terminal import is_utf, print_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

_MINUTE_CHARS: Final = len("2026-11-21 20:17")
ROWS: Final = 5
"""Rows on either side of the axis at most; up to so many ratings, each has a row of its own."""

MAX_COLUMNS: Final = 72
STYLES: Final = ("green", "red")
GLYPHS: Final = {True: (" ▁▂▃▄▅▆▇█", " ▀█"), False: (" .#", " '#")}
"""Whether the console shows Unicode → cells from empty to full, growing up and growing down."""


class Lines(NamedTuple):
    """The characters of the scale and the axis."""

    tick: str
    cross: str
    bar: str
    dash: str


LINES: Final = {True: Lines("┤", "┼", "│", "─"), False: Lines("+", "+", "|", "-")}


@attrs.frozen
class Column:
    """One column of the chart.

    Attributes:
        counts: The highest helpful and harmful counts in its time; zeros while the entry is out of the playbook.
        mark: ``x`` where the entry left the playbook, ``o`` where it came back, else empty.
    """

    counts: tuple[int, int]
    mark: str = ""


@attrs.frozen
class _Step:
    """A change: its place on the axis, and the counts and whether the entry is in the playbook after it."""

    place: float
    counts: tuple[int, int]
    is_present: bool


def print_chart(console: Console, story: Mapping[str, Any]) -> None:
    """Print the counts of an entry over time.

    Args:
        console: Where to print; it decides on columns, encoding and colour.
        story: The story of the entry as ``why --json`` has it.
    """
    rows = [row for row in story["trail"] if row["kind"] not in STATUS_NEUTRAL]
    if not rows:
        print_text(console, "There is nothing to draw: this entry has no counted event.")
        return
    most = max(1, *(row[which] for row in rows for which in COUNTS))
    label = len(str(most))
    width = max(min(console.width - label - 3, MAX_COLUMNS), 2)
    steps, timed = _steps(rows, story)
    columns = _columns(steps, width)
    unit = max(most / ROWS, 1)
    console.print()
    for line in _lines(columns, unit, label, utf=is_utf(console)):
        console.print(line, no_wrap=True, overflow="crop")
    ends = [format_time(row["at"])[:_MINUTE_CHARS] if timed else f"event {row['seq']}" for row in (rows[0], rows[-1])]
    print_text(console, " " * (label + 2) + ends[0] + ends[1].rjust(max(width - len(ends[0]), len(ends[1]) + 1)))
    marks = {column.mark for column in columns} & {"x", "o"}
    legend = [text for mark, text in (("x", "x left"), ("o", "o back")) if mark in marks]
    print_text(console, ", ".join(["helpful up, harmful down", *legend]), style="dim")
    if timed:
        print_text(console, f"times {format_time(rows[-1]['at'])[_MINUTE_CHARS:].strip()}", style="dim")


def _steps(rows: Sequence[Mapping[str, Any]], story: Mapping[str, Any]) -> tuple[list[_Step], bool]:
    """Return the changes in order, and whether their places are times: events of one moment are drawn one by one."""
    # A clock that was set back does not draw backwards.
    times = list(accumulate((datetime.fromisoformat(row["at"]).timestamp() for row in rows), max))
    timed = times[0] < times[-1]
    places = times if timed else [float(index) for index in range(len(rows))]
    counts = [(row["helpful"], row["harmful"]) for row in rows]
    present = [not is_exit(row, story) for row in rows]
    return list(map(_Step, places, counts, present)), timed


def _columns(steps: Sequence[_Step], width: int) -> list[Column]:
    """Return the columns, each with the highest counts in its time, so that no peak is hidden."""
    begin = steps[0].place
    span = (steps[-1].place - begin) or 1.0
    by_column: list[list[_Step]] = [[] for _ in range(width)]
    for step in steps:
        by_column[round((step.place - begin) / span * (width - 1))].append(step)
    columns, current = [], _Step(begin, (0, 0), is_present=True)
    for here in by_column:
        counts = [step.counts for step in (current, *here) if step in here or step.is_present] or [(0, 0)]
        marks = [_mark(before, after) for before, after in zip((current, *here), here, strict=False)]
        current = here[-1] if here else current
        columns.append(
            Column((max(count[0] for count in counts), max(count[1] for count in counts)), "".join(marks)[-1:])
        )
    return columns


def _mark(before: _Step, after: _Step) -> str:
    return "" if before.is_present == after.is_present else "o" if after.is_present else "x"


def _lines(columns: Sequence[Column], unit: float, label: int, *, utf: bool) -> Iterator[Text]:
    """Yield the chart: helpful above, the axis with its marks, harmful below."""
    lines = LINES[utf]
    tops = [max(column.counts[side] for column in columns) for side in (0, 1)]
    rows = [range(1, ceil(top / unit) + 1) for top in tops]
    for row in reversed(rows[0]):
        yield _with_scale(tops[0] if row == rows[0][-1] else "", label, lines, _row(columns, 0, row, unit, utf=utf))
    axis = Text("".join(column.mark or lines.dash for column in columns))
    yield Text(f"{0:>{label}} {lines.cross}") + axis
    for row in rows[1]:
        yield _with_scale(tops[1] if row == rows[1][-1] else "", label, lines, _row(columns, 1, row, unit, utf=utf))


def _with_scale(value: object, label: int, lines: Lines, cells: Text) -> Text:
    """Return a row with its part of the scale, which names the highest count alone."""
    cells.rstrip()
    return Text(f"{value:>{label}} {lines.bar if value == '' else lines.tick}") + cells


def _row(columns: Sequence[Column], side: int, row: int, unit: float, *, utf: bool) -> Text:
    """Return one row of cells; row 1 is next to the axis. A count above zero is never drawn as empty."""
    glyphs = GLYPHS[utf][side]
    fills = (min(max(column.counts[side] / unit - row + 1, 0), 1) for column in columns)
    return Text("".join(glyphs[ceil(fill * (len(glyphs) - 1))] for fill in fills), STYLES[side])
