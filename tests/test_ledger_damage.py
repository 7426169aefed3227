"""Logs that are planted to be slow to read: the work grows only as fast as their number of seals and bad ranges."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from helpers.ledger_lines import batches_of, file_of, raw
from helpers.ledger_scan import BATCHES, GROUPS, seal_of
from tallybook.ledger.line import START
from tallybook.ledger.reading import repair, scan, search
from tallybook.ledger.reading.repair import survey
from tallybook.ledger.reading.scan import Scan
from tallybook.ledger.storage.disk import read_at

Work = Callable[[int, int], object]
Count = Callable[[Work, bytes], int]

FEW, MANY = 200, 1_000
# Each byte is read a few times, in a log with five times as many seals no oftener but for the edges.
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

    for module in (repair, scan, search):
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
    assert GROWTH > growth(readings, plant, lambda fd, size: list(survey(fd, START, size, "events.jsonl")))
