"""Sessions whose clients were killed: no hook reports their end, and a later one of the project finds them."""

from __future__ import annotations

import os
from time import sleep, time
from typing import TYPE_CHECKING, Any

import pytest

from helpers.hook_calls import call
from helpers.transcripts import Script, kept
from tallybook.ledger.codec import decode
from tallybook.ledger.events import ReflectionRequested, TranscriptRead
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli.main import run as run_here
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.hooks import handler
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path


HOUR_S = 3600


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with an entry."""
    made = Project(project)
    commands.add(made, "Use type hints", {"rater": "human"})
    return made


def hook(event: str, script: Script, **fields: Any) -> None:
    """Call the hook for a session as the agent does."""
    common = {"hook_event_name": event, "session_id": script.session, "transcript_path": str(script.path)}
    call(common | fields)


def session(project: Project, name: str) -> Script:
    """Return a session that was begun and prompted in a project."""
    script = Script(kept(project.root) / f"{name}.jsonl", name)
    hook("SessionStart", script, source="startup")
    return script.user("Fix it").agent("Done as [kpt_001] says.")


def kill(script: Script) -> None:
    """Leave a session as one whose client was killed an hour ago."""
    os.utime(script.path, (time() - HOUR_S, time() - HOUR_S))


def requested(project: Project) -> dict[str | None, ReflectionRequested]:
    """Return what is to be reflected on, by session."""
    rows = [record for batch in decode(open_log(project).read()) for record in batch.records]
    return {row.by.session: row.event for row in rows if isinstance(row.event, ReflectionRequested)}


def wait(project: Project, name: str) -> ReflectionRequested:
    """Return what a process that a hook left behind asks for, once it has."""
    for _ in range(400):
        if name in requested(project):
            return requested(project)[name]
        sleep(0.05)
    raise AssertionError(f"nobody asked for {name}")


@pytest.mark.parametrize("event", ["SessionStart", "SessionEnd"])
def test_a_killed_session_becomes_pending_by_a_later_hook(here: Project, event: str) -> None:
    """Also where a worker had found nothing to do shortly before; it is read, and asked for once."""
    first = session(here, "s0")
    hook("SessionEnd", first, reason="logout")
    wait(here, "s0")
    for _ in range(400):
        if handler.is_settled(here, "none"):
            break
        sleep(0.05)
    assert handler.is_settled(here, "none")
    killed = session(here, "s1")
    kill(killed)
    later = session(here, "s2")
    if event == "SessionEnd":
        hook(event, later, reason="logout")
    asked = wait(here, "s1")
    assert (killed.path.stat().st_size, str(killed.path)) == (asked.end, asked.transcript)
    for _ in range(400):
        batches = decode(open_log(here).read())
        read = [event.seen for batch in batches for event in batch.events if isinstance(event, TranscriptRead)]
        if asked.end in read[1:]:
            return
        sleep(0.05)
    raise AssertionError("nobody read it")


def test_a_session_that_goes_on_is_left_alone(here: Project) -> None:
    """As are one that has no transcript yet, one that the ledger does not know, and one that is long over."""
    session(here, "live")
    hook("SessionStart", Script(kept(here.root) / "new.jsonl", "new"), source="startup")
    kill(Script(kept(here.root) / "unknown.jsonl", "unknown").user("Hello"))
    assert 0 == run_here(["reflect"])
    assert {} == requested(here)
    assert not handler.is_settled(here, "none")


def test_a_killed_session_that_goes_on_is_pending_again(here: Project) -> None:
    """What came since is read, and no more."""
    script = session(here, "s1")
    kill(script)
    assert 0 == run_here(["reflect"])
    before = requested(here)["s1"].end
    script.user("And this")
    kill(script)
    assert 0 == run_here(["reflect"])
    assert before < requested(here)["s1"].end == script.path.stat().st_size
