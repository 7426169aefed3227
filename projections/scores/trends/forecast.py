"""The forecast of the average of the next seven days, and how sure it is.

Three simple ways are tried on every earlier day of the series as if that were the last: the average of the last three
days, the average of the last seven, and the line through the last twenty-eight, read in the middle of the coming seven.
The way with the least squared errors makes the forecast. Its confidence is the share of its tries that were within five
points of the actual average, with 10.5 earlier tries assumed of which 7 were: (held + 7) / (tried + 10.5). The tries of
one week forecast nearly the same days, so they count as about one, and no number of tries makes the forecast certain.

It does not foresee a sudden step, and its confidence is slightly too high for series that have such steps.
`python -m tests.benchmarks forecast` shows how many forecasts held, and the confidence that they stated.
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from math import floor
from statistics import fmean, linear_regression
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    Series = Sequence[tuple[date, int]]
    Points = Sequence[tuple[int, int]]

HORIZON_DAYS: Final = 7
LEAST_POINTS: Final = 21
"""Least number of days with a score for a forecast."""
LEAST_TRIES: Final = 7
"""Least number of earlier days on which the methods can be tested; days far apart give few."""
LEAST_KNOWN: Final = 7
"""Least number of days with a score up to each test, its own day included."""
MOST_POINTS: Final = 90
"""Most days with a score that a forecast reads, the latest ones."""
CLOSE_POINTS: Final = 5
"""A forecast held if the real average was within so many points of it."""
_HELD_BEFORE: Final = 7
_TRIED_BEFORE: Final = Fraction(21, 2)
_LINE_POINTS: Final = 3
_HIGHEST: Final = 100


@attrs.frozen
class Forecast:
    """The expected average of the next seven calendar days.

    Attributes:
        next_7_days: The average expected of their days with a score, 0 to 100, half rounded up.
        confidence: Chance that the real average is within five points of it, to two decimals, above 0 and below 1.
        way: The method with the smallest error so far: ``3 days``, ``7 days``, ``line of 28 days``.
        tried: On how many earlier days it was tested, LEAST_TRIES or more.
    """

    next_7_days: int
    confidence: float
    way: str
    tried: int

    def as_json(self) -> dict[str, Any]:
        """Return ``{next_7_days, confidence}``, as in "Trend Output" of the scoring framework."""
        return {"next_7_days": self.next_7_days, "confidence": self.confidence}


def _since(points: Points, days: int) -> Points:
    """Return the points of the last so many calendar days, the last point's day included."""
    # No more points than days can lie there.
    near = points[-days:]
    return near[bisect_right(near, points[-1][0] - days, key=lambda point: point[0]) :]


def _level(days: int) -> Callable[[Points], float]:
    """Return the method that expects the average of the last so many days."""
    return lambda points: fmean(score for _, score in _since(points, days))


def _line(days: int) -> Callable[[Points], float]:
    """Return the method that extends the regression line through the last so many days."""

    def way(points: Points) -> float:
        recent = _since(points, days)
        if len(recent) < _LINE_POINTS:
            return fmean(score for _, score in recent)
        line = linear_regression([day for day, _ in recent], [score for _, score in recent])
        return line.slope * (points[-1][0] + (HORIZON_DAYS + 1) / 2) + line.intercept

    return way


WAYS: Final[dict[str, Callable[[Points], float]]] = {
    "3 days": _level(3),
    "7 days": _level(7),
    "line of 28 days": _line(28),
}
"""Name → method: the expected score from at least one point (number of the day, score)."""


def _whole(value: float) -> int:
    """Return a number as a whole score, independent of rounding errors that differ between versions of Python."""
    return min(max(floor(round(value, 6) + 0.5), 0), _HIGHEST)


def _tries(points: Points) -> list[tuple[int, float]]:
    """Return each index in the series with seven full days after it, and the average of those days."""
    tries = []
    for place in range(LEAST_KNOWN, len(points)):
        end = points[place - 1][0] + HORIZON_DAYS
        if end > points[-1][0]:
            break
        following = [score for day, score in points[place : place + HORIZON_DAYS] if day <= end]
        if following:
            tries.append((place, fmean(following)))
    return tries


def _confidence(errors: Sequence[float]) -> float:
    # The average of seven whole numbers is rarely an exact float, so the error is rounded before the comparison.
    held = sum(round(abs(error), 6) <= CLOSE_POINTS for error in errors)
    share = (held + _HELD_BEFORE) / (len(errors) + _TRIED_BEFORE)
    return floor(share * 100 + Fraction(1, 2)) / 100


def forecast(series: Series) -> Forecast | None:
    """Forecast the average of the seven days after the last one of a series.

    Args:
        series: Days with a score, oldest first, each day once, with its average, 0 to 100; days may be missing.

    Returns:
        None where there is not enough data: fewer than LEAST_POINTS days, or fewer than LEAST_TRIES to try it on.
    """
    if len(series) < LEAST_POINTS:
        return None
    recent = series[-MOST_POINTS:]
    # Days are counted from the first one, so that the numbers of the line stay small and exact.
    points = [((day - recent[0][0]).days, score) for day, score in recent]
    tries = _tries(points)
    if len(tries) < LEAST_TRIES:
        return None
    errors = {name: [_whole(way(points[:place])) - actual for place, actual in tries] for name, way in WAYS.items()}
    best = min(WAYS, key=lambda name: round(fmean(error * error for error in errors[name]), 6))
    return Forecast(_whole(WAYS[best](points)), _confidence(errors[best]), best, len(tries))
