"""The measurements of a session, folded from its events in any order; some are computed from events of the playbook.

Nothing here depends on the configuration, so another configuration has the same inputs. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from numbers import Rational
from typing import TYPE_CHECKING, Any, Final, NamedTuple
import zlib

import attrs
import msgspec

from tallybook.ledger import events
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.projections.history.entry_history import normalize_words
from tallybook.projections.playbook.view import CHANGES, Playbook, settle
from tallybook.projections.scores.config import Component, component_id
from tallybook.projections.scores.scoring import Level

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord

    Exact = int | Fraction
else:
    # In one of its unions msgspec allows no class that it does not know; both are of this class.
    Exact = Rational

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


NOT_COUNTED: Final = Contribution("", "", {}, {})


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
        contribution: What it added to its periods; NOT_COUNTED before it was counted, and where it has no score.
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
    contribution: Contribution = NOT_COUNTED

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

    def level(self, score_id: str) -> Level | None:
        """Return a score as counted last, None without it."""
        value, unmeasured = self.scores.get(score_id), self.contribution.unmeasured.get(score_id, 0)
        return None if value is None else Level(self.contribution.day, value, 100 - unmeasured, self.seq)

    @property
    def scores(self) -> Mapping[str, int]:
        """Return score id → score as counted last, empty without one."""
        return self.contribution.scores

    @property
    def day(self) -> str:
        """Return the day of its scores, empty without one."""
        return self.contribution.day

    @property
    def components(self) -> dict[str, None]:
        """Return the components with measurements."""
        return dict.fromkeys([*self.values, *self.benchmarks, *filter(None, self.feedback)])

    def measured(self, component: Component) -> dict[str, float]:
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


KINDS: Final = (events.MetricsRecorded, events.BenchmarkRecorded, events.FeedbackRecorded, events.SessionEnded)
"""Classes of the events that add to a session."""


Packed = tuple[str, int, bytes]
"""When a session was, the number of its last event, and its bytes."""


class Sessions(Mapping[str, Session]):
    """Sessions by id; a session that is taken out and changed must be put back."""

    def __init__(self, data: bytes = b"") -> None:
        """Begin with the bytes of `encode`; a long history has very many sessions, and most questions need none."""
        self._data = data

    # Of a checkpoint with 333,333 sessions, decoding them all took 1.6 of 2.1 s.
    @cached_property
    def _packed(self) -> dict[str, Packed]:
        return msgspec.msgpack.decode(self._data, type=dict[str, Packed]) if self._data else {}

    def __getitem__(self, id_: str) -> Session:
        """Return the session of an id."""
        return _SESSIONS.decode(zlib.decompress(self._packed[id_][2]))

    def __setitem__(self, id_: str, session: Session) -> None:
        """Store a new or changed session."""
        # Each value names its event. Compressed, that takes a third. JSON has no fractions; they are written as text.
        data = zlib.compress(msgspec.json.encode(session, enc_hook=str), 1)
        self._packed[id_] = (session.at, session.seq, data)

    def __iter__(self) -> Iterator[str]:
        """Yield the ids."""
        return iter(self._packed)

    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self._packed)

    def encode(self) -> bytes:
        """Return all sessions as bytes."""
        return msgspec.msgpack.encode(self._packed)

    def changed_since(self, seq: int) -> list[str]:
        """Return the ids of the sessions that have an event after this number."""
        return [id_ for id_, (_, last, _) in self._packed.items() if last > seq]

    def latest(self) -> Iterator[Session]:
        """Yield the sessions, the latest first; of several at one time the greater id first."""
        for _, id_ in sorted(((at, id_) for id_, (at, *_) in self._packed.items()), reverse=True):
            yield self[id_]


_SESSIONS: Final = msgspec.json.Decoder(
    Session, dec_hook=lambda _, value: value if isinstance(value, int) else Fraction(value)
)


PLAYBOOK: Final = "playbook"
"""The component that is measured by events of the playbook, which is off by default."""


@attrs.define
class ScoredPlaybook(Playbook):
    """The playbook, and the words of all its texts.

    Attributes:
        words: Words of a text, as ``entry_history.normalize_words`` gives them → the names that had it, in order.
    """

    words: dict[str, dict[str, None]] = attrs.field(factory=dict)


def measure_batch(playbook: ScoredPlaybook, batch: Batch) -> EventRecord | None:
    """Apply a batch to the playbook, and return what it measures, as if it had been sent; None for nothing.

    Returns:
        Metrics of the component with the metadata of the last event that measures something. Each value adds up over a
        session.
    """
    values: Counter[str] = Counter()
    place, is_changed = None, False
    for index, event in enumerate(batch.events):
        # Measured before the change: whether the rated entry exists depends on the playbook before the event.
        if measured := _measure(playbook, event):
            values.update(measured)
            # Not the batch's last event: a kind of a later version there would give the measurement another id.
            place = index
        if (change := CHANGES.get(type(event))) is not None:
            change(playbook, event, batch)
            is_changed = True
            point = playbook.entries.get(event.name) if isinstance(event, events.TEXT_GIVERS) else None
            # All redacted texts read the same, and would pass for one piece of advice.
            if point is not None and point.text != REDACTED:
                playbook.words.setdefault(normalize_words(point.text), {})[point.name] = None
    if is_changed:
        settle(playbook, batch)
    if place is None:
        return None
    return attrs.evolve(batch.records[place], event=events.MetricsRecorded(PLAYBOOK, events.Numbers({**values}), ""))


def _measure(playbook: ScoredPlaybook, event: Any) -> dict[str, int]:
    """Return what an event measures, by the names that the configuration of the component uses."""
    match event:
        case events.PointRated(name=name, rating=rating) if playbook.merged.get(name, name) in playbook.entries:
            return _RATINGS.get(rating, {})
        case events.PointAdded(name=name, text=text) if name not in playbook.entries:
            # An entry that a person retired may be learned again: only one that the policy pruned counts as relearned.
            earlier = () if text is None else playbook.words.get(normalize_words(text), ())
            return {"learned": 1, "relearned": int(any(former in playbook.pruned for former in earlier))}
        case events.PlaybookUpdated():
            # Only an update measures what did not happen: a session without one has no score, rather than a bad one.
            nothing = dict.fromkeys(("ratings", "judged", "helpful", "learned", "relearned"), 0)
            return nothing | {"pruned": len(playbook.due)}
        case events.PlaybookInjected(names=names):
            return {"told": len(names)}
        case events.PointCited():
            return {"cited": 1}
    return {}


_RATINGS: Final[dict[str, dict[str, int]]] = {
    "helpful": {"ratings": 1, "judged": 1, "helpful": 1},
    "harmful": {"ratings": 1, "judged": 1},
    "neutral": {"ratings": 1},
}
"""Rating → measurements; other ratings measure nothing. Neutral ratings show activity and no judgement."""

PLAYBOOK_KINDS: Final = (*CHANGES, events.PlaybookInjected, events.PointCited)
"""Kinds that the component needs: all that change the playbook, injections and citations."""
