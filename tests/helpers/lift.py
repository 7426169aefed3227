"""A project in which lift can be asked about, and its sessions as their hooks and measurements record them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.events import HUMAN
from helpers.hook_calls import START, events
from tallybook.ledger.events import Event, MetricsRecorded, Numbers, PlaybookInjected, SessionEnded, SessionMeasured
from tallybook.projections.scores.lift import Lift
from tallybook.projections.surfaces.hooks import handler, injection
from tallybook.projections.surfaces.workspace.project import Project, find_paths
from tallybook.projections.surfaces.writing import commands, record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

TEXTS = ("Use type hints", "Run the linter", "Ask before a push", "Name things well", "Read the logs", "Keep it small")
PROMPT = {"hook_event_name": "UserPromptSubmit", "prompt": "go on"}


def hold(number: float, folder: Path | None = None) -> None:
    """Set the user's own share of sessions that are drawn, or that of a project."""
    path = (folder or Path.home()) / ".claude" / "config" / "tallybook.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[lift]\nhold = {number}\n")


def six_entries(folder: Path) -> Project:
    """Return a project with six entries, whose user draws half of the sessions."""
    project = Project(folder)
    for text in TEXTS:
        commands.add(project, text, HUMAN)
    hold(0.5)
    return project


def hook(project: Project, session: str, payload: Any = START) -> str:
    """Let a hook inject the playbook in this process, without the work that it starts, and return the answer."""
    fields = {"session_id": session, "cwd": str(project.root), **payload}
    return injection.inject_playbook(find_paths(str(project.root)), handler.read_payload(fields))


def injections(project: Project) -> list[PlaybookInjected]:
    """Return what was injected, in order."""
    return events(project, PlaybookInjected)


def end_events(percent: float | None) -> tuple[Event, ...]:
    """Return the end of a session, with a measurement of a component where there is one."""
    if percent is None:
        return (SessionEnded(""),)
    return (SessionEnded(""), MetricsRecorded("ac02", Numbers({"completed": percent, "total": 100}), ""))


def end(project: Project, session: str, percent: float | None = 100) -> None:
    """Record that a session ended, with a measurement of a component where there is one."""
    request = Request(PlainEvents(end_events(percent)), {"rater": "import", "session": session})
    record.write(project, [request])


def make_measurement(failed: int, calls: int = 18, *, ended: bool = True) -> SessionMeasured:
    """Return what the worker records of a session with so many calls of tools."""
    return SessionMeasured(Numbers({"prompts": 2, "calls": calls, "failed": failed, "tests": 1, "ended": ended}))


def observe(project: Project, session: str, *seen: Event) -> None:
    """Record what the worker found in a session's transcript."""
    record.write(project, [Request(PlainEvents(seen), {"rater": "tallybook", "session": session})])


def load(project: Project) -> Lift:
    """Return the questions as they are."""
    from tallybook.projections.surfaces.scores.lift import load_state  # noqa: PLC0415 - slow to load

    return load_state(project)
