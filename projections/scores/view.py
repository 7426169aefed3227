"""The view of scores: what was measured of every session, and how many sessions had which score, by day and version.

A late event changes its session, and with it the day that the session lies in, however long ago that was.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from tallybook.ledger.events import (
    BaselineSet,
    EventRedacted,
    EventsVoided,
    FeedbackRecorded,
    MetricsRecorded,
    Numbers,
    TelemetryKept,
)
from tallybook.projections.fold import State, View
from tallybook.projections.scores import playbook_health
from tallybook.projections.scores.configuration.model import component_id, score_id
from tallybook.projections.scores.measures import percent
from tallybook.projections.scores.scoring import covered
from tallybook.projections.scores.session_inputs import KINDS, Counted, Session, happened, session_of
from tallybook.projections.scores.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping
    from datetime import tzinfo

    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.scores.configuration.model import Config

FRESH: Final = 2_000
"""Sessions that wait to be counted at most: most are heard several times before they are done, and not many at once."""


UNSCORED_TYPE: Final = "telemetry of type "
"""How what is kept of unknown telemetry is named among what is in no score."""


class Shelf(Protocol):
    """Where sessions are kept: a dict in memory, or something that holds more."""

    def get(self, id_: str, /) -> Session | None:
        """Return a session, None where there is none of this id."""

    def __setitem__(self, id_: str, session: Session, /) -> None:
        """Keep a session that was changed."""

    def latest(self) -> Iterator[Session]:
        """Yield the sessions, the latest first; of several at one time, the one with the greater id."""


class Sessions(dict[str, Session]):
    """Sessions in memory."""

    def latest(self) -> Iterator[Session]:
        """Yield the sessions, the latest first."""
        yield from sorted(self.values(), key=lambda session: (session.at, session.id), reverse=True)


@attrs.frozen
class Baseline:
    """What a score is held against, as it was set last.

    Attributes:
        value: From 0 to 100.
        seq: The event that set it.
        day: The day that it was set on.
    """

    value: float
    seq: int
    day: date


@attrs.define
class Scores(State):
    """What was measured, and what it comes to.

    Attributes:
        config: What scores are made of.
        sessions: By id: a Shelf.
        days: Day, ``2026-01-16`` in the configured zone → its sessions' scores.
        versions: Version → its sessions' scores; sessions without one are in none.
        baselines: Score id → the baseline set last.
        fresh: Sessions that changed since they were counted last.
        last_at: When the last of all this happened, empty before anything did.
        unscored: What was measured and counts nothing → how many events: no session, no component, unknown component,
            a name that no metric of its component asks for, or a type of telemetry that says nothing of a score.
        rewrites: How often earlier events were redacted or voided, as in the playbook's view.
        advice: The playbook, where the configuration scores it as a component; None where it does not.
    """

    config: Config = attrs.field(kw_only=True)
    sessions: Any = attrs.field(factory=Sessions)
    days: MutableMapping[str, Tally] = attrs.field(factory=dict)
    versions: MutableMapping[str, Tally] = attrs.field(factory=dict)
    baselines: dict[str, Baseline] = attrs.field(factory=dict)
    fresh: dict[str, Session] = attrs.field(factory=dict)
    last_at: str = ""
    unscored: dict[str, int] = attrs.field(factory=dict)
    rewrites: int = 0
    advice: playbook_health.Advice | None = None

    def count(self) -> Scores:
        """Count every session that changed, in the periods that it lies in now; return this state."""
        for id_, session in self.fresh.items():
            fresh = _counted(session, self.config)
            if fresh != session.counted:
                self._tally(session.counted, -1)
                self._tally(fresh, 1)
                session.counted = fresh
            self.sessions[id_] = session
        self.fresh.clear()
        return self

    def session(self, id_: str) -> Session | None:
        """Return a session as it was heard so far, None where nothing was."""
        found: Session | None = self.fresh.get(id_) or self.sessions.get(id_)
        return found

    def _tally(self, counted: Counted | None, sign: int) -> None:
        if counted is None:
            return
        _tally(self.days, counted.day, counted, sign)
        if counted.version:
            _tally(self.versions, counted.version, counted, sign)


def _tally(periods: MutableMapping[str, Tally], name: str, counted: Counted, sign: int) -> None:
    tally = periods.get(name) or Tally()
    tally.add(counted.scores, counted.lacking, sign)
    if tally.sessions:
        # Set even where it stood: whatever keeps the periods hears of every change.
        periods[name] = tally
    else:
        del periods[name]


def _counted(session: Session, config: Config) -> Counted | None:
    found, shares = covered(session, config)
    lacking = {name: points for name, share in shares.items() if (points := percent(1) - percent(share))}
    return Counted(day_of(session.at, config.zone), session.version, found, lacking) if found else None


def day_of(at: str, zone: tzinfo) -> str:
    """Return the day, ``2026-01-16``, of a time as the ledger writes it, in a time zone."""
    return at[:10] if zone is UTC else _day_in(at, zone)


@lru_cache(maxsize=FRESH)
def _day_in(at: str, zone: tzinfo) -> str:
    try:
        return datetime.fromisoformat(at).astimezone(zone).date().isoformat()
    except OverflowError:
        # The first and the last day that there is have no neighbour.
        return at[:10]


def _hear(state: Scores, record: EventRecord) -> None:
    """Let the session of an event hear it."""
    id_ = session_of(record)
    state.last_at = max(state.last_at, happened(record))
    for what in _unscored(state, record.event, id_):
        _leave_out(state, what)
    if id_:
        session = state.session(id_) or Session(id_)
        session.hear(record)
        state.fresh[id_] = session


def _unscored(state: Scores, event: Any, session: str) -> Iterator[str]:
    """Yield why an event counts nothing, if it does not."""
    if not session:
        yield "no session"
    elif getattr(event, "component", None) == "" and not isinstance(event, FeedbackRecorded):
        yield "no component"
    else:
        yield from unknown_parts(state.config, event)


def unknown_parts(config: Config, event: Any) -> Iterator[str]:
    """Yield what an event names that the configuration does not score: its component, or metrics of that."""
    component = component_id(getattr(event, "component", None) or "")
    if component and component not in config.components:
        yield f"unknown component {component}"
    elif isinstance(event, MetricsRecorded) and component and not event.source:
        # Telemetry brings more than is scored, and nobody has spelt that.
        known = config.components[component]
        yield from (f"unknown metric {name} of {component}" for name in event.metrics if name not in known.asked)


def _leave_out(state: Scores, what: str) -> None:
    state.unscored[what] = state.unscored.get(what, 0) + 1


def _set_baseline(state: Scores, record: EventRecord) -> None:
    event: Any = record.event
    day = date.fromisoformat(day_of(happened(record), state.config.zone))
    state.baselines[score_id(event.score)] = Baseline(event.value, record.seq, day)


def _keep(state: Scores, record: EventRecord) -> None:
    event: Any = record.event
    _leave_out(state, f"{UNSCORED_TYPE}{event.type or 'unknown'}")


def _rewrite(state: Scores, _: EventRecord) -> None:
    state.rewrites += 1


_TABLE: Final[dict[type[Any], Callable[[Scores, EventRecord], None]]] = {
    **dict.fromkeys(KINDS, _hear),
    BaselineSet: _set_baseline,
    TelemetryKept: _keep,
    EventRedacted: _rewrite,
    EventsVoided: _rewrite,
}


def _tell(state: Scores, batch: Batch) -> None:
    """Tell a batch that has something for scores in it, event by event: who and when are decoded only now."""
    for record in batch.records:
        change = _TABLE.get(type(record.event))
        if change is not None:
            change(state, record)
    if len(state.fresh) >= FRESH:
        state.count()


def _tell_all(state: Scores, batch: Batch) -> None:
    """Tell a batch that may say something of the playbook as well: what that measures counts as if it had been sent."""
    advice = state.advice or playbook_health.Advice()
    state.advice = advice
    place, numbers = playbook_health.measures(advice, batch)
    # One append has one session; what people did outside of any was measured of none.
    if numbers and batch.records[place].by.session:
        event = MetricsRecorded(playbook_health.COMPONENT, Numbers(numbers), "")
        _hear(state, attrs.evolve(batch.records[place], event=event))
    _tell(state, batch)


def _heard(_state: Scores, _event: Any, _batch: Batch) -> None:
    """Let the batch be told when it is whole."""


_HEARD: Final = dict.fromkeys(_TABLE, _heard)
_ALL_HEARD: Final = _HEARD | dict.fromkeys(playbook_health.KINDS, _heard)


def scores_view(config: Config, start: Callable[[], Scores] | None = None) -> View[Scores]:
    """Return the view of scores by a configuration.

    Args:
        config: What scores are made of.
        start: Gives the state before the first event, where sessions and periods are to be kept elsewhere than in
            memory; asked a second time where history is told again.
    """
    # Most events are ratings: where they score nothing they are not even looked at.
    table, tell = (_ALL_HEARD, _tell_all) if playbook_health.is_measured(config) else (_HEARD, _tell)
    return View(start or partial(Scores, config=config), table, tell)
