"""A log that can only be appended to (`chattr +a`): every command works by appending."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import os
from pathlib import Path
import shutil
import subprocess
import sys

import pytest

from faults import scenes
from faults.at_calls import facts
from faults.scenes import here, why_not
from tallybook.ledger.errors import EXIT_DAMAGED, EXIT_NO, EXIT_NOT_WRITTEN
from tallybook.projections.surfaces.workspace.project import Project


@pytest.fixture
def protected(tmp_path: Path) -> Iterator[Callable[[Callable[[Path], Project]], Project]]:
    """Return a function that makes a project and protects its log against all but appends."""
    logs: list[Path] = []

    def make(scene: Callable[[Path], Project]) -> Project:
        if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("chattr") is None:
            pytest.skip("only root on Linux can make a file append-only, by chattr")
        project = scene(tmp_path)
        log = project.ledger / "events.jsonl"
        done = subprocess.run(["chattr", "+a", str(log)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"this file system knows no append-only file: {done.stderr.strip()}")
        logs.append(log)
        with pytest.raises(PermissionError):
            os.truncate(log, 0)
        return project

    yield make
    for log in logs:
        subprocess.run(["chattr", "-a", str(log)], check=True)


VERBS = [("show",), ("verify",), ("add", "more"), ("rate", "kpt_001", "helpful"), ("replay",)]


@pytest.mark.parametrize("make", [scenes.three_entries, scenes.torn, scenes.waiting, scenes.changed, scenes.unrendered])
def test_every_command_works(
    protected: Callable[[Callable[[Path], Project]], Project], make: Callable[[Path], Project]
) -> None:
    """Append, seal, import the spool and manual edits, render and read need nothing but appends."""
    project = protected(make)
    for words in VERBS:
        before, stood = (project.ledger / "events.jsonl").read_bytes(), facts(project)
        answer = here(project, *words)
        # A file that is changed or not there is told by `verify`, and no damage to the ledger.
        assert answer.code == 0 or (words == ("verify",) and answer.code == EXIT_NO), words
        assert [] == [line for line in answer.err.splitlines() if not line.startswith("note: ")]
        assert (project.ledger / "events.jsonl").read_bytes().startswith(before)
        assert stood == facts(project)[: len(stood)]
    for check in (("verify",), ("replay", "--check")):
        assert 0 == here(project, *check).code


def test_bytes_of_a_failed_flush_are_not_written_again(
    protected: Callable[[Callable[[Path], Project]], Project],
) -> None:
    """While writing in place is refused, a writer prints one clear line, exits 4 and leaves the log unchanged."""
    if why_not():
        pytest.skip(why_not())
    project = protected(scenes.suspect)
    log = project.ledger / "events.jsonl"
    before = log.read_bytes()
    for _ in range(2):
        answer = here(project, "add", "more")
        assert (EXIT_NOT_WRITTEN, "", 1) == (answer.code, answer.out, len(answer.err.splitlines()))
        assert str(log) in answer.err
        assert os.strerror(1) in answer.err
    assert before == log.read_bytes()
    assert 0 == here(project, "show").code
    subprocess.run(["chattr", "-a", str(log)], check=True)
    assert 0 == here(project, "add", "more").code
    assert 0 == here(project, "verify").code


def test_damage_is_found_and_the_log_not_changed(protected: Callable[[Callable[[Path], Project]], Project]) -> None:
    """Acknowledged bytes that changed before the protection are named and kept, and salvage skips them."""

    def damaged(root: Path) -> Project:
        project = scenes.three_entries(root)
        log = project.ledger / "events.jsonl"
        log.write_bytes(log.read_bytes().replace(b"Name things well", b"Name things w3ll"))
        return project

    project = protected(damaged)
    before = (project.ledger / "events.jsonl").read_bytes()
    assert EXIT_DAMAGED == here(project, "verify").code
    assert EXIT_DAMAGED == here(project, "add", "more").code
    salvaged = here(project, "verify", "--salvage")
    assert "Use type hints" in salvaged.out
    assert before == (project.ledger / "events.jsonl").read_bytes()
