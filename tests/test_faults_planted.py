"""Things that are no files, planted where the ledger keeps its own: nobody waits for them, follows or feeds them."""

from __future__ import annotations

import os
from pathlib import Path
import socket
import stat
from typing import TYPE_CHECKING

import pytest

from faults.scenes import begun, here
from tallybook.ledger.errors import EXIT_NOT_WRITTEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.projections.surfaces.workspace.project import Project

pytestmark = pytest.mark.skipif(os.name != "posix", reason="plants what only POSIX has")

LOG = "ledger/events.jsonl"
KEPT = (LOG, "ledger/head", "ledger/lock")
WRITING = (("add", "more"), ("rate", "kpt_001", "helpful"), ("replay",))
READING = (("show",), ("log",), ("why", "kpt_001"), ("verify",), ("replay", "--check"))


def pipe(path: Path) -> None:
    """Plant a pipe, whose other end nobody holds."""
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
    """Plant a device that gives NUL bytes for ever."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root can make a device")


def full(path: Path) -> None:
    """Plant a device that gives NUL bytes for ever, and takes none."""
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
def begun_project(tmp_path: Path) -> Project:
    """Return a project with three entries."""
    return begun(tmp_path)


def planted(project: Project, name: str, plant: Callable[[Path], None]) -> os.stat_result:
    """Put something in place of a file, and return what the system says of it."""
    path = project.claude / name
    path.unlink()
    plant(path)
    return path.lstat()


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("plant", PLANTS)
def test_nothing_is_written_where_no_file_is(
    begun_project: Project, plant: Callable[[Path], None], name: str, words: tuple[str, ...]
) -> None:
    """A writer that finds something else in place of its file says so in one line with exit code 4, and leaves it."""
    was = planted(begun_project, name, plant)
    log = begun_project.claude / LOG
    before = log.read_bytes() if name != LOG else b""
    answer = here(begun_project, *words)
    assert (EXIT_NOT_WRITTEN, "", 1) == (answer.code, answer.out, len(answer.err.splitlines()))
    assert name.rpartition("/")[2] in answer.err
    now = (begun_project.claude / name).lstat()
    assert (was.st_ino, was.st_mode) == (now.st_ino, now.st_mode)
    assert before == (log.read_bytes() if name != LOG else b"")


@pytest.mark.parametrize("words", READING, ids=" ".join)
@pytest.mark.parametrize("plant", PLANTS)
def test_nothing_is_read_where_no_file_is(
    begun_project: Project, plant: Callable[[Path], None], words: tuple[str, ...]
) -> None:
    """A reader that finds something else in place of the log says so in one line, and waits for nothing."""
    planted(begun_project, LOG, plant)
    answer = here(begun_project, *words)
    assert (EXIT_NOT_WRITTEN, "", 1) == (answer.code, answer.out, len(answer.err.splitlines()))
    assert "events.jsonl" in answer.err


@pytest.mark.parametrize("plant", [pipe, listener, endless, full, folder])
def test_what_stands_for_the_playbook_costs_no_rating(begun_project: Project, plant: Callable[[Path], None]) -> None:
    """Something else in place of playbook.json is not waited for; the rating is recorded, or refused with exit 4."""
    planted(begun_project, "playbook.json", plant)
    answer = here(begun_project, "rate", "kpt_001", "helpful")
    assert answer.code in {0, EXIT_NOT_WRITTEN}
    assert "Traceback" not in answer.err
    shown = here(begun_project, "log", "kpt_001")
    assert 0 == shown.code
    assert (2 if answer.code == 0 else 1) == shown.out.count("rated helpful")


@pytest.mark.parametrize("plant", [pipe, listener, endless, full, folder, loop])
def test_what_waits_in_the_spool_is_a_file(begun_project: Project, plant: Callable[[Path], None]) -> None:
    """Something else among the payloads that wait is told and left, and what is sent is recorded all the same."""
    spool = begun_project.ledger / "spool"
    spool.mkdir()
    plant(spool / "2026-01-01T000000.000000Z-x.json")
    answer = here(begun_project, "rate", "kpt_001", "helpful")
    assert 0 == answer.code
    assert (spool / "2026-01-01T000000.000000Z-x.json").lstat()
    assert "spool" in here(begun_project, "show").err
