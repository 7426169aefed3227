"""Events to bodies and back: strict for every field of every kind, tolerant of unknown kinds and versions."""

from __future__ import annotations

import json
from typing import Any

import attrs
from hypothesis import given
import pytest

from helpers.ledger_codec import CONTINUATION, WRONG, damage_in_the_second, decode_lines, line_of, sample, sections
from helpers.ledger_lines import EVENTS, batches_of, read
from tallybook.ledger import codec
from tallybook.ledger.codec import FREE_FIELDS, REFUSALS, UPCASTS, decode, decode_fast, encode
from tallybook.ledger.errors import BadInputError, DamagedLedgerError, NewerLedgerError
from tallybook.ledger.events import (
    EVENT_TYPES,
    Event,
    LedgerOpened,
    PlaybookUpdated,
    PointAdded,
    PointRated,
    UnknownEvent,
)
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import SECTION
from tallybook.ledger.strict_json import is_canonical

FIELDS = [(kind, field.name) for kind, (cls, _) in EVENT_TYPES.items() for field in attrs.fields(cls)]
# A field that came later without a new version has a default: lines from before it lack it.
REQUIRED = [
    (kind, field.name)
    for kind, (cls, _) in EVENT_TYPES.items()
    for field in attrs.fields(cls)
    if field.default is attrs.NOTHING
]
WITH_TEXT = [kind for kind, (cls, _) in EVENT_TYPES.items() if FREE_FIELDS[cls]]
AT_LEAST_ZERO = [(kind, field) for kind, field in FIELDS if field in {"entries", "helpful", "harmful", "index"}]


def spoil(kind: str, field: str, value: Any) -> Any:
    """Return a sample with one wrong value, made without the checks of its class."""
    with attrs.validators.disabled():
        return attrs.evolve(sample(kind), **{field: value})


def split(kind: str, changed: dict[str, Any]) -> tuple[str, str | None]:
    """Return the line of a sample in which some fields are changed, each in its own section."""
    body, free = sections(kind)
    for name, value in changed.items():
        (body if name in body else free or {})[name] = value
    return line_of(kind, body, free)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_an_event_survives_a_round_trip(kind: str) -> None:
    """Encoding, framing, scanning and decoding give the same event for every kind."""
    assert [sample(kind)] == list(next(decode(batches_of([encode(sample(kind))]))).events)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_free_text_is_in_its_own_section(kind: str) -> None:
    """Text by a person or a model is in the free section alone, so that it can be redacted."""
    draft = encode(sample(kind))
    names = [field.name for field in attrs.fields(EVENT_TYPES[kind][0]) if field.metadata.get("free")]
    assert (names or None) == (None if draft.free is None else list(draft.free))
    assert set() == set(names) & set(draft.body)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_a_wrong_value_is_not_encoded(kind: str) -> None:
    """No value is converted when writing: another type, or a number beyond 2^53, is bad input and names its field."""
    for field, value in WRONG[kind]:
        with pytest.raises(BadInputError, match=rf"{kind}: .*\$\.{field}"):
            encode(spoil(kind, field, value))


@pytest.mark.parametrize(("kind", "field"), AT_LEAST_ZERO)
def test_a_count_below_zero_is_not_encoded(kind: str, field: str) -> None:
    """INV-SCORE-001, INV-SCORE-002: a count with a floor of 0 is never written below it."""
    with pytest.raises(BadInputError, match=kind):
        encode(spoil(kind, field, -1))


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_a_wrong_value_in_a_stored_event_is_damage(kind: str) -> None:
    """No value is converted when reading: the damage names the seq, and the field of JSON that is canonical."""
    for field, value in WRONG[kind]:
        place = f" @ $.body.{field}" if is_canonical(dumps(value).encode()) else "it is not canonical JSON"
        assert place in damage_in_the_second(split(kind, {field: value})), (field, value)


def test_a_missing_field_is_damage() -> None:
    """Tallybook never wrote an event without one of its kind's fields; only ``"free":null`` is a redaction."""
    for kind, field in REQUIRED:
        body, free = sections(kind)
        (body if field in body else free or {}).pop(field)
        assert field in damage_in_the_second(line_of(kind, body, free)), kind


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_an_extra_field_is_damage(kind: str) -> None:
    """Tallybook never wrote an event with another field than its kind's, in either section."""
    body, free = sections(kind)
    assert "extra" in damage_in_the_second(line_of(kind, body | {"extra": 1}, free))
    assert "extra" in damage_in_the_second(line_of(kind, body, (free or {"salt": "5a17"}) | {"extra": "x"}))


