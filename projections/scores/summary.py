"""The summary of scores: current values, focus areas, the feed of a dashboard, and the evidence for a component. Pure.

The current value of a score is that of its latest day with data, unless that day is before a long trend.
Source: "Score Display" and "With Dashboard" of the scoring framework.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.projections.playbook.fold import State, View, batch_view
from tallybook.projections.scores import scoring, view
from tallybook.projections.scores.config import DASHBOARD, Component, Config, component_id
from tallybook.projections.scores.scoring import Level, is_enough, trend
from tallybook.projections.scores.trends import forecast
from tallybook.projections.scores.view import Scores, score_levels

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord

    Row = dict[str, Any]


# In the example of the specification 75 and 78 are focus areas, and 82 is not.
TARGET_GRADE: Final = 1
"""Index of the worst grade that is not a focus area: B of A, B, C, D, F."""

LEAST_DROP: Final = 1.0
"""Points by which a score has to decline for its trend to be a focus area: less is noise."""


class CurrentScore(NamedTuple):
    """The current state of a score.

    Attributes:
        id: Which score.
        name: Its name for people.
        levels: Its average on each day with data, in order.
        latest: The last of all levels; None where there is none, or none in the time of a long trend.
        trend: The short trend; None where there is not enough data.
        is_shown: Whether enough was measured on its last day with data.
    """

    id: str
    name: str
    levels: Sequence[Level]
    latest: Level | None
    trend: Row | None
    is_shown: bool


def current_scores(state: Scores) -> dict[str, CurrentScore]:
    """Return score id → its current state, in the configuration's order, also of scores without data.

    Args:
        state: What was scored, counted.
    """
    config = state.config
    # Old data must not look current.
    first = view.first_of(max(state.days), config.trends.long_term_days) if state.days else ""
    found = {}
    for score, name in config.scores.items():
        # One bad session in twenty is no bad health: the average of a day counts, not the latest session.
        levels = score_levels(state.days, score)
        found[score] = CurrentScore(
            score,
            name,
            levels,
            levels[-1] if levels and levels[-1].period >= first else None,
            trend([level.value for level in levels], config.trends.short_term_days),
            not levels or is_enough(levels[-1].measured, config),
        )
    return found


def low_scores(scores: Mapping[str, CurrentScore], config: Config, channel: str) -> list[Row]:
    """Return the alerts of the scores of which enough was measured, for one channel."""
    shown = {score.id: score.latest for score in scores.values() if score.latest and score.is_shown}
    return scoring.alerts(shown, config, channel)


def target(config: Config) -> int:
    """Return the least score that is not a focus area, 0 to 100."""
    return config.grades[min(TARGET_GRADE, len(config.grades) - 1)].least


def focus(scores: Iterable[CurrentScore], config: Config) -> list[Row]:
    """Return the components below the target or declining, the worst first.

    Args:
        scores: The current scores; composites are left out, since their components say more.
        config: Its second grade begins at the target.

    Returns:
        Each ``{id, name, value, below, drop, action}``: whether it is below the target, by how many points it
        declines, None where it does not or not by enough, and what to do, by its grade.
    """
    areas = []
    for score in scores:
        if score.latest is None or not score.is_shown or score.id not in config.components:
            continue
        value = score.latest.value
        drop = -score.trend["delta"] if score.trend and score.trend["delta"] <= -LEAST_DROP else None
        below = value < target(config)
        if below or drop is not None:
            area = {"id": score.id, "name": score.name, "value": value, "below": below, "drop": drop}
            areas.append(area | {"action": scoring.grade_of(value, config).action})
    return sorted(areas, key=lambda area: (not area["below"], area["value"]))


def current(scores: Mapping[str, CurrentScore], config: Config) -> Row:
    """Return the current scores: ``{date, component_scores, session_scores, grade, coverage, days}``.

    The date is that of the last data; coverage and day of each score are those of its own last day.
    """
    known = {score.id: score.latest for score in scores.values() if score.latest}
    return {
        "date": max((level.period for level in known.values()), default=None),
        **view.divide_scores({id_: level.value for id_, level in known.items()}, config),
        "coverage": view.coverage(known),
        "days": {id_: level.period for id_, level in known.items()},
    }


def feed(state: Scores) -> Row:
    """Return the feed of a dashboard: ``{current, trend, alerts}``, those each ``{score, level, value, day, …}``.

    Where scoring is off that is ``{enabled}`` alone, which is false.
    """
    if not state.config.enabled:
        return {"enabled": False}
    scores, config = current_scores(state), state.config
    return {
        "current": current(scores, config),
        "trend": trend_of(scores[view.OVERALL_ID], config.trends.short_term_days),
        "alerts": low_scores(scores, config, DASHBOARD),
    }


def trend_of(score: CurrentScore, days: int) -> Row:
    """Return a score's trend over so many days in the format of "Trend Output" of the scoring framework.

    Returns:
        ``{metric, period, data, trend, forecast}``: ``score.session.overall``, ``7_days``, the last so many values,
        and None for a trend or a forecast where there is not enough data.
    """
    values = [level.value for level in score.levels]
    return {
        "metric": f"score.{score.id}",
        "period": f"{days}_days",
        "data": values[-days:],
        "trend": trend(values, days),
        "forecast": forecast(values),
    }


KINDS: Final = (events.MetricsRecorded, events.BenchmarkRecorded, events.FeedbackRecorded)
DIGITS: Final = 2


@attrs.define
class SessionEvidence(State):
    """The events about components in a session.

    Attributes:
        records: The events in the order of the ledger; measurements of playbook events appear as metrics.
        playbook: The playbook, where that is a component.
    """

    records: list[EventRecord] = attrs.field(factory=list)
    playbook: view.ScoredPlaybook = attrs.field(factory=view.ScoredPlaybook)


def evidence_view(session: str, *, with_playbook: bool) -> View[SessionEvidence]:
    """Return the view of the events about components in a session, those of the playbook where it is one of them."""

    def add_records(state: SessionEvidence, batch: Batch) -> None:
        measured = view.measure_batch(state.playbook, batch) if with_playbook else None
        if measured is not None and measured.by.session == session:
            # Nobody sends the measurements of the playbook, so that they are made here as the view makes them.
            state.records.append(measured)
        # Decoding heads is slow, and few batches are of the session.
        if batch.may_contain_text(session.removeprefix(scoring.RUN)):
            records = (record for record in batch.records if isinstance(record.event, KINDS))
            state.records += [record for record in records if scoring.session_of(record) == session]

    return batch_view(SessionEvidence, (*KINDS, *(view.PLAYBOOK_KINDS if with_playbook else ())), add_records)


def explain(session: scoring.Session, component: Component, config: Config, records: Iterable[EventRecord]) -> Row:
    """Return why a component has its score in a session.

    Args:
        session: The session.
        component: The component, of which something was measured in it.
        config: What scores are made of.
        records: The events about components there, in the order of the ledger.

    Returns:
        ``{session_id, timestamp, score, coverage, parts, events}``: of each part its points, weight, its share of
        those that have points, what it gives, the values it was made of, and the numbers of the events that brought
        them; score None without data.
    """
    score = scoring.component_score(component, session, config)
    rows = [_row(record) for record in records if component_id(getattr(record.event, "component", "")) == component.id]
    measured = session.sum_values(component)
    parts = []
    for part in score.parts:
        share = score.share(part)
        # Benchmarks and feedback are no sums of values.
        has_values = bool(part.names) or not part.measured
        brought = {row["seq"] for row in rows if row["what"] == part.name and not has_values}
        brought.update(seq for name in part.names for seq in _find_sources(name, component, rows))
        parts.append(
            {
                "name": part.name,
                "points": None if part.points is None else round(part.points, DIGITS),
                "weight": part.weight,
                "share": None if share is None else round(share, 2 * DIGITS),
                "gives": None if part.points is None or share is None else round(part.points * share, DIGITS),
                "measured": part.measured,
                "values": {name: measured[name] for name in part.names if name in measured},
                "events": sorted(brought),
            }
        )
    return {
        "session_id": session.id,
        "timestamp": session.at,
        "score": score.value,
        "coverage": round(score.coverage, DIGITS),
        "parts": parts,
        "events": rows,
    }


def _row(record: EventRecord) -> Row:
    row = {"seq": record.seq, "at": scoring.time_of(record), "session": scoring.session_of(record)}
    row["rater"] = record.by.rater
    match record.event:
        case events.MetricsRecorded(metrics=metrics):
            return row | {"what": "metrics", "values": dict(metrics)}
        case events.BenchmarkRecorded(passed=passed, total=total):
            return row | {"what": scoring.BENCHMARKS, "values": {"passed": passed, "total": total}}
        case event:
            return row | {"what": scoring.FEEDBACK, "values": {"score": getattr(event, "score", None)}}


def _find_sources(name: str, component: Component, rows: Sequence[Row]) -> list[int]:
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
    known = [level.period for level in score_levels(state.days, component.id)][-2 * days :]
    sides = (known[-days:], known[:-days])
    if not sides[1]:
        return None
    # Name of a part → what it gave on either side; a part that a session lacks gave 0 there.
    given: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for scored in state.scored.values():
        if scored.day < known[0] or component.id not in scored.levels:
            continue
        side = int(scored.day < sides[0][0])
        sessions = len(state.days[scored.day].levels[component.id])
        score = scoring.component_score(component, state.session(scored.id), state.config)
        for part in score.parts:
            share = score.share(part)
            if part.points is not None and share:
                given[part.name][side] += part.points * share / sessions / len(sides[side])
    # Plus 0.0, so that no rounded difference is -0.0.
    parts = [
        {
            "name": name,
            "now": round(now, DIGITS),
            "before": round(before, DIGITS),
            "delta": round(now - before, DIGITS) + 0.0,
        }
        for name, (now, before) in sorted(given.items(), key=lambda item: (-abs(item[1][0] - item[1][1]), item[0]))
    ]
    now, before = (round(sum(row[side] for row in given.values()), DIGITS) for side in (0, 1))
    return {"days": days, "now": now, "before": before, "parts": parts}
