"""Bounds of a scan: windows, stop messages, adjacent seals, erased ranges, and the end of a log."""

from __future__ import annotations

from hashlib import sha256
import json
import os

import pytest

from faults.fuzz import proven_anew
from helpers.ledger_lines import Read, batches_of, file_of, forge, raw, read
from helpers.ledger_scan import BATCHES, ENDS, LINES, LOG, opening, sealed_log
from tallybook.ledger.encoding.codec import encode
from tallybook.ledger.events import PointRated
from tallybook.ledger.line import (
    CHAIN_END,
    CHAIN_MARK,
    CHAIN_TAIL_BYTES,
    MAX_LINE_BYTES,
    START,
    Position,
    RawBatch,
    complete_lines,
)
from tallybook.ledger.reading import damage, scan
from tallybook.ledger.reading.damage import ByteRange, DamageIndex
from tallybook.ledger.reading.scan import Scan
from tallybook.ledger.storage.disk import read_at
from tallybook.ledger.storage.head import has_position
from tallybook.ledger.storage.redaction import mask

RATED = encode(PointRated("kpt_002", "harmful"))
BODY = '"kind":"point.removed","v":1,"body":{"name":"kpt_001"}'
UNFIT = "the chain does not fit: this batch, or the one before it, was changed, swapped or cut"
FOREIGN = "is not a line of this ledger"
CHANGED = "was changed: its bytes do not fit its checksum"


def rechained(batch: RawBatch) -> bytes:
    """Return a batch's bytes with another chain value."""
    return batch._replace(chain=batch.chain[::-1]).raw


@pytest.mark.parametrize("gone", [[], ["pread"]], ids=["POSIX", "Windows"])
def test_bytes_are_read_at_their_offset(monkeypatch: pytest.MonkeyPatch, gone: list[str]) -> None:
    """As many as exist from the offset on are read, and the file's position does not move if the system can."""
    for call in gone:
        monkeypatch.delattr(os, call)
    fd = file_of(b"0123456789")
    os.lseek(fd, 7, os.SEEK_SET)
    assert [b"345", b"012", b"89", b""] == [read_at(fd, 3, offset) for offset in (3, 0, 8, 10)]
    assert (10 if gone else 7) == os.lseek(fd, 0, os.SEEK_CUR)