@pytest.mark.parametrize(
    "what",
    [
        '"v":1,"body":{"name":"kpt_001"}',
        '"kind":"point.removed","body":{"name":"kpt_001"}',
        '"kind":"point.removed","v":1',
        '"kind":7,"v":1,"body":{"name":"kpt_001"}',
        '"kind":["point.removed"],"v":1,"body":{"name":"kpt_001"}',
        '"kind":"point.removed","v":"1","body":{"name":"kpt_001"}',
        '"kind":"point.removed","v":1.0,"body":{"name":"kpt_001"}',
        '"kind":"point.removed","v":true,"body":{"name":"kpt_001"}',
        '"kind":"point.removed","v":null,"body":{"name":"kpt_001"}',
        '"kind":"point.removed","v":0,"body":{"name":"kpt_001"}',
        '"kind":"point.removed","v":-1,"body":{"name":"kpt_001"}',
        '"kind":"point.removed","v":1,"body":["kpt_001"]',
        '"kind":"point.removed","v":1,"body":null',
        '"kind":"point.removed","v":1,"body":{"name":NaN}',
        '"kind":"point.removed","v":1,"body":{"name":"\\ud800"}',
        '"kind":"point.removed","v":1,"body":{"name":"kpt_001"},"more":1',
        '"kind":"point.removed","v":1,"body":{"name":"kpt_001"},"sum":"0"',
        '"kind":"point.starred","v":"1","body":{}',
        '"kind":"point.starred","v":0,"body":{}',
        '"kind":"point.starred","v":1,"body":{},"more":1',
        '"kind":"point.starred","v":1,"body":{},"sum":"0"',
    ],
)
def test_an_invalid_content_section_is_damage(what: str) -> None:
    """It has kind, version and body, each of its own type, and nothing else."""
    damage_in_the_second((what, None))


@pytest.mark.parametrize(
    "free", ['"x"', "[]", "7", "true", "{", "{}", '{"text":"x"}', '{"salt":"5a17"}', '{"salt":"5a17","text":"\\ud800"}']
)
def test_an_invalid_free_value_is_damage(free: str) -> None:
    """A free value is an object of texts, or null after a redaction."""
    damage_in_the_second((line_of("point.added", {"name": "kpt_001"})[0], free))


@pytest.mark.parametrize("kind", WITH_TEXT)
def test_a_redacted_text_is_none_and_the_rest_verifies(kind: str) -> None:
    """With ``"free":null`` the texts are None, the other fields remain, and the chain still fits."""
    batch = batches_of([encode(sample(kind)), encode(PlaybookUpdated(0, 0, 0))])[0]
    _, free = sections(kind)
    value = json.dumps(free, separators=(",", ":")).encode()
    found = read(batch.raw.replace(value, b"null"))
    assert None is found.stop
    gone: dict[str, Any] = dict.fromkeys(FREE_FIELDS[EVENT_TYPES[kind][0]])
    assert attrs.evolve(sample(kind), **gone) == next(decode(found.batches)).events[0]


@pytest.mark.parametrize(
    ("kind", "version", "body"),
    [("point.starred", 1, {"stars": 5}), ("point.rated", 2, {"of": [1, None]}), ("point.starred", 12, [1.5, True])],
)
def test_an_unknown_kind_or_version_is_kept(kind: str, version: int, body: Any) -> None:
    """An unknown kind or version becomes an UnknownEvent with all of its fields, among known events."""
    what = f'"kind":"{kind}","v":{version},"body":{json.dumps(body, separators=(",", ":"))}'
    known = line_of("point.removed", {"name": "kpt_001"})
    for free, texts in ((None, None), ('{"salt":"5a17","why":"because"}', '{"why":"because"}'), ("null", None)):
        events = decode_lines(known, (what, free), known)
        assert [type(event).__name__ for event in events] == ["PointRemoved", "UnknownEvent", "PointRemoved"]
        assert UnknownEvent(kind, version, json.dumps(body, separators=(",", ":")), texts) == events[1]


