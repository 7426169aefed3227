"""Events as rows for `log`: JSON-ready, chosen by name, and as one line for people."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from helpers.ledger_codec import sample
from tallybook.ledger.events import (
    EVENT_TYPES,
    EventsVoided,
    PointAdded,
    PointSeeded,
    UnknownEvent,
)
from tallybook.ledger.records import Author, EventRecord
from tallybook.projections.event_rows import (
    QUOTE_CHARS,
    row,
    summary,
)

AT = "2026-11-21T20:17:03.123456Z"


def recorded(event: Any, **head: Any) -> EventRecord:
    """Return a record of an event by a reflector."""
    return EventRecord(812, AT, event, "019a", Author("reflector", session="s1"), **head)


def test_redacted_text_is_null() -> None:
    """A redacted kind with free text keeps the field of its text, with null."""
    assert row(recorded(PointSeeded("kpt_001", 3, 1, "canonical", None, None)))["free"] is None


def test_the_text_of_an_unknown_kind_is_listed_too() -> None:
    """Its free text is outside its body, as for known kinds."""
    told = row(recorded(UnknownEvent("point.noted", 2, '{"name":"kpt_001"}', '{"note":"later"}')))
    assert ({"name": "kpt_001"}, {"note": "later"}) == (told["body"], told["free"])


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_every_kind_becomes_a_row_of_plain_json(kind: str) -> None:
    """Each field of each kind is in body or free, and survives JSON unchanged."""
    event = sample(kind)
    told = row(recorded(event))
    assert told == json.loads(json.dumps(told))
    assert (kind, EVENT_TYPES[kind][1]) == (told["kind"], told["v"])
    assert {field.name for field in attrs.fields(type(event))} == {*told["body"], *(told.get("free") or {})}


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("x" * QUOTE_CHARS, "x" * QUOTE_CHARS),
        ("x" * (QUOTE_CHARS + 1), "x" * (QUOTE_CHARS - 1) + "…"),
        ("x" * (QUOTE_CHARS - 2) + " yy", "x" * (QUOTE_CHARS - 2) + "…"),
    ],
    ids=["that fits", "one longer", "cut after a word"],
)
def test_a_summary_quotes_as_much_of_a_text_as_fits(text: str, quoted: str) -> None:
    """Sixty characters are quoted whole; of a longer text the beginning, with an ellipsis within the sixty."""
    assert f'learned kpt_001 "{quoted}"' == summary(PointAdded("kpt_001", text))


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (("a",), 'event 4 undone: "misread"'),
        (("c", "a", "b", "d"), 'events 4 to 6, 9 undone: "misread"'),
        (("a", "unknown"), '2 events undone: "misread"'),
        (("unknown",), 'event unknown undone: "misread"'),
    ],
)
def test_undone_events_are_named_by_number(ids: tuple[str, ...], expected: str) -> None:
    """If the numbers of all events are known, people see those and no ids."""
    assert expected == summary(EventsVoided(ids, None, "misread"), {"a": 4, "b": 5, "c": 6, "d": 9})
