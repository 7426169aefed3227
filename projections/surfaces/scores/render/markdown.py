"""A page of scores as markdown, for ``score --export``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from tallybook.projections.surfaces.console.output import escape
from tallybook.projections.surfaces.scores.render.page import ARROWS, NO_DATA
from tallybook.projections.surfaces.scores.render.plot import plot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tallybook.projections.surfaces.scores.render.page import Bar, Page

_MARKS: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")
_COLUMNS: Final = 72


def markdown(page: Page) -> str:
    """Return a page as markdown; no text in it is markup of its own."""
    blocks = [f"# {_plain(page.title)}", *(f"**{_plain(alert)}**" for alert in page.alerts), _plain(page.heading)]
    blocks.append(_plain(page.day))
    if page.bars:
        rows = [
            (bar.name, NO_DATA if bar.value is None else bar.value, bar.grade, ARROWS.get(bar.direction, ""), _of(bar))
            for bar in page.bars
        ]
        blocks.append(_table(("Score of", "Points", "Grade", "Trend", "Measured"), rows))
    if page.chart:
        blocks.append("\n".join(["```text", *plot(page.chart, _COLUMNS, utf=True), "```"]))
    blocks += map(_plain, page.sentences)
    for table in page.tables:
        blocks += [f"## {_plain(table.title)}"] if table.title else []
        blocks.append(_table(table.columns, table.rows))
    if page.focus:
        blocks += ["## Focus areas", "\n".join(f"- {_plain(line)}" for line in page.focus)]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _of(bar: Bar) -> str:
    return ", ".join(filter(None, (f"{bar.measured} %" if bar.value is not None or bar.note else "", bar.day)))


def _plain(value: Any) -> str:
    return _MARKS.sub(r"\\\1", escape(value))


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines: Iterator[Sequence[Any]] = iter([columns, ["---"] * len(columns), *rows])
    return "\n".join(f"| {' | '.join(cell if cell == '---' else _plain(cell) for cell in row)} |" for row in lines)
