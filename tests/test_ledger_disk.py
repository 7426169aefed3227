"""Opening, locking, writing, flushing: every failing call raises an error of Tallybook that names its purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import errno
import os
from pathlib import Path
import stat
import sys
from types import SimpleNamespace

import pytest

from helpers.ledger_disk import mode_of, refuse
from tallybook.ledger.errors import CannotWriteError, LockHeldError
from tallybook.ledger.storage import disk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file of five bytes."""
    path = tmp_path / "file"
    path.write_bytes(b"bytes")
    return path


@pytest.fixture
def opened(path: Path) -> Iterator[int]:
    """Return the file, opened for appending."""
    fd = disk.open_file(path, write=True, append=True)
    yield fd
    os.close(fd)


def test_a_created_folder_and_its_parents_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing parents are created too, each with its name flushed; existing ones are not changed."""
    flushed: list[str] = []
    monkeypatch.setattr(disk, "flush_folder", flushed.append)
    disk.make_folder(tmp_path / "a" / "b")
    assert [str(tmp_path), str(tmp_path / "a")] == flushed
    (tmp_path / "a").chmod(0o755)
    disk.make_folder(tmp_path / "a" / "b")
    assert [0o755, 0o700] == [stat.S_IMODE(folder.stat().st_mode) for folder in (tmp_path / "a", tmp_path / "a" / "b")]


@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o770, 0o600), (0o777, 0o666), (0o2775, 0o660)], ids=oct)
def test_a_file_with_another_group_gets_the_rights_of_everyone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_mode: int, file_mode: int
) -> None:
    """If the system does not set the folder's group, the user's own group gets no further rights."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder of a group that it is not in")
    folder = tmp_path / "shared"
    folder.mkdir()
    os.chown(folder, -1, 54_321)
    folder.chmod(folder_mode)
    monkeypatch.setattr(os, "chown", refuse(errno.EPERM))
    os.close(disk.open_file(folder / "file", write=True, create=True))
    assert file_mode == mode_of(folder / "file")


def test_a_lock_has_one_holder(opened: int, path: Path) -> None:
    """A second opening of the file waits up to its limit, and gets the lock once it is released."""
    second = disk.open_file(path, write=True)
    disk.lock(opened, path, 0)
    with pytest.raises(LockHeldError, match="for 5 ms"):
        disk.lock(second, path, 5)
    disk.unlock(opened)
    disk.lock(second, path, 0)
    os.close(second)
    assert disk.try_lock(opened)


def test_a_file_is_replaced_whole_and_keeps_its_mode(path: Path, tmp_path: Path) -> None:
    """The file has the new content and the old mode, and no temporary file remains."""
    path.chmod(0o640)
    disk.replace_file(path, b"new")
    assert (b"new", 0o640, [path]) == (path.read_bytes(), stat.S_IMODE(path.stat().st_mode), list(tmp_path.iterdir()))


@pytest.mark.parametrize("write", [disk.replace_file, disk.replace_cache_file])
@pytest.mark.parametrize("plant", ["link", "hard link", "leftover", "folder"])
def test_a_planted_file_is_not_written_to(
    path: Path, tmp_path: Path, write: Callable[[Path, bytes], object], plant: str
) -> None:
    """A planted link or a leftover of a killed process is removed, untouched; a folder there leaves the old file."""
    victim, fresh = tmp_path / "victim", tmp_path / f".file.{os.getpid()}.tmp"
    victim.write_bytes(b"precious")
    plants: dict[str, Callable[[], object]] = {
        "link": lambda: fresh.symlink_to(victim),
        "hard link": lambda: fresh.hardlink_to(victim),
        "leftover": lambda: fresh.write_bytes(b"left over"),
        "folder": fresh.mkdir,
    }
    plants[plant]()
    refused = None
    try:
        write(path, b"new")
    except CannotWriteError as error:
        refused = error
    assert (refused is not None) == (plant == "folder" and write is disk.replace_file)
    assert (b"bytes" if plant == "folder" else b"new") == path.read_bytes()
    assert (b"precious", plant == "folder") == (victim.read_bytes(), fresh.exists())


def test_a_system_without_posix_sets_no_modes_and_flushes_no_folders(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows has no modes to set, and no call that flushes a folder."""
    monkeypatch.setattr(os, "name", "other")
    monkeypatch.setattr(os, "chmod", refuse(errno.EIO))
    monkeypatch.setattr(disk, "flush_data", refuse(errno.EIO))
    disk.replace_cache_file(path, b"new")
    disk.flush_folder(path.parent / "nowhere")
    assert b"new" == path.read_bytes()


def test_without_fcntl_the_first_byte_is_locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for Windows, whose locks begin at the file's position: there is one lock, at byte 0."""
    calls: list[tuple[int, int, int]] = []

    def locking(fd: int, how: int, length: int) -> None:
        calls.append((how, os.lseek(fd, 0, os.SEEK_CUR), length))
        if how == windows.LK_NBLCK and len(calls) > 1:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    windows = SimpleNamespace(LK_NBLCK=2, LK_UNLCK=0, locking=locking)
    monkeypatch.setitem(sys.modules, "msvcrt", windows)
    monkeypatch.setattr(disk, "fcntl", None)
    fd = disk.open_file(path, write=True)
    for act, answer in ((disk.try_lock, True), (disk.try_lock, False), (disk.unlock, None)):
        os.lseek(fd, 3, os.SEEK_SET)
        assert answer is act(fd)
    os.close(fd)
    assert [(2, 0, 1), (2, 0, 1), (0, 0, 1)] == calls
