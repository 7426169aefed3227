"""The head: its bytes, its moves, and its record of failed flushes."""

from __future__ import annotations

import binascii
from contextlib import suppress
import errno
import os
from pathlib import Path
from threading import Event, Thread
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.ledger_files import Flushes, Killed, append_failing, die, fail, head_of
from helpers.ledger_logs import BEGIN_US, BY, append, lines, make_ratings, names
from tallybook.ledger import damage, scan
from tallybook.ledger.clock import moment
from tallybook.ledger.damage import ByteRange
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.line import Position, RawBatch, Stamp, frame
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import disk
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.head import HEAD_BYTES, Head, decode, encode
from tallybook.ledger.verification import verify

AT = "2026-11-21T20:17:03.123456Z"
COUNTS = st.integers(0, 2**53)
CHAINS = st.text("0123456789abcdef", min_size=32, max_size=32)
HEADS = st.builds(
    Head,
    st.builds(Position, COUNTS, CHAINS, COUNTS, st.sampled_from(["", AT])),
    st.integers(-1, 2**53),
    st.integers(0, 2**31),
)
EXAMPLE = Head(Position(812, "0123456789abcdef" * 2, 234_567, AT), -1, 0)


@pytest.fixture
def log(tmp_path: Path) -> JsonlLog:
    """Return a ledger with one acknowledged batch."""
    opened = JsonlLog(tmp_path / "ledger")
    append(opened, "first")
    return opened


@pytest.fixture
def other(log: JsonlLog) -> JsonlLog:
    """Return the same ledger as opened by another process."""
    return JsonlLog(log.folder)


