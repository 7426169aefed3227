"""`verify` for people: a head noted elsewhere, and the salvage of a damaged ledger."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from tallybook.ledger.errors import BadInputError
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run


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
