"""What was measured of a session, whatever is made of it: folded from events, in whatever order they came. Pure.

Nothing here asks the configuration, so another one needs no other inputs.
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
"""What the session of a benchmark that names none is called, with the id of its event behind it."""


class Said(NamedTuple):
    """When something was said: of two, the greater one later, in whatever order they are heard.

    Attributes:
        at: When it happened.
        recorded: When it was recorded; of what happened at one time, the last one to be recorded is last.
        place: Its place in its batch, from 1.
        id: The event's id.
    """

    at: str
    recorded: str
    place: int
    id: str


class Time(NamedTuple):
    """When something was, as one of its events has it: of two the greater one is the later, of those that know best.

    Attributes:
        named: Whether the event says when that was; else it was recorded then, which may be days later.
        at: When; empty before anything was.
    """

    named: bool = False
    at: str = ""


NEVER: Final = Time()


class Value(NamedTuple):
    """What was measured under one name.

    Attributes:
        total: The sum of all values, exactly; true counts 1.
        last: The value that was measured last.
        said: When that was, and by which event.
    """

    total: int | Fraction
    last: float
    said: Said

    def plus(self, other: Value) -> Value:
        """Return what both come to, in whatever order."""
        later = max(self, other, key=lambda value: value.said)
        return Value(self.total + other.total, later.last, later.said)


class Share(NamedTuple):
    """A sum of something, and of what it is a part of: passed and total cases, or points and how many judged.

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
        """Return part / whole of what has a whole."""
        return float(self.part / self.whole)


class Counted(NamedTuple):
    """What a session counts for in the periods that it lies in, so that it can be taken out again.

    Attributes:
        day: Its day, ``2026-01-16``.
        version: Its version, empty where unknown.
        scores: Score id → score, 0 to 100.
        lacking: Score id → percent of its weight that was not measured, 1 to 100, where that is any.
    """

    day: str
    version: str
    scores: Mapping[str, int]
    lacking: Mapping[str, int]


@attrs.define
class Session:
    """What was measured in a session.

    Attributes:
        id: Its id.
        named: Whether any of this names it; a benchmark that names none is a session of its own.
        values: Component → name → what was measured.
        benchmarks: Component → cases passed, of how many.
        feedback: Component, or empty for the session itself → sum of points, and how many judged.
        first_at: When the first of this happened.
        last: When the last did, but for people's feedback, which may come days later.
        judged: When the last of that did.
        ended: When it ended last.
        released: The version, as the last one of its ends that names one has it, and when that was said; None before.
        seq: The last event of it, by number.
        counted: What it counts for; None before it was counted.
    """

    id: str
    named: bool = False
    values: dict[str, dict[str, Value]] = attrs.field(factory=dict)
    benchmarks: dict[str, Share] = attrs.field(factory=dict)
    feedback: dict[str, Share] = attrs.field(factory=dict)
    first_at: str = ""
    last: Time = NEVER
    judged: Time = NEVER
    ended: Time = NEVER
    released: tuple[Said, str] | None = None
    seq: int = 0
    counted: Counted | None = None

    @property
    def at(self) -> str:
        """Return when it was: when it ended, else when the last of it was measured, else when it was judged.

        An end or a measurement that names its time goes before one that does not: an end that is sent days later would
        move an old session to that day.
        """
        ends = self.ended.at and self.ended.named >= self.last.named
        return self.ended.at if ends else self.last.at or self.judged.at

    @property
    def version(self) -> str:
        """Return the version that it ended with, empty where unknown."""
        return self.released[1] if self.released else ""

    @property
    def components(self) -> dict[str, None]:
        """Return the components of which anything was measured."""
        return dict.fromkeys([*self.values, *self.benchmarks, *filter(None, self.feedback)])

    def measured(self, component: Component) -> dict[str, float]:
        """Return name → value of a component: the sum of a counter, the last value of anything else."""
        found = self.values.get(component.id, {})
        return {name: float(one.total) if component.adds_up(name) else one.last for name, one in found.items()}

    def hear(self, record: EventRecord) -> None:
        """Take in an event of this session."""
        said = Said(happened(record), record.at, record.part[0], record.id)
        time = Time(record.when is not None, said.at)
        self.first_at = min(self.first_at or said.at, said.at)
        self.seq = max(self.seq, record.seq)
        self.named = self.named or bool(record.by.session)
        if isinstance(record.event, FeedbackRecorded):
            self.judged = max(self.judged, time)
        else:
            self.last = max(self.last, time)
        if isinstance(record.event, SessionEnded):
            self.ended = max(self.ended, time)
        _HEAR[type(record.event)](self, record.event, said)


def session_of(record: EventRecord) -> str:
    """Return the session that an event counts for, empty for none.

    A benchmark that names none is a session of its own, so that a run outside of any, as in CI, is the latest score of
    its component. What a person says is not: one word would be all that a score is made of.
    """
    if not record.by.session and isinstance(record.event, BenchmarkRecorded):
        return f"{RUN}{record.id}"
    return record.by.session or ""


def happened(record: EventRecord) -> str:
    """Return when something happened; what claims to come from the future happened when it was recorded.

    One time far ahead would make everything else too old to be kept.
    """
    return min(record.when or record.at, record.at)


def exact(value: float) -> int | Fraction:
    """Return a number that can be added up in any order with the same result."""
    return int(value) if value == int(value) else Fraction(value)


def _metrics(session: Session, event: MetricsRecorded, said: Said) -> None:
    if not event.component:
        return
    values = session.values.setdefault(component_id(event.component), {})
    for name, number in event.metrics.items():
        value = Value(exact(number), number, said)
        before = values.get(name)
        values[name] = value if before is None else before.plus(value)


def _benchmark(session: Session, event: BenchmarkRecorded, _said: Said) -> None:
    component = component_id(event.component)
    share = session.benchmarks.get(component, Share())
    session.benchmarks[component] = share.plus(Share(event.passed, event.total))


def _feedback(session: Session, event: FeedbackRecorded, _said: Said) -> None:
    component = component_id(event.component)
    share = session.feedback.get(component, Share())
    session.feedback[component] = share.plus(Share(exact(event.score), 1))


def _ended(session: Session, event: SessionEnded, said: Said) -> None:
    if event.version:
        # One that names none does not take the name away.
        session.released = max(session.released or (said, event.version), (said, event.version))


_HEAR: Final[dict[type[Any], Callable[[Session, Any, Said], None]]] = {
    MetricsRecorded: _metrics,
    BenchmarkRecorded: _benchmark,
    FeedbackRecorded: _feedback,
    SessionEnded: _ended,
}
"""Kind → what it adds to its session."""

KINDS: Final = tuple(_HEAR)
