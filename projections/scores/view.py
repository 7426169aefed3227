"""The scores view: the measurements of every session, and the tallies of scores by day and version.

A late event changes its session and the tally of that session's day, however long ago it was. Weeks and months are
groups of days. Source: "Aggregate Scores" and "Daily Aggregates" of the scoring framework.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.projections.fold import State, View, batch_view
from tallybook.projections.scores import inputs
from tallybook.projections.scores.config import Config, component_id, score_id
from tallybook.projections.scores.scoring import FULL, is_enough, percent, score_session

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord


@attrs.frozen
class Range:
    """A score over several sessions, in whole points.

    Attributes:
        avg: The average, halves rounded up, 0 to 100.
        min: The least.
        max: The greatest.
    """

    avg: int
    min: int
    max: int


@attrs.define
class Tally:
    """The scores of the sessions of a period.

    Attributes:
        sessions: How many sessions have any score.
        scores: Score id → score, 0 to 100 → number of sessions; so the size is bounded.
        unmeasured: Score id → sum over the sessions of the unmeasured percent of its weight; no item for 0.
    """

    sessions: int = 0
    scores: dict[str, dict[int, int]] = attrs.field(factory=dict)
    unmeasured: dict[str, int] = attrs.field(factory=dict)

    def add(self, other: Tally, sign: int = 1) -> None:
        """Add the sessions of another tally, or with a sign of -1 subtract those that were added."""
        self.sessions += sign * other.sessions
        for score, counts in other.scores.items():
            _add(self.scores.setdefault(score, {}), counts, sign)
            if not self.scores[score]:
                del self.scores[score]
        _add(self.unmeasured, other.unmeasured, sign)

    def range(self, score: str) -> Range | None:
        """Return average, least and greatest of a score, None where no session has it."""
        counts = self.scores.get(score)
        if not counts:
            return None
        number = sum(counts.values())
        total = sum(value * count for value, count in counts.items())
        # In whole numbers, so that no average depends on the last bit of a float.
        return Range((2 * total + number) // (2 * number), min(counts), max(counts))

    def measured(self, score: str) -> int:
        """Return the measured percent of a score's weight, 0 to 100; 100 only if all was. The score must be present."""
        return percent(1 - self.unmeasured.get(score, 0) / sum(self.scores[score].values()) / FULL)


def _add(into: dict[Any, int], numbers: Mapping[Any, int], sign: int) -> None:
    """Add numbers by key; what comes to 0 is removed."""
    for key, value in numbers.items():
        into[key] = into.get(key, 0) + sign * value
        if not into[key]:
            del into[key]


Series = list[tuple[date, int]]
"""Days with data, in order, each with the average of a score on it."""


PERIODS: Final[dict[str, tuple[str, Callable[[str], str]]]] = {
    "daily": ("date", str),
    "weekly": ("week", lambda day: "{:04}-W{:02}".format(*date.fromisoformat(day).isocalendar())),
    "monthly": ("month", lambda day: day[: len("2026-01")]),
}
"""Folder of the score files → the key of the period in them, and the function from a day to the period."""


def group_days(days: Mapping[str, Tally], name_of: Callable[[str], str]) -> dict[str, Tally]:
    """Return the periods of days, in order, with the tallies of their days added up."""
    groups: dict[str, Tally] = {}
    for day in sorted(days):
        groups.setdefault(name_of(day), Tally()).add(days[day])
    return groups


class PeriodScore(NamedTuple):
    """A score over a period.

    Attributes:
        period: ``2026-01-16``, ``2026-W03`` or ``2026-01``.
        score: The average of its sessions, 0 to 100.
        measured: How much of its weight was measured, 0 to 100 percent.
    """

    period: str
    score: int
    measured: int


def score_levels(periods: Mapping[str, Tally], score: str) -> list[PeriodScore]:
    """Return a score over each period that has it, in order."""
    averages = ((name, periods[name], periods[name].range(score)) for name in sorted(periods))
    return [PeriodScore(name, average.avg, tally.measured(score)) for name, tally, average in averages if average]


def series(levels: Iterable[PeriodScore], least: float = 0.0) -> Series:
    """Return the average of a score on each day of which this share of its weight, 0 to 1, was measured."""
    return [(date.fromisoformat(level.period), level.score) for level in levels if is_enough(level.measured, least)]


MOST_UNCOUNTED: Final = 2_000
"""Most changed sessions to hold before counting them. Few sessions run at once, and counting each event is slow."""


UNSCORED_TYPE: Final = "telemetry of type "
"""Prefix of the reason under which unknown telemetry counts as unscored."""


@attrs.frozen
class Baseline:
    """The baseline of a score, as set last.

    Attributes:
        value: From 0 to 100.
        seq: Number of the event that set it.
        day: The day on which it was set.
    """

    value: float
    seq: int
    day: date


