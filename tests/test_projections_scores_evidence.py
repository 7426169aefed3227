"""The evidence of a component's score: its parts, their events, and its greatest changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from helpers.score_examples import AT, config, folded, noon, plain
from tallybook.ledger.events import (
    BenchmarkRecorded,
    FeedbackRecorded,
    MetricsRecorded,
    Numbers,
    PlaybookUpdated,
    PointAdded,
    PointRated,
    SessionEnded,
)
from tallybook.ledger.records import Author, EventRecord, make_batch
from tallybook.projections.fold import fold
from tallybook.projections.scores.summary import changes, evidence_view, explain
from tallybook.projections.scores.view import scores_view

if TYPE_CHECKING:
    from tallybook.ledger.events import Event

EARLIER = "2026-01-16T09:00:00.000000Z"


def why(component: str, *told: tuple[str, str, Event]) -> dict[str, Any]:
    """Return the evidence of a component in session s1, of events ``(session, time, event)`` with numbers from 1."""
    records = [
        EventRecord(seq, AT, event, f"id-{seq}", Author("test", session), when=at)
        for seq, (session, at, event) in enumerate(told, 1)
    ]
    batches = [make_batch(record) for record in records]
    own = config()
    session = fold(scores_view(own), batches).count().session("s1")
    assert session is not None
    found = fold(evidence_view("s1", component), batches).records
    return explain(session, own.components[component], own, found)


def measured(component: str, **metrics: float) -> MetricsRecorded:
    """Return the measurement of a component."""
    return MetricsRecorded(component, Numbers(dict(metrics)), "")


def test_a_score_is_the_sum_of_its_parts() -> None:
    """AC-06 with 9 of 10 successful, 8 of 10 validated, 1 rollback: 36 + 20 + 18 = 74 of 0.85 → 87.06, 87."""
    found = why("ac06", ("s1", AT, measured("ac06", implemented=10, successful=9, validated=8, total=10, rollbacks=1)))
    assert (87, 0.85) == (found["score"], found["coverage"])
    assert [
        ("success_rate", 90.0, 0.40, 0.4706, 42.35, {"successful": 9.0, "implemented": 10.0}, [1]),
        ("validation_rate", 80.0, 0.25, 0.2941, 23.53, {"validated": 8.0, "total": 10.0}, [1]),
        ("rollback_avoidance", 90.0, 0.20, 0.2353, 21.18, {"rollbacks": 1.0, "implemented": 10.0}, [1]),
        ("throughput", None, 0.15, None, None, {}, []),
    ] == [
        tuple(part[key] for key in ("name", "points", "weight", "share", "gives", "values", "events"))
        for part in found["parts"]
    ]


def test_a_sum_names_all_its_events_and_another_metric_the_last() -> None:
    """Two counts of implemented add up; of two targets the later one by its time counts, though recorded first."""
    found = why(
        "ac06",
        ("s1", AT, measured("AC-06", implemented=1, successful=1, target=4)),
        ("s1", EARLIER, measured("ac06", implemented=1, target=2, processed=2)),
    )
    parts = {part["name"]: part for part in found["parts"]}
    assert ({"successful": 1.0, "implemented": 2.0}, [1, 2]) == (
        parts["success_rate"]["values"],
        parts["success_rate"]["events"],
    )
    assert ({"processed": 2.0, "target": 4.0}, [1, 2]) == (
        parts["throughput"]["values"],
        parts["throughput"]["events"],
    )


def test_events_of_other_sessions_and_components_are_no_evidence() -> None:
    """Nor are ratings, and the end of the session."""
    found = why(
        "ac09",
        ("s1", AT, measured("ac09", completeness=80)),
        ("s2", AT, measured("ac09", completeness=20)),
        ("s1", AT, measured("ac08", freshness=20)),
        ("s1", AT, PointRated("kpt_001", "helpful")),
        ("s1", AT, SessionEnded("")),
    )
    assert [
        {
            "seq": 1,
            "at": AT,
            "session": "s1",
            "rater": "test",
            "what": "metrics",
            "values": {"completeness": 80},
        }
    ] == found["events"]


def test_benchmarks_and_feedback_are_parts_next_to_the_metrics() -> None:
    """80 weighs 1, 9 of 10 cases a quarter of 3, and 40 points a quarter of both: (80 + 67.5 + 17.5) / 2.1875."""
    found = why(
        "ac09",
        ("s1", AT, measured("ac09", completeness=80)),
        ("s1", AT, BenchmarkRecorded("ac09", "b", 9, 10)),
        ("s1", AT, FeedbackRecorded("ac09", 40, "", None)),
    )
    assert 75 == found["score"]
    beside = [(part["name"], part["points"], part["gives"], part["events"]) for part in found["parts"][3:]]
    assert [("benchmarks", 90.0, 30.86, [2]), ("feedback", 40.0, 8.0, [3])] == beside
    assert [{"passed": 9, "total": 10}, {"score": 40}] == [event["values"] for event in found["events"][1:]]


def test_measurements_of_the_playbook_are_evidence_too() -> None:
    """Two ratings and an update of session s1, of an entry of s2, are metrics with their events."""
    own = config(components={"playbook": {"enabled": True}})
    told: list[tuple[str, list[Event]]] = [
        ("s2", [PointAdded("kpt_001", "x"), PlaybookUpdated(1, 0, 0)]),
        ("s1", [PointRated("kpt_001", "helpful"), PointRated("kpt_001", "harmful"), PlaybookUpdated(0, 2, 0)]),
    ]
    batches, seq = [], 0
    for by, events in told:
        batches.append(
            make_batch(
                *(EventRecord(seq + n, AT, event, f"id-{n}", Author("test", by)) for n, event in enumerate(events, 1))
            )
        )
        seq += len(events)
    session = fold(scores_view(own), batches).count().session("s1")
    assert session is not None
    records = fold(evidence_view("s1", "playbook"), batches).records
    found = explain(session, own.components["playbook"], own, records)
    values = {"ratings": 2, "judged": 2, "helpful": 1, "learned": 0, "relearned": 0, "pruned": 0}
    assert [(5, values)] == [(event["seq"], event["values"]) for event in found["events"]]
    (helpful,) = (part for part in found["parts"] if part["name"] == "helpfulness")
    assert (50.0, {"helpful": 1.0, "judged": 2.0}, [5]) == (helpful["points"], helpful["values"], helpful["events"])


def test_a_day_counts_once_however_many_sessions_it_has() -> None:
    """Two sessions of 60 and 80 the day before one of 90: 70 before, 90 now."""
    sessions = [("a", noon("2026-01-01"), 60), ("b", noon("2026-01-01"), 80), ("c", noon("2026-01-02"), 90)]
    state = folded(config(), *((id_, at, plain(value), "") for id_, at, value in sessions))
    found = changes(state, state.config.components["ac09"], 1)
    assert found is not None
    assert (90.0, 70.0) == (found["now"], found["before"])


VALUES = st.integers(0, 100) | st.none()


@given(st.lists(st.tuples(st.integers(1, 28), VALUES, VALUES, VALUES), max_size=20), st.integers(1, 5))
def test_changes_add_up(days: list[tuple[int, float | None, float | None, float | None]], span: int) -> None:
    """The parts' changes sum to the change of the whole, whatever was not measured."""
    names = ("state_preservation", "handoff_quality", "completeness")
    sessions = [
        (
            f"s{n}",
            noon(f"2026-01-{day:02}"),
            {"ac09": {k: v for k, v in zip(names, values, strict=True) if v is not None}},
            "",
        )
        for n, (day, *values) in enumerate(days)
    ]
    state = folded(config(), *sessions)
    found = changes(state, state.config.components["ac09"], span)
    assert (found is not None) == (len({day for day, *values in days if any(v is not None for v in values)}) > span)
    if found is not None:
        total = sum(part["delta"] for part in found["parts"])
        assert abs(total - (found["now"] - found["before"])) < 0.05
