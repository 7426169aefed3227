"""Trends: the document's formula, worked by hand, and laws for every series."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from tallybook.projections.scores.trends import Trend, trend

WEEK = [82, 84, 83, 85, 87, 86, 88]
"""The data of the document's example: 595 in all, 85 on average."""
WEEK_BEFORE = [80, 81, 80, 82, 81, 80, 83]
"""567 in all, 81 on average."""

SCORES = st.lists(st.integers(0, 100), max_size=70)
DAYS = st.integers(1, 31)


def test_the_figures_of_the_document() -> None:
    """Averages of 82.8 and 86.3 differ by 3.5, 4.2 % of the first: 3.5 / 82.8 is 0.04227.

    Ten days of 828 points in all, then ten of 863.
    """
    series = [82] * 2 + [83] * 8 + [86] * 7 + [87] * 3
    assert Trend("improving", 3.5, 4.2, 86.3, 82.8) == trend(series, 10)


def test_the_data_of_the_document_after_a_week() -> None:
    """A week of 85 on average after one of 81 is 4 points better, 4.9 %: 4 / 81 is 0.04938."""
    assert Trend("improving", 4.0, 4.9, 85.0, 81.0) == trend(WEEK_BEFORE + WEEK, 7)


@pytest.mark.parametrize(
    ("series", "days", "expected"),
    [
        pytest.param([88, 80], 1, Trend("declining", -8.0, -9.1, 80.0, 88.0), id="declining"),
        pytest.param([80, 80], 1, Trend("stable", 0.0, 0.0, 80.0, 80.0), id="stable"),
        pytest.param([1, 99, 40, 60, 55, 45], 2, Trend("stable", 0.0, 0.0, 50.0, 50.0), id="older days do not count"),
        pytest.param([70, 80, 90, *WEEK], 7, Trend("improving", 5.0, 6.3, 85.0, 80.0), id="three days before"),
        pytest.param([80] * 4 + [82, 82, 82, 83], 4, Trend("improving", 2.3, 2.8, 82.3, 80.0), id="2.25 up"),
        pytest.param([82, 82, 82, 83] + [80] * 4, 4, Trend("declining", -2.3, -2.7, 80.0, 82.3), id="2.25 down"),
        pytest.param([1, 1.15], 1, Trend("improving", 0.2, 15.0, 1.2, 1.0), id="a float has its shown value"),
        pytest.param([80] * 59 + [81], 30, Trend("improving", 0.0, 0.0, 80.0, 80.0), id="less than a tenth"),
        pytest.param([1, 0], 1, Trend("declining", -1.0, -100.0, 0.0, 1.0), id="down to 0"),
    ],
)
def test_a_trend(series: list[float], days: int, expected: Trend) -> None:
    """The last days are compared with as many before them, or with the existing ones; halves round away from zero.

    8 / 88 is 9.09 %, 5 / 80 is 6.25 % and shows as 6.3, 2.25 / 80 is 2.81 %, 2.25 / 82.25 is
    2.74 %; 1.15 - 1 is 0.15 and shows as 0.2, though as floats it is a little less; a thirtieth of a point is a rise
    that shows as 0.0.
    """
    assert expected == trend(series, days)


@pytest.mark.parametrize(("series", "days"), [([], 7), ([80], 7), (WEEK, 7), ([0] * 7 + WEEK, 7), ([5e-324, 100.0], 1)])
def test_not_enough_data(series: list[float], days: int) -> None:
    """There is no trend without earlier days, nor if the percent would be of zero."""
    assert trend(series, days) is None


@given(SCORES, DAYS)
def test_a_trend_is_bounded(series: list[int], days: int) -> None:
    """Averages stay between 0 and 100, the percent fits the sign, and nothing but missing data has no trend."""
    found = trend(series, days)
    assert (found is None) == (not any(series[-2 * days : -days]))
    if found is not None:
        assert 0 <= found.current_avg <= 100
        assert 0 <= found.previous_avg <= 100
        assert -100 <= found.delta_percent
        assert {"improving": 1, "declining": -1, "stable": 0}[found.direction] * found.delta >= 0
        assert found.delta * found.delta_percent >= 0


@given(st.lists(st.integers(1, 60), min_size=2, max_size=40), DAYS, st.integers(0, 40))
def test_a_shift_moves_only_the_averages(series: list[int], days: int, shift: int) -> None:
    """So many points more on every day leave direction and difference unchanged."""
    found, moved = trend(series, days), trend([value + shift for value in series], days)
    assert (found is None) == (moved is None)
    if found is not None and moved is not None:
        assert (found.direction, found.delta) == (moved.direction, moved.delta)
        assert round(found.current_avg + shift, 1) == moved.current_avg


@given(st.lists(st.integers(1, 100), min_size=4, max_size=4), st.lists(st.integers(1, 100), min_size=4, max_size=4))
def test_a_drop_mirrors_a_rise(one: list[int], other: list[int]) -> None:
    """In reverse order, the difference is the same with the other sign."""
    there, back = trend(one + other, 4), trend(other + one, 4)
    assert there is not None
    assert back is not None
    assert there.delta == -back.delta
