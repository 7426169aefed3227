"""Events to bodies and back: strict for every field of every kind, tolerant of kinds and versions from the future."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.ledger_codec import CONTINUATION, WRONG, damage_in_the_second, decoded, line_of, sample, sections
from helpers.ledger_lines import AT, batches_of, read, stamp
from tallybook.ledger.encoding import codec, event_json
from tallybook.ledger.encoding.codec import decode, encode
from tallybook.ledger.encoding.event_json import FREE_FIELDS, UPCASTS
from tallybook.ledger.errors import BadInputError, DamagedLedgerError, NewerLedgerError
from tallybook.ledger.events import (
    EVENT_TYPES,
    LedgerOpened,
    PlaybookUpdated,
    PointAdded,
    PointRated,
    PointSeeded,
    UnknownEvent,
)
from tallybook.ledger.line import FREE_CHARS, START, Draft, frame
from tallybook.ledger.records import Author, EventRecord

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallybook.ledger.events import Event
    from tallybook.ledger.line import RawBatch


FIELDS = [(kind, field.name) for kind, (cls, _) in EVENT_TYPES.items() for field in attrs.fields(cls)]
WITH_TEXT = [kind for kind, (cls, _) in EVENT_TYPES.items() if FREE_FIELDS[cls]]
AT_LEAST_ZERO = [(kind, field) for kind, field in FIELDS if field in {"entries", "helpful", "harmful", "index"}]


def spoilt(kind: str, field: str, value: Any) -> Any:
    """Return a sample with one wrong value, made without the checks that its own class may have."""
    with attrs.validators.disabled():
        return attrs.evolve(sample(kind), **{field: value})


def split(kind: str, changed: dict[str, Any]) -> tuple[str, str | None]:
    """Return the line of a sample in which some fields are changed, each in its own section."""
    body, free = sections(kind)
    for name, value in changed.items():
        (body if name in body else free or {})[name] = value
    return line_of(kind, body, free)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_an_event_comes_back_as_it_went(kind: str) -> None:
    """Encoding, framing, scanning and decoding give the same event for every kind."""
    assert [sample(kind)] == list(next(decode(batches_of([encode(sample(kind))]))).events)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_free_text_stands_apart(kind: str) -> None:
    """What a person or a model wrote stands in the free section alone, so that it can be redacted."""
    draft = encode(sample(kind))
    names = [field.name for field in attrs.fields(EVENT_TYPES[kind][0]) if field.metadata.get("free")]
    assert (names or None) == (None if draft.free is None else list(draft.free))
    assert set() == set(names) & set(draft.body)


@pytest.mark.parametrize(("kind", "field", "value"), WRONG)
def test_a_wrong_value_is_not_encoded(kind: str, field: str, value: Any) -> None:
    """Nothing is coerced on the way in: a value of another type, or beyond 2^53, is bad input and names its field."""
    with pytest.raises(BadInputError, match=rf"{kind}: .*\$\.{field}"):
        encode(spoilt(kind, field, value))


@pytest.mark.parametrize(("kind", "field"), AT_LEAST_ZERO)
def test_a_count_below_zero_is_not_encoded(kind: str, field: str) -> None:
    """INV-SCORE-001, INV-SCORE-002: what the vocabulary bounds by 0 is never written below it."""
    with pytest.raises(BadInputError, match=kind):
        encode(spoilt(kind, field, -1))


@pytest.mark.parametrize(("kind", "field", "value"), WRONG)
def test_a_wrong_value_on_a_line_is_damage(kind: str, field: str, value: Any) -> None:
    """Nothing is coerced on the way out: the damage names the seq and the field, although every proof fits."""
    assert f" @ $.body.{field}" in damage_in_the_second(split(kind, {field: value}))


@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_a_missing_field_is_damage(kind: str, field: str) -> None:
    """A line without one of its kind's fields was written by no Tallybook; only ``"free":null`` is a redaction."""
    body, free = sections(kind)
    (body if field in body else free or {}).pop(field)
    assert field in damage_in_the_second(line_of(kind, body, free))


@pytest.mark.parametrize("kind", WITH_TEXT)
def test_a_missing_free_section_is_damage(kind: str) -> None:
    """A kind with free text has its free section on every line."""
    body, _ = sections(kind)
    damage_in_the_second(line_of(kind, body))


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_an_extra_field_is_damage(kind: str) -> None:
    """A line with a field that its kind does not have was written by no Tallybook, in either section."""
    body, free = sections(kind)
    assert "extra" in damage_in_the_second(line_of(kind, body | {"extra": 1}, free))
    assert "extra" in damage_in_the_second(line_of(kind, body, (free or {"salt": "5a17"}) | {"extra": "x"}))


@pytest.mark.parametrize("kind", WITH_TEXT)
def test_free_text_in_the_body_is_damage(kind: str) -> None:
    """Free text that stands in the body could never be redacted, so no line has it there."""
    body, free = sections(kind)
    texts = {name: text for name, text in (free or {}).items() if name != "salt"}
    damage_in_the_second(line_of(kind, body | texts))
    damage_in_the_second(line_of(kind, body | texts, free))


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
def test_a_what_section_that_no_writer_writes_is_damage(what: str) -> None:
    """Kind, version and body are there, nothing else is, and each has its own type."""
    damage_in_the_second((what, None))


