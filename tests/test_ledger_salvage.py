"""Of a damaged ledger salvage finds every valid batch, and nothing else; each gap names what is missing."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from helpers.ledger_lines import batches_of, file_of, raw
from helpers.ledger_logs import rated
from helpers.ledger_scan import GROUPS, seal_of
from tallybook.ledger import scan, search, verification
from tallybook.ledger.codec import encode
from tallybook.ledger.events import PointAdded
from tallybook.ledger.line import CHAIN_MARK, START, Position, RawBatch
from tallybook.ledger.scan import Scan
from tallybook.ledger.storage.disk import read_at
from tallybook.ledger.verification import Gap, survey

BATCHES = batches_of(*(rated(f"kpt_{n:03d}") * 2 for n in range(1, 8)))
WHOLE = b"".join(batch.raw for batch in BATCHES)


def found_in(data: bytes, start: Position = START, owed: Collection[str] = ()) -> list[RawBatch | Gap]:
    """Return the batches and the gaps of a survey of these bytes from a position on."""
    return list(survey(file_of(data), start, len(data), owed))


def lines_and_gaps(found: list[RawBatch | Gap]) -> tuple[list[int], list[tuple[int, int | None]]]:
    """Return the last seq of each found batch, and the gaps."""
    seqs = [part.last for part in found if isinstance(part, RawBatch)]
    return seqs, [part.missing for part in found if isinstance(part, Gap)]


@pytest.mark.parametrize("number", range(1, 6))
def test_a_changed_batch_is_the_only_gap(number: int) -> None:
    """A changed byte in a line makes its batch a gap; every other batch is found."""
    at = BATCHES[number].offset + 30
    changed = WHOLE[:at] + bytes([WHOLE[at] ^ 1]) + WHOLE[at + 1 :]
    seqs, gaps = lines_and_gaps(found_in(changed))
    batch = BATCHES[number]
    assert [other.last for other in BATCHES if other is not batch] == seqs
    assert [(batch.first, batch.last)] == gaps


@pytest.mark.parametrize("number", range(6))
def test_a_changed_chain_value_loses_nothing(number: int) -> None:
    """A batch with a changed chain value is proven by the next batch."""
    at = BATCHES[number].end - 10
    changed = WHOLE[:at] + (b"0" if WHOLE[at : at + 1] != b"0" else b"1") + WHOLE[at + 1 :]
    seqs, gaps = lines_and_gaps(found_in(changed))
    assert [batch.last for batch in BATCHES] == seqs
    assert [(BATCHES[number].first, BATCHES[number].first - 1)] == gaps


@pytest.mark.parametrize("begin", range(0, len(WHOLE), 97))
def test_no_survey_finds_a_false_batch(begin: int) -> None:
    """Whatever range is NUL bytes, only batches of the ledger are found, in order, each once."""
    holed = WHOLE[:begin] + bytes(min(200, len(WHOLE) - begin)) + WHOLE[begin + 200 :]
    seqs, _ = lines_and_gaps(found_in(holed))
    assert sorted(set(seqs)) == seqs
    assert {batch.last for batch in BATCHES} >= set(seqs)


TOLD = batches_of(rated("kpt_000"), *([encode(PointAdded(f"kpt_{n:03d}", f"a text {n}"))] for n in range(1, 6)))


def rechained(batch: RawBatch, value: bytes = b"0" * 32) -> bytes:
    """Return a batch's bytes with another chain value."""
    return batch.data + CHAIN_MARK + value + b'"}\n'


def test_a_text_is_proven_with_its_batch() -> None:
    """A batch whose chain value and text were both changed is not returned; the batches after it are."""
    data = raw(TOLD[:2]) + rechained(TOLD[2]).replace(b"a text 2", b"a lie  2") + raw(TOLD[3:])
    seqs, gaps = lines_and_gaps(found_in(data))
    assert ([1, 2, 5, 6], [(3, 4)]) == (seqs, gaps)
    data = raw(TOLD[:2]) + rechained(TOLD[2]) + TOLD[3].raw.replace(b"a text 3", b"a lie  3") + raw(TOLD[4:])
    seqs, gaps = lines_and_gaps(found_in(data))
    assert ([1, 2, 5, 6], [(3, 4)]) == (seqs, gaps)


Work = Callable[[int, int], object]
Count = Callable[[Work, bytes], int]
FEW, MANY = 200, 1_000
GROWTH = 1.3


def sealed_again_and_again(count: int) -> bytes:
    """Return a log of many torn ranges, each with its own seal."""
    pieces, mark = [raw(BATCHES)], BATCHES[-1].position
    for _ in range(count):
        seal = seal_of(mark, b"torn\n")
        pieces += [b"torn\n", seal.raw]
        mark = seal.position
    return b"".join(pieces)


def claimed_again_and_again(count: int, **changed: object) -> bytes:
    """Return a log of one bad range in which many lines claim to seal all bytes before them."""
    mark, torn = BATCHES[-1].position, bytearray(b"torn\n")
    for _ in range(count):
        torn += seal_of(mark, bytes(torn), **{"digest": "0" * 32} | changed).raw
    return raw(BATCHES) + bytes(torn)


def named_again_and_again(count: int) -> bytes:
    """Return a log of one bad range whose lines name the kind of a seal as often as possible."""
    line = b'{"crc":"' + b',\t"kind":"log.recovered","v":1,"body":{"begin":1,"end":2,' * 20 + b"\n"
    return raw(BATCHES) + line * (count // 20)


def claimed_over_blanks(count: int) -> bytes:
    """Return a log of one bad range that begins with blanks, like a redacted text."""
    planted = claimed_again_and_again(count)
    begin = BATCHES[-1].end
    return planted[:begin] + b" " * 4 + planted[begin + 4 :]


def changed_again_and_again(count: int) -> bytes:
    """Return a log in which every second batch was changed."""
    pieces, mark = [raw(BATCHES)], BATCHES[-1].position
    for _ in range(count // 2):
        bad, good = batches_of(GROUPS[1], GROUPS[1], mark=mark)
        pieces += [bad.raw.replace(b"harmful", b"helpful"), good.raw]
        mark = good.position
    return b"".join(pieces)


PLANTED: dict[str, Callable[[int], bytes]] = {
    function.__name__: function
    for function in (
        sealed_again_and_again,
        claimed_again_and_again,
        named_again_and_again,
        claimed_over_blanks,
        changed_again_and_again,
    )
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
