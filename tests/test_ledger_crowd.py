"""Writers that come while others flush: the note that they leave one another, and how far the head goes."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from helpers.ledger_head import Flushes, Killed, append_failing, die, fail
from helpers.ledger_logs import append, names
from tallybook.ledger.backends.files import Files
from tallybook.ledger.backends.jsonl import JsonlLog
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.reading import recovery, scan
from tallybook.ledger.storage import disk
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.head import HEAD_BYTES, Head
from tallybook.ledger.verification import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from tallybook.ledger.line import Position

OTHER_BOOT = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the list of the ranges, as (begin, end), that writers read to find the end from now on."""
    ranges: list[tuple[int, int]] = []

    def begin(fd: int, start: Position, end: int, source: str, owed: Collection[str]) -> scan.Scan:
        ranges.append((start.offset, end))
        return scan.Scan(fd, start, end, source, owed)

    monkeypatch.setattr(recovery, "Scan", begin)
    return ranges


def abandon(log: JsonlLog, monkeypatch: pytest.MonkeyPatch, *some: str) -> None:
    """Append by writers that come to their flush, one behind the other, and no further."""
    for name in some:
        with monkeypatch.context() as patch:
            patch.setattr(disk, "flush_data", Flushes(die))
            with pytest.raises(Killed):
                append(JsonlLog(log.folder), name)


def note_of(log: JsonlLog) -> Head | None:
    """Return what is noted."""
    return heads.decode((log.folder / "lock").read_bytes())


def renote(log: JsonlLog, change: Callable[[Head], Head]) -> None:
    """Change what is noted."""
    note = note_of(log)
    assert note is not None
    (log.folder / "lock").write_bytes(heads.encode(change(note)))


def test_a_writer_by_itself_leaves_no_note(log: JsonlLog) -> None:
    """Who comes next finds the head at the end, and needs none."""
    append(log, "a")
    append(JsonlLog(log.folder), "b")
    assert b"" == (log.folder / "lock").read_bytes()


