"""Recorded payloads of agents: each with the variables that the hook got with it, and what must come of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from helpers.commands import ROOT
from helpers.events import give
from helpers.hook_calls import call_hook
from tallybook.ledger.codec import decode
from tallybook.ledger.events import KIND_OF
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.hooks import handler
from tallybook.projections.surfaces.workspace.project import Project

FOLDER = ROOT / "tests" / "data" / "agents"
HOME = "/home/me"
PROJECT = f"{HOME}/shop"
CITING = ("PostToolUse", "Stop", "SubagentStop")
"""What stands for the paths of the machine where a payload was recorded."""


def load_payloads(agent: str) -> list[dict[str, Any]]:
    """Return the rows of an agent: ``event``, ``environment``, ``payload`` and ``expected``."""
    rows: list[dict[str, Any]] = json.loads((FOLDER / f"{agent}.json").read_text(encoding="utf-8"))
    return rows


def fill_paths(text: str, project: Path) -> str:
    """Return a text with the paths of this machine in it."""
    return text.replace(PROJECT, str(project)).replace(HOME, str(Path.home()))


def place_transcripts(row: dict[str, Any], project: Path) -> None:
    """Write the transcript that a payload names, and the one that Copilot's leave to be found."""
    payload = json.loads(fill_paths(json.dumps(row["payload"]), project))
    session = payload.get("session_id") or payload.get("sessionId") or "s1"
    found = Path.home() / ".copilot" / "session-state" / session / "events.jsonl"
    named = payload.get("transcript_path") or payload.get("transcriptPath")
    for path in [found, *([Path(named)] if named else [])]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n", encoding="utf-8")


def observe(row: dict[str, Any], project: Project) -> dict[str, Any]:
    """Call the hook with a recorded payload, and return what came of it, as ``expected`` says it.

    Where it comes after a session's start, the session was given the playbook there.

    Returns:
        Who called, the event by its name in Claude Code, the shape of the answer (empty without one) and the kinds of
        the events that were recorded.
    """
    environment = {name: fill_paths(value, project.root) for name, value in row["environment"].items()}
    data = fill_paths(json.dumps(row["payload"]), project.root)
    payload = _read(json.loads(data), environment)
    if row["expected"]["recorded"] and payload.event in CITING:
        give(project, payload.session, "kpt_001", "kpt_002")
    before = len(kinds(project))
    done = call_hook(data.encode(), environment)
    assert (0, b"") == (done.returncode, done.stderr)
    recorded = kinds(project)[before:]
    return {"caller": payload.agent, "event": payload.event, "answer": shape_of(done.stdout), "recorded": recorded}


def _read(document: dict[str, Any], environment: dict[str, str]) -> Any:
    kept = dict(os.environ)
    os.environ.update(environment)
    try:
        return handler.read_payload(document)
    finally:
        os.environ.clear()
        os.environ.update(kept)


def shape_of(answer: bytes) -> str:
    """Return the shape of an answer: nested or flat, empty without one."""
    if not answer:
        return ""
    document = json.loads(answer)
    assert 1 == len(document)
    if "additionalContext" in document:
        return "flat"
    assert {"hookEventName", "additionalContext"} == document["hookSpecificOutput"].keys()
    return "nested"


def kinds(project: Project) -> list[str]:
    """Return the kind of each event of a ledger, in order."""
    return [KIND_OF[type(event)] for batch in decode(open_log(project).read()) for event in batch.events]
