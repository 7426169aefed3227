"""Histories with scores for tests: the session of the document's examples, and sessions of given scores day by day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallybook.ledger.events import MetricsRecorded, Numbers, SessionEnded
from tallybook.ledger.records import Author, EventRecord, make_batch
from tallybook.projections.fold import fold
from tallybook.projections.scores.config import overlay, read_config
from tallybook.projections.scores.view import scores_view
from tallybook.projections.surfaces.scores.configuration import default
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tallybook.ledger.events import Event
    from tallybook.projections.scores.config import Config
    from tallybook.projections.scores.view import Scores

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


def folded(config: Config, *sessions: tuple[str, str, Mapping[str, Mapping[str, float]], str]) -> Scores:
    """Return the scores of sessions, each ``(id, time, measurements, version)``."""
    batches, seq = [], 0
    for id_, at, measured, version in sessions:
        told = events(measured, version)
        records = [
            EventRecord(seq + n, at, event, f"id-{seq + n}", Author("test", id_)) for n, event in enumerate(told, 1)
        ]
        seq += len(told)
        batches.append(make_batch(*records))
    return fold(scores_view(config), batches).count()


def handoffs(config: Config, scores: Mapping[str, int]) -> Scores:
    """Return the scores of a session a day, of which one component and so all else has the score of its day."""
    days = [(f"s-{day}", noon(day), plain(value), "") for day, value in scores.items()]
    return folded(config, *days)


def plain(value: float, component: str = "ac09") -> dict[str, dict[str, float]]:
    """Return an event that gives a component of plain measures a score."""
    return {component: dict.fromkeys(MEASURED[component], value)}


def example(config: Config) -> Scores:
    """Return the scores of the session of the document's example."""
    return folded(config, (EXAMPLE, AT, MEASURED, "2.0.0"))


def record_events(project: Path, session: str | None, told: tuple[Event, ...], when: str | None = None) -> None:
    """Record events of a session that happened at some time."""
    by = {"rater": "test"} | ({} if session is None else {"session": session})
    record.write(Project(project), [Request(PlainEvents(told), by, when=when)])


def record_example(project: Path) -> None:
    """Record the session of the document's example."""
    record_events(project, EXAMPLE, events(MEASURED, "2.0.0"), AT)
