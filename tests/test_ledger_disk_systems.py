"""Disk calls on other systems and at their limits: owners, lock waits, Windows, and the exact messages."""

from __future__ import annotations

import errno
import os
from pathlib import Path
import stat
import sys
import tempfile
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from helpers.ledger_disk import mode_of, refuse
from helpers.ledger_jsonl import unprivileged
from tallybook.ledger.errors import CannotWriteError, LockHeldError, OutcomeUnknownError
from tallybook.ledger.storage import disk, rights

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
        """Take the place of the system's clock."""
        self.now_s = 100.0
        self.pauses_s: list[float] = []
        monkeypatch.setattr(disk, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(disk, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        assert seconds > 0
        self.pauses_s.append(seconds)
        self.now_s += seconds


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a file of five bytes is."""
    path = tmp_path / "file"
    path.write_bytes(b"bytes")
    return path


def of_group(path: Path, mode: int) -> Path:
    """Make a folder that belongs to a group that this process is not in."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a folder of a group that it is not in")
    path.mkdir()
    os.chown(path, -1, FOREIGN_GROUP)
    path.chmod(mode)
    return path


def made_in(folder: Path) -> tuple[os.stat_result, os.stat_result]:
    """Create a file and a folder, and return what they are."""
    os.close(disk.open_file(folder / "file", write=True, create=True))
    disk.make_folder(folder / "folder")
    return (folder / "file").stat(), (folder / "folder").stat()


def message_of(act: Callable[[], object], kind: type[CannotWriteError | OutcomeUnknownError]) -> str:
    """Return the message with which a call is refused."""
    with pytest.raises(kind) as told:
        act()
    return str(told.value)


def test_an_error_without_words_is_told_by_its_kind() -> None:
    """The system's words where it has some, else what Python calls the error."""
    assert ["No space left on device", "PermissionError"] == [
        disk.reason(error) for error in (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), PermissionError())
    ]


@pytest.mark.parametrize(
    ("mode", "bits"),
    [(0o700, 0), (0o755, 0), (0o770, 0o070), (0o702, 0o007), (0o777, 0o077), (0o2770, 0o2070), (0o1777, 0)],
    ids=oct,
)
def test_a_folder_is_shared_with_those_who_may_write_to_it(tmp_path: Path, mode: int, bits: int) -> None:
    """Nobody who may only read it shares it, and in a folder like /tmp everybody keeps his own."""
    tmp_path.chmod(mode)
    assert (bits, tmp_path.stat().st_gid) == rights.folder_rights(tmp_path.stat())


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777, 0o2770], ids=oct)
def test_a_sticky_folder_is_nobodys_and_others_are_their_groups(tmp_path: Path, mode: int) -> None:
    """What is created in a shared folder is its group's, and its owner stays who created it."""
    made = made_in(of_group(tmp_path / "shared", mode))
    wanted = os.getegid() if mode == 0o1777 else FOREIGN_GROUP
    assert [(os.geteuid(), wanted)] * 2 == [(one.st_uid, one.st_gid) for one in made]


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o703], ids=oct)
def test_a_folder_that_its_group_may_not_write_to_hands_no_group_on(tmp_path: Path, mode: int) -> None:
    """What is created there stays in the user's own group."""
    made = made_in(of_group(tmp_path / "private", mode))
    assert [os.getegid()] * 2 == [one.st_gid for one in made]


def test_everybodys_folder_stays_everybodys_whatever_its_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system hands nothing to the folder's group, everybody's rights are enough for the user's own too."""
    shared = of_group(tmp_path / "shared", 0o777)
    monkeypatch.setattr(os, "chown", refuse(errno.EPERM))
    assert [0o666, 0o777] == [stat.S_IMODE(one.st_mode) for one in made_in(shared)]


def test_a_replaced_file_keeps_its_group(tmp_path: Path) -> None:
    """The new one is whose the old one was, whatever the folder's group is."""
    shared = of_group(tmp_path / "shared", 0o770)
    (shared / "file").write_bytes(b"old")
    os.chown(shared / "file", -1, FOREIGN_GROUP + 1)
    (shared / "file").chmod(0o640)
    disk.replace_file(shared / "file", b"new")
    assert (FOREIGN_GROUP + 1, 0o640) == ((shared / "file").stat().st_gid, mode_of(shared / "file"))


