"""The table of a book's rules: what fits it is the same for every program that knows these rules, for ever."""

from __future__ import annotations

from typing import Any

import attrs

from helpers.repository import ROOT
from tallybook.ledger import events
from tallybook.ledger.codec import UPCASTS
from tallybook.ledger.sharing import book

BOUNDS = {
    None: "",
    events.check_count: "from 0",
    events.check_exact: "exact",
    events.NAMES: "texts",
    events.check_day: "a day",
    events.check_json_object: "a JSON object",
}


def _field_row(field: attrs.Attribute[Any]) -> str:
    bound = getattr(field.validator, "options", None) or BOUNDS[field.validator]
    type_ = getattr(field.type, "__name__", field.type) if isinstance(field.type, type) else field.type
    return f"{field.name}: {type_}{', free text' if field.metadata else ''} {bound}".rstrip()


def test_the_table_of_rules_1_is_frozen() -> None:
    """A program that reads another table parts from the others: a new kind, version or bound needs new rules."""
    rows = [f"numbers up to {book.MAX_NUMBER}, blocks of {book.BLOCK}, nested {book.MAX_DEPTH} deep"]
    for kind, version in sorted(book.KINDS.items()):
        cls = attrs.resolve_types(events.EVENT_TYPES[kind][0])
        rows += [f"{kind} {version}", *(f"    {_field_row(field)}" for field in attrs.fields(cls))]
        rows += [f"    also version {old}" for lifted, old in UPCASTS if lifted == kind]
    rows += [f"own ledgers: {kind}" for kind in sorted(book.OWN_KINDS)]
    assert (ROOT / "tests/data/book_rules.txt").read_text(encoding="utf-8").splitlines() == rows
