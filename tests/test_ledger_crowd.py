"""Writers that arrive while others flush: the note for the next writer, and how far the head moves."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from helpers.ledger_head import Flushes, Killed, append_failing, die, fail
from helpers.ledger_logs import append, names
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.reading import repair, scan
from tallybook.ledger.storage import disk
from tallybook.ledger.storage import head as heads
from tallybook.ledger.verification import verify

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.ledger.line import Position
    from tallybook.ledger.storage.head import Head

OTHER_BOOT = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the list of the ranges, as (begin, end), that writers read from now on to find the end."""
    ranges: list[tuple[int, int]] = []

    def begin(fd: int, start: Position, end: int, *args: Any, **kwargs: Any) -> scan.Scan:
        if "index" not in kwargs:
            ranges.append((start.offset, end))
        return scan.Scan(fd, start, end, *args, **kwargs)

    monkeypatch.setattr(repair, "Scan", begin)
    return ranges


def abandon(log: JsonlLog, monkeypatch: pytest.MonkeyPatch, *some: str) -> None:
    """Append by writers that reach their flush, one after another, and stop there."""
    for name in some:
        with monkeypatch.context() as patch:
            patch.setattr(disk, "flush_data", Flushes(die))
            with pytest.raises(Killed):
                append(JsonlLog(log.folder), name)


def note_of(log: JsonlLog) -> Head | None:
    """Return the note."""
    return heads.decode((log.folder / "lock").read_bytes())


def renote(log: JsonlLog, change: Callable[[Head], Head]) -> None:
    """Change the note."""
    note = note_of(log)
    assert note is not None
    (log.folder / "lock").write_bytes(heads.encode(change(note)))


def test_a_noted_range_is_not_read_again(
    log: JsonlLog, scanned: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of a crowd reads what follows the head; each later writer reads on from the note."""
    offset = log.head().offset
    abandon(log, monkeypatch, "a", "b", "c", "d")
    assert [(offset, list(log.read())[2].position.offset)] == scanned
    append(log, "e")
    assert (1, list("abcde")) == (len(scanned), names(log)[1:])
    assert () == verify(log).problems


def test_the_batch_of_a_writer_that_died_before_its_note_is_read(
    log: JsonlLog, scanned: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next writer reads from the last note on, and no more."""
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
def test_an_untrusted_note_is_ignored(
    log: JsonlLog,
    scanned: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Head], Head],
) -> None:
    """If a power loss or another log made the note untrue, the log itself is read."""
    abandon(log, monkeypatch, "a", "b")
    renote(log, change)
    scanned.clear()
    begin, size = log.head().offset, log.path.stat().st_size
    append(JsonlLog(log.folder), "c")
    assert ([(begin, size)], list("abc")) == (scanned, names(log)[1:])


def test_a_note_after_a_cut_hides_no_damage(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head is checked first: a log that ends before it has lost acknowledged events."""
    abandon(log, monkeypatch, "a", "b")
    noted = log.path.stat().st_size
    append(log, "c")
    append(log, "d")
    os.truncate(log.path, noted)
    with pytest.raises(DamagedLedgerError):
        append(JsonlLog(log.folder), "e")


def test_a_note_after_a_failed_flush_proves_nothing(
    log: JsonlLog, scanned: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole log is then read, from its first byte."""
    abandon(log, monkeypatch, "a", "b")
    with monkeypatch.context() as patch:
        patch.setattr(disk, "flush_data", Flushes(fail))
        append_failing(JsonlLog(log.folder), "c")
    scanned.clear()
    size = log.path.stat().st_size
    append(JsonlLog(log.folder), "d")
    assert ([(0, size)], list("abcd")) == (scanned, names(log)[1:])


def test_a_flush_does_not_acknowledge_later_writes(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk may have been flushed before those bytes, so the head moves to the flushing writer's own end."""
    abandon(log, monkeypatch, "before")
    own: list[int] = []

    def write_meanwhile() -> None:
        own.append(log.path.stat().st_size)
        abandon(log, monkeypatch, "behind")

    monkeypatch.setattr(disk, "flush_data", Flushes(write_meanwhile))
    append(log, "a")
    assert ["first", "before", "a", "behind"] == names(log)
    assert own == [log.head().offset]
