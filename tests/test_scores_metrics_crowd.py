"""Metrics under a held lock, from many processes at once, and from killed ones: each object is recorded once."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from helpers.repository import ROOT
from helpers.spool_files import held, spooled
from helpers.telemetry_files import TELEMETRY, bodies, event, rows, written
from tallybook.ledger.errors import LockHeldError
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.scores import read as ingest
from tallybook.projections.surfaces.scores.read import Defaults, feed, items
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

posix_alone = pytest.mark.skipif(sys.platform == "win32", reason="holds the lock with flock, and kills without a word")
OBJECTS = [event("AC-02", "task_start", data={"n": n}) for n in range(60)]
OBJECTS += [{"metrics": {"errors": n % 3}, "component": "ac02", "session_id": "s1"} for n in range(60)]
"""Sixty that name a time, and three sorts that do not, twenty of each."""

WORKER = """
import os, signal, sys
from pathlib import Path
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.scores import read as recording
from tallybook.projections.surfaces.scores.read import items

recording.CHUNK_OBJECTS = 7
recording.MOST_SPOOLED = 0
kill_at = int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
calls = 0

def count_call(frame, event, argument):
    global calls
    if event == "c_call":
        calls += 1
        if calls == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

if kill_at:
    sys.setprofile(count_call)
fed = recording.feed(
    Project(Path(sys.argv[1])), [items(sys.argv[2])], recording.Defaults(), lambda _: None
)
print(fed.read_count, flush=True)
"""


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project whose ledger exists."""
    begun = Project(project)
    feed_file(begun, written(project / "first.jsonl", [TELEMETRY[0]]))
    return begun


def feed_file(project: Project, file: Path) -> ingest.IngestReport:
    """Record a file in this process."""
    return feed(project, [items(str(file))], Defaults(), lambda _: None)


def expected(project: Path, objects: Sequence[Any]) -> list[str]:
    """Return the events of a ledger that recorded these objects at once, without its first event."""
    other = Project(project / "other")
    feed_file(other, written(project / "first.jsonl", [TELEMETRY[0]]))
    feed_file(other, written(project / "events.jsonl", objects))
    return bodies(other)


def run_together(project: Project, file: Path, kills: Sequence[int]) -> list[tuple[int, str]]:
    """Run workers that record the same file at once, and return exit code and answer of each."""
    script = [sys.executable, "-c", WORKER, str(project.root), str(file)]
    workers = [
        subprocess.Popen([*script, str(kill)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for kill in kills
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert "ready\n" == worker.stdout.readline()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
    answers = [worker.communicate()[0].strip() for worker in workers]
    return [(worker.returncode, answer) for worker, answer in zip(workers, answers, strict=True)]


@posix_alone
def test_a_held_lock_delays_no_call(here: Project, tmp_path: Path) -> None:
    """A small call is spooled; the next command that writes records it, once, each object at its own moment."""
    file = written(tmp_path / "events.jsonl", [*TELEMETRY, {"metrics": {"a": 1}}])
    with held(here):
        for number in (1, 2):
            fed = feed_file(here, file)
            assert (5, 5, {}) == (fed.spooled, fed.read_count, fed.recorded)
            assert number == len(spooled(here))
    commands.replay(here)
    assert [] == spooled(here)
    found = rows(here)
    # The first of them stood there already.
    assert 5 == len(found)
    assert ["2026-01-16T08:00:00.000000Z"] * 4 == [row["when"] for row in found[:4]]
    assert {"rater": "import", "session": "s1"} == found[1]["by"]


@posix_alone
def test_a_spooled_object_is_recorded_unchanged(here: Project, tmp_path: Path) -> None:
    """Every kind keeps its fields, free text too; an object without a time has the time of its call."""
    timed: list[dict[str, Any]] = [
        *TELEMETRY,
        {"feedback": 80, "note": "quick", "at": "2026-01-17"},
        {"baseline": 80, "score": "ac06", "reason": "x" * 9_000, "at": "2026-01-17"},
    ]
    file = written(tmp_path / "events.jsonl", [*timed, {"passed": 1, "total": 2}])
    with held(here):
        feed_file(here, file)
    commands.replay(here)
    found = rows(here)
    (benchmark,) = (row for row in found if row["kind"] == "benchmark.recorded")
    assert benchmark["when"] <= benchmark["at"]
    assert expected(tmp_path, timed) == [row for row in bodies(here) if json.loads(row)[1] != "benchmark.recorded"]
    assert {"quick", "x" * 9_000} <= {text for row in found for text in row.get("free", {}).values()}


@posix_alone
@pytest.mark.parametrize("stretch", [10, 1_000])
def test_a_long_call_waits_for_the_lock_and_then_refuses(
    here: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stretch: int
) -> None:
    """It is too long for the spool, and nothing of it is recorded in part."""
    monkeypatch.setattr(ingest, "MOST_SPOOLED", 20)
    monkeypatch.setattr(ingest, "CHUNK_OBJECTS", stretch)
    monkeypatch.setattr(ingest, "LOCK_WAIT_MS", 30)
    file = written(tmp_path / "events.jsonl", OBJECTS)
    with held(here), pytest.raises(LockHeldError, match="held by another process for 30 ms; nothing was recorded"):
        feed_file(here, file)
    assert [] == spooled(here)
    assert 120 == feed_file(here, file).recorded.total()


def test_many_processes_record_the_same_file_once(here: Project, tmp_path: Path) -> None:
    """The first process with an object records it, and every process reads all of the file."""
    file = written(tmp_path / "events.jsonl", OBJECTS)
    assert [(0, "120")] * 6 == run_together(here, file, [0] * 6)
    assert expected(tmp_path, OBJECTS) == bodies(here)
    assert commands.verify(here).ok