@attrs.define
class Scores(State):
    """The measurements and tallies of all sessions.

    Attributes:
        config: The configuration of the scores.
        sessions: Its sessions, by id.
        days: Day, ``2026-01-16`` in the configured zone → its sessions' scores.
        versions: Version → its sessions' scores; sessions without one are in none.
        baselines: Score id → the baseline set last.
        uncounted: Sessions that changed since they were last counted.
        last_at: Time of the latest event, empty before the first.
        unscored: Reason why measurements count nothing → number of events: no session, no component, unknown
            component, a name that no metric of its component reads, or an unknown type of telemetry.
        rewrites: How often earlier events were redacted or undone, as in the playbook view.
        playbook: The playbook, where the configuration scores it as a component; None where it does not.
    """

    config: Config = attrs.field(kw_only=True)
    sessions: inputs.Sessions = attrs.field(factory=inputs.Sessions)
    days: dict[str, Tally] = attrs.field(factory=dict)
    versions: dict[str, Tally] = attrs.field(factory=dict)
    baselines: dict[str, Baseline] = attrs.field(factory=dict)
    uncounted: dict[str, inputs.Session] = attrs.field(factory=dict)
    last_at: str = ""
    unscored: dict[str, int] = attrs.field(factory=dict)
    rewrites: int = 0
    playbook: inputs.ScoredPlaybook | None = None

    def count(self) -> Scores:
        """Move every changed session to the tallies of its periods; return this state."""
        for id_, session in self.uncounted.items():
            fresh = _contribution(session, self.config)
            # A late event takes its session out of its old day and puts it into the new one.
            if fresh != session.contribution:
                self._tally(session.contribution, -1)
                self._tally(fresh, 1)
                session.contribution = fresh
            self.sessions[id_] = session
        self.uncounted.clear()
        return self

    def session(self, id_: str) -> inputs.Session | None:
        """Return a session as measured so far, None without any event of it."""
        return self.uncounted.get(id_) or self.sessions.get(id_)

    def _tally(self, counted: inputs.Contribution, sign: int) -> None:
        scores = {score: {value: 1} for score, value in counted.scores.items()}
        tally = Tally(1, scores, {**counted.unmeasured})
        for periods, name in ((self.days, counted.day), (self.versions, counted.version)):
            if name:
                periods.setdefault(name, Tally()).add(tally, sign)
                if not periods[name].sessions:
                    del periods[name]


def _contribution(session: inputs.Session, config: Config) -> inputs.Contribution:
    scores, shares = score_session(session, config)
    if not scores:
        return inputs.NOT_COUNTED
    unmeasured = {name: points for name, share in shares.items() if (points := 100 - percent(share))}
    return inputs.Contribution(day_of(session.at, config.timezone), session.version, scores, unmeasured)


def day_of(at: str, zone: tzinfo) -> str:
    """Return the day, ``2026-01-16``, of a time as the ledger writes it, in a time zone."""
    return at[:10] if zone is UTC else _day_in(at, zone)


@lru_cache(maxsize=MOST_UNCOUNTED)
def _day_in(at: str, zone: tzinfo) -> str:
    try:
        return datetime.fromisoformat(at).astimezone(zone).date().isoformat()
    except OverflowError:
        # The first and last day of datetime cannot be moved to another zone.
        return at[:10]


def _add_to_session(state: Scores, record: EventRecord) -> None:
    """Add an event to its session."""
    id_ = inputs.session_of(record)
    state.last_at = max(state.last_at, inputs.time_of(record))
    event: Any = record.event
    if not id_:
        _count_unscored(state, "no session")
    # Feedback without a component is about the session itself.
    elif getattr(event, "component", None) == "" and not isinstance(event, events.FeedbackRecorded):
        _count_unscored(state, "no component")
    for reason in unknown_parts(state.config, event) if id_ else ():
        _count_unscored(state, reason)
    if id_:
        session = state.session(id_) or inputs.Session(id_)
        session.add_event(record)
        state.uncounted[id_] = session


def unknown_parts(config: Config, event: Any) -> Iterator[str]:
    """Yield the unknown parts of an event: its component, or metrics that its component does not read."""
    component = component_id(getattr(event, "component", None) or "")
    if component and component not in config.components:
        yield f"unknown component {component}"
    elif isinstance(event, events.MetricsRecorded) and component and not event.source:
        # Telemetry has many values that no metric reads, and they are not spelling mistakes.
        known = config.components[component]
        yield from (f"unknown metric {name} of {component}" for name in event.metrics if name not in known.value_names)


def _count_unscored(state: Scores, reason: str) -> None:
    state.unscored[reason] = state.unscored.get(reason, 0) + 1


_KINDS: Final = (*inputs.KINDS, events.BaselineSet, events.TelemetryKept, events.EventRedacted, events.EventsVoided)


def _apply_batch(state: Scores, batch: Batch) -> None:
    """Apply a batch that has scoring events; only then the heads of its lines are decoded."""
    for record in batch.records:
        match record.event:
            case events.BaselineSet(score=score, value=value):
                day = date.fromisoformat(day_of(inputs.time_of(record), state.config.timezone))
                state.baselines[score_id(score)] = Baseline(value, record.seq, day)
            case events.TelemetryKept(type=type_):
                _count_unscored(state, f"{UNSCORED_TYPE}{type_ or 'unknown'}")
            case events.EventRedacted() | events.EventsVoided():
                state.rewrites += 1
            case event if isinstance(event, inputs.KINDS):
                _add_to_session(state, record)
    # Uncounted sessions are unpacked, and a long history has very many.
    if len(state.uncounted) >= MOST_UNCOUNTED:
        state.count()


def _apply_batch_with_playbook(state: Scores, batch: Batch) -> None:
    """Apply a batch that may have playbook events as well, whose measurements count as if they had been sent."""
    state.playbook = state.playbook or inputs.ScoredPlaybook()
    measured = inputs.measure_batch(state.playbook, batch)
    # What people do outside of sessions is not measured.
    if measured is not None and measured.by.session:
        _add_to_session(state, measured)
    _apply_batch(state, batch)


def scores_view(config: Config) -> View[Scores]:
    """Return the scores view under a configuration."""
    start = partial(Scores, config=config)
    if inputs.PLAYBOOK in config.components:
        return batch_view(start, (*_KINDS, *inputs.PLAYBOOK_KINDS), _apply_batch_with_playbook)
    # Most events are ratings: without the playbook component they are not in the table at all.
    return batch_view(start, _KINDS, _apply_batch)
