"""Disk calls on other systems and at their limits: owners, lock waits, Windows, and the exact messages."""

from __future__ import annotations

import errno
import os
from pathlib import Path
import sys
import tempfile
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from helpers.ledger_disk import mode_of, refuse
from helpers.ledger_jsonl import unprivileged
from tallybook.ledger.errors import CannotWriteError, LockHeldError, OutcomeUnknownError
from tallybook.ledger.storage import disk

if TYPE_CHECKING:
    from collections.abc import Callable

FOREIGN_GROUP = 54_321


class Time:
    """A clock that only waiting moves.

    Attributes:
        now_s: Seconds since some moment.
        pauses_s: How long it was waited, each time.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace the system's clock."""
        self.now_s = 100.0
        self.pauses_s: list[float] = []
        monkeypatch.setattr(disk, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(disk, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        """Move the time on."""
        assert seconds > 0
        self.pauses_s.append(seconds)
        self.now_s += seconds


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file of five bytes."""
    path = tmp_path / "file"
    path.write_bytes(b"bytes")
    return path


def of_group(path: Path, mode: int) -> Path:
    """Make a folder of a group that this process is not in."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder of a group that it is not in")
    path.mkdir()
    os.chown(path, -1, FOREIGN_GROUP)
    path.chmod(mode)
    return path


def made_in(folder: Path) -> tuple[os.stat_result, os.stat_result]:
    """Create a file and a folder, and return their modes and groups."""
    os.close(disk.open_file(folder / "file", write=True, create=True))
    disk.make_folder(folder / "folder")
    return (folder / "file").stat(), (folder / "folder").stat()


def message_of(act: Callable[[], object], kind: type[CannotWriteError | OutcomeUnknownError]) -> str:
    """Return the message of the error that a call raises."""
    with pytest.raises(kind) as told:
        act()
    return str(told.value)


@pytest.mark.parametrize(
    ("mode", "bits"),
    [(0o700, 0), (0o755, 0), (0o770, 0o070), (0o702, 0o007), (0o777, 0o077), (0o2770, 0o2070), (0o1777, 0)],
    ids=oct,
)
def test_a_folder_is_shared_with_those_who_may_write_to_it(tmp_path: Path, mode: int, bits: int) -> None:
    """A group that may only read it gets no rights, and in a sticky folder like /tmp each file is its owner's."""
    tmp_path.chmod(mode)
    assert (bits, tmp_path.stat().st_gid) == disk.folder_rights(tmp_path.stat())


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777, 0o2770], ids=oct)
def test_a_file_in_a_setgid_folder_has_the_folders_group(tmp_path: Path, mode: int) -> None:
    """A file created in a shared folder has its group, and its owner is the user who created it."""
    made = made_in(of_group(tmp_path / "shared", mode))
    wanted = os.getegid() if mode == 0o1777 else FOREIGN_GROUP
    assert [(os.geteuid(), wanted)] * 2 == [(one.st_uid, one.st_gid) for one in made]


def test_a_replaced_file_keeps_its_group(tmp_path: Path) -> None:
    """The new file has the group of the old one, whatever the folder's group is."""
    shared = of_group(tmp_path / "shared", 0o770)
    (shared / "file").write_bytes(b"old")
    os.chown(shared / "file", -1, FOREIGN_GROUP + 1)
    (shared / "file").chmod(0o640)
    disk.replace_file(shared / "file", b"new")
    assert (FOREIGN_GROUP + 1, 0o640) == ((shared / "file").stat().st_gid, mode_of(shared / "file"))


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


def test_a_note_has_the_rights_of_a_created_file(path: Path) -> None:
    """A file that may be lost does not copy the mode of the old one."""
    path.chmod(0o666)
    disk.replace_cache_file(path, b"new")
    assert (b"new", 0o600) == (path.read_bytes(), mode_of(path))


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


