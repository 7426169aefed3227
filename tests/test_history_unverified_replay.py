"""`replay --no-verify`: the playbook by what the ledger's lines say, whoever wrote them, and nothing of it kept."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.cache_places import caches_of
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

NOTE = "note: the chain was not verified"


@pytest.fixture
def here(project: Path, run: Run) -> Project:
    """Return a project with so long a ledger that a fold of it would be kept, and no checkpoint; a rating is undone."""
    place = Project(project)
    commands.record(place, {"new_key_points": [f"{number} " + "x" * 9_000 for number in range(8)]}, HUMAN)
    commands.rate(place, "kpt_001", "helpful", HUMAN)
    commands.rate(place, "kpt_002", "harmful", HUMAN)
    assert 0 == run("undo").code
    shutil.rmtree(caches_of(place.ledger))
    return place


def change(here: Project, expression: bytes, other: bytes) -> None:
    """Change the first place of the ledger that fits."""
    path = here.ledger / "events.jsonl"
    data, number = re.subn(expression, other, path.read_bytes(), count=1)
    assert 1 == number
    path.write_bytes(data)


def files(here: Project) -> dict[Path, bytes]:
    """Return what every file of the project holds."""
    return {path: path.read_bytes() for path in here.claude.rglob("*") if path.is_file()}


@pytest.mark.parametrize("when", [[], ["--at", "9"], ["--at", "11"], ["--at", "~1"], ["--at", "1d"]], ids=" ".join)
def test_what_nobody_changed_is_what_a_replay_gives(here: Project, run: Run, when: list[str]) -> None:
    """Now and at any moment the bytes are those of a replay that verifies, and a note says that this one did not."""
    expected = run("replay", "--output", "-", *when)
    shutil.rmtree(caches_of(here.ledger), ignore_errors=True)
    before = files(here)
    answer = run("replay", "--no-verify", *when)
    assert (0, expected.out) == (answer.code, answer.out)
    assert (len(expected.err.splitlines()) + 1, 1) == (len(answer.err.splitlines()), answer.err.count(NOTE))
    assert before == files(here)


def test_a_file_of_its_own_says_so_too(here: Project, run: Run, tmp_path: Path) -> None:
    """A person and a program are both told that what was written was not verified; the project's own file is not it."""
    other, own = str(tmp_path / "other.json"), str(here.playbook)
    answer = run("replay", "--no-verify", "--output", other)
    assert answer.out.startswith(f"{other} written, as of event ")
    assert answer.out.endswith(", not verified\n")
    told = json.loads(run("replay", "--no-verify", "--output", other, "--json").out)
    assert {"path": other, "result": "written", "verified": False} == told
    assert here.playbook.read_bytes() == (tmp_path / "other.json").read_bytes()
    assert 2 == run("replay", "--no-verify", "--output", own).code


def test_what_was_changed_is_believed_and_nothing_of_it_is_kept(here: Project, run: Run) -> None:
    """It shows what the lines say; no checkpoint comes of it, and whoever verifies still refuses."""
    change(here, rb'"kpt_001","rating":"helpful"', b'"kpt_001","rating":"harmful"')
    before = files(here)
    answer = run("replay", "--no-verify")
    (point,) = (one for one in json.loads(answer.out)["key_points"] if one["name"] == "kpt_001")
    assert (0, 0, 1) == (answer.code, point["helpful"], point["harmful"])
    assert before == files(here)
    assert [3, 3, 3] == [run(*words).code for words in (["replay"], ["replay", "--check"], ["verify"])]


DAMAGE = [
    (rb'"kpt_001","rating":"helpful"', b'"kpt_001","raXing":"helpful"', "required field missing"),
    (rb'"at":"2([^\n]*"kind":"events.voided")', rb'"at":"x\1', "its head is not one that Tallybook writes here"),
    (rb'[^\n]*"kpt_001","rating":"helpful"[^\n]*\n', b"", "ends "),
]


@pytest.mark.parametrize(("expression", "other", "says"), DAMAGE, ids=["a field", "a head", "a line that is gone"])
def test_what_cannot_be_read_is_damage(here: Project, run: Run, expression: bytes, other: bytes, says: str) -> None:
    """It ends with exit code 3 and one line, which says nothing of a chain that nobody looked at."""
    change(here, expression, other)
    answer = run("replay", "--no-verify")
    assert (3, "", 1) == (answer.code, answer.out, len(answer.err.splitlines()))
    assert says in answer.err
    assert "chain" not in answer.err


@pytest.mark.parametrize("words", [["replay", "--check", "--no-verify"], ["verify", "--no-verify"]], ids=" ".join)
def test_a_check_verifies(here: Project, run: Run, words: list[str]) -> None:
    """What is asked for the proof cannot be asked to leave it out."""
    before = files(here)
    answer = run(*words)
    assert (2, "", True) == (answer.code, answer.out, "--no-verify" in answer.err)
    assert before == files(here)


def test_where_there_is_no_ledger_nothing_stands(project: Path, run: Run) -> None:
    """An empty project has an empty playbook, and nothing is made."""
    answer = run("replay", "--no-verify")
    assert (0, []) == (answer.code, json.loads(answer.out)["key_points"])
    assert [] == list((project / ".claude").iterdir())
