"""Opening, locking, writing, flushing: every failing call raises an error of Tallybook that names its purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import errno
import os
from pathlib import Path
import shutil
import stat
import sys
from types import SimpleNamespace

import pytest

from helpers.ledger_files import caches_of, make_caches, mode_of, refuse
from tallybook.ledger.errors import CannotWriteError, LockHeldError, Problem
from tallybook.ledger.line import Draft
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import caches, disk, spool
from tallybook.ledger.storage.head import ledger_id


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


# Payloads in the spool: written whole or not at all, read in order, and never an obstacle.


REQUESTS = [{"payload": {"new_key_points": ["ü\u2028 \"'{"]}, "by": {"rater": "agent"}, "key": None}]
AT = "2026-11-21T20:17:03.123456Z"


def test_a_spool_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    """A file in place of the folder raises an error of Tallybook, and nothing else changes."""
    (tmp_path / "spool").write_text("in the way")
    with pytest.raises(CannotWriteError):
        spool.put(tmp_path, AT, "id-1", REQUESTS)
    assert "in the way" == (tmp_path / "spool").read_text()


def test_a_linked_spool_is_neither_filled_nor_read(tmp_path: Path) -> None:
    """Payloads at its target are another ledger's; the link is a problem, and nothing is written there."""
    spool.put(tmp_path / "other", AT, "id-1", REQUESTS)
    (tmp_path / "spool").symlink_to(tmp_path / "other" / "spool")
    waiting, problems = spool.read_files(tmp_path)
    told = f"{tmp_path / 'spool'}: is a symbolic link; replace it by what it points to"
    assert ([], [Problem("spool", told)]) == (waiting, problems)
    with pytest.raises(CannotWriteError, match="is a symbolic link"):
        spool.put(tmp_path, AT, "id-2", REQUESTS)
    assert 1 == len(list((tmp_path / "other" / "spool").iterdir()))


def test_a_spooled_payload_is_private_and_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other user can read it, and its bytes and its name are durable before the call returns."""
    (tmp_path / "spool").mkdir()
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(os.fstat(fd).st_ino))
    path = Path(spool.put(tmp_path, AT, "id-1", REQUESTS))
    assert [path.stat().st_ino, path.parent.stat().st_ino] == flushed
    assert 0o600 == path.stat().st_mode & 0o777


# The place of a ledger's caches, and the folders that are not used for them.


def begin_ledger(folder: Path) -> Path:
    """Begin a ledger with one rating in a project and return its folder."""
    log = JsonlLog(folder / ".claude" / "ledger")
    with log.transaction() as tx:
        tx.append([Draft("point.rated", 1, {"name": "first", "rating": "helpful"})], {"rater": "test"})
    log.close()
    return log.folder


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a ledger; the home folder is next to the project, and no variable names a cache."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return begin_ledger(tmp_path / "project")


def test_the_place_is_made_of_the_ledgers_id_and_the_digest_of_its_real_path(ledger: Path, tmp_path: Path) -> None:
    """A link to the project leads to the same caches, and a copy of the project has others under the same id."""
    (tmp_path / "link").symlink_to(tmp_path / "project")
    shutil.copytree(tmp_path / "project", tmp_path / "copy")
    place = caches_of(ledger)
    assert ledger_id(ledger / "events.jsonl") == place.parent.name
    assert place == caches_of(tmp_path / "link" / ".claude" / "ledger")
    copied = caches_of(tmp_path / "copy" / ".claude" / "ledger")
    assert (True, True) == (place.parent == copied.parent, place != copied)


@pytest.mark.skipif(sys.platform == "darwin", reason="their cache folders have other names")
def test_the_users_cache_folder_follows_its_specification(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative XDG_CACHE_HOME is ignored, an absolute one is used, and TALLYBOOK_CACHE_DIR has priority."""
    found = [caches_of(ledger).parent.parent]
    for name, value in (
        ("XDG_CACHE_HOME", "relative"),
        ("XDG_CACHE_HOME", str(tmp_path / "xdg")),
        (caches.VARIABLE, str(tmp_path / "mine")),
    ):
        monkeypatch.setenv(name, value)
        found.append(caches_of(ledger).parent.parent)
    usual = tmp_path / "home" / ".cache" / "tallybook"
    assert [usual, usual, tmp_path / "xdg" / "tallybook", tmp_path / "mine"] == found


def open_folder(folder: Path) -> str:
    """Create a cache folder that others may read."""
    folder.mkdir()
    folder.chmod(0o755)
    return str(folder)


def regular_file(folder: Path) -> str:
    """Create a file in place of the folder."""
    folder.write_text("")
    return str(folder)


def other_users(folder: Path) -> str:
    """Create a cache folder that belongs to another user."""
    folder.mkdir(mode=0o700)
    try:
        os.chown(folder, 65534, 65534)
    except PermissionError:
        pytest.skip("only root can give files to others")
    return str(folder)


def name_folder(folder: Path) -> str:
    """Name a folder in the project."""
    return str(folder.parent / "project" / "cache")


def link_into_project(folder: Path) -> str:
    """Create a link into the project."""
    (folder.parent / "project" / "cache").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "project" / "cache")
    return str(folder)


def relative(folder: Path) -> str:
    """Name a folder by a relative path."""
    return os.path.relpath(folder)


@pytest.mark.parametrize(
    "make",
    [open_folder, regular_file, other_users, name_folder, link_into_project, relative],
    ids=lambda function: function.__name__,
)
def test_an_unsafe_folder_is_not_used(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], str]
) -> None:
    """A cache folder must be absolute, this user's, private and outside the project, or there is no cache."""
    place = caches_of(ledger)
    monkeypatch.setenv(caches.VARIABLE, make(tmp_path / "named"))
    assert caches.find_folder(ledger) is None
    with pytest.raises(CannotWriteError):
        caches.make_folder(place, ledger)


def test_a_created_cache_is_private(ledger: Path) -> None:
    """Whatever the umask, every created folder has mode 0700, and one names its ledger."""
    before = os.umask(0)
    try:
        place = make_caches(ledger)
    finally:
        os.umask(before)
    folders = (place, place.parent, place.parent.parent)
    assert [0o700] * 3 == [folder.stat().st_mode & 0o777 for folder in folders]
    assert str(ledger) == (place / caches.OWNER).read_text()
