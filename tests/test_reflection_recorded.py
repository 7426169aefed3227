"""A recorded session through the real command, as the agent drives it: from its start over a compaction to a resume."""

from __future__ import annotations

import json
import os
from pathlib import Path
import re
import shutil
import subprocess
import sys
from time import sleep
from typing import TYPE_CHECKING, Any

import pytest

from helpers.hook_calls import call
from helpers.injections import give
from helpers.repository import ROOT
from helpers.transcripts import COMMAND, RECORDED, Script, answer, run
from tallybook.ledger.codec import decode
from tallybook.ledger.events import (
    PlaybookInjected,
    PointCited,
    PointRated,
    ReflectionCompleted,
    ReflectionRequested,
    TranscriptRead,
)
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.reflection import worker
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from helpers.transcripts import Client

SESSION = "77b0c1d2"
MEGABYTE = 1024 * 1024
PEAK = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with one entry and the user's choice of a rater."""
    place = Project(project)
    commands.add(place, "Quote ids as strings.", {"rater": "human"})
    settings = Path.home() / ".claude" / "config" / "tallybook.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[reflection]\nrater = "claude"\ntokens_per_day = 100000000\n', encoding="utf-8")
    return place


@pytest.fixture
def transcripts() -> Path:
    """Return a copy of the recorded session's folder, where the agent keeps it."""
    return Path(shutil.copytree(RECORDED, Path.home() / ".claude" / "projects" / "-home-me-shop"))


@pytest.fixture
def agent(here: Project, transcripts: Path) -> Any:
    """Return what calls the hook as the agent does in the recorded session."""

    def call_agent(event: str, **fields: Any) -> str:
        payload = {
            "session_id": SESSION,
            "transcript_path": str(transcripts / f"{SESSION}.jsonl"),
            "cwd": str(here.root),
            "permission_mode": "default",
            "hook_event_name": event,
        }
        return call(payload | fields)

    return call_agent


def events(project: Project, *kinds: type[Any]) -> list[Any]:
    """Return the events of these kinds, in order."""
    return [event for batch in decode(open_log(project).read()) for event in batch.events if isinstance(event, kinds)]


def settle(project: Project, count: int) -> None:
    """Wait until so many reflections were completed by the processes that hooks left behind, and these ended."""
    fd = disk.open_file(project.ledger / worker.LOCK, write=True, create=True)
    try:
        for _ in range(1200):
            # A worker that has recorded its result still renders the playbook.
            if len(events(project, ReflectionCompleted)) >= count and disk.try_lock(fd):
                return
            sleep(0.05)
    finally:
        os.close(fd)
    raise AssertionError("nobody completed a reflection")


def test_a_session_from_its_start_to_its_resume(here: Project, agent: Any, transcripts: Path, client: Client) -> None:
    """Told once, again after the compaction; cited, reflected on in two stretches, and nothing of it twice."""
    client.plans(answer("Run `make test`, which sets PYTHONPATH.", kpt_001="helpful"), answer())
    assert "[kpt_001] helpful=0 harmful=0 :: Quote ids as strings." in agent("SessionStart", source="startup")
    assert "" == agent("UserPromptSubmit", prompt="The export writes order ids as numbers")
    tool = {"tool_name": "Edit", "tool_use_id": "t1", "tool_input": {"new_string": "str(order_id)  # [kpt_001]"}}
    assert "" == agent("PostToolUse", **tool, tool_response={"ok": True})
    assert "" == agent("SubagentStop", agent_id="a1b2c3", last_assistant_message="41 tests", stop_hook_active=False)
    assert "" == agent("PreCompact", trigger="auto")
    settle(here, 1)
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
    settle(here, 2)
    assert [1, 2] == [len(events(here, PointRated)), len(events(here, PlaybookInjected))]
    assert {"Edit", "message"} == {cited.where for cited in events(here, PointCited)}
    own = [read for read in events(here, TranscriptRead) if not read.file]
    assert [0, own[0].end] == [read.begin for read in own]
    assert own[0].seen == len(whole) > own[0].end
    assert "User: And now the import." in client.asked[1]["prompt"]
    assert "The export writes" not in client.asked[1]["prompt"]


def test_what_is_sent_is_what_was_said(agent: Any, here: Project, client: Client) -> None:
    """The whole conversation with its subagent, and neither the playbook as it was told nor anything of the program."""
    give(here, SESSION, "kpt_001")
    client.plans(answer())
    agent("SessionEnd", reason="other")
    settle(here, 1)
    sent = client.asked[0]["prompt"].partition("<transcript>\n")[2].partition("\n</transcript>")[0]
    assert sent.splitlines() == [
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
    assert 2 == len(events(here, PointCited))


@pytest.mark.skipif(sys.platform == "win32", reason="a process's memory is asked for as POSIX has it")
def test_a_transcript_of_50_mb_is_worked_off_in_little_memory(here: Project, client: Client) -> None:
    """Piece by piece, each as much as is asked at a time: all of it, and none of it kept."""
    script = Script(Path.home() / ".claude" / "projects" / "-home-me-shop" / "big.jsonl", "big")
    answers = "".join(f"{number:06d} passed\n" for number in range(15_000))
    for number in range(240):
        script.user(f"step {number}").tool("Bash", {"command": "make test"}, answers)
    assert script.path.stat().st_size > 50 * MEGABYTE
    payload = {"hook_event_name": "SessionEnd", "session_id": "big", "transcript_path": str(script.path)}
    client.plans(answer(kpt_001="helpful"))
    done = run(["hook"], payload)
    assert (0, "") == (done.returncode, done.stdout)
    settle(here, 3)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", PEAK, *COMMAND, "reflect", "--rater", "none"]
    peak = subprocess.run(words, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()[-1]
    assert int(peak) < 150
    found = [read for read in events(here, TranscriptRead) if read.rater == "claude"]
    assert [0, *(read.end for read in found[:-1])] == [read.begin for read in found]
    assert script.path.stat().st_size == found[-1].seen
    told = "\n".join(asked["prompt"] for asked in client.asked)
    assert [f"User: step {number}" for number in range(240)] == re.findall("^User: step [0-9]+$", told, re.MULTILINE)
    assert len(events(here, ReflectionRequested)) == 1
    assert len(found) == len(client.asked)
    # A session has one vote, however many pieces it is judged in.
    assert 1 == json.loads((here.playbook).read_bytes())["key_points"][0]["helpful"]
