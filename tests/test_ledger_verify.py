"""The verdict on a whole ledger: damage, notes, and the position of the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
import re

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.ledger_lines import ScanResult, batches_of, file_of, forge, raw, read, stamp
from helpers.ledger_logs import BATCHES, GROUPS, LINES, LOG, flips, make_ratings, make_sealed_log, seal_of
from tallybook.ledger import scan, search, verification
from tallybook.ledger.codec import encode
from tallybook.ledger.errors import Problem
from tallybook.ledger.events import LedgerOpened, PlaybookUpdated, PointAdded, PointRated
from tallybook.ledger.line import CHAIN_MARK, START, Draft, Position, RawBatch, frame, join_key
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.scan import Scan
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.disk import read_at
from tallybook.ledger.storage.head import Head
from tallybook.ledger.verification import Gap, Verification, survey, verify

RATED = encode(PointRated("kpt_001", "helpful"))
RATED_BATCHES = batches_of(
    [encode(LedgerOpened("ledger-1", 1))],
    [encode(PointAdded("kpt_001", "Use type hints")), encode(PlaybookUpdated(1, 0, 0))],
    [RATED],
)
RATED_LOG = raw(RATED_BATCHES)
LAST = RATED_BATCHES[-1].position
BODY = '"kind":"point.removed","v":1,"body":{"name":"kpt_001"}'
ADDED = '"kind":"point.added","v":1,"body":{"name":"kpt_002"}'
STARRED = '"kind":"point.starred","v":1,"body":{}'
SHORT = RATED_BATCHES[1].position


@pytest.fixture
def ledger(tmp_path: Path) -> Callable[..., JsonlLog]:
    """Return a function that writes a ledger's bytes and a head that acknowledges up to a position, and opens it."""

    def write(data: bytes | None, head: Position | bytes | None = LAST) -> JsonlLog:
        if data is not None:
            (tmp_path / "events.jsonl").write_bytes(data)
        if head is not None:
            text = head if isinstance(head, bytes) else heads.encode(Head(head))
            (tmp_path / "head").write_bytes(text)
        return JsonlLog(tmp_path)

    return write


def append_to_log(*batches: RawBatch) -> bytes:
    """Return the log with further batches at its end."""
    return RATED_LOG + raw(batches)


def forge_line(what: str, free: str | None = None, **head: str) -> bytes:
    """Return the log with a further line of any content with valid proofs."""
    return append_to_log(forge((what, free), mark=LAST, head=head))


@pytest.mark.parametrize("head", [None, b"", b"\0" * 192, b"tallybook-head 1 4"], ids=["gone", "empty", "NUL", "torn"])
def test_a_missing_head_is_noted(ledger: Callable[..., JsonlLog], head: bytes | None) -> None:
    """Without a head the log is read to its end, and a note names what cannot be checked."""
    verdict = verify(ledger(RATED_LOG, head))
    assert (True, 4) == (verdict.ok, verdict.events)
    assert ("there is no head, so a missing end cannot be detected",) == verdict.notes


@pytest.mark.parametrize(("end", "ok"), [(b"", True), (RATED_BATCHES[2].raw[-60:], False)], ids=["torn", "damaged"])
def test_without_a_head_only_an_end_can_be_torn(ledger: Callable[..., JsonlLog], end: bytes, ok: bool) -> None:
    """Invalid bytes are damage if a batch ends after them, and a torn end if none does."""
    verdict = verify(ledger(RATED_LOG[: SHORT.offset + 20] + end, None))
    assert (ok, 3) == (verdict.ok, verdict.events)


def test_a_repeated_id_is_damage(ledger: Callable[..., JsonlLog]) -> None:
    """An event is in a log once; its repetition is named."""
    (problem,) = verify(ledger(forge_line(BODY, id='"id-2"'))).problems
    assert Problem("events.jsonl: seq 5", "repeats the id id-2", 5) == problem