def test_a_replaced_link_gives_no_rights(tmp_path: Path, path: Path) -> None:
    """What takes a link's place has the rights of a created file, and the link's own file stands."""
    path.chmod(0o666)
    (tmp_path / "link").symlink_to(path)
    disk.replace_file(tmp_path / "link", b"new")
    assert (b"bytes", b"new", 0o600) == (
        path.read_bytes(),
        (tmp_path / "link").read_bytes(),
        mode_of(tmp_path / "link"),
    )


def test_a_note_has_the_rights_of_a_created_file(path: Path) -> None:
    """A file that may be lost does not keep what somebody gave the old one."""
    path.chmod(0o666)
    disk.replace_cache_file(path, b"new")
    assert (b"new", 0o600) == (path.read_bytes(), mode_of(path))


def test_a_file_of_this_folder_gets_its_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name without a folder is one in the current folder."""
    tmp_path.chmod(0o770)
    monkeypatch.chdir(tmp_path)
    os.close(disk.create_file("file"))
    assert 0o660 == mode_of(tmp_path / "file")


def test_where_no_mode_can_be_set_nothing_is_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and folders are private from the first moment, not only once their mode was set."""
    monkeypatch.setattr(os, "chmod", refuse(errno.EPERM))
    before = os.umask(0)
    try:
        made = made_in(tmp_path)
    finally:
        os.umask(before)
    assert [0o600, 0o700] == [stat.S_IMODE(one.st_mode) for one in made]


