"""Reflection on sessions of Codex, Gemini and Copilot, from the hook to the ledger, and which sessions are read."""

from __future__ import annotations

from collections.abc import Mapping
import json
import os
from pathlib import Path
from time import time
from typing import Any

import pytest

from helpers.agent_sessions import CODEX, COMPACTED, COPILOT, GEMINI, LAST, SESSIONS, RecordedSession
from helpers.events import HUMAN, give, injected
from helpers.hook_calls import call, events, here
from helpers.transcripts import Client, answer
from tallybook.ledger.codec import decode
from tallybook.ledger.events import (
    PointCited,
    PointRated,
    ReflectionCompleted,
    ReflectionFailed,
    ReflectionRequested,
    TranscriptRead,
)
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.cli.main import run as run_here
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.reflection import worker
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.workspace.settings import Settings
from tallybook.projections.surfaces.writing import commands, record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

__all__ = ["here"]

EACH = pytest.mark.parametrize("recorded", SESSIONS.values(), ids=SESSIONS)
CLAUDE = worker.Plan(Settings(rater="claude", tokens_per_day=10**9))
HELPFUL = answer(kpt_001="helpful")
HOUR_S = 3_600


@pytest.fixture
def place(project: Path, client: Client) -> Project:
    """Return a project with two entries, and a rater that finds one helpful."""
    made = Project(project)
    for text in ("Use type hints", "Run the tests first"):
        commands.add(made, text, HUMAN)
    client.plans(HELPFUL)
    return made


