"""What a score is worth: its grade, and whom it alerts. "Score Thresholds" of the document.

The tables come from the configuration; nothing here knows a grade, a level or a threshold by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tallybook.projections.scores.configuration.model import OVERALL, SESSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tallybook.projections.scores.configuration.model import Grade, Level

LOG: Final = "log"
"""What a level notifies that `score` and `gate` name on standard error."""
DASHBOARD: Final = "dashboard"
"""What a level notifies that stands in the feed of a dashboard."""
USER: Final = "user"
"""What a level notifies that stands at the top of the summary."""
BLOCK: Final = "block evolution"
"""What a level notifies that closes every gate."""


def grade_of(value: float | None, grades: Iterable[Grade]) -> Grade | None:
    """Return the grade of a score; None for no data, and for a score below every row.

    Args:
        value: From 0 to 100; between two rows, as 89.6 is, it has not reached the upper one.
        grades: The rows, in any order.
    """
    reached = [] if value is None else [grade for grade in grades if grade.least <= value]
    return max(reached, key=lambda grade: grade.least, default=None)


def is_enough(score_id: str, measured: int, least: float) -> bool:
    """Say whether enough of a score was measured to show it to people and to open a gate; only the overall can lack.

    Args:
        score_id: Which score, ``ac06`` or ``session.overall``.
        measured: How much of its weight was measured, 0 to 100 percent.
        least: ``display.min_coverage``, 0 to 1.
    """
    return score_id != f"{SESSION}{OVERALL}" or measured / 100 >= least


@attrs.frozen
class Alert:
    """A score that is too low.

    Attributes:
        score_id: Which score, ``ac06`` or ``session.overall``.
        level: Name of the worst level that it reaches.
        value: The score, 0 to 100.
        below: What it should not have fallen below.
        notify: What that level notifies, behind what the milder ones do: whatever is critical is logged too.
    """

    score_id: str
    level: str
    value: float
    below: float
    notify: tuple[str, ...]


def alert_of(score_id: str, value: float | None, levels: Iterable[Level]) -> Alert | None:
    """Return the alert of a score; None for no data, and for a score that is high enough.

    Args:
        score_id: Which score.
        value: From 0 to 100.
        levels: The rows, in any order; the one with the lowest bound is the worst.
    """
    reached = [] if value is None else [level for level in levels if value < level.below]
    if value is None or not reached:
        return None
    reached.sort(key=lambda level: -level.below)
    told = dict.fromkeys(name for level in reached for name in level.notify)
    return Alert(score_id, reached[-1].name, value, reached[-1].below, tuple(told))


def alerts(scores: Mapping[str, float | None], levels: Sequence[Level], who: str) -> tuple[Alert, ...]:
    """Return the alerts of all scores that somebody is notified of, in their order.

    Args:
        scores: Score id → score, None for no data.
        levels: The rows.
        who: One of LOG, DASHBOARD, USER and BLOCK.
    """
    found = (alert_of(score_id, value, levels) for score_id, value in scores.items())
    return tuple(alert for alert in found if alert is not None and who in alert.notify)


def number(value: float) -> str:
    """Return a score or a bound as sentences name it: at most two decimals, and none that say nothing."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