@pytest.mark.parametrize("digests", [("", ""), ("1" * 32, "1" * 32), ("1" * 32, "2" * 32), ("", "2" * 32)])
def test_a_repeated_key_is_damage(ledger: Callable[..., JsonlLog], digests: tuple[str, str]) -> None:
    """A key is in a log once, whatever was delivered under it; its repetition is named."""
    delivery = frame([RATED], stamp(LAST, key=join_key("once", digests[0])))
    again = frame([RATED], stamp(delivery.position, key=join_key("once", digests[1])))
    (problem,) = verify(ledger(append_to_log(delivery, again))).problems
    assert Problem("events.jsonl: seq 6", "repeats the key once", 6) == problem


def test_unknown_kinds_are_listed(ledger: Callable[..., JsonlLog]) -> None:
    """Ignored events are counted by kind and version."""
    stars = [Draft("point.starred", 1, {}), Draft("point.rated", 2, {}), Draft("point.starred", 1, {})]
    verdict = verify(ledger(append_to_log(frame(stars, stamp(LAST)))))
    assert (True, {"point.starred/1": 2, "point.rated/2": 1}) == (verdict.ok, verdict.unknown_kinds)


@pytest.mark.parametrize(
    "data",
    [
        forge_line('"kind":"point.removed","v":1,"body":{"name":7}'),
        forge_line('"kind":"point.removed","v":1,"body":{}'),
        forge_line('"kind":"point.removed","v":1,"body":{"name":"a","name":"b"}'),
        forge_line('"kind":"point.removed","v":1,"v":1,"body":{"name":"a"}'),
        forge_line('"kind":"point.starred","v":1,"body":{"stars":9007199254740993}'),
        forge_line('"kind":"point.starred","v":1,"body":{"stars":NaN}'),
        forge_line(BODY, by='{"rater":7}'),
        forge_line(BODY, at='"yesterday"'),
        forge_line(BODY, at='"2026-11-21T20:17:03Z"'),
        forge_line(BODY, at="7"),
        forge_line(BODY, at='"0000"'),
        forge_line(BODY, id="7"),
        forge_line(BODY, key="7"),
        forge_line(BODY, id='"id-5","id":"id-9"'),
        forge_line(BODY, at='"2026-02-30T20:17:03.123456Z"'),
        forge_line(BODY, at='"2026-11-21T20:17:61.123456Z"'),
        forge_line(BODY, by='{"rater":"test","rater":"human"}'),
        forge_line(BODY, by='{"rater": "test"}'),
        forge_line(BODY, by='{"rater":"t\\u0065st"}'),
        forge_line('"kind":"point.removed","v":1,"body":{"name":"a"},"more":1'),
        forge_line(ADDED, '{"salt":"5a17","text":"a","text":"b"}'),
        forge_line(ADDED, '{"salt":"5a17", "text":"a"}'),
        forge_line(STARRED, '{"salt":"5a17","stars":[9007199254740993]}'),
        forge_line('"kind":"text.continued","v":1,"body":{}', "null"),
    ],
    ids=lambda data: data[len(RATED_LOG) + 50 : -45].decode(),
)
def test_an_invalid_event_is_damage_although_its_chain_fits(ledger: Callable[..., JsonlLog], data: bytes) -> None:
    """Even with a right chain, ambiguous JSON and invalid field values are damage."""
    verdict = verify(ledger(data))
    assert {5} == {problem.seq for problem in verdict.problems}


def test_every_batch_of_an_invalid_author_is_damage(ledger: Callable[..., JsonlLog]) -> None:
    """Authors of lines that follow on each other are compared, and an invalid one is not believed the second time."""
    first = forge((BODY, None), mark=LAST, head={"by": '{"rater":7}'})
    second = forge((BODY, None), mark=first.position, head={"by": '{"rater":7}'})
    verdict = verify(ledger(append_to_log(first, second), second.position))
    assert {5, 6} == {problem.seq for problem in verdict.problems}


