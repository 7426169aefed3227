"""The ledger of the first release, in golden.jsonl, is read with its first meaning, and written again byte for byte.

Lines of golden.jsonl are never changed and never removed, only added after the last: users' ledgers have such lines.
A new kind or version is added as a further batch there. Each line of golden-events.jsonl is what a batch means: its
time, author, key and events. `TAPE=answers` before pytest adds the lines of new batches, and changes no other.
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
import pytest

from helpers.ledger_lines import Read
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.events import EVENT_TYPES, UnknownEvent
from tallybook.ledger.line import START, Draft, Position, RawBatch, Stamp, frame, join_key
from tallybook.ledger.records import Batch
from tallybook.ledger.scan import Scan

GOLDEN = Path(__file__).with_name("golden.jsonl")
MEANINGS = Path(__file__).with_name("golden-events.jsonl")
NUMBER = len(MEANINGS.read_text(encoding="utf-8").splitlines())
TORN = b'{"crc":"00000000","seq":14,"id":"0192aaaa-0000-7000-8000-00000000000e","at":"2026-11-2\n'
UNKNOWN = Draft("point.starred", 3, {"name": "kpt_002", "stars": 5}, {"why": "a text of a kind that is not known"})


def golden_read() -> Read:
    """Return the result of a scan of the golden ledger."""
    with GOLDEN.open("rb") as file:
        scan = Scan(file.fileno(), START, GOLDEN.stat().st_size)
        return Read(list(scan), scan.stop, scan.sealed_ranges)


def framed(batch: Batch, by: dict[str, str], mark: Position) -> RawBatch:
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


def meaning(batch: Batch) -> str:
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
    meanings = [meaning(batch) for batch in decode(golden_read().batches)]
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
        assert batch.raw == framed(decoded, lines_of_it[0]["by"], before._replace(offset=batch.offset)).raw


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
    for text, line in zip(
        GOLDEN.read_text(encoding="utf-8").replace(TORN.decode(), "").split("\n"), lines(), strict=False
    ):
        free = re.search(r',\t"free":(\{.*?\})\}?(,\t"chain":"[0-9a-f]{32}"\})?$', text)
        assert ("free" in line) == (free is not None)
        if free is not None:
            assert line["sum"] == sha256(free[1].encode()).hexdigest()[:32]