@pytest.mark.parametrize(
    "free", ['"x"', "[]", "7", "true", "{", "{}", '{"text":"x"}', '{"salt":"5a17"}', '{"salt":"5a17","text":"\\ud800"}']
)
def test_a_free_value_that_no_writer_writes_is_damage(free: str) -> None:
    """A free value is an object of texts, or null once it was redacted."""
    damage_in_the_second((line_of("point.added", {"name": "kpt_001"})[0], free))


@pytest.mark.parametrize("kind", WITH_TEXT)
def test_a_redacted_text_is_none_and_the_rest_still_proves_itself(kind: str) -> None:
    """Where ``"free":null`` stands the texts are None, the other fields remain, and the chain still fits."""
    batch = batches_of([encode(sample(kind)), encode(PlaybookUpdated(0, 0, 0))])[0]
    _, free = sections(kind)
    value = json.dumps(free, separators=(",", ":")).encode()
    found = read(batch.raw.replace(value, b"null"))
    assert None is found.stop
    gone: dict[str, Any] = dict.fromkeys(FREE_FIELDS[EVENT_TYPES[kind][0]])
    assert attrs.evolve(sample(kind), **gone) == next(decode(found.batches)).events[0]


def test_what_is_only_ever_read_is_not_encoded() -> None:
    """An unknown event cannot be written."""
    with pytest.raises(BadInputError) as caught:
        encode(UnknownEvent("point.starred", 1, "{}"))
    assert "point.starred: is not a kind that this version writes" == str(caught.value)


@pytest.mark.parametrize(
    ("kind", "version", "body"),
    [("point.starred", 1, {"stars": 5}), ("point.rated", 2, {"of": [1, None]}), ("point.starred", 12, [1.5, True])],
)
def test_a_kind_or_version_from_the_future_is_kept(kind: str, version: int, body: Any) -> None:
    """A kind or a version that is not known becomes an UnknownEvent with all it says, between events that are known."""
    what = f'"kind":"{kind}","v":{version},"body":{json.dumps(body, separators=(",", ":"))}'
    known = line_of("point.removed", {"name": "kpt_001"})
    for free, texts in ((None, None), ('{"salt":"5a17","why":"because"}', '{"why":"because"}'), ("null", None)):
        events = decoded(known, (what, free), known)
        assert [type(event).__name__ for event in events] == ["PointRemoved", "UnknownEvent", "PointRemoved"]
        assert UnknownEvent(kind, version, json.dumps(body, separators=(",", ":")), texts) == events[1]


def test_a_long_text_of_a_kind_from_the_future_is_kept_too() -> None:
    """Lines that continue the texts of an unknown event are joined to it, and harm none of its neighbours."""
    texts = {"why": '"é\n' * FREE_CHARS, "how": "", "where": "z" * (FREE_CHARS + 1)}
    future = Draft("point.starred", 1, {"stars": 5}, texts)
    batch = frame([encode(PointAdded("kpt_001", "a")), future, encode(PointAdded("kpt_002", "b"))], stamp())
    events = next(decode([batch])).events
    assert [
        PointAdded("kpt_001", "a"),
        UnknownEvent("point.starred", 1, '{"stars":5}', json.dumps(texts, ensure_ascii=False, separators=(",", ":"))),
        PointAdded("kpt_002", "b"),
    ] == [*events]


@pytest.mark.parametrize(
    ("first", "free"),
    [
        ("point.removed", '{"salt":"5a17","text":"x"}'),
        ("point.added", '{"salt":"5a17","text":7}'),
        ("point.added", '{"salt":"5a17","text":null}'),
        ("point.added", '{"salt":"5a17","name":"x"}'),
        ("point.added", '{"salt":"5a17","nothing":"x"}'),
        ("point.added", '{"salt":"5a17"}'),
        ("point.added", None),
        ("point.removed", None),
        ("point.removed", "null"),
    ],
)
def test_a_continuation_that_continues_nothing_is_damage(first: str, free: str | None) -> None:
    """What is added to a text belongs to a free field of the event before it and is a text itself."""
    for behind in ([], [line_of("point.added", *sections("point.added"))]):
        with pytest.raises(DamagedLedgerError, match="seq 2"):
            decoded(line_of(first, *sections(first)), (CONTINUATION, free), *behind)


@pytest.mark.parametrize("text", ['{"salt":"5a17","text":"x"}', "null", None])
def test_a_continuation_without_a_beginning_is_damage(text: str | None) -> None:
    """A batch does not begin with a continuation, a redacted one included."""
    with pytest.raises(DamagedLedgerError, match="seq 1"):
        decoded((CONTINUATION, text))


