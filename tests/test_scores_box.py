"""Scores on a terminal: the document's box, bars, charts and tables, at any width, without colour and without UTF-8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest
from rich.cells import cell_len

from helpers.score_histories import config, folded, handoffs, noon, plain
from helpers.screens import shown
from tallybook.projections.scores import summary as scoring
from tallybook.projections.scores.view import Scores
from tallybook.projections.surfaces.scores import screen as box
from tallybook.projections.surfaces.scores.answers import ScorePage, ScoreQuery, Table, look, plot
from tallybook.projections.surfaces.workspace.project import Project

ASCII = """
+----------------------------------------------------------+
|                    AGENT HEALTH SCORE                    |
+----------------------------------------------------------+
|                                                          |
|  Overall: 80 (B), 20 % measured  v -10.0 from last week  |
|                                                          |
|  Component Scores:                                       |
|  +----------------------------------------------------+  |
|  |  AC-09 Session Completion ##########...  80 (B) v  |  |
|  |  Work                     ............. no data    |  |
|  +----------------------------------------------------+  |
|                                                          |
|  Focus Areas:                                            |
|  * AC-09 Session Completion: Declining trend (-10.0).    |
|    Minor improvements.                                   |
|                                                          |
+----------------------------------------------------------+
"""


def work_scores(name: str, *sessions: tuple[int, dict[str, Any]], **own: Any) -> Scores:
    """Return the scores of sessions, each of a day of January, of ac09 and a component of the project's own."""
    parts = dict.fromkeys((f"ac0{number}" for number in range(1, 9)), False)
    own |= {"components": {**parts, "work": {"name": name, "metrics": {"share": {}}}}}
    own |= {"sessions": {key: ["work"] for key in ("efficiency", "effectiveness", "improvement")}}
    days = ((f"s-{day}", noon(f"2026-01-{day:02}"), measured, "") for day, measured in sessions)
    return folded(config(**own), *days)


def small() -> Scores:
    """Return seven days of 90 and seven of 80, with another component that has no data."""
    return work_scores("Work", *((day, plain(90 if day < 8 else 80)) for day in range(1, 15)))


def page(state: Scores, *, detail: bool = False) -> ScorePage:
    """Return the summary of a state."""
    query = ScoreQuery(Project(Path()), state, None, detail, None, None)
    return look(query, "")[1]


def test_without_utf_8_the_box_is_of_plain_signs() -> None:
    """Arrows, bars and bullets too."""
    lines = shown(lambda console: box.show(console, page(small())), 60, "ascii").splitlines()
    assert ASCII == "\n" + "".join(f"{line.rstrip()}\n" for line in lines)


ODD = "研究 und é́\x1b[31m [bold]x[/] 👩‍👩‍👧 " + "long " * 9
LONG = {"title": "健康\x07 " * 12}
PAGES = {
    "odd": lambda: page(
        work_scores(ODD, (16, {"work": {"share": 3}, **plain(100)}), title="健康\x07 " * 12), detail=True
    ),
    "table": lambda: ScorePage(
        "T" * 90,
        "x " * 90,
        chart=scoring.current_scores(small())["ac09"].levels,
        tables=(Table("Of " * 40, ("one", "two"), (("y" * 50, 3), ("研" * 50, 4.5))),),
        sentences=("z" * 90,),
    ),
}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_line_is_wider_than_the_terminal(name: str, encoding: str) -> None:
    """No line of a page is wider than 20 to 200 columns, also with names that are wide, combine, or hold controls."""
    found = PAGES[name]()
    for width in (*range(20, 90), 120, 200):
        text = shown(lambda console: box.show(console, found), width, encoding)
        assert [] == [line for line in text.splitlines() if name != "table" and cell_len(line) > width]
        assert not set("\x1b\x07") & set(text)
        assert encoding == "utf-8" or text.isascii()


@given(st.lists(st.integers(0, 100), min_size=1, max_size=70), st.integers(20, 200), st.booleans())
def test_a_chart_fits(scores: list[int], width: int, utf: bool) -> None:
    """A chart of any series fits any width, with a bar for the last day."""
    state = handoffs(config(), {f"2026-{1 + n // 28:02}-{1 + n % 28:02}": value for n, value in enumerate(scores)})
    lines = plot(scoring.current_scores(state)["ac09"].levels, width, utf=utf)
    assert max(map(len, lines)) <= width
    assert any(f"2026-{1 + (len(scores) - 1) // 28:02}-{1 + (len(scores) - 1) % 28:02}" in line for line in lines)