def test_a_system_without_posix_is_asked_for_neither_modes_nor_folders(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows has no modes to give, and no call that flushes a folder."""
    monkeypatch.setattr(os, "name", "other")
    monkeypatch.setattr(os, "chmod", refuse(errno.EIO))
    monkeypatch.setattr(disk, "flush_data", refuse(errno.EIO))
    disk.replace_cache_file(path, b"new")
    disk.flush_folder(path.parent / "nowhere")
    assert b"new" == path.read_bytes()


@pytest.mark.parametrize("plant", ["file", "link", "dangling link"])
def test_a_file_is_created_only_where_nothing_is(tmp_path: Path, path: Path, plant: str) -> None:
    """What is there already is neither opened nor followed."""
    place = tmp_path / "place"
    if plant == "file":
        place.write_bytes(b"bytes")
    else:
        place.symlink_to(path if plant == "link" else tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        disk.create_file(place)
    assert (b"bytes", False) == (path.read_bytes(), (tmp_path / "nowhere").exists())


@pytest.mark.parametrize("plant", ["file", "link"])
def test_what_another_created_meanwhile_is_opened_as_if_it_had_stood(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch, plant: str
) -> None:
    """A file to write to; a link is refused now too."""
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


def test_a_file_is_written_from_its_beginning_unless_told_otherwise(path: Path) -> None:
    """Appending has to be asked for."""
    fd = disk.open_file(path, write=True)
    disk.write_all(fd, b"BY", path)
    os.close(fd)
    assert b"BYtes" == path.read_bytes()


def test_who_may_only_read_a_file_reads_it() -> None:
    """No right to write is needed, and without the right to read the message says what cannot be done."""
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
def test_a_refusal_says_where_why_and_what_to_do(
    path: Path, tmp_path: Path, act: Callable[[Path], object], name: str, said: str
) -> None:
    """One line that names the path, the reason, and what came of it."""
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "folder").mkdir()
    assert f"{tmp_path / name}: {said}" == message_of(lambda: act(tmp_path / name), CannotWriteError)


def test_a_second_name_is_refused_in_one_line(path: Path) -> None:
    """It says what is wrong with the file and what to do with it."""
    path.with_name("other").hardlink_to(path)
    fd = disk.open_file(path, write=True)
    told = message_of(lambda: disk.refuse_hard_link(fd, path), CannotWriteError)
    os.close(fd)
    assert f"{path}: is a hard link to a file that is not the ledger's; move it away" == told


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("write", "Input/output error; nothing was recorded; try again"),
        ("fsync", "Input/output error; the file is unchanged"),
    ],
)
def test_a_replacement_that_fails_is_told_of_the_old_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, call: str, said: str
) -> None:
    """The message names the file, and not the one that was to take its place."""
    monkeypatch.setattr(os, call, refuse(errno.EIO))
    assert f"{path}: {said}" == message_of(lambda: disk.replace_file(path, b"new"), CannotWriteError)


def test_what_a_disk_does_not_confirm_is_told_as_unknown(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes and names alike: the message says that nobody knows, why, and how to find out."""
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
    """It is written in the folder of the old one, before the caller is asked whether it may replace that."""
    seen: list[tuple[bytes, bytes]] = []

    def look() -> bool:
        (fresh,) = path.parent.glob(f".{path.name}.*.tmp")
        seen.append((fresh.read_bytes(), path.read_bytes()))
        return True

    assert disk.replace_file(path, b"new", may_replace=look)
    assert [(b"new", b"bytes")] == seen
    assert (b"new", [path]) == (path.read_bytes(), list(path.parent.iterdir()))


def test_a_file_that_may_not_be_replaced_any_more_stands(path: Path, tmp_path: Path) -> None:
    """Who asks hears so, and nothing lies beside it."""
    assert not disk.replace_file(path, b"new", may_replace=lambda: False)
    assert (b"bytes", [path]) == (path.read_bytes(), list(tmp_path.iterdir()))


def test_a_replacement_without_a_question_is_made(path: Path) -> None:
    """And said to have been."""
    assert disk.replace_file(path, b"new")


@pytest.mark.parametrize("code", [errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK, errno.EINTR])
def test_a_lock_that_is_held_is_told_in_many_ways(path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Systems disagree about the error; each means that somebody else has it, or that it is worth another try."""
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(fcntl, "flock", refuse(code))
    Time(monkeypatch)
    with pytest.raises(LockHeldError) as told:
        disk.lock(0, path, 20)
    assert f"{path}: held by another process for 20 ms; nothing was recorded; try again" == str(told.value)


def test_a_lock_is_waited_for_in_growing_pauses(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of a millisecond at first, half as much again each time, four at most, and no longer than told in all."""
    time = Time(monkeypatch)
    monkeypatch.setattr(disk, "try_lock", lambda _: False)
    with pytest.raises(LockHeldError):
        disk.lock(0, path, 50)
    pauses = time.pauses_s[:-1]
    assert pytest.approx(0.05) == sum(time.pauses_s)
    assert pytest.approx(0.0002) == pauses[0]
    assert pytest.approx([min(1.5 * pause, 0.004) for pause in pauses[:-1]]) == pauses[1:]
    assert pytest.approx(0.004) == max(time.pauses_s)


def test_a_lock_that_is_not_waited_for_is_given_up_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zero milliseconds are one try."""
    time = Time(monkeypatch)
    tries: list[int] = []
    monkeypatch.setattr(disk, "try_lock", tries.append)
    with pytest.raises(LockHeldError):
        disk.lock(7, path, 0)
    assert ([7], []) == (tries, time.pauses_s)


def test_a_lock_that_comes_free_is_had(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting ends as soon as somebody gives it back, however much of the wait is left."""
    time = Time(monkeypatch)
    free = iter([False, False, False, True])
    monkeypatch.setattr(disk, "try_lock", lambda _: next(free))
    disk.lock(0, path, 250)
    assert [] == list(free)
    assert pytest.approx([0.0002, 0.0003, 0.00045]) == time.pauses_s


def test_a_pause_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of a millisecond: tries are counted in it."""
    time = Time(monkeypatch)
    disk.pause()
    assert [0.0002] == time.pauses_s


def test_where_there_is_no_fcntl_the_first_byte_is_locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for Windows, whose locks begin where the file is read just now: there is one lock, at byte 0."""
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
