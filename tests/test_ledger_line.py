"""The bytes of a line: sections, canonical JSON, bounds, and the round trip of any text.

The helpers here build ledgers from bytes with fixed ids, times and salts; the other tests of the bytes share them.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
import msgspec
import pytest

from helpers.ledger_lines import AT, EVENTS, KEYS, TEXTS, TRICKY, read, stamp
from tallybook.ledger import line
from tallybook.ledger.clock import moment
from tallybook.ledger.codec import decode, encode, parse_head
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import (
    Event,
    LedgerOpened,
    PlaybookUpdated,
    PointAdded,
    PointRated,
    PointSeeded,
)
from tallybook.ledger.line import (
    FREE_CHARS,
    MAX_LINE_BYTES,
    SECTION,
    START,
    Draft,
    RawBatch,
    frame,
)

TRICKY += ["\0", "\x1f", "\x7f", "\ufeff", "\ufffe", "é", "e\u0301", "\U0001f600", "}", '"}\n', '{"salt":"x"}', "null"]


@given(st.lists(EVENTS, min_size=1, max_size=5), st.none() | KEYS, TEXTS.filter(bool))
@example([PointRated("kpt_001", "helpful")], "k", ',\t"free":')
@example([PointAdded("kpt_001", "\0" * (3 * FREE_CHARS + 1))], None, "s")
@example([PointSeeded("kpt_001", 0, 0, "odd", "", "\U0001f600" * (FREE_CHARS + 1))], None, "s")
@example([PointSeeded("kpt_001", 0, 0, "odd", "a" * FREE_CHARS, "b")], None, "s")
def test_any_framed_event_is_read_again(events: list[Event], key: str | None, session: str) -> None:
    """Framing, scanning and decoding give the same events, texts, key and rater, for every Unicode text."""
    by = {"rater": "test", "session": session}
    opened = frame([encode(LedgerOpened("ledger-1", 1))], stamp())
    batch = frame([encode(event) for event in events], stamp(opened.position, by=by, key=key))
    found = read(opened.raw + batch.raw)
    assert ([opened, batch], None) == (found.batches, found.stop)
    again = list(decode(found.batches))[1]
    assert events == list(again.events)
    assert events == [record.event for record in again.records]
    assert (key, session, AT) == (again.records[0].key, again.records[0].by.session, again.at)
    assert (key or "") == line.batch_key(batch.data)


@given(st.lists(EVENTS, min_size=1, max_size=4), st.none() | KEYS)
def test_every_line_is_canonical_json_in_sections(events: list[Event], key: str | None) -> None:
    """A line is compact JSON with a TAB before each section, and fits its bound."""
    batch = frame([encode(event) for event in events], stamp(key=key))
    lines = batch.raw.removesuffix(b"\n").split(b"\n")
    assert batch.last == len(lines)
    for seq, text in enumerate(lines, 1):
        value = json.loads(text)
        assert value == msgspec.json.decode(text)
        assert json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() == text.replace(b",\t", b",")
        names = [section.partition(b":")[0].strip(b'{"').decode() for section in text.split(b"\t")]
        free, chain = ["free"] * ("free" in value), ["chain"] * (seq == len(lines))
        assert ["crc", "kind", *free, *chain] == names
        assert (seq, [seq, len(lines)]) == (value["seq"], value["part"])
        assert len(text) + 1 <= MAX_LINE_BYTES


@pytest.mark.parametrize(
    "spoil",
    [
        lambda bad: frame([encode(PointAdded("kpt_001", bad))], stamp()),
        lambda bad: frame([encode(PointAdded("kpt_001", "a" * FREE_CHARS + bad))], stamp()),
        lambda bad: frame([encode(PointRated(bad, "helpful"))], stamp()),
        lambda bad: frame([encode(PointRated("kpt_001", "helpful"))], stamp(by={"rater": bad})),
    ],
    ids=["text", "continued text", "body", "rater"],
)
@pytest.mark.parametrize("bad", ["\ud800", "a\udfff", "\udc00\ud800"])
def test_half_a_surrogate_pair_is_refused(spoil: Any, bad: str) -> None:
    """A lone surrogate is no Unicode text, in any field of a line."""
    with pytest.raises(BadInputError, match=r"^text: contains a broken character"):
        spoil(bad)


@pytest.mark.parametrize("kind", ["point.rated", "point.added"])
def test_a_line_holds_64_kib_and_not_a_byte_more(kind: str) -> None:
    """The longest accepted line has MAX_LINE_BYTES with its line feed; one more byte is refused."""
    free = {"text": "x"} if kind == "point.added" else None

    def framed(length: int) -> RawBatch:
        return frame([Draft(kind, 1, {"name": "n" * length}, free)], stamp())

    room = MAX_LINE_BYTES - len(framed(0).raw)
    assert MAX_LINE_BYTES == len(framed(room).raw)
    with pytest.raises(BadInputError, match=rf"{kind} would need more than 65,536 bytes"):
        framed(room + 1)


@pytest.mark.parametrize(
    "key", ['a","id":"another', '"', "a\\", "a\tb", "a\0", "a\x7f", "é", "\u2028", "\ud800", "a\n"]
)
def test_an_unplain_key_is_refused(key: str) -> None:
    """A key that a reader could not find by its quotes, or read as another field, is never written."""
    with pytest.raises(BadInputError, match=r"key: .* is not printable ASCII without quotes") as caught:
        frame([encode(PlaybookUpdated(0, 0, 0))], stamp(key=key))
    assert str(caught.value).isascii()
    assert str(caught.value).endswith("; call normalize_key")


@pytest.mark.parametrize(
    ("by", "what"),
    [
        ({"session": "s"}, "has no rater"),
        ({"rater": ""}, "'rater': '' is not valid"),
        ({"rater": "test", "session": ""}, "'session': '' is not valid"),
        ({"rater": "test", "session": None}, "'session': None is not valid"),
        ({"rater": "test", "model": 7}, "'model': 7 is not valid"),
        ({"rater": ["test"]}, "is not valid"),
        ({"rater": "test", "user": "x"}, "'user': 'x' is not valid"),
        ({"rater": "test", "": "x"}, "'': 'x' is not valid"),
    ],
)
def test_an_invalid_author_is_refused(by: dict[str, Any], what: str) -> None:
    """Every line has a rater, and in ``by`` only the fields of By, each a text that is not empty."""
    with pytest.raises(BadInputError, match=f"^by: .*{what};") as caught:
        frame([encode(PlaybookUpdated(0, 0, 0))], stamp(by=by))
    assert str(caught.value).endswith("use texts for rater, session, agent, model, place")


MOMENTS = st.integers(0, 253_402_300_799_999_999).map(lambda us: moment(us).at)


@given(
    st.integers(0, 10**17),
    MOMENTS,
    st.none() | MOMENTS,
    st.none() | KEYS,
    st.dictionaries(st.sampled_from(["session", "agent", "model", "place"]), TEXTS.filter(bool)),
)
def test_every_written_header_is_parsed(
    seq: int, at: str, when: str | None, key: str | None, more: dict[str, str]
) -> None:
    """Whatever a writer is passed, its headers have the same values for a reader, with any Unicode text in ``by``."""
    by = {"rater": "test", **more}
    drafts = [encode(PlaybookUpdated(0, 0, 0), when), encode(PlaybookUpdated(0, 0, 0))]
    lines = frame(drafts, stamp(START._replace(seq=seq), at=at, by=by, key=key)).raw.split(b"\n")[:2]
    first, second = (parse_head(line.partition(SECTION)[0]) for line in lines)
    assert first is not None
    assert second is not None
    assert (seq + 1, f"id-{seq + 1}", key, at, when, (1, 2)) == first[:6]
    assert (seq + 2, f"id-{seq + 2}", None, at, None, (2, 2)) == second[:6]
    assert [by, by] == [json.loads(first.by), json.loads(second.by)]
