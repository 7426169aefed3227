"""The bytes of a line: sections, canonical JSON, bounds, and the round trip of any text.

The helpers here build ledgers from bytes with fixed ids, times and salts; the other tests of the bytes share them.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import count
import json
import os
from pathlib import Path
import re
from typing import Any

import attrs
from hypothesis import example, given
from hypothesis import strategies as st
import msgspec
import pytest

from helpers.ledger_lines import AT, EVENTS, KEYS, TEXTS, TRICKY, ScanResult, read, stamp
from tallybook.ledger import line
from tallybook.ledger.clock import moment
from tallybook.ledger.codec import decode, encode, parse_head
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import (
    EVENT_TYPES,
    Event,
    LedgerOpened,
    PlaybookUpdated,
    PointAdded,
    PointRated,
    PointSeeded,
    UnknownEvent,
)
from tallybook.ledger.line import (
    FREE_CHARS,
    MAX_LINE_BYTES,
    SECTION,
    START,
    Draft,
    Position,
    RawBatch,
    Stamp,
    frame,
    join_key,
)
from tallybook.ledger.records import Batch
from tallybook.ledger.scan import Scan

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
        assert (value["kind"], (seq, seq, len(lines))) == (line.kind_of(text), line.place_of(text + b"\n"))
        assert len(text) + 1 <= MAX_LINE_BYTES


@pytest.mark.parametrize("lost", [b'"seq":1', b'"part":[', b"[1", b"2]", b"}\n"])
def test_a_line_that_is_not_whole_has_no_place(lost: bytes) -> None:
    """A line without its number, part or end has no place, nor has one with the part of the last line but no chain."""
    first, _ = frame([encode(PointRated("kpt_001", "helpful")) for _ in range(2)], stamp()).lines
    assert (1, 1, 2) == line.place_of(first)
    assert [(0, 0, 0)] * 2 == [line.place_of(first.replace(*change)) for change in ((lost, b"x"), (b"[1,", b"[2,"))]


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


# The ledger of the first release, in golden.jsonl, is read with its first meaning, and written again byte for byte.


GOLDEN = Path(__file__).with_name("golden.jsonl")
MEANINGS = Path(__file__).with_name("golden-events.jsonl")
NUMBER = len(MEANINGS.read_text(encoding="utf-8").splitlines())
TORN = b'{"crc":"00000000","seq":14,"id":"0192aaaa-0000-7000-8000-00000000000e","at":"2026-11-2\n'
UNKNOWN = Draft("point.starred", 3, {"name": "kpt_002", "stars": 5}, {"why": "a text of a kind that is not known"})


def golden_read() -> ScanResult:
    """Return the result of a scan of the golden ledger."""
    with GOLDEN.open("rb") as file:
        scan = Scan(file.fileno(), START, GOLDEN.stat().st_size)
        return ScanResult(list(scan), scan.stop, scan.sealed_ranges)


def frame_again(batch: Batch, by: dict[str, str], mark: Position) -> RawBatch:
    """Return a batch framed anew, with the ids and salts of the golden ledger."""
    first = batch.records[0]
    drafts = [UNKNOWN if isinstance(event, UnknownEvent) else encode(event, first.when) for event in batch.events]
    ids, salts = count(mark.seq + 1), count(mark.seq + 1)
    return frame(
        drafts,
        Stamp(
            mark,
            first.at,
            by,
            lambda: f"0192aaaa-0000-7000-8000-{next(ids):012x}",
            lambda: f"5a17{next(salts):012x}",
            None if first.key is None else join_key(first.key, first.payload),
        ),
    )


def lines() -> list[dict[str, Any]]:
    """Return the lines of the golden ledger, read by json alone; the torn one is left out."""
    return [json.loads(line) for line in GOLDEN.read_bytes().split(b"\n") if line not in {b"", TORN[:-1]}]


def test_the_golden_ledger_is_whole() -> None:
    """Every line verifies, and its one torn range is sealed."""
    found = golden_read()
    recovered = found.batches[4]
    assert (None, [(found.batches[3].end, recovered.offset)]) == (found.stop, found.sealed)
    assert TORN == GOLDEN.read_bytes()[found.batches[3].end : recovered.offset]
    assert sha256(TORN).hexdigest()[:32] == json.loads(recovered.raw)["body"]["digest"]


def describe_meaning(batch: Batch) -> str:
    """Return what a batch means, as text, so that 1, 1.0 and true differ."""
    first = batch.records[0]
    [by] = {
        json.dumps({name: text for name, text in attrs.asdict(record.by).items() if text}) for record in batch.records
    }
    head = {"at": first.at, "by": json.loads(by), "key": first.key, "when": first.when, "payload": first.payload}
    events = [{type(event).__name__: attrs.asdict(event)} for event in batch.events]
    return json.dumps(head | {"events": events})


def test_the_golden_ledger_has_the_same_events() -> None:
    """Each batch decodes to the events that its line of golden-events.jsonl has, with the same author, time and key."""
    meanings = [describe_meaning(batch) for batch in decode(golden_read().batches)]
    known = MEANINGS.read_text(encoding="utf-8").split("\n")[:-1]
    if os.environ.get("TAPE"):
        known += meanings[len(known) :]
        MEANINGS.write_text("".join(f"{line}\n" for line in known), encoding="utf-8")
    assert known == meanings


@pytest.mark.parametrize("index", range(NUMBER))
def test_the_golden_ledger_is_written_again_byte_for_byte(index: int) -> None:
    """The same events with the same stamp give the same bytes; a batch of an older version is only read."""
    batches = golden_read().batches
    batch, known = batches[index], {kind: today for kind, (_, today) in EVENT_TYPES.items()}
    lines_of_it = [json.loads(line) for line in batch.raw.splitlines()]
    if all(known.get(line["kind"], line["v"]) == line["v"] for line in lines_of_it):
        before = batches[index - 1].position if index else START
        decoded = list(decode(batches))[index]
        assert batch.raw == frame_again(decoded, lines_of_it[0]["by"], before._replace(offset=batch.offset)).raw


def test_every_kind_and_version_has_its_golden_line() -> None:
    """A kind or a version without a line in golden.jsonl could change unnoticed."""
    wanted = {(kind, version) for kind, (_, today) in EVENT_TYPES.items() for version in range(1, today + 1)}
    assert wanted | {("text.continued", 1), ("point.starred", 3)} == {(line["kind"], line["v"]) for line in lines()}


@pytest.mark.parametrize("index", range(NUMBER))
def test_the_chain_follows_its_documented_rule(index: int) -> None:
    """Worked out by hand: SHA-256 over the previous value and the batch before its chain, without the free values."""
    data = GOLDEN.read_bytes().replace(TORN, b"")
    parts = re.split(rb',\t"chain":"([0-9a-f]{32})"\}\n', data)
    batches, chains = parts[0:-1:2], [b"0" * 32, *parts[1::2]]
    proven = re.sub(rb'(?<=,\t"free":)(null|\{.*?\})(?=\}?(\n|$))', b"", batches[index])
    assert (b"", NUMBER) == (parts[-1], len(batches))
    assert chains[index + 1].decode() == sha256(chains[index] + proven).hexdigest()[:32]


def test_the_sums_and_checksums_follow_their_documented_rules() -> None:
    """Worked out by hand: each free value is proven by its sum, salt included."""
    texts = GOLDEN.read_text(encoding="utf-8").replace(TORN.decode(), "").split("\n")
    for text, fields in zip(texts, lines(), strict=False):
        free = re.search(r',\t"free":(\{.*?\})\}?(,\t"chain":"[0-9a-f]{32}"\})?$', text)
        assert ("free" in fields) == (free is not None)
        if free is not None:
            assert fields["sum"] == sha256(free[1].encode()).hexdigest()[:32]
