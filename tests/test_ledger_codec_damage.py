"""Decoding lines that Tallybook did not write: the damage messages, and the texts of an event by field."""

from __future__ import annotations

import re
from typing import Any

import pytest

from helpers.ledger_codec import CONTINUATION, damage_in_the_second, decoded, line_of, sample, sections
from helpers.ledger_lines import stamp
from tallybook.ledger.encoding import codec
from tallybook.ledger.encoding.codec import decode, encode, texts_of
from tallybook.ledger.encoding.event_json import decode_fast
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.events import KIND_OF, Event, LedgerOpened, PointAdded, PointRated, PointSeeded, UnknownEvent
from tallybook.ledger.line import FREE_CHARS, SECTION, RawBatch, complete_lines, frame, split_lines

UNWRITTEN = "its chain fits, but no Tallybook wrote this: "
NOTHING_THERE = "it continues a text that is not there"


@pytest.mark.parametrize(
    ("first", "free", "reason"),
    [
        ("point.removed", '{"salt":"5a17","text":"x"}', NOTHING_THERE),
        ("point.removed", None, NOTHING_THERE),
        ("point.added", '{"salt":"5a17","nothing":"x"}', NOTHING_THERE),
        ("point.added", '{"salt":"5a17"}', NOTHING_THERE),
        ("point.added", None, NOTHING_THERE),
        ("point.added", '{"salt":"5a17","text":7}', "expected str, got int"),
        ("point.added", '{"salt":"5a17","text":null}', "expected str, got NoneType"),
    ],
)
def test_an_invalid_continuation_is_explained(first: str, free: str | None, reason: str) -> None:
    """The message is that the event before it has no such text, or that it is no text itself."""
    with pytest.raises(DamagedLedgerError) as caught:
        decoded(line_of(first, *sections(first)), (CONTINUATION, free))
    assert [UNWRITTEN + reason] == [problem.message for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("what", "free", "reason"),
    [
        ('"kind":7,"v":1,"body":{}', None, "expected a text as kind and a number from 1 as v"),
        ('"kind":"point.removed","v":0,"body":{}', None, "expected a text as kind and a number from 1 as v"),
        (
            '"kind":"point.removed","v":1,"body":{"name":"a"},"more":1',
            None,
            "expected kind, v and body, and a sum where there is free text",
        ),
        ('"kind":"point.removed","v":1,"body":null', None, "expected an object as body"),
        ('"kind":"point.removed","v":1,"body":{"name": "a"}', None, "it is not canonical JSON"),
        ('"kind":"point.starred","v":1,"body":{"stars":9007199254740993}', None, "it is not canonical JSON"),
        (
            '"kind":"point.starred","v":1,"body":{}',
            '{"salt":"5a17","stars":9007199254740993}',
            "it is not canonical JSON",
        ),
        (
            '"kind":"point.added","v":1,"body":{"name":"a","text":"b"}',
            '{"salt":"5a17"}',
            "its free text is in its body",
        ),
        ('"kind":"point.added","v":1,"body":{"name":"a"}', '{"salt":7,"text":"b"}', "expected str, got int"),
        (
            '"kind":"playbook.updated","v":1,"body":{"added":"1","rated":0,"ignored":0}',
            None,
            "invalid value for type, expected int @ $.body.added",
        ),
        (
            '"kind":"playbook.ordered","v":1,"body":{"names":"a"}',
            None,
            "invalid value for type, expected tuple @ $.body.names",
        ),
    ],
)
def test_an_invalid_line_is_explained(what: str, free: str | None, reason: str) -> None:
    """With seq and place, the message has what was expected there."""
    assert UNWRITTEN + reason == damage_in_the_second((what, free))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"seq":2', b'"seq":3'),
        (b'"part":[2,2]', b'"part":[1,2]'),
        (b'"part":[2,2]', b'"part":[2,3]'),
        (b'"id":"id-2"', b'"id":"id-2","key":"k"'),
        (b'"id":"id-2"', b'"id": "id-2"'),
        (b'"id":"id-2"', b'"id":"id-2","more":1'),
    ],
    ids=["seq", "place", "size", "key", "blank", "field"],
)
def test_a_header_that_does_not_belong_there_is_damage(old: bytes, new: bytes) -> None:
    """A header has its own position in the ledger and in its batch, and only the first one has the key."""
    whole = frame([encode(PointRated("kpt_001", "helpful"))] * 2, stamp(key="k"))
    assert [1, 2] == [record.seq for record in next(decode([whole])).records]
    (batch,) = decode([whole._replace(lines=complete_lines(whole.data.replace(old, new)))])
    with pytest.raises(DamagedLedgerError) as caught:
        _ = batch.records
    (problem,) = caught.value.problems
    assert (2, UNWRITTEN + "its head is not one that Tallybook writes here") == (problem.seq, problem.message)