@pytest.mark.parametrize("seq", [1, 2, 9])
def test_a_missing_expected_head_is_a_problem(ledger: Callable[..., JsonlLog], seq: int) -> None:
    """A ledger that was written anew verifies, but does not have the noted head of the old one."""
    message = f"no batch that ends at seq {seq} has the chain {RATED_BATCHES[2].chain}, which was expected"
    problem = Problem("events.jsonl", message, seq)
    assert Verification(4, LAST, (problem,), (), {}) == verify(ledger(RATED_LOG), expect=(seq, RATED_BATCHES[2].chain))


def test_an_expected_head_without_a_ledger_is_a_problem(ledger: Callable[..., JsonlLog]) -> None:
    """If the ledger is missing with its head, the expectation fails; with its head, one problem is reported."""
    expect = (3, RATED_BATCHES[1].chain)
    problem = Problem("events.jsonl", "is missing, and seq 3 was expected", 3)
    assert Verification(0, START, (problem,), (), {}) == verify(ledger(None, None), expect=expect)
    problem = Problem("events.jsonl", "is missing, and held 4 events", 4)
    assert Verification(0, START, (problem,), (), {}) == verify(ledger(None), expect=expect)


@pytest.mark.parametrize("number", [1, 2])
def test_damage_hides_no_later_batch(ledger: Callable[..., JsonlLog], number: int) -> None:
    """The missing range has its first and last seq, and all later valid batches are checked."""
    batch, more = RATED_BATCHES[number], frame([Draft("point.starred", 1, {})], stamp(LAST))
    changed = batch.raw.replace(b'"id":"id', b'"id":"di', 1)
    again = forge((BODY, None), mark=more.position, head={"id": '"id-1"'})
    log = ledger(append_to_log(more, again).replace(batch.raw, changed), again.position)
    verdict = verify(log)
    message = "was changed: its bytes do not fit its checksum"
    problem = Problem(f"events.jsonl:{batch.first}", message, batch.first, batch.first)
    assert (problem, Problem("events.jsonl: seq 6", "repeats the id id-1", 6)) == verdict.problems
    assert (RATED_BATCHES[number - 1].last, RATED_BATCHES[number - 1].position) == (verdict.events, verdict.head)
    assert ((batch.first, batch.last),) == verdict.missing
    assert {"point.starred/1": 1} == verdict.unknown_kinds


# Of a damaged ledger salvage finds every valid batch, and nothing else; each gap names what is missing.


KEPT = batches_of(*(make_ratings(f"kpt_{n:03d}") * 2 for n in range(1, 8)))
WHOLE = b"".join(batch.raw for batch in KEPT)


def survey_bytes(data: bytes, start: Position = START, owed: Collection[str] = ()) -> list[RawBatch | Gap]:
    """Return the batches and the gaps of a survey of these bytes from a position on."""
    return list(survey(file_of(data), start, len(data), owed))


def lines_and_gaps(found: list[RawBatch | Gap]) -> tuple[list[int], list[tuple[int, int | None]]]:
    """Return the last seq of each found batch, and the gaps."""
    seqs = [part.last for part in found if isinstance(part, RawBatch)]
    return seqs, [part.missing for part in found if isinstance(part, Gap)]


@pytest.mark.parametrize("number", range(1, 6))
def test_a_changed_batch_is_the_only_gap(number: int) -> None:
    """A changed byte in a line makes its batch a gap; every other batch is found."""
    at = KEPT[number].offset + 30
    changed = WHOLE[:at] + bytes([WHOLE[at] ^ 1]) + WHOLE[at + 1 :]
    seqs, gaps = lines_and_gaps(survey_bytes(changed))
    batch = KEPT[number]
    assert [other.last for other in KEPT if other is not batch] == seqs
    assert [(batch.first, batch.last)] == gaps


