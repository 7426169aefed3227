"""A hook whose caches are gone: it records its event and gives the session the playbook, however long the ledger is."""

from __future__ import annotations

from collections.abc import Mapping
import json
from pathlib import Path
import shutil
import subprocess
import sys
from typing import Any

import attrs
import pytest

from benchmarks import data
from faults.scenes import ROOT, here, three_entries
from helpers.events import HUMAN, list_events
from helpers.hook_calls import START, events, told
from helpers.ledger_files import caches_of
from tallybook.ledger.events import PlaybookInjected, PointCited
from tallybook.ledger.line import MAX_LINE_BYTES
from tallybook.projections.surfaces.hooks.handler import SETTLED
from tallybook.projections.surfaces.workspace.project import MARKS, Project
from tallybook.projections.surfaces.writing import commands

EVENTS = 20_000
# Of ours, what reads, decodes and verifies batches.
READING = ("tallybook.ledger.scan", "tallybook.ledger.scan", "json", "re")
CODE = """
import os, sys
read, pread = [0], os.pread
def count(fd, size, offset):
    data = pread(fd, size, offset)
    read[0] += len(data)
    return data
os.pread = count
from tallybook.projections.surfaces.hooks.handler import run
run([])
sys.stderr.write(f"{read[0]} {' '.join(sys.modules)}")
"""
STOP = {"hook_event_name": "Stop", "last_assistant_message": "[kpt_002]"}


@attrs.frozen
class HookRun:
    """What one call of the hook did.

    Attributes:
        answer: What the agent gets.
        read_bytes: How many bytes it read at offsets of files, most of them of the log.
        modules: The modules that it loaded.
    """

    answer: str
    read_bytes: int
    modules: list[str]


def call(payload: Mapping[str, Any], session: str) -> HookRun:
    """Call the hook in a process of its own."""
    given = json.dumps({"session_id": session, **payload}).encode()
    done = subprocess.run([sys.executable, "-S", "-c", CODE], input=given, capture_output=True, check=True)
    read_bytes, *modules = done.stderr.decode().split()
    return HookRun(done.stdout.decode(), int(read_bytes), modules)


@pytest.fixture
def long_project(project: Path) -> Project:
    """Return a project with a long ledger, whose ``playbook.json`` is current and whose caches are gone."""
    made = Project(project)
    data.build(made.ledger, "alike", EVENTS)
    commands.replay(made)
    shutil.rmtree(caches_of(made.ledger).parent, ignore_errors=True)
    return made


def test_a_hook_at_a_long_ledger_without_caches_gives_the_playbook(
    long_project: Project, installed_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks for its key's bytes once, decodes no batch, and the delivery that comes again costs the end of the log.

    A cache of keys that had to be built first cost every session its playbook.
    """
    monkeypatch.setenv("PYTHONPATH", str(installed_in))
    log_bytes = (long_project.ledger / "events.jsonl").stat().st_size
    started = call(START, "s1")
    assert "\n[kpt_" in told(started.answer)
    assert [] == [name for name in READING if name in started.modules]
    assert log_bytes <= started.read_bytes < 1.5 * log_bytes
    assert 1 == len(events(long_project, PlaybookInjected))
    shutil.rmtree(long_project.ledger / "marks")
    stopped = [call(STOP, "s1") for _ in range(2)]
    assert log_bytes <= stopped[0].read_bytes < 1.5 * log_bytes
    assert stopped[1].read_bytes < 1024 * 1024 + 4 * MAX_LINE_BYTES < log_bytes
    assert 1 == len(events(long_project, PointCited))


# A long ledger where no cache folder can be used: every command and hook works without one.


TEXT = "Test the edges"
QUESTIONS = (("show",), ("why", "kpt_003"), ("log",), ("score",), ("doctor",))
WRITING = (("rate", "kpt_001", "helpful"), ("replay",), ("show",))
CACHE = "cache"
"""Where an archive can have a cache: in the ledger's folder, which no command reads for one."""


def write_long(root: Path) -> Project:
    """Make a project whose ledger is long enough for a checkpoint, with settings of its own."""
    project = three_entries(root)
    # No process of the hook goes on to reflect while the test looks.
    (project.ledger / MARKS).mkdir()
    (project.ledger / MARKS / SETTLED).write_text("none", encoding="utf-8")
    (project.claude / "config").mkdir()
    (project.claude / "config" / "tallybook.toml").write_text("[playbook]\nbudget_chars = 7000\n", encoding="utf-8")
    commands.record(project, {"new_key_points": [f"{number} " + "x" * 9_000 for number in range(8)]}, HUMAN)
    commands.show(project)
    return project


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project with a long ledger, where no cache folder can be used."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    monkeypatch.setenv("TALLYBOOK_CACHE_DIR", str(tmp_path / "open"))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "project"))
    return write_long(tmp_path / "project")


def start_hook(event: str, text: str = "") -> str:
    """Return the answer of a hook that gets its cache folder from the environment."""
    said = {"hook_event_name": event, "source": "startup", "session_id": "s1", "last_assistant_message": text}
    words = [sys.executable, "-c", "from tallybook.__main__ import main; main()", "hook"]
    done = subprocess.run(words, input=json.dumps(said), capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def test_without_a_cache_folder_every_command_and_hook_works(closed: Project, tmp_path: Path) -> None:
    """Their answers are those with a cache folder, and they write nothing to the folder."""
    assert TEXT in start_hook("SessionStart")
    assert ["", "", ""] == [start_hook("SessionStart"), start_hook("UserPromptSubmit"), start_hook("Stop", "[kpt_003]")]
    assert "" == start_hook("Stop", "[kpt_003]")
    for words in (*QUESTIONS, *WRITING):
        assert (words, 0) == (words, here(closed, *words).code)
    kinds = [row["kind"] for row in list_events(closed)]
    assert (1, 1) == (kinds.count("playbook.injected"), kinds.count("point.cited"))
    assert [] == list((tmp_path / "open").iterdir())
    assert not (closed.ledger / CACHE).exists()
