"""The history of each score, and regressions: whether the latest score dropped from its baseline, history or trend.

A baseline starts a new history: scores from before it no longer count. So setting a baseline after a drop acknowledges
the drop, and there is no regression until a session scores again.
"""

from __future__ import annotations

from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.projections.scores.grades import is_enough, number
from tallybook.projections.scores.periods import series
from tallybook.projections.scores.trends.trend import trend

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from tallybook.projections.scores.configuration.model import Config, Sensitivity
    from tallybook.projections.scores.view import Baseline, Scores

BY_BASELINE: Final = "baseline"
BY_DEVIATION: Final = "z-score"
BY_TREND: Final = "trend"
METHODS: Final = (BY_BASELINE, BY_DEVIATION, BY_TREND)
LEAST_SPREAD: Final = 1.0
"""Least standard deviation, in points: scores are whole numbers, so a smaller spread is chance."""
_LEAST_HISTORY: Final = 2
"""A standard deviation needs two scores."""
SESSIONS: Final = 100
"""Most sessions with a score to compare its latest with."""
LOOKED_AT: Final = 1_000
"""After so many sessions only a first one per score is still searched, so that a gate does not read years of them."""


@attrs.frozen
class Scored:
    """The score of one session.

    Attributes:
        session: Its id.
        value: Its score, a whole number from 0 to 100.
        seq: Number of the last event in the score.
        measured: How much of its weight was measured, 0 to 100 percent.
        day: The day of the session, ``2026-01-16``.
    """

    session: str
    value: int
    seq: int
    measured: int = 100
    day: str = ""


@attrs.frozen
class History:
    """The history of one score.

    Attributes:
        score_id: Which, ``ac06`` or ``session.overall``.
        sessions: The latest sessions in which enough of it was measured, the last of them last.
        days: The days on which enough of it was measured, in order, each with its average, 0 to 100.
        baseline: Its baseline, None without one.
        partial: The last session that has the score, where too little of it was measured there; None elsewhere.
    """

    score_id: str
    sessions: tuple[Scored, ...] = ()
    days: tuple[tuple[date, int], ...] = ()
    baseline: Baseline | None = None
    partial: Scored | None = None

    @property
    def latest(self) -> Scored | None:
        """Return the latest session in which enough of the score was measured."""
        return self.sessions[-1] if self.sessions else None


def histories(state: Scores) -> list[History]:
    """Return the history of every configured score, in order, also of those without data."""
    least = state.config.display.min_coverage
    latest: dict[str, list[Scored]] = {score: [] for score in state.config.score_ids}
    partial: dict[str, Scored] = {}
    wanted = {score for tally in state.days.values() for score in tally.scores} & latest.keys()
    for looked, session in enumerate(state.sessions.latest(), 1):
        for score in wanted & session.scores.keys():
            measured = session.measured_percent(score)
            scored = Scored(session.id, session.scores[score], session.seq, measured, session.day)
            if is_enough(measured, least):
                latest[score].append(scored)
            elif not latest[score]:
                partial.setdefault(score, scored)
        if looked < LOOKED_AT:
            wanted = {score for score in wanted if len(latest[score]) < SESSIONS}
        else:
            wanted = {score for score in wanted if not latest[score] and score not in partial}
        if not wanted:
            break
    return [
        History(
            score,
            tuple(reversed(sessions)),
            tuple(series(state.days, score, least)),
            state.baselines.get(score),
            partial.get(score),
        )
        for score, sessions in latest.items()
    ]


@attrs.frozen
class Regression:
    """A drop of one score.

    Attributes:
        score_id: Which score.
        method: How it was detected: BY_BASELINE, BY_DEVIATION or BY_TREND.
        value: What it dropped to: the latest score, or the average of the last days.
        bound: The least acceptable value: baseline or mean minus the allowance, or the average of the days before.
        text: The finding as a sentence.
    """

    score_id: str
    method: str
    value: float
    bound: float
    text: str


def by_baseline(score_id: str, value: int, baseline: float, drop: float) -> Regression | None:
    """Return the regression of a score that is more than ``drop`` points below its baseline ("Integration Points")."""
    bound = baseline - drop
    if value >= bound:
        return None
    text = f"{score_id} is {value}, more than {number(drop)} points below its baseline of {number(baseline)}"
    return Regression(score_id, BY_BASELINE, value, bound, text)


def by_deviation(score_id: str, value: int, before: Sequence[int], limits: Sensitivity) -> Regression | None:
    """Return the regression of a score that is too many standard deviations below the mean of those before it.

    The deviation is that of a sample, and LEAST_SPREAD where it is less; a shorter history tells nothing.
    """
    if len(before) < max(limits.least_sessions, _LEAST_HISTORY):
        return None
    # Rounded, so that a value equal to the bound is not below it by a rounding error.
    bound = round(fmean(before) - limits.z_score * max(stdev(before), LEAST_SPREAD), 6)
    if value >= bound:
        return None
    text = (
        f"{score_id} is {value}, below {number(bound)}: {number(limits.z_score)} standard deviations under "
        f"the mean of the {len(before)} sessions before, {number(fmean(before))}"
    )
    return Regression(score_id, BY_DEVIATION, value, bound, text)


def by_trend(score_id: str, values: Sequence[int], days: int, turn: float) -> Regression | None:
    """Return the regression of a score that declines by ``turn`` points or more, and did not before.

    Args:
        score_id: Which score.
        values: The averages of its days, in order.
        days: How many of them make up one side of a trend.
        turn: How far the average has to fall, 0 or more; whatever it is, the trend has to decline.

    Returns:
        None too where there is not enough data for the trend before: a first trend has not turned.
    """
    now, before = trend(values, days), trend(values[:-days], days)
    if now is None or before is None or before.direction == "declining":
        return None
    if now.direction != "declining" or -now.delta < turn:
        return None
    text = (
        f"{score_id} has turned: {number(now.current_avg)} on average of its last {days} days, "
        f"{number(now.previous_avg)} of those before, and until then it was {before.direction}"
    )
    return Regression(score_id, BY_TREND, now.current_avg, now.previous_avg, text)


def regressions(history: History, config: Config) -> tuple[Regression, ...]:
    """Return every regression of the latest session with a score that no baseline acknowledged.

    A drop also ends once a later session scores high enough again.
    """
    latest, baseline, limits = history.latest, history.baseline, config.regressions
    if latest is None or (baseline is not None and baseline.seq > latest.seq):
        return ()
    score_id, value = history.score_id, latest.value
    before = [one.value for one in history.sessions[:-1] if baseline is None or one.seq > baseline.seq]
    days = [score for day, score in history.days if baseline is None or day > baseline.day]
    drops = (
        None if baseline is None else by_baseline(score_id, value, baseline.value, limits.points),
        by_deviation(score_id, value, before, limits),
        by_trend(score_id, days, config.trends.short_term_days, limits.turn),
    )
    return tuple(regression for regression in drops if regression is not None)