@pytest.fixture
def rewritten(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the list of the ranges that are written again from now on."""
    ranges: list[tuple[int, int]] = []
    real = damage.rewrite

    def write_again(path: Path, begin: int, end: int) -> None:
        ranges.append((begin, end))
        real(path, begin, end)

    monkeypatch.setattr(damage, "rewrite", write_again)
    return ranges


@given(HEADS)
def test_a_head_survives_a_round_trip(head: Head) -> None:
    """Any head fills its fixed size and is read as it was written."""
    assert HEAD_BYTES == len(encode(head))
    assert head == decode(encode(head))


def test_a_changed_bit_never_makes_another_head() -> None:
    """Every flipped bit is noticed, or does not matter (white space is white space)."""
    data = bytearray(encode(EXAMPLE))
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        assert decode(bytes(data)) in {None, EXAMPLE}, bit
        data[bit // 8] ^= 1 << bit % 8


def test_the_head_moves_after_the_flush(log: JsonlLog, other: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a batch is being flushed it is not acknowledged."""
    before = other.head()
    seen: list[Position] = []
    monkeypatch.setattr(disk, "flush_data", Flushes(lambda: seen.append(other.head())))
    append(log, "a")
    assert [before] == seen
    assert before.seq + 1 == other.head().seq


def test_the_head_never_moves_back(log: JsonlLog, other: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer whose flush took longer than a later writer's leaves the later one's head."""
    monkeypatch.setattr(disk, "flush_data", Flushes(lambda: append(other, "late")))
    append(log, "slow")
    assert ["first", "slow", "late"] == names(log)
    assert list(log.read())[-1].position == log.head()


def test_a_failed_flush_is_an_unknown_outcome(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never acknowledged, the head stays, and records where the bytes begin that the disk may have lost."""
    before = head_of(log)
    monkeypatch.setattr(disk, "flush_data", Flushes(fail))
    append_failing(log, "a")
    assert (before.position, before.position.offset, 1) == (
        head_of(log).position,
        head_of(log).suspect,
        head_of(log).failures,
    )


@pytest.mark.parametrize("resident", [True, False])
def test_the_next_writer_rewrites_a_failed_range(
    log: JsonlLog, rewritten: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, *, resident: bool
) -> None:
    """It writes and flushes the bytes once more before it appends, and only then clears the failure."""
    begin = head_of(log).position.offset
    monkeypatch.setattr(disk, "flush_data", Flushes(fail))
    append_failing(log, "a")
    end = log.path.stat().st_size
    append(log if resident else JsonlLog(log.folder), "b")
    assert [(begin, end)] == rewritten
    assert ["first", "a", "b"] == names(log)
    assert (-1, 4) == (head_of(log).suspect, head_of(log).position.seq)


def test_a_range_that_fails_again_stays_suspect(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk refuses, nothing is appended and the failure stays recorded."""
    monkeypatch.setattr(disk, "flush_data", Flushes(fail, fail))
    append_failing(log, "a")
    suspect = head_of(log).suspect
    append_failing(log, "b")
    assert (["first", "a"], suspect) == (names(log), head_of(log).suspect)
    append(log, "c")
    assert (["first", "a", "c"], -1) == (names(log), head_of(log).suspect)


def test_a_writer_in_flight_learns_of_anothers_failure(
    log: JsonlLog, other: JsonlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system reports an error once, perhaps not to its own flush, so its outcome is unknown too."""
    monkeypatch.setattr(disk, "flush_data", Flushes(lambda: append_failing(other, "b"), fail))
    append_failing(log, "a")
    append(log, "c")
    assert ["first", "a", "b", "c"] == names(log)


def test_a_failure_during_a_rewrite_is_not_lost(
    log: JsonlLog, other: JsonlLog, rewritten: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second writer, in flight since before the first failure, reports its own: its range is rewritten too."""
    reached, go = Event(), Event()

    def wait() -> None:
        reached.set()
        go.wait()
        fail()

    slow = Thread(target=append_failing, args=(other, "slow"), daemon=True)

    def report_meanwhile() -> None:
        go.set()
        slow.join(5)  # It ends at once, unless reporting waits for this writer; then it ends behind it.

    monkeypatch.setattr(disk, "flush_data", Flushes(wait, fail, report_meanwhile))
    begin = head_of(log).position.offset
    slow.start()
    reached.wait()
    append_failing(log, "a")
    append(log, "b")
    slow.join()
    append(log, "c")
    assert (begin, 2) == (min(first for first, _ in rewritten), head_of(log).failures)


CHAIN = "0123456789abcdef" * 2
FULL = Head(Position(812, CHAIN, 4096, AT), 1024, 3)
BARE = Head(Position(812, CHAIN, 4096))


def seal_head(said: bytes) -> bytes:
    """Return a head with these fields and the right checksum."""
    return (said + b"%08x" % binascii.crc32(said)).ljust(HEAD_BYTES - 1) + b"\n"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (FULL, f"tallybook-head 1 812 {CHAIN} 4096 {AT} - 1024 3 "),
        (BARE, f"tallybook-head 1 812 {CHAIN} 4096 - - -1 0 "),
    ],
    ids=["full", "bare"],
)
def test_a_head_is_one_line_of_these_bytes(told: Head, said: str) -> None:
    """Its fields have this order, a dash for a missing one, then the checksum over all of it, then blanks."""
    assert seal_head(said.encode()) == encode(told)
    assert told == decode(seal_head(said.encode()))


def test_a_head_with_a_boot_id_is_read() -> None:
    """Heads of earlier versions have one in the place of the dash."""
    assert decode(seal_head(f"tallybook-head 1 812 {CHAIN} 4096 {AT} boot-1 1024 3 ".encode())) == FULL


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" " * HEAD_BYTES,
        b"\0" * HEAD_BYTES,
        seal_head(b"other-head 1 812 x 4096 - - -1 0 "),
        seal_head(f"tallybook-head 1 812 {CHAIN} 4096 - - -1 ".encode()),
        seal_head(f"tallybook-head 1 812 {CHAIN} 4096 - - -1 0 0 ".encode()),
        encode(FULL).replace(b"812", b"813"),
    ],
    ids=["empty", "blanks", "NUL", "another's", "a field less", "a field more", "changed"],
)
def test_an_invalid_head_is_none(data: bytes) -> None:
    """Nothing is read from it, and nothing is raised."""
    assert decode(data) is None


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the list of the ranges, as (begin, end), that writers read from now on to find the end."""
    ranges: list[tuple[int, int]] = []
    real = scan.Scan

    def begin(fd: int, start: Position, end: int, *args: Any, **kwargs: Any) -> scan.Scan:
        # Readers say whether they verify.
        if "verify" not in kwargs:
            ranges.append((start.offset, end))
        return real(fd, start, end, *args, **kwargs)

    monkeypatch.setattr(scan, "Scan", begin)
    return ranges


def abandon(log: JsonlLog, monkeypatch: pytest.MonkeyPatch, *some: str) -> None:
    """Append by writers that reach their flush, one after another, and stop there."""
    for name in some:
        with monkeypatch.context() as patch:
            patch.setattr(disk, "flush_data", Flushes(die))
            with pytest.raises(Killed):
                append(JsonlLog(log.folder), name)


def test_what_follows_the_head_is_read_and_no_more(
    log: JsonlLog, scanned: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer reads what others wrote and did not acknowledge, not the ledger before it."""
    abandon(log, monkeypatch, "a", "b", "c", "d")
    scanned.clear()
    begin, size = log.head().offset, log.path.stat().st_size
    append(log, "e")
    assert ([(begin, size)], list("abcde")) == ([*scanned], names(log)[1:])
    assert () == verify(log).problems


def test_a_cut_among_batches_that_nobody_acknowledged_hides_no_damage(
    log: JsonlLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head is checked first: a log that ends before it has lost acknowledged events."""
    abandon(log, monkeypatch, "a", "b")
    size = log.path.stat().st_size
    append(log, "c")
    append(log, "d")
    os.truncate(log.path, size)
    with pytest.raises(DamagedLedgerError):
        append(JsonlLog(log.folder), "e")


def test_after_a_failed_flush_the_whole_log_is_read(
    log: JsonlLog, scanned: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page cache may differ from the disk, so the scan begins at the first byte."""
    abandon(log, monkeypatch, "a", "b")
    with monkeypatch.context() as patch:
        patch.setattr(disk, "flush_data", Flushes(fail))
        append_failing(JsonlLog(log.folder), "c")
    scanned.clear()
    size = log.path.stat().st_size
    append(JsonlLog(log.folder), "d")
    assert ([(0, size)], list("abcd")) == ([*scanned], names(log)[1:])


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


# Recovery: torn ends, holes and damage, and that acknowledged batches read the same after each of them.


def batch_at(mark: Position, *some: str) -> RawBatch:
    """Return a batch that fits after a position, always of the same bytes."""
    ids = iter(range(100))
    stamp = Stamp(mark, moment(BEGIN_US).at, BY, lambda: f"00000000-0000-7000-8000-{next(ids):012d}", lambda: "0" * 16)
    return frame(make_ratings(*some), stamp)


def make_acknowledged_log(folder: Path, *some: str) -> JsonlLog:
    """Return a ledger in which a process that has ended acknowledged each of some ratings."""
    torn_log = JsonlLog(folder, lambda: moment(BEGIN_US))
    for name in some:
        append(torn_log, name)
    torn_log.close()
    return torn_log


def add(torn_log: JsonlLog, tail: bytes) -> int:
    """Add unacknowledged bytes, and return where they begin."""
    begin = torn_log.path.stat().st_size
    with torn_log.path.open("ab") as file:
        file.write(tail)
    return begin


def list_quarantine(torn_log: JsonlLog) -> dict[str, bytes]:
    """Return the files in quarantine."""
    folder = torn_log.folder / "quarantine"
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the ledger."""
    return tmp_path / "ledger"


@pytest.fixture
def torn_log(folder: Path) -> JsonlLog:
    """Return a ledger with the ratings a and b."""
    return make_acknowledged_log(folder, "a", "b")


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


def assert_sealed(torn_log: JsonlLog, before: bytes, tail: bytes) -> None:
    """Append, and check that the tail is sealed: left in place, copied to quarantine, named by range and digest."""
    acknowledged = names(torn_log)
    append(torn_log, "after")
    assert [*acknowledged, "after"] == names(JsonlLog(torn_log.folder))
    data = torn_log.path.read_bytes()
    assert data.startswith(before + tail)
    seal = next(line for line in lines(torn_log) if line["kind"] == "log.recovered")
    begin, end = seal["body"]["begin"], seal["body"]["end"]
    assert (len(before), {"rater": "tallybook"}) == (begin, seal["by"])
    # What the writer adds so that the sealing line stands on a line of its own belongs to the range.
    assert data[begin:end].startswith(tail)
    assert b"\n" == data[end - 1 : end]
    fd = os.open(torn_log.path, os.O_RDONLY)
    assert ByteRange(fd, begin).digest(end) == seal["body"]["digest"]
    os.close(fd)
    assert {f"{begin}-{begin + len(tail)}.bin": tail} == list_quarantine(torn_log)


def test_an_end_torn_at_any_byte_is_sealed(tmp_path: Path) -> None:
    """Wherever a batch of two lines breaks off, even before its last byte, the next writer seals it and continues."""
    sample = make_acknowledged_log(tmp_path / "sample", "a", "b")
    before, head = sample.path.read_bytes(), (sample.folder / "head").read_bytes()
    batch = batch_at(sample.head(), "torn", "torn").raw
    for cut in range(1, len(batch)):
        torn_log = JsonlLog(tmp_path / str(cut), lambda: moment(BEGIN_US))
        torn_log.folder.mkdir()
        torn_log.path.write_bytes(before + batch[:cut])
        (torn_log.folder / "head").write_bytes(head)
        assert ["a", "b"] == names(torn_log)
        assert_sealed(torn_log, before, batch[:cut])
        torn_log.close()


def test_a_whole_batch_after_the_head_counts(torn_log: JsonlLog) -> None:
    """Its writer died between the write and the acknowledgement: it is read and continued, and nothing is sealed."""
    add(torn_log, batch_at(torn_log.head(), "c", "d").raw)
    assert ["a", "b", "c", "d"] == names(torn_log)
    append(torn_log, "after")
    assert ["a", "b", "c", "d", "after"] == names(torn_log)
    assert {} == list_quarantine(torn_log)


@pytest.mark.parametrize("head", [None, b"", b"\0" * heads.HEAD_BYTES], ids=["missing", "empty", "torn"])
def test_without_a_head_an_end_torn_at_any_byte_is_sealed(tmp_path: Path, head: bytes | None) -> None:
    """An unfinished batch at the end was never acknowledged, even without a head."""
    sample = make_acknowledged_log(tmp_path / "sample", "a", "b")
    before, batch = sample.path.read_bytes(), batch_at(sample.head(), "torn", "torn").raw
    # An invalid head is no head: every eleventh byte is enough for it.
    for cut in range(1, len(batch), 1 if head is None else 11):
        torn_log = JsonlLog(tmp_path / str(cut), lambda: moment(BEGIN_US))
        torn_log.folder.mkdir()
        torn_log.path.write_bytes(before + batch[:cut])
        if head is not None:
            (torn_log.folder / "head").write_bytes(head)
        assert ["a", "b"] == names(torn_log), cut
        assert_sealed(torn_log, before, batch[:cut])
        torn_log.close()


def test_without_a_head_a_changed_batch_is_damage(torn_log: JsonlLog) -> None:
    """If whole batches follow the bad place, whether they were acknowledged is unknown."""
    (torn_log.folder / "head").unlink()
    damaged = torn_log.path.read_bytes().replace(b'"name":"a"', b'"name":"x"')
    torn_log.path.write_bytes(damaged)
    for act in (lambda: names(torn_log), torn_log.transaction().__enter__):
        with pytest.raises(DamagedLedgerError):
            act()
    assert (damaged, {}) == (torn_log.path.read_bytes(), list_quarantine(torn_log))


def test_an_error_at_closing_is_none_of_a_reader_that_stops_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has found a line lets the rest go, where an error could only be printed."""
    log, close = tmp_path / "events.jsonl", os.close
    log.write_bytes(b"one\ntwo\n")
    found: Any = heads.lines_before(log, 8)
    assert b"two" == next(found)

    def close_and_fail(fd: int) -> None:
        close(fd)
        raise OSError(errno.EIO, "injected")

    monkeypatch.setattr(os, "close", close_and_fail)
    found.close()
