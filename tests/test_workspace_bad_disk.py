"""Folders and disks that refuse: one clear line, the right exit code, and no acknowledged event lost."""

from __future__ import annotations

from contextlib import contextmanager
import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.real_command import BY_HAND, assert_refused, run, run_unprivileged, texts
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def protected_bytes(project: Project) -> dict[str, bytes]:
    """Return the bytes that no failing command may change."""
    files = (project.ledger / "events.jsonl", project.playbook)
    return {path.name: path.read_bytes() for path in files if path.is_file()}


@pytest.mark.parametrize("place", [".claude", ".claude/ledger", ".claude/ledger/events.jsonl"])
def test_a_file_in_the_way_is_named(project: Path, place: str) -> None:
    """With a file in place of a folder, or a folder in place of the ledger, nothing is recorded: exit code 4."""
    path = project / place
    shutil.rmtree(project / ".claude")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix:
        path.mkdir()
    else:
        path.write_bytes(b"mine")
    assert_refused(run(Project(project), "add", "new"), 4, str(project / ".claude"))
    assert path.is_dir() if path.suffix else b"mine" == path.read_bytes()


@pytest.fixture
def others_project(project: Path) -> Iterator[Project]:
    """Return a project with an entry that everyone may read and no one may write."""
    place = Project(project)
    commands.add(place, BY_HAND, HUMAN)
    folders = [project, place.claude, place.ledger]
    for folder in folders:
        for path in folder.iterdir():
            path.chmod(0o555 if path.is_dir() else 0o444)
    project.chmod(0o555)
    yield place
    for folder in folders:
        folder.chmod(0o755)


@pytest.mark.skipif(os.name != "posix", reason="permissions of folders bind nobody here")
@pytest.mark.parametrize("arguments", [["add", "new"], ["rate", "kpt_001", "helpful"], ["replay"]], ids=" ".join)
def test_a_read_only_project_is_not_written(others_project: Project, arguments: list[str]) -> None:
    """Without the right to write, a writing command prints one line, exits 4, and changes nothing."""
    before = protected_bytes(others_project)
    assert_refused(run_unprivileged(others_project, *arguments), 4, "Permission denied")
    assert before == protected_bytes(others_project)


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """Mount a separate file system at a folder."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a file system, and not everywhere")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def small_disk(project: Path) -> Iterator[Project]:
    """Return a project on a disk of 64 KiB."""
    with mounted(project / ".claude", "size=64k"):
        yield Project(project)


@pytest.fixture
def ledger_volume(project: Path) -> Iterator[Project]:
    """Return a project whose ledger folder is a file system of its own, like a container's volume."""
    made = Project(project)
    made.ledger.mkdir(mode=0o700)
    with mounted(made.ledger, "size=1m,mode=700"):
        yield made


@pytest.fixture
def read_only_mount(small_disk: Project) -> Iterator[Project]:
    """Return a project with an entry whose `.claude` is mounted read-only."""
    commands.add(small_disk, BY_HAND, HUMAN)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk.claude)], check=True, capture_output=True)
    yield small_disk
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk.claude)], check=True, capture_output=True)


@pytest.mark.parametrize(
    "words",
    [
        "add new",
        "rate kpt_001 helpful",
        "retire kpt_001",
        "undo",
        "replay",
        "score record --component ac01 startup_ms=1",
    ],
)
def test_on_a_read_only_mount_no_advice_is_to_try_again(read_only_mount: Project, words: str) -> None:
    """A command that writes says to mount the file system for writing, with exit code 4; nothing changes."""
    before = protected_bytes(read_only_mount)
    done = run(read_only_mount, *words.split())
    assert_refused(done, 4, "Read-only file system")
    assert (True, False) == (
        "it is mounted read-only, so mount it for writing first" in done.err,
        "try again" in done.err,
    )
    assert before == protected_bytes(read_only_mount)


