"""Processes that write at once, some of them killed, and the first write of a project: no event is lost."""

from __future__ import annotations

from collections import Counter
import json
from pathlib import Path
import subprocess
import sys
from typing import Any

import pytest

from helpers.commands import replay_bytes, start_together
from helpers.events import HUMAN, list_events
from helpers.ledger_files import hold_ledger_lock
from helpers.reference_model import book, point
from helpers.sweep import slice_of
from tallybook.ledger.events import PlaybookEdited, PointEdited, PointRemoved
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.surfaces.history import playbook_file, reading
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

PROCESSES = 8
RATINGS_EACH = slice_of(50, 20)
NAMES = [f"kpt_{number:03d}" for number in range(1, 11)]
START = book(*(point(name, f"guidance {name}", helpful=100) for name in NAMES))

# Says "ready", waits for a line, then records one rating after the other, each under a session of its own, and says
# so only once it was acknowledged.
WORKER = """
import sys
from pathlib import Path
from tallybook.projections.surfaces.writing import commands
from tallybook.projections.surfaces.workspace.project import Project

worker, count = int(sys.argv[2]), int(sys.argv[3])
project = Project(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    name = f"kpt_{(worker + number) % 10 + 1:03d}"
    payload = {"evaluations": [{"name": name, "rating": ("helpful", "harmful", "neutral")[number % 3]}]}
    if number % 10 == 0:
        payload["new_key_points"] = [f"learned by {worker} at {number}"]
    session = f"{worker}-{number}"
    commands.record(project, payload, {"rater": "reflector", "session": session})
    print(session, flush=True)
"""


@pytest.fixture
def started(project: Path) -> Project:
    """Return a project whose legacy playbook was imported."""
    place = Project(project)
    commands.import_file(place, json.dumps(START).encode(), "old.json")
    return place


def run_together(project: Project, ratings_each: int) -> list[tuple[int, list[str]]]:
    """Run workers, all started at the same moment; return for each its exit code and the sessions it acknowledged."""
    script = [sys.executable, "-c", WORKER, str(project.root)]
    workers = start_together([[*script, str(number), str(ratings_each)] for number in range(PROCESSES)])
    answers = [worker.communicate()[0] for worker in workers]
    return [(worker.returncode, answer.split()) for worker, answer in zip(workers, answers, strict=True)]


def rows_of(project: Project, kind: str) -> list[dict[str, Any]]:
    """Return the events of a kind."""
    return [row for row in list_events(project) if row["kind"] == kind]


def count_session_ratings(project: Project) -> Counter[str]:
    """Return how often each session's rating is in the ledger."""
    return Counter(row["by"]["session"] for row in rows_of(project, "point.rated"))


def assert_sound(project: Project) -> None:
    """Record the spool; then the ledger must be whole, every name one entry's, and playbook.json a replay."""
    commands.replay(project)
    verdict = commands.verify_and_fold(project)[0]
    assert () == verdict.problems
    added = [row["body"]["name"] for row in rows_of(project, "point.added")]
    assert len(added) == len({*added, *NAMES}) - len(NAMES)
    assert replay_bytes(project) == project.playbook.read_bytes()


def test_eight_processes_lose_no_rating(started: Project) -> None:
    """Every rating that eight processes record at once is in the log, and playbook.json is a replay of the log."""
    finished = run_together(started, RATINGS_EACH)
    assert [0] * PROCESSES == [code for code, _ in finished]
    # What is not in the log yet waits in the spool, because the lock was held for too long; the file shows the rest.
    assert replay_bytes(started) == started.playbook.read_bytes()
    assert_sound(started)
    everything = {f"{worker}-{number}": 1 for worker in range(PROCESSES) for number in range(RATINGS_EACH)}
    assert everything == count_session_ratings(started)
    assert PROCESSES * RATINGS_EACH // 10 == len(rows_of(started, "point.added"))


