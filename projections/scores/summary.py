"""The summary of scores: current values, focus areas, the feed of a dashboard, and the evidence for a component. Pure.

The current value of a score is that of its latest day with data, unless that day is before a long trend.
Source: "Score Display" and "With Dashboard" of the scoring framework.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.events import BenchmarkRecorded, FeedbackRecorded, MetricsRecorded
from tallybook.projections.fold import State, View, batch_view
from tallybook.projections.scores.config import COUNT, OVERALL, SESSION, TOTAL, component_id
from tallybook.projections.scores.files import OVERALL_ID, coverage, divided, first_of
from tallybook.projections.scores.inputs import (
    PLAYBOOK,
    PLAYBOOK_KINDS,
    RUN,
    ScoredPlaybook,
    measure_batch,
    session_of,
    time_of,
)
from tallybook.projections.scores.scoring import (
    BENCHMARKS,
    DASHBOARD,
    FEEDBACK,
    LOG,
    alerts,
    component_score,
    grade_of,
    parts_of,
)
from tallybook.projections.scores.trends import forecast, trend
from tallybook.projections.scores.view import series

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.scores.config import Component, Config
    from tallybook.projections.scores.inputs import Session
    from tallybook.projections.scores.scoring import Alert, Part
    from tallybook.projections.scores.trends import Trend
    from tallybook.projections.scores.view import Scores, Series

# In the example of the specification 75 and 78 are focus areas, and 82 is not.
TARGET_GRADE: Final = 1
"""Index of the worst grade that is not a focus area: B of A, B, C, D, F."""

LOGGED: Final = 5
"""Most alerts in one line of a log."""

LEAST_DROP: Final = 1.0
"""Points by which a score has to decline for its trend to be a focus area: less is noise."""


@attrs.frozen
class CurrentScore:
    """The current state of a score.

    Attributes:
        id: Which score.
        name: Its name for people.
        series: Its average on each day with data.
        shown: Those days without the ones on which too little was measured.
        value: The last of those, 0 to 100; None where there is none, or none in the time of a long trend.
        day: The day of that, ``2026-01-16``; empty without a value.
        measured: How much of its weight was measured on the last day with data, 0 to 100 percent; 0 without any.
        trend: The short trend; None where there is not enough data.
    """

    id: str
    name: str
    series: Series
    shown: Series
    value: int | None
    day: str
    measured: int
    trend: Trend | None

    @property
    def is_shown(self) -> bool:
        """Return whether enough was measured on its last day with data."""
        return self.series[-1:] == self.shown[-1:]


@attrs.frozen
class Focus:
    """A component that deserves attention.

    Attributes:
        id: Which component.
        name: Its name for people.
        value: Its score, 0 to 100.
        below: Whether that is below the target.
        drop: By how many points it declines; None where it does not, or not by enough.
        action: What to do, by its grade.
    """

    id: str
    name: str
    value: int
    below: bool
    drop: float | None
    action: str


def names(config: Config) -> dict[str, str]:
    """Return score id → its name for people."""
    components = {one.id: one.name for one in config.components.values()}
    return components | {
        f"{SESSION}{name}": name.replace("_", " ").capitalize() for name in (*config.sessions, OVERALL)
    }


def current_scores(state: Scores) -> dict[str, CurrentScore]:
    """Return score id → its current state, in the configuration's order, also of scores without data.

    Args:
        state: What was scored, counted.
    """
    known, days = names(state.config), _last_days(state)
    return {score: _current_score(state, score, known[score], days.get(score, "")) for score in state.config.score_ids}


def _current_score(state: Scores, score: str, name: str, day: str) -> CurrentScore:
    # One bad session in twenty is no bad health: the average of a day counts, not the latest session.
    days = series(state.days, score)
    shown = series(state.days, score, state.config.display.min_coverage)
    measured = state.days[days[-1][0].isoformat()].measured(score) if days else 0
    short = trend([value for _, value in days], state.config.trends.short_term_days)
    return CurrentScore(score, name, days, shown, days[-1][1] if day else None, day, measured, short)


def _last_days(state: Scores) -> dict[str, str]:
    """Return score id → the last day that has it, without days that are too long ago."""
    if not state.days:
        return {}
    # Old data must not look current.
    first = first_of(max(state.days), state.config.trends.long_term_days)
    days = sorted(day for day in state.days if day >= first)
    return {score: day for day in days for score in state.days[day].scores}


def low_scores(scores: Mapping[str, CurrentScore], config: Config, channel: str) -> tuple[Alert, ...]:
    """Return the alerts of the scores of which enough was measured, for one channel."""
    return alerts({one.id: one.value for one in scores.values() if one.is_shown}, config.levels, channel)


def logged(state: Scores) -> str:
    """Return the line for a log about scores with an alert; empty without any, and where scoring is off."""
    scores = current_scores(state) if state.config.enabled else {}
    # Two long sentences about each score hid which one it was: a log gets one line.
    low = low_scores(scores, state.config, LOG)
    shown = [f"{one.score_id} is {one.value:g} on {scores[one.score_id].day} ({one.level})" for one in low[:LOGGED]]
    more = f" and {len(low) - LOGGED} more" if len(low) > LOGGED else ""
    return f"low scores: {', '.join(shown)}{more}" if low else ""


def target(config: Config) -> int:
    """Return the least score that is not a focus area, 0 to 100."""
    return config.grades[min(TARGET_GRADE, len(config.grades) - 1)].least


def focus(scores: Iterable[CurrentScore], config: Config) -> list[Focus]:
    """Return the components below the target or declining, the worst first.

    Args:
        scores: The current scores; composites are left out, since their components say more.
        config: Its second grade begins at the target.
    """
    areas = []
    for one in scores:
        if one.value is None or not one.is_shown or one.id not in config.components:
            continue
        drop = -one.trend.delta if one.trend is not None and one.trend.delta <= -LEAST_DROP else None
        if one.value < target(config) or drop is not None:
            grade = grade_of(one.value, config.grades)
            action = "" if grade is None else grade.action
            areas.append(Focus(one.id, one.name, one.value, one.value < target(config), drop, action))
    return sorted(areas, key=lambda one: (not one.below, one.value))


def current(scores: Mapping[str, CurrentScore], config: Config) -> dict[str, Any]:
    """Return the current scores: ``{date, component_scores, session_scores, grade, coverage, days}``.

    The date is that of the last data; coverage and day of each score are those of its own last day.
    """
    values = {one.id: one.value for one in scores.values() if one.value is not None}
    day = max((one.day for one in scores.values()), default="")
    measured = {one.id: one.measured for one in scores.values() if one.value is not None}
    days = {one.id: one.day for one in scores.values() if one.value is not None}
    return {"date": day or None, **divided(values, config), "coverage": coverage(measured), "days": days}


def summary(scores: Mapping[str, CurrentScore], config: Config) -> dict[str, Any]:
    """Return the summary: ``current`` with ``trend``, as ``trend_of`` gives it, and ``focus``, each as `Focus`."""
    return {
        **current(scores, config),
        "trend": trend_of(scores[OVERALL_ID], config.trends.short_term_days),
        "focus": [attrs.asdict(area) for area in focus(scores.values(), config)],
    }


def feed(state: Scores) -> dict[str, Any]:
    """Return the feed of a dashboard: ``{current, trend, alerts}``, those as ``alerts_of`` gives them.

    Where scoring is off that is ``{enabled}`` alone, which is false.
    """
    if not state.config.enabled:
        return {"enabled": False}
    scores, config = current_scores(state), state.config
    return {
        "current": current(scores, config),
        "trend": trend_of(scores[OVERALL_ID], config.trends.short_term_days),
        "alerts": alerts_of(scores, config),
    }


def alerts_of(scores: Mapping[str, CurrentScore], config: Config) -> list[dict[str, Any]]:
    """Return the alerts of the channel ``dashboard`` in order, each ``{score, level, value, day, below, notify}``."""
    return [
        {
            "score": one.score_id,
            "level": one.level,
            "value": one.value,
            "day": scores[one.score_id].day,
            "below": one.below,
            "notify": list(one.notify),
        }
        for one in low_scores(scores, config, DASHBOARD)
    ]


def trend_of(one: CurrentScore, days: int) -> dict[str, Any]:
    """Return a score's trend over so many days in the format of "Trend Output" of the scoring framework.

    Returns:
        ``{metric, period, data, trend, forecast}``: ``score.session.overall``, ``7_days``, the last so many values,
        and None for a trend or a forecast where there is not enough data.
    """
    values = [value for _, value in one.series]
    # The forecast reads the whole series, as its methods are tried on every earlier day.
    compared, expected = trend(values, days), forecast(one.series)
    return {
        "metric": f"score.{one.id}",
        "period": f"{days}_days",
        "data": values[-days:],
        "trend": compared and attrs.asdict(compared),
        "forecast": expected and {"next_7_days": expected.next_7_days, "confidence": expected.confidence},
    }


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
    playbook: ScoredPlaybook = attrs.field(factory=ScoredPlaybook)


def evidence_view(session: str, component: str) -> View[Evidence]:
    """Return the view of the events about a component in a session."""

    def add_records(state: Evidence, batch: Batch) -> None:
        # Decoding heads is slow, and few batches are of the session.
        if batch.may_contain_text(session.removeprefix(RUN)):
            state.records += [record for record in batch.records if session_of(record) == session and is_about(record)]

    def add_playbook_records(state: Evidence, batch: Batch) -> None:
        measured = measure_batch(state.playbook, batch)
        if measured is not None and measured.by.session == session:
            # Nobody sends the measurements of the playbook, so that they are made here as the view makes them.
            state.records.append(measured)
        add_records(state, batch)

    def is_about(record: EventRecord) -> bool:
        return isinstance(record.event, KINDS) and component_id(record.event.component) == component

    if component == PLAYBOOK:
        return batch_view(Evidence, (*KINDS, *PLAYBOOK_KINDS), add_playbook_records)
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
