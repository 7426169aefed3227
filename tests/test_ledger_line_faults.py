"""Damage of single lines: the message for each, alone and in an invalid batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.ledger_lines import batches_of, stamp
from tallybook.ledger.encoding.codec import encode
from tallybook.ledger.events import EventRedacted, PlaybookUpdated, PointAdded, PointRated
from tallybook.ledger.line import (
    CHAIN_MARK,
    FREE_CHARS,
    FREE_MARK,
    Draft,
    chained_bytes,
    diagnose,
    frame,
    free_spans,
    head_field,
    line_fault,
    split_long_texts,
    sum_fault,
)

FOREIGN = "is not a line of this ledger"
HOLE = "is a hole of NUL bytes"
CHANGED = "was changed: its bytes do not fit its checksum"
TEXT_CHANGED = "its text was changed: it does not fit its digest"
NO_CHAIN = "the chain does not fit: this batch, or the one before it, was changed, swapped or cut"
ADDED, RATED, CLOSED = PointAdded("kpt_001", "a text"), PointRated("kpt_001", "helpful"), PlaybookUpdated(1, 1, 0)


def lines() -> list[bytes]:
    """Return three lines as in a file: with a text, without one, and the last of the batch."""
    return batches_of([encode(ADDED), encode(RATED), encode(CLOSED)])[0].raw.removesuffix(b"\n").split(b"\n")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"", FOREIGN),
        (b"\0", HOLE),
        (b"\0" * 70_000, HOLE),
        (b"\0\0X", FOREIGN),
        (b"X\0X", FOREIGN),
        (b"hello", FOREIGN),
        (b'{"crc":"00000000","seq":1}', FOREIGN),
        (b'{"a":1,\t"crc":"00000000"}', FOREIGN),
        (b'{"crc":"00000000","seq":1,\t"kind":"x"}', CHANGED),
    ],
    ids=lambda value: repr(value[:20]),
)
def test_an_invalid_line_is_described(line: bytes, fault: str) -> None:
    """The message distinguishes a hole from a crash, a line from elsewhere, and a changed line."""
    assert fault == line_fault(line, 1)


def test_a_changed_text_is_reported_by_its_digest() -> None:
    """A changed text is a fault; a redacted one, with blanks for the rest or without, is none."""
    line = lines()[0]
    before, _, value = line.partition(b',\t"free":')
    assert TEXT_CHANGED == line_fault(line.replace(b"a text", b"a lie!"), 1)
    for behind in (b"x", b"X", b"\t", b" \t "):
        assert TEXT_CHANGED == line_fault(before + b',\t"free":null' + behind + b"}", 1)
    for blanks in (b"", b" ", b" " * (len(value) - 5)):
        assert line_fault(before + b',\t"free":null' + blanks + b"}", 1) is None


def test_a_field_of_the_header_is_distinguished_from_one_of_the_body() -> None:
    """The first field of that name counts; bytes outside ASCII there are reported as such."""
    line = frame([encode(EventRedacted("id-9", "secret"))], stamp()).data
    assert ("id-1", "", "test") == (head_field(line, b"id"), head_field(line, b"key"), head_field(line, b"rater"))
    assert "\ufffd\ufffd" == head_field(line.replace(b"id-1", "é".encode()), b"id")


def test_a_long_text_is_continued_piece_by_piece() -> None:
    """Its own line has the fields; each piece is a line of the same moment, in the order of the text."""
    when = "2026-11-20T00:00:00.000000Z"
    short = Draft("point.removed", 1, {"name": "kpt_001"})
    long = Draft("point.seeded", 1, {"name": "kpt_002"}, {"text": "a" * FREE_CHARS + "b", "original": "c"}, when)
    more = [Draft("text.continued", 1, {}, piece, when) for piece in ({"text": "b"}, {"original": "c"})]
    begun = long._replace(free={"text": "a" * FREE_CHARS, "original": ""})
    assert [short, begun, *more] == list(split_long_texts([short, long]))
    assert [short] == list(split_long_texts([short]))


def test_the_sums_of_a_batch_find_the_changed_text() -> None:
    """The first text with a wrong sum is found by its line; redacted ones and lines without text are skipped."""
    data = batches_of([encode(RATED), encode(ADDED), encode(ADDED), encode(CLOSED)])[0].data
    assert sum_fault(data) is None
    assert sum_fault(b"\n".join(lines()[1:])) is None
    first, second, third, last = data.split(b"\n")
    lied = third.replace(b"a text", b"a lie!")
    gone = second[: second.index(b"{", second.index(b'"free":'))] + b"null   }"
    assert 2 == sum_fault(b"\n".join((first, second, lied, last)))
    assert 2 == sum_fault(b"\n".join((first, gone, lied, last)))
    assert 1 == sum_fault(b"\n".join((first, lied, lied, last)))
    assert 2 == sum_fault(b"\n".join((first, second, lied.removesuffix(b"}"))))


def test_an_invalid_batch_names_its_faulty_line() -> None:
    """The first line with a fault is named; if each is valid alone, the error is about the batch, at its first."""
    one, two, three = lines()
    changed = two.replace(b"helpful", b"harmful")
    assert (1, CHANGED) == diagnose([one, changed, changed], 1)
    assert (0, CHANGED) == diagnose([one.replace(b"kpt_001", b"kpt_007"), changed, three], 1)
    moved = "has seq 2 where 3 is due: lines were moved, repeated, removed or added"
    assert (2, moved) == diagnose([one, two, two], 1)
    assert (0, NO_CHAIN) == diagnose([one, two, three], 1)


PIECES = st.sampled_from([FREE_MARK, b"\n", b"}", b"{}", b"null", b"x", b",\t", b'"free":', CHAIN_MARK])


@given(st.lists(PIECES, max_size=12).map(b"".join))
def test_a_line_has_one_free_value(data: bytes) -> None:
    """It begins after the first mark of the line and ends before its last byte; the last line's, at its end."""
    lines = data.split(b"\n")
    expected = []
    for index, line in enumerate(lines):
        kept, mark, free = line.partition(FREE_MARK)
        expected.append(kept + mark + (free[-1:] if index < len(lines) - 1 else b""))
    assert b"\n".join(expected) == chained_bytes(data)
    assert sum(FREE_MARK in line for line in lines) == len(free_spans(data))
