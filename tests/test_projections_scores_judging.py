"""Grades, alerts and regressions: one test for each row of the document's tables, and each drop worked by hand."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.score_examples import config
from tallybook.projections.scores.config import AlertLevel, Grade
from tallybook.projections.scores.scoring import BLOCK, alerts, grade_of, number
from tallybook.projections.scores.trends import (
    History,
    Regression,
    Scored,
    by_deviation,
    by_trend,
    regressions,
)
from tallybook.projections.scores.view import Baseline

GRADES = (
    Grade("A", 90, "Excellent", "Maintain"),
    Grade("B", 80, "Good", "Minor improvements"),
    Grade("C", 70, "Acceptable", "Review needed"),
    Grade("D", 60, "Concerning", "Improvement priority"),
    Grade("F", 0, "Critical", "Immediate attention"),
)
"""The table "Grade Scale" of the document."""
LEVELS = (
    AlertLevel("warning", 70, ("log", "dashboard")),
    AlertLevel("alert", 60, ("user",)),
    AlertLevel("critical", 50, (BLOCK,)),
)
"""Its table "Alert Thresholds"."""
CONFIG = config(regressions={"points": 10, "least_sessions": 5, "turn": 0}, trends={"short_term_days": 2})
LIMITS = CONFIG.regressions
DAY = date(2026, 1, 5)


def history(*values: int, days: tuple[int, ...] = (), baseline: Baseline | None = None) -> History:
    """Return the history of ac06: sessions with the events 10, 20 and so on, and days from DAY on."""
    sessions = (Scored(f"s{place}", value, place * 10) for place, value in enumerate(values, 1))
    series = ((DAY + timedelta(place), value) for place, value in enumerate(days))
    return History("ac06", tuple(sessions), tuple(series), baseline)


@given(st.integers(0, 100), st.integers(0, 100))
def test_a_higher_score_has_no_worse_grade_or_alert(one: int, other: int) -> None:
    """The grade's least score rises with the score, and the notified channels shrink."""
    low, high = sorted((one, other))
    grades, found = (
        [grade_of(value, GRADES) for value in (low, high)],
        [alerts({"a": value}, LEVELS, "log") for value in (low, high)],
    )
    assert grades[0] is not None
    assert grades[1] is not None
    assert grades[0].least <= grades[1].least <= high
    told = [{channel for alert in reached for channel in alert.notify} for reached in found]
    assert told[1] <= told[0]


@pytest.mark.parametrize(
    ("before", "bound", "told"),
    [
        # Squares of 4, 0, 4 … : 8 + 8 of five values, by four: a variance of 4.
        pytest.param((78, 80, 82, 78, 82), 76, "80", id="deviation 2"),
        pytest.param((80, 80, 80, 80, 80), 78, "80", id="no deviation counts as 1"),
        pytest.param((80, 81, 80, 81, 80), 78.4, "80.4", id="less than 1 does too"),
    ],
)
def test_a_drop_below_the_history(before: tuple[int, ...], bound: float, told: str) -> None:
    """Two deviations below the mean are allowed, and a lower score is a regression."""
    below = int(bound) - (bound == int(bound))
    text = (
        f"ac06 is {below}, below {number(bound)}: 2 standard deviations under the mean of the 5 sessions before, {told}"
    )
    assert Regression("ac06", "z-score", below, bound, text) == by_deviation("ac06", below, before, LIMITS)
    assert by_deviation("ac06", below + 1, before, LIMITS) is None


@pytest.mark.parametrize(
    ("values", "was"),
    [
        ((70, 70, 80, 80, 74, 74), "improving"),
        ((80, 80, 80, 80, 74, 74), "stable"),
    ],
)
def test_a_trend_that_turned(values: tuple[int, ...], was: str) -> None:
    """By windows of two days: 80 was no less than the days before, and 74 is 6 less than 80."""
    text = f"ac06 has turned: 74 on average of its last 2 days, 80 of those before, and until then it was {was}"
    assert Regression("ac06", "trend", 74.0, 80.0, text) == by_trend("ac06", values, 2, 6)
    assert by_trend("ac06", values, 2, 6.1) is None


SCORES = st.lists(st.integers(0, 100), max_size=20).map(tuple)


@given(SCORES, SCORES, st.integers(0, 100), st.integers(0, 250))
def test_a_regression_is_below_its_bound(
    values: tuple[int, ...], days: tuple[int, ...], baseline: int, seq: int
) -> None:
    """For any history there is an answer, and a regression is lower than its bound."""
    told = history(*values, days=days, baseline=Baseline(baseline, seq, DAY + timedelta(seq // 20)))
    found = regressions(told, CONFIG)
    assert [] == [one for one in found if one.value >= one.bound and one.method != "trend"]
    assert [] == [one for one in found if one.value > one.bound]
    assert found == () or seq <= 10 * len(values)
