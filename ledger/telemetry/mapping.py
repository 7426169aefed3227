"""The table from types of telemetry events to metrics.

The README shows the table row by row, and no other module names a type. The table says which metrics an event adds;
the configuration of the scores says what these are worth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

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

ENDINGS: Final = {
    **dict.fromkeys(("started", "begin", "began", "begun", "starting"), "start"),
    **dict.fromkeys(("ended", "complete", "completed", "finish", "finished", "done", "stop", "stopped"), "end"),
    **dict.fromkeys(("errored", "fail", "failed", "failure", "crashed"), "error"),
}
"""Last word of a type → the word that the table has in its place."""

FAILED: Final = frozenset((
    *("fail", "failed", "failure", "error", "errored", "rejected", "invalid", "aborted", "cancelled", "canceled"),
    *("timeout", "timed_out", "crashed", "stale", "lost", "no", "false", "bad"),
))  # fmt: skip
SUCCEEDED: Final = frozenset((
    *("success", "succeeded", "successful", "ok", "pass", "passed", "valid", "done", "complete", "completed", "yes"),
    *("true", "applied", "accepted", "approved", "fresh", "good"),
))  # fmt: skip
VERDICTS: Final = (
    *("success", "succeeded", "successful", "passed", "valid", "ok", "fresh"),
    *("status", "result", "outcome", "verdict"),
)
"""Keys whose value says whether something succeeded; the first one that an event has counts."""

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


def _ratio_rows(measure: str, succeeded: str, failed: str) -> tuple[Row, Row]:
    """Return the rows of a measure's events, whose types stand with blanks between them.

    Each adds 1 to the total of the measure, and 1 to its count unless it failed or reports a failure.
    """
    count, total = f"{measure}_count", f"{measure}_total"
    return Row(tuple(succeeded.split()), {count: SUCCESS, total: 1}), Row(tuple(failed.split()), {count: 0, total: 1})


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
    *_ratio_rows("thoroughness", "criterion_checked review_criterion_checked",
        failed="criterion_skipped review_criterion_skipped"),
    Row(("review_finding", "finding_reported", "issue_found"), {"findings": 1}),
    *_ratio_rows("accuracy", "finding_confirmed", failed="finding_rejected false_positive"),
    *_ratio_rows("actionability", "finding_addressed finding_resolved finding_fixed",
        failed="finding_ignored finding_dismissed"),
    # AC-04, JICM.
    *_ratio_rows("checkpoint_reliability", "checkpoint_created checkpoint_saved checkpoint_end context_checkpoint",
        failed="checkpoint_error checkpoint_lost context_checkpoint_error"),
    *_ratio_rows("resume_success",
        "checkpoint_restored checkpoint_restore context_resume context_resumed "
        "context_restored session_resume session_resumed work_resumed resume_end",
        failed="checkpoint_restore_error context_resume_error session_resume_error resume_error"),
    Row(("context_check", "context_checked", "context_warning", "context_measured"), {}, {"context_percent": _CONTEXT}),
    Row(("context_clear", "context_cleared", "context_compacted", "compaction", "compaction_end"), {"clears": 1}, {
        "efficiency": ("reduction_percent", "compression_percent"),
    }),
    # AC-05, reflection.
    Row(("pattern_identified", "pattern_detected", "pattern_found"), {"patterns": 1}),
    *_ratio_rows("pattern_detection", "pattern_confirmed", failed="pattern_missed pattern_rejected"),
    Row(("correction_logged", "self_correction"), {"corrections": 1}),
    *_ratio_rows("insight_quality", "insight_accepted insight_useful", failed="insight_rejected"),
    *_ratio_rows("coverage", "session_analyzed session_reviewed", failed="session_skipped"),
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
    *_ratio_rows("adoption_rate", "discovery_adopted discovery_accepted",
        failed="discovery_rejected discovery_declined"),
    # AC-08, maintenance.
    Row(("health_check", "health_checked", "health_check_end"), {"health_checks": 1}),
    *_ratio_rows("health_accuracy", "health_check_confirmed", failed="health_check_wrong false_alarm"),
    *_ratio_rows("cleanup_efficiency", "maintenance_action cleanup_action cleanup_end",
        failed="maintenance_error maintenance_action_error cleanup_error"),
    *_ratio_rows("freshness", "freshness_check freshness_checked file_checked", failed="file_stale stale_file_found"),
    # AC-09, completion.
    Row(("session_end",), ends_session=True),
    *_ratio_rows("state_preservation", "state_saved state_preserved git_commit git_push",
        failed="state_lost state_save_error git_commit_error git_push_error"),
    Row(("handoff_created", "handoff_written", "handoff_end"), {"handoffs": 1}, {
        "handoff_quality": ("score", "quality", "quality_score"),
    }),
    *_ratio_rows("completeness", "completion_step completion_step_end checklist_item",
        failed="completion_step_skipped completion_step_error"),
)  # fmt: skip
"""The rows of all known types. Of two rows for a type, the one for the event's own component counts."""

BY_TYPE: Final = {(type_, row.component): row for row in TABLE for type_ in row.types}
