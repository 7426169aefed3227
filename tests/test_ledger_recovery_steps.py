"""Recovery in steps: how much of the tail is read, what counts as an end, and each call that can fail."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from helpers.ledger_disk import refuse
from helpers.ledger_logs import append, names
from helpers.ledger_recovery import acknowledged_log, add
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.reading import repair
from tallybook.ledger.storage import disk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallybook.ledger.log import JsonlLog

BOOT, AT = "this-boot", "2026-11-21T20:17:03.123456Z"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the disk's flush, the slowest part of these tests."""
    monkeypatch.setattr(disk, "flush_data", os.fstat)
    monkeypatch.setattr(os, "fsync", os.fstat)
    monkeypatch.setattr(disk, "boot_id", lambda: BOOT)


@pytest.fixture
def log(tmp_path: Path) -> JsonlLog:
    """Return a ledger with the ratings a, b and c."""
    return acknowledged_log(tmp_path / "ledger", "a", "b", "c")


def refuse_for(path: Path, code: int) -> Callable[[int, bytes], int]:
    """Return a stand-in for a disk that refuses to write to one file."""
    real, inode = os.write, path.stat().st_ino

    def write(fd: int, data: bytes) -> int:
        return refuse(code)() if os.fstat(fd).st_ino == inode else real(fd, data)

    return write


def test_a_copy_never_overwrites_a_linked_file(log: JsonlLog, tmp_path: Path) -> None:
    """A hard link planted under the copy's name is refused, and the linked file is unchanged."""
    (tmp_path / "victim").write_text("precious")
    begin = add(log, b"torn")
    copy = log.folder / "quarantine" / f"{begin}-{begin + 4}.bin"
    copy.parent.mkdir()
    copy.hardlink_to(tmp_path / "victim")
    with pytest.raises(CannotWriteError) as told:
        append(log, "d")
    assert f"{copy}: is a hard link to a file that is not the ledger's; move it away" == str(told.value)
    assert "precious" == (tmp_path / "victim").read_text()


@pytest.mark.parametrize("call", ["write", "fsync", "ftruncate"])
def test_a_copy_that_cannot_be_made_is_reported(log: JsonlLog, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Whichever call the disk refuses, the log is unchanged."""
    begin = add(log, b"torn")
    before = log.path.read_bytes()
    (log.folder / "quarantine").mkdir()
    monkeypatch.setattr(os, call, refuse(errno.ENOSPC))
    with pytest.raises(CannotWriteError) as told:
        append(log, "d")
    copy = log.folder / "quarantine" / f"{begin}-{begin + 4}.bin"
    assert f"{copy}: No space left on device; nothing was recorded; try again" == str(told.value)
    assert before == log.path.read_bytes()


@pytest.mark.parametrize("tail", [b"torn", b"torn\n"])
def test_a_seal_that_cannot_be_written_is_reported(log: JsonlLog, monkeypatch: pytest.MonkeyPatch, tail: bytes) -> None:
    """The error names the log, and once there is room the end is sealed."""
    add(log, tail)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse_for(log.path, errno.ENOSPC))
        with pytest.raises(CannotWriteError) as told:
            append(log, "d")
    assert f"{log.path}: No space left on device; nothing was recorded; try again" == str(told.value)
    append(log, "d")
    assert ["a", "b", "c", "d"] == names(log)


def test_a_log_that_cannot_be_rewritten_names_the_remedy(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """For an append-only file the error asks a person to lift the attribute once."""
    monkeypatch.setattr(os, "open", refuse(errno.EPERM))
    with pytest.raises(CannotWriteError) as told:
        repair.rewrite(log.path, 0, 100)
    assert (
        f"{log.path}: an earlier flush of it failed, and it must be written again: Operation not permitted; "
        "if the file is append-only, run `chattr -a` on it, then repeat the command"
    ) == str(told.value)


@pytest.mark.parametrize("call", ["write", "lseek"])
def test_a_range_that_cannot_be_rewritten_is_reported(
    log: JsonlLog, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Whichever call fails, nothing was recorded, and the error names the log."""
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse(errno.EIO))
        with pytest.raises(CannotWriteError) as told:
            repair.rewrite(log.path, 0, 100)
    assert f"{log.path}: Input/output error; nothing was recorded; try again" == str(told.value)
