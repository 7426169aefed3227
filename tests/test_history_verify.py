"""`verify`: a head noted elsewhere, read once; and `replay --no-verify`, without a proof and a stored checkpoint."""

from __future__ import annotations

import json
import os
from pathlib import Path
import re
import shutil

import pytest

from helpers.authors import HUMAN
from helpers.cache_places import caches_of
from helpers.command_line import Run
from tallybook.ledger.errors import BadInputError
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with three entries and a rating each."""
    here = Project(project)
    for text in ("one", "two", "three"):
        commands.add(here, text, HUMAN)
    for name in ("kpt_001", "kpt_002", "kpt_003"):
        commands.rate(here, name, "helpful", HUMAN)
    return here


def test_a_head_noted_elsewhere_is_found_again(here: Project) -> None:
    """A printed head stays valid as the ledger grows; any other head is a problem."""
    head = commands.verify_and_fold(here)[0].head
    commands.rate(here, "kpt_001", "harmful", HUMAN)
    assert commands.verify_and_fold(here, expect=f"{head.seq}:{head.chain}")[0].ok
    (problem,) = commands.verify_and_fold(here, expect=f"{head.seq}:{'0' * 32}")[0].problems
    assert head.seq == problem.seq
    assert not commands.verify_and_fold(here, expect=f"{head.seq + 50}:{head.chain}")[0].ok
    with pytest.raises(BadInputError):
        commands.verify_and_fold(here, expect="yesterday")[0]


@pytest.mark.skipif(not hasattr(os, "pread"), reason="this system reads at no offset")
def test_verify_reads_the_log_once(here: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`verify` of a long ledger reads each of its bytes from the disk once, and a few at its ends again."""
    commands.record(here, {"new_key_points": [f"{number} " + "x" * 9_000 for number in range(100)]}, HUMAN)
    log, pread, sizes = here.ledger / "events.jsonl", os.pread, []

    def counting(fd: int, size: int, offset: int) -> bytes:
        data = pread(fd, size, offset)
        if os.path.samestat(os.fstat(fd), log.stat()):
            sizes.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counting)
    assert 0 == run("--project", str(here.root), "verify").code
    assert 1.0 <= sum(sizes) / log.stat().st_size < 1.2


# Without a proof


UNVERIFIED = "note: the chain was not verified"


@pytest.fixture
def undone(project: Path, run: Run) -> Project:
    """Return a project with a ledger long enough for a checkpoint, without one; a rating is undone."""
    place = Project(project)
    commands.record(place, {"new_key_points": [f"{number} " + "x" * 9_000 for number in range(8)]}, HUMAN)
    commands.rate(place, "kpt_001", "helpful", HUMAN)
    commands.rate(place, "kpt_002", "harmful", HUMAN)
    assert 0 == run("undo").code
    shutil.rmtree(caches_of(place.ledger))
    return place


def change(undone: Project, expression: bytes, other: bytes) -> None:
    """Change the first match in the ledger."""
    path = undone.ledger / "events.jsonl"
    data, number = re.subn(expression, other, path.read_bytes(), count=1)
    assert 1 == number
    path.write_bytes(data)


def files(undone: Project) -> dict[Path, bytes]:
    """Return the bytes of every file of the project."""
    return {path: path.read_bytes() for path in undone.claude.rglob("*") if path.is_file()}


@pytest.mark.parametrize("when", [[], ["--at", "9"], ["--at", "11"], ["--at", "~1"], ["--at", "1d"]], ids=" ".join)
def test_an_unchanged_ledger_gives_the_same_replay(undone: Project, run: Run, when: list[str]) -> None:
    """Now and at any moment the bytes are those of a verified replay, and a note says that this one was not."""
    expected = run("replay", "--output", "-", *when)
    shutil.rmtree(caches_of(undone.ledger), ignore_errors=True)
    before = files(undone)
    answer = run("replay", "--no-verify", *when)
    assert (0, expected.out) == (answer.code, answer.out)
    assert (len(expected.err.splitlines()) + 1, 1) == (len(answer.err.splitlines()), answer.err.count(UNVERIFIED))
    assert before == files(undone)


def test_a_changed_event_is_shown_and_nothing_is_stored(undone: Project, run: Run) -> None:
    """The replay shows the changed event; no checkpoint is stored, and verifying commands still refuse the ledger."""
    change(undone, rb'"kpt_001","rating":"helpful"', b'"kpt_001","rating":"harmful"')
    before = files(undone)
    answer = run("replay", "--no-verify")
    (point,) = (point for point in json.loads(answer.out)["key_points"] if point["name"] == "kpt_001")
    assert (0, 0, 1) == (answer.code, point["helpful"], point["harmful"])
    assert before == files(undone)
    assert [3, 3, 3] == [run(*words).code for words in (["replay"], ["replay", "--check"], ["verify"])]