def test_a_read_only_file_can_be_read() -> None:
    """No right to write is needed, and without the right to read the message names the problem."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        read, refused = Path(name) / "read", Path(name) / "refused"
        for path, mode in ((read, 0o444), (refused, 0o000)):
            path.write_bytes(b"bytes")
            path.chmod(mode)
        with unprivileged():
            assert b"bytes" == disk.read_file(read)
            told = message_of(lambda: disk.read_file(refused), CannotWriteError)
    assert f"{refused}: Permission denied; it cannot be read" == told


@pytest.mark.parametrize(
    ("act", "name", "said"),
    [
        (disk.refuse_link, "link", "is a symbolic link; replace it by what it points to"),
        (
            lambda path: disk.open_file(path, write=True),
            "link",
            "is a symbolic link; replace it by what it points to",
        ),
        (lambda path: disk.open_file(path, write=False), "folder", "is not a regular file; move it away"),
        (lambda path: disk.open_file(path, write=False), "file/x", "Not a directory; it cannot be read"),
        (lambda path: disk.open_file(path, write=True), "file/x", "Not a directory; nothing was recorded; try again"),
        (disk.make_folder, "file/x/y", "Not a directory; nothing was recorded; try again"),
    ],
)
def test_a_refusal_names_place_reason_and_remedy(
    path: Path, tmp_path: Path, act: Callable[[Path], object], name: str, said: str
) -> None:
    """One line has the path, the reason, and the outcome."""
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "folder").mkdir()
    assert f"{tmp_path / name}: {said}" == message_of(lambda: act(tmp_path / name), CannotWriteError)


def test_an_unconfirmed_write_is_reported_as_unknown(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For bytes and names alike the message says that the outcome is unknown, why, and how to find out."""
    told = (
        f"{path}: could not be flushed (Input/output error), so it may or may not be recorded; "
        "check with `tallybook log`"
    )
    monkeypatch.setattr(disk, "flush_data", refuse(errno.EIO))
    monkeypatch.setattr(disk, "flush_folder", refuse(errno.EIO))
    assert told == message_of(lambda: disk.flush(0, path), OutcomeUnknownError)
    assert told == message_of(lambda: disk.replace_file(path, b"new"), OutcomeUnknownError)
    assert b"new" == path.read_bytes()


def test_a_new_file_is_whole_before_it_replaces_the_old_one(path: Path) -> None:
    """It is written in the folder of the old one, before the caller is asked whether to replace that."""
    seen: list[tuple[bytes, bytes]] = []

    def look() -> bool:
        (fresh,) = path.parent.glob(f".{path.name}.*.tmp")
        seen.append((fresh.read_bytes(), path.read_bytes()))
        return True

    assert disk.replace_file(path, b"new", may_replace=look)
    assert [(b"new", b"bytes")] == seen
    assert (b"new", [path]) == (path.read_bytes(), list(path.parent.iterdir()))


def test_a_file_that_may_not_be_replaced_stays(path: Path, tmp_path: Path) -> None:
    """The caller gets the answer no, and no temporary file is left."""
    assert not disk.replace_file(path, b"new", may_replace=lambda: False)
    assert (b"bytes", [path]) == (path.read_bytes(), list(tmp_path.iterdir()))


@pytest.mark.parametrize("code", [errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK, errno.EINTR])
def test_a_held_lock_has_several_errors(path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Systems disagree about the error; each means that another process has the lock, or that a retry may help."""
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(fcntl, "flock", refuse(code))
    Time(monkeypatch)
    with pytest.raises(LockHeldError) as told:
        disk.lock(0, path, 20)
    assert f"{path}: held by another process for 20 ms; nothing was recorded; try again" == str(told.value)


def test_a_lock_is_awaited_in_growing_pauses(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is 0.2 ms, each next half as long again, at most 4 ms, and the total at most the limit."""
    time = Time(monkeypatch)
    monkeypatch.setattr(disk, "try_lock", lambda _: False)
    with pytest.raises(LockHeldError):
        disk.lock(0, path, 50)
    pauses = time.pauses_s[:-1]
    assert pytest.approx(0.05) == sum(time.pauses_s)
    assert pytest.approx(0.0002) == pauses[0]
    assert pytest.approx([min(1.5 * pause, 0.004) for pause in pauses[:-1]]) == pauses[1:]
    assert pytest.approx(0.004) == max(time.pauses_s)


def test_a_released_lock_is_taken(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait ends as soon as the other process releases the lock, whatever is left of the limit."""
    time = Time(monkeypatch)
    free = iter([False, False, False, True])
    monkeypatch.setattr(disk, "try_lock", lambda _: next(free))
    disk.lock(0, path, 250)
    assert [] == list(free)
    assert pytest.approx([0.0002, 0.0003, 0.00045]) == time.pauses_s


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
