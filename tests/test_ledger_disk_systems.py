"""Disk calls on other systems and at their limits: owners, lock waits, Windows, and the exact messages."""

from __future__ import annotations

import errno
import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from helpers.ledger_disk import mode_of, refuse
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.storage import disk

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file of five bytes."""
    path = tmp_path / "file"
    path.write_bytes(b"bytes")
    return path


@pytest.mark.parametrize(
    ("mode", "bits"),
    [(0o700, 0), (0o755, 0), (0o770, 0o070), (0o702, 0o007), (0o777, 0o077), (0o2770, 0o2070), (0o1777, 0)],
    ids=oct,
)
def test_a_folder_is_shared_with_those_who_may_write_to_it(tmp_path: Path, mode: int, bits: int) -> None:
    """A group that may only read it gets no rights, and in a sticky folder like /tmp each file is its owner's."""
    tmp_path.chmod(mode)
    assert (bits, tmp_path.stat().st_gid) == disk.folder_rights(tmp_path.stat())


def test_a_replaced_link_gives_no_rights(tmp_path: Path, path: Path) -> None:
    """The file that replaces a link has the rights of a created one, and the link's target stays."""
    path.chmod(0o666)
    (tmp_path / "link").symlink_to(path)
    disk.replace_file(tmp_path / "link", b"new")
    assert (b"bytes", b"new", 0o600) == (
        path.read_bytes(),
        (tmp_path / "link").read_bytes(),
        mode_of(tmp_path / "link"),
    )


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


@pytest.mark.parametrize("plant", ["file", "link"])
def test_a_file_that_appears_meanwhile_is_opened(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch, plant: str
) -> None:
    """It is opened for writing like an older one, and a link is still refused."""
    real = os.open

    def plant_first(place: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            place.symlink_to(path) if plant == "link" else place.write_bytes(b"first")
        return real(place, flags, mode)

    monkeypatch.setattr(os, "open", plant_first)
    if plant == "link":
        with pytest.raises(CannotWriteError, match="is a symbolic link"):
            disk.open_file(tmp_path / "new", write=True, create=True)
    else:
        fd = disk.open_file(tmp_path / "new", write=True, append=True, create=True)
        disk.write_all(fd, b" and second", tmp_path / "new")
        os.close(fd)
        assert b"first and second" == (tmp_path / "new").read_bytes()


def test_a_file_that_may_not_be_replaced_stays(path: Path, tmp_path: Path) -> None:
    """The caller gets the answer no, and no temporary file is left."""
    assert not disk.replace_file(path, b"new", may_replace=lambda: False)
    assert (b"bytes", [path]) == (path.read_bytes(), list(tmp_path.iterdir()))


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
