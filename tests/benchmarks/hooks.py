"""Row ``hook``: what a hook costs the agent that waits for it: its whole process, beside one that does nothing."""

from __future__ import annotations

from itertools import count
import json
import os
from pathlib import Path
import subprocess
import sys
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

from benchmarks import data
from benchmarks.table import NoRivalError, Row, Setting, alternate, faster, medians
from projections.reflections import NO_RATER
from projections.surfaces import commands, hook_worker
from projections.surfaces.project import Project
from projections.surfaces.reflection import due, worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAIRS = 25
SHORT, LONG = 10, 100_000
WAIT_S, WAITS = 0.05, 200
MILLISECONDS = 1_000
BARE = [sys.executable, "-c", "pass"]


def _process(command: list[str], environment: dict[str, str], given: Callable[[], bytes]) -> Callable[[], float]:
    """Return what runs a command and says how many seconds it took, from before its start to behind its end."""

    def run() -> float:
        stdin = given()
        begin = perf_counter()
        done = subprocess.run(command, input=stdin, capture_output=True, env=environment, check=True)
        taken = perf_counter() - begin
        if done.stderr:
            raise NoRivalError(f"{command}: {done.stderr.decode()}")
        return taken

    return run


def _project(folder: Path, events: int) -> Project:
    """Return a project with 200 entries and a ledger of so many events, in which nothing is owed."""
    project = Project(folder)
    data.build(project.ledger, "alike", events)
    commands.replay(project)
    worker.work(project, due.Plan())
    return project


def _wait_for_worker(project: Project) -> None:
    """Wait until the process that the last hook left behind has ended: it is no part of what the agent waits for."""
    for _ in range(WAITS):
        if hook_worker.is_settled(project, NO_RATER):
            break
        sleep(WAIT_S)
    # It looks once more behind that.
    sleep(10 * WAIT_S)


def _payloads(project: Project) -> dict[str, dict[str, Any]]:
    """Return for each hook what an agent sends it; the session is another each time."""
    transcript = project.root / ".claude" / "projects" / "p" / "transcript.jsonl"
    transcript.parent.mkdir(parents=True, exist_ok=True)
    transcript.write_text("{}\n", encoding="utf-8")
    return {
        "injection of 200 entries": {"hook_event_name": "SessionStart", "source": "startup"},
        "a citation": {"hook_event_name": "Stop", "last_assistant_message": "as [kpt_007] says"},
        "work owed": {"hook_event_name": "SessionEnd", "transcript_path": str(transcript)},
        "nothing to do": {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}},
    }


def rows(setting: Setting) -> Iterator[Row]:
    """Measure each hook on a short ledger and on a long one."""
    installed = Path(sys.executable).with_name("tallybook")
    if not installed.exists():
        raise NoRivalError("hook: the command is not installed beside this Python")
    numbers = count()
    for events in (SHORT, LONG):
        project = _project(setting.folder / f"hook-{events}", events)
        # An agent has no reason to keep Python from remembering what it compiled.
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        # The agent's own folder is the project's here: nothing of whoever measures is read.
        environment = kept | {"CLAUDE_PROJECT_DIR": str(project.root), "CLAUDE_CONFIG_DIR": str(project.claude)}
        for what, payload in _payloads(project).items():

            def given(payload: dict[str, Any] = payload, project: Project = project) -> bytes:
                _wait_for_worker(project)
                return json.dumps({"session_id": f"s{next(numbers)}", **payload}).encode()

            ours = _process([str(installed), "hook"], environment, given)
            theirs = _process(BARE, environment, lambda: b"")
            ours()
            theirs()
            taken = alternate(ours, theirs, setting.pairs(PAIRS))
            against = "python -c pass"
            what = f"{what}, whole process, ledger of {events:,} events"  # noqa: PLW2901 - told as the row has it
            yield Row("hook", what, against, faster(taken), *medians(taken, MILLISECONDS), "ms")
