"""Forecasts, regressions and gates of scores. Source: "Trend Calculation" and "With Evolution Gates".

A series is the days that have a score, oldest first, each with its average; days without one are not in it.

A forecast is the regression line through the last seven days of a series, read on the day after: with so few days, a
later day would have a larger error. Its confidence is how often such a line was within two points of the next day on
the earlier days, by the rule of succession: (held + 1) / (tried + 2). The example of the document gives its figures:
82, 84, 83, 85, 87, 86, 88 are continued by 89, and five of six held: 0.75. It does not foresee a sudden step.

A baseline starts a new history: scores from before it no longer count. So setting a baseline after a drop acknowledges
the drop, and there is no regression until a session scores again.

A gate looks at the latest session that has a score, however old that is. A minimum or a greatest drop that the caller
adds to the configuration can close a gate, and never opens one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from statistics import fmean, linear_regression, stdev
from typing import Any, Final, NamedTuple

from tallybook.projections.scores.config import BLOCK, Config
from tallybook.projections.scores.scoring import SCORING_OFF, Level, alerts, clamp, half_up, is_enough, number, trend
from tallybook.projections.scores.view import Baseline, Scores, score_levels

LEAST_DAYS: Final = 7
"""Least number of days with a score for a forecast, and the number that its line goes through."""
MOST_DAYS: Final = 90
"""Most days with a score that a forecast reads, the latest ones."""
CLOSE_POINTS: Final = 2
"""A forecast held if the next score was within so many points of it."""


def _continue_line(values: Sequence[int]) -> int:
    """Return what comes after values, one or more, by the regression line through the last of them."""
    recent = values[-LEAST_DAYS:]
    if len(recent) == 1:
        return recent[0]
    line = linear_regression(range(len(recent)), recent)
    return half_up(clamp(line.intercept + line.slope * len(recent)))


def forecast(values: Sequence[int]) -> dict[str, Any] | None:
    """Forecast how a series goes on.

    Args:
        values: The score of each day that has it, oldest first.

    Returns:
        ``{next_7_days, confidence}``: a score of 0 to 100, and the chance that the next one is within two points of it,
        to two decimals, above 0 and below 1. None for fewer than LEAST_DAYS days.
    """
    if len(values) < LEAST_DAYS:
        return None
    recent = values[-MOST_DAYS:]
    tries = [abs(_continue_line(recent[:place]) - recent[place]) <= CLOSE_POINTS for place in range(1, len(recent))]
    confidence = half_up(100 * (sum(tries) + 1) / (len(tries) + 2)) / 100
    return {"next_7_days": _continue_line(recent), "confidence": confidence}


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


class ScoreHistory(NamedTuple):
    """The history of one score.

    Attributes:
        score_id: Which, ``ac06`` or ``session.overall``.
        sessions: The latest sessions in which enough of it was measured, the last of them last.
        days: The days on which enough of it was measured, in order, each with its average.
        baseline: Its baseline, None without one.
        partial: The last session that has the score, where too little of it was measured there; None elsewhere.
    """

    score_id: str
    sessions: Sequence[Level] = ()
    days: Sequence[Level] = ()
    baseline: Baseline | None = None
    partial: Level | None = None

    @property
    def latest(self) -> Level | None:
        """Return the latest session in which enough of the score was measured."""
        return self.sessions[-1] if self.sessions else None


def histories(state: Scores) -> list[ScoreHistory]:
    """Return the history of every configured score, in order, also of those without data."""
    found, sessions, config = [], state.latest_sessions(), state.config
    for score in config.scores:
        scored = [session for session in sessions if score in session.levels]
        latest = scored[0].level(score) if scored else None
        levels = (session.level(score) for session in scored)
        enough = list(islice((level for level in levels if is_enough(level.measured, config)), SESSIONS))
        days = [level for level in score_levels(state.days, score) if is_enough(level.measured, config)]
        partial = latest if enough[:1] != [latest] else None
        found.append(ScoreHistory(score, enough[::-1], days, state.baselines.get(score), partial))
    return found


class Reason(NamedTuple):
    """A reason in the answer of a gate.

    Attributes:
        rule: CRITICAL, OWN, MINIMUM, DROP, NO_DATA, NOT_ENOUGH, OFF, or the method of a regression.
        score_id: The score; empty for several.
        value: The score, 0 to 100; None without one.
        bound: The least acceptable value; None without one.
        text: The reason as a sentence.
        closes: Whether it closes the gate; otherwise it is information.
        day: The day of the score, ``2026-01-16``; empty without one.
    """

    rule: str
    score_id: str
    value: float | None
    bound: float | None
    text: str
    closes: bool = True
    day: str = ""


def _refuse(score_id: str, value: float, rule: str, bound: float, day: str) -> Reason:
    """Return the reason that a score is below a bound."""
    text = f"{score_id} is {number(value)} on {day}: below {number(bound)} ({rule})"
    return Reason(rule, score_id, value, bound, text, day=day)


def regressions(history: ScoreHistory, config: Config) -> Iterator[Reason]:
    """Yield every regression of the latest session with a score that no baseline acknowledged.

    A score regressed that is too far below its baseline ("Integration Points"); that is too many standard deviations,
    each that of a sample and LEAST_SPREAD at least, below the mean of the sessions before; or whose average declines
    by ``turn`` points or more, and did not before. A drop also ends once a later session scores high enough again.
    """
    latest, baseline, limits = history.latest, history.baseline, config.regressions
    if latest is None or (baseline is not None and baseline.seq > latest.seq):
        return
    if baseline is not None and latest.value < (bound := baseline.value - limits.points):
        yield _refuse(history.score_id, latest.value, BY_BASELINE, bound, latest.period)
    before = [scored.value for scored in history.sessions[:-1] if baseline is None or scored.seq > baseline.seq]
    # A shorter history tells nothing.
    if len(before) >= max(limits.least_sessions, _LEAST_HISTORY):
        # Rounded, so that a value equal to the bound is not below it by a rounding error.
        bound = round(fmean(before) - limits.z_score * max(stdev(before), LEAST_SPREAD), 6)
        if latest.value < bound:
            yield _refuse(history.score_id, latest.value, BY_DEVIATION, bound, latest.period)
    # By the day and not by the session: the day on which it was set has scores from before it.
    values = [level.value for level in history.days if baseline is None or level.period > str(baseline.day)]
    days = config.trends.short_term_days
    now, earlier = trend(values, days), trend(values[:-days], days)
    # A first trend has not turned.
    if now is None or earlier is None or earlier["direction"] == "declining" or now["direction"] != "declining":
        return
    if -now["delta"] >= limits.turn:
        yield _refuse(history.score_id, now["current_avg"], BY_TREND, now["previous_avg"], latest.period)


CRITICAL: Final = "critical"
OWN: Final = "own score"
MINIMUM: Final = "min"
DROP: Final = "no-drop"
NO_DATA: Final = "no data"
NOT_ENOUGH: Final = "not enough measured"
OFF: Final = "off"


class GateQuery(NamedTuple):
    """The question to a gate.

    Attributes:
        score_id: The score whose own evolution is checked; None to check all scores.
        minimum: Least value of the checked scores, 0 to 100; None for the configuration's only.
        greatest_drop: Most points of a checked score below its baseline, or without one below the session before.
        allow_no_data: Whether the gate may open where no checked score has data.
    """

    score_id: str | None = None
    minimum: float | None = None
    greatest_drop: float | None = None
    allow_no_data: bool = False


class Gate(NamedTuple):
    """The answer of a gate.

    Attributes:
        open: Whether the evolution may go on.
        reasons: The reasons, closing ones first; an open gate has reasons only where data are missing.
        day: The latest day of a checked score; empty where none has data.
        scored: How many of all scores have data.
        without_data: How many have none.
    """

    open: bool
    reasons: tuple[Reason, ...]
    day: str = ""
    scored: int = 0
    without_data: int = 0


def gate(histories: Sequence[ScoreHistory], config: Config, query: GateQuery) -> Gate:
    """Return whether an evolution may go on.

    Any critical score closes every gate. For a named score, a value below ``gates.least`` and an unacknowledged
    regression of that score close as well. Without a name, a regression of any score closes, and ``minimum`` and
    ``greatest_drop`` apply to every score. Where no checked score has data, the gate closes unless the caller allows
    that; otherwise a score without data is only reported. A session in which too little of a score was measured decides
    nothing about it: it opens no gate, and what an earlier session closed stays closed.

    Where scoring is off the gate is open, and says so.

    Args:
        histories: The history of every configured score, also of those without data.
        config: The configuration, with the bounds.
        query: The question.
    """
    if not config.enabled:
        return Gate(open=True, reasons=(Reason(OFF, "", None, None, SCORING_OFF, closes=False),))
    judged = [history for history in histories if query.score_id in {None, history.score_id}]
    reasons = sorted(_find_reasons(histories, judged, config, query), key=lambda reason: not reason.closes)
    day = max((history.latest.period for history in judged if history.latest is not None), default="")
    scored = sum(history.latest is not None for history in histories)
    is_open = not any(reason.closes for reason in reasons)
    return Gate(is_open, tuple(reasons), day, scored, len(histories) - scored)


def _find_reasons(
    histories: Sequence[ScoreHistory], judged: Sequence[ScoreHistory], config: Config, query: GateQuery
) -> Iterator[Reason]:
    # Below 50 the specification blocks evolution as such, so that naming one score does not narrow this.
    known = {history.score_id: history.latest for history in histories if history.latest is not None}
    for alert in alerts(known, config, BLOCK):
        yield _refuse(alert["score"], float(alert["value"]), CRITICAL, alert["below"], alert["day"])
    # The specification blocks the evolution of a component by its own score, below 70.
    bounds = {OWN: None if query.score_id is None else config.gates.least, MINIMUM: query.minimum}
    first = []
    for history in judged:
        yield from regressions(history, config)
        if (latest := history.latest) is None:
            continue
        for rule, bound in bounds.items():
            if bound is not None and latest.value < bound:
                yield _refuse(history.score_id, latest.value, rule, bound, latest.period)
        if query.greatest_drop is None:
            continue
        if history.baseline is None and len(history.sessions) == 1:
            first.append(history)
            continue
        # A baseline is what a person accepted as the state to compare with, whatever the session before it scored.
        before = history.baseline.value if history.baseline else float(history.sessions[-2].value)
        if latest.value < (least := before - query.greatest_drop):
            yield _refuse(history.score_id, latest.value, DROP, least, latest.period)
    yield from _join_reasons(DROP, first, "a first score, with nothing that it could have dropped from", closes=False)
    # CI that lost its measurements must not pass.
    yield from _find_unmeasured(judged, closes=not query.allow_no_data)


def _join_reasons(rule: str, about: Sequence[ScoreHistory], what: str, *, closes: bool) -> Iterator[Reason]:
    """Yield one reason about all of these scores, none without scores."""
    if about:
        only = about[0] if len(about) == 1 else ScoreHistory("")
        day = only.latest.period if only.latest is not None else ""
        text = f"{', '.join(history.score_id for history in about)}: {what}"
        yield Reason(rule, only.score_id, None, None, text, closes, day)


def _find_unmeasured(judged: Sequence[ScoreHistory], *, closes: bool) -> Iterator[Reason]:
    """Yield the reasons about scores without enough data; they close the gate only if no checked score has enough."""
    unknown = [history for history in judged if history.latest is None and history.partial is None]
    closes = closes and len(unknown) + sum(history.partial is not None for history in judged) == len(judged)
    for history in judged:
        if (latest := history.partial) is not None:
            on = f" on {latest.period}" if latest.period else ""
            text = f"{history.score_id}: {NOT_ENOUGH} ({latest.measured} %){on}"
            yield Reason(NOT_ENOUGH, history.score_id, latest.value, None, text, closes, latest.period)
    yield from _join_reasons(NO_DATA, unknown, "no data, no session has scored it yet", closes=closes)