def test_a_writer_among_others_notes_where_it_ended(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, in this boot, and with nothing said of acknowledgement: the head stays where it was."""
    before = log.head()
    abandon(log, monkeypatch, "a", "b")
    end = list(log.read())[-1].position
    assert (Head(end, disk.boot_id()), before) == (note_of(log), log.head())
    assert log.path.stat().st_size == end.offset


def test_what_is_noted_is_not_read_again(
    log: JsonlLog, scanned: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of a crowd reads what stands behind the head; whoever follows goes on behind the note."""
    offset = log.head().offset
    abandon(log, monkeypatch, "a", "b", "c", "d")
    assert [(offset, list(log.read())[2].position.offset)] == scanned
    append(log, "e")
    assert (1, list("abcde")) == (len(scanned), names(log)[1:])
    assert () == verify(log).problems


def test_a_writer_that_died_before_its_note_is_read(
    log: JsonlLog, scanned: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the last note on, and no more than that."""
    abandon(log, monkeypatch, "a", "b")
    noted = list(log.read())[-1].position.offset
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda *_: die())
        with pytest.raises(Killed):
            append(JsonlLog(log.folder), "c")
    scanned.clear()
    size = log.path.stat().st_size
    append(JsonlLog(log.folder), "d")
    assert ([(noted, size)], list("abcd")) == (scanned, names(log)[1:])


@pytest.mark.parametrize(
    "change",
    [
        lambda note: note._replace(boot=OTHER_BOOT),
        lambda note: note._replace(boot=""),
        lambda note: note._replace(position=note.position._replace(chain="0" * 32)),
        lambda note: note._replace(position=note.position._replace(offset=note.position.offset + 1)),
    ],
    ids=["another boot", "no boot", "another chain", "another place"],
)
def test_a_note_that_cannot_be_trusted_is_passed_over(
    log: JsonlLog,
    scanned: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Head], Head],
) -> None:
    """What a power loss, or another log in the place of this one, leaves of it: the log itself is read."""
    abandon(log, monkeypatch, "a", "b")
    renote(log, change)
    scanned.clear()
    begin, size = log.head().offset, log.path.stat().st_size
    append(JsonlLog(log.folder), "c")
    assert ([(begin, size)], list("abc")) == (scanned, names(log)[1:])


@pytest.mark.parametrize("data", [b"", b"\0" * HEAD_BYTES, b"torn", b"tallybook-head 2 and more"])
def test_a_note_that_is_none_is_passed_over(log: JsonlLog, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Torn, empty or of a later version: it costs a look at the log and nothing else."""
    abandon(log, monkeypatch, "a", "b")
    (log.folder / "lock").write_bytes(data)
    append(JsonlLog(log.folder), "c")
    assert list("abc") == names(log)[1:]


def test_a_note_behind_which_the_log_was_cut_hides_no_damage(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head is asked first: a log that ends before it has lost what was acknowledged."""
    abandon(log, monkeypatch, "a", "b")
    noted = log.path.stat().st_size
    append(log, "c")
    append(log, "d")
    os.truncate(log.path, noted)
    with pytest.raises(DamagedLedgerError):
        append(JsonlLog(log.folder), "e")


def test_a_note_proves_nothing_behind_a_failed_flush(
    log: JsonlLog, scanned: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then all of the log is looked at, from its first byte."""
    abandon(log, monkeypatch, "a", "b")
    with monkeypatch.context() as patch:
        patch.setattr(disk, "flush_data", Flushes(fail))
        append_failing(JsonlLog(log.folder), "c")
    scanned.clear()
    size = log.path.stat().st_size
    append(JsonlLog(log.folder), "d")
    assert ([(0, size)], list("abcd")) == (scanned, names(log)[1:])


def test_nothing_is_noted_in_anothers_file(log: JsonlLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock with a second name may be a file of somebody else's."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"")
    (log.folder / "lock").unlink()
    (log.folder / "lock").hardlink_to(victim)
    abandon(log, monkeypatch, "a", "b", "c")
    assert (b"", list("abc")) == (victim.read_bytes(), names(log)[1:])


def test_nothing_is_noted_where_a_boot_has_no_name(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody could tell later whether the cache still holds what was written."""
    monkeypatch.setattr(disk, "boot_id", lambda: "")
    abandon(log, monkeypatch, "a", "b", "c")
    assert b"" == (log.folder / "lock").read_bytes()
    append(JsonlLog(log.folder), "d")
    assert list("abcd") == names(log)[1:]


def test_a_note_that_the_disk_refuses_costs_nothing(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch stands and is acknowledged; who comes next reads it."""
    abandon(log, monkeypatch, "a")
    real = os.pwrite

    def refuse_once(*_: object) -> int:
        monkeypatch.setattr(os, "pwrite", real)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", refuse_once)
    append(JsonlLog(log.folder), "b")
    assert b"" == (log.folder / "lock").read_bytes()
    append(JsonlLog(log.folder), "c")
    assert list("abc") == names(log)[1:]


def test_a_flush_does_not_speak_for_what_is_written_during_it(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk may have been asked before that was there, so the head goes to the flushing writer's own end."""
    abandon(log, monkeypatch, "before")
    own: list[int] = []

    def write_meanwhile() -> None:
        own.append(log.path.stat().st_size)
        abandon(log, monkeypatch, "behind")

    monkeypatch.setattr(disk, "flush_data", Flushes(write_meanwhile))
    append(log, "a")
    assert ["first", "before", "a", "behind"] == names(log)
    assert own == [log.head().offset]


def test_a_head_that_is_past_a_writer_is_not_locked(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a crowd whose flushes end together the first moves the head, and the others see it."""
    abandon(log, monkeypatch, "before")
    locked: list[str] = []

    def overtake() -> None:
        append(JsonlLog(log.folder), "later")
        monkeypatch.setattr(Files, "lock_head", lambda *_: locked.append("head"))

    monkeypatch.setattr(disk, "flush_data", Flushes(overtake))
    append(log, "a")
    assert ([], ["first", "before", "a", "later"]) == (locked, names(log))
    assert log.path.stat().st_size == log.head().offset
