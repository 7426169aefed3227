"""Opening, locking, writing, flushing: every failing call ends as one of our errors, and says which it is."""

from __future__ import annotations

import errno
import os
from pathlib import Path
import stat
from typing import TYPE_CHECKING

import pytest

from ledger import disk
from ledger.errors import CannotWriteError, LockHeldError, OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a file of five bytes is."""
    path = tmp_path / "file"
    path.write_bytes(b"bytes")
    return path


@pytest.fixture
def opened(path: Path) -> Iterator[int]:
    """Return the file, opened for appending."""
    fd = disk.open_file(path, write=True, append=True)
    yield fd
    os.close(fd)


def refuse(code: int) -> Callable[..., int]:
    """Return a stand-in for a call of the system that fails."""

    def call(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return call


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    """Where a file was not to be created its absence is told as such, and it is not created."""
    for write in (False, True):
        with pytest.raises(FileNotFoundError):
            disk.open_file(tmp_path / "none", write=write)
    assert [] == list(tmp_path.iterdir())


def test_a_created_file_is_private(tmp_path: Path) -> None:
    """Only its owner may read what the ledger creates, and no child process inherits it."""
    fd = disk.open_file(tmp_path / "new", write=True, create=True)
    assert 0o600 == stat.S_IMODE(os.fstat(fd).st_mode)
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_a_created_folder_is_private_and_so_are_those_above_it(tmp_path: Path) -> None:
    """Missing parents are created alike; what is there already is left as it is."""
    disk.make_folder(tmp_path / "a" / "b")
    (tmp_path / "a").chmod(0o755)
    disk.make_folder(tmp_path / "a" / "b")
    assert [0o755, 0o700] == [stat.S_IMODE(one.stat().st_mode) for one in (tmp_path / "a", tmp_path / "a" / "b")]


@pytest.mark.parametrize("below", ["", "a", "a/b"])
def test_a_folder_cannot_be_made_where_a_file_is(path: Path, below: str) -> None:
    """One of our errors, and the file stands."""
    with pytest.raises(CannotWriteError):
        disk.make_folder(path / below)
    assert b"bytes" == path.read_bytes()


@pytest.mark.parametrize("write", [False, True])
def test_a_link_is_told_as_such(path: Path, tmp_path: Path, *, write: bool) -> None:
    """The message says that it is a link, and the file behind it is not opened."""
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(CannotWriteError, match="is a symbolic link"):
        disk.open_file(tmp_path / "link", write=write)


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("plant", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_no_regular_file_is_refused(tmp_path: Path, plant: Callable[[Path], None], *, write: bool) -> None:
    """A pipe is not waited for, and neither it nor a folder stays open."""
    plant(tmp_path / "odd")
    free = os.dup(0)
    os.close(free)
    with pytest.raises(CannotWriteError):
        disk.open_file(tmp_path / "odd", write=write)
    again = os.dup(0)
    os.close(again)
    assert free == again


def test_a_short_write_is_carried_on(opened: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that takes a few bytes at a time gets all of them in the end."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    disk.write_all(opened, b" and more bytes", path)
    assert b"bytes and more bytes" == path.read_bytes()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS])
def test_a_refused_write_is_told_with_the_systems_words(
    opened: int, path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Full disk, quota, size limit: the message names the file and the reason."""
    monkeypatch.setattr(os, "write", refuse(code))
    with pytest.raises(CannotWriteError, match=os.strerror(code)) as told:
        disk.write_all(opened, b"x", path)
    assert str(path) in str(told.value)


def test_the_full_device_refuses() -> None:
    """The system's own full device, where there is one, ends as our error too."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    fd = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(CannotWriteError, match="No space left"):
        disk.write_all(fd, b"x", "/dev/full")
    os.close(fd)


def test_a_failed_flush_is_asked_once(opened: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second flush that succeeds would prove nothing, so there is none."""
    asked: list[int] = []

    def flush(fd: int) -> None:
        asked.append(fd)
        refuse(errno.EIO)()

    monkeypatch.setattr(disk, "flush_data", flush)
    with pytest.raises(OutcomeUnknownError, match="Input/output error"):
        disk.flush(opened, path)
    assert [opened] == asked


def test_a_lock_is_one_openers_at_a_time(opened: int, path: Path) -> None:
    """A second opening of the file waits as long as it is told, and has the lock once it is given back."""
    second = disk.open_file(path, write=True)
    disk.lock(opened, path, 0)
    with pytest.raises(LockHeldError, match="for 5 ms"):
        disk.lock(second, path, 5)
    disk.unlock(opened)
    disk.lock(second, path, 0)
    os.close(second)
    assert disk.try_lock(opened)


def test_a_file_system_without_locks_is_told(opened: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No lock is no reason to write without one."""
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(fcntl, "flock", refuse(errno.ENOLCK))
    with pytest.raises(CannotWriteError, match="cannot be locked"):
        disk.lock(opened, path, 0)


def test_a_file_is_replaced_whole_and_keeps_its_mode(path: Path, tmp_path: Path) -> None:
    """The new content, the old rights, and nothing left beside it."""
    path.chmod(0o640)
    disk.replace_file(path, b"new")
    assert (b"new", 0o640, [path]) == (path.read_bytes(), stat.S_IMODE(path.stat().st_mode), list(tmp_path.iterdir()))


@pytest.mark.parametrize("call", ["write", "fsync", "fchmod"])
def test_a_replacement_that_fails_leaves_the_old_file(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Whichever call the disk refuses, the file stands as it was and nothing lies beside it."""
    monkeypatch.setattr(os, call, refuse(errno.ENOSPC))
    with pytest.raises(CannotWriteError):
        disk.replace_file(path, b"new")
    assert (b"bytes", [path]) == (path.read_bytes(), list(tmp_path.iterdir()))


def test_a_folder_that_cannot_be_flushed_is_not_told_as_an_old_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the rename the new file stands, durable or not: the outcome is unknown, and not that nothing happened."""
    monkeypatch.setattr(disk, "flush_folder", refuse(errno.EIO))
    with pytest.raises((CannotWriteError, OutcomeUnknownError)) as told:
        disk.replace_file(path, b"new")
    assert told.type is OutcomeUnknownError or b"bytes" == path.read_bytes()


def test_the_boot_has_one_name() -> None:
    """Within one boot it is always the same; empty is allowed, and means that nobody knows."""
    assert disk.boot_id() == disk.boot_id()
    assert disk.boot_id().isascii()
    assert not set(" \n\0") & set(disk.boot_id())
