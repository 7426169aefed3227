"""Trends: the last days of a score compared with those before. Source: "Trend Calculation" of the framework.

A series is the days that have a score, oldest first, each with its average; days without one are not in it.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor
from statistics import mean
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.projections.scores.trends.forecast import Forecast

Direction = Literal["improving", "declining", "stable"]

_FINEST: Final = 1_000_000
"""Largest denominator of the fraction that a float is read as: 0.15 as 3/20, 85.2857142857143 as 597/7.

So no rounding of an average depends on the last bit of its float.
"""


@attrs.frozen
class Trend:
    """The comparison of the average of the last days with that of the days before.

    Attributes:
        direction: Improving, declining or stable, by the difference before it is rounded.
        delta: The difference, in points, to one decimal; 0.0 too where it is less than half a tenth.
        delta_percent: The difference in percent of the earlier average, to one decimal.
        current_avg: Average of the last days, to one decimal.
        previous_avg: Average of the days before them, to one decimal, above 0 before it is rounded.
    """

    direction: Direction
    delta: float
    delta_percent: float
    current_avg: float
    previous_avg: float


def tenths(value: Fraction) -> float:
    """Return a number to one decimal, half of a tenth away from zero, so that -2.25 mirrors 2.25."""
    size = floor(abs(value) * 10 + Fraction(1, 2))
    return (size if value > 0 else -size) / 10


def _average(values: Sequence[float]) -> Fraction:
    """Return the exact average of at least one value."""
    return mean(Fraction(value).limit_denominator(_FINEST) for value in values)


def trend(series_values: Sequence[float], days: int) -> Trend | None:
    """Compare the last ``days`` values with the ``days`` before them, or with as many of those as there are.

    Args:
        series_values: One finite number of 0 or more for each day with a score, oldest first.
        days: How many make up one side, 1 or more.

    Returns:
        None where there is not enough data: there are no days before the last ones, or its average is 0.
    """
    recent, before = series_values[-days:], series_values[-2 * days : -days]
    if not before:
        return None
    current, previous = _average(recent), _average(before)
    if previous == 0:
        return None
    delta = current - previous
    direction: Direction = "improving" if delta > 0 else "declining" if delta < 0 else "stable"
    return Trend(direction, tenths(delta), tenths(delta / previous * 100), tenths(current), tenths(previous))


def trend_json(score_id: str, series_values: Sequence[float], days: int, forecast: Forecast | None) -> dict[str, Any]:
    """Return a trend in the format of "Trend Output" of the scoring framework.

    Returns:
        ``{metric, period, data, trend, forecast}``: ``score.session.overall``, ``7_days``, the last so many values,
        and None for a trend or a forecast where there is not enough data.
    """
    compared = trend(series_values, days)
    return {
        "metric": f"score.{score_id}",
        "period": f"{days}_days",
        "data": list(series_values[-days:]),
        "trend": None if compared is None else attrs.asdict(compared),
        "forecast": None if forecast is None else forecast.as_json(),
    }
