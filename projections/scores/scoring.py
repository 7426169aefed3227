"""The measurements of a session, and its scores: of metrics, components, composites; grades, alerts and trends.

Source: "Score Types", "Scoring Algorithms", "Score Thresholds" and "Trend Calculation" of the scoring framework. Pure.

Composites are cut to whole points, and the overall score is made of those, as its example has it: 92, 88, 85, 95, 78,
82, 75, 90, 94 → 93, 86, 81, 94, and 87. Grades, levels and thresholds come from the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import floor
from numbers import Rational
from statistics import mean
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from tallybook.ledger import events
from tallybook.projections.scores.config import COUNT, OVERALL, SESSION, TOTAL, component_id

if TYPE_CHECKING:
    from tallybook.ledger.records import EventRecord
    from tallybook.projections.scores.config import Component, Config, Grade, Metric

    Exact = int | Fraction
else:
    # In one of its unions msgspec allows no class that it does not know; both are of this class.
    Exact = Rational

SCORING_OFF: Final = "scoring is off: scoring-config.yaml has `enabled: false`"


def grade_of(value: float, config: Config) -> Grade:
    """Return the grade of a score from 0 to 100; between two rows, as 89.6 is, it has not reached the upper one."""
    return next(grade for grade in config.grades if grade.least <= value)


class Level(NamedTuple):
    """A score in a session, or on average over a period.

    Attributes:
        period: The day of the session, ``2026-01-16``; or the day, week or month, ``2026-W03`` or ``2026-01``.
        value: 0 to 100.
        measured: How much of its weight was measured, 0 to 100 percent.
        seq: Number of the last event of the session; 0 for a period.
    """

    period: str
    value: int
    measured: int = 100
    seq: int = 0


RUN: Final = "benchmark-"
"""Prefix of the session id of a benchmark without a session; the id of its event follows."""


class EventTime(NamedTuple):
    """A position in time that orders events the same way however they arrive: the greater is the later.

    Attributes:
        at: When it happened.
        recorded: When it was recorded, which orders events that happened at one time.
        place: Its position in its batch, from 1.
        id: The event's id.
    """

    at: str
    recorded: str
    place: int
    id: str


class Time(NamedTuple):
    """A time of the session: an event that names its own time beats one that does not, then the later one wins.

    Attributes:
        named: Whether the event names its time; otherwise this is when it was recorded, perhaps days later.
        at: The time; empty before any event.
    """

    named: bool = False
    at: str = ""


NEVER: Final = Time()


class Value(NamedTuple):
    """The measurements under one name.

    Attributes:
        total: The sum of all values, exactly; true counts 1.
        last: The last value.
        last_from: The event that measured the last value.
    """

    total: Exact
    last: bool | int | float
    last_from: EventTime


class Share(NamedTuple):
    """A sum of parts and a sum of wholes: passed and total cases, or points and number of feedbacks.

    Attributes:
        part: The first sum.
        whole: The second.
    """

    part: Exact = 0
    whole: int = 0

    @property
    def quotient(self) -> float:
        """Return part / whole; the whole is above 0."""
        return float(self.part / self.whole)


class Session(msgspec.Struct, array_like=True):
    """The measurements of one session.

    Attributes:
        id: Its id.
        named: Whether an event names it; a benchmark without a session is a session of its own.
        values: Component → name → measurements.
        benchmarks: Component → passed and total cases.
        feedback: Component, or empty for the session itself → sum of points and number of feedbacks.
        first_at: Time of the first event.
        last: Time of the last event other than people's feedback, which may come days later.
        ended: Time of the last end of the session.
        version_at: The version in the last end that names one, with the time of that end; None without one.
        seq: Number of its last event.
    """

    id: str
    named: bool = False
    values: dict[str, dict[str, Value]] = {}
    benchmarks: dict[str, Share] = {}
    feedback: dict[str, Share] = {}
    first_at: str = ""
    last: Time = NEVER
    ended: Time = NEVER
    version_at: tuple[EventTime, str] | None = None
    seq: int = 0

    @property
    def at(self) -> str:
        """Return the time of the session: its end, else its last measurement, else its first event.

        An end or a measurement that names its time goes before one that does not: an end that is sent days later would
        move an old session to that day.
        """
        ends = self.ended.at and self.ended.named >= self.last.named
        return self.ended.at if ends else self.last.at or self.first_at

    @property
    def version(self) -> str:
        """Return the version that it ended with, empty where unknown."""
        return self.version_at[1] if self.version_at else ""

    @property
    def components(self) -> dict[str, None]:
        """Return the components with measurements."""
        return dict.fromkeys([*self.values, *self.benchmarks, *filter(None, self.feedback)])

    def sum_values(self, component: Component) -> dict[str, float]:
        """Return name → value of a component: the sum of a counter, the last value of anything else."""
        values = self.values.get(component.id, {})
        return {name: float(value.total) if component.adds_up(name) else value.last for name, value in values.items()}

    def add_event(self, record: EventRecord) -> None:
        """Add an event of this session."""
        # Ids within a batch are in no order: without the place either of two values of one time could win.
        moment = EventTime(time_of(record), record.at, record.part[0], record.id)
        time = Time(record.when is not None, moment.at)
        self.first_at = min(self.first_at or moment.at, moment.at)
        self.seq = max(self.seq, record.seq)
        self.named = self.named or bool(record.by.session)
        # A person may judge days later, and that leaves the session on its day.
        if not isinstance(record.event, events.FeedbackRecorded):
            self.last = max(self.last, time)
        match record.event:
            case events.MetricsRecorded(component=component, metrics=metrics) if component:
                values = self.values.setdefault(component_id(component), {})
                for name, number in metrics.items():
                    before = values.get(name, Value(0, number, moment))
                    last, last_from = (number, moment) if moment > before.last_from else (before.last, before.last_from)
                    values[name] = Value(before.total + exact(number), last, last_from)
            case events.BenchmarkRecorded(component=component, passed=passed, total=total):
                _add_share(self.benchmarks, component, passed, total)
            case events.FeedbackRecorded(component=component, score=score):
                _add_share(self.feedback, component, exact(score), 1)
            case events.SessionEnded(version=version):
                self.ended = max(self.ended, time)
                if version:
                    # An end without a version keeps the version of an earlier end.
                    self.version_at = max(self.version_at or (moment, version), (moment, version))


def session_of(record: EventRecord) -> str:
    """Return the session of an event, empty for none.

    A benchmark that names none is a session of its own, so that a run outside of any, as in CI, is the latest score of
    its component. Feedback of a person is not: a single
    word would then be a score.
    """
    if not record.by.session and isinstance(record.event, events.BenchmarkRecorded):
        return f"{RUN}{record.id}"
    return record.by.session or ""


def time_of(record: EventRecord) -> str:
    """Return when an event happened; a time in the future counts as the time of recording.

    Otherwise one wrong clock would make all other sessions too old for retention.
    """
    return min(record.when or record.at, record.at)


def exact(value: float) -> Exact:
    """Return a number that can be added up in any order with the same result."""
    return int(value) if value == int(value) else Fraction(value)


def _add_share(shares: dict[str, Share], component: str, part: Exact, whole: int) -> None:
    before = shares.get(component_id(component), Share())
    shares[component_id(component)] = Share(before.part + part, before.whole + whole)


# ---- Scores ----


def is_enough(measured: int, config: Config) -> bool:
    """Return whether so many percent of a score's weight are enough; less counts as no data wherever it is used."""
    return measured / 100 >= config.display.min_coverage


