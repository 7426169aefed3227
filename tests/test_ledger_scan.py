"""Reading the file under systematic damage: every change is found and named, and never returned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
import re

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.ledger_lines import Read, read
from helpers.ledger_logs import BATCHES, LINES, LOG, flips, seal_of, sealed_log
from tallybook.ledger.line import CHAIN_MARK, START


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
    log = sealed_log(torn)
    assert Read(log.batches, None, [log.range]) == read(log.data)


@given(st.binary(max_size=300))
def test_any_torn_bytes_can_be_sealed(torn: bytes) -> None:
    """For any torn bytes one seal makes the log whole again."""
    log = sealed_log(b"\0" + torn)
    assert Read(log.batches, None, [log.range]) == read(log.data)


def test_a_batch_whose_last_lines_are_missing_is_called_unfinished() -> None:
    """The line break before the missing end does not count as a line of its own."""
    stop = read(b"".join(LINES[:-1])).stop
    assert stop is not None
    assert (6, "an unfinished batch: its end is missing") == (stop.problem.seq, stop.problem.message)


def test_a_changed_sealed_range_is_found() -> None:
    """A seal proves its range: no bit of it, nor of the seal, can change."""
    log = sealed_log(b'torn {"crc":"')
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
    log = sealed_log(b"torn", **changed)
    found = read(log.data)
    assert (log.batches[:2], []) == (found.batches, found.sealed)
    assert found.stop is not None
