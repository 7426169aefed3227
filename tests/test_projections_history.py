"""Events as rows for `log`: JSON-ready, chosen by name, and as one line for people."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from helpers.ledger_codec import sample
from tallybook.ledger.events import (
    EVENT_TYPES,
)
from tallybook.ledger.records import Author, EventRecord
from tallybook.projections.event_rows import (
    row,
)

AT = "2026-11-21T20:17:03.123456Z"


def recorded(event: Any, **head: Any) -> EventRecord:
    """Return a record of an event by a reflector."""
    return EventRecord(812, AT, event, "019a", Author("reflector", session="s1"), **head)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_every_kind_becomes_a_row_of_plain_json(kind: str) -> None:
    """Each field of each kind is in body or free, and survives JSON unchanged."""
    event = sample(kind)
    told = row(recorded(event))
    assert told == json.loads(json.dumps(told))
    assert (kind, EVENT_TYPES[kind][1]) == (told["kind"], told["v"])
    assert {field.name for field in attrs.fields(type(event))} == {*told["body"], *(told.get("free") or {})}