@pytest.mark.parametrize("text", ['{"salt":"5a17","text":"x"}', "null", None])
def test_a_continuation_without_a_beginning_is_damage(text: str | None) -> None:
    """A batch does not begin with a continuation, not even a redacted one."""
    with pytest.raises(DamagedLedgerError, match="seq 1"):
        decode_lines((CONTINUATION, text))


def lift(monkeypatch: pytest.MonkeyPatch, kind: str, version: int, **lifts: Any) -> None:
    """Make a version the current one, with an upcast for each older one (``from_1=…``)."""
    monkeypatch.setattr(codec, "_shape_of", codec._shape_of.__wrapped__)
    monkeypatch.setitem(EVENT_TYPES, kind, (EVENT_TYPES[kind][0], version))
    for name, function in lifts.items():
        monkeypatch.setitem(UPCASTS, (kind, int(name.removeprefix("from_"))), function)


def test_old_versions_are_upcast_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """UPCASTS converts each older version to the current one; a later version is still unknown."""
    lift(
        monkeypatch,
        "point.rated",
        3,
        from_1=lambda old: {"point": old["n"], "rating": "helpful"},
        from_2=lambda old: {"name": old["point"], "rating": old["rating"]},
    )
    lines = [({"n": "a"}, 1), ({"point": "b", "rating": "harmful"}, 2), ({"name": "c", "rating": "x"}, 3), ({}, 4)]
    events = decode_lines(*(line_of("point.rated", body, version=version) for body, version in lines))
    known = [PointRated("a", "helpful"), PointRated("b", "harmful"), PointRated("c", "x")]
    assert [*known, UnknownEvent("point.rated", 4, "{}")] == list(events)
    assert 3 == encode(PointRated("a", "helpful")).v


def test_a_missing_upcast_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old version without an upcast is named with its seq, and nothing is guessed."""
    lift(monkeypatch, "point.rated", 3)
    damage_in_the_second(line_of("point.rated", {"name": "a", "rating": "x"}, version=1))


def test_a_format_from_the_future_is_refused() -> None:
    """A ledger whose first line has a later format is not read; the message suggests an upgrade."""
    opened = encode(LedgerOpened("ledger-1", 2))
    for behind in ([], [encode(PointAdded("kpt_001", "a"))]):
        with pytest.raises(NewerLedgerError, match=r"^events.jsonl: written in ledger format 2, .* up to 1; upgrade"):
            list(decode(batches_of([opened, *behind])))


FAST = sorted(set(EVENT_TYPES) - {"ledger.opened"})
"""Kinds whose lines take the fast path."""


def read_what(event: Event) -> bytes:
    """Return a line after its first section, as in the file."""
    (batch,) = batches_of([encode(event)])
    return batch.lines[0].partition(SECTION)[2]


def decode_slowly(what: bytes) -> Event | None:
    """Return the events that the slow path reads, None if it refuses the line."""
    try:
        return codec._to_event(codec._parse(what))
    except REFUSALS:
        return None


def list_typed_fields(event: Event | None) -> list[Any]:
    """Return the class and the fields of an event, each with its type: True is not 1 here."""
    if event is None:
        return [None]
    return [type(event), *((type(value), repr(value)) for value in attrs.astuple(event, recurse=False))]


def agree(what: bytes) -> None:
    """Check that an event of the fast path is the event of the slow path."""
    event = decode_fast(what)
    if event is not None:
        assert list_typed_fields(event) == list_typed_fields(decode_slowly(what))


@given(EVENTS)
def test_both_paths_read_the_same_event(event: Event) -> None:
    """Whatever its texts hold, an event that the fast path reads is the one that the slow path reads."""
    (batch,) = batches_of([encode(event)])
    for line in batch.lines:
        agree(line.partition(SECTION)[2])


@pytest.mark.parametrize("kind", FAST)
def test_both_paths_agree_whichever_byte_of_a_line_changes(kind: str) -> None:
    """With any byte replaced, both paths read the same event, or the slow path alone decides."""
    what = read_what(sample(kind))
    for at in range(len(what)):
        for byte in b'\0\t\n\x1f "\\0129-.eE+{}[],:azAZ\x7f\x80\xff':
            agree(what[:at] + bytes([byte]) + what[at + 1 :])
