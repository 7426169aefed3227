"""Helpers for tests of scores: configurations, the session of the document's examples, and histories of scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from tallybook.ledger.events import Event, MetricsRecorded, Numbers, SessionEnded
from tallybook.ledger.records import Author, Batch, EventRecord, make_batch
from tallybook.projections.playbook.fold import fold
from tallybook.projections.scores.config import Config, overlay, read_config
from tallybook.projections.scores.scoring import Session, component_score
from tallybook.projections.scores.view import Scores, scores_view
from tallybook.projections.surfaces.scores.configuration import default
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

NOON = "2026-01-16T12:00:00"
LINEAR = {
    "ac03": ("thoroughness", "accuracy", "actionability"),
    "ac04": ("checkpoint_reliability", "resume_success", "efficiency"),
    "ac05": ("pattern_detection", "insight_quality", "coverage"),
    "ac07": ("discovery_rate", "relevance", "adoption_rate"),
    "ac08": ("health_accuracy", "cleanup_efficiency", "freshness"),
    "ac09": ("state_preservation", "handoff_quality", "completeness"),
}
"""The components without a formula, and the three measures of each in the table "Component Scores"."""


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """Return the packaged default; no test may change it."""
    return default()


def config_of(own: str = "") -> Config:
    """Return the default configuration with YAML merged below ``scoring``."""
    return read_config(overlay(document(), {"scoring": yaml.safe_load(own) or {}}))


def metrics(component: str, **values: float) -> MetricsRecorded:
    """Return metrics of a component."""
    return MetricsRecorded(component, Numbers(values), "")


def line(seq: int, event: Any, session: str | None = "s1", at: str = NOON, when: str | None = None) -> EventRecord:
    """Return an event with its position and its times, which are given to the second."""
    happened = None if when is None else f"{when}.000000Z"
    return EventRecord(seq, f"{at}.000000Z", event, f"id-{seq:03}", Author("test", session), None, happened)


def session_of(*events: Any) -> Session:
    """Return a session with these events."""
    session = Session("s1")
    for seq, event in enumerate(events, 1):
        session.add_event(line(seq, event))
    return session


def value_of(component: str, own: str = "", /, **values: float) -> int | None:
    """Return the score of a component with these measurements, by the default with YAML merged into it."""
    config = config_of(own)
    return component_score(config.components[component], session_of(metrics(component, **values)), config).value


def batches(*records: EventRecord) -> list[Batch]:
    """Return each record as a batch of its own."""
    return [make_batch(record) for record in records]


def fold_records(records: Iterable[EventRecord], config: Config | None = None) -> Scores:
    """Return the view of these records in this order, counted."""
    state = fold(scores_view(config or config_of()), batches(*records))
    state.seal()
    return state


MEASURED: dict[str, dict[str, float]] = {
    "ac01": {"startup_ms": 5000, "context_percent": 10, "greeting_score": 60, "orientation_done": True},
    "ac02": {"completed": 4, "total": 5, "avg_iterations": 1, "drift_events": 0, "review_score": 75},
    "ac03": {"thoroughness": 80, "accuracy": 85, "actionability": 90},
    "ac04": {"checkpoint_reliability": 100, "resume_success": 95, "efficiency": 90},
    "ac05": {"pattern_detection": 70, "insight_quality": 80, "coverage": 84},
    "ac06": {
        "implemented": 10,
        "successful": 8,
        "rollbacks": 1,
        "validated": 8,
        "total": 10,
        "processed": 8,
        "target": 10,
    },
    "ac07": {"discovery_rate": 75, "relevance": 75, "adoption_rate": 75},
    "ac08": {"health_accuracy": 90, "cleanup_efficiency": 90, "freshness": 90},
    "ac09": {"state_preservation": 94, "handoff_quality": 94, "completeness": 94},
}
"""What gives the scores of the document's example, 92, 88, 85, 95, 78, 82, 75, 90 and 94."""

EXAMPLE = "session_2026-01-16_001"
AT = "2026-01-16T22:00:00.000000Z"


def config(**own: Any) -> Config:
    """Return the packaged configuration with a project's own keys laid over it."""
    return read_config(overlay(default(), {"scoring": own}))


def events(measured: Mapping[str, Mapping[str, float]], version: str = "") -> tuple[Event, ...]:
    """Return the measurements of a session's components, and its end."""
    return (
        *(MetricsRecorded(name, Numbers(dict(values)), "") for name, values in measured.items()),
        SessionEnded(version),
    )


def noon(day: str) -> str:
    """Return the middle of a day, as the ledger writes it."""
    return f"{day}T12:00:00.000000Z"


def fold_sessions(config: Config, *sessions: tuple[str, str, Mapping[str, Mapping[str, float]], str]) -> Scores:
    """Return the scores of sessions, each ``(id, time, measurements, version)``."""
    told = [(id_, at, event) for id_, at, measured, version in sessions for event in events(measured, version)]
    records = (
        EventRecord(seq, at, event, f"id-{seq}", Author("test", id_)) for seq, (id_, at, event) in enumerate(told, 1)
    )
    return fold_records(records, config)


def plain(value: float, component: str = "ac09") -> dict[str, dict[str, float]]:
    """Return an event that gives a component of plain measures a score."""
    return {component: dict.fromkeys(MEASURED[component], value)}


def example(config: Config) -> Scores:
    """Return the scores of the session of the document's example."""
    return fold_sessions(config, (EXAMPLE, AT, MEASURED, "2.0.0"))


def record_events(project: Path, session: str | None, told: tuple[Event, ...], when: str | None = None) -> None:
    """Record events of a session that happened at some time."""
    by = {"rater": "test"} | ({} if session is None else {"session": session})
    record.write(Project(project), [Request(PlainEvents(told), by, when=when)])


def record_example(project: Path) -> None:
    """Record the session of the document's example."""
    record_events(project, EXAMPLE, events(MEASURED, "2.0.0"), AT)