def test_the_author_of_a_continued_line_is_checked_too() -> None:
    """A fold must refuse what verify calls damage, also in a line without an event of its own."""
    whole = frame([encode(PointAdded("kpt_001", "long " * FREE_CHARS))], stamp())
    first, *continued = whole.data.split(b"\n")
    assert continued
    by = re.search(rb'"by":\{[^{}]*\}', continued[-1])
    assert by
    twice = by[0].replace(b"{", b'{"rater":"another",')
    changed = b"\n".join([first, *continued[:-1], continued[-1].replace(by[0], twice)])
    (batch,) = decode([whole._replace(lines=complete_lines(changed))])
    with pytest.raises(DamagedLedgerError) as caught:
        _ = batch.records
    (problem,) = caught.value.problems
    assert (len(continued) + 1, UNWRITTEN) == (problem.seq, problem.message[: len(UNWRITTEN)])


def rated(*names: str) -> RawBatch:
    """Return a batch of ratings of these entries."""
    return frame([encode(PointRated(name, "helpful")) for name in names], stamp())


@pytest.mark.parametrize("cls", [cls for cls in KIND_OF if cls is not LedgerOpened])
def test_a_well_formed_line_takes_the_fast_path(monkeypatch: pytest.MonkeyPatch, cls: type[Any]) -> None:
    """The slow path reads the same event in six times the time."""
    event = sample(KIND_OF[cls])
    batch = frame([encode(event)], stamp())
    monkeypatch.setattr(codec, "_parse", None)
    assert [((event,), batch.chain)] == [(tuple(one.events), one.chain) for one in decode([batch])]


def test_a_line_of_three_sections_is_not_read_as_one_of_two() -> None:
    """A remembered line of two sections is not used for a line of three that ends alike."""
    whole = rated("kpt_001")
    changed = whole._replace(lines=complete_lines(whole.data.replace(SECTION, SECTION + b'"more":1' + SECTION, 1)))
    batches = decode([whole, changed])
    assert [PointRated("kpt_001", "helpful")] == list(next(batches).events)
    with pytest.raises(DamagedLedgerError):
        list(batches)


def test_a_repeated_line_is_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal lines of batches share their events, up to a length and a number of them."""
    batches = [rated("kpt_001"), rated("kpt_001"), rated("kpt_002"), rated("kpt_001")]
    whats = [split_lines(batch.data)[0].partition(SECTION)[2] + b"\n" for batch in batches]
    decoded_ones: list[bytes] = []

    def noted(what: bytes) -> Event | None:
        decoded_ones.append(what)
        return decode_fast(what)

    monkeypatch.setattr(codec, "decode_fast", noted)

    def decodings() -> list[bytes]:
        decoded_ones.clear()
        told = [event for batch in decode(batches) for event in batch.events]
        assert [PointRated(f"kpt_00{n}", "helpful") for n in (1, 1, 2, 1)] == told
        return list(decoded_ones)

    assert [whats[0], whats[2]] == decodings()
    monkeypatch.setattr(codec, "MEMO_BYTES", len(whats[0]))
    assert [whats[0], whats[2]] == decodings()
    monkeypatch.setattr(codec, "MEMO_ENTRIES", 1)
    assert [whats[0], whats[2]] == decodings()
    monkeypatch.setattr(codec, "MEMO_ENTRIES", 0)
    assert whats == decodings()
    monkeypatch.setattr(codec, "MEMO_ENTRIES", 2)
    monkeypatch.setattr(codec, "MEMO_BYTES", len(whats[0]) - 1)
    assert whats == decodings()


def test_a_full_memo_is_emptied_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated line is remembered, even if the memo was filled before with lines that never repeat."""
    monkeypatch.setattr(codec, "MEMO_ENTRIES", 3)
    monkeypatch.setattr(codec, "MEMO_MISSES", 4)
    asked: list[bytes] = []

    def noted(what: bytes) -> Event | None:
        asked.append(what)
        return decode_fast(what)

    monkeypatch.setattr(codec, "decode_fast", noted)
    names = ["a", "b", "c", "again", "again", "again"]
    assert names == [batch.events[0].name for batch in decode([rated(name) for name in names])]  # type: ignore[attr-defined]
    assert [name.encode() in what for name, what in zip(names[:5], asked, strict=True)] == [True] * 5


def test_the_texts_of_an_event_are_listed_by_field() -> None:
    """Every present free text is listed, whatever its kind; none that is empty or redacted, and nothing else."""
    assert {} == texts_of(PointRated("kpt_001", "helpful"))
    assert {"text": "a"} == texts_of(PointAdded("kpt_001", "a"))
    assert {} == texts_of(PointAdded("kpt_001", None))
    assert {"text": "a"} == texts_of(PointSeeded("kpt_001", 1, 0, "odd", "a", ""))
    assert {"text": "a", "original": "{}"} == texts_of(PointSeeded("kpt_001", 1, 0, "odd", "a", "{}"))
    assert {} == texts_of(UnknownEvent("point.starred", 1, '{"text":"a"}'))
    assert {"why": "b"} == texts_of(UnknownEvent("point.starred", 1, "{}", '{"why":"b","how":"","count":7}'))
