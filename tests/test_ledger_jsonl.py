"""The log file and its many writers: stale state, planted files, a held lock, and a disk that refuses."""

from __future__ import annotations

from contextlib import contextmanager
import errno
import os
from pathlib import Path
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from helpers.ledger_disk import refuse
from helpers.ledger_head import Flushes, fail
from helpers.ledger_logs import BY, Clock, append, lines, names, rated
from helpers.repository import ROOT
from tallybook.ledger import log as files
from tallybook.ledger.errors import (
    CannotWriteError,
    DamagedLedgerError,
    OutcomeUnknownError,
)
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def unprivileged() -> Iterator[None]:
    """Drop the administrator's right to write everywhere, if the tests run with it."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def full_after(room: int) -> Callable[[int, bytes], int]:
    """Return a stand-in for a full disk: the log takes ``room`` more bytes in a short write, then nothing."""
    left = [room]
    real = os.write

    def write(fd: int, data: bytes) -> int:
        taken = real(fd, data[: left[0]])
        left[0] -= taken
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return taken

    return write


def append_two(log: JsonlLog) -> None:
    """Append two batches in one transaction."""
    with log.transaction() as tx:
        tx.append(rated("a"), BY)
        tx.append(rated("b"), BY)


HOOK = """
import sys
from pathlib import Path
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import disk
from tallybook.ledger.line import Draft
with JsonlLog(Path(sys.argv[1])).transaction() as tx:
    tx.append([Draft("point.rated", 1, {"name": "a", "rating": "helpful"})], {"rater": "agent"}, "k")
slow = {"attrs", "attr", "cattrs", "cattr", "msgspec", "click", "rich", "datetime", "uuid"}
print(sorted(slow & sys.modules.keys()))
"""

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a ledger that does not exist yet."""
    return tmp_path / "ledger"


@pytest.mark.parametrize("resident", [True, False])
def test_a_deleted_log_is_damage(log: JsonlLog, *, resident: bool) -> None:
    """If there is a head, readers and writers refuse a missing log, and none is created in its place."""
    log.path.unlink()
    other = log if resident else JsonlLog(log.folder)
    for act in (lambda: list(other.read()), other.transaction().__enter__):
        with pytest.raises(DamagedLedgerError):
            act()
    assert other.exists()
    assert not log.path.exists()


def test_a_read_only_folder_can_be_read() -> None:
    """Reading needs no right to write, and a writer reports in one line that it lacks that right."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "ledger"
        append(JsonlLog(folder), "a")
        for path in (Path(name), folder):
            path.chmod(0o555)
        for path in folder.iterdir():
            path.chmod(0o444)
        log = JsonlLog(folder)
        with unprivileged():
            assert ["a"] == names(log)
            with pytest.raises(CannotWriteError):
                append(log, "b")
        assert ["a"] == names(log)
        for path in (Path(name), folder):
            path.chmod(0o755)


def test_a_hook_loads_the_standard_library_only(folder: Path) -> None:
    """Appending in a process of its own, with a key, loads no library and none of the slow modules."""
    done = subprocess.run(
        [sys.executable, "-c", HOOK, str(folder)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "[]\n" == done.stdout
    assert ["a"] == names(JsonlLog(folder))


@pytest.mark.parametrize("spare", [0, 1, 100])
def test_a_disk_that_fills_between_two_batches_is_reported_as_unknown(
    log: JsonlLog, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    """If the first batch did fit, the error must not say that nothing was recorded, or it would be sent again."""
    first = append(log, "a")
    assert first is not None
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_after(len(first.raw) + spare))
        with pytest.raises((CannotWriteError, OutcomeUnknownError)) as told:
            append_two(log)
    assert told.type is OutcomeUnknownError or ["first", "a"] == names(JsonlLog(log.folder))


def test_a_duplicate_batch_is_flushed_too(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first delivery may not be durable yet, so the second is acknowledged after a flush of its own."""
    append(log, "a", key="k")
    flushed: list[int] = []
    monkeypatch.setattr(disk, "flush_data", flushed.append)
    assert append(log, "a", key="k") is None
    assert 1 == len(flushed)


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


NAMES = ["events.jsonl", "head", "lock"]


@pytest.mark.parametrize("lost", ["", "head"])
def test_a_backup_by_hard_links_blocks_no_writer(log: JsonlLog, tmp_path: Path, lost: str) -> None:
    """The ledger's own files are recognised by their content, even if the head is lost."""
    log.close()
    for name in NAMES:
        (tmp_path / name).hardlink_to(log.folder / name)
    if lost:
        (log.folder / lost).unlink()
    append(log, "a")
    assert ["first", "a"] == names(JsonlLog(log.folder))


@pytest.mark.parametrize(("seconds", "is_kept"), [(-1, True), (-3600, True), (-3601, False), (1, False)])
def test_time_runs_back_only_by_more_than_an_hour(tmp_path: Path, seconds: float, is_kept: bool) -> None:
    """An event of a clock up to an hour behind has the last one's time; a clock further behind is believed."""
    clock = Clock()
    log = JsonlLog(tmp_path, clock)
    append(log, "a")
    before = clock().at
    later = clock.move(seconds)
    append(log, "b")
    assert (before if is_kept else later) == lines(log)[-1]["at"]
