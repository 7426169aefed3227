"""Reading playbook files of every age: the specification's shapes, the odd ones, and the events they become."""

from __future__ import annotations

import json
from typing import Any

import attrs
from hypothesis import given, reject
from hypothesis import strategies as st
import pytest

from helpers.reference_model import book, migrate, point
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.decisions.legacy_import import LegacyFile, LegacyItem, read_legacy, seed_events
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import Event, ItemSkipped
from tallybook.ledger.line import START, Stamp, frame
from tallybook.ledger.names import is_usable_name
from tallybook.ledger.playbook_constants import MAX_INT


def read(*items: object, **top: object) -> LegacyFile:
    """Return the entries read from a playbook of these items."""
    return read_legacy(json.dumps({"key_points": items, **top}).encode())


def read_text(text: str) -> LegacyFile:
    """Return the entries read from a file with this text."""
    return read_legacy(text.encode())


def entries(legacy: LegacyFile) -> list[dict[str, Any]]:
    """Return the entries in the specification's format."""
    return [attrs.asdict(item.entry) for item in legacy.items]


def messages(legacy: LegacyFile) -> list[str]:
    """Return the problems as a person reads them."""
    return [str(problem) for problem in legacy.problems]


def only(legacy: LegacyFile) -> LegacyItem:
    """Return the one entry of a file."""
    (item,) = legacy.items
    return item


def pass_through_ledger(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Return events after they were encoded, framed and decoded."""
    stamp = Stamp(START, "2026-11-21T20:17:03.123456Z", {"rater": "import"}, lambda: "id", lambda: "salt")
    (batch,) = decode([frame([encode(event) for event in events], stamp)])
    return tuple(batch.events)


NO_PLAYBOOK = "is not a playbook, which is an object with key_points, sections, skills or bullets"
COUNTERS = (
    dict.fromkeys(["true", "2.7", "-1", '"12a"', '"\u0661"', "null", "[1]", "NaN", "Infinity"], 0)
    | dict.fromkeys(["9007199254740993", "1e400", "9" * 5000, f'"{"9" * 5000}"'], MAX_INT)
    | {"2.0": 2, "1e2": 100, '"12"': 12, '"+12"': 12}
)
"""A counter's JSON → the count that it is read as."""


@pytest.mark.parametrize(("written", "count"), COUNTERS.items())
def test_a_counter_of_another_type(written: str, count: int) -> None:
    """INV-SCORE-001: for any type the counter is 0 to 2**53; the item is odd, kept as written, and reported."""
    item = f'{{"name":"kpt_001","text":"a","helpful":{written},"harmful":1}}'
    legacy = read_text(f'{{"key_points":[{item}]}}')
    assert [point("kpt_001", "a", count, 1)] == entries(legacy)
    assert ("odd", item) == (only(legacy).origin, only(legacy).original)
    assert messages(legacy)[-1].startswith("playbook.json: key_points[0]: helpful ")
    assert messages(legacy)[-1].endswith(f" was read as {count}")


@pytest.mark.parametrize(
    "item", ["", " \n", 5, 1.5, None, True, ["a"], {}, {"text": ""}, {"text": None}, {"text": 5}, {"name": "kpt_001"}]
)
def test_an_item_without_a_text_is_kept_as_evidence(item: object) -> None:
    """An item without a text is no entry; it is reported, and kept as written with its place."""
    legacy = read("a", item, "b")
    assert ["a", "b"] == [item.entry.text for item in legacy.items]
    (skipped,) = legacy.skipped
    assert (1, "holds no text") == (skipped.index, skipped.reason)
    assert item == json.loads(skipped.original or "")
    assert ["playbook.json: key_points[1]: holds no text; kept only in the ledger"] == messages(legacy)


@pytest.mark.parametrize(
    ("texts", "text", "flaw"),
    [
        (r'"text":"a \ud800 b"', "a \ufffd b", "contains a broken character, recorded as \ufffd"),
        ('"text":"a","text":"b"', "b", "repeats a key, of which the last one counts"),
    ],
)
def test_json_that_readers_disagree_on(texts: str, text: str, flaw: str) -> None:
    """Half a surrogate pair is replaced, and the last of repeated keys counts; the original stays as written."""
    item = f'{{"name":"kpt_001",{texts}}}'
    legacy = read_text(f'{{"key_points":[{item}]}}')
    assert [point("kpt_001", text)] == entries(legacy)
    assert ("odd", item) == (only(legacy).origin, only(legacy).original)
    assert [f"playbook.json: key_points[0]: {flaw}"] == messages(legacy)


@pytest.mark.parametrize(
    ("value", "mended", "reason"),
    [
        ("NaN", "NaN", "holds a number that many cannot read"),
        ("9" * 5000, "9" * 5000, "holds a number that many cannot read"),
        (r'["\udc00"]', ["\ufffd"], "contains a broken character, recorded as \ufffd"),
        ('{"a":1,"a":2}', {"a": 2}, "repeats a key, of which the last one counts"),
    ],
)
def test_an_unusable_top_level_key(value: str, mended: object, reason: str) -> None:
    """It is changed so that every reader can read it, reported, and kept as written."""
    legacy = read_text(f'{{"x":{value},"key_points":["a"]}}')
    assert {"x": mended} == legacy.top_keys
    assert (ItemSkipped(1, reason, f'{{"x":{value}}}'),) == legacy.skipped
    assert [f"playbook.json: 'x': {reason}; kept only in the ledger"] == messages(legacy)


@pytest.mark.parametrize(
    ("sections", "place", "reason"),
    [
        ('{"A":{"entries":["a"]}}', "sections['A']", "is not a list of entries"),
        ('{"A":"a"}', "sections['A']", "is not a list of entries"),
        ('[{"name":"A","entries":["a"]}]', "'sections'", "is not what a playbook has there"),
    ],
)
def test_sections_of_another_type_are_kept_as_evidence(sections: str, place: str, reason: str) -> None:
    """What is not a list under a heading is no entry; it is reported, and kept as written."""
    legacy = read_text(f'{{"sections":{sections}}}')
    kept = f'{{"sections":{sections}}}' if sections[0] == "[" else sections
    assert ((), (ItemSkipped(0, reason, kept),)) == (legacy.items, legacy.skipped)
    assert [f"playbook.json: {place}: {reason}; kept only in the ledger"] == messages(legacy)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf \n", "is empty"),
        (b"\xff", "is not UTF-8 text, from byte 0 on"),
        (b'{"a":\n}', "is not JSON: Expecting value at line 2, column 1"),
        (b"\0\0\0", "is not JSON: Expecting value at line 1, column 1"),
        (b"[" * 100_000 + b"]" * 100_000, "is nested more than 100 levels deep"),
        (b'{"key_points":[' + b"[" * 100 + b"]" * 100 + b"]}", "is nested more than 100 levels deep"),
        (b"5", NO_PLAYBOOK),
        (b'{"key_points":{}}', NO_PLAYBOOK),
        (b'["a"]', NO_PLAYBOOK + '; put {"key_points": …} around it'),
    ],
)
def test_a_file_that_is_no_playbook(data: bytes, message: str) -> None:
    """It is refused in one line with the file and the fault."""
    with pytest.raises(BadInputError) as caught:
        read_legacy(data, "old.json")
    assert f"old.json: {message}" == str(caught.value)


