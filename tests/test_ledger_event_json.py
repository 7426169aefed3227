"""Fields of events as JSON: the fast path and the slow path agree, nothing is converted, and errors give a path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.ledger_codec import GOOD, WRONG, sample
from helpers.ledger_lines import EVENTS, TRICKY, batches_of, forge
from tallybook.ledger.encoding import codec
from tallybook.ledger.encoding.codec import decode, encode
from tallybook.ledger.encoding.event_json import REFUSALS, UnfitError, decode_fast, structure, structure_fields
from tallybook.ledger.events import (
    EVENT_TYPES,
    BaselineSet,
    FeedbackRecorded,
    MetricsRecorded,
    Numbers,
    PlaybookEdited,
    PlaybookUpdated,
    PointAdded,
)
from tallybook.ledger.line import SECTION, split_line, split_lines
from tallybook.ledger.records import Author

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


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63, 2**64, 10**30])
@pytest.mark.parametrize(
    ("event", "place"),
    [
        (PlaybookUpdated(1, 0, 0), b'"added":1'),
        (PlaybookEdited(1, None, ""), b'"base":1'),
        (MetricsRecorded("ac01", Numbers({"x": 1}), ""), b'"x":1'),
    ],
    ids=["a count", "a number or null", "numbers by name"],
)
def test_no_path_reads_a_number_beyond_2_to_the_53(event: Event, place: bytes, number: int) -> None:
    """Readers of JSON disagree about such a number, and msgspec alone would read it."""
    what = what_of(event).replace(place, place[:-1] + b"%d" % number)
    assert (None, None) == (decode_fast(what), decode_slowly(what))


# Which lines take the fast path


@pytest.mark.parametrize(("score", "fast"), [(82.5, True), (0.1, True), (1e-07, True), (100, False), (0, False)])
def test_a_whole_number_in_a_field_of_floats_stays_whole(score: float, *, fast: bool) -> None:
    """Msgspec would read 100 as 100.0, which is spelled differently: the slow path reads it as 100."""
    for event in (FeedbackRecorded("ac01", score, "", ""), BaselineSet("ac01", score, "")):
        what = what_of(event)
        assert (typed(event) if fast else [None]) == typed(decode_fast(what))
        assert typed(event) == typed(decode_slowly(what))


def test_a_float_in_the_spelling_of_another_library_is_refused() -> None:
    """Msgspec writes 1e-7 where the ledger writes 1e-07; only the ledger's spelling is canonical."""
    what = what_of(FeedbackRecorded("ac01", 1e-07, "", "")).replace(b"1e-07", b"1e-7")
    assert (None, None) == (decode_fast(what), decode_slowly(what))


def test_a_batch_reads_the_same_on_both_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of all kinds in one batch, some with texts that continue and some that need an escape."""
    events = [*map(sample, FAST), PointAdded("b", "x\n" * 9_000)]
    (batch,) = batches_of(list(map(encode, [*events, *events])))
    slow = forge(*(_sections(line) for line in split_lines(batch.data)))
    assert [*events, *events] == list(next(decode([batch])).events)
    monkeypatch.setattr(codec, "decode_fast", lambda _: None)
    assert [*events, *events] == list(next(decode([slow])).events)


def _sections(line: bytes) -> tuple[str, str | None]:
    _, what, free = split_line(line)
    return re.sub(r',"sum":"[0-9a-f]*"$', "", what[1:-1].decode()), None if free is None else free.decode()


# Fields that do not fit


def fields_of(kind: str) -> dict[str, Any]:
    """Return the fields of a sample of a kind."""
    return attrs.asdict(sample(kind), recurse=False)


@pytest.mark.parametrize(("kind", "field", "value"), WRONG)
def test_a_value_that_does_not_fit_is_named_with_its_path(kind: str, field: str, value: Any) -> None:
    """None, a number or a text of another type, or one beyond its bounds, is never converted to one that would fit."""
    with pytest.raises(UnfitError, match=rf"@ \$\.{field}"):
        structure(kind, EVENT_TYPES[kind][1], fields_of(kind) | {field: value})


def test_a_missing_or_unknown_field_is_named() -> None:
    """A class takes exactly its own fields; those with a default may be missing."""
    with pytest.raises(UnfitError, match="rating"):
        structure("point.rated", 1, {"name": "a"})
    with pytest.raises(UnfitError, match=r"extra fields found .*stars"):
        structure("point.rated", 1, {"name": "a", "rating": "helpful", "stars": 5})
    assert Author("r") == structure_fields({"rater": "r"}, Author, "$")
    with pytest.raises(UnfitError, match=r"@ \$\.by\.session"):
        structure_fields({"rater": "r", "session": 7}, Author, "$.by")


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf"), b"x", {1: 2}, ("x", 1)])
def test_values_that_are_not_json_are_refused(odd: Any) -> None:
    """A value that only a program can pass fits no type of field."""
    for type_ in GOOD:
        cls = attrs.make_class("Odd", {"field": attrs.field(type=type_)})
        with pytest.raises(UnfitError):
            structure_fields({"field": odd}, cls, "$")


def test_every_type_of_a_field_is_checked_strictly() -> None:
    """Cattrs would convert a field of another type, so each type needs a hook and a row in GOOD."""
    types = {field.type for cls, _ in EVENT_TYPES.values() for field in attrs.fields(attrs.resolve_types(cls))}
    types |= {field.type for field in attrs.fields(attrs.resolve_types(Author))}
    assert set() == types - GOOD.keys()