@pytest.mark.parametrize("number", range(6))
def test_a_changed_chain_value_loses_nothing(number: int) -> None:
    """A batch with a changed chain value is proven by the next batch."""
    at = KEPT[number].end - 10
    changed = WHOLE[:at] + (b"0" if WHOLE[at : at + 1] != b"0" else b"1") + WHOLE[at + 1 :]
    seqs, gaps = lines_and_gaps(survey_bytes(changed))
    assert [batch.last for batch in KEPT] == seqs
    assert [(KEPT[number].first, KEPT[number].first - 1)] == gaps


@pytest.mark.parametrize("begin", range(0, len(WHOLE), 97))
def test_no_survey_finds_a_false_batch(begin: int) -> None:
    """Whatever range is NUL bytes, only batches of the ledger are found, in order, each once."""
    holed = WHOLE[:begin] + bytes(min(200, len(WHOLE) - begin)) + WHOLE[begin + 200 :]
    seqs, _ = lines_and_gaps(survey_bytes(holed))
    assert sorted(set(seqs)) == seqs
    assert {batch.last for batch in KEPT} >= set(seqs)


TOLD = batches_of(make_ratings("kpt_000"), *([encode(PointAdded(f"kpt_{n:03d}", f"a text {n}"))] for n in range(1, 6)))


def replace_chain(batch: RawBatch, value: bytes = b"0" * 32) -> bytes:
    """Return a batch's bytes with another chain value."""
    return batch.data + CHAIN_MARK + value + b'"}\n'


def test_a_text_is_proven_with_its_batch() -> None:
    """A batch whose chain value and text were both changed is not returned; the batches after it are."""
    data = raw(TOLD[:2]) + replace_chain(TOLD[2]).replace(b"a text 2", b"a lie  2") + raw(TOLD[3:])
    seqs, gaps = lines_and_gaps(survey_bytes(data))
    assert ([1, 2, 5, 6], [(3, 4)]) == (seqs, gaps)
    data = raw(TOLD[:2]) + replace_chain(TOLD[2]) + TOLD[3].raw.replace(b"a text 3", b"a lie  3") + raw(TOLD[4:])
    seqs, gaps = lines_and_gaps(survey_bytes(data))
    assert ([1, 2, 5, 6], [(3, 4)]) == (seqs, gaps)


Work = Callable[[int, int], object]
Count = Callable[[Work, bytes], int]
FEW, MANY = 200, 1_000
GROWTH = 1.3


def make_many_seals(count: int) -> bytes:
    """Return a log of many torn ranges, each with its own seal."""
    pieces, mark = [raw(KEPT)], KEPT[-1].position
    for _ in range(count):
        seal = seal_of(mark, b"torn\n")
        pieces += [b"torn\n", seal.raw]
        mark = seal.position
    return b"".join(pieces)


def make_many_claims(count: int, **changed: object) -> bytes:
    """Return a log of one bad range in which many lines claim to seal all bytes before them."""
    mark, torn = KEPT[-1].position, bytearray(b"torn\n")
    for _ in range(count):
        torn += seal_of(mark, bytes(torn), **{"digest": "0" * 32} | changed).raw
    return raw(KEPT) + bytes(torn)


