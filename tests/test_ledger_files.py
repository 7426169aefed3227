"""The files of a ledger as a writer opens them: their owners, missing ones, and open descriptors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from helpers.ledger_logs import append, names
from tallybook.ledger.backends.files import Files
from tallybook.ledger.backends.jsonl import JsonlLog
from tallybook.ledger.errors import CannotWriteError, DamagedLedgerError, LockHeldError, OutcomeUnknownError
from tallybook.ledger.line import START
from tallybook.ledger.storage import disk
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.head import Head

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["events.jsonl", "head", "lock"]


@pytest.fixture
def log(tmp_path: Path) -> JsonlLog:
    """Return a ledger with one acknowledged rating, and no open file."""
    opened = JsonlLog(tmp_path / "ledger")
    append(opened, "first")
    opened.close()
    return opened


def open_now() -> set[int]:
    """Return the descriptors that are open, among the numbers that the tests reach."""
    found = set()
    for fd in range(4096):
        try:
            os.fstat(fd)
        except OSError:
            continue
        found.add(fd)
    return found


def plant(path: Path, target: Path, data: bytes) -> None:
    """Replace one of the ledger's files by a hard link to someone else's file."""
    target.write_bytes(data)
    path.unlink(missing_ok=True)
    path.hardlink_to(target)


def test_every_file_is_open_for_writing(log: JsonlLog) -> None:
    """The lock is too, because network file systems lock only writable files exclusively."""
    fcntl = pytest.importorskip("fcntl")
    files = Files(log.folder)
    flags = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in (files.log, files.head, files.lock)]
    files.close()
    assert [os.O_RDWR] * 3 == [one & os.O_ACCMODE for one in flags]
    assert [True, False, False] == [bool(one & os.O_APPEND) for one in flags]


def test_newly_opened_files_have_no_transaction(log: JsonlLog) -> None:
    """The boot and the log's identity are known; its end, the head and failures are not read yet."""
    files = Files(log.folder)
    files.close()
    assert (disk.boot_id(), log.path.stat().st_ino) == (files.boot, files.inode)
    assert (None, 0, False) == (files.tail, files.failures, files.busy)


def test_opened_files_are_closed(log: JsonlLog) -> None:
    """All of them are closed, and nothing else."""
    before = open_now()
    files = Files(log.folder)
    assert {files.log, files.head, files.lock} == open_now() - before
    files.close()
    assert before == open_now()


def test_a_file_with_the_number_of_standard_input_is_closed_too(log: JsonlLog) -> None:
    """A hook may start without standard input; then the first file that it opens is number 0."""
    kept = os.dup(0)
    os.close(0)
    try:
        files = Files(log.folder)
        assert 0 == files.lock
        files.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(0)
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_cannot_be_opened_leaves_none_open(log: JsonlLog, tmp_path: Path, name: str) -> None:
    """It holds for each of the files; descriptors that were open before stay open."""
    (log.folder / name).unlink()
    (log.folder / name).symlink_to(tmp_path / "nowhere")
    before = open_now()
    with pytest.raises(CannotWriteError, match="is a symbolic link"):
        Files(log.folder)
    assert before == open_now()


@pytest.mark.parametrize("offset", [1, 812])
def test_a_missing_log_is_reported_with_its_last_event(log: JsonlLog, offset: int) -> None:
    """If a single byte was acknowledged, it is damage; no file stays open, and none is created."""
    log.path.unlink()
    (log.folder / "head").write_bytes(heads.encode(Head(START._replace(seq=2345, offset=offset), "")))
    before = open_now()
    with pytest.raises(DamagedLedgerError) as damage:
        Files(log.folder)
    told = "events.jsonl: is missing, and held 2,345 events; the ledger is damaged, run `tallybook verify`"
    assert (told, 2345) == (str(damage.value), damage.value.problems[0].seq)
    assert (before, False) == (open_now(), log.path.exists())


def test_an_unacknowledged_missing_log_is_created(log: JsonlLog) -> None:
    """A writer that died between the head and the first line blocks no later one."""
    log.path.unlink()
    (log.folder / "head").write_bytes(heads.encode(Head(START, "")))
    append(log, "a")
    assert ["a"] == names(JsonlLog(log.folder))


@pytest.mark.parametrize("name", ["events.jsonl", "head"])
@pytest.mark.parametrize("data", [b"", b"precious\n", b'{"crc":"00000000","seq":2,"id":"x"}\n'])
def test_a_hard_link_to_someone_elses_file_is_refused(log: JsonlLog, tmp_path: Path, name: str, data: bytes) -> None:
    """Nothing is written to it, and the message names the file."""
    for other in ("events.jsonl", "head"):
        (log.folder / other).unlink()
    plant(log.folder / name, tmp_path / "victim", data)
    before = open_now()
    with pytest.raises(CannotWriteError) as told:
        Files(log.folder)
    said = "is a hard link to a file that is not the ledger's; move it away"
    assert (f"{log.folder / name}: {said}", before) == (str(told.value), open_now())
    assert data == (tmp_path / "victim").read_bytes()


@pytest.mark.parametrize("lost", ["", "head"])
def test_a_backup_by_hard_links_blocks_no_writer(log: JsonlLog, tmp_path: Path, lost: str) -> None:
    """The ledger's own files are recognised by their content, even if the head is lost."""
    for name in NAMES:
        (tmp_path / name).hardlink_to(log.folder / name)
    if lost:
        (log.folder / lost).unlink()
    append(log, "a")
    assert ["first", "a"] == names(JsonlLog(log.folder))


def test_a_hard_linked_acknowledged_log_is_the_ledgers_own(log: JsonlLog, tmp_path: Path) -> None:
    """Foreign content in it is then damage to report, and not a file to move away."""
    plant(log.path, tmp_path / "victim", b"x" * 10_000)
    files = Files(log.folder)
    assert (tmp_path / "victim").stat().st_ino == files.inode
    files.close()


def test_the_error_of_a_held_lock_names_it(log: JsonlLog) -> None:
    """The message has its path, so that a person can find the process that holds it."""
    with log.transaction(), pytest.raises(LockHeldError) as told:
        JsonlLog(log.folder).transaction(wait_ms=0).__enter__()
    assert f"{log.folder / 'lock'}: held by another process for 0 ms; nothing was recorded; try again" == str(
        told.value
    )


def test_a_writer_creates_these_files_and_no_others(log: JsonlLog) -> None:
    """The only other one is the file that hides them from git."""
    assert sorted([".gitignore", *NAMES]) == sorted(path.name for path in log.folder.iterdir())


def test_a_transaction_ends_even_if_its_lock_is_not_released(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's refusal is reported, and this process does not wait for its own lock."""
    given: list[int] = []

    def refuse(fd: int) -> None:
        given.append(fd)
        raise OutcomeUnknownError("ledger", "refused")

    files = Files(log.folder)
    files.busy = True
    monkeypatch.setattr(disk, "unlock", refuse)
    with pytest.raises(OutcomeUnknownError):
        files.release()
    files.close()
    assert ([files.lock], False) == (given, files.busy)
