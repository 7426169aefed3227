"""The measurements of a session, folded from its events in any order. Pure.

Nothing here depends on the configuration, so another configuration has the same inputs.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger.events import BenchmarkRecorded, FeedbackRecorded, MetricsRecorded, SessionEnded
from tallybook.projections.scores.configuration.model import component_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallybook.ledger.records import EventRecord
    from tallybook.projections.scores.configuration.model import Component

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

    total: int | Fraction
    last: float
    last_from: EventTime

    def plus(self, other: Value) -> Value:
        """Combine two values; the order does not matter."""
        later = max(self, other, key=lambda value: value.last_from)
        return Value(self.total + other.total, later.last, later.last_from)


class Share(NamedTuple):
    """A sum of parts and a sum of wholes: passed and total cases, or points and number of feedbacks.

    Attributes:
        part: The first sum.
        whole: The second.
    """

    part: int | Fraction = 0
    whole: int = 0

    def plus(self, other: Share) -> Share:
        """Return both sums together."""
        return Share(self.part + other.part, self.whole + other.whole)

    @property
    def quotient(self) -> float:
        """Return part / whole; the whole is above 0."""
        return float(self.part / self.whole)


class Contribution(NamedTuple):
    """What a session has added to the tallies of its periods, so that it can be subtracted again.

    Attributes:
        day: Its day, ``2026-01-16``.
        version: Its version, empty where unknown.
        scores: Score id → score, 0 to 100.
        unmeasured: Score id → percent of its weight that was not measured, 1 to 100; no item for 0.
    """

    day: str
    version: str
    scores: Mapping[str, int]
    unmeasured: Mapping[str, int]


@attrs.define
class Session:
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
        contribution: What it added to its periods; None before it was counted.
    """

    id: str
    named: bool = False
    values: dict[str, dict[str, Value]] = attrs.field(factory=dict)
    benchmarks: dict[str, Share] = attrs.field(factory=dict)
    feedback: dict[str, Share] = attrs.field(factory=dict)
    first_at: str = ""
    last: Time = NEVER
    ended: Time = NEVER
    version_at: tuple[EventTime, str] | None = None
    seq: int = 0
    contribution: Contribution | None = None

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
    def scores(self) -> Mapping[str, int]:
        """Return score id → score as counted last, empty without one."""
        return self.contribution.scores if self.contribution else {}

    @property
    def day(self) -> str:
        """Return the day of its scores, empty without one."""
        return self.contribution.day if self.contribution else ""

    def measured_percent(self, score_id: str) -> int:
        """Return how much of the weight of a score that it has was measured, 0 to 100 percent."""
        return 100 - (self.contribution.unmeasured.get(score_id, 0) if self.contribution else 0)

    @property
    def components(self) -> dict[str, None]:
        """Return the components with measurements."""
        return dict.fromkeys([*self.values, *self.benchmarks, *filter(None, self.feedback)])

    def measured(self, component: Component) -> dict[str, float]:
        """Return name → value of a component: the sum of a counter, the last value of anything else."""
        values = self.values.get(component.id, {})
        return {name: float(one.total) if component.adds_up(name) else one.last for name, one in values.items()}

    def add_event(self, record: EventRecord) -> None:
        """Add an event of this session."""
        moment = EventTime(time_of(record), record.at, record.part[0], record.id)
        time = Time(record.when is not None, moment.at)
        self.first_at = min(self.first_at or moment.at, moment.at)
        self.seq = max(self.seq, record.seq)
        self.named = self.named or bool(record.by.session)
        if not isinstance(record.event, FeedbackRecorded):
            self.last = max(self.last, time)
        if isinstance(record.event, SessionEnded):
            self.ended = max(self.ended, time)
        _EFFECTS[type(record.event)](self, record.event, moment)


def session_of(record: EventRecord) -> str:
    """Return the session of an event, empty for none.

    A benchmark that names none is a session of its own, so that a run outside of any, as in CI, is the latest score of
    its component. Feedback of a person is not: a single
    word would then be a score.
    """
    if not record.by.session and isinstance(record.event, BenchmarkRecorded):
        return f"{RUN}{record.id}"
    return record.by.session or ""


def time_of(record: EventRecord) -> str:
    """Return when an event happened; a time in the future counts as the time of recording.

    Otherwise one wrong clock would make all other sessions too old for retention.
    """
    return min(record.when or record.at, record.at)


def exact(value: float) -> int | Fraction:
    """Return a number that can be added up in any order with the same result."""
    return int(value) if value == int(value) else Fraction(value)


def _metrics(session: Session, event: MetricsRecorded, moment: EventTime) -> None:
    if not event.component:
        return
    values = session.values.setdefault(component_id(event.component), {})
    for name, number in event.metrics.items():
        value = Value(exact(number), number, moment)
        before = values.get(name)
        values[name] = value if before is None else before.plus(value)


def _benchmark(session: Session, event: BenchmarkRecorded, _moment: EventTime) -> None:
    component = component_id(event.component)
    share = session.benchmarks.get(component, Share())
    session.benchmarks[component] = share.plus(Share(event.passed, event.total))


def _feedback(session: Session, event: FeedbackRecorded, _moment: EventTime) -> None:
    component = component_id(event.component)
    share = session.feedback.get(component, Share())
    session.feedback[component] = share.plus(Share(exact(event.score), 1))


def _ended(session: Session, event: SessionEnded, moment: EventTime) -> None:
    if event.version:
        # An end without a version keeps the version of an earlier end.
        session.version_at = max(session.version_at or (moment, event.version), (moment, event.version))


_EFFECTS: Final[dict[type[Any], Callable[[Session, Any, EventTime], None]]] = {
    MetricsRecorded: _metrics,
    BenchmarkRecorded: _benchmark,
    FeedbackRecorded: _feedback,
    SessionEnded: _ended,
}
"""Class of an event → how it adds to its session."""

KINDS: Final = tuple(_EFFECTS)
