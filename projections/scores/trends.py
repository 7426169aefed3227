"""Forecasts, regressions and gates of scores. Source: "Trend Calculation" and "With Evolution Gates".

A series is the days that have a score, oldest first, each with its average; days without one are not in it.

A forecast is of the average of the next seven days. Three simple ways are tried on every earlier day of the series as
if that were the last: the average of the last three days, the average of the last seven, and the line through the last
twenty-eight, read in the middle of the coming seven. The way with the least squared errors makes the forecast. Its
confidence is the share of its tries that were within five points of the actual average, with 10.5 earlier tries
assumed of which 7 were: (held + 7) / (tried + 10.5). The tries of one week forecast nearly the same days, so they count
as about one, and no number of tries makes the forecast certain. It does not foresee a sudden step.
`python -m tests.benchmarks forecast` shows how many forecasts held, and the confidence that they stated.

A baseline starts a new history: scores from before it no longer count. So setting a baseline after a drop acknowledges
the drop, and there is no regression until a session scores again.

A gate looks at the latest session that has a score, however old that is. A minimum or a greatest drop that the caller
adds to the configuration can close a gate, and never opens one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from fractions import Fraction
from functools import partial
from math import floor
from statistics import fmean, linear_regression, stdev
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallybook.projections.scores.config import BLOCK, Config
from tallybook.projections.scores.scoring import SCORING_OFF, Level, alerts, is_enough, number, trend
from tallybook.projections.scores.view import Baseline, Scores, score_levels

if TYPE_CHECKING:
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


def _last_points(points: Points, days: int) -> Points:
    """Return the points of the last so many calendar days, the last point's day included."""
    # No more points than days can lie there.
    return [point for point in points[-days:] if point[0] > points[-1][0] - days]


def _level(days: int, points: Points) -> float:
    """Return the average of the last so many days."""
    return fmean(score for _, score in _last_points(points, days))


def _line(days: int, points: Points) -> float:
    """Return the score that the regression line through the last so many days expects."""
    recent = _last_points(points, days)
    if len(recent) < _LINE_POINTS:
        return fmean(score for _, score in recent)
    line = linear_regression([day for day, _ in recent], [score for _, score in recent])
    return line.slope * (points[-1][0] + (HORIZON_DAYS + 1) / 2) + line.intercept


# Means of 14 or 28 days err more wherever something changed.
_WAYS: Final = (partial(_level, 3), partial(_level, 7), partial(_line, 28))
"""Functions from at least one point, number of the day and score, to the expected score."""


def _round_score(value: float) -> int:
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


def forecast(series: Sequence[Level]) -> dict[str, Any] | None:
    """Forecast the average of the seven days after the last one of a series.

    Args:
        series: Days with a score, oldest first, each day once, with its average; days may be missing.

    Returns:
        ``{next_7_days, confidence}``: the average expected of their days with a score, half rounded up, and the chance
        that the real one is within five points of it, to two decimals, above 0 and below 1. None where there is not
        enough data: fewer than LEAST_POINTS days, or fewer than LEAST_TRIES to try it on.
    """
    if len(series) < LEAST_POINTS:
        return None
    days = [(date.fromisoformat(level.period).toordinal(), level.value) for level in series[-MOST_POINTS:]]
    # Days are counted from the first one, so that the numbers of the line stay small and exact.
    points = [(day - days[0][0], score) for day, score in days]
    tries = _tries(points)
    if len(tries) < LEAST_TRIES:
        return None
    tested = [(way, [_round_score(way(points[:place])) - actual for place, actual in tries]) for way in _WAYS]
    # Rounded, because sums of floats differ between versions of Python in their last bits.
    way, errors = min(tested, key=lambda row: round(fmean(error * error for error in row[1]), 6))
    # The average of seven whole numbers is rarely an exact float, so the error is rounded before the comparison.
    # How often it held, and no normal distribution of errors: that is too unsure of series with steps.
    held = sum(round(abs(error), 6) <= CLOSE_POINTS for error in errors)
    confidence = floor((held + _HELD_BEFORE) / (len(tries) + _TRIED_BEFORE) * 100 + Fraction(1, 2)) / 100
    return {"next_7_days": _round_score(way(points)), "confidence": confidence}


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


