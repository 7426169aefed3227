"""Evidence for a component's score: its events, the share of each part, and which part changed it most. Pure."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.events import BenchmarkRecorded, FeedbackRecorded, MetricsRecorded
from tallybook.projections.fold import State, View, batch_view
from tallybook.projections.scores import playbook_health
from tallybook.projections.scores.configuration.model import COUNT, TOTAL, component_id
from tallybook.projections.scores.periods import series
from tallybook.projections.scores.scoring import BENCHMARKS, FEEDBACK, component_score, parts_of
from tallybook.projections.scores.session_inputs import RUN, session_of, time_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.scores.configuration.model import Component, Config
    from tallybook.projections.scores.scoring import Part
    from tallybook.projections.scores.session_inputs import Session
    from tallybook.projections.scores.view import Scores

KINDS: Final = (MetricsRecorded, BenchmarkRecorded, FeedbackRecorded)
DIGITS: Final = 2


@attrs.define
class Evidence(State):
    """The events about a component in a session.

    Attributes:
        records: The events in the order of the ledger; measurements of playbook events appear as metrics.
        playbook: The playbook, where that is the component.
    """

    records: list[EventRecord] = attrs.field(factory=list)
    playbook: playbook_health.ScoredPlaybook = attrs.field(factory=playbook_health.ScoredPlaybook)


def evidence_view(session: str, component: str) -> View[Evidence]:
    """Return the view of the events about a component in a session."""

    def add_records(state: Evidence, batch: Batch) -> None:
        # Decoding heads is slow, and few batches are of the session.
        if batch.may_contain_text(session.removeprefix(RUN)):
            state.records += [record for record in batch.records if session_of(record) == session and is_about(record)]

    def add_playbook_records(state: Evidence, batch: Batch) -> None:
        measured = playbook_health.measure_batch(state.playbook, batch)
        if measured is not None and measured.by.session == session:
            state.records.append(measured)
        add_records(state, batch)

    def is_about(record: EventRecord) -> bool:
        return isinstance(record.event, KINDS) and component_id(record.event.component) == component

    if component == playbook_health.COMPONENT:
        return batch_view(Evidence, (*KINDS, *playbook_health.KINDS), add_playbook_records)
    return batch_view(Evidence, KINDS, add_records)


def explain(session: Session, component: Component, config: Config, records: Iterable[EventRecord]) -> dict[str, Any]:
    """Return why a component has its score in a session.

    Args:
        session: The session.
        component: The component, of which something was measured in it.
        config: What scores are made of.
        records: The events about it there, in the order of the ledger.

    Returns:
        ``{session_id, timestamp, score, coverage, parts, events}``: of each part its points, weight, its share of
        those that have points, what it gives, the values it was made of, and the numbers of the events that brought
        them; score None without data.
    """
    score = component_score(component, session, config)
    rows = [_row(record) for record in records]
    parts = parts_of(component, session, config)
    measured = session.measured(component)
    return {
        "session_id": session.id,
        "timestamp": session.at,
        "score": None if score is None else score.value,
        "coverage": 0.0 if score is None else round(score.coverage, DIGITS),
        "parts": [_part(part, given, component, measured, rows) for part, given in _given(parts)],
        "events": rows,
    }


def _row(record: EventRecord) -> dict[str, Any]:
    event: Any = record.event
    row = {"seq": record.seq, "at": time_of(record), "session": session_of(record), "rater": record.by.rater}
    if isinstance(event, MetricsRecorded):
        return row | {"what": "metrics", "values": dict(event.metrics)}
    if isinstance(event, BenchmarkRecorded):
        return row | {"what": BENCHMARKS, "values": {"passed": event.passed, "total": event.total}}
    return row | {"what": FEEDBACK, "values": {"score": event.score}}


def _given(parts: Sequence[Part]) -> Iterator[tuple[Part, float | None]]:
    """Yield each part with its share of the weight of those that have points; None where it has none."""
    total = sum(part.weight for part in parts if part.points is not None)
    for part in parts:
        # Feedback without anything measured has points and no weight.
        yield part, None if part.points is None or not total else part.weight / total


def _part(
    part: Part, share: float | None, component: Component, measured: Mapping[str, float], rows: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    points = part.points
    row: dict[str, Any] = {
        "name": part.name,
        "points": None if points is None else round(points, DIGITS),
        "weight": part.weight,
        "share": None if share is None else round(share, 2 * DIGITS),
        "gives": None if points is None or share is None else round(points * share, DIGITS),
        "measured": part.measured,
    }
    if part.name in {BENCHMARKS, FEEDBACK} and part.name not in {metric.name for metric in component.metrics}:
        return row | {"values": {}, "events": [row["seq"] for row in rows if row["what"] == part.name]}
    names = _names(component, part.name, measured)
    events = dict.fromkeys(seq for name in names for seq in _bringing(name, component, rows))
    return row | {"values": {name: measured[name] for name in names}, "events": sorted(events)}


def _names(component: Component, metric_name: str, measured: Collection[str]) -> list[str]:
    """Return the values that a metric was made of: the first way in which it can be, and was."""
    (metric,) = (one for one in component.metrics if one.name == metric_name)
    own = (metric.of, metric.per) if metric.per else (metric.of,)
    shares = (f"{metric.of}{COUNT}", f"{metric.of}{TOTAL}")
    for names in (own, shares, metric.counts):
        if names and names[-1] in measured:
            return [name for name in names if name in measured]
    return []


def _bringing(name: str, component: Component, rows: Sequence[dict[str, Any]]) -> list[int]:
    """Return the numbers of the events that brought a value: all of a sum, of anything else the last."""
    brought = [row for row in rows if row["what"] == "metrics" and name in row["values"]]
    if not component.adds_up(name):
        latest = max((row["at"] for row in brought), default="")
        brought = [row for row in brought if row["at"] == latest][-1:]
    return [row["seq"] for row in brought]


def changes(state: Scores, component: Component, days: int) -> dict[str, Any] | None:
    """Return what each part of a component's score gave on its last days with data, and on those before them.

    Args:
        state: What was scored, counted.
        component: The component.
        days: Days on each side, or as many as there are on the earlier one.

    Returns:
        ``{days, now, before, parts}``, what changed it most first: averages of days, each the average of its sessions;
        None where there is nothing to compare.
    """
    known = [day.isoformat() for day, _ in series(state.days, component.id)][-2 * days :]
    recent, earlier = known[-days:], known[:-days]
    if not earlier:
        return None
    given = _by_day(state, component, known[0])
    now, before = _average(given, recent), _average(given, earlier)
    names = sorted({*now, *before}, key=lambda name: (-abs(now.get(name, 0.0) - before.get(name, 0.0)), name))
    return {
        "days": days,
        "now": round(sum(now.values()), DIGITS),
        "before": round(sum(before.values()), DIGITS),
        "parts": [_change(name, now.get(name, 0.0), before.get(name, 0.0)) for name in names],
    }


def _change(name: str, now: float, before: float) -> dict[str, Any]:
    values = {"now": now, "before": before, "delta": now - before}
    return {"name": name} | {key: round(value, DIGITS) for key, value in values.items()}


def _by_day(state: Scores, component: Component, first: str) -> dict[str, list[dict[str, float]]]:
    """Return day → of each session what each part gave."""
    given: dict[str, list[dict[str, float]]] = defaultdict(list)
    for session in state.sessions.latest():
        if session.contribution is not None and component.id in session.scores:
            day = session.contribution.day
            if day < first:
                break
            parts = _given(parts_of(component, session, state.config))
            given[day].append(
                {part.name: part.points * share for part, share in parts if part.points is not None and share}
            )
    return given


def _average(given: Mapping[str, Sequence[Mapping[str, float]]], days: Sequence[str]) -> dict[str, float]:
    """Return the average share of each part; a part that a session lacks counts as 0."""
    names = dict.fromkeys(name for day in days for one in given[day] for name in one)
    return {name: fmean(fmean(one.get(name, 0.0) for one in given[day]) for day in days) for name in names}
