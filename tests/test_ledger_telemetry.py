"""Telemetry and other objects become events: names, numbers and times in many spellings, and odd parts named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.json_values import JSON
from helpers.ledger_lines import stamp
from tallybook.ledger import clock
from tallybook.ledger.encoding.codec import encode
from tallybook.ledger.events import (
    BaselineSet,
    BenchmarkRecorded,
    FeedbackRecorded,
    MetricsRecorded,
    Numbers,
    SessionEnded,
    TelemetryKept,
)
from tallybook.ledger.line import frame
from tallybook.ledger.telemetry.mapping import TABLE
from tallybook.ledger.telemetry.read import (
    KINDS,
    fill_defaults,
    find_row,
    idempotency_key,
    read_metrics,
    read_name,
    read_number,
    read_object,
    read_time,
    to_snake_case,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallybook.ledger.events import Event


def read(type_: str, component: str = "", *areas: dict[str, Any]) -> str:
    """Return the fields of an event as JSON: 1, 1.0 and true differ."""
    row = find_row(type_, component)
    assert row is not None, type_
    return json.dumps(read_metrics(row, areas or ({},)), sort_keys=True)


def metrics_as_json(metrics: Mapping[str, float]) -> str:
    """Return metrics in the same form."""
    return json.dumps(metrics, sort_keys=True)


NAMED = ("metric", "gauge", "counter", "timing", "measurement")
WHOLE = ("metrics", "component_metrics", "session_metrics", "metrics_report", "measurements", "scores")


@pytest.mark.parametrize("type_", NAMED)
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"metric_type": "gauge", "name": "startup_ms", "value": 800, "unit": "ms"}, {"startup_ms": 800}),
        ({"metric_type": "counter", "name": "completed", "increment": 2}, {"completed": 2}),
        ({"metric_type": "counter", "name": "completed"}, {"completed": 1}),
        ({"metric_name": "review_score", "amount": 3}, {"review_score": 3}),
        ({"name": "startup_ms"}, {}),
        ({"name": "startup_ms", "value": "soon"}, {}),
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
        *(({"success": True}, 1), ({"passed": False}, 0)),
        *(({"status": "FAILED"}, 0), ({"result": "Timed out"}, 0)),
        *(({"verdict": "pass"}, 1), ({"status": "in_progress"}, 1), ({"status": 7}, 1)),
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


AT = "2026-01-16T22:00:00.000Z"
WHEN = "2026-01-16T22:00:00.000000Z"
METRICS = {"component": "ac01", "session_id": "s1", "metrics": {"startup_ms": 8000, "orientation_done": True}}
EVENT = {"timestamp": AT, "component": "AC-02", "event_type": "drift_detected", "session_id": "s1", "data": {}}


def metrics(component: str, source: str = "", **found: float) -> MetricsRecorded:
    """Return a measurement."""
    return MetricsRecorded(component, Numbers(found), source)


def kept(said: dict[str, Any]) -> TelemetryKept:
    """Return the event that keeps an unusable object whole."""
    (event,) = read_object(said).events
    assert isinstance(event, TelemetryKept)
    assert json.dumps(said, ensure_ascii=False, separators=(",", ":")) == event.original
    return event


@pytest.mark.parametrize(
    ("said", "event", "rater"),
    [
        (METRICS, metrics("ac01", startup_ms=8000, orientation_done=True), "agent"),
        ({"kind": "metrics.recorded"} | METRICS, metrics("ac01", startup_ms=8000, orientation_done=True), "agent"),
        (METRICS | {"source": "launch"}, metrics("ac01", "launch", startup_ms=8000, orientation_done=True), "agent"),
        ({"metrics": {"a": "75%", "b": None}, "componentId": 7}, metrics("7", a=75), "agent"),
        ({"component": "ac06", "benchmark": "small", "passed": 41, "total": 50}, ("ac06", "small", 41, 50), "agent"),
        ({"component": "ac06", "passed": "41", "failed": 9.0}, ("ac06", "", 41, 50), "agent"),
        ({"component": "ac06", "benchmark": "e2e", "passed": True}, ("ac06", "e2e", 1, 1), "agent"),
        (
            {"component": "AC-01", "name": "Launch", "summary": {"total": 2, "passed": 1, "failed": 1}, "tests": []},
            ("AC-01", "Launch", 1, 2),
            "agent",
        ),
        ({"component": "ac09", "feedback": 82.5}, FeedbackRecorded("ac09", 82.5, "", ""), "human"),
        ({"feedback": "helpful", "note": "quick"}, FeedbackRecorded("", 100, "helpful", "quick"), "human"),
        ({"feedback": " Harmful "}, FeedbackRecorded("", 0, "harmful", ""), "human"),
        ({"feedback": "neutral", "note": None}, FeedbackRecorded("", 50, "neutral", ""), "human"),
        ({"feedback": "helpful", "score": 90}, FeedbackRecorded("", 90, "helpful", ""), "human"),
        ({"kind": "feedback.recorded", "verdict": "harmful"}, FeedbackRecorded("", 0, "harmful", ""), "human"),
        ({"session_id": "s1", "session_ended": True, "version": "2.0.0"}, SessionEnded("2.0.0"), "agent"),
        ({"kind": "session.ended", "session_id": "s1", "version": 2}, SessionEnded("2"), "agent"),
        ({"baseline": 82, "score": "ac06", "reason": "the release"}, BaselineSet("ac06", 82, "the release"), "human"),
        ({"kind": "baseline.set", "value": 87, "score": "ac06"}, BaselineSet("ac06", 87, ""), "human"),
        (EVENT, metrics("AC-02", "drift_detected", drift_events=1, drift_corrected=0), "import"),
        ({"type": "task.done", "component": "ac02", "ok": False}, metrics("ac02", "task.done", completed=0), "import"),
        ({"event": "evolution_validated", "passed": True}, metrics("", "evolution_validated", validated=1), "import"),
        (
            {"event_type": "coffee_made", "component": "ac02", "metrics": {"cups": 2}},
            metrics("ac02", "coffee_made", cups=2),
            "import",
        ),
        ({"event_type": "metrics", "ts": 1768600800, "a": 1, "session": 7}, metrics("", "metrics", a=1), "import"),
        ({"event_type": "metric", "payload": {"name": "a", "value": 1}}, metrics("", "metric", a=1), "import"),
        (
            {"event": "task_done", "metrics": {"completed": 3, "a": 1}},
            metrics("", "task_done", completed=3, a=1),
            "import",
        ),
        ({"feedback": 5, "note": "half \ud800"}, FeedbackRecorded("", 5, "", "half ?"), "human"),
        ({"hook_event": "session_end", "metadata": {"jarvis_version": "1.9.5"}}, SessionEnded("1.9.5"), "import"),
        ({"event_type": "session_end", "data": {"version": "2", "x": 1}, "version": "3"}, SessionEnded("2"), "import"),
    ],
)  # fmt: skip
def test_an_accepted_shape_becomes_one_event(said: dict[str, Any], event: Event | tuple[Any, ...], rater: str) -> None:
    """Each form of metrics, benchmarks, feedback, ends, baselines and telemetry is one event, with its author."""
    taken = read_object(said)
    expected = BenchmarkRecorded(*event) if isinstance(event, tuple) else event
    assert ((expected,), rater) == (taken.events, taken.rater)


@pytest.mark.parametrize(
    ("said", "when"),
    [
        ({"at": AT}, WHEN),
        ({"timestamp": 1768600800000}, WHEN),
        ({"time": "2026-01-16", "at": AT}, WHEN),
        ({}, None),
    ],
)
def test_the_time_of_an_object_is_read(said: dict[str, Any], when: str | None) -> None:
    """It may be under any of the usual keys, the plainest first; an invalid moment is ignored."""
    assert when == read_object(METRICS | said).when


@pytest.mark.parametrize(
    ("said", "problems"),
    [
        (METRICS, []),
        (EVENT, []),
        ({"feedback": 80}, ["no session is named; it is in no score"]),
        ({"feedback": 80, "session_id": "s1"}, []),
        ({"metrics": {"a": 1}}, ["no component and no session is named"]),
        ({"passed": 1, "total": 1}, ["no component is named; it is in no score"]),
        ({"event_type": "task_start"}, ["no component and no session and no time is named"]),
        ({"event_type": "coffee_made", "component": "ac02", "timestamp": AT}, ["no session is named"]),
        ({}, ["it is neither metrics, nor a benchmark, feedback, a baseline, a session's end or telemetry"]),
        (EVENT | {"event_type": "coffee", "metrics": {"a": 1, "b": "c"}}, ["b is not a number and was left out"]),
        (METRICS | {"at": "yesterday"}, ["the time cannot be read, so it counts for now"]),
        (
            METRICS | {"session_id": "x" * 201},
            ["the session is too long or cannot be printed, and is replaced by its digest"],
        ),
        (
            METRICS | {"metrics": {"a": 1, "b": "many", "": 2, "c\n": 3}},
            [
                "b is not a number and was left out",
                *["a metric without a name of 1 to 100 printable characters was left out"] * 2,
            ],
        ),
        ({"feedback": 80, "session_id": "s1", "note": ["x"]}, ["the note is not a text and was left out"]),
        ({"feedback": 80, "session_id": "s1", "note": "x" * 10_001}, ["the note was cut to 10,000 characters"]),
        ({"baseline": 80, "score": "ac06", "reason": 5}, ["the reason is not a text and was left out"]),
    ],
)  # fmt: skip
def test_an_odd_object_is_noted(said: dict[str, Any], problems: list[str]) -> None:
    """It is recorded with the fields that it has, and a note names what is missing or was left out."""
    taken = read_object(said)
    assert len(problems) == len(taken.problems)
    assert [] == [(one, told) for one, told in zip(problems, taken.problems, strict=True) if not told.startswith(one)]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"component": "ac01", "metrics": []}, "the metrics are no object of names and numbers"),
        ({"component": "ac01", "metrics": {}}, "there is no number among the metrics"),
        ({"component": "ac01", "metrics": {"a": {"b": 1}}}, "there is no number among the metrics"),
        *(
            (
                {"component": "ac06"} | said,
                "a benchmark needs whole numbers, 0 or more, as passed and as total, and no more passed than total",
            )
            for said in (
                *({"passed": 3, "total": 2}, {"passed": -1, "total": 2}, {"passed": 1.5, "total": 2}, {"passed": 1}),
                *({"benchmark": "e2e", "total": 2}, {"passed": "all", "total": 2}, {"passed": True, "total": 2}),
                {"summary": {"text": "fine"}},
            )
        ),
        *(
            ({"feedback": said}, "feedback is a number from 0 to 100, or one of helpful, neutral, harmful")
            for said in ("great", 101, -1, True, [80], "")
        ),
        *(
            (said, "a baseline is a number from 0 to 100, with the score that it is for: ac06, session.overall")
            for said in ({"baseline": 82}, {"baseline": 120, "score": "ac06"}, {"baseline": True, "score": "ac06"})
        ),
        ({"session_id": "s1", "session_ended": False}, "session_ended is not true"),
        *(
            (said, "it is neither metrics, nor a benchmark, feedback, a baseline, a session's end or telemetry")
            for said in ({}, {"component": "ac01"}, {"kind": "point.rated"}, {"summary": "fine"}, {"event_type": 3})
        ),
        ({"event_type": "context_check", "data": {"percentage": "much"}}, "the event brings no number"),
    ],
)  # fmt: skip
def test_an_unusable_object_is_kept_whole(said: dict[str, Any], reason: str) -> None:
    """It counts nothing, its event has the reason, and the answer reports a problem."""
    assert reason == kept(said).reason
    assert f"{reason}; it is kept and counts nothing" == read_object(said).problems[0]


KEYS = st.sampled_from([
    *("component", "session_id", "at", "timestamp", "metrics", "source", "benchmark", "passed", "total", "failed"),
    *("feedback", "note", "session_ended", "version", "baseline", "score", "verdict", "reason", "value", "kind"),
    *("event_type", "type", "data", "metadata", "summary", "name"),
])  # fmt: skip
WORDS = st.sampled_from([*KINDS, *(row.types[0] for row in TABLE), "helpful", "\ud800", "\n", ""])


@given(st.dictionaries(KEYS, JSON | WORDS | st.dictionaries(KEYS | st.text(), JSON | WORDS, max_size=3)))
def test_any_object_can_be_recorded(said: dict[str, Any]) -> None:
    """Nothing raises, and every event fits the ledger's lines."""
    said = fill_defaults(said)
    taken = read_object(said)
    drafts = [encode(event, taken.when) for event in taken.events]
    by = {"rater": taken.rater} | ({"session": taken.session} if taken.session else {})
    assert len(drafts) <= frame(drafts, stamp()._replace(by=by, key=idempotency_key(said, "x"))).last


