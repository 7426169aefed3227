"""The table from types of telemetry events to metrics, and functions that read an event by it. Pure functions.

The README shows the table row by row, and no other module names a type. The table says which metrics an event adds;
the configuration of the scores says what these are worth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.telemetry.lenient import read_number, to_snake_case

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

RATIO_MEASURES: Final = (
    *("thoroughness", "accuracy", "actionability"),
    *("checkpoint_reliability", "resume_success", "efficiency"),
    *("pattern_detection", "insight_quality", "coverage"),
    *("discovery_rate", "relevance", "adoption_rate"),
    *("health_accuracy", "cleanup_efficiency", "freshness"),
    *("state_preservation", "handoff_quality", "completeness"),
)
"""Measures that are a percentage, or two counters: ``NAME_count`` of ``NAME_total``."""

GAUGES: Final = frozenset((
    *("startup_ms", "context_percent", "greeting_score", "orientation_done"),
    *("avg_iterations", "review_score", "target"),
    *RATIO_MEASURES,
    *(f"{name}{end}" for name in RATIO_MEASURES for end in ("_count", "_total")),
))  # fmt: skip
"""Metrics that any event of the table may have under their own names; its other values are ignored."""

_ENDINGS: Final = {
    **dict.fromkeys(("started", "begin", "began", "begun", "starting"), "start"),
    **dict.fromkeys(("ended", "complete", "completed", "finish", "finished", "done", "stop", "stopped"), "end"),
    **dict.fromkeys(("errored", "fail", "failed", "failure", "crashed"), "error"),
}
"""Last word of a type → the word that the table has in its place."""

_FAILED: Final = frozenset((
    *("fail", "failed", "failure", "error", "errored", "rejected", "invalid", "aborted", "cancelled", "canceled"),
    *("timeout", "timed_out", "crashed", "stale", "lost", "no", "false", "bad"),
))  # fmt: skip
_SUCCEEDED: Final = frozenset((
    *("success", "succeeded", "successful", "ok", "pass", "passed", "valid", "done", "complete", "completed", "yes"),
    *("true", "applied", "accepted", "approved", "fresh", "good"),
))  # fmt: skip
_VERDICTS: Final = (
    *("success", "succeeded", "successful", "passed", "valid", "ok", "fresh"),
    *("status", "result", "outcome", "verdict"),
)
"""Keys whose value says whether something succeeded; the first one that an event has counts."""

_MOST_DEEP = 6
SUCCESS: Final = "ok"
"""In the table: 0 where the event reports a failure, else 1."""
FLAG: Final = "mark"
"""In the table: false where the event reports a failure, else true."""
STATED: Final = "said"
"""In the table: 1 where the event reports success, 0 where it reports a failure, else no value."""


@attrs.frozen
class Row:
    """The metrics of the events of one type.

    Attributes:
        types: The type, and others that mean the same; in the spelling of `normalize_type`.
        counters: Metric → what an event adds to it: a number, SUCCESS, FLAG or STATED.
        gauges: Metric → keys that its value may have, besides its own name.
        component: The component that the row is for, by its letters and digits; empty for all.
        ends_session: Whether the session is over.
        is_named_metric: Whether the event has one metric as name and value.
        is_metrics_object: Whether all numbers of the event are metrics.
    """

    types: tuple[str, ...]
    counters: Mapping[str, int | str] = attrs.field(factory=dict)
    gauges: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    component: str = ""
    ends_session: bool = False
    is_named_metric: bool = False
    is_metrics_object: bool = False


def _ratio_row(measure: str, *types: str) -> Row:
    """Return a row of events that add 1 to the total of a measure, and 1 to its count unless they report a failure."""
    return Row(types, {f"{measure}_count": SUCCESS, f"{measure}_total": 1})


def _failure_row(measure: str, *types: str) -> Row:
    """Return a row of events that add 1 to the total of a measure, and nothing to its count."""
    return Row(types, {f"{measure}_count": 0, f"{measure}_total": 1})


_TOOK = ("duration_ms", "elapsed_ms", "startup_time_ms", "launch_ms")
_CONTEXT = ("percentage", "percent", "context_usage_percent", "context_usage", "usage_percent")

_COUNTS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("implementations", "checks_run", "findings"), ()),
    # Steps that are not reported as failed count as completed, as those of `completion_step` do.
    "completeness_count": ("steps_completed",),
    "completeness_total": ("steps_total", "total_steps", "steps_completed"),
}
"""Metric → keys under which the end of a component reports how much it did."""

TABLE: Final = (
    # Any component.
    Row(
        ("component_end",),
        {"ends": 1},
        {"startup_ms": _TOOK, "context_percent": _CONTEXT[2:], **_COUNTS},
        component="ac01",
    ),
    Row(
        ("component_start", "evolution_start", "reflection_start", "research_start", "maintenance_start"),
        {"starts": 1},
    ),
    Row(("component_end", "reflection_end", "research_end", "maintenance_end", "loop_end"), {"ends": 1}, _COUNTS),
    Row(("milestone_detected", "milestone_found", "milestone_reached"), {"milestones": 1}),
    Row(("component_skip", "component_skipped"), {"skips": 1}),
    Row(("component_error", "error", "exception"), {"errors": 1}),
    Row(("metric", "gauge", "counter", "timing", "measurement"), is_named_metric=True),
    Row(
        ("metrics", "component_metrics", "session_metrics", "metrics_report", "measurements", "scores"),
        is_metrics_object=True,
    ),
    # AC-01, launch. These events have no failed counterpart: they report times and flags.
    Row(
        ("session_start", "launch_end", "startup_end", "self_launch_end"),
        {"sessions": 1},
        {"startup_ms": _TOOK, "context_percent": _CONTEXT[2:]},
    ),
    Row(("context_loaded", "context_load_end"), {}, {"context_percent": _CONTEXT}),
    Row(("greeting_shown", "greeting_displayed", "greeting_generated", "greeting_end"), {"greetings": 1}, {
        "greeting_score": ("score", "quality", "quality_score"),
    }),
    Row(("orientation_end",), {"orientation_done": FLAG}),
    # AC-02, the loop. The absence of drift counts as well: it is 0 from the first task or iteration on.
    Row(("task_start",), {"total": 1, "completed": 0, "drift_events": 0}),
    Row(("task_end",), {"completed": SUCCESS}),
    Row(("task_error", "task_abandoned", "task_cancelled", "task_aborted"), {"completed": 0}),
    Row(("iteration_start", "loop_iteration_start", "pass_start"), {"iterations": 1, "drift_events": 0}),
    Row(("iteration_end", "loop_iteration_end", "pass_end"), {"iterations_ended": 1}),
    Row(("drift_detected", "drift_found", "scope_drift", "scope_drift_detected"), {
        "drift_events": 1, "drift_corrected": 0,
    }),
    Row(("drift_corrected", "drift_resolved", "drift_realigned", "drift_recovered"), {"drift_corrected": SUCCESS}),
    # AC-03, the review.
    Row(("review_end", "milestone_review_end", "review_scored"), {"reviews": 1}, {
        "review_score": ("score", "quality_score"),
    }),
    _ratio_row("thoroughness", "criterion_checked", "review_criterion_checked"),
    _failure_row("thoroughness", "criterion_skipped", "review_criterion_skipped"),
    Row(("review_finding", "finding_reported", "issue_found"), {"findings": 1}),
    _ratio_row("accuracy", "finding_confirmed"),
    _failure_row("accuracy", "finding_rejected", "false_positive"),
    _ratio_row("actionability", "finding_addressed", "finding_resolved", "finding_fixed"),
    _failure_row("actionability", "finding_ignored", "finding_dismissed"),
    # AC-04, JICM.
    _ratio_row(
        *("checkpoint_reliability", "checkpoint_created", "checkpoint_saved", "checkpoint_end", "context_checkpoint"),
    ),
    _failure_row("checkpoint_reliability", "checkpoint_error", "checkpoint_lost", "context_checkpoint_error"),
    _ratio_row(
        *("resume_success", "checkpoint_restored", "checkpoint_restore", "context_resume", "context_resumed"),
        *("context_restored", "session_resume", "session_resumed", "work_resumed", "resume_end"),
    ),
    _failure_row(
        *("resume_success", "checkpoint_restore_error", "context_resume_error", "session_resume_error"),
        "resume_error",
    ),
    Row(("context_check", "context_checked", "context_warning", "context_measured"), {}, {"context_percent": _CONTEXT}),
    Row(("context_clear", "context_cleared", "context_compacted", "compaction", "compaction_end"), {"clears": 1}, {
        "efficiency": ("reduction_percent", "compression_percent"),
    }),
    # AC-05, reflection.
    Row(("pattern_identified", "pattern_detected", "pattern_found"), {"patterns": 1}),
    _ratio_row("pattern_detection", "pattern_confirmed"),
    _failure_row("pattern_detection", "pattern_missed", "pattern_rejected"),
    Row(("correction_logged", "self_correction"), {"corrections": 1}),
    _ratio_row("insight_quality", "insight_accepted", "insight_useful"),
    _failure_row("insight_quality", "insight_rejected"),
    _ratio_row("coverage", "session_analyzed", "session_reviewed"),
    _failure_row("coverage", "session_skipped"),
    Row(("proposal_created",), {"proposals": 1}),
    # AC-06, evolution. A rollback has an event of its own; success counts only where the event states it.
    Row(("evolution_implement", "evolution_implemented", "evolution_applied"), {
        "implemented": 1, "total": 1, "processed": 1, "rollbacks": 0, "successful": STATED,
    }),
    Row(("evolution_validate", "evolution_validated", "evolution_validation_end"), {"validated": SUCCESS}),
    Row(("evolution_validate_error", "evolution_validation_error"), {"validated": 0}),
    Row(("evolution_succeeded", "evolution_success", "evolution_end"), {"successful": SUCCESS}),
    Row(("evolution_error",), {"successful": 0}),
    Row(("evolution_rollback", "evolution_rolled_back", "evolution_reverted"), {"rollbacks": 1}),
    Row(("evolution_rejected", "evolution_skipped", "evolution_declined"), {"total": 1, "processed": 1}),
    # AC-07, research.
    Row(("source_checked", "source_queried", "research_query"), {"discovery_rate_total": 1}),
    Row(("discovery_made", "discovery_found", "discovery"), {"discovery_rate_count": 1}, {
        "relevance": ("relevance_percent",),
    }),
    _ratio_row("adoption_rate", "discovery_adopted", "discovery_accepted"),
    _failure_row("adoption_rate", "discovery_rejected", "discovery_declined"),
    # AC-08, maintenance.
    Row(("health_check", "health_checked", "health_check_end"), {"health_checks": 1}),
    _ratio_row("health_accuracy", "health_check_confirmed"),
    _failure_row("health_accuracy", "health_check_wrong", "false_alarm"),
    _ratio_row("cleanup_efficiency", "maintenance_action", "cleanup_action", "cleanup_end"),
    _failure_row("cleanup_efficiency", "maintenance_error", "maintenance_action_error", "cleanup_error"),
    _ratio_row("freshness", "freshness_check", "freshness_checked", "file_checked"),
    _failure_row("freshness", "file_stale", "stale_file_found"),
    # AC-09, completion.
    Row(("session_end",), ends_session=True),
    _ratio_row("state_preservation", "state_saved", "state_preserved", "git_commit", "git_push"),
    _failure_row("state_preservation", "state_lost", "state_save_error", "git_commit_error", "git_push_error"),
    Row(("handoff_created", "handoff_written", "handoff_end"), {"handoffs": 1}, {
        "handoff_quality": ("score", "quality", "quality_score"),
    }),
    _ratio_row("completeness", "completion_step", "completion_step_end", "checklist_item"),
    _failure_row("completeness", "completion_step_skipped", "completion_step_error"),
)  # fmt: skip
"""The rows of all known types. Of two rows for a type, the one for the event's own component counts."""

