"""Trends: the document's formula, worked by hand, and laws for every series."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from tallybook.projections.scores.trends import Trend, trend

WEEK = [82, 84, 83, 85, 87, 86, 88]
"""The data of the document's example: 595 in all, 85 on average."""


def test_the_figures_of_the_document() -> None:
    """Averages of 82.8 and 86.3 differ by 3.5, 4.2 % of the first: 3.5 / 82.8 is 0.04227.

    Ten days of 828 points in all, then ten of 863.
    """
    series = [82] * 2 + [83] * 8 + [86] * 7 + [87] * 3
    assert Trend("improving", 3.5, 4.2, 86.3, 82.8) == trend(series, 10)


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


@given(st.lists(st.integers(1, 100), min_size=4, max_size=4), st.lists(st.integers(1, 100), min_size=4, max_size=4))
def test_a_drop_mirrors_a_rise(one: list[int], other: list[int]) -> None:
    """In reverse order, the difference is the same with the other sign."""
    there, back = trend(one + other, 4), trend(other + one, 4)
    assert there is not None
    assert back is not None
    assert there.delta == -back.delta
