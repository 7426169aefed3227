"""Recovery in steps: how much of the tail is read, what counts as an end, and each call that can fail."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from helpers.ledger_disk import refuse
from helpers.ledger_logs import append, lines, names
from helpers.ledger_recovery import acknowledged_log, add, batch_at, quarantined
from tallybook.ledger.errors import CannotWriteError, DamagedLedgerError
from tallybook.ledger.line import CHAIN_END, CHAIN_MARK, START
from tallybook.ledger.reading import damage, repair
from tallybook.ledger.storage import disk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallybook.ledger.line import Position
    from tallybook.ledger.log import JsonlLog
    from tallybook.ledger.reading.repair import Tail
    from tallybook.ledger.storage.head import Head

BOOT, AT = "this-boot", "2026-11-21T20:17:03.123456Z"
END = CHAIN_MARK + b"0123456789abcdef" * 2 + CHAIN_END


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the disk's flush, the slowest part of these tests."""
    monkeypatch.setattr(disk, "flush_data", os.fstat)
    monkeypatch.setattr(os, "fsync", os.fstat)
    monkeypatch.setattr(disk, "boot_id", lambda: BOOT)


@pytest.fixture
def log(tmp_path: Path) -> JsonlLog:
    """Return a ledger with the ratings a, b and c."""
    return acknowledged_log(tmp_path / "ledger", "a", "b", "c")


def head_of(log: JsonlLog) -> Head:
    """Return the head on disk."""
    found = log.read_head()
    assert found is not None
    return found


def tail_of(log: JsonlLog, head: Head | None, seen: Position | None = None) -> Tail:
    """Return the end of a log as read by a writer."""
    fd = os.open(log.path, os.O_RDONLY)
    try:
        return repair.find_tail(fd, log.path, os.fstat(fd).st_size, head, seen)
    finally:
        os.close(fd)


def change(log: JsonlLog, name: str) -> None:
    """Change a byte of the rating of a name."""
    log.path.write_bytes(log.path.read_bytes().replace(b'"name":"%b"' % name.encode(), b'"name":"x"'))


def positions(log: JsonlLog) -> list[Position]:
    """Return the position after each batch."""
    return [batch.position for batch in log.read()]


def refuse_for(path: Path, code: int) -> Callable[[int, bytes], int]:
    """Return a stand-in for a disk that refuses to write to one file."""
    real, inode = os.write, path.stat().st_ino

    def write(fd: int, data: bytes) -> int:
        return refuse(code)() if os.fstat(fd).st_ino == inode else real(fd, data)

    return write


@pytest.mark.parametrize("torn", [b"", b"torn"])
@pytest.mark.parametrize("first", [True, False])
def test_after_a_failed_flush_everything_is_verified(log: JsonlLog, torn: bytes, *, first: bool) -> None:
    """Damage before the head is reported with its place, and nothing is sealed over it."""
    head = head_of(log)
    change(log, "a")
    add(log, torn)
    with pytest.raises(DamagedLedgerError, match=r"^events\.jsonl:2: was changed") as damage:
        tail_of(log, head._replace(suspect=0 if first else head.position.offset, failures=1))
    assert (2, 2) == (damage.value.problems[0].seq, damage.value.problems[0].line)


def test_verified_batches_are_not_read_again(log: JsonlLog) -> None:
    """Reading begins at the later of the head and the last position that this process verified."""
    every, head = positions(log), head_of(log)
    change(log, "b")
    assert repair.Tail(every[-1], None) == tail_of(log, head._replace(position=every[1]), seen=every[2])
    assert repair.Tail(every[-1], None) == tail_of(log, head._replace(position=every[1]), seen=every[3])
    add(log, batch_at(log.head(), "d").raw)
    assert every[-1].seq + 1 == tail_of(log, head, seen=every[1]).position.seq


def test_a_verified_position_beyond_the_end_is_not_used(log: JsonlLog) -> None:
    """A log that was cut since this process read it is read from its head on."""
    every, head = positions(log), head_of(log)._replace(position=positions(log)[1])
    log.path.write_bytes(log.path.read_bytes()[: every[2].offset])
    assert repair.Tail(every[2], None) == tail_of(log, head, seen=every[3])


def is_torn(path: Path, data: bytes, begin: int = 0, more: int = 0) -> bool:
    """Return whether a file without a head has a torn end from a position on, with ``more`` bytes of it cut off."""
    path.write_bytes(b"\n" + data)
    fd = os.open(path, os.O_RDONLY)
    try:
        return damage.is_unclean(fd, START._replace(offset=1 + begin), None, 1 + len(data) + more)
    finally:
        os.close(fd)