_ROWS: Final = {(type_, row.component): row for row in TABLE for type_ in row.types}


def normalize_type(type_: str) -> str:
    """Return a type as the table spells it: ``TaskCompleted``, ``task.done`` and ``task_complete`` are ``task_end``."""
    before, _, last = to_snake_case(type_).rpartition("_")
    return f"{before}_{_ENDINGS[last]}" if before and last in _ENDINGS else to_snake_case(type_)


def find_row(type_: str, component: str) -> Row | None:
    """Return the row of a type; None where the table has none.

    Args:
        type_: As it was received, in any spelling.
        component: As it was received: ``AC-01``.
    """
    name = normalize_type(type_)
    component = "".join(filter(str.isalnum, component.casefold()))
    return _ROWS.get((name, component)) or _ROWS.get((name, ""))


def read_metrics(row: Row, areas: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the metrics of an event.

    Args:
        row: The row of its type.
        areas: Its own data first, then its other parts. Of a key that occurs in several, or at several depths, the
            first counts, and an outer one before an inner one.
    """
    values = _flatten(areas)
    if row.is_named_metric:
        return _read_named_metric(values)
    if row.is_metrics_object:
        return _numbers(_find_metrics(areas).items())
    metrics = {name: number for name, number in _numbers(values.items()).items() if name in GAUGES}
    for name, keys in row.gauges.items():
        if name not in metrics:
            metrics |= _numbers((name, values[key]) for key in (name, *keys) if key in values)
    succeeded = _read_outcome(values)
    for name, amount in row.counters.items():
        if isinstance(amount, int):
            metrics[name] = amount
        elif amount != STATED or succeeded is not None:
            metrics[name] = (bool if amount == FLAG else int)(succeeded is not False)
    return metrics


def _numbers(pairs: Iterable[tuple[str, Any]]) -> dict[str, float]:
    """Return the values that are numbers, the first of each name."""
    numbers: dict[str, float] = {}
    for name, value in pairs:
        number = read_number(value)
        if number is not None:
            numbers.setdefault(name, number)
    return numbers


def _flatten(areas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the values in these areas, down to a limited depth, by their keys in one spelling."""
    values: dict[str, Any] = {}
    for area in areas:
        for key, value in _walk(area):
            values.setdefault(to_snake_case(key), value)
    return values


def _walk(area: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each key whose value is not an object, with the value; those of outer objects first."""
    layer = [area]
    for _ in range(_MOST_DEEP):
        yield from ((key, value) for one in layer for key, value in one.items() if not isinstance(value, dict))
        layer = [value for one in layer for value in one.values() if isinstance(value, dict)]


def _read_outcome(values: Mapping[str, Any]) -> bool | None:
    """Return whether an event reports success; None where it reports neither success nor failure."""
    for key in _VERDICTS:
        value = values.get(key)
        if isinstance(value, bool):
            return value
        word = to_snake_case(value) if isinstance(value, str) else ""
        if word in _FAILED or word in _SUCCEEDED:
            return word in _SUCCEEDED
    return None


def _read_named_metric(fields: Mapping[str, Any]) -> dict[str, float]:
    """Return the metric that an event has as name and value; a counter without a value counts one."""
    names = (fields[key] for key in ("name", "metric", "metric_name") if isinstance(fields.get(key), str))
    values = _numbers(("value", fields[key]) for key in ("value", "increment", "amount") if key in fields)
    name = next(names, "")
    if not values and fields.get("metric_type") == "counter":
        values = {"value": 1}
    return {name: values["value"]} if name and values else {}


def _find_metrics(areas: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the object that has an event's metrics: the first with such a name, else its first area."""
    named = (area.get(key) for area in areas for key in ("metrics", "values", "scores"))
    return next((one for one in named if isinstance(one, dict)), areas[0])