def alerts(levels: Mapping[str, Level], config: Config, channel: str) -> list[dict[str, Any]]:
    """Return the alerts of all scores for one channel, in the order of the scores; a high score has none.

    Args:
        levels: Score id → score.
        config: The bounds, of which the worst is the lowest, and the channels.
        channel: One of LOG, DASHBOARD, USER and BLOCK.

    Returns:
        Each ``{score, level, value, day, below, notify}``: the name and the bound of the worst level that it reaches,
        and the channels of the milder levels and of that level, in this order.
    """
    bounds, channels = msgspec.structs.asdict(config.thresholds), msgspec.structs.asdict(config.notifications)
    low = []
    for score_id, (day, value, *_) in levels.items():
        # What is critical needs attention everywhere, so that a level also has the channels of the milder ones.
        reached = [name for name, below in bounds.items() if value < below]
        notify = list(dict.fromkeys(to for name in reached for to in channels[name]))
        if channel in notify:
            alert = {"score": score_id, "level": reached[-1], "value": value, "day": day}
            low.append(alert | {"below": bounds[reached[-1]], "notify": notify})
    return low


def number(value: float) -> str:
    """Format a score or a bound for a sentence: at most two decimals, without trailing zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


FULL: Final = 100.0
# Rounding errors of sums of weights such as 0.35 are smaller than this, and real distances to a tie are larger.
_TIE: Final = 1e-9


def clamp(points: float) -> float:
    """Return points between 0 and 100."""
    return min(max(points, 0.0), FULL)


def half_up(points: float) -> int:
    """Return points as a whole number, halves rounded up."""
    # The Math.round of the specification takes halves up, and Python's own function takes them to the even number.
    return floor(points + 0.5 + _TIE)


def percent(share: float) -> int:
    """Return a share of 0 to 1 in whole percent: only all of it is 100, and only nothing of it 0."""
    least = 1 if share > _TIE else 0
    return min(max(half_up(share * FULL), least), 100 if share > 1 - _TIE else 99)


def weigh(parts: Iterable[tuple[float, float]]) -> float | None:
    """Return the average of (points, weight), the weights normalised over those given; None for none."""
    # As in the specification, the weights of what is there count: what was not measured is never 0.
    total = weight = 0.0
    for points, share in parts:
        total += points * share
        weight += share
    return total / weight if weight else None


def points(metric: Metric, measured: Mapping[str, float]) -> tuple[float | None, tuple[str, ...]]:
    """Return the points of a metric, None where it was not measured, and the names of the values that they are made of.

    Args:
        metric: The metric.
        measured: Name → its value in a session: the sum of a counter, the last value of anything else.
    """
    own = (metric.of, metric.per) if metric.per else (metric.of,)
    # A metric may be sent as a part and a whole instead of a share.
    ways = ((own, FULL), ((f"{metric.of}{COUNT}", f"{metric.of}{TOTAL}"), FULL), (metric.counts, 1.0))
    value: float | None = None
    used: tuple[str, ...] = ()
    for names, factor in ways:
        if value is None and names and names[-1] in measured:
            used = used or names
            value, whole = measured.get(names[0]), measured[names[-1]]
            # The specification gives 100 where no drift came up and where nothing was implemented.
            if metric.form == "ratio" and (value is None or whole <= 0):
                return None if whole > 0 else metric.empty, used
            # Telemetry sends 0 for what could have happened and did not: what is missing was not measured.
            # A success rate made of nothing once closed a gate.
            if len(names) > 1:
                value = None if value is None or whole <= 0 else value / whole * factor
    if value is None:
        return None, used
    if metric.form in {"linear", "inverse"}:
        # From worst (0 points) to best (100); inverse where best is less than worst.
        value = (value - metric.worst) / (metric.best - metric.worst) * FULL
    elif metric.form == "boolean" and used == own:
        value = FULL * bool(value)
    # The specification takes the share of rollbacks from 100, and caps a throughput beyond its target at 100.
    return FULL - clamp(value) if metric.rest else clamp(value), used


BENCHMARKS: Final = "benchmarks"
FEEDBACK: Final = "feedback"


class Part(NamedTuple):
    """A part of a component's score.

    Attributes:
        name: The metric, or ``benchmarks`` or ``feedback``.
        points: Its points, 0 to 100; None for no data.
        weight: Its configured weight.
        measured: Whether it was measured; a configured substitute (``missing``) has points without that.
        names: The names of the values that a metric is made of.
    """

    name: str
    points: float | None
    weight: float
    measured: bool
    names: tuple[str, ...] = ()


class Score(NamedTuple):
    """A component's score in a session.

    Attributes:
        value: 0 to 100; None where nothing of it was measured.
        coverage: The share of the weight of its metrics, and of its benchmarks where it has some, that was measured,
            0 to 1; feedback measures nothing.
        parts: Its parts, those without data as well.
    """

    value: int | None
    coverage: float
    parts: tuple[Part, ...]

    def share(self, part: Part) -> float | None:
        """Return a part's share of the weight of those that have points; None where it has none."""
        total = sum(part.weight for part in self.parts if part.points is not None)
        # Feedback without anything measured has points and no weight.
        return None if part.points is None or not total else part.weight / total


