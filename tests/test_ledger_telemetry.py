"""Telemetry and other objects become events: names, numbers and times in many spellings, and odd parts named.

`tests/tape/telemetry.jsonl` has an object and what becomes of it on each line. `TAPE=answers` before pytest writes the
translations of its objects anew; a commit that changes one says why.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.ledger_lines import stamp
from helpers.reference_model import JSON
from tallybook.ledger import clock
from tallybook.ledger.codec import encode
from tallybook.ledger.events import FeedbackRecorded, TelemetryKept
from tallybook.ledger.line import frame
from tallybook.ledger.telemetry.mapping import TABLE
from tallybook.ledger.telemetry.read import (
    MAX_ORIGINAL_CHARS,
    SHAPES,
    fill_defaults,
    find_row,
    idempotency_key,
    read_metrics,
    read_name,
    read_number,
    read_object,
    read_time,
)

FILE = Path(__file__).parent / "tape" / "telemetry.jsonl"


def translate(given: dict[str, Any]) -> dict[str, Any]:
    """Return an object with what becomes of it; of an object that is kept whole the event's text is left out."""
    taken = read_object(given)
    for event in taken.events:
        if isinstance(event, TelemetryKept):
            assert json.dumps(given, ensure_ascii=False, separators=(",", ":")) == event.original
    events = [{type(event).__name__: attrs.asdict(event)} for event in taken.events]
    for fields in (fields for event in events for fields in event.values()):
        fields.pop("original", None)
    known = {"rater": taken.rater, "session": taken.session, "when": taken.when, "problems": list(taken.problems)}
    return {"object": given, "events": events} | known


def test_each_object_becomes_the_events_of_the_tape() -> None:
    """Every accepted shape and spelling, every odd part and every unusable object has one translation."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    if os.environ.get("TAPE"):
        lines = [json.dumps(translate(json.loads(line)["object"])) for line in lines]
        FILE.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    rows = [json.loads(line) for line in lines]
    # Compared as text, so that 1, 1.0 and true differ.
    differing = [row["object"] for row in rows if json.dumps(row) != json.dumps(translate(row["object"]))]
    assert (True, []) == (len(rows) > 100, differing)


@pytest.mark.parametrize("excess", [0, 1])
def test_long_texts_are_cut_and_named(excess: int) -> None:
    """A note of 10,000 characters and an original of 100,000 stay whole; longer ones are cut."""
    note = read_object({"feedback": 80, "session_id": "s1", "note": "x" * (10_000 + excess)})
    assert (isinstance(event := note.events[0], FeedbackRecorded), 10_000) == (True, len(getattr(event, "note", "")))
    assert ["the note was cut to 10,000 characters"][:excess] == list(note.problems)
    empty = len(json.dumps({"why": ""}, separators=(",", ":")))
    (kept,) = read_object({"why": "x" * (MAX_ORIGINAL_CHARS - empty + excess)}).events
    assert isinstance(kept, TelemetryKept)
    assert isinstance(json.loads(kept.original or ""), str if excess else dict)


@given(st.sampled_from([row.types[0] for row in TABLE]), st.text(), st.dictionaries(st.text(), JSON, max_size=5))
def test_any_event_gives_valid_numbers(type_: str, component: str, data: dict[str, Any]) -> None:
    """Nothing raises, and every value is one that the ledger can hold."""
    row = find_row(type_, component)
    assert row is not None
    found = read_metrics(row, [data, {"metadata": data}])
    assert found == {name: read_number(value) for name, value in found.items()}


KEYS = st.sampled_from([
    *("component", "session_id", "at", "timestamp", "metrics", "source", "benchmark", "passed", "total", "failed"),
    *("feedback", "note", "session_ended", "version", "baseline", "score", "verdict", "reason", "value", "kind"),
    *("event_type", "type", "data", "metadata", "summary", "name"),
])  # fmt: skip
WORDS = st.sampled_from([*SHAPES, *(row.types[0] for row in TABLE), "helpful", "\ud800", "\n", ""])


@given(st.dictionaries(KEYS, JSON | WORDS | st.dictionaries(KEYS | st.text(), JSON | WORDS, max_size=3)))
def test_any_object_can_be_recorded(said: dict[str, Any]) -> None:
    """Nothing raises, and every event fits the ledger's lines."""
    said = fill_defaults(said)
    taken = read_object(said)
    drafts = [encode(event, taken.when) for event in taken.events]
    by = {"rater": taken.rater} | ({"session": taken.session} if taken.session else {})
    assert len(drafts) <= frame(drafts, stamp()._replace(by=by, key=idempotency_key(said, "x"))).last


@given(JSON)
def test_no_value_raises_and_every_result_is_in_bounds(value: Any) -> None:
    """For any JSON a moment is one that the ledger would write, and a name fits its field."""
    found = read_number(value)
    assert found is None or abs(found) <= 2**53
    assert len(read_name(value)) <= 200
    assert read_name(value).isprintable()
    when = read_time(value)
    assert when is None or clock.moment(clock.to_unix_us(when)).at == when
