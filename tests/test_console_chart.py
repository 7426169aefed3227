"""The chart of an entry's counts, character by character."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.screens import KEPT, LEARNED, shown
from tallybook.projections.surfaces.console.chart import ROWS, print_chart

if TYPE_CHECKING:
    from collections.abc import Mapping

Told = dict[str, Any]


def row(day: int, kind: str, helpful: int, harmful: int) -> dict[str, Any]:
    """Return a step on a day of November, with the event's number."""
    at = f"2026-11-{day:02}T12:00:00.000000Z"
    return {**LEARNED, "seq": day, "at": at, "kind": kind, "helpful": helpful, "harmful": harmful}


PRUNED = [
    row(1, "point.added", 0, 0),
    row(3, "point.rated", 1, 0),
    row(5, "point.rated", 1, 1),
    row(8, "point.noted", 9, 9),
    row(9, "point.rated", 1, 2),
    row(11, "point.rated", 1, 3),
    row(11, "playbook.updated", 1, 3),
]
BACK = [*PRUNED, row(15, "point.restored", 1, 3), row(17, "point.rated", 2, 3), row(21, "point.retired", 2, 3)]
MANY = [row(1, "point.seeded", 8, 2), *(row(2 + n, "point.rated", 8 + 8 * n, 2 + n % 2) for n in range(20))]
SAME_MOMENT = [step | {"at": PRUNED[0]["at"]} for step in PRUNED]
STORIES: dict[str, Told] = {
    name: KEPT | {"trail": trail}
    for name, trail in {"pruned": PRUNED, "back": BACK, "many": MANY, "one moment": SAME_MOMENT}.items()
}


def draw(told: Mapping[str, Any], width: int = 40, encoding: str = "utf-8") -> str:
    """Return the chart of a story in a pipe of this width and encoding."""
    return shown(lambda console: print_chart(console, told), width, encoding)


GOLDEN = {
    ("back", "utf-8"): """
2 ┤                            ████████
  │    ███████████████     ████████████
0 ┼──────────────────x─────o──────────x
  │       ████████████     ████████████
  │              █████     ████████████
3 ┤                  █     ████████████
   2026-11-01 12:00    2026-11-21 12:00
helpful up, harmful down, x left, o back
times UTC
""",
    ("many", "ascii"): """
160 +                            ...###
    |                     ....#########
    |               ...################
    |        ....######################
    |.....#############################
  0 +----------------------------------
  3 +''''''''''''''''''''''''''''''''''
     2026-11-01 12:00  2026-11-21 12:00
helpful up, harmful down
times UTC
""",
    ("one moment", "ascii"): """
1 +       #############################
0 +-----------------------------------x
  |              ######################
  |                     ###############
3 +                            ########
   event 1                     event 11
helpful up, harmful down, x left
""",
}


@pytest.mark.parametrize(("name", "encoding"), GOLDEN)
def test_a_chart_keeps_its_look(name: str, encoding: str) -> None:
    """At 40 columns a chart runs over time, event by event within one moment, and scaled for large counts."""
    assert GOLDEN[name, encoding] == draw(STORIES[name], 40, encoding)


COUNTS = st.integers(0, 10**7)
KINDS = st.sampled_from(["point.rated", "point.edited", "playbook.updated", "point.noted"])


@given(
    st.lists(st.builds(row, st.integers(1, 28), KINDS, COUNTS, COUNTS), max_size=30),
    st.integers(20, 100),
    st.sampled_from(["utf-8", "ascii"]),
)
def test_no_chart_breaks_its_frame(trail: list[dict[str, Any]], width: int, encoding: str) -> None:
    """Every chart has at most so many rows, fits the terminal's width, and uses only its encoding."""
    text = draw(KEPT | {"trail": trail}, width, encoding)
    bars = [line for line in text.splitlines() if any(mark in line for mark in "┤│┼|") or "+" in line]
    assert len(bars) <= 2 * ROWS + 1
    assert max(map(len, text.splitlines())) <= width
    assert encoding == "utf-8" or text.isascii()
