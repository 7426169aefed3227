"""The evidence of a component's score: its parts, their events, and its greatest changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from helpers.score_examples import AT, config, folded, noon
from tallybook.ledger.events import (
    MetricsRecorded,
    Numbers,
    PlaybookUpdated,
    PointAdded,
    PointRated,
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
