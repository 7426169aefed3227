"""The events of a project as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tallybook.ledger.sharing.numbers import plain
from tallybook.projections.history.event_rows import EventFilter, row
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project


def list_events(project: Project, name: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the events of a project, newest last; with a name, those that concern the entry."""
    return (plain(row(record)) for record in commands.select_records(project, EventFilter(name)))