class History(NamedTuple):
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


def histories(state: Scores) -> list[History]:
    """Return the history of every configured score, in order, also of those without data."""
    config = state.config
    latest: dict[str, list[Level]] = {score: [] for score in config.scores}
    partial: dict[str, Level] = {}
    # A score that no session ever had would make the search read all of them.
    wanted = {score for tally in state.days.values() for score in tally.scores} & latest.keys()
    for looked, session in enumerate(state.latest_sessions(), 1):
        for score in wanted:
            if (level := session.level(score)) is None:
                continue
            if is_enough(level.measured, config):
                latest[score].append(level)
            elif not latest[score]:
                partial.setdefault(score, level)
        if looked < LOOKED_AT:
            wanted = {score for score in wanted if len(latest[score]) < SESSIONS}
        else:
            wanted = {score for score in wanted if not latest[score] and score not in partial}
        if not wanted:
            break
    return [
        History(
            score,
            sessions[::-1],
            [level for level in score_levels(state.days, score) if is_enough(level.measured, config)],
            state.baselines.get(score),
            partial.get(score),
        )
        for score, sessions in latest.items()
    ]


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


def _refuse(score_id: str, latest: Level, rule: str, bound: float, why: str) -> Reason:
    """Return the reason that the latest value of a score is below a bound."""
    text = f"{score_id} is {latest.value}, {why}{_name_day(latest.period)}"
    return Reason(rule, score_id, latest.value, bound, text, day=latest.period)


def _name_day(day: str) -> str:
    return f" ({day})" if day else ""


def regressions(history: History, config: Config) -> Iterator[Reason]:
    """Yield every regression of the latest session with a score that no baseline acknowledged.

    A score regressed that is too far below its baseline ("Integration Points"); that is too many standard deviations,
    each that of a sample and LEAST_SPREAD at least, below the mean of the sessions before; or whose average declines
    by ``turn`` points or more, and did not before. A drop also ends once a later session scores high enough again.
    """
    latest, baseline, limits = history.latest, history.baseline, config.regressions
    if latest is None or (baseline is not None and baseline.seq > latest.seq):
        return
    if baseline is not None and latest.value < (bound := baseline.value - limits.points):
        why = f"more than {number(limits.points)} points below its baseline of {number(baseline.value)}"
        yield _refuse(history.score_id, latest, BY_BASELINE, bound, f"{why}{_OPEN}")
    before = [scored.value for scored in history.sessions[:-1] if baseline is None or scored.seq > baseline.seq]
    # A shorter history tells nothing.
    if len(before) >= max(limits.least_sessions, _LEAST_HISTORY):
        # Rounded, so that a value equal to the bound is not below it by a rounding error.
        bound = round(fmean(before) - limits.z_score * max(stdev(before), LEAST_SPREAD), 6)
        mean_text = f"the mean of the {len(before)} sessions before, {number(fmean(before))}"
        why = f"below {number(bound)}: {number(limits.z_score)} standard deviations under {mean_text}"
        if latest.value < bound:
            yield _refuse(history.score_id, latest, BY_DEVIATION, bound, f"{why}{_OPEN}")
    # By the day and not by the session: the day on which it was set has scores from before it.
    values = [level.value for level in history.days if baseline is None or level.period > str(baseline.day)]
    days = config.trends.short_term_days
    now, earlier = trend(values, days), trend(values[:-days], days)
    # A first trend has not turned.
    if now is None or earlier is None or earlier["direction"] == "declining" or now["direction"] != "declining":
        return
    if -now["delta"] >= limits.turn:
        current, previous = now["current_avg"], now["previous_avg"]
        text = (
            f"{history.score_id} has turned: {number(current)} on average of its last {days} days, {number(previous)} "
            f"of those before, and until then it was {earlier['direction']}{_OPEN}{_name_day(latest.period)}"
        )
        yield Reason(BY_TREND, history.score_id, current, previous, text, day=latest.period)


