"""The table of telemetry: every row with the events that it must give, written out by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.json_values import JSON
from tallybook.ledger.telemetry.mapping import TABLE
from tallybook.ledger.telemetry.read import find_row, normalize_type, read_metrics, read_number

if TYPE_CHECKING:
    from collections.abc import Mapping

ONE = {"count": 1, "total": 1}
NONE = {"count": 0, "total": 1}


def pair(measure: str, counts: Mapping[str, int]) -> dict[str, int]:
    """Return the two counters of a measure."""
    return {f"{measure}_{end}": count for end, count in counts.items()}


def read(type_: str, component: str = "", *areas: dict[str, Any]) -> str:
    """Return the fields of an event as JSON: 1, 1.0 and true differ."""
    row = find_row(type_, component)
    assert row is not None, type_
    return json.dumps(read_metrics(row, areas or ({},)), sort_keys=True)


def metrics_as_json(metrics: Mapping[str, float]) -> str:
    """Return metrics in the same form."""
    return json.dumps(metrics, sort_keys=True)


ALWAYS: list[tuple[str, Mapping[str, float]]] = [
    ("component_start evolution_start reflection_start research_start maintenance_start", {"starts": 1}),
    ("component_end reflection_end research_end maintenance_end loop_end", {"ends": 1}),
    ("milestone_detected milestone_found milestone_reached", {"milestones": 1}),
    ("component_skip component_skipped", {"skips": 1}),
    ("component_error error exception", {"errors": 1}),
    ("session_start launch_end startup_end self_launch_end", {"sessions": 1}),
    ("greeting_shown greeting_displayed greeting_generated greeting_end", {"greetings": 1}),
    ("task_start", {"total": 1, "completed": 0, "drift_events": 0}),
    ("task_error task_abandoned task_cancelled task_aborted", {"completed": 0}),
    ("iteration_start loop_iteration_start pass_start", {"iterations": 1, "drift_events": 0}),
    ("iteration_end loop_iteration_end pass_end", {"iterations_ended": 1}),
    ("drift_detected drift_found scope_drift scope_drift_detected", {"drift_events": 1, "drift_corrected": 0}),
    ("review_end milestone_review_end review_scored", {"reviews": 1}),
    ("criterion_skipped review_criterion_skipped", pair("thoroughness", NONE)),
    ("review_finding finding_reported issue_found", {"findings": 1}),
    ("finding_rejected false_positive", pair("accuracy", NONE)),
    ("finding_ignored finding_dismissed", pair("actionability", NONE)),
    ("checkpoint_error checkpoint_lost context_checkpoint_error", pair("checkpoint_reliability", NONE)),
    ("checkpoint_restore_error context_resume_error session_resume_error resume_error", pair("resume_success", NONE)),
    ("context_clear context_cleared context_compacted compaction compaction_end", {"clears": 1}),
    ("pattern_identified pattern_detected pattern_found", {"patterns": 1}),
    ("pattern_missed pattern_rejected", pair("pattern_detection", NONE)),
    ("correction_logged self_correction", {"corrections": 1}),
    ("insight_rejected", pair("insight_quality", NONE)),
    ("session_skipped", pair("coverage", NONE)),
    ("proposal_created", {"proposals": 1}),
    ("evolution_validate_error evolution_validation_error", {"validated": 0}),
    ("evolution_error", {"successful": 0}),
    ("evolution_rollback evolution_rolled_back evolution_reverted", {"rollbacks": 1}),
    ("evolution_rejected evolution_skipped evolution_declined", {"total": 1, "processed": 1}),
    ("source_checked source_queried research_query", {"discovery_rate_total": 1}),
    ("discovery_made discovery_found discovery", {"discovery_rate_count": 1}),
    ("discovery_rejected discovery_declined", pair("adoption_rate", NONE)),
    ("health_check health_checked health_check_end", {"health_checks": 1}),
    ("health_check_wrong false_alarm", pair("health_accuracy", NONE)),
    ("maintenance_error maintenance_action_error cleanup_error", pair("cleanup_efficiency", NONE)),
    ("file_stale stale_file_found", pair("freshness", NONE)),
    ("state_lost state_save_error git_commit_error git_push_error", pair("state_preservation", NONE)),
    ("handoff_created handoff_written handoff_end", {"handoffs": 1}),
    ("completion_step_skipped completion_step_error", pair("completeness", NONE)),
    ("session_end context_loaded context_load_end", {}),
    ("context_check context_checked context_warning context_measured", {}),
]
"""Types → what each of their events says, whether it went well or not."""

OUTCOMES: list[tuple[str, Mapping[str, float], Mapping[str, float]]] = [
    ("orientation_end", {"orientation_done": True}, {"orientation_done": False}),
    ("task_end", {"completed": 1}, {"completed": 0}),
    ("drift_corrected drift_resolved drift_realigned drift_recovered", {"drift_corrected": 1}, {"drift_corrected": 0}),
    ("evolution_validate evolution_validated evolution_validation_end", {"validated": 1}, {"validated": 0}),
    ("evolution_succeeded evolution_success evolution_end", {"successful": 1}, {"successful": 0}),
    *(
        (types, pair(measure, ONE), pair(measure, NONE))
        for types, measure in (
            ("criterion_checked review_criterion_checked", "thoroughness"),
            ("finding_confirmed", "accuracy"),
            ("finding_addressed finding_resolved finding_fixed", "actionability"),
            ("checkpoint_created checkpoint_saved checkpoint_end context_checkpoint", "checkpoint_reliability"),
            (
                "checkpoint_restored checkpoint_restore context_resume context_resumed context_restored",
                "resume_success",
            ),
            ("session_resume session_resumed work_resumed resume_end", "resume_success"),
            ("pattern_confirmed", "pattern_detection"),
            ("insight_accepted insight_useful", "insight_quality"),
            ("session_analyzed session_reviewed", "coverage"),
            ("discovery_adopted discovery_accepted", "adoption_rate"),
            ("health_check_confirmed", "health_accuracy"),
            ("maintenance_action cleanup_action cleanup_end", "cleanup_efficiency"),
            ("freshness_check freshness_checked file_checked", "freshness"),
            ("state_saved state_preserved git_commit git_push", "state_preservation"),
            ("completion_step completion_step_end checklist_item", "completeness"),
        )
    ),
]
"""Types → what an event says that went well or says nothing of it, and what one that went wrong does."""

CARRIED: list[tuple[str, str, Mapping[str, Any], Mapping[str, float]]] = [
    *(
        (type_, "AC-01", {key: 5000}, {start: 1, "startup_ms": 5000})
        for type_, start in (("component_end", "ends"), ("session_start", "sessions"), ("launch_end", "sessions"))
        for key in ("startup_ms", "duration_ms", "elapsed_ms", "startup_time_ms", "launch_ms")
    ),
    *(
        (type_, "AC-01", {key: 45}, {start: 1, "context_percent": 45})
        for type_, start in (("component_end", "ends"), ("session_start", "sessions"))
        for key in ("context_percent", "context_usage_percent", "context_usage", "usage_percent")
    ),
    *(
        (type_, "AC-04", {key: "75.1"}, {"context_percent": 75.1})
        for type_ in ("context_check", "context_warning", "context_loaded")
        for key in ("context_percent", "percentage", "percent", "context_usage_percent", "usagePercent")
    ),
    *(
        ("greeting_shown", "ac01", {key: 90}, {"greetings": 1, "greeting_score": 90})
        for key in ("greeting_score", "score", "quality", "quality_score")
    ),
    *(
        ("review_end", "ac03", {key: 88}, {"reviews": 1, "review_score": 88})
        for key in ("review_score", "score", "quality_score")
    ),
    *(
        ("context_clear", "ac04", {key: "60%"}, {"clears": 1, "efficiency": 60})
        for key in ("efficiency", "reduction_percent", "compression_percent")
    ),
    *(
        ("discovery_made", "ac07", {key: 70}, {"discovery_rate_count": 1, "relevance": 70})
        for key in ("relevance", "relevance_percent")
    ),
    *(
        ("handoff_created", "ac09", {key: 95}, {"handoffs": 1, "handoff_quality": 95})
        for key in ("handoff_quality", "score", "quality", "quality_score")
    ),
    ("component_end", "AC-02", {"duration_ms": 5000}, {"ends": 1}),
    ("component_end", "AC-06", {"implementations": 3}, {"ends": 1, "implementations": 3}),
    ("component_end", "AC-08", {"checks_run": 12}, {"ends": 1, "checks_run": 12}),
    ("component_end", "AC-03", {"findings": 4}, {"ends": 1, "findings": 4}),
    ("component_end", "AC-01", {"findings": 4}, {"ends": 1, "findings": 4}),
    ("component_end", "AC-09", {"steps_completed": 5}, {"ends": 1, "completeness_count": 5, "completeness_total": 5}),
    ("component_end", "AC-09", {"steps_completed": 5, "steps_total": 8}, {
        "ends": 1, "completeness_count": 5, "completeness_total": 8,
    }),
    ("reflection_end", "ac05", {"coverage": 80, "notes": 3}, {"ends": 1, "coverage": 80}),
    ("session_end", "ac09", {"completeness": 90, "exit_code": 0}, {"completeness": 90}),
    ("component_end", "ac08", {"freshness_count": 9, "freshness_total": 10}, {
        "ends": 1, "freshness_count": 9, "freshness_total": 10,
    }),
    ("task_start", "ac02", {"total": 40, "completed": 12}, {"total": 1, "completed": 0, "drift_events": 0}),
]  # fmt: skip
"""Type, component, what an event carries → what it says."""


@pytest.mark.parametrize(("types", "expected"), ALWAYS, ids=[types.split()[0] for types, _ in ALWAYS])
def test_an_event_follows_its_row(types: str, expected: dict[str, float]) -> None:
    """This holds under every name of its type, whatever its outcome."""
    for type_ in types.split():
        for data in ({}, {"success": True}, {"success": False}):
            assert metrics_as_json(expected) == read(type_, "", data), (type_, data)


@pytest.mark.parametrize(("types", "well", "wrong"), OUTCOMES, ids=[row[0].split()[0] for row in OUTCOMES])
def test_an_event_has_its_outcome(types: str, well: dict[str, float], wrong: dict[str, float]) -> None:
    """An event is a success unless it reports another outcome."""
    for type_ in types.split():
        said = [read(type_, "", data) for data in ({}, {"success": True}, {"success": False})]
        assert [metrics_as_json(well), metrics_as_json(well), metrics_as_json(wrong)] == said, type_


@pytest.mark.parametrize(("type_", "component", "data", "expected"), CARRIED)
def test_an_event_carries_measures(
    type_: str, component: str, data: dict[str, Any], expected: dict[str, float]
) -> None:
    """They are under their own names anywhere, and under the row's further keys; the row's own counts stay."""
    assert metrics_as_json(expected) == read(type_, component, data)


def test_every_row_and_every_type_is_tested() -> None:
    """The tests of this file cover each type of the table, and no type occurs twice for one component."""
    types = [(type_, row.component) for row in TABLE for type_ in row.types]
    tested = {type_ for types in (*dict(ALWAYS), *(row[0] for row in OUTCOMES)) for type_ in types.split()}
    tested |= {"evolution_implement", "evolution_implemented", "evolution_applied", *NAMED, *WHOLE}
    assert len(types) == len(set(types))
    assert tested == {type_ for type_, _ in types}
    # Each is found by its own name: no spelling of the table is one that becomes another.
    assert [] == [type_ for type_, _ in types if normalize_type(type_) != type_ and find_row(type_, "") is None]


NAMED = ("metric", "gauge", "counter", "timing", "measurement")
WHOLE = ("metrics", "component_metrics", "session_metrics", "metrics_report", "measurements", "scores")


@pytest.mark.parametrize("type_", NAMED)
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"metric_type": "gauge", "name": "startup_ms", "value": 800, "unit": "ms"}, {"startup_ms": 800}),
        ({"metric_type": "counter", "name": "completed", "increment": 2}, {"completed": 2}),
        ({"metric_type": "counter", "name": "completed"}, {"completed": 1}),
        ({"metric_type": "timing", "name": "reflection_duration", "value": 5000}, {"reflection_duration": 5000}),
        ({"metric": "review_score", "value": "88"}, {"review_score": 88}),
        ({"metric_name": "review_score", "amount": 3}, {"review_score": 3}),
        ({"name": "startup_ms"}, {}),
        ({"name": "startup_ms", "value": "soon"}, {}),
        ({"value": 3}, {}),
        ({"name": "a", "metric": "b", "value": 1, "increment": 2}, {"a": 1}),
    ],
)
def test_a_metric_has_a_name_and_a_value(type_: str, data: dict[str, Any], expected: dict[str, float]) -> None:
    """One without a number is ignored, except for a counter, which counts one."""
    assert metrics_as_json(expected) == read(type_, "", data)


@pytest.mark.parametrize("type_", WHOLE)
@pytest.mark.parametrize(
    ("areas", "expected"),
    [
        (({"completed": 3, "total": 4, "by": "me"},), {"completed": 3, "total": 4}),
        (({"metrics": {"completed": 3, "deep": {"total": 4}}, "took": 9},), {"completed": 3}),
        (({"values": {"completed": 3}},), {"completed": 3}),
        (({"scores": {"thoroughness": "90%"}},), {"thoroughness": 90}),
        (({}, {"metrics": {"completed": True}}), {"completed": True}),
        (({},), {}),
    ],
)
def test_a_report_has_all_its_numbers(
    type_: str, areas: tuple[dict[str, Any], ...], expected: dict[str, float]
) -> None:
    """They are those of the object with the report's name, wherever it is, or else of its data."""
    assert metrics_as_json(expected) == read(type_, "", *areas)