def make_many_names(count: int) -> bytes:
    """Return a log of one bad range whose lines name the kind of a seal as often as possible."""
    line = b'{"crc":"' + b',\t"kind":"log.recovered","v":1,"body":{"begin":1,"end":2,' * 20 + b"\n"
    return raw(KEPT) + line * (count // 20)


def make_claims_over_blanks(count: int) -> bytes:
    """Return a log of one bad range that begins with blanks, like a redacted text."""
    planted = make_many_claims(count)
    begin = KEPT[-1].end
    return planted[:begin] + b" " * 4 + planted[begin + 4 :]


def make_many_changes(count: int) -> bytes:
    """Return a log in which every second batch was changed."""
    pieces, mark = [raw(KEPT)], KEPT[-1].position
    for _ in range(count // 2):
        bad, good = batches_of(GROUPS[1], GROUPS[1], mark=mark)
        pieces += [bad.raw.replace(b"harmful", b"helpful"), good.raw]
        mark = good.position
    return b"".join(pieces)


PLANTED: dict[str, Callable[[int], bytes]] = {
    function.__name__: function
    for function in (make_many_seals, make_many_claims, make_many_names, make_claims_over_blanks, make_many_changes)
}


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Count:
    """Return a function that counts the bytes of a log that some work reads."""
    sizes: list[int] = []

    def counted(fd: int, size: int, offset: int) -> bytes:
        data = read_at(fd, size, offset)
        sizes.append(len(data))
        return data

    for module in (verification, scan, search):
        monkeypatch.setattr(module, "read_at", counted)

    def count(work: Work, data: bytes) -> int:
        sizes.clear()
        work(file_of(data), len(data))
        return sum(sizes)

    return count


def growth(readings: Count, plant: Callable[[int], bytes], work: Work) -> float:
    """Return how many times more often a byte is read in a log with many seals than in one with few."""
    few, many = (readings(work, data) / len(data) for data in map(plant, (FEW, MANY)))
    return many / few


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_the_time_to_read_a_planted_log_grows_as_the_log_does(plant: Callable[[int], bytes], readings: Count) -> None:
    """However often it is sealed, or claims to be, a byte is read no more often in a longer log."""
    assert GROWTH > growth(readings, plant, lambda fd, size: list(Scan(fd, START, size)))


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_the_time_to_salvage_a_planted_log_grows_as_the_log_does(
    plant: Callable[[int], bytes], readings: Count
) -> None:
    """Verification, which continues at each valid batch, reads a byte no more often in a longer log."""
    assert GROWTH > growth(readings, plant, lambda fd, size: list(survey(fd, START, size)))


# Reading the file under systematic damage: every change is found and named, and never returned.


def check(data: bytes, what: str) -> Iterator[str]:
    """Yield the faults of reading a changed log: it must stop, and return only unchanged batches."""
    found = read(data)
    given = len(found.batches)
    if BATCHES[:given] != found.batches:
        yield f"{what}: given out"
    elif found.stop is None:
        yield f"{what}: not found"
    elif found.stop.position[:3] != (BATCHES[given - 1].position[:3] if given else START[:3]):
        yield f"{what}: stopped in the wrong place"


def unfound(changes: Iterable[tuple[str, bytes]]) -> list[str]:
    """Return every change that was not found as expected."""
    return [fault for what, data in changes for fault in check(data, what)]


def place(offset: int) -> str:
    """Return the line and column of a byte of the log, for a message."""
    line = LOG.count(b"\n", 0, offset)
    column = offset - sum(map(len, LINES[:line]))
    return f"line {line + 1}, byte {column} of {len(LINES[line])} ({LOG[offset : offset + 1]!r})"


def test_every_flipped_bit_is_found() -> None:
    """If any single bit of a log changes, the reading stops before its batch."""
    assert [] == unfound((f"bit {bit} of {place(offset)}", data) for offset, bit, data in flips(LOG, 0, len(LOG)))


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"not a line\n", b"\0\0\0\n", b'{"crc":"00000000"}\n'])
def test_every_inserted_foreign_line_is_found(line: bytes) -> None:
    """A line that Tallybook did not write is found anywhere, and described."""
    places = range(len(LINES) + 1)
    assert [] == unfound((f"behind {at}", b"".join(LINES[:at]) + line + b"".join(LINES[at:])) for at in places)
    stop = read(b"".join(LINES[:2]) + line + b"".join(LINES[2:])).stop
    expected = "is a hole of NUL bytes" if b"\0" in line else "is not a line of this ledger"
    assert stop is not None
    assert (3, 3, expected) == (stop.problem.line, stop.problem.seq, stop.problem.message)