def test_many_writers_record_a_manual_edit_once(started: Project) -> None:
    """A manual edit before many writers begin is recorded by one of them, and no rating is lost."""
    started.playbook.write_bytes(started.playbook.read_bytes().replace(b"guidance kpt_003", b"changed by hand"))
    finished = run_together(started, 5)
    assert [0] * 8 == [code for code, _ in finished]
    assert_sound(started)
    edits = rows_of(started, "point.edited")
    assert [("kpt_003", "changed by hand")] == [(row["body"]["name"], row["free"]["text"]) for row in edits]
    assert 40 == count_session_ratings(started).total()
    assert "changed by hand" == reading.current(reading.open_log(started)).entries["kpt_003"].text


NAMED = [{"name": "kpt_001", "text": "a", "helpful": 0, "harmful": 0}]
UNNAMED = ["a", "b", {"text": "c", "score": 2}]
RATE = """
import sys
from pathlib import Path
from tallybook.projections.surfaces.writing import commands
from tallybook.projections.surfaces.workspace.project import Project
print(commands.rate(Project(Path(sys.argv[1])), "kpt_001", "helpful", {"rater": "human"}).seq_from)
"""
EDITS = (PlaybookEdited, PointEdited, PointRemoved)


def legacy(project: Path, key_points: list[Any]) -> Project:
    """Write an old playbook that no ledger knows yet."""
    (project / ".claude").mkdir(exist_ok=True)
    document = {"version": "1.0", "last_updated": None, "key_points": key_points}
    (project / ".claude" / "playbook.json").write_text(json.dumps(document), encoding="utf-8")
    return Project(project)


def edits(project: Project) -> list[Any]:
    """Return the events of manual edits of the playbook."""
    return [event for batch in reading.batches(project) for event in batch.events if isinstance(event, EDITS)]


@pytest.mark.parametrize("key_points", [NAMED, UNNAMED], ids=["named", "unnamed"])
def test_many_may_begin_at_once(project: Path, key_points: list[Any]) -> None:
    """Eight processes that rate a legacy entry at once import the file once, and each rating counts."""
    here = legacy(project, key_points)
    command = [sys.executable, "-c", RATE, str(project)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(8)]
    said = [writer.communicate()[0] for writer in writers]
    assert [0] * 8 == [writer.returncode for writer in writers]
    commands.replay(here)
    assert 8 == commands.playbook(here).state.entries["kpt_001"].helpful, said
    assert len(key_points) == len(commands.playbook(here).state.entries)
    assert [] == edits(here)


@pytest.mark.parametrize("key_points", [NAMED, UNNAMED], ids=["named", "unnamed"])
def test_a_rating_waits_while_another_process_imports_the_old_file(project: Path, key_points: list[Any]) -> None:
    """A rating of a legacy entry is spooled although the ledger does not have the entry yet, and then counts once."""
    here = legacy(project, key_points)
    here.ledger.mkdir()
    (here.ledger / "lock").touch()
    with hold_ledger_lock(here):
        assert commands.rate(here, "kpt_001", "helpful", HUMAN).spooled
    assert 1 == commands.replay(here)[0].entries["kpt_001"].helpful
    assert len(key_points) == len(commands.playbook(here).state.entries)


def test_a_ledger_that_begins_while_a_rating_is_decided_has_the_entry(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who found no ledger, and then the playbook that another writer's import rendered, rates its entry."""
    here = legacy(project, NAMED)
    examine = playbook_file.examine

    def begin_and_examine(opened: reading.Opened, state: Playbook) -> playbook_file.ExaminedFile:
        monkeypatch.setattr(playbook_file, "examine", examine)
        commands.rate(here, "kpt_001", "helpful", {"rater": "human"})
        return examine(opened, state)

    monkeypatch.setattr(playbook_file, "examine", begin_and_examine)
    commands.rate(here, "kpt_001", "helpful", {"rater": "human"})
    assert 2 == commands.playbook(here).state.entries["kpt_001"].helpful