@pytest.mark.parametrize(
    "type_",
    [
        *("task_completed", "task_complete", "task_ended", "task_finished", "task_done", "task_stopped", "task_stop"),
        *("TaskCompleted", "taskCompleted", "task.completed", "TASK-DONE", "Task finished", "task_finish", "task:end"),
    ],
)
def test_a_type_has_many_spellings(type_: str) -> None:
    """Each spelling that programs use gives the same row."""
    assert metrics_as_json({"completed": 1}) == read(type_)


@pytest.mark.parametrize(
    ("data", "completed"),
    [
        *(({"success": True}, 1), ({"succeeded": False}, 0), ({"passed": False}, 0), ({"valid": False}, 0)),
        *(({"ok": False}, 0), ({"status": "failed"}, 0), ({"status": "FAILED"}, 0), ({"result": "Timed out"}, 0)),
        *(({"outcome": "rejected"}, 0), ({"verdict": "pass"}, 1), ({"status": "in_progress"}, 1), ({"status": 7}, 1)),
        *(({"success": None, "status": "error"}, 0), ({"success": True, "status": "error"}, 1)),
        *(({"status": "weird", "result": "failed"}, 0), ({"ok": "false"}, 0), ({"passed": "yes"}, 1)),
        *(({"nested": {"success": False}}, 0), ({"success": {"success": False}}, 0)),
    ],
)
def test_the_outcome_is_read_from_flags_and_words(data: dict[str, Any], completed: int) -> None:
    """The first known flag or word counts; an unknown word is ignored."""
    assert metrics_as_json({"completed": completed}) == read("task_end", "", data)


@given(st.sampled_from([row.types[0] for row in TABLE]), st.text(), st.dictionaries(st.text(), JSON, max_size=5))
def test_any_event_gives_valid_numbers(type_: str, component: str, data: dict[str, Any]) -> None:
    """Nothing raises, and every value is one that the ledger can hold."""
    row = find_row(type_, component)
    assert row is not None
    found = read_metrics(row, [data, {"metadata": data}])
    assert found == {name: read_number(value) for name, value in found.items()}