def test_an_added_or_removed_free_section_is_found() -> None:
    """A line has a free section if and only if it has a sum; only its value may become null."""
    assert [] == unfound(
        (
            f"line {at + 1}",
            b"".join([*LINES[:at], re.sub(rb',\t"free":\{.*?\}(?=\}\n|,\t)', b"", line), *LINES[at + 1 :]]),
        )
        for at, line in enumerate(LINES)
        if b'"free"' in line
    )
    assert [] == unfound(
        (
            f"line {at + 1}",
            b"".join(
                [*LINES[:at], re.sub(rb"(?=\}\n|,\t\"chain)", b',\t"free":null', line, count=1), *LINES[at + 1 :]]
            ),
        )
        for at, line in enumerate(LINES)
        if b'"free"' not in line and CHAIN_MARK not in line
    )


NESTED = seal_of(BATCHES[1].position, b"torn\n")
TORN = {
    "half a line": LINES[4][:50],
    "half a batch": LINES[5] + LINES[6][:-40],
    "an unfinished batch": LINES[5],
    "a hole": b"\0" * 5000,
    "a hole before a valid line": b"\0" * 100 + LINES[4],
    "a hole before valid lines": b"\0" * 100 + b"\n" + b"".join(LINES[4:]),
    "a batch whose chain does not fit": LINES[4].replace(b"harmful", b"helpful"),
    "a batch that skips one": b"".join(LINES[5:]),
    "an empty line": b"\n",
    "half a seal": b"torn\n" + NESTED.raw[:-30],
    "a seal whose range was damaged later": b"TORN\n" + NESTED.raw,
    "many bytes": b"x" * 70_000 + b"\n" + b"y" * 70_000,
}


@pytest.mark.parametrize("torn", TORN.values(), ids=TORN)
def test_a_sealed_range_is_skipped_exactly(torn: bytes) -> None:
    """The torn and sealed bytes are not read; everything before and after them is."""
    log = make_sealed_log(torn)
    assert ScanResult(log.batches, None, [log.range]) == read(log.data)


@given(st.binary(max_size=300))
def test_any_torn_bytes_can_be_sealed(torn: bytes) -> None:
    """For any torn bytes one seal makes the log whole again."""
    log = make_sealed_log(b"\0" + torn)
    assert ScanResult(log.batches, None, [log.range]) == read(log.data)


def test_a_batch_whose_last_lines_are_missing_is_called_unfinished() -> None:
    """The line break before the missing end does not count as a line of its own."""
    stop = read(b"".join(LINES[:-1])).stop
    assert stop is not None
    assert (6, "an unfinished batch: its end is missing") == (stop.problem.seq, stop.problem.message)


def test_a_changed_sealed_range_is_found() -> None:
    """A seal proves its range: no bit of it, nor of the seal, can change."""
    log = make_sealed_log(b'torn {"crc":"')
    first = log.batches[:2]
    for offset, bit, data in flips(log.data, log.range[0], log.batches[2].end):
        found = read(data)
        assert (first, []) == (found.batches, found.sealed), f"bit {bit} of byte {offset}"
        assert found.stop is not None, f"bit {bit} of byte {offset}"


@pytest.mark.parametrize(
    "changed",
    [
        {"begin": BATCHES[1].end + 1},
        {"begin": 0},
        {"end": 0},
        {"end": BATCHES[1].end + 1},
        {"digest": "0" * 32},
        {"digest": None},
        {"begin": str(BATCHES[1].end)},
    ],
)
def test_a_seal_of_another_range_or_digest_is_not_believed(changed: dict[str, object]) -> None:
    """A line whose chain fits but that names another range or digest seals nothing."""
    log = make_sealed_log(b"torn", **changed)
    found = read(log.data)
    assert (log.batches[:2], []) == (found.batches, found.sealed)
    assert found.stop is not None
