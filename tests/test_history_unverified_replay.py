"""`replay --no-verify`: the playbook by the ledger's events without a proof, and without a stored checkpoint."""

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
    """Return a project with a ledger long enough for a checkpoint, without one; a rating is undone."""
    place = Project(project)
    commands.record(place, {"new_key_points": [f"{number} " + "x" * 9_000 for number in range(8)]}, HUMAN)
    commands.rate(place, "kpt_001", "helpful", HUMAN)
    commands.rate(place, "kpt_002", "harmful", HUMAN)
    assert 0 == run("undo").code
    shutil.rmtree(caches_of(place.ledger))
    return place


def change(here: Project, expression: bytes, other: bytes) -> None:
    """Change the first match in the ledger."""
    path = here.ledger / "events.jsonl"
    data, number = re.subn(expression, other, path.read_bytes(), count=1)
    assert 1 == number
    path.write_bytes(data)


def files(here: Project) -> dict[Path, bytes]:
    """Return the bytes of every file of the project."""
    return {path: path.read_bytes() for path in here.claude.rglob("*") if path.is_file()}


@pytest.mark.parametrize("when", [[], ["--at", "9"], ["--at", "11"], ["--at", "~1"], ["--at", "1d"]], ids=" ".join)
def test_an_unchanged_ledger_gives_the_same_replay(here: Project, run: Run, when: list[str]) -> None:
    """Now and at any moment the bytes are those of a verified replay, and a note says that this one was not."""
    expected = run("replay", "--output", "-", *when)
    shutil.rmtree(caches_of(here.ledger), ignore_errors=True)
    before = files(here)
    answer = run("replay", "--no-verify", *when)
    assert (0, expected.out) == (answer.code, answer.out)
    assert (len(expected.err.splitlines()) + 1, 1) == (len(answer.err.splitlines()), answer.err.count(NOTE))
    assert before == files(here)


def test_a_changed_event_is_shown_and_nothing_is_stored(here: Project, run: Run) -> None:
    """The replay shows the changed event; no checkpoint is stored, and verifying commands still refuse the ledger."""
    change(here, rb'"kpt_001","rating":"helpful"', b'"kpt_001","rating":"harmful"')
    before = files(here)
    answer = run("replay", "--no-verify")
    (point,) = (point for point in json.loads(answer.out)["key_points"] if point["name"] == "kpt_001")
    assert (0, 0, 1) == (answer.code, point["helpful"], point["harmful"])
    assert before == files(here)
    assert [3, 3, 3] == [run(*words).code for words in (["replay"], ["replay", "--check"], ["verify"])]
