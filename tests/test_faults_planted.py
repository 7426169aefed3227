"""Pipes, devices, folders and links in place of the ledger's files: no process waits for, follows or writes to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import os
from pathlib import Path
import shutil
import socket
import stat
import subprocess
import sys

import pytest

from faults import scenes
from faults.at_calls import facts
from faults.scenes import here, three_entries, why_not
from tallybook.ledger.errors import EXIT_DAMAGED, EXIT_NO, EXIT_NOT_WRITTEN
from tallybook.projections.surfaces.workspace.project import Project

LOG = "ledger/events.jsonl"
KEPT = (LOG, "ledger/head", "ledger/lock")
WRITING = (("add", "more"), ("rate", "kpt_001", "helpful"), ("replay",))
READING = (("show",), ("log",), ("why", "kpt_001"), ("verify",), ("replay", "--check"))


def pipe(path: Path) -> None:
    """Plant a pipe without a process at its other end."""
    os.mkfifo(path)


def listener(path: Path) -> None:
    """Plant a socket."""
    # The name of a socket may have no more than about a hundred characters.
    here_was = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here_was)


def endless(path: Path) -> None:
    """Plant a device that returns NUL bytes without end."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root can make a device")


def full(path: Path) -> None:
    """Plant a device that returns NUL bytes without end and takes none."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
    except PermissionError:
        pytest.skip("only root can make a device")


def folder(path: Path) -> None:
    """Plant a folder."""
    path.mkdir()


def loop(path: Path) -> None:
    """Plant a link to itself."""
    path.symlink_to(path)


PLANTS = (pipe, listener, endless, full, folder, loop)


@pytest.fixture
def planted_project(tmp_path: Path) -> Project:
    """Return a project with three entries."""
    return three_entries(tmp_path)


def planted(project: Project, name: str, plant: Callable[[Path], None]) -> os.stat_result:
    """Plant something in place of a file, and return its stat line."""
    path = project.claude / name
    path.unlink()
    plant(path)
    return path.lstat()


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("plant", PLANTS)
def test_nothing_is_written_to_a_planted_file(
    planted_project: Project, plant: Callable[[Path], None], name: str, words: tuple[str, ...]
) -> None:
    """A writer that finds something else in place of its file prints one line, exits 4, and leaves it."""
    was = planted(planted_project, name, plant)
    log = planted_project.claude / LOG
    before = log.read_bytes() if name != LOG else b""
    answer = here(planted_project, *words)
    assert (EXIT_NOT_WRITTEN, "", 1) == (answer.code, answer.out, len(answer.err.splitlines()))
    assert name.rpartition("/")[2] in answer.err
    now = (planted_project.claude / name).lstat()
    assert (was.st_ino, was.st_mode) == (now.st_ino, now.st_mode)
    assert before == (log.read_bytes() if name != LOG else b"")


@pytest.mark.parametrize("words", READING, ids=" ".join)
@pytest.mark.parametrize("plant", PLANTS)
def test_nothing_is_read_from_a_planted_file(
    planted_project: Project, plant: Callable[[Path], None], words: tuple[str, ...]
) -> None:
    """A reader that finds something else in place of the log prints one line, and waits for nothing."""
    planted(planted_project, LOG, plant)
    answer = here(planted_project, *words)
    assert (EXIT_NOT_WRITTEN, "", 1) == (answer.code, answer.out, len(answer.err.splitlines()))
    assert "events.jsonl" in answer.err


@pytest.mark.parametrize("plant", [pipe, listener, endless, full, folder])
def test_a_planted_playbook_loses_no_rating(planted_project: Project, plant: Callable[[Path], None]) -> None:
    """No command waits for something else in place of playbook.json; the rating is recorded, or refused with exit 4."""
    planted(planted_project, "playbook.json", plant)
    answer = here(planted_project, "rate", "kpt_001", "helpful")
    assert answer.code in {0, EXIT_NOT_WRITTEN}
    assert "Traceback" not in answer.err
    shown = here(planted_project, "log", "kpt_001")
    assert 0 == shown.code
    assert (2 if answer.code == 0 else 1) == shown.out.count("rated helpful")


@pytest.mark.parametrize("plant", [pipe, listener, endless, full, folder, loop])
def test_a_planted_payload_is_reported_and_left(planted_project: Project, plant: Callable[[Path], None]) -> None:
    """Something else in the spool is reported and left, and the sent rating is recorded."""
    spool = planted_project.ledger / "spool"
    spool.mkdir()
    plant(spool / "2026-01-01T000000.000000Z-x.json")
    answer = here(planted_project, "rate", "kpt_001", "helpful")
    assert 0 == answer.code
    assert (spool / "2026-01-01T000000.000000Z-x.json").lstat()
    assert "spool" in here(planted_project, "show").err


# A log that can only be appended to (`chattr +a`): every command works by appending.


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
        # `verify` reports a file that is changed or missing; the ledger is not damaged by it.
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
