"""The log file and its many writers: stale state, planted files, a held lock, and a disk that refuses."""

from __future__ import annotations

import os
from pathlib import Path
import shutil
import subprocess
import sys
import tempfile

import pytest

from helpers.ledger_jsonl import append_two, full_after, unprivileged
from helpers.ledger_logs import BY, append, lines, names, rated
from helpers.repository import ROOT
from tallybook.ledger.errors import (
    CannotWriteError,
    DamagedLedgerError,
    LockHeldError,
    OutcomeUnknownError,
)
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import disk

HOLDER = """
import fcntl, sys
held = open(sys.argv[1], "rb+")
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
HOOK = """
import sys
from pathlib import Path
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.line import Draft
with JsonlLog(Path(sys.argv[1])).transaction() as tx:
    tx.append([Draft("point.rated", 1, {"name": "a", "rating": "helpful"})], {"rater": "agent"}, "k")
slow = {"attrs", "attr", "cattrs", "cattr", "msgspec", "click", "rich", "datetime", "uuid"}
print(sorted(slow & sys.modules.keys()))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a ledger that does not exist yet."""
    return tmp_path / "ledger"


def test_writers_take_turns(log: JsonlLog) -> None:
    """Two objects on one folder notice each other's batches, whichever wrote last, and make one chain."""
    other = JsonlLog(log.folder)
    for turn in range(6):
        append((log, other)[turn % 2], f"a{turn}")
        append((log, other)[turn // 2 % 2], f"b{turn}")
    assert names(log)[1:] == [f"{name}{turn}" for turn in range(6) for name in "ab"]
    assert list(range(1, 15)) == [line["seq"] for line in lines(other)]


def test_a_duplicate_batch_is_flushed_too(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first delivery may not be durable yet, so the second is acknowledged after a flush of its own."""
    append(log, "a", key="k")
    flushed: list[int] = []
    monkeypatch.setattr(disk, "flush_data", flushed.append)
    assert append(log, "a", key="k") is None
    assert 1 == len(flushed)


def test_a_log_replaced_under_a_writer_is_opened_anew(log: JsonlLog) -> None:
    """After a rename over the log a writer with open files writes to the file that now has the name."""
    copy = log.folder / "copy"
    shutil.copyfile(log.path, copy)
    copy.rename(log.path)
    append(log, "a")
    assert ["first", "a"] == names(JsonlLog(log.folder))


def test_a_lock_deleted_under_a_writer_is_noticed(log: JsonlLog) -> None:
    """Deleting the lock file, which the message about a held lock names, does not let two writers in at once."""
    (log.folder / "lock").unlink()
    with JsonlLog(log.folder).transaction() as tx:
        tx.append(rated("a"), BY)
        with pytest.raises(LockHeldError):
            log.transaction(wait_ms=0).__enter__()
    append(log, "b")
    assert ["first", "a", "b"] == names(log)


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


def test_a_link_in_place_of_gitignore_is_not_followed(folder: Path, tmp_path: Path) -> None:
    """The file that hides the ledger from git is not written through a link either."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder.mkdir()
    (folder / ".gitignore").symlink_to(victim)
    try:
        append(JsonlLog(folder), "a")
    except CannotWriteError:
        assert not names(JsonlLog(folder))
    assert "precious" == victim.read_text()


def test_the_lock_of_a_killed_process_is_released(log: JsonlLog) -> None:
    """A writer gives up at its time limit while another process holds the lock, and gets it once that is killed."""
    command = [sys.executable, "-c", HOLDER, str(log.folder / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert b"held\n" == holder.stdout.readline()
        with pytest.raises(LockHeldError, match="held by another process for 20 ms"):
            log.transaction(wait_ms=20).__enter__()
        holder.kill()
        holder.wait()
    append(log, "a")
    assert ["first", "a"] == names(log)


def test_a_hook_loads_the_standard_library_only(folder: Path) -> None:
    """Appending in a process of its own, with a key, loads no library and none of the slow modules."""
    done = subprocess.run(
        [sys.executable, "-c", HOOK, str(folder)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "[]\n" == done.stdout
    assert ["a"] == names(JsonlLog(folder))


@pytest.mark.parametrize("room", [0, 1, 200])
def test_a_full_disk_records_nothing(log: JsonlLog, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """A stand-in for a full disk takes part of the batch: no reader sees it, and with room again the log works on."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_after(room))
        with pytest.raises(CannotWriteError, match="No space left"):
            append(log, "lost", "lost")
    assert ["first"] == names(log)
    append(log, "a")
    assert ["first", "a"] == names(JsonlLog(log.folder))


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
