"""``tallybook reflect`` as a person types it, and as a process that a hook leaves behind, also after a kill."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
import json
import os
from pathlib import Path
import re
import shutil
import signal
import subprocess
import sys
from time import sleep, time
from typing import Any

import pytest

from helpers.agent_sessions import CODEX, COMPACTED, COPILOT, GEMINI, LAST, SESSIONS, RecordedSession
from helpers.commands import ROOT
from helpers.events import HUMAN, give
from helpers.hook_calls import call, events, here
from helpers.transcripts import (
    COMMAND,
    RECORDED,
    Script,
    ScriptedClient,
    answer,
    asked_for,
    choose,
    find_transcripts,
    run,
    say,
)
from tallybook import compat
from tallybook.ledger.codec import decode
from tallybook.ledger.events import (
    PlaybookInjected,
    PointCited,
    PointRated,
    ReflectionCompleted,
    ReflectionFailed,
    ReflectionRequested,
    TranscriptRead,
)
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.cli.main import run as run_here
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.hooks import handler
from tallybook.projections.surfaces.reflection import worker
from tallybook.projections.surfaces.reflection.raters import RaterError
from tallybook.projections.surfaces.workspace.project import MARKS, Project
from tallybook.projections.surfaces.workspace.settings import Settings
from tallybook.projections.surfaces.writing import commands, record

TEXT = answer("Run the tests first.", kpt_001="helpful")


@pytest.fixture
def script(project: Path) -> Script:
    """Return the transcript of a session that cited an entry."""
    return Script(find_transcripts(project) / "s1.jsonl").user("Fix it").agent("Done as [kpt_001] says.")


@pytest.fixture
def awaiting(project: Path, script: Script) -> Project:
    """Return a project in which that session is to be reflected on."""
    return asked_for(project, script)


def wait_until(has_happened: Callable[[], bool]) -> None:
    """Wait for what a process does that a hook left behind."""
    for _ in range(1200):
        if has_happened():
            return
        sleep(0.05)
    raise AssertionError("a worker did not do it")


def settle(project: Project, done: type[Any] = TranscriptRead, count: int = 1) -> None:
    """Wait until the process that a hook left behind has recorded so many events of a kind."""
    wait_until(lambda: len(events(project, done)) >= count)


def hook(event: str, script: Script, **fields: Any) -> str:
    """Call the hook as an agent does, and return what it prints."""
    common = {"hook_event_name": event, "session_id": script.session, "transcript_path": str(script.path)}
    return call({**common, "cwd": str(script.path.parent), **fields})


def test_a_dry_run_sends_and_records_nothing(
    awaiting: Project, client: ScriptedClient, capsys: pytest.CaptureFixture[str]
) -> None:
    """It shows what would be sent, and an estimate of the cost."""
    before = awaiting.ledger.joinpath("events.jsonl").read_bytes()
    assert 0 == run_here(["reflect", "--rater", "claude", "--dry-run"])
    out = capsys.readouterr().out
    assert "User: Fix it\nAgent: Done as [kpt_001] says." in out
    assert "1 session in 1 piece, about " in out
    assert 0 == run_here(["reflect", "--rater", "claude", "--dry-run", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["tokens"] == told["pieces"][0]["tokens"] > 4_000
    assert ([], before) == (client.asked, awaiting.ledger.joinpath("events.jsonl").read_bytes())


@pytest.mark.usefixtures("diagnostic_mode")
def test_the_function_of_the_specification_asks_the_chosen_rater(
    awaiting: Project, client: ScriptedClient, script: Script, diagnostics: Any
) -> None:
    """Load, reflect, update and save work in a row, with the rater that the settings choose."""
    messages = compat.load_transcript(script.path)
    playbook = compat.load_playbook()
    assert {"new_key_points": [], "evaluations": []} == asyncio.run(compat.extract_keypoints(messages, playbook))
    choose(rater="claude")
    client.plans("no", TEXT)
    with pytest.raises(RaterError, match="the answer holds no whole JSON object"):
        asyncio.run(compat.extract_keypoints(messages, playbook))
    result = asyncio.run(compat.extract_keypoints(messages, playbook, "mine"))
    compat.save_playbook(compat.update_playbook_data(playbook, result))
    assert [1, 0] == [point["helpful"] for point in commands.show(awaiting)["key_points"]]
    assert TEXT in diagnostics("mine")[0]


def test_a_hook_within_a_reflection_does_nothing(
    awaiting: Project, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that is asked through the agent's client is not a session of the user."""
    before = events(awaiting, object)
    monkeypatch.setenv("TALLYBOOK_REFLECTING", "1")
    assert "" == hook("SessionStart", script, source="startup")
    assert "" == hook("SessionEnd", script)
    assert before == events(awaiting, object)


