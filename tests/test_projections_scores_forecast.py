"""The forecast: worked by hand, laws for every series, and a confidence that is true."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st
import pytest

from tallybook.projections.scores.trends import LEAST_TRIES, WAYS, Forecast, forecast

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
