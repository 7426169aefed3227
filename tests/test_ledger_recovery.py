"""Recovery: torn ends, holes and damage, and that acknowledged batches read the same after each of them."""

from __future__ import annotations

from contextlib import suppress
import os
from pathlib import Path

import pytest

from helpers.ledger_logs import BEGIN_US, BY, append, lines, names, rated
from tallybook.ledger.clock import moment
from tallybook.ledger.damage import ByteRange
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.line import Position, RawBatch, Stamp, frame
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import disk
from tallybook.ledger.storage import head as heads


def batch_at(mark: Position, *some: str) -> RawBatch:
    """Return a batch that fits after a position, always of the same bytes."""
    ids = iter(range(100))
    stamp = Stamp(mark, moment(BEGIN_US).at, BY, lambda: f"00000000-0000-7000-8000-{next(ids):012d}", lambda: "0" * 16)
    return frame(rated(*some), stamp)


def acknowledged_log(folder: Path, *some: str) -> JsonlLog:
    """Return a ledger in which a process that has ended acknowledged each of some ratings."""
    log = JsonlLog(folder, lambda: moment(BEGIN_US))
    for name in some:
        append(log, name)
    log.close()
    return log


def add(log: JsonlLog, tail: bytes) -> int:
    """Add unacknowledged bytes, and return where they begin."""
    begin = log.path.stat().st_size
    with log.path.open("ab") as file:
        file.write(tail)
    return begin


def quarantined(log: JsonlLog) -> dict[str, bytes]:
    """Return the files in quarantine."""
    folder = log.folder / "quarantine"
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the ledger."""
    return tmp_path / "ledger"


@pytest.fixture
def log(folder: Path) -> JsonlLog:
    """Return a ledger with the ratings a and b."""
    return acknowledged_log(folder, "a", "b")


@pytest.fixture(autouse=True)
def flushed(monkeypatch: pytest.MonkeyPatch) -> dict[int, bytes]:
    """Replace the disk's flush, the slowest part of these tests; return the content of each file at its last flush."""
    held: dict[int, bytes] = {}

    def flush(fd: int) -> None:
        found = os.fstat(fd)
        # A copy in quarantine is open for writing alone, and nobody asks for it.
        with suppress(OSError):
            held[found.st_ino] = os.pread(fd, found.st_size, 0)

    monkeypatch.setattr(disk, "flush_data", flush)
    monkeypatch.setattr(os, "fsync", flush)
    return held


def assert_sealed(log: JsonlLog, before: bytes, tail: bytes) -> None:
    """Append, and check that the tail is sealed: left in place, copied to quarantine, named by range and digest."""
    acknowledged = names(log)
    append(log, "after")
    assert [*acknowledged, "after"] == names(JsonlLog(log.folder))
    data = log.path.read_bytes()
    assert data.startswith(before + tail)
    seal = next(line for line in lines(log) if line["kind"] == "log.recovered")
    begin, end = seal["body"]["begin"], seal["body"]["end"]
    assert (len(before), {"rater": "tallybook"}) == (begin, seal["by"])
    # What the writer adds so that the sealing line stands on a line of its own belongs to the range.
    assert data[begin:end].startswith(tail)
    assert b"\n" == data[end - 1 : end]
    fd = os.open(log.path, os.O_RDONLY)
    assert ByteRange(fd, begin).digest(end) == seal["body"]["digest"]
    os.close(fd)
    assert {f"{begin}-{begin + len(tail)}.bin": tail} == quarantined(log)


def test_an_end_torn_at_any_byte_is_sealed(tmp_path: Path) -> None:
    """Wherever a batch of two lines breaks off, even before its last byte, the next writer seals it and continues."""
    sample = acknowledged_log(tmp_path / "sample", "a", "b")
    before, head = sample.path.read_bytes(), (sample.folder / "head").read_bytes()
    batch = batch_at(sample.head(), "torn", "torn").raw
    for cut in range(1, len(batch)):
        log = JsonlLog(tmp_path / str(cut), lambda: moment(BEGIN_US))
        log.folder.mkdir()
        log.path.write_bytes(before + batch[:cut])
        (log.folder / "head").write_bytes(head)
        assert ["a", "b"] == names(log)
        assert_sealed(log, before, batch[:cut])
        log.close()


def test_a_whole_batch_after_the_head_counts(log: JsonlLog) -> None:
    """Its writer died between the write and the acknowledgement: it is read and continued, and nothing is sealed."""
    add(log, batch_at(log.head(), "c", "d").raw)
    assert ["a", "b", "c", "d"] == names(log)
    append(log, "after")
    assert ["a", "b", "c", "d", "after"] == names(log)
    assert {} == quarantined(log)


@pytest.mark.parametrize("head", [None, b"", b"\0" * heads.HEAD_BYTES], ids=["missing", "empty", "torn"])
def test_without_a_head_an_end_torn_at_any_byte_is_sealed(tmp_path: Path, head: bytes | None) -> None:
    """An unfinished batch at the end was never acknowledged, even without a head."""
    sample = acknowledged_log(tmp_path / "sample", "a", "b")
    before, batch = sample.path.read_bytes(), batch_at(sample.head(), "torn", "torn").raw
    # An invalid head is no head: every eleventh byte is enough for it.
    for cut in range(1, len(batch), 1 if head is None else 11):
        log = JsonlLog(tmp_path / str(cut), lambda: moment(BEGIN_US))
        log.folder.mkdir()
        log.path.write_bytes(before + batch[:cut])
        if head is not None:
            (log.folder / "head").write_bytes(head)
        assert ["a", "b"] == names(log), cut
        assert_sealed(log, before, batch[:cut])
        log.close()


def test_without_a_head_a_changed_batch_is_damage(log: JsonlLog) -> None:
    """If whole batches follow the bad place, whether they were acknowledged is unknown."""
    (log.folder / "head").unlink()
    damaged = log.path.read_bytes().replace(b'"name":"a"', b'"name":"x"')
    log.path.write_bytes(damaged)
    for act in (lambda: names(log), log.transaction().__enter__):
        with pytest.raises(DamagedLedgerError):
            act()
    assert (damaged, {}) == (log.path.read_bytes(), quarantined(log))
