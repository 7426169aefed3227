"""The forms of lines: what they take is what the codec comes to without them, and all that is usual is taken."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from ledger import codec, forms
from ledger.codec import REFUSALS, decode, encode
from ledger.events import EVENT_TYPES, LedgerOpened, PlaybookEdited, PointAdded, PointRated, PointSeeded
from ledger.forms import event_of, form
from ledger.line import SECTION, lines_of, split_line
from test_ledger_codec import sample
from test_ledger_line import EVENTS, TEXTS, TRICKY, batches_of, forge

if TYPE_CHECKING:
    from ledger.events import Event

USUAL = [kind for kind, (cls, version) in EVENT_TYPES.items() if form(kind, cls, version)]


def what_of(event: Event) -> bytes:
    """Return what an event's line says, as the file has it."""
    (batch,) = batches_of([encode(event)])
    return lines_of(batch.data)[0].partition(SECTION)[2] + b"\n"


def the_long_way(what: bytes) -> Event | None:
    """Return what the codec makes of a line without its form, None where it refuses it."""
    try:
        return codec._event(codec._parse(what))
    except REFUSALS:
        return None


def typed(event: Event | None) -> list[Any]:
    """Return the fields of an event, each with its type: True is no 1 here."""
    return [event] if event is None else [(type(value), value) for value in attrs.astuple(event, recurse=False)]


def agree(what: bytes) -> None:
    """Check that a line's form, where it takes it, comes to the very event that the long way comes to."""
    taken = event_of(what, {})
    if taken is not None:
        assert typed(taken) == typed(the_long_way(what))
        assert type(taken) is type(the_long_way(what))


@given(EVENTS)
def test_a_form_takes_what_the_long_way_takes(event: Event) -> None:
    """Whatever its texts hold, an event comes out the same by its form, if that takes it, and by the long way."""
    (batch,) = batches_of([encode(event)])
    for line in lines_of(batch.data):
        agree(line.partition(SECTION)[2] + b"\n")


PIECES = [b'"', b"\\", b"\\u0041", b"\\n", b" ", b"\t", b"\n", b"\r", b"\0", b"\x1f", b"\x7f", b"\x80", b"\xc3\xa9"]
PIECES += [b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"0", b"-0", b"-", b"00", b"1.0", b"1e3", b"9" * 16]
PIECES += [b"9007199254740993", b"NaN", b"null", b"true", b"{}", b"[]", b"}", b"{", b",", b":", b'"name":"x",', b""]
PIECES += [piece.encode() for piece in TRICKY]
CUTS = st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(PIECES))


@given(st.sampled_from(sorted(EVENT_TYPES)), st.lists(CUTS, min_size=1, max_size=3))
def test_a_form_takes_nothing_that_the_long_way_refuses(kind: str, cuts: list[tuple[float, int, bytes]]) -> None:
    """However a line is changed, its form takes only what is still canonical, typed and bounded, and the same."""
    what = what_of(sample(kind))
    for place, length, piece in cuts:
        begin = int(place * len(what))
        what = what[:begin] + piece + what[begin + length :]
    agree(what)


@pytest.mark.parametrize("kind", USUAL)
def test_no_byte_of_a_line_can_be_another_unnoticed(kind: str) -> None:
    """Each byte in the place of each other is taken alike by both ways, or by the long way alone."""
    what = what_of(sample(kind))
    for at in range(len(what)):
        for byte in b'\0\t\n\x1f "\\0129-.eE+{}[],:azAZ\x7f\x80\xff':
            agree(what[:at] + bytes([byte]) + what[at + 1 :])


@pytest.mark.parametrize("number", [0, 1, -1, 10, 10**15 - 1, 10**15, 2**53, -(2**53)])
def test_numbers_have_their_bounds_whichever_way_they_take(number: int) -> None:
    """Counts below nothing are refused by both ways, and a number of any length is read the same."""
    what = what_of(PlaybookEdited(None, None, "")).replace(b'"base":null', b'"base":%d' % number)
    agree(what)
    assert PlaybookEdited(number, None, "") == (event_of(what, {}) or the_long_way(what))
    below = what_of(PointSeeded("a", 1, 0, "odd", "t", "")).replace(b'"helpful":1', b'"helpful":%d' % number)
    agree(below)
    assert (number < 0) == (the_long_way(below) is None)


@pytest.mark.parametrize("kind", USUAL)
def test_a_usual_line_has_the_form_of_its_kind(kind: str) -> None:
    """What the writer writes of a kind is taken, unless something in it needs an escape."""
    event = sample(kind)
    assert event == event_of(what_of(event), {})


def test_what_is_not_known_has_a_form_too() -> None:
    """A number or a text that is null is taken as None, whatever stands beside it."""
    for event in (PlaybookEdited(None, None, ""), PlaybookEdited(7, None, ""), PlaybookEdited(None, "x", "")):
        assert typed(event) == typed(event_of(what_of(event), {}))


@given(TEXTS, TEXTS)
def test_what_needs_an_escape_goes_the_long_way(name: str, text: str) -> None:
    """Texts are taken as they are written, and those with an escape in them are left to the codec."""
    for event in (PointRated(name, text), PointAdded(name, text)):
        what = what_of(event)
        assert (None if b"\\" in what else event) == event_of(what, {})


def test_kinds_that_no_pattern_tells_have_no_form() -> None:
    """Fields that are no text and no whole number, the opening, and kinds from the future are left to the codec."""
    others = set(EVENT_TYPES) - set(USUAL)
    assert {"ledger.opened", "metrics.recorded", "playbook.injected", "playbook.ordered"} <= others
    assert {"point.rated", "point.added", "point.seeded", "playbook.updated"} <= set(USUAL)
    known: forms.Forms = {}
    assert None is event_of(what_of(LedgerOpened("x", 1)), known)
    assert None is event_of(b'"kind":"point.starred","v":1,"body":{"name":"x"}}\n', known)
    assert None is event_of(b"}\n", known)
    assert {None} == set(known.values())


def test_a_version_that_is_not_todays_has_no_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the long way lifts it."""
    what = what_of(PointRated("a", "b"))
    monkeypatch.setitem(EVENT_TYPES, "point.rated", (PointRated, 2))
    assert None is event_of(what, {})
    assert PointRated("a", "b") == event_of(re.sub(rb'"v":1', b'"v":2', what), {})


def test_a_batch_reads_the_same_with_forms_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of all kinds in one batch, some with texts that go on and some that need an escape."""
    events = [*map(sample, sorted(set(EVENT_TYPES) - {"ledger.opened"})), PointAdded("b", "x\n" * 9_000)]
    (batch,) = batches_of(list(map(encode, [*events, *events])))
    long_way = forge(*(_sections(line) for line in lines_of(batch.data)))
    assert [*events, *events] == list(next(decode([batch])).events)
    monkeypatch.setattr(codec, "event_of", lambda *_: None)
    assert [*events, *events] == list(next(decode([long_way])).events)


def _sections(line: bytes) -> tuple[str, str | None]:
    _, what, free = split_line(line)
    return re.sub(r',"sum":"[0-9a-f]*"$', "", what[1:-1].decode()), None if free is None else free.decode()