_OPEN: Final = "; not acknowledged"
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


def gate(histories: Sequence[History], config: Config, query: GateQuery) -> Gate:
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
    histories: Sequence[History], judged: Sequence[History], config: Config, query: GateQuery
) -> Iterator[Reason]:
    # Below 50 the specification blocks evolution as such, so that naming one score does not narrow this.
    known = {history.score_id: history.latest for history in histories if history.latest is not None}
    for alert in alerts(known, config, BLOCK):
        why = f"below {number(alert['below'])}: {alert['level']}, which blocks all"
        reason = _refuse(alert["score"], known[alert["score"]], CRITICAL, alert["below"], why)
        yield reason._replace(value=float(alert["value"]))
    # The specification blocks the evolution of a component by its own score, below 70.
    own = None if query.score_id is None else config.gates.least
    yield from _find_below(judged, own, OWN, "the least with which it may evolve")
    for history in judged:
        yield from regressions(history, config)
    yield from _find_below(judged, query.minimum, MINIMUM, "the minimum that was asked for")
    if query.greatest_drop is not None:
        yield from _find_drops(judged, query.greatest_drop)
    # CI that lost its measurements must not pass.
    yield from _find_unmeasured(judged, closes=not query.allow_no_data)


def _find_below(judged: Iterable[History], bound: float | None, rule: str, meaning: str) -> Iterator[Reason]:
    """Yield a reason for each score below a bound, where there is one."""
    for history in judged:
        if bound is not None and history.latest is not None and history.latest.value < bound:
            yield _refuse(history.score_id, history.latest, rule, bound, f"below {number(bound)}, {meaning}")


def _find_drops(judged: Iterable[History], greatest: float) -> Iterator[Reason]:
    """Yield a reason for each score that dropped too far, and one for those with nothing to compare with."""
    first = []
    for history in judged:
        latest, baseline = history.latest, history.baseline
        if latest is None:
            continue
        if baseline is None and len(history.sessions) == 1:
            first.append(history)
            continue
        # A baseline is what a person accepted as the state to compare with, whatever the session before it scored.
        before = baseline.value if baseline else float(history.sessions[-2].value)
        if latest.value < before - greatest:
            name = "its baseline" if baseline else "the session before"
            fell = f"{number(before - latest.value)} points below {name}, {number(before)}"
            why = f"{fell}, and no more than {number(greatest)} are allowed"
            yield _refuse(history.score_id, latest, DROP, before - greatest, why)
    yield from _about_all(DROP, first, "a first score, with nothing that it could have dropped from", closes=False)


def _about_all(rule: str, about: Sequence[History], what: str, *, closes: bool) -> Iterator[Reason]:
    """Yield one reason about all of these scores, none without scores."""
    if about:
        only = about[0] if len(about) == 1 else History("")
        day = only.latest.period if only.latest is not None else ""
        text = f"{', '.join(history.score_id for history in about)}: {what}{_name_day(day)}"
        yield Reason(rule, only.score_id, None, None, text, closes, day)


def _find_unmeasured(judged: Sequence[History], *, closes: bool) -> Iterator[Reason]:
    """Yield the reasons about scores without enough data; they close the gate only if no checked score has enough."""
    unknown = [history for history in judged if history.latest is None and history.partial is None]
    closes = closes and len(unknown) + sum(history.partial is not None for history in judged) == len(judged)
    for history in judged:
        if (latest := history.partial) is not None:
            on = f" on {latest.period}" if latest.period else ""
            text = f"{history.score_id}: {NOT_ENOUGH} ({latest.measured} %){on}"
            yield Reason(NOT_ENOUGH, history.score_id, latest.value, None, text, closes, latest.period)
    yield from _about_all(NO_DATA, unknown, "no data, no session has scored it yet", closes=closes)