def test_a_worker_outlives_its_killed_session_end(awaiting: Project, client: ScriptedClient, script: Script) -> None:
    """The agent kills the process group of its hooks after a second; the worker is not in it."""
    choose(rater="claude")
    client.plans(say(TEXT) | {"sleep_s": 1.5})
    script.agent("Bye")
    payload = {"hook_event_name": "SessionEnd", "session_id": "s1", "transcript_path": str(script.path)}
    with subprocess.Popen(
        [*COMMAND, "hook"], stdin=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}, process_group=0
    ) as agent:
        assert agent.stdin is not None
        agent.stdin.write(json.dumps(payload).encode())
        agent.stdin.close()
        sleep(1)
        try:
            os.killpg(agent.pid, signal.SIGKILL)
        except ProcessLookupError:
            assert 0 == agent.wait()
    settle(awaiting)
    assert 1 == len(events(awaiting, PointRated))


def test_a_span_is_rated_once_however_it_is_delivered(
    awaiting: Project, client: ScriptedClient, script: Script
) -> None:
    """PreCompact, SessionEnd, a doubled installation and a resume in a copied transcript rate it once."""
    choose(rater="claude")
    client.plans(TEXT)
    for event in ("PreCompact", "PreCompact", "SessionEnd", "SessionEnd"):
        hook(event, script)
    settle(awaiting)
    resumed = Script(find_transcripts(awaiting.root) / "s2.jsonl", "s2")
    resumed.path.write_bytes(script.path.read_bytes())
    client.plans(answer())
    resumed.user("Go on from there")
    hook("SessionEnd", resumed)
    settle(awaiting, TranscriptRead, 2)
    assert 1 == len(events(awaiting, PointRated))
    assert [1, 1] == ["Fix it" in client.asked[0]["prompt"], "Fix it" not in client.asked[-1]["prompt"]]


def test_a_failure_of_the_background_worker_is_noted(awaiting: Project) -> None:
    """The output of such a process is not read, so doctor reports the failure."""
    prompts = Path.home() / ".claude" / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "reflection.txt").write_text("forgot it", encoding="utf-8")
    choose(rater="claude")
    assert 0 == run(["reflect", "--unattended"]).returncode
    assert "reflection.txt: has no {transcript}" in (awaiting.ledger / "hook-error").read_text(encoding="utf-8")


@pytest.fixture
def begun(project: Path) -> Project:
    """Return a project with an entry."""
    made = Project(project)
    commands.add(made, "Use type hints", {"rater": "human"})
    return made


def session(project: Project, name: str) -> Script:
    """Return a session that was begun and prompted in a project."""
    script = Script(find_transcripts(project.root) / f"{name}.jsonl", name)
    hook("SessionStart", script, source="startup")
    return script.user("Fix it").agent("Done as [kpt_001] says.")


def kill(*paths: Path) -> None:
    """Leave transcripts as those of a session whose client was killed an hour ago."""
    for path in paths:
        os.utime(path, (time() - 3600, time() - 3600))


def list_requested(project: Project) -> dict[str | None, ReflectionRequested]:
    """Return what is to be reflected on, by session."""
    rows = [record for batch in decode(open_log(project).read()) for record in batch.records]
    return {row.by.session: row.event for row in rows if isinstance(row.event, ReflectionRequested)}


def test_late_lines_of_a_session_without_a_playbook_are_found(project: Path) -> None:
    """What an agent writes after its end is found also where the session was given nothing."""
    place = Project(project)
    script = Script(find_transcripts(project) / "s1.jsonl", "s1").user("Fix it").agent("Done.")
    size = script.path.stat().st_size
    record.write(place, [worker.reflection_request("s1", size, "SessionEnd", str(script.path), "tallybook")])
    kill(script.path)
    assert {} == worker.find_longer(place, worker.load_reflections(place))
    kill(script.agent("And late.").path)
    assert {"s1"} == worker.find_longer(place, worker.load_reflections(place)).keys()