def stop(recorded: RecordedSession, path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the payload of the agent's stop, as it was seen, and the variables that it sets."""
    common = {"session_id": recorded.session, "transcript_path": str(path), "stop_hook_active": False}
    if recorded.agent == "codex":
        return {**common, "hook_event_name": "Stop", "turn_id": "t1", "last_assistant_message": LAST}, {}
    stamped = {**common, "timestamp": "2026-11-23T12:46:30.000Z"}
    if recorded.agent == "gemini":
        whole = f"I look first, as [kpt_001] says.\n{LAST}"
        payload = {**stamped, "hook_event_name": "AfterAgent", "prompt": "Now the second", "prompt_response": whole}
        return payload, {"GEMINI_SESSION_ID": recorded.session}
    return {**stamped, "hook_event_name": "Stop", "stop_reason": "end_turn"}, {"COPILOT_CLI": "1"}


def hook(payload: Mapping[str, Any], environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an agent call the hook."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert "" == call(payload)
    for name in environment:
        monkeypatch.delenv(name)


def inject(place: Project, session: str) -> None:
    """Record that a session was given the playbook, as a hook does, or as a ledger that came with a clone says."""
    by = {"rater": "tallybook", "session": session}
    record.write(place, [Request(PlainEvents((injected(("kpt_001", "kpt_002"), 0),)), by)])


def sent(asked: Mapping[str, str]) -> str:
    """Return the transcript in a prompt."""
    return asked["prompt"].partition("<transcript>\n")[2].partition("\n</transcript>")[0]


def kill(*paths: Path) -> None:
    """Leave transcripts as those of a session whose client was killed an hour ago."""
    for path in paths:
        os.utime(path, (time() - HOUR_S, time() - HOUR_S))


def requested(place: Project) -> dict[str | None, str | None]:
    """Return the transcripts that await reflection, by session."""
    rows = [row for batch in decode(open_log(place).read()) for row in batch.records]
    return {row.by.session: row.event.transcript for row in rows if isinstance(row.event, ReflectionRequested)}


@EACH
def test_a_session_is_reflected_on_once(
    place: Project, recorded: RecordedSession, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop cites and requests, the rater reads all of it but the program's texts, and nothing counts twice."""
    path = recorded.put(place.root)
    give(place, recorded.session, "kpt_001", "kpt_002")
    for _ in range(2):
        hook(*stop(recorded, path), monkeypatch)
        assert worker.DONE == worker.work(place, CLAUDE)
    assert recorded.cited == len(events(place, PointCited)) - (recorded is COMPACTED)
    assert (1, 1) == (len(events(place, ReflectionCompleted)), len(events(place, PointRated)))
    (asked,) = client.asked
    assert "\n".join(turn for turns in recorded.turns.values() for turn in turns) == sent(asked)
    assert "AKIAIOSFODNN7EXAMPLE" not in asked["prompt"]
    assert path.stat().st_size == events(place, TranscriptRead)[-1].seen


MORE = {
    CODEX: {
        "type": "response_item",
        "payload": {"type": "message", "id": "m1", "role": "user", "content": [{"type": "input_text", "text": "More"}]},
    },
    COPILOT: {"type": "user.message", "id": "m1", "data": {"content": "More"}},
}
"""Agents that copy a session when it is forked → one more line."""


@pytest.mark.parametrize("recorded", MORE, ids=["Codex", "Copilot"])
def test_a_fork_that_copies_its_session_is_read_from_where_it_differs(
    place: Project, recorded: RecordedSession, client: Client
) -> None:
    """The lines of the copy are known by their ids, in another file and under another session."""
    path = recorded.put(place.root)
    fork = Path(str(path).replace(recorded.session, "f0f0f0f0-0000-4000-8000-000000000000"))
    fork.parent.mkdir(exist_ok=True)
    fork.write_bytes(path.read_bytes() + json.dumps(MORE[recorded]).encode() + b"\n")
    for transcript, session in ((path, recorded.session), (fork, "f0")):
        request = worker.reflection_request(session, transcript.stat().st_size, "Stop", str(transcript), "tallybook")
        record.write(place, [request])
        assert worker.DONE == worker.work(place, CLAUDE)
    assert ["\n".join(turn for turns in recorded.turns.values() for turn in turns), "User: More"] == list(
        map(sent, client.asked)
    )


def test_a_subagent_of_codex_requests_no_reflection(here: Project) -> None:
    """Its events name its own transcript, which would take the place of its session's."""
    path = CODEX.put(here.root)
    payload = {"hook_event_name": "PreCompact", "turn_id": "t1", "transcript_path": str(path)}
    call({**payload, "agent_id": "a1"}, CODEX.session)
    assert [] == events(here, ReflectionRequested)
    call(payload, CODEX.session)
    assert 1 == len(events(here, ReflectionRequested))


def test_a_subagent_of_copilot_belongs_to_its_session(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives its own id for a session's, so its stop requests nothing, and what it cites is its session's."""
    payload, environment = stop(COPILOT, COPILOT.put(here.root))
    give(here, COPILOT.session, "kpt_002")
    own = {**payload, "session_id": "a1", "agent_id": "a1", "parent_agent_id": COPILOT.session}
    tool = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {"command": "echo [kpt_002]"}}
    hook(own, environment, monkeypatch)
    hook({**own, **tool}, environment, monkeypatch)
    rows = [row for batch in decode(open_log(here).read()) for row in batch.records]
    cited = [(row.by.session, row.by.agent) for row in rows if isinstance(row.event, PointCited)]
    assert ([(COPILOT.session, "a1")], []) == (cited, events(here, ReflectionRequested))


@EACH
def test_a_killed_session_is_found(place: Project, recorded: RecordedSession) -> None:
    """By its id, in the folder of its agent, once nothing was written to it for a while."""
    path = recorded.put(place.root)
    inject(place, recorded.session)
    assert 0 == run_here(["reflect"])
    assert {} == requested(place)
    kill(path, *map(Path, Path(table.transcripts_folder(recorded.agent)).rglob("*.jsonl")))
    assert 0 == run_here(["reflect"])
    assert {recorded.session: str(path)} == requested(place)
    assert recorded.cited == len(events(place, PointCited))


@EACH
def test_a_killed_session_of_another_project_is_not_read(
    place: Project, recorded: RecordedSession, client: Client
) -> None:
    """A ledger that came with a clone may hold the ids of any sessions."""
    recorded.put(place.root.parent / "another shop")
    kill(*Path(table.transcripts_folder(recorded.agent)).rglob("*.jsonl"))
    inject(place, recorded.session)
    assert worker.DONE == worker.work(place, CLAUDE)
    assert ({}, []) == (requested(place), client.asked)


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("codex", "2026/11/23/notes.jsonl"),
        ("codex", "../auth.json"),
        ("gemini", "shop/logs.json"),
        ("gemini", "shop/shell_history"),
        ("copilot", "s1/plan.md"),
        ("copilot", "../config.json"),
    ],
)
def test_a_ledger_names_no_other_file_of_an_agent(place: Project, agent: str, name: str, client: Client) -> None:
    """In an agent's folder only its transcripts are read, because a ledger may have come with a clone."""
    path = Path(table.transcripts_folder(agent)) / name
    path.parent.resolve().mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"type": "user", "message": {"content": "my secret"}}\n', encoding="utf-8")
    record.write(place, [worker.reflection_request("s1", 10, "SessionEnd", str(path), "tallybook")])
    assert worker.DONE == worker.work(place, CLAUDE)
    (failed,) = events(place, ReflectionFailed)
    assert ([], "outside") == (client.asked, failed.cause)
    assert "lies outside the agents' folders; `tallybook reflect --from`" in failed.reason


@pytest.mark.parametrize(
    ("recorded", "folders"),
    [
        (CODEX, ("sessions", "sessions/2026", "sessions/2026/11/23")),
        (GEMINI, ("tmp/shop", "tmp/shop/chats")),
        (COPILOT, ("session-state", f"session-state/{COPILOT.session}")),
    ],
    ids=["Codex", "Gemini", "Copilot"],
)
def test_old_transcripts_of_each_agent_are_taken_from_a_folder(
    place: Project, recorded: RecordedSession, folders: tuple[str, ...], client: Client
) -> None:
    """Of every depth of the agent's folders, subagents with their session, and only once."""
    recorded.put(place.root)
    home = Path(table.transcripts_folder(recorded.agent)).parent
    for folder in folders:
        assert 0 == run_here(["reflect", "--rater", "claude", "--from", str(home / folder), "--yes"])
    assert {recorded.session} == set(requested(place))
    assert (1, 1) == (len(client.asked), len(events(place, ReflectionCompleted)))
