"""The forecast: worked by hand, laws for every series, and a confidence that is true."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st
import pytest

from benchmarks.forecast import backtest, calibration, errors
from tallybook.projections.scores.trends import LEAST_TRIES, MOST_POINTS, WAYS, Forecast, forecast

BEGIN = date(2026, 1, 5)
Series = list[tuple[date, int]]


def daily(*scores: int, every: int = 1, begin: date = BEGIN) -> Series:
    """Return a series with a score each ``every`` days."""
    return [(begin + timedelta(number * every), score) for number, score in enumerate(scores)]


@st.composite
def serieses(draw: st.DrawFn, low: int = 0, high: int = 100) -> Series:
    """Return any series, with gaps of up to three weeks."""
    days = draw(st.lists(st.integers(1, 21) | st.just(1), max_size=60))
    day, series = BEGIN, []
    for gap in days:
        day += timedelta(gap)
        series.append((day, draw(st.integers(low, high))))
    return series


def test_a_constant_series_stays_constant() -> None:
    """80 on 21 days is 80 next week: days 7 to 14 are tried, all 8 held, and (8 + 7) / (8 + 10.5) is 0.8108."""
    assert Forecast(80, 0.81, "3 days", 8) == forecast(daily(*[80] * 21))


def test_a_linear_series_goes_on() -> None:
    """A point more each day, 79 on the thirtieth, is 83 in the middle of the next seven days: four days on.

    Days 7 to 23 are tried, and the line was right on all 17: (17 + 7) / (17 + 10.5) is 0.8727.
    """
    assert Forecast(83, 0.87, "line of 28 days", 17) == forecast(daily(*range(50, 80)))


@pytest.mark.parametrize(("scores", "expected"), [(range(72, 100), 100), (range(27, -1, -1), 0)])
def test_a_linear_series_ends_at_the_bounds(scores: range, expected: int) -> None:
    """A line that would reach 103, or -4, is cut at 100, or at 0."""
    found = forecast(daily(*scores))
    assert found is not None
    assert (expected, "line of 28 days") == (found.next_7_days, found.way)


def test_a_weekly_rhythm_is_averaged() -> None:
    """60 on five days and 95 on two is 70 a week, on any weekday; only the average of seven days finds it.

    From a week to a week later nothing changes, so all 22 tries of the 35 days held: 29 / 32.5 is 0.8923.
    """
    week = [60] * 5 + [95] * 2
    assert Forecast(70, 0.89, "7 days", 22) == forecast(daily(*week * 5))


@pytest.mark.parametrize(("later", "confidence"), [(75, 0.81), (74, 0.76)])
def test_a_forecast_within_five_points_holds(later: int, confidence: float) -> None:
    """A forecast held if the actual score was at most five points away.

    Seven days of 80 and fourteen of 75 are forecast by their last three. The 8 tries expect 80, 78, 77, 75 …, and
    75 followed: all held, (8 + 7) / 18.5 is 0.8108. With 74 the first expects 80, six off: (7 + 7) / 18.5 is 0.7568.
    """
    found = forecast(daily(*[80] * 7, *[later] * 14))
    assert found is not None
    assert (later, confidence, "3 days") == (found.next_7_days, found.confidence, found.way)


@pytest.mark.parametrize(
    "series",
    [
        pytest.param([], id="empty"),
        pytest.param(daily(*[80] * 20), id="twenty days"),
        pytest.param(daily(*[80] * 100, every=8), id="nothing follows within a week"),
    ],
)
def test_not_enough_data(series: Series) -> None:
    """There is no forecast for fewer than 21 days with a score, nor where there is nothing to try it on."""
    assert forecast(series) is None


def test_a_series_too_short_for_a_line_is_averaged() -> None:
    """Two days in a row every two months still give a forecast, from 7 first days of a pair: 14 / 17.5 is 0.8."""
    pairs = (BEGIN + timedelta(60 * number + day) for number in range(11) for day in (0, 1))
    assert Forecast(80, 0.8, "3 days", 7) == forecast([(day, 80) for day in pairs])


@given(st.lists(st.integers(0, 100), max_size=30), st.lists(st.integers(0, 100), min_size=90, max_size=90))
def test_old_days_do_not_matter(old: list[int], recent: list[int]) -> None:
    """Only the last ninety days with a score are used."""
    assert MOST_POINTS == len(recent)
    assert forecast(daily(*old, *recent)) == forecast(daily(*recent))


@given(serieses())
def test_a_forecast_is_bounded(series: Series) -> None:
    """For any series the forecast is a score, its confidence below certainty, and its method known."""
    found = forecast(series)
    if found is not None:
        assert 0 <= found.next_7_days <= 100
        assert 0 < found.confidence < 1
        assert found.way in WAYS
        assert LEAST_TRIES <= found.tried < len(series)


@given(serieses(low=40, high=50), st.integers(-5, 5), st.integers(-700, 700))
def test_a_shift_moves_only_the_forecast(series: Series, points: int, days: int) -> None:
    """So many points more on every day, and so many days later, is as much more next week, with equal confidence."""
    found = forecast(series)
    moved = forecast([(day + timedelta(days), score + points) for day, score in series])
    assert (found is None) == (moved is None)
    if found is not None and moved is not None:
        assert (found.next_7_days + points, found.confidence) == (moved.next_7_days, moved.confidence)


def test_the_confidence_is_true_and_the_naive_forecast_no_better() -> None:
    """Of 1,200 forecasts of five kinds about as many held as stated, and the mean error is less.

    The series are the same in every run; the benchmark's row measures more of them, kind by kind.
    """
    judged = [held for seed in range(1000, 1004) for held in backtest(seed)]
    held, stated = calibration(judged)
    assert 0.95 < held / stated < 1.05
    ours, naive = errors(judged)
    assert ours < naive