@pytest.mark.parametrize(
    "components",
    [
        [{"component": "AC-01", "passed": 4, "total": 5}, {"id": "ac06", "passed": 1, "failed": 1, "benchmark": "e2e"}],
        [{"name": "AC-01", "summary": {"passed": 4, "total": 5}}, {"component_id": "ac06", "passed": 1, "total": 2}],
        {"AC-01": {"passed": 4, "total": 5}, "ac06": {"passed": 1, "total": 2}},
    ],
)
def test_a_benchmark_of_several_components_is_one_result_for_each(components: Any) -> None:
    """Each component has its own cases; totals for all of them are not counted again."""
    said = {"name": "nightly", "session_id": "s1", "at": AT, "passed": 5, "total": 7, "components": components}
    taken = read_object(said)
    assert ("s1", ()) == (taken.session, taken.problems)
    assert [("AC-01", 4, 5), ("ac06", 1, 2)] == [
        (one.component, one.passed, one.total) for one in taken.events if isinstance(one, BenchmarkRecorded)
    ]
    assert 2 == len(taken.events)


@pytest.mark.parametrize(
    ("reader", "rows"),
    [
        (
            read_number,
            {8000: "8000", -3: "-3", 2**53: "9007199254740992", 12.5: "12.5", True: "true", " FALSE ": "false"}
            | {"+7": "7", "75.1": "75.1", "1e3": "1000.0", ".5": "0.5", "5.": "5.0", " 85.5 % ": "85.5", "x": "null"},
        ),
        (read_name, {"  AC-01 ": '"AC-01"', "Prüfung": '"Pr\\u00fcfung"', 42: '"42"', 1.5: '"1.5"', True: '""'}),
        (
            to_snake_case,
            dict.fromkeys(("driftDetected", "Drift.detected", "Drift-Detected", "drift  detected"), '"drift_detected"')
            | {"DRIFT_DETECTED": '"drift_detected"', "step2Done": '"step2_done"', "дрейф": '""', "x" * 101: '""'},
        ),
        (
            read_time,
            dict.fromkeys(
                (
                    *("2026-01-16T22:00:00.000Z", "2026-01-16 22:00", "2026-01-16T23:00:00+01:00", "20260116T220000Z"),
                    *("2026-01-16T16:30:00-0530", "2026-01-16 22:00:00 +0000", "2026-01-16 22:00:00 UTC"),
                    *(1768600800, 1768600800000, "1768600800.0"),
                ),
                f'"{WHEN}"',
            ),
        ),
    ],
)
def test_a_value_is_read_in_every_spelling(reader: Callable[[Any], object], rows: dict[object, str]) -> None:
    """Numbers keep whether they are whole, names lose blanks, words get one spelling, and times one format."""
    assert rows == {written: json.dumps(reader(written)) for written in rows}


@given(JSON)
def test_no_value_raises_and_every_result_is_in_bounds(value: Any) -> None:
    """For any JSON a moment is one that the ledger would write, and a name fits its field."""
    found = read_number(value)
    assert found is None or abs(found) <= 2**53
    assert len(read_name(value)) <= 200
    assert read_name(value).isprintable()
    when = read_time(value)
    assert when is None or clock.moment(clock.to_unix_us(when)).at == when