def test_the_end_of_a_batch_is_found_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole batch after a damaged place is found, even if its end is split over two read windows."""
    monkeypatch.setattr(damage, "_WINDOW_BYTES", 64)
    seen = [not is_torn(tmp_path / "file", b"x" * before + END + b"y" * 7) for before in range(200)]
    assert [True] * 200 == seen
    assert is_torn(tmp_path / "file", END + b"y" * 200, begin=len(END))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        CHAIN_MARK,
        CHAIN_MARK + b"0" * 32,
        CHAIN_MARK + b"0" * 31 + CHAIN_END,
        CHAIN_MARK + b"0" * 33 + CHAIN_END,
        CHAIN_MARK + b"0" * 35,
        CHAIN_MARK + b"g" * 32 + CHAIN_END,
        CHAIN_MARK + b"A" * 32 + CHAIN_END,
        CHAIN_MARK + b"0" * 32 + CHAIN_END[:2] + b" ",
        END[1:],
    ],
)
def test_bytes_like_the_end_of_a_batch_are_not_one(tmp_path: Path, data: bytes) -> None:
    """Only the mark, a whole value and a line feed end a batch; a real one next to false ones is found."""
    path = tmp_path / "file"
    assert is_torn(path, data)
    assert is_torn(path, data + b"\n more")
    assert is_torn(path, data, more=10)
    assert [False] * 3 == [is_torn(path, whole) for whole in (data + END, END + data, data + END + data)]


def test_a_copy_has_no_byte_of_an_earlier_one(log: JsonlLog) -> None:
    """A file that a killed writer left under the copy's name is overwritten, holes included."""
    tail = b"\0" * 5000 + b"X" * 9000 + b"\n" * 9000 + b"\0" * 5000
    begin = add(log, tail)
    (log.folder / "quarantine").mkdir()
    name = f"{begin}-{begin + len(tail)}.bin"
    (log.folder / "quarantine" / name).write_bytes(b"left over " * 3000)
    append(log, "d")
    assert {name: tail} == quarantined(log)
    (seal,) = (line for line in lines(log) if line["kind"] == "log.recovered")
    assert 1 == seal["v"]


def test_a_copy_never_overwrites_a_linked_file(log: JsonlLog, tmp_path: Path) -> None:
    """A hard link planted under the copy's name is refused, and the linked file is unchanged."""
    (tmp_path / "victim").write_text("precious")
    begin = add(log, b"torn")
    copy = log.folder / "quarantine" / f"{begin}-{begin + 4}.bin"
    copy.parent.mkdir()
    copy.hardlink_to(tmp_path / "victim")
    with pytest.raises(CannotWriteError) as told:
        append(log, "d")
    assert f"{copy}: is a hard link to a file that is not the ledger's; move it away" == str(told.value)
    assert "precious" == (tmp_path / "victim").read_text()


@pytest.mark.parametrize("call", ["write", "fsync", "ftruncate"])
def test_a_copy_that_cannot_be_made_is_reported(log: JsonlLog, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Whichever call the disk refuses, the log is unchanged."""
    begin = add(log, b"torn")
    before = log.path.read_bytes()
    (log.folder / "quarantine").mkdir()
    monkeypatch.setattr(os, call, refuse(errno.ENOSPC))
    with pytest.raises(CannotWriteError) as told:
        append(log, "d")
    copy = log.folder / "quarantine" / f"{begin}-{begin + 4}.bin"
    assert f"{copy}: No space left on device; nothing was recorded; try again" == str(told.value)
    assert before == log.path.read_bytes()


@pytest.mark.parametrize("tail", [b"torn", b"torn\n"])
def test_a_seal_that_cannot_be_written_is_reported(log: JsonlLog, monkeypatch: pytest.MonkeyPatch, tail: bytes) -> None:
    """The error names the log, and once there is room the end is sealed."""
    add(log, tail)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse_for(log.path, errno.ENOSPC))
        with pytest.raises(CannotWriteError) as told:
            append(log, "d")
    assert f"{log.path}: No space left on device; nothing was recorded; try again" == str(told.value)
    append(log, "d")
    assert ["a", "b", "c", "d"] == names(log)


@pytest.mark.parametrize(("tail", "feed"), [(b"torn", 2), (b"torn\n", 0), (b"torn\nx", 2)])
def test_a_sealed_range_ends_with_a_line_feed(log: JsonlLog, tail: bytes, feed: int) -> None:
    """A missing line feed is added to a sealed range."""
    begin = add(log, tail)
    with log.transaction():
        pass
    sealed = lines(log)[-1]["body"]
    assert (begin, begin + len(tail) + feed) == (sealed["begin"], sealed["end"])
    assert b" \n"[2 - feed :] == log.path.read_bytes()[begin + len(tail) :][:feed]


def test_a_range_is_written_again_in_place_and_flushed(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes are written once, nothing before or after them, and then the file is flushed."""
    before, calls, real = log.path.read_bytes(), [], os.write

    def write(fd: int, data: bytes) -> int:
        calls.append((os.lseek(fd, 0, os.SEEK_CUR), bytes(data)))
        return real(fd, data)

    monkeypatch.setattr(repair, "_COPY_BYTES", 10)
    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(disk, "flush_data", lambda fd: calls.append((os.fstat(fd).st_ino, b"")))
    repair.rewrite(log.path, 100, 125)
    pieces = [(100, before[100:110]), (110, before[110:120]), (120, before[120:125])]
    assert [*pieces, (log.path.stat().st_ino, b"")] == calls
    assert before == log.path.read_bytes()


def test_a_log_that_cannot_be_rewritten_names_the_remedy(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """For an append-only file the error asks a person to lift the attribute once."""
    monkeypatch.setattr(os, "open", refuse(errno.EPERM))
    with pytest.raises(CannotWriteError) as told:
        repair.rewrite(log.path, 0, 100)
    assert (
        f"{log.path}: an earlier flush of it failed, and it must be written again: Operation not permitted; "
        "if the file is append-only, run `chattr -a` on it, then repeat the command"
    ) == str(told.value)


@pytest.mark.parametrize("call", ["write", "lseek"])
def test_a_range_that_cannot_be_rewritten_is_reported(
    log: JsonlLog, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Whichever call fails, nothing was recorded, and the error names the log."""
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse(errno.EIO))
        with pytest.raises(CannotWriteError) as told:
            repair.rewrite(log.path, 0, 100)
    assert f"{log.path}: Input/output error; nothing was recorded; try again" == str(told.value)