@pytest.mark.parametrize("event", ["SessionStart", "SessionEnd"])
def test_a_killed_session_becomes_pending_by_a_later_hook(begun: Project, event: str) -> None:
    """Also where a worker had found nothing to do shortly before; it is read, and asked for once."""
    first = session(begun, "s0")
    hook("SessionEnd", first, reason="logout")
    wait_until(lambda: "s0" in list_requested(begun) and (begun.ledger / MARKS / handler.SETTLED).exists())
    killed = session(begun, "s1")
    kill(killed.path)
    later = session(begun, "s2")
    if event == "SessionEnd":
        hook(event, later, reason="logout")
    wait_until(lambda: "s1" in list_requested(begun))
    asked = list_requested(begun)["s1"]
    assert (killed.path.stat().st_size, str(killed.path)) == (asked.end, asked.transcript)
    wait_until(lambda: asked.end in [read.seen for read in events(begun, TranscriptRead)][1:])


def test_a_session_that_goes_on_is_left_alone(begun: Project) -> None:
    """As are one that has no transcript yet, one that the ledger does not know, and one that is long over."""
    session(begun, "live")
    hook("SessionStart", Script(find_transcripts(begun.root) / "new.jsonl", "new"), source="startup")
    kill(Script(find_transcripts(begun.root) / "unknown.jsonl", "unknown").user("Hello").path)
    assert 0 == run_here(["reflect"])
    assert {} == list_requested(begun)
    assert not (begun.ledger / MARKS / handler.SETTLED).exists()


SESSION = "77b0c1d2"
PEAK = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


@pytest.fixture
def chosen(project: Path) -> Project:
    """Return a project with one entry and the user's choice of a rater."""
    place = Project(project)
    commands.add(place, "Quote ids as strings.", {"rater": "human"})
    choose(rater="claude", tokens_per_day=10**8)
    return place


@pytest.fixture
def transcripts() -> Path:
    """Return a copy of the recorded session's folder, where the agent keeps it."""
    return Path(shutil.copytree(RECORDED, Path.home() / ".claude" / "projects" / "-home-me-shop"))


@pytest.fixture
def agent(transcripts: Path) -> Callable[..., str]:
    """Return what calls the hook as the agent does in the recorded session."""
    return partial(hook, script=Script(transcripts / f"{SESSION}.jsonl", SESSION), permission_mode="default")


def settle_reflections(project: Project, count: int) -> None:
    """Wait until so many reflections were completed by the processes that hooks left behind, and these ended."""
    settle(project, ReflectionCompleted, count)
    # A worker that has recorded its result still renders the playbook.
    with disk.hold_open(project.ledger / worker.LOCK, write=True, create=True) as fd:
        wait_until(lambda: disk.try_lock(fd))


def test_a_session_from_its_start_to_its_resume(
    chosen: Project, agent: Any, transcripts: Path, client: ScriptedClient
) -> None:
    """Told once, again after the compaction; cited, reflected on in two stretches, and nothing of it twice."""
    client.plans(answer("Run `make test`, which sets PYTHONPATH.", kpt_001="helpful"), answer())
    assert "[kpt_001] helpful=0 harmful=0 :: Quote ids as strings." in agent("SessionStart", source="startup")
    assert "" == agent("UserPromptSubmit", prompt="The export writes order ids as numbers")
    tool = {"tool_name": "Edit", "tool_use_id": "t1", "tool_input": {"new_string": "str(order_id)  # [kpt_001]"}}
    assert "" == agent("PostToolUse", **tool, tool_response={"ok": True})
    assert "" == agent("SubagentStop", agent_id="a1b2c3", last_assistant_message="41 tests", stop_hook_active=False)
    assert "" == agent("PreCompact", trigger="auto")
    settle_reflections(chosen, 1)
    assert "helpful=1" in agent("SessionStart", source="compact")
    assert "" == agent("Stop", last_assistant_message="Done as [kpt_001] has it.", stop_hook_active=False)
    assert "" == agent("SessionEnd", reason="logout")
    assert "" == agent("SessionStart", source="resume")
    path = transcripts / f"{SESSION}.jsonl"
    whole = path.read_bytes()
    # The half-written line is written to its end, and the session goes on.
    path.write_bytes(whole + b'"}}\n')
    Script(path, SESSION).user("And now the import.")
    assert "" == agent("SessionEnd", reason="logout")
    settle_reflections(chosen, 2)
    assert [1, 2] == [len(events(chosen, PointRated)), len(events(chosen, PlaybookInjected))]
    assert {"Edit", "message"} == {cited.where for cited in events(chosen, PointCited)}
    own = [read for read in events(chosen, TranscriptRead) if not read.file]
    assert [0, own[0].end] == [read.begin for read in own]
    assert own[0].seen == len(whole) > own[0].end
    assert "User: And now the import." in client.asked[1]["prompt"]
    assert "The export writes" not in client.asked[1]["prompt"]