def component_score(component: Component, session: Session, config: Config) -> Score:
    """Return a component's score in a session."""
    measured = session.sum_values(component)
    scored = [(metric, *points(metric, measured)) for metric in component.metrics]
    # The specification takes 80 for a missing review; by itself, that would score a component that nothing measured.
    is_measured = any(value is not None for _, value, _ in scored)
    parts = [
        Part(
            metric.name,
            metric.missing if value is None and is_measured else value,
            metric.weight,
            value is not None,
            names,
        )
        for metric, value, names in scored
    ]
    total = sum(metric.weight for metric in component.metrics)
    # A benchmark counts as much whatever weights a project gives its metrics, which need not sum to 1.
    if (benchmarks := session.benchmarks.get(component.id)) and benchmarks.whole and config.benchmarks.weight:
        weight = config.benchmarks.weight * total
        parts.append(Part(BENCHMARKS, benchmarks.quotient * FULL, weight, measured=True))
    coverage = sum(part.weight for part in parts if part.measured) / sum(part.weight for part in parts)
    # As a score of its own, a single word of a person closed every gate: feedback adjusts what was measured, and weighs
    # no more than that.
    if (feedback := session.feedback.get(component.id)) and config.feedback.weight:
        known = sum(part.weight for part in parts if part.points is not None)
        parts.append(Part(FEEDBACK, feedback.quotient, config.feedback.weight * min(known, total), measured=True))
    value = weigh((part.points, part.weight) for part in parts if part.points is not None)
    return Score(None if value is None else half_up(value), coverage, tuple(parts))


