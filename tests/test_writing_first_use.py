"""A legacy project used for the first time, by many at once or by one that is killed: nothing is lost or renamed."""

from __future__ import annotations

from hashlib import sha256
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.spool_files import held
from tallybook.ledger.events import PlaybookEdited, PointEdited, PointRemoved
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import playbook_file, reading
from tallybook.projections.surfaces.history.opened import Opened
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

NAMED = [{"name": "kpt_001", "text": "a", "helpful": 0, "harmful": 0}]
UNNAMED = ["a", "b", {"text": "c", "score": 2}]
RATE = """
import sys
from pathlib import Path
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project
print(commands.rate(Project(Path(sys.argv[1])), "kpt_001", "helpful", {"rater": "human"}).seq_from)
"""
DIE = "import os\nfrom tallybook.projections.surfaces.writing import record\nrecord._render = lambda *_: os._exit(9)\n"
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


@pytest.mark.skipif(sys.platform == "win32", reason="holds the lock with flock")
@pytest.mark.parametrize("key_points", [NAMED, UNNAMED], ids=["named", "unnamed"])
def test_a_rating_waits_while_another_process_imports_the_old_file(project: Path, key_points: list[Any]) -> None:
    """A rating of a legacy entry is spooled although the ledger does not have the entry yet, and then counts once."""
    here = legacy(project, key_points)
    here.ledger.mkdir()
    (here.ledger / "lock").touch()
    with held(here):
        assert commands.rate(here, "kpt_001", "helpful", HUMAN).spooled
    assert 1 == commands.replay(here).entries["kpt_001"].helpful
    assert len(key_points) == len(commands.playbook(here).state.entries)


@pytest.mark.parametrize("key_points", [NAMED, UNNAMED], ids=["named", "unnamed"])
def test_a_first_command_killed_before_it_renders_loses_nothing(project: Path, key_points: list[Any]) -> None:
    """The old file is still there for the next command; it is stale, and no manual edit."""
    here = legacy(project, key_points)
    killed = subprocess.run([sys.executable, "-c", DIE + RATE, str(project)], check=False, capture_output=True)
    assert 9 == killed.returncode
    assert 1 == commands.show(here)["key_points"][0]["helpful"]
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    assert 2 == commands.playbook(here).state.entries["kpt_001"].helpful
    assert [] == edits(here)


@pytest.mark.parametrize("key_points", [NAMED, UNNAMED], ids=["named", "unnamed"])
def test_a_rendering_between_two_reads_is_no_manual_edit(
    project: Path, monkeypatch: pytest.MonkeyPatch, key_points: list[Any]
) -> None:
    """The first command renders while the second reads the old file, which is no manual edit."""
    here = legacy(project, key_points)
    subprocess.run([sys.executable, "-c", DIE + RATE, str(project)], check=False, capture_output=True)
    first, old = commands.playbook(here).state, here.playbook.read_bytes()
    read = playbook_file.read_bytes

    def looked(path: Path) -> bytes | None:
        data = read(path)
        if data == old:
            monkeypatch.setattr(playbook_file, "read_bytes", read)
            found = playbook_file.ExaminedFile(sha256=sha256(old).hexdigest())
            assert playbook_file.render(Opened(here), first, found)
        return data

    monkeypatch.setattr(playbook_file, "read_bytes", looked)
    commands.record(here, {"evaluations": [{"name": "kpt_001", "rating": "helpful"}]}, HUMAN)
    assert 2 == commands.playbook(here).state.entries["kpt_001"].helpful
    assert [] == edits(here)


def test_an_old_file_put_back_renames_nothing(project: Path) -> None:
    """Entries without names are recognised by their texts; missing counts change none."""
    here = legacy(project, UNNAMED)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    legacy(project, UNNAMED)
    commands.add(here, "d", HUMAN)
    points = commands.playbook(here).state.entries
    assert [("kpt_001", "a", 1), ("kpt_002", "b", 0), ("kpt_003", "c", 2), ("kpt_004", "d", 0)] == [
        (point.name, point.text, point.helpful) for point in points.values()
    ]


def test_a_ledger_put_back_is_rendered_again(project: Path) -> None:
    """A rendering of a later moment than the ledger has is replaced."""
    here = legacy(project, NAMED)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    kept = {name: (here.ledger / name).read_bytes() for name in ("events.jsonl", "head")}
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    for name, data in kept.items():
        (here.ledger / name).write_bytes(data)
    commands.replay(here)
    commands.check(here)
    assert 1 == commands.show(here)["key_points"][0]["helpful"]


def test_a_file_repaired_meanwhile_is_not_set_aside(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the unreadable bytes are set aside, not the new content."""
    here = legacy(project, NAMED)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    good = here.playbook.read_bytes()
    here.playbook.write_bytes(b"{")
    examine = playbook_file.examine
    mended = iter([good])

    def examine_then_mend(*arguments: Any) -> playbook_file.ExaminedFile:
        found = examine(*arguments)
        for data in mended:
            here.playbook.write_bytes(data)
        return found

    monkeypatch.setattr(playbook_file, "examine", examine_then_mend)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    assert [] == list(here.claude.glob("playbook.json.unreadable*"))
    assert 2 == commands.playbook(here).state.entries["kpt_001"].helpful


def test_a_file_set_aside_replaces_no_other(project: Path) -> None:
    """Two unreadable files of one second are both kept."""
    here = legacy(project, NAMED)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    at = reading.open_log(here).now().at
    for data in (b"{1", b"{2"):
        here.playbook.unlink()
        here.playbook.write_bytes(data)
        playbook_file.set_aside(here, at)
    aside = sorted(here.claude.glob("playbook.json.unreadable*"))
    assert [b"{1", b"{2"] == [path.read_bytes() for path in aside]
    assert here.playbook.exists()