def test_what_is_sent_is_what_was_said(chosen: Project, agent: Any, client: ScriptedClient) -> None:
    """The whole conversation with its subagent, and neither the playbook as it was told nor anything of the program."""
    give(chosen, SESSION, "kpt_001")
    client.plans(answer())
    agent("SessionEnd", reason="other")
    settle_reflections(chosen, 1)
    assert read_transcript(client.asked[0]).splitlines() == [
        "Subagent: User: Find out how the tests are run here",
        "Subagent: Agent used Bash: make test",
        "Subagent: Tool answered: 41 passed",
        "Subagent: Agent: The suite has 41 tests, run with `make test`, which sets PYTHONPATH.",
        "User: The export writes order ids as numbers, and leading zeros are lost. Fix it.",
        "Agent: [kpt_001] says to quote ids as strings; I look at the exporter.",
        "Agent used Bash: grep -n order_id export.py",
        "  Find the ids",
        "Tool answered: 12:    row[0] = int(order_id)",
        "Agent used Edit: /home/me/shop/export.py",
        "  int(order_id)",
        "  str(order_id)",
        "Tool answered: The file was updated.",
        "Agent used Bash: pytest -q",
        "Tool failed: Exit code 1",
        "  E   ModuleNotFoundError: No module named 'shop'",
        "Agent used Task: Run the tests",
        "  Find out how the tests are run here",
        "  general-purpose",
        "Tool answered: They are run with `make test`; 41 pass.",
        "Subagent: Agent: An older way of telling a subagent",
        "Agent: Ids are strings now, as [kpt_001] has it, and `make test` passes.",
    ]
    assert 2 == len(events(chosen, PointCited))


def test_a_transcript_of_50_mb_is_worked_off_in_little_memory(chosen: Project, client: ScriptedClient) -> None:
    """Piece by piece, each as much as is asked at a time: all of it, and none of it kept."""
    script = Script(Path.home() / ".claude" / "projects" / "-home-me-shop" / "big.jsonl", "big")
    answers = "".join(f"{number:06d} passed\n" for number in range(15_000))
    for number in range(240):
        script.user(f"step {number}").tool("Bash", {"command": "make test"}, answers)
    assert script.path.stat().st_size > 50 * 1024 * 1024
    payload = {"hook_event_name": "SessionEnd", "session_id": "big", "transcript_path": str(script.path)}
    client.plans(answer(kpt_001="helpful"))
    done = run(["hook"], payload)
    assert (0, "") == (done.returncode, done.stdout)
    settle_reflections(chosen, 3)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", PEAK, *COMMAND, "reflect", "--rater", "none"]
    peak = subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()[-1]
    assert int(peak) < 150
    found = [read for read in events(chosen, TranscriptRead) if read.rater == "claude"]
    assert [0, *(read.end for read in found[:-1])] == [read.begin for read in found]
    assert script.path.stat().st_size == found[-1].seen
    told = "\n".join(asked["prompt"] for asked in client.asked)
    assert [f"User: step {number}" for number in range(240)] == re.findall("^User: step [0-9]+$", told, re.MULTILINE)
    assert len(events(chosen, ReflectionRequested)) == 1
    assert len(found) == len(client.asked)
    # A session has one vote, however many pieces it is judged in.
    assert 1 == json.loads((chosen.playbook).read_bytes())["key_points"][0]["helpful"]