def score_session(session: Session, config: Config) -> tuple[dict[str, int], dict[str, float]]:
    """Return score id → score of a session, and of each the share of its weight that was measured, 0 to 1.

    They are in the configuration's order, without scores that have no data. A benchmark without a session has a
    component score only, and no composites.
    """
    # Most sessions measure only a few components.
    present = session.components
    values, shares = {}, {}
    for name, component in config.components.items():
        score = component_score(component, session, config) if name in present else None
        if score is not None and score.value is not None:
            values[name], shares[name] = score.value, score.coverage
    if not session.named:
        return values, shares
    feedback = session.feedback.get("")
    made = composites(values, config, feedback.quotient if feedback else None)
    # No data counts as 0 in the measured shares.
    whole = {
        name: sum(shares.get(part, 0.0) for part in parts) / len(parts)
        for name, parts in config.sessions.items()
        if parts
    }
    whole[OVERALL] = weigh((share, config.session_weights[name]) for name, share in whole.items()) or 0.0
    return values | made, shares | {name: whole[name.removeprefix(SESSION)] for name in made}


def composites(components: Mapping[str, int], config: Config, feedback: float | None = None) -> dict[str, int]:
    """Return the composites and the overall score of components' scores, without those that have no data.

    Args:
        components: Component → score.
        config: Their parts and weights.
        feedback: What people gave the session itself, 0 to 100, None without feedback. It adjusts what was measured:
            its weight compares with that of the composites that there are.
    """
    made = {
        name: sum(there) // len(there)
        for name, parts in config.sessions.items()
        if (there := [components[part] for part in parts if part in components])
    }
    weights: list[tuple[float, float]] = [(value, config.session_weights[name]) for name, value in made.items()]
    if feedback is not None:
        weights.append((feedback, config.feedback.weight * sum(weight for _, weight in weights)))
    overall = weigh(weights)
    return {f"{SESSION}{name}": value for name, value in made.items()} | (
        {} if overall is None else {f"{SESSION}{OVERALL}": floor(overall + _TIE)}
    )


# Trends

_FINEST: Final = 1_000_000
"""Largest denominator of the fraction that a float is read as: 0.15 as 3/20, 85.2857142857143 as 597/7.

So no rounding of an average depends on the last bit of its float.
"""


def tenths(value: Fraction) -> float:
    """Return a number to one decimal, half of a tenth away from zero, so that -2.25 mirrors 2.25."""
    size = floor(abs(value) * 10 + Fraction(1, 2))
    return (size if value > 0 else -size) / 10


def _average(values: Sequence[float]) -> Fraction:
    """Return the exact average of at least one value."""
    return mean(Fraction(value).limit_denominator(_FINEST) for value in values)


def trend(series_values: Sequence[float], days: int) -> dict[str, Any] | None:
    """Compare the last ``days`` values with the ``days`` before them, or with as many of those as there are.

    Args:
        series_values: One finite number of 0 or more for each day with a score, oldest first.
        days: How many make up one side, 1 or more.

    Returns:
        ``{direction, delta, delta_percent, current_avg, previous_avg}``, the numbers to one decimal: improving,
        declining or stable, by the difference before it is rounded; the difference, in points and in percent of the
        earlier average; the two averages. None where there is not enough data: there are no days before the last ones,
        or its average is 0.
    """
    recent, before = series_values[-days:], series_values[-2 * days : -days]
    if not before:
        return None
    current, previous = _average(recent), _average(before)
    # The formula of the specification divides by it.
    if previous == 0:
        return None
    delta = current - previous
    # Decided before the difference is rounded: a fall of less than half a tenth is no stable score.
    direction = "improving" if delta > 0 else "declining" if delta < 0 else "stable"
    return {
        "direction": direction,
        "delta": tenths(delta),
        "delta_percent": tenths(delta / previous * 100),
        "current_avg": tenths(current),
        "previous_avg": tenths(previous),
    }
