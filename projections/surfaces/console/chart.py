"""The counts of an entry over time as a chart of plain characters: helpful grows up from the line, harmful down."""

from __future__ import annotations

from datetime import datetime
from itertools import accumulate
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
from rich.text import Text

from tallybook.projections.surfaces.console.entry_story import BESIDE, COUNTS, leaves
from tallybook.projections.surfaces.console.output import format_time
from tallybook.projections.surfaces.console.terminal import is_utf, print_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

_MINUTE_CHARS: Final = len("2026-11-21 20:17")
ROWS: Final = 5
"""Most rows to either side of the line; up to so many ratings each has a row of its own."""

MAX_COLUMNS: Final = 72
STYLES: Final = ("green", "red")
GLYPHS: Final = {True: (" ▁▂▃▄▅▆▇█", " ▀█"), False: (" .#", " '#")}
"""Whether the console has Unicode → cells from empty to full, those that grow up and those that grow down."""


class Lines(NamedTuple):
    """The characters of the scale and of the line."""

    tick: str
    cross: str
    bar: str
    dash: str


LINES: Final = {True: Lines("┤", "┼", "│", "─"), False: Lines("+", "+", "|", "-")}


@attrs.frozen
class Column:
    """What is drawn in one column.

    Attributes:
        counts: Most helpful and most harmful ratings in its time; zeros while the entry is away.
        mark: ``x`` where it left the playbook, ``o`` where it came back, else empty.
    """

    counts: tuple[int, int]
    mark: str = ""


@attrs.frozen
class _Step:
    """A change: when, what the counts are from there, and whether the entry is there behind it."""

    place: float
    counts: tuple[int, int]
    stands: bool


def chart(console: Console, told: Mapping[str, Any]) -> None:
    """Print how the counts of an entry went.

    Args:
        console: Where to print; columns, encoding and colour are its own.
        told: The story as ``why --json`` answers it.
    """
    rows = [row for row in told["trail"] if row["kind"] not in BESIDE]
    if not rows:
        print_text(console, "There is nothing to draw: nothing ever counted for this entry.")
        return
    most = max(1, *(row[which] for row in rows for which in COUNTS))
    label = len(str(most))
    width = max(min(console.width - label - 3, MAX_COLUMNS), 2)
    steps, timed = _steps(rows, told)
    columns = _columns(steps, width)
    unit = max(most / ROWS, 1)
    console.print()
    for line in _drawn(columns, unit, label, utf=is_utf(console)):
        console.print(line, no_wrap=True, overflow="crop")
    ends = [format_time(row["at"])[:_MINUTE_CHARS] if timed else f"event {row['seq']}" for row in (rows[0], rows[-1])]
    print_text(console, " " * (label + 2) + ends[0] + ends[1].rjust(max(width - len(ends[0]), len(ends[1]) + 1)))
    marks = {column.mark for column in columns} & {"x", "o"}
    legend = [text for mark, text in (("x", "x left"), ("o", "o back")) if mark in marks]
    print_text(console, ", ".join(["helpful up, harmful down", *legend]), style="dim")
    if timed:
        print_text(console, f"times {format_time(rows[-1]['at'])[_MINUTE_CHARS:].strip()}", style="dim")


def _steps(rows: Sequence[Mapping[str, Any]], told: Mapping[str, Any]) -> tuple[list[_Step], bool]:
    """Return the changes in order, and whether their places are times; event by event where all fall in one moment."""
    # A clock that ran back does not draw backwards.
    times = list(accumulate((datetime.fromisoformat(row["at"]).timestamp() for row in rows), max))
    timed = times[0] < times[-1]
    places = times if timed else [float(index) for index in range(len(rows))]
    counts = [(row["helpful"], row["harmful"]) for row in rows]
    stands = [not leaves(row, told) for row in rows]
    return list(map(_Step, places, counts, stands)), timed


def _columns(steps: Sequence[_Step], width: int) -> list[Column]:
    """Return what each column shows: the most that counted in its time, so that no peak is hidden."""
    begin = steps[0].place
    span = (steps[-1].place - begin) or 1.0
    falling: list[list[_Step]] = [[] for _ in range(width)]
    for step in steps:
        falling[round((step.place - begin) / span * (width - 1))].append(step)
    columns, now = [], _Step(begin, (0, 0), stands=True)
    for here in falling:
        counts = [step.counts for step in (now, *here) if step in here or step.stands] or [(0, 0)]
        marks = [_mark(before, after) for before, after in zip((now, *here), here, strict=False)]
        now = here[-1] if here else now
        columns.append(Column((max(one[0] for one in counts), max(one[1] for one in counts)), "".join(marks)[-1:]))
    return columns


def _mark(before: _Step, after: _Step) -> str:
    return "" if before.stands == after.stands else "o" if after.stands else "x"


def _drawn(columns: Sequence[Column], unit: float, label: int, *, utf: bool) -> Iterator[Text]:
    """Yield the chart's lines: helpful above, the line itself with its marks, harmful below."""
    lines = LINES[utf]
    tops = [max(column.counts[side] for column in columns) for side in (0, 1)]
    rows = [range(1, ceil(top / unit) + 1) for top in tops]
    for row in reversed(rows[0]):
        yield _labelled(tops[0] if row == rows[0][-1] else "", label, lines, _row(columns, 0, row, unit, utf=utf))
    axis = Text("".join(column.mark or lines.dash for column in columns))
    yield Text(f"{0:>{label}} {lines.cross}") + axis
    for row in rows[1]:
        yield _labelled(tops[1] if row == rows[1][-1] else "", label, lines, _row(columns, 1, row, unit, utf=utf))


def _labelled(value: object, label: int, lines: Lines, cells: Text) -> Text:
    """Return a row behind the scale, which names the highest count alone."""
    cells.rstrip()
    return Text(f"{value:>{label}} {lines.bar if value == '' else lines.tick}") + cells


def _row(columns: Sequence[Column], side: int, row: int, unit: float, *, utf: bool) -> Text:
    """Return one row of cells, the first next to the line; whatever counts shows."""
    glyphs = GLYPHS[utf][side]
    fills = (min(max(column.counts[side] / unit - row + 1, 0), 1) for column in columns)
    return Text("".join(glyphs[ceil(fill * (len(glyphs) - 1))] for fill in fills), STYLES[side])
