"""Points, 0 to 100, of a metric by its form, and the rounding and averaging of points. Pure.

Source: "Scoring Algorithms" of the scoring framework.
"""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING, Final

from tallybook.projections.scores.configuration.model import COUNT, TOTAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tallybook.projections.scores.configuration.model import Metric

FULL: Final = 100.0
# Rounding errors of sums of weights such as 0.35 are smaller than this, and real distances to a tie are larger.
_TIE: Final = 1e-9


def linear(value: float, worst: float, best: float) -> float:
    """Return a value as points between worst (0) and best (100), clamped; inverse where best is less than worst."""
    return clamped((value - worst) / (best - worst) * FULL)


def clamped(points: float) -> float:
    """Return points between 0 and 100."""
    return min(max(points, 0.0), FULL)


def half_up(points: float) -> int:
    """Return points as a whole number, halves rounded up."""
    return floor(points + 0.5 + _TIE)


def truncated(points: float) -> int:
    """Return points as a whole number, rounded down."""
    return floor(points + _TIE)


def percent(share: float) -> int:
    """Return a share of 0 to 1 in whole percent: only all of it is 100, and only nothing of it 0."""
    least = 1 if share > _TIE else 0
    return min(max(half_up(share * FULL), least), 100 if share > 1 - _TIE else 99)


def weighted(parts: Iterable[tuple[float, float]]) -> float | None:
    """Return the average of (points, weight), the weights normalised over those given; None for none."""
    total = weight = 0.0
    for points, one in parts:
        total += points * one
        weight += one
    return total / weight if weight else None


def points(metric: Metric, measured: Mapping[str, float]) -> float | None:
    """Return the points of a metric, None where it was not measured.

    Args:
        metric: The metric.
        measured: Name → its value in a session: the sum of a counter, the last value of anything else.
    """
    return _FORMS[metric.form](metric, measured)


def _between(metric: Metric, measured: Mapping[str, float]) -> float | None:
    value = measured.get(metric.of)
    if value is None:
        value = share(measured, *_pair(metric), FULL)
    if value is None and metric.counts:
        part, whole = metric.counts
        value = share(measured, part, whole)
    return None if value is None else linear(value, metric.worst, metric.best)


def _ratio(metric: Metric, measured: Mapping[str, float]) -> float | None:
    part, whole = (metric.of, metric.per) if metric.per in measured else _pair(metric)
    if whole in measured and measured[whole] <= 0:
        return metric.empty
    percent = share(measured, part, whole, FULL)
    if percent is None:
        return None
    return FULL - clamped(percent) if metric.rest else clamped(percent)


def _boolean(metric: Metric, measured: Mapping[str, float]) -> float | None:
    value = measured.get(metric.of)
    if value is not None:
        return FULL if value else 0.0
    percent = share(measured, *_pair(metric), FULL)
    return None if percent is None else clamped(percent)


def _pair(metric: Metric) -> tuple[str, str]:
    """Return the names of the part and the whole by which a metric may be sent instead of a share."""
    return f"{metric.of}{COUNT}", f"{metric.of}{TOTAL}"


def share(measured: Mapping[str, float], part: str, whole: str, factor: float = 1.0) -> float | None:
    """Return part / whole times a factor; None where one was not measured or the whole is not above 0."""
    value, of = measured.get(part), measured.get(whole)
    return None if value is None or of is None or of <= 0 else value / of * factor


_FORMS: Final[dict[str, Callable[[Metric, Mapping[str, float]], float | None]]] = {
    "linear": _between,
    "inverse": _between,
    "ratio": _ratio,
    "boolean": _boolean,
}
