"""The form in which `score` answers people, which becomes a screen or a Markdown file, and the texts in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
import re
from typing import Any, Final

import attrs

from tallybook.projections.scores import scoring, summary
from tallybook.projections.scores.config import Config
from tallybook.projections.scores.scoring import Level
from tallybook.projections.scores.trends import NOT_ENOUGH
from tallybook.projections.scores.view import grade_name
from tallybook.projections.surfaces.console.output import escape

NO_DATA: Final = "no data"
ALL: Final = 100
ARROWS: Final = {"improving": "↑", "declining": "↓", "stable": "→"}


@attrs.frozen
class Bar:
    """A score as a bar.

    Attributes:
        name: Of what.
        value: 0 to 100; None for no data.
        grade: Its letter; empty where none is shown.
        direction: Of its trend; empty where none is known, or none is shown.
        style: A colour.
        note: How much of its weight was measured where that is not all, also without a value where that is too little
            for one; and its day where that is not the page's.
    """

    name: str
    value: int | None
    grade: str = ""
    direction: str = ""
    style: str = ""
    note: str = ""


@attrs.frozen
class Table:
    """Rows of a table.

    Attributes:
        title: What it shows; empty for what the page does.
        columns: Their headings.
        rows: Texts and numbers, one for each column.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@attrs.frozen
class ScorePage:
    """An answer for people; a part that is empty is not shown.

    Attributes:
        title: What it is about.
        heading: The result in one line.
        bars: Scores as bars.
        chart: A score day by day.
        sentences: What there is to say, a paragraph each.
        tables: Tables.
        focus: What deserves attention, a paragraph each.
        framed: Whether it is drawn in a box where there is room.
        day: The day or span of its scores, in a sentence under the box; empty where the heading or title names it.
        alerts: What a user is to be told before anything else, a paragraph each.
    """

    title: str
    heading: str = ""
    bars: tuple[Bar, ...] = ()
    chart: Sequence[Level] = ()
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    focus: tuple[str, ...] = ()
    framed: bool = False
    day: str = ""
    alerts: tuple[str, ...] = ()


def make_bar(name: str, level: Level | None, config: Config, direction: str = "", page_day: str = "") -> Bar:
    """Return a score as a bar, coloured by its value; no value where too little of it was measured."""
    if level is None:
        return Bar(name, None)
    measured = f"{level.measured} % measured" if level.measured < ALL else ""
    note = ", ".join(filter(None, (measured, level.period if page_day not in {"", level.period} else "")))
    if not scoring.is_enough(level.measured, config):
        return Bar(name, None, note=note)
    is_low = level.value < config.thresholds.warning
    style = "red" if is_low else "green" if level.value >= summary.target(config) else "yellow"
    return Bar(name, level.value, letter(level.value, config), direction, style, note)


def letter(value: float, config: Config) -> str:
    """Return the grade of a score, empty where none is shown."""
    return (grade_name(value, config) or "") if config.display.show_grades else ""


def format_grade(level: Level | None, config: Config) -> str:
    """Return a score with its letter, ``87 (B)``; ``not enough measured (3 %)`` where that holds."""
    if level is None:
        return NO_DATA
    if not scoring.is_enough(level.measured, config):
        return f"{NOT_ENOUGH} ({level.measured} %)"
    grade = letter(level.value, config)
    return f"{level.value} ({grade})" if grade else f"{level.value}"


def with_coverage(level: Level | None, config: Config) -> str:
    """Return a score with its letter, and how much of it was measured: ``87 (B), 60 % measured``."""
    has_note = level is not None and level.measured < ALL and scoring.is_enough(level.measured, config)
    return format_grade(level, config) + (f", {level.measured} % measured" if level and has_note else "")


_ROWS: Final = 6
_CHART_COLUMNS: Final = 62
_STEP: Final = 10
_LABEL: Final = 3
_DAY: Final = len("2026-01-16")


def plot(series: Sequence[Level], width: int, *, utf: bool) -> list[str]:
    """Return the lines of a chart, none wider than ``width``; the latest days where not all fit.

    Args:
        series: Days with data in order, one or more.
        width: Columns, from 10.
        utf: Whether there are other characters than ASCII.
    """
    # It loads rich, which JSON does without.
    from tallybook.projections.surfaces.console.story_text import GLYPHS, LINES

    room = min(width - _LABEL - 2, _CHART_COLUMNS)
    shown = series[-room:]
    wide = max(room // len(shown), 1) if len(shown) > 1 else 1
    scores = [level.value for level in shown]
    # Whole tens around the scores, so that a low score has a bar.
    least = max((min(scores) - 1) // _STEP * _STEP, 0)
    most = min(max(-(-max(scores) // _STEP) * _STEP, least + _STEP), ALL)
    (tick, cross, bar, dash), glyphs = LINES[utf], GLYPHS[utf][0]
    unit = (most - least) / _ROWS
    rows = []
    for row in reversed(range(_ROWS)):
        fills = [min(max((value - least) / unit - row, 0), 1) for value in scores]
        cells = "".join(glyphs[ceil(fill * (len(glyphs) - 1))] * wide for fill in fills)
        label = most if row == _ROWS - 1 else ""
        rows.append(f"{label:>{_LABEL}} {bar if label == '' else tick}{cells}".rstrip())
    drawn = wide * len(shown)
    rows.append(f"{least:>{_LABEL}} {cross}{dash * drawn}")
    first, last = shown[0].period, shown[-1].period
    ends = last if first == last else f"{first}{last.rjust(max(drawn - _DAY, _DAY + 1))}"
    margin = " " * min(_LABEL + 2, max(width - len(ends), 0))
    return [*rows, *(f"{margin}{ends}".split() if len(ends) > width else [f"{margin}{ends}"])]


_MARKS: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")
_COLUMNS: Final = 72


def markdown(page: ScorePage) -> str:
    """Return a page as Markdown; no text in it is markup of its own."""
    blocks = [f"# {_plain(page.title)}", *(f"**{_plain(alert)}**" for alert in page.alerts)]
    blocks += [_plain(page.heading), _plain(page.day)]
    if page.bars:
        rows = [
            (bar.name, NO_DATA if bar.value is None else bar.value, bar.grade, ARROWS.get(bar.direction, ""), bar.note)
            for bar in page.bars
        ]
        blocks.append(_table(("Score of", "Points", "Grade", "Trend", "Note"), rows))
    if page.chart:
        blocks.append("\n".join(["```text", *plot(page.chart, _COLUMNS, utf=True), "```"]))
    blocks += map(_plain, page.sentences)
    for table in page.tables:
        blocks += [f"## {_plain(table.title)}"] if table.title else []
        blocks.append(_table(table.columns, table.rows))
    if page.focus:
        blocks += ["## Focus areas", "\n".join(f"- {_plain(line)}" for line in page.focus)]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _plain(value: Any) -> str:
    # Names and ids are what somebody recorded, and could be markup.
    return _MARKS.sub(r"\\\1", escape(value))


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [[_plain(cell) for cell in columns], ["---"] * len(columns), *([*map(_plain, row)] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
