"""Writers of the log file: their flushes, what they read again, and the message of each refusal."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from helpers.ledger_disk import refuse
from helpers.ledger_head import Flushes, append_failing, fail, head_of
from helpers.ledger_jsonl import append_two, full_after
from helpers.ledger_logs import BY, append, names, rated
from tallybook.ledger import log as files
from tallybook.ledger.errors import CannotWriteError, LockHeldError, OutcomeUnknownError
from tallybook.ledger.line import START
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.head import HEAD_BYTES, Head

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of the files, by inode, that are flushed from now on."""
    inodes: list[int] = []
    monkeypatch.setattr(disk, "flush_data", lambda fd: inodes.append(os.fstat(fd).st_ino))
    monkeypatch.setattr(os, "fsync", lambda fd: inodes.append(os.fstat(fd).st_ino))
    return inodes


def unknown(path: Path, why: str = "Input/output error") -> str:
    """Return the message of an unknown outcome."""
    return f"{path}: could not be flushed ({why}), so it may or may not be recorded; check with `tallybook log`"


def foreign(log: JsonlLog, data: bytes = b"mine\n") -> None:
    """Write to the log like a program that uses no lock."""
    with log.path.open("ab") as file:
        file.write(data)


def append_during(log: JsonlLog, name: str, data: bytes) -> None:
    """Append a rating while another program writes."""
    with log.transaction() as tx:
        foreign(log, data)
        tx.append(rated(name), BY)


def test_a_new_ledger_is_durable_as_a_whole(tmp_path: Path, flushed: list[int]) -> None:
    """Head and names are flushed before the first event, the head again after it; later only the log."""
    log = JsonlLog(tmp_path)
    append(log, "a")
    folder, head, events = (path.stat().st_ino for path in (tmp_path, tmp_path / "head", log.path))
    assert [head, folder, events, head] == flushed
    flushed.clear()
    append(log, "b")
    assert [events] == flushed


def test_a_ledger_that_cannot_be_created_records_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a confirmed head there is no first event, and the error names the folder; a later try creates it."""
    log = JsonlLog(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "flush_data", refuse(errno.EIO))
        with pytest.raises(CannotWriteError) as told:
            append(log, "lost")
    assert f"{tmp_path}: Input/output error; nothing was recorded; try again" == str(told.value)
    assert b"" == log.path.read_bytes()
    append(log, "a")
    assert ["a"] == names(log)


def test_a_nested_transaction_is_refused(log: JsonlLog) -> None:
    """It would wait for its own lock, so it raises, and the outer one continues."""
    with log.transaction() as tx:
        with pytest.raises(RuntimeError, match=r"^a transaction of this log is open; .* one at a time$"):
            log.transaction().__enter__()
        tx.append(rated("a"), BY)
    append(log, "b")
    assert ["first", "a", "b"] == names(log)


def test_closing_a_log_within_a_transaction_releases_its_lock(log: JsonlLog) -> None:
    """The lock is closed with the files, and the transaction ends without releasing anything."""
    with log.transaction(), pytest.raises(LockHeldError):
        JsonlLog(log.folder).transaction(wait_ms=0).__enter__()
    with log.transaction():
        log.close()
        append(JsonlLog(log.folder), "a")
    assert ["first", "a"] == names(log)


def test_anothers_failed_flush_is_reported_as_such(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system reports an error once, to one process: the error tells the other what that may mean."""
    monkeypatch.setattr(disk, "flush_data", Flushes(lambda: append_failing(JsonlLog(log.folder), "b"), fail))
    with pytest.raises(OutcomeUnknownError) as told:
        append(log, "a")
    assert unknown(log.path, "another writer's flush failed meanwhile") == str(told.value)


def test_an_unconfirmed_seal_is_recorded_even_if_the_head_is_torn(
    log: JsonlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No acknowledged position is known then, so the whole log is suspect."""
    foreign(log)
    (log.folder / "head").write_bytes(b"\0" * HEAD_BYTES)
    monkeypatch.setattr(disk, "flush_data", Flushes(fail))
    append_failing(JsonlLog(log.folder), "a")
    assert Head(START, disk.boot_id(), 0, 1) == head_of(log)


@pytest.mark.parametrize(
    ("steps", "call"), [([lambda: None, lambda: None, fail], "fsync"), ([], "pwrite")], ids=["flush", "write"]
)
def test_an_unconfirmed_head_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[Callable[[], None]], call: str
) -> None:
    """The batch is written and may be lost with the head, so the outcome is unknown."""
    log = JsonlLog(tmp_path)
    if not steps:
        append(log, "first")
        monkeypatch.setattr(os, call, refuse(errno.EIO))
    monkeypatch.setattr(disk, "flush_data", Flushes(*steps))
    with pytest.raises(OutcomeUnknownError) as told:
        append(log, "a")
    assert unknown(tmp_path / "head") == str(told.value)


def test_a_failure_that_cannot_be_noted_names_the_log(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the head cannot be written either, the outcome is unknown as well."""
    monkeypatch.setattr(disk, "flush_data", refuse(errno.EIO))
    monkeypatch.setattr(os, "pwrite", refuse(errno.ENOSPC))
    with pytest.raises(OutcomeUnknownError) as told:
        append(log, "a")
    assert unknown(log.path, "No space left on device") == str(told.value)


@pytest.mark.parametrize("step", [lambda: None, fail], ids=["flushed", "failed"])
def test_a_held_head_lock_is_given_up_after_some_tries(
    log: JsonlLog, monkeypatch: pytest.MonkeyPatch, step: Callable[[], None]
) -> None:
    """A writer retries the head's lock a number of times while its holder is stopped; then the outcome is unknown."""
    asked: list[int] = []

    def hold() -> None:
        monkeypatch.setattr(disk, "try_lock", asked.append)
        step()

    monkeypatch.setattr(files, "HEAD_TRIES", 3)
    monkeypatch.setattr(files, "REPORT_TRIES", 5)
    monkeypatch.setattr(disk, "pause", lambda: None)
    monkeypatch.setattr(disk, "flush_data", Flushes(hold))
    with pytest.raises(OutcomeUnknownError) as told:
        append(log, "a")
    assert unknown(log.folder / "head", "held by another process") == str(told.value)
    assert (5 if step is fail else 3) == len(asked)


def test_a_batch_after_a_foreign_line_is_not_recorded(log: JsonlLog) -> None:
    """Its offsets are wrong, so it is refused, and the next writer seals both."""
    with pytest.raises(CannotWriteError) as told:
        append_during(log, "lost", b"mine\n")
    assert f"{log.path}: another program wrote to it meanwhile; nothing was recorded; try again" == str(told.value)
    append(log, "a")
    assert ["first", "a"] == names(JsonlLog(log.folder))


def test_a_disk_that_fills_after_the_first_of_two_batches_is_reported_in_one_line(
    log: JsonlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is unknown which batch is recorded, and the message has the system's reason."""
    first = append(log, "a")
    assert first is not None
    monkeypatch.setattr(os, "write", full_after(len(first.raw)))
    with pytest.raises(OutcomeUnknownError) as told:
        append_two(log)
    refused = f"{log.path}: No space left on device; nothing was recorded; try again"
    assert unknown(log.path, f"written in part: {refused}") == str(told.value)
