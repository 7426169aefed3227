"""Pipes, devices, folders and links in place of the ledger's files: no process waits for, follows or writes to them."""

from __future__ import annotations

from collections.abc import Callable
import os
from pathlib import Path
import socket
import stat

import pytest

from faults.scenes import here, three_entries
from tallybook.ledger.errors import EXIT_NOT_WRITTEN
from tallybook.projections.surfaces.workspace.project import Project

pytestmark = pytest.mark.skipif(os.name != "posix", reason="plants what only POSIX has")
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
