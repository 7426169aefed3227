"""Who writes, what is injected, and the events of a project."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
import json
from typing import Any

from tallybook.ledger.events import Numbers, PlaybookInjected
from tallybook.ledger.sharing.numbers import plain
from tallybook.projections.history.event_rows import EventFilter, row
from tallybook.projections.surfaces.history import moments
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

HUMAN = {"rater": "human"}


# The events of a project as rows.


def list_events(project: Project, name: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the events of a project, newest last; with a name, those that concern the entry."""
    return (plain(row(record)) for record in moments.select_records(project, EventFilter(name)))


# Injections as events, with what a hook records without an open question.


def make_injection(names: Sequence[str], left_out: int = 0) -> PlaybookInjected:
    """Return the injection of these entries, selected from themselves alone."""
    digest = sha256(json.dumps(list(names), ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()[:32]
    return PlaybookInjected(tuple(names), (), Numbers({"room": left_out}), None, digest, "", "", (), 0.0)


def make_continuation(parent: str) -> PlaybookInjected:
    """Return what a fork records, which is given nothing: it has what the session that it continues was given."""
    return make_injection(()).evolve(left_out=Numbers({}), lineage=parent)


def give(project: Project, session: str, *names: str) -> None:
    """Record once that a session was given these entries, as the hook of its start does."""
    by = {"rater": "tallybook", "session": session}
    record.write(project, [Request(PlainEvents((make_injection(names),)), by, f"injected:{session}")])
