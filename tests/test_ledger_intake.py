"""Telemetry objects become events: the accepted shapes, the notes about them, and objects that are kept unread."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.json_values import JSON
from helpers.ledger_lines import stamp
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
    idempotency_key,
    read_object,
)

if TYPE_CHECKING:
    from tallybook.ledger.events import Event

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
        ({"kind": "benchmark.recorded", "component": "ac06", "passed": 0, "total": 0}, ("ac06", "", 0, 0), "agent"),
        ({"component": "ac06", "passed": "41", "failed": 9.0}, ("ac06", "", 41, 50), "agent"),
        ({"component": "ac06", "benchmark": "e2e", "passed": True}, ("ac06", "e2e", 1, 1), "agent"),
        ({"component": "ac06", "benchmark": "e2e", "passed": False}, ("ac06", "e2e", 0, 1), "agent"),
        (
            {"component": "AC-01", "name": "Launch", "summary": {"total": 2, "passed": 1, "failed": 1}, "tests": []},
            ("AC-01", "Launch", 1, 2),
            "agent",
        ),
        ({"component": "ac09", "feedback": 82.5}, FeedbackRecorded("ac09", 82.5, "", ""), "human"),
        ({"component": "ac09", "feedback": "82.5%"}, FeedbackRecorded("ac09", 82.5, "", ""), "human"),
        ({"feedback": "helpful", "note": "quick"}, FeedbackRecorded("", 100, "helpful", "quick"), "human"),
        ({"feedback": " Harmful "}, FeedbackRecorded("", 0, "harmful", ""), "human"),
        ({"feedback": "neutral", "note": None}, FeedbackRecorded("", 50, "neutral", ""), "human"),
        ({"feedback": 0}, FeedbackRecorded("", 0, "", ""), "human"),
        ({"feedback": "helpful", "score": 90}, FeedbackRecorded("", 90, "helpful", ""), "human"),
        ({"kind": "feedback.recorded", "score": 90, "verdict": ""}, FeedbackRecorded("", 90, "", ""), "human"),
        ({"kind": "feedback.recorded", "verdict": "harmful"}, FeedbackRecorded("", 0, "harmful", ""), "human"),
        ({"session_id": "s1", "session_ended": True, "version": "2.0.0"}, SessionEnded("2.0.0"), "agent"),
        ({"session_id": "s1", "session_ended": "true", "version": "unknown"}, SessionEnded(""), "agent"),
        ({"kind": "session.ended", "session_id": "s1", "version": 2}, SessionEnded("2"), "agent"),
        ({"baseline": 82, "score": "ac06", "reason": "the release"}, BaselineSet("ac06", 82, "the release"), "human"),
        ({"baseline": "0", "component": "ac06"}, BaselineSet("ac06", 0, ""), "human"),
        ({"kind": "baseline.set", "value": 87, "score": "ac06"}, BaselineSet("ac06", 87, ""), "human"),
        (EVENT, metrics("AC-02", "drift_detected", drift_events=1, drift_corrected=0), "import"),
        ({"type": "task.done", "component": "ac02", "ok": False}, metrics("ac02", "task.done", completed=0), "import"),
        ({"event": "evolution_validated", "passed": True}, metrics("", "evolution_validated", validated=1), "import"),
        (
            {"event_type": "coffee_made", "component": "ac02", "metrics": {"cups": 2}},
            metrics("ac02", "coffee_made", cups=2),
            "import",
        ),
        ({"type": "metrics", "metrics": {"a": 1}}, metrics("", "metrics", a=1), "import"),
        ({"event_type": "metrics", "ts": 1768600800, "a": 1, "session": 7}, metrics("", "metrics", a=1), "import"),
        ({"event_type": "metric", "payload": {"name": "a", "value": 1}}, metrics("", "metric", a=1), "import"),
        ({"event": "coffee", "metrics": {"a": 1}}, metrics("", "coffee", a=1), "import"),
        (
            {"event": "task_done", "metrics": {"completed": 3, "a": 1}},
            metrics("", "task_done", completed=3, a=1),
            "import",
        ),
        ({"metrics": {"a": 1}, "source": "x" * 100}, metrics("", "x" * 100, a=1), "agent"),
        ({"feedback": 100}, FeedbackRecorded("", 100, "", ""), "human"),
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


def test_the_end_of_a_session_has_its_measurements() -> None:
    """The end in telemetry is one batch: the end, and what it measured."""
    taken = read_object(
        {"event_type": "session_end", "component": "AC-09", "session_id": "s1", "data": {"completeness": 90}}
    )
    assert (SessionEnded(""), metrics("AC-09", "session_end", completeness=90)) == taken.events
    taken = read_object({"event": "session_end", "metrics": {"any": 1, "other": "x"}, "session_id": "s1", "at": AT})
    assert (SessionEnded(""), metrics("", "session_end", any=1)) == taken.events
    assert ("other is not a number and was left out",) == taken.problems


@pytest.mark.parametrize(
    ("said", "when"),
    [
        ({"at": AT}, WHEN),
        ({"timestamp": 1768600800000}, WHEN),
        ({"at": None, "ts": 1768600800}, WHEN),
        ({"time": "2026-01-16", "at": AT}, WHEN),
        ({"created_at": "2026-01-16 22:00"}, WHEN),
        ({}, None),
        ({"time": 12}, None),
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
        ({"baseline": 80, "score": "ac06"}, []),
        ({"metrics": {"a": 1}, "session_id": "s1"}, ["no component is named"]),
        ({"metrics": {"a": 1}}, ["no component and no session is named"]),
        ({"passed": 1, "total": 1}, ["no component is named; it is in no score"]),
        ({"session_ended": True}, ["no session is named"]),
        ({"event_type": "task_start"}, ["no component and no session and no time is named"]),
        ({"event_type": "session_end"}, ["no session and no time is named"]),
        ({"event_type": "coffee_made", "component": "ac02", "timestamp": AT}, ["no session is named"]),
        (METRICS | {"at": None}, []),
        ({"feedback": 80, "session_id": "s1", "note": "x" * 10_000}, []),
        ({}, ["it is neither metrics, nor a benchmark, feedback, a baseline, a session's end or telemetry"]),
        (EVENT | {"event_type": "coffee", "metrics": {"a": 1, "b": "c"}}, ["b is not a number and was left out"]),
        (METRICS | {"at": "yesterday"}, ["the time cannot be read, so it counts for now"]),
        (EVENT | {"timestamp": "x"}, ["the time cannot be read, so it counts for now"]),
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


def test_an_object_with_a_time_is_identified_by_its_content() -> None:
    """The order of its keys does not matter."""
    timed = METRICS | {"at": AT}
    assert idempotency_key(timed) == idempotency_key(dict(reversed(timed.items())))
    assert idempotency_key(timed) != idempotency_key(timed | {"note": ""})
    assert idempotency_key(timed).startswith("metrics:")


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


def test_an_unusable_component_of_a_benchmark_is_named() -> None:
    """The others count; if none is usable, the object is kept."""
    usable = {"component": "ac01", "passed": 1, "total": 1}
    taken = read_object({"benchmark": "e2e", "components": [usable, {"passed": 1, "total": 1}, 7]})
    assert (BenchmarkRecorded("ac01", "e2e", 1, 1),) == taken.events
    assert [
        "components[1] was left out: it names no component",
        "components[2] was left out: a benchmark needs whole numbers",
    ] == [problem.partition(", 0 or more")[0] for problem in taken.problems]
    kept = read_object({"benchmark": "e2e", "components": [7]})
    assert [TelemetryKept] == [type(one) for one in kept.events]
