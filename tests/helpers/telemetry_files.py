"""Files of telemetry, and the events recorded from them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tallybook.projections.surfaces import commands

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tallybook.projections.surfaces.workspace.project import Project


AT = "2026-01-16T08:00:00.000Z"


def event(component: str, event_type: str, **fields: Any) -> dict[str, Any]:
    """Return an event of telemetry."""
    return {"timestamp": AT, "component": component, "event_type": event_type, "session_id": "s1", **fields}


TELEMETRY = [
    event("AC-01", "component_end", data={"duration_ms": 5000}),
    event("AC-02", "task_start", data={}),
    event("AC-02", "coffee_made", data={}),
    event("AC-09", "session_end", metadata={"version": "2"}),
]


def written(path: Path, objects: Sequence[object]) -> Path:
    """Return a file of JSON Lines."""
    path.write_text("".join(f"{json.dumps(object_)}\n" for object_ in objects), encoding="utf-8")
    return path


def rows(project: Project) -> list[dict[str, Any]]:
    """Return the recorded events, without the one that opens the ledger."""
    return list(commands.list_events(project))[1:] if project.ledger.exists() else []


def bodies(project: Project) -> list[str]:
    """Return author, content and moment of the events, in an order of its own."""
    return sorted(json.dumps([row["by"], row["kind"], row["body"], row.get("when")]) for row in rows(project))
