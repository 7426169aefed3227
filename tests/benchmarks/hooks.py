"""Row ``hook``: the time of a hook, which the agent waits for, against a process that does nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
import json
import os
from pathlib import Path
import shlex
import shutil
import subprocess
import sys
from time import perf_counter, sleep
from typing import Any, Final

from benchmarks import data
from benchmarks.processes import environment, find_installed
from benchmarks.table import BenchmarkOptions, BenchmarkRow, NotMeasuredError, alternate
from tallybook.ledger.storage import disk
from tallybook.projections.history.reflections import NO_RATER
from tallybook.projections.surfaces.hooks import handler
from tallybook.projections.surfaces.install.hook_entries import hook_command
from tallybook.projections.surfaces.reflection import worker
from tallybook.projections.surfaces.workspace.project import MARKS, Project
from tallybook.projections.surfaces.writing import commands

PAIRS: Final = 25
SHORT, LONG = 10, 100_000
WAIT_S: Final = 0.5
MILLISECONDS: Final = 1_000
BARE: Final = shlex.join([sys.executable, "-c", "pass"])

TOLD: Final = "injection"
CITED: Final = "a citation"
PAYLOADS: Final[dict[str, dict[str, Any]]] = {
    TOLD: {"hook_event_name": "SessionStart", "source": "startup"},
    CITED: {"hook_event_name": "Stop", "last_assistant_message": "as [kpt_007] says"},
    "a reflection requested": {"hook_event_name": "SessionEnd"},
    "nothing to do": {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}},
}
"""Hook → what an agent sends it; the session is another each time, and its transcript the project's."""

OLD_HOOK = """
import json, os, sys
path, what = sys.argv[1:]
payload = json.load(sys.stdin)
with open(path, encoding="utf-8") as file:
    playbook = json.load(file)
if what == "injection":
    lines = ["[{name}] helpful={helpful} harmful={harmful} :: {text}".format(**one) for one in playbook["key_points"]]
    print(json.dumps({"hookSpecificOutput": {"additionalContext": "\\n".join(lines)[:8000]}}))
playbook["key_points"][6]["helpful"] += 1
with open(path + ".tmp", "w", encoding="utf-8") as file:
    json.dump(playbook, file, indent=2)
    file.flush()
    os.fsync(file.fileno())
os.replace(path + ".tmp", path)
"""
"""A hook as playbook tools have it: load all of ``playbook.json``, count, and write all of it."""

_numbers = count()


def _lines() -> dict[str, str]:
    """Return the command lines of a hook: the one of ``init``, and the installed command."""
    return {
        "the line that init writes": hook_command(),
        "the tallybook command": shlex.join([str(find_installed()), "hook"]),
    }


def _process(line: str, project: Project, given: Callable[[], bytes]) -> Callable[[], float]:
    """Return a function that runs a command line by a shell, like an agent, and returns its seconds."""
    # The agent's own folder is the project's here: nothing of whoever measures is read.
    here = dict(environment()) | {"CLAUDE_PROJECT_DIR": str(project.root), "CLAUDE_CONFIG_DIR": str(project.claude)}

    def run() -> float:
        stdin = given()
        begin = perf_counter()
        done = subprocess.run(["sh", "-c", line], input=stdin, capture_output=True, env=here, check=True)
        taken = perf_counter() - begin
        if done.stderr:
            raise NotMeasuredError(f"{line}: {done.stderr.decode()}")
        return taken

    run()
    return run


def _project(folder: Path, kind: str, events: int) -> Project:
    """Return a project with a ledger of so many events, and no pending work."""
    project = Project(folder)
    data.build(project.ledger, kind, events)
    commands.replay(project)
    transcript = _transcript(project)
    transcript.parent.mkdir(parents=True, exist_ok=True)
    transcript.write_text("{}\n", encoding="utf-8")
    worker.work(project, worker.Plan())
    return project


def _transcript(project: Project) -> Path:
    return project.claude / "projects" / "p" / "transcript.jsonl"


def _wait_for_worker(project: Project) -> None:
    """Wait until the worker of the last hook has ended, which the agent does not wait for."""
    # It may not have taken its lock yet.
    sleep(WAIT_S)
    fd = disk.open_file(project.ledger / worker.LOCK, write=True, create=True)
    while not disk.try_lock(fd):
        sleep(WAIT_S)
    os.close(fd)
    # Sessions of the measurement never end: without this, each start would look for those that were killed.
    (project.ledger / MARKS / handler.SETTLED).write_text(NO_RATER, encoding="utf-8")


def _payload(project: Project, what: str) -> Callable[[], bytes]:
    """Return a function that returns the next payload, once no worker is running."""

    def given() -> bytes:
        _wait_for_worker(project)
        common = {"session_id": f"s{next(_numbers)}", "transcript_path": str(_transcript(project))}
        return json.dumps(common | PAYLOADS[what]).encode()

    return given


def _row(setting: BenchmarkOptions, project: Project, what: str, how: str, rival: tuple[str, str]) -> BenchmarkRow:
    """Measure a hook against a rival, given as its name and its command line."""
    ours = _process(_lines()[how], project, _payload(project, what))
    theirs = _process(rival[1], project, lambda: b"{}")
    taken = alternate(ours, theirs, setting.pairs(PAIRS))
    # A few events more each time; the row is the same.
    entries, seq = len(commands.show(project)["key_points"]), commands.playbook(project).state.seq
    events = f"about {round(seq, -3):,}" if seq > 1_000 else "under 1,000"
    told = f"{what}, {how}, about {round(entries, -2):,} entries and {events} events"
    return BenchmarkRow("hook", told, rival[0], taken, "ms", MILLISECONDS)


def rows(setting: BenchmarkOptions) -> Iterator[BenchmarkRow]:
    """Measure each hook on a short ledger and on a long one, then two of them against the old way."""
    if not shutil.which("sh"):
        raise NotMeasuredError("hook: this system has no shell")
    for events in (SHORT, LONG):
        project = _project(setting.folder / f"hook-{events}", "alike", events)
        for what in PAYLOADS:
            for how in _lines():
                yield _row(setting, project, what, how, ("python -c pass", BARE))
    how = next(iter(_lines()))
    for kind in ("alike", "wide"):
        project = _project(setting.folder / f"hook-{kind}", kind, SHORT)
        old = project.root / "old.json"
        points = [
            {"name": f"kpt_{n:03d}", "text": data.text_of(n), "helpful": 0, "harmful": 0}
            for n in range(1, data.WIDE + 1)
        ]
        old.write_text(json.dumps({"key_points": points}, indent=2), encoding="utf-8")
        for what in (TOLD, CITED):
            line = shlex.join([sys.executable, "-c", OLD_HOOK, str(old), what])
            yield _row(setting, project, what, how, (f"loading, changing and rewriting {data.WIDE:,} entries", line))