@pytest.mark.parametrize("size", [100, 4096, 1 << 20])
def test_a_batch_with_a_nul_byte_never_verifies(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """This holds for any chunk size, and although its chain fits: only a power loss leaves NUL bytes."""
    monkeypatch.setattr(scan, "_FIRST_BYTES", size)
    monkeypatch.setattr(scan, "CHUNK_BYTES", size)
    holed = proven_anew(LOG.replace(b'"kpt_002"', b'"kpt\x00002"'), renumbered=False)
    assert holed != LOG
    found = read(holed)
    assert [BATCHES[0].last, BATCHES[1].last] == [batch.last for batch in found.batches]
    assert found.stop is not None


@pytest.mark.parametrize("lines", [1, 63, 64, 65])
def test_a_batch_of_any_number_of_lines_is_read(lines: int) -> None:
    """However many lines it has, it is returned whole, and so are later batches."""
    batches = batches_of(opening("ledger-1"), [RATED] * lines, [RATED])
    assert Read(batches, None, []) == read(raw(batches))


@pytest.mark.parametrize("over", range(-2, len(CHAIN_MARK) + CHAIN_TAIL_BYTES + 2))
def test_the_longest_batch_is_read_however_it_is_cut(monkeypatch: pytest.MonkeyPatch, over: int) -> None:
    """A chunk may end anywhere in or after a batch of the greatest length."""
    longest = BATCHES[1]
    assert len(longest.data) == max(len(batch.data) for batch in BATCHES)
    monkeypatch.setattr("tallybook.ledger.reading.scan.MAX_BATCH_BYTES", len(longest.data))
    monkeypatch.setattr(scan, "CHUNK_BYTES", len(longest.data) + over)
    fd = file_of(LOG)
    reading = Scan(fd, BATCHES[0].position, len(LOG))
    assert BATCHES[1:] == list(reading)


@pytest.mark.parametrize(("field", "value"), [("seq", "4"), ("seq", "6"), ("part", "[1,2]"), ("part", "[2,1]")])
def test_a_first_line_has_its_position(field: str, value: str) -> None:
    """A batch whose chain fits is not returned if its first line has another seq or number of lines."""
    right, wrong = (forge((BODY, None), mark=BATCHES[1].position, head=head) for head in ({}, {field: value}))
    assert [*BATCHES[:2], right] == read(raw([*BATCHES[:2], right])).batches
    found = read(raw([*BATCHES[:2], wrong]))
    assert BATCHES[:2] == found.batches
    assert found.stop is not None


@pytest.mark.parametrize(
    ("data", "line", "message", "finished"),
    [
        (raw(BATCHES[:3]) + LINES[5], 6, "an unfinished batch: its end is missing", False),
        (raw(BATCHES[:3]) + LINES[5][:-1], 6, "an unfinished batch: its end is missing", False),
        (raw(BATCHES[:3]) + LINES[5][:50], 6, FOREIGN, False),
        (raw(BATCHES[:3]) + LINES[5][:-9], 6, CHANGED, False),
        (raw(BATCHES[:2]) + rechained(BATCHES[2]) + BATCHES[3].raw, 5, UNFIT, True),
        (raw(BATCHES[:2]) + rechained(BATCHES[2]) + BATCHES[3].raw.replace(b"J*", b"K*"), 5, UNFIT, True),
        (raw(BATCHES[:2]) + CHAIN_MARK + b'0"}\n' + LINES[5], 5, FOREIGN, True),
        (raw(BATCHES[:2]) + CHAIN_MARK + b'0"}', 5, FOREIGN, False),
    ],
    ids=["unfinished", "no feed", "half", "most", "chain", "two faults", "chain mark", "half a chain mark"],
)
def test_a_stop_names_the_first_fault(data: bytes, line: int, message: str, finished: bool) -> None:
    """It names file, line and fault of the expected batch, whatever follows it, and whether the batch ends."""
    stop = read(data).stop
    assert stop is not None
    assert ((f"events.jsonl:{line}", message, line, line), finished) == (stop.problem, stop.finished)


def test_a_seal_far_after_the_end_is_not_read() -> None:
    """A scan of a log that grew by a seal in the meantime stops where it ended before."""
    log = sealed_log(b"torn" + b"\0" * 3 * MAX_LINE_BYTES)
    for end in (log.range[0] + 20, log.range[0] + MAX_LINE_BYTES):
        looked = Scan(file_of(log.data), START, end)
        assert (log.batches[:2], []) == (list(looked), looked.sealed_ranges)
        assert looked.stop is not None


def test_a_file_that_became_shorter_ends_the_reading() -> None:
    """The remaining batches are returned, and the reading stops after them."""
    looked = Scan(file_of(LOG), START, len(LOG) + 50)
    assert BATCHES == list(looked)
    assert looked.stop is not None
    assert (BATCHES[-1].position[:3], False) == (looked.stop.position[:3], looked.stop.finished)


def test_a_batch_is_looked_for_within_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch is longer than the bound, so no more than that is held in memory."""
    monkeypatch.setattr(scan, "CHUNK_BYTES", 1)
    longest = max(BATCHES, key=lambda batch: len(batch.raw))
    monkeypatch.setattr("tallybook.ledger.reading.scan.MAX_BATCH_BYTES", len(longest.data))
    assert BATCHES == read(LOG).batches
    monkeypatch.setattr("tallybook.ledger.reading.scan.MAX_BATCH_BYTES", len(longest.data) - 1)
    assert BATCHES[: BATCHES.index(longest)] == read(LOG).batches


def test_a_hole_is_not_searched_for_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch spans a NUL byte, so chunks are read up to the first; after it only a seal is searched for."""
    sizes = []

    def watched(fd: int, size: int, offset: int) -> bytes:
        sizes.append(size)
        return read_at(fd, size, offset)

    monkeypatch.setattr(scan, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(scan, "read_at", watched)
    assert BATCHES == read(LOG + b"\0" * 9000).batches
    assert len(LOG) // 1000 + 1 == sizes.count(1000)


def test_a_seal_has_one_chain_section() -> None:
    """A line whose last chain value fits seals nothing if it has an earlier chain value."""
    torn, mark = b"torn\n", BATCHES[1].position
    body = {"begin": mark.offset, "end": mark.offset + 5, "digest": sha256(torn).hexdigest()[:32]}
    what = f'"kind":"log.recovered","v":1,"body":{json.dumps(body, separators=(",", ":"))}'
    behind = mark._replace(offset=mark.offset + 5)
    right = forge((what, None), mark=behind)
    wrong = forge((what, None), mark=behind, head={"by": '{"rater":"test"},\t"chain":"x"'})
    assert [(mark.offset, mark.offset + 5)] == read(raw(BATCHES[:2]) + torn + right.raw).sealed
    found = read(raw(BATCHES[:2]) + torn + wrong.raw)
    assert (BATCHES[:2], []) == (found.batches, found.sealed)


def test_an_unverified_read_checks_only_the_form() -> None:
    """Batches are returned unverified, changed ones too, until a seq or number of lines is unexpected."""
    log = sealed_log(b"torn")
    whole = Scan(file_of(log.data), START, len(log.data), verify=False)
    assert Read(log.batches, None, [log.range]) == Read(list(whole), whole.stop, whole.sealed_ranges)
    data = raw(BATCHES[:2]) + rechained(BATCHES[2]) + BATCHES[3].raw.replace(b"J*", b"K*")
    changed = Scan(file_of(data), START, len(data), verify=False)
    assert data == raw(changed)
    for wrong in (b"".join([*LINES[:4], *LINES[5:]]), LOG.replace(b"[1,3]", b"[1,2]"), LOG[:-1], LOG[:-40] + b"x" * 40):
        looked = Scan(file_of(wrong), START, len(wrong), verify=False)
        given = list(looked)
        assert BATCHES[: len(given)] == given
        assert looked.stop is not None


def test_a_pending_text_is_hidden_in_an_unverified_read() -> None:
    """A caller that does not verify does not get a text with a pending redaction either."""
    owed = Scan(file_of(LOG), START, len(LOG), pending={"id-2"}, verify=False)
    assert [
        BATCHES[0],
        BATCHES[1]._replace(lines=complete_lines(mask(BATCHES[1].data, {"id-2"}))),
        *BATCHES[2:],
    ] == list(owed)


@pytest.mark.parametrize("size", [0, 1 << 30])
def test_a_long_log_has_the_same_proofs(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The digests are the same, whichever module computes them."""
    monkeypatch.setattr("tallybook.ledger.reading.scan._LONG_BYTES", size)
    assert Read(BATCHES, None, []) == read(LOG)
    assert BATCHES[:1] == read(LOG.replace(b"Just", b"JUST")).batches


def test_a_pending_text_verifies_without_its_value() -> None:
    """A half-erased text reads as erased if its redaction is pending, and is damage otherwise."""
    half = LOG.replace(b'{"salt', b"null  ", 1)
    looked = Scan(file_of(half), START, len(half), pending={"id-2"})
    found = list(looked)
    assert ([batch.position for batch in BATCHES], None) == ([batch.position for batch in found], looked.stop)
    assert (mask(BATCHES[1].data, {"id-2"}), BATCHES[2:]) == (found[1].data, found[2:])
    for owed in ((), {"id-1", "id-3"}):
        looked = Scan(file_of(half), START, len(half), pending=owed)
        assert BATCHES[:1] == list(looked)
        assert looked.stop is not None
        assert "its text was changed: it does not fit its digest" == looked.stop.problem.message


def test_an_erased_range_is_only_blanks() -> None:
    """A seal reports its erased range; any other byte among the blanks leaves it unsealed."""
    log = sealed_log(b"torn and more")
    begin, end = log.range
    blank = log.data[:begin] + b" " * (end - begin - 1) + log.data[end - 1 :]
    batches = [*log.batches[:2], log.batches[2]._replace(erased=True), *log.batches[3:]]
    assert Read(batches, None, [log.range]) == read(blank)
    for at in range(begin, end - 1):
        found = read(blank[:at] + b"x" + blank[at + 1 :])
        assert (log.batches[:2], []) == (found.batches, found.sealed)


@pytest.mark.parametrize("changed", [{"begin": 0}, {"end": 0}, {"end": BATCHES[1].end + 6}])
def test_blanks_are_sealed_by_their_own_seal_only(changed: dict[str, int]) -> None:
    """A range of blanks is not the range of another seal."""
    log = sealed_log(b"torn", **changed)
    begin, end = log.range
    found = read(log.data[:begin] + b" " * (end - begin - 1) + log.data[end - 1 :])
    assert (log.batches[:2], []) == (found.batches, found.sealed)


@pytest.mark.parametrize("window", [1, 7, 1 << 20])
def test_the_window_size_changes_no_count(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    """However small the read window, lines, digests and blanks are those of the whole range."""
    monkeypatch.setattr(damage, "_WINDOW_BYTES", window)
    fd = file_of(LOG)
    places = [*ENDS, 1, 100, len(LOG) - 1, len(LOG) + 9]
    assert [LOG.count(b"\n", 0, offset) + 1 for offset in places] == [
        DamageIndex(fd, len(LOG)).line_number(offset) for offset in places
    ]
    for begin, end in zip(places, reversed(places), strict=True):
        assert sha256(LOG[begin:end]).hexdigest()[:32] == ByteRange(fd, begin).digest(end)
    assert [1, 2, 3, 3] == [DamageIndex(file_of(b"\n\nx"), 3).line_number(offset) for offset in range(4)]
    fd = file_of(b"X" + b" " * 20 + b"\t")
    ranges = [(begin, end) for begin in range(25) for end in range(begin, 25)]
    blank = [(begin, end) for begin, end in ranges if begin == end or 1 <= begin < end <= 21]
    assert blank == [(begin, end) for begin, end in ranges if ByteRange(fd, begin).is_blank(end)]


def test_a_position_fits_where_its_chain_is() -> None:
    """The chain value ends exactly at the offset; the beginning of the log needs none."""
    fd = file_of(LOG)
    marks = [START, *(batch.position for batch in BATCHES)]
    assert [True] * 5 == [has_position(fd, mark) for mark in marks]
    beside = [mark._replace(offset=mark.offset + by) for mark in marks[1:] for by in (-1, 1)]
    assert [False] * 8 == [has_position(fd, mark) for mark in beside]
    assert not has_position(fd, BATCHES[0].position._replace(chain="0" * 32))
    assert not has_position(fd, Position(1, "0" * 32, 10))
    assert has_position(file_of(BATCHES[0].chain.encode() + CHAIN_END), Position(1, BATCHES[0].chain, 35))


def test_a_run_reports_whether_a_text_may_be_erased() -> None:
    """It does for an erased text, a pending one, or a sealed range, and for no other run."""

    def may_be(data: bytes, owed: str = "") -> list[bool]:
        return [run.lacks_text for run in Scan(file_of(data), START, len(data), pending={owed} - {""}).runs()]

    assert [False] == may_be(LOG)
    assert [True] == may_be(mask(LOG[: ENDS[2]], {"id-2"}) + LOG[ENDS[2] :])
    assert [True] == may_be(LOG, "id-2")
    assert [False] == may_be(LOG, "id-3")
    assert [False, True, False] == may_be(sealed_log(b"torn").data)