def test_a_redacted_beginning_is_continued_by_text_or_nothing_at_all() -> None:
    """Where a text was redacted its continued lines may be too; a line without a free section is still damage."""
    added = (line_of("point.added", {"name": "kpt_001"})[0], "null")
    for more in ("null", '{"salt":"5a17","text":"x"}'):
        assert [PointAdded("kpt_001", None)] == list(decoded(added, (CONTINUATION, more)))
    with pytest.raises(DamagedLedgerError, match="seq 2"):
        decoded(added, (CONTINUATION, None))


def lift(monkeypatch: pytest.MonkeyPatch, kind: str, version: int, **lifts: Any) -> None:
    """Make a version today's, with what lifts each older one (``from_1=…``)."""
    monkeypatch.setattr(event_json, "_shape_of", event_json._shape_of.__wrapped__)
    monkeypatch.setitem(EVENT_TYPES, kind, (EVENT_TYPES[kind][0], version))
    for name, function in lifts.items():
        monkeypatch.setitem(UPCASTS, (kind, int(name.removeprefix("from_"))), function)


def test_old_shapes_are_lifted_version_by_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """UPCASTS lifts each older version to today's; one from the future is still unknown."""
    lift(
        monkeypatch,
        "point.rated",
        3,
        from_1=lambda old: {"point": old["n"], "rating": "helpful"},
        from_2=lambda old: {"name": old["point"], "rating": old["rating"]},
    )
    lines = [({"n": "a"}, 1), ({"point": "b", "rating": "harmful"}, 2), ({"name": "c", "rating": "x"}, 3), ({}, 4)]
    events = decoded(*(line_of("point.rated", body, version=version) for body, version in lines))
    known = [PointRated("a", "helpful"), PointRated("b", "harmful"), PointRated("c", "x")]
    assert [*known, UnknownEvent("point.rated", 4, "{}")] == list(events)
    assert 3 == encode(PointRated("a", "helpful")).v


@pytest.mark.parametrize("text", ["x", "x" * (FREE_CHARS + 1)], ids=["short", "continued"])
def test_an_old_shape_of_a_text_is_lifted_whole(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A free field that had another name is lifted with all of its text, the continued part included."""
    lift(monkeypatch, "point.added", 2, from_1=lambda old: {"name": old["name"], "text": old["advice"]})
    batch = frame([Draft("point.added", 1, {"name": "kpt_001"}, {"advice": text})], stamp())
    assert [PointAdded("kpt_001", text)] == list(next(decode([batch])).events)


def test_an_upcast_that_is_missing_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old version that nothing lifts is named with its seq, not guessed at."""
    lift(monkeypatch, "point.rated", 3)
    damage_in_the_second(line_of("point.rated", {"name": "a", "rating": "x"}, version=1))


def test_a_format_from_the_future_is_refused() -> None:
    """A ledger whose first line names a later format is not read; the message says to upgrade."""
    opened = encode(LedgerOpened("ledger-1", 2))
    for behind in ([], [encode(PointAdded("kpt_001", "a"))]):
        with pytest.raises(NewerLedgerError, match=r"^events.jsonl: written in ledger format 2, .* up to 1; upgrade"):
            list(decode(batches_of([opened, *behind])))


def test_events_of_today_are_remembered_and_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that say the same give equal events however many kinds of line there are between them."""
    monkeypatch.setattr(codec, "MEMO_ENTRIES", 2)
    events = [PointRated(f"kpt_{number % 5}", ("helpful", "harmful")[number % 2]) for number in range(40)]
    assert events == list(next(decode(batches_of([encode(event) for event in events]))).events)


def test_records_say_who_when_and_which() -> None:
    """A batch's records have each line's seq, time, id, rater, key, other time and place."""
    when, by = (
        "2026-11-20T00:00:00.000000Z",
        {"rater": "agent", "session": "s", "agent": "a", "model": "m", "place": "p"},
    )
    events: list[Event] = [PointAdded("kpt_001", "x" * (FREE_CHARS + 1)), PointSeeded("kpt_002", 1, 2, "odd", "t", "")]
    drafts = [encode(events[0], when), encode(events[1])]
    (batch,) = decode([frame(drafts, stamp(START._replace(seq=4), by=by, key="k"))])
    who = Author("agent", "s", "a", "m", "p")
    assert [
        EventRecord(5, AT, events[0], "id-5", who, "k", when, (1, 3)),
        EventRecord(7, AT, events[1], "id-7", who, None, None, (3, 3)),
    ] == list(batch.records)
    assert (7, AT) == (batch.last, batch.at)


def ratings(batches: Iterable[RawBatch]) -> list[Event]:
    """Return the events of all batches."""
    return [event for batch in decode(batches) for event in batch.events]


@given(st.lists(st.lists(st.builds(PointRated, st.sampled_from("ab"), st.sampled_from("xy")), min_size=1), max_size=6))
def test_how_events_are_batched_does_not_change_them(groups: list[list[PointRated]]) -> None:
    """The events of a ledger are those of its batches, one after another."""
    assert [event for group in groups for event in group] == ratings(
        batches_of(*([encode(event) for event in group] for group in groups))
    )
