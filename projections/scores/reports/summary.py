"""The summary: the latest value of every score, the focus areas, and the feed of a dashboard. Pure.

The current value of a score is that of its latest day with data, unless that day is before a long trend.
Source: "Score Display" and "With Dashboard" of the scoring framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.projections.scores.configuration.model import OVERALL, SESSION
from tallybook.projections.scores.grades import DASHBOARD, LOG, alerts, grade_of, is_enough
from tallybook.projections.scores.periods import series
from tallybook.projections.scores.reports.score_files import OVERALL_ID, coverage, divided, first_of
from tallybook.projections.scores.trends.forecast import forecast
from tallybook.projections.scores.trends.trend import trend, trend_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tallybook.projections.scores.configuration.model import Config
    from tallybook.projections.scores.periods import Series
    from tallybook.projections.scores.trends.trend import Trend
    from tallybook.projections.scores.view import Scores

TARGET_GRADE: Final = 1
"""Index of the worst grade that is not a focus area: B of A, B, C, D, F."""

LOGGED: Final = 5
"""Most alerts in one line of a log."""

LEAST_DROP: Final = 1.0
"""Points by which a score has to decline for its trend to be a focus area: less is noise."""


@attrs.frozen
class CurrentScore:
    """The current state of a score.

    Attributes:
        id: Which score.
        name: Its name for people.
        series: Its average on each day with data.
        shown: Those days without the ones on which too little was measured.
        value: The last of those, 0 to 100; None where there is none, or none in the time of a long trend.
        day: The day of that, ``2026-01-16``; empty without a value.
        measured: How much of its weight was measured on the last day with data, 0 to 100 percent; 0 without any.
        trend: The short trend; None where there is not enough data.
    """

    id: str
    name: str
    series: Series
    shown: Series
    value: int | None
    day: str
    measured: int
    trend: Trend | None

    @property
    def is_shown(self) -> bool:
        """Return whether enough was measured on its last day with data."""
        return self.series[-1:] == self.shown[-1:]


@attrs.frozen
class Focus:
    """A component that deserves attention.

    Attributes:
        id: Which component.
        name: Its name for people.
        value: Its score, 0 to 100.
        below: Whether that is below the target.
        drop: By how many points it declines; None where it does not, or not by enough.
        action: What to do, by its grade.
    """

    id: str
    name: str
    value: int
    below: bool
    drop: float | None
    action: str


def names(config: Config) -> dict[str, str]:
    """Return score id → its name for people."""
    components = {one.id: one.name for one in config.components.values()}
    return components | {
        f"{SESSION}{name}": name.replace("_", " ").capitalize() for name in (*config.sessions, OVERALL)
    }


def current_scores(state: Scores) -> dict[str, CurrentScore]:
    """Return score id → its current state, in the configuration's order, also of scores without data.

    Args:
        state: What was scored, counted.
    """
    known, days = names(state.config), _last_days(state)
    return {score: _current_score(state, score, known[score], days.get(score, "")) for score in state.config.score_ids}


def _current_score(state: Scores, score: str, name: str, day: str) -> CurrentScore:
    days = series(state.days, score)
    shown = series(state.days, score, state.config.display.min_coverage)
    measured = state.days[days[-1][0].isoformat()].measured(score) if days else 0
    short = trend([value for _, value in days], state.config.trends.short_term_days)
    return CurrentScore(score, name, days, shown, days[-1][1] if day else None, day, measured, short)


def _is_enough(state: Scores, score: str, day: str) -> bool:
    """Return whether enough of a score was measured on a day that has it."""
    return is_enough(state.days[day].measured(score), state.config.display.min_coverage)


def _last_days(state: Scores) -> dict[str, str]:
    """Return score id → the last day that has it, without days that are too long ago."""
    if not state.days:
        return {}
    first = first_of(max(state.days), state.config.trends.long_term_days)
    days = sorted(day for day in state.days if day >= first)
    return {score: day for day in days for score in state.days[day].scores}


def values(state: Scores) -> dict[str, float | None]:
    """Return score id → the current score, in the configuration's order, without those that are not shown.

    This looks at the days of a long trend alone, however many there are.
    """
    days = {score: day for score, day in _last_days(state).items() if _is_enough(state, score, day)}
    ranges = {score: state.days[days[score]].range(score) for score in state.config.score_ids if score in days}
    return {score: one.avg for score, one in ranges.items() if one is not None}


def logged(state: Scores) -> str:
    """Return the line for a log about scores with an alert; empty without any, and where scoring is off."""
    low = alerts(values(state) if state.config.enabled else {}, state.config.levels, LOG)
    days = _last_days(state) if low else {}
    shown = [f"{one.score_id} is {one.value:g} on {days[one.score_id]} ({one.level})" for one in low[:LOGGED]]
    more = f" and {len(low) - LOGGED} more" if len(low) > LOGGED else ""
    return f"low scores: {', '.join(shown)}{more}" if low else ""


def target(config: Config) -> int:
    """Return the least score that is not a focus area, 0 to 100."""
    return config.grades[min(TARGET_GRADE, len(config.grades) - 1)].least


def focus(scores: Iterable[CurrentScore], config: Config) -> list[Focus]:
    """Return the components below the target or declining, the worst first.

    Args:
        scores: The current scores; composites are left out, since their components say more.
        config: Its second grade begins at the target.
    """
    areas = []
    for one in scores:
        if one.value is None or not one.is_shown or one.id not in config.components:
            continue
        drop = -one.trend.delta if one.trend is not None and one.trend.delta <= -LEAST_DROP else None
        if one.value < target(config) or drop is not None:
            grade = grade_of(one.value, config.grades)
            action = "" if grade is None else grade.action
            areas.append(Focus(one.id, one.name, one.value, one.value < target(config), drop, action))
    return sorted(areas, key=lambda one: (not one.below, one.value))


def current(scores: Mapping[str, CurrentScore], config: Config) -> dict[str, Any]:
    """Return the current scores: ``{date, component_scores, session_scores, grade, coverage, days}``.

    The date is that of the last data; coverage and day of each score are those of its own last day.
    """
    values = {one.id: one.value for one in scores.values() if one.value is not None}
    day = max((one.day for one in scores.values()), default="")
    measured = {one.id: one.measured for one in scores.values() if one.value is not None}
    days = {one.id: one.day for one in scores.values() if one.value is not None}
    return {"date": day or None, **divided(values, config), "coverage": coverage(measured), "days": days}


def _current_and_trend(scores: Mapping[str, CurrentScore], config: Config) -> dict[str, Any]:
    return {
        "current": current(scores, config),
        "trend": trend_of(scores[OVERALL_ID], config.trends.short_term_days),
    }


def summary(state: Scores) -> dict[str, Any]:
    """Return the summary: ``current`` with ``trend``, as ``trend_of`` gives it, and ``focus``, each as `Focus`."""
    scores, config = current_scores(state), state.config
    both = _current_and_trend(scores, config)
    areas = [attrs.asdict(area) for area in focus(scores.values(), config)]
    return {**both["current"], "trend": both["trend"], "focus": areas}


def feed(state: Scores) -> dict[str, Any]:
    """Return the feed of a dashboard: ``{current, trend, alerts}``, those as ``alerts_of`` gives them.

    Where scoring is off that is ``{enabled}`` alone, which is false.
    """
    if not state.config.enabled:
        return {"enabled": False}
    scores, config = current_scores(state), state.config
    return {**_current_and_trend(scores, config), "alerts": alerts_of(scores, config)}


def alerts_of(scores: Mapping[str, CurrentScore], config: Config) -> list[dict[str, Any]]:
    """Return the alerts of the channel ``dashboard`` in order, each ``{score, level, value, day, below, notify}``."""
    low = alerts({one.id: one.value for one in scores.values() if one.is_shown}, config.levels, DASHBOARD)
    return [
        {
            "score": one.score_id,
            "level": one.level,
            "value": one.value,
            "day": scores[one.score_id].day,
            "below": one.below,
            "notify": list(one.notify),
        }
        for one in low
    ]


def trend_of(one: CurrentScore, days: int) -> dict[str, Any]:
    """Return a score's trend over so many days as "Trend Output" has it."""
    return trend_json(one.id, [value for _, value in one.series], days, forecast(one.series))