# Reflection on sessions of Codex, Gemini and Copilot, from the hook to the ledger, and which sessions are read.


__all__ = ["here"]

EACH = pytest.mark.parametrize("recorded", SESSIONS.values(), ids=SESSIONS)
CLAUDE = worker.Plan(Settings(rater="claude", tokens_per_day=10**9))


@pytest.fixture
def place(project: Path, client: ScriptedClient) -> Project:
    """Return a project with two entries, and a rater that finds one helpful."""
    made = Project(project)
    for text in ("Use type hints", "Run the tests first"):
        commands.add(made, text, HUMAN)
    client.plans(answer(kpt_001="helpful"))
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


def call_with(payload: Mapping[str, Any], environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an agent call the hook, with variables of its environment."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert "" == call(payload)
    for name in environment:
        monkeypatch.delenv(name)


def read_transcript(asked: Mapping[str, str]) -> str:
    """Return the transcript in a prompt."""
    return asked["prompt"].partition("<transcript>\n")[2].partition("\n</transcript>")[0]


@EACH
def test_a_session_is_reflected_on_once(
    place: Project, recorded: RecordedSession, client: ScriptedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop cites and requests, the rater reads all of it but the program's texts, and nothing counts twice."""
    path = recorded.put(place.root)
    give(place, recorded.session, "kpt_001", "kpt_002")
    for _ in range(2):
        call_with(*stop(recorded, path), monkeypatch)
        assert worker.DONE == worker.work(place, CLAUDE)
    assert recorded.cited == len(events(place, PointCited)) - (recorded is COMPACTED)
    assert (1, 1) == (len(events(place, ReflectionCompleted)), len(events(place, PointRated)))
    (asked,) = client.asked
    assert "\n".join(turn for turns in recorded.turns.values() for turn in turns) == read_transcript(asked)
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
    place: Project, recorded: RecordedSession, client: ScriptedClient
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
        map(read_transcript, client.asked)
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
    call_with(own, environment, monkeypatch)
    call_with({**own, **tool}, environment, monkeypatch)
    rows = [row for batch in decode(open_log(here).read()) for row in batch.records]
    cited = [(row.by.session, row.by.agent) for row in rows if isinstance(row.event, PointCited)]
    assert ([(COPILOT.session, "a1")], []) == (cited, events(here, ReflectionRequested))


@EACH
def test_a_killed_session_is_found(place: Project, recorded: RecordedSession) -> None:
    """By its id, in the folder of its agent, once nothing was written to it for a while."""
    path = recorded.put(place.root)
    give(place, recorded.session, "kpt_001", "kpt_002")
    assert 0 == run_here(["reflect"])
    assert {} == list_requested(place)
    kill(path, *map(Path, Path(table.transcripts_folder(recorded.agent)).rglob("*.jsonl")))
    assert 0 == run_here(["reflect"])
    assert {recorded.session: str(path)} == {name: asked.transcript for name, asked in list_requested(place).items()}
    assert recorded.cited == len(events(place, PointCited))


@EACH
def test_a_killed_session_of_another_project_is_not_read(
    place: Project, recorded: RecordedSession, client: ScriptedClient
) -> None:
    """A ledger that came with a clone may hold the ids of any sessions."""
    recorded.put(place.root.parent / "another shop")
    kill(*Path(table.transcripts_folder(recorded.agent)).rglob("*.jsonl"))
    give(place, recorded.session, "kpt_001", "kpt_002")
    assert worker.DONE == worker.work(place, CLAUDE)
    assert ({}, []) == (list_requested(place), client.asked)


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
def test_a_ledger_names_no_other_file_of_an_agent(
    place: Project, agent: str, name: str, client: ScriptedClient
) -> None:
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
    place: Project, recorded: RecordedSession, folders: tuple[str, ...], client: ScriptedClient
) -> None:
    """Of every depth of the agent's folders, subagents with their session, and only once."""
    recorded.put(place.root)
    home = Path(table.transcripts_folder(recorded.agent)).parent
    for folder in folders:
        assert 0 == run_here(["reflect", "--rater", "claude", "--from", str(home / folder), "--yes"])
    assert {recorded.session} == set(list_requested(place))
    assert (1, 1) == (len(client.asked), len(events(place, ReflectionCompleted)))