# Surrogates included: JSON can escape what UTF-8 cannot hold.
TEXTS = st.text(st.characters(), max_size=12)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["kpt_001", "kpt_002", "kpt_003", "my rule", "kpt_999999999", "kpt_1000000000"])
COUNTS = st.integers(-3, 9) | st.sampled_from([2**53, 2**53 + 1, 10**400, "7", "-3", True, 2.0]) | JUNK
ENTRY = {"name": NAMES | JUNK, "tags": JUNK} | dict.fromkeys(["helpful", "harmful", "score"], COUNTS)
ITEMS = TEXTS | st.fixed_dictionaries({"text": TEXTS}, optional=ENTRY) | JUNK
SECTIONS = st.dictionaries(TEXTS, st.lists(ITEMS, max_size=3) | JUNK, max_size=3) | st.lists(ITEMS, max_size=3)
TOP: dict[str, st.SearchStrategy[Any]] = {"version": JUNK, "last_updated": JUNK, "ledger": JUNK, "more": JUNK}
DOCUMENTS = (
    st.fixed_dictionaries({"key_points": st.lists(ITEMS, max_size=6)}, optional={**TOP, "sections": SECTIONS})
    | st.fixed_dictionaries({"sections": SECTIONS}, optional={**TOP, "key_points": JUNK})
    | JUNK
)
WELL_FORMED = st.lists(
    st.text(min_size=1).filter(str.strip)
    | st.fixed_dictionaries({"text": st.just("a")}, optional={"score": st.integers(-9, 9)})
    | st.builds(point, text=st.just("b"), helpful=st.integers(0, 9), harmful=st.integers(0, 9)),
    max_size=8,
)


def read_or_refuse(doc: object) -> LegacyFile:
    """Return the entries of any JSON; an example that is no playbook ends here, with a one-line error."""
    try:
        return read_legacy(json.dumps(doc).encode())
    except BadInputError as error:
        refused = str(error)
    assert refused.startswith(f"playbook.json: {NO_PLAYBOOK}")
    return reject()


@given(WELL_FORMED)
def test_a_well_formed_file_is_read_as_the_specification_says(items: list[Any]) -> None:
    """REQ-SCORE-004, -005, -006: entries and top-level keys equal the plain reference model's."""
    for index, item in enumerate(items):
        if isinstance(item, dict) and "helpful" in item:
            item["name"] = f"kpt_{100 * index + 50:03d}"
    doc = book(*items, last_updated="2026-01-15T10:00:00", project="x")
    legacy = read_legacy(json.dumps(doc).encode())
    assert migrate(doc) == {**legacy.top_keys, "key_points": entries(legacy)}
    assert () == legacy.problems


@given(DOCUMENTS)
def test_any_json_is_read_or_refused(doc: Any) -> None:
    """INV-SCORE-001, -002, -004: the result is canonical, no item is lost, and the events survive the ledger."""
    legacy = read_or_refuse(doc)
    names = {item.entry.name for item in legacy.items if is_usable_name(item.entry.name)}
    assert len(legacy.items) == len(names)
    for item in legacy.items:
        assert item.entry.text.strip()
        assert all(0 <= count <= MAX_INT for count in (item.entry.helpful, item.entry.harmful))
    places = sorted([item.index for item in legacy.items] + [skipped.index for skipped in legacy.skipped])
    assert list(range(len(places))) == places
    points = doc.get("key_points")
    assert len(places) >= (len(points) if isinstance(points, list) else 0)
    assert all(str(problem).isprintable() for problem in legacy.problems)
    events = seed_events(legacy)
    assert events == pass_through_ledger(events)


@given(DOCUMENTS)
def test_a_written_file_is_read_again_without_change(doc: Any) -> None:
    """INV-SCORE-005: written in the canonical form and read again, entries and version are the same, unreported."""
    first = read_or_refuse(doc)
    version = first.top_keys.get("version")
    again = read(*entries(first), version=version, last_updated=None)
    assert (entries(first), version) == (entries(again), again.top_keys["version"])
    assert ((), ()) == (again.problems, again.skipped)
    assert {("canonical", "", "")} >= {(item.origin, item.original, item.migrated) for item in again.items}
