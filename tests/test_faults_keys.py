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
from helpers.cache_places import caches_of
from helpers.hook_calls import START, events, told
from tallybook.ledger.events import PlaybookInjected, PointCited
from tallybook.ledger.line import MAX_LINE_BYTES
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

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
class Call:
    """What one call of the hook did.

    Attributes:
        answer: What the agent gets.
        read_bytes: How many bytes it read at offsets of files, most of them of the log.
        modules: The modules that it loaded.
    """

    answer: str
    read_bytes: int
    modules: list[str]


def call(payload: Mapping[str, Any], session: str) -> Call:
    """Call the hook in a process of its own."""
    given = json.dumps({"session_id": session, **payload}).encode()
    done = subprocess.run([sys.executable, "-S", "-c", CODE], input=given, capture_output=True, check=True)
    read_bytes, *modules = done.stderr.decode().split()
    return Call(done.stdout.decode(), int(read_bytes), modules)


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