@pytest.mark.parametrize("words", ["show", "why kpt_001", "verify", "score", "check", "doctor"])
def test_on_a_read_only_mount_everything_can_be_read(read_only_mount: Project, words: str) -> None:
    """A command that reads answers as elsewhere, and gives no advice to try again."""
    done = run(read_only_mount, *words.split())
    assert (True, False) == (done.code in {0, 1} if words == "doctor" else done.code == 0, "try again" in done.out)


def test_a_ledger_on_a_file_system_of_its_own_is_rendered(ledger_volume: Project) -> None:
    """Each verb that writes renders playbook.json, which is on another file system."""
    assert ledger_volume.claude.stat().st_dev != ledger_volume.ledger.stat().st_dev
    assert (0, "") == run(ledger_volume, "add", "first")[::2]
    assert (0, "") == run(ledger_volume, "add", "second")[::2]
    ledger_volume.playbook.unlink()
    assert (0, "") == run(ledger_volume, "replay")[::2]
    assert ["first", "second"] == [one["text"] for one in json.loads(ledger_volume.playbook.read_bytes())["key_points"]]
    ledger_volume.playbook.write_bytes(b"no playbook")
    assert 0 == run(ledger_volume, "replay").code
    assert 0 == run(ledger_volume, "replay", "--check").code
    assert 0 == run(ledger_volume, "redact", "2", "--reason", "a name").code
    assert 0 == run(ledger_volume, "verify").code


def fill(path: Path) -> None:
    """Write to a file until the disk is full."""
    with path.open("wb", buffering=0) as filler:
        try:
            while filler.write(b"\0" * 4096):
                pass
        except OSError:
            return


@pytest.mark.parametrize("length", [4_000, 20_000])
def test_a_full_disk_loses_nothing(small_disk: Project, length: int) -> None:
    """On a full disk a failed command has recorded nothing, and with room again all works."""
    commands.add(small_disk, BY_HAND, HUMAN)
    fill(small_disk.claude / "filler")
    before = texts(small_disk), commands.verify(small_disk).head
    assert_refused(run(small_disk, "add", "x" * length), 4, "No space left on device")
    assert_refused(run(small_disk, "add", "x" * length), 4, "No space left on device")
    assert before == (texts(small_disk), commands.verify(small_disk).head)
    assert () == commands.verify(small_disk).problems
    (small_disk.claude / "filler").unlink()
    assert 0 == run(small_disk, "add", "x" * length).code
    assert [BY_HAND, "x" * length] == texts(small_disk)
    assert () == commands.verify(small_disk).problems


def test_a_full_disk_that_takes_only_the_event_is_reported(small_disk: Project) -> None:
    """If the event fits and playbook.json does not, the answer says so, and replay repairs the file."""
    commands.add(small_disk, BY_HAND, HUMAN)
    fill(small_disk.claude / "filler")
    answer = run(small_disk, "add", "short")
    assert 0 == answer.code
    assert 1 == (answer.out + answer.err).count("recorded, but ")
    assert [BY_HAND, "short"] == texts(small_disk)
    assert 4 == run(small_disk, "replay").code
    (small_disk.claude / "filler").unlink()
    assert 0 == run(small_disk, "replay").code
    assert [BY_HAND, "short"] == [kp["text"] for kp in json.loads(small_disk.playbook.read_bytes())["key_points"]]


def test_a_disk_that_fills_up_keeps_acknowledged_events(small_disk: Project) -> None:
    """Of texts added until the disk is full, exactly the acknowledged ones are in the ledger."""
    acknowledged: list[str] = []
    while (answer := run(small_disk, "add", f"{len(acknowledged)}" + "x" * 9_000)).code == 0:
        acknowledged.append(f"{len(acknowledged)}" + "x" * 9_000)
    assert_refused(answer, 4, "No space left on device")
    assert acknowledged
    assert acknowledged == texts(small_disk)
    assert () == commands.verify(small_disk).problems
