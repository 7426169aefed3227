"""Fields of events as JSON: the fast path and the slow path agree, nothing is converted, and errors give a path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.ledger_codec import sample
from helpers.ledger_lines import EVENTS, TRICKY, batches_of
from tallybook.ledger.encoding import codec
from tallybook.ledger.encoding.codec import encode
from tallybook.ledger.encoding.event_json import REFUSALS, decode_fast
from tallybook.ledger.events import (
    EVENT_TYPES,
)
from tallybook.ledger.line import SECTION, split_lines

if TYPE_CHECKING:
    from tallybook.ledger.events import Event

FAST = sorted(set(EVENT_TYPES) - {"ledger.opened"})
"""Kinds whose lines take the fast path."""


def what_of(event: Event) -> bytes:
    """Return a line after its first section, as in the file."""
    (batch,) = batches_of([encode(event)])
    return split_lines(batch.data)[0].partition(SECTION)[2] + b"\n"


def decode_slowly(what: bytes) -> Event | None:
    """Return the events that the slow path reads, None if it refuses the line."""
    try:
        return codec._to_event(codec._parse(what))
    except REFUSALS:
        return None


def typed(event: Event | None) -> list[Any]:
    """Return the class and the fields of an event, each with its type: True is not 1 here."""
    if event is None:
        return [None]
    return [type(event), *((type(value), repr(value)) for value in attrs.astuple(event, recurse=False))]


def agree(what: bytes) -> None:
    """Check that an event of the fast path is the event of the slow path."""
    event = decode_fast(what)
    if event is not None:
        assert typed(event) == typed(decode_slowly(what))


# The fast path agrees with the slow path


@given(EVENTS)
def test_both_paths_read_the_same_event(event: Event) -> None:
    """Whatever its texts hold, an event that the fast path reads is the one that the slow path reads."""
    (batch,) = batches_of([encode(event)])
    for line in split_lines(batch.data):
        agree(line.partition(SECTION)[2] + b"\n")


PIECES = [b'"', b"\\", b"\\u0041", b"\\n", b" ", b"\t", b"\n", b"\r", b"\0", b"\x1f", b"\x7f", b"\x80", b"\xc3\xa9"]
PIECES += [b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"0", b"-0", b"-", b"00", b"1.0", b"1e3", b"9" * 16]
PIECES += [b"9007199254740993", b"NaN", b"null", b"true", b"{}", b"[]", b"}", b"{", b",", b":", b'"name":"x",', b""]
PIECES += [b"1e-7", b"1e-07", b"1e16", b"1e+16", b"0.1", b"-0.0", b"1E5", b'"x":1,', b'"x":1', b"}}\n", b'},"sum":"0"']
PIECES += [piece.encode() for piece in TRICKY]
CUTS = st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(PIECES))


@given(st.sampled_from(sorted(EVENT_TYPES)), st.lists(CUTS, min_size=1, max_size=3))
def test_the_fast_path_reads_nothing_that_the_slow_path_refuses(
    kind: str, cuts: list[tuple[float, int, bytes]]
) -> None:
    """Of any changed line the fast path reads only a canonical, typed and bounded event, and the same one."""
    what = what_of(sample(kind))
    for place, length, piece in cuts:
        begin = int(place * len(what))
        what = what[:begin] + piece + what[begin + length :]
    agree(what)


@pytest.mark.parametrize("kind", FAST)
def test_both_paths_agree_whichever_byte_of_a_line_changes(kind: str) -> None:
    """With any byte replaced, both paths read the same event, or the slow path alone decides."""
    what = what_of(sample(kind))
    for at in range(len(what)):
        for byte in b'\0\t\n\x1f "\\0129-.eE+{}[],:azAZ\x7f\x80\xff':
            agree(what[:at] + bytes([byte]) + what[at + 1 :])
