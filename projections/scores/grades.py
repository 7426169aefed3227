"""Grades and alerts of scores. Source: "Score Thresholds" of the scoring framework.

The tables come from the configuration; no grade, level or threshold is fixed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tallybook.projections.scores.configuration.model import AlertLevel, Grade

LOG: Final = "log"
"""Channel: `score` and `gate` print the alert to standard error."""
DASHBOARD: Final = "dashboard"
"""Channel: the alert is in the feed of the dashboard."""
USER: Final = "user"
"""Channel: the alert is at the top of the summary."""
BLOCK: Final = "block evolution"
"""Channel: the alert closes every gate."""
SCORING_OFF: Final = "scoring is off: scoring-config.yaml has `enabled: false`"


def grade_of(value: float | None, grades: Iterable[Grade]) -> Grade | None:
    """Return the grade of a score; None for no data, and for a score below every row.

    Args:
        value: From 0 to 100; between two rows, as 89.6 is, it has not reached the upper one.
        grades: The rows, in any order.
    """
    reached = [] if value is None else [grade for grade in grades if grade.least <= value]
    return max(reached, key=lambda grade: grade.least, default=None)


def is_enough(measured: int, least: float) -> bool:
    """Return whether enough of a score was measured; less counts as no data wherever it is shown or judged.

    Args:
        measured: How much of its weight was measured, 0 to 100 percent.
        least: ``display.min_coverage``, 0 to 1.
    """
    return measured / 100 >= least


@attrs.frozen
class Alert:
    """A score that is too low.

    Attributes:
        score_id: Which score, ``ac06`` or ``session.overall``.
        level: Name of the worst level that it reaches.
        value: The score, 0 to 100.
        below: The bound of that level.
        notify: The channels of the milder levels and of that level, in this order.
    """

    score_id: str
    level: str
    value: float
    below: float
    notify: tuple[str, ...]


def alert_of(score_id: str, value: float | None, levels: Iterable[AlertLevel]) -> Alert | None:
    """Return the alert of a score; None for no data and for a score above all levels.

    Args:
        score_id: Which score.
        value: From 0 to 100.
        levels: The rows, in any order; the one with the lowest bound is the worst.
    """
    reached = [] if value is None else [level for level in levels if value < level.below]
    if value is None or not reached:
        return None
    reached.sort(key=lambda level: -level.below)
    channels = dict.fromkeys(name for level in reached for name in level.notify)
    return Alert(score_id, reached[-1].name, value, reached[-1].below, tuple(channels))


def alerts(scores: Mapping[str, float | None], levels: Sequence[AlertLevel], channel: str) -> tuple[Alert, ...]:
    """Return the alerts of all scores for one channel, in the order of the scores.

    Args:
        scores: Score id → score, None for no data.
        levels: The rows.
        channel: One of LOG, DASHBOARD, USER and BLOCK.
    """
    reached = (alert_of(score_id, value, levels) for score_id, value in scores.items())
    return tuple(alert for alert in reached if alert is not None and channel in alert.notify)


def number(value: float) -> str:
    """Format a score or a bound for a sentence: at most two decimals, without trailing zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
