"""Playbooks of other programs: tables of skills or bullets by their ids, and lines of text under headings.

    {"skills": {ID: {"section", "content", "helpful", "harmful", …}}, "sections": {HEADING: [ID, …]}, …}
    {"bullets": {ID: {"section", "content", "helpful", "harmful", …}}, "sections": {HEADING: [ID, …]}, …}
    ## HEADING
    [ID] helpful=5 harmful=0 :: TEXT

An entry keeps its id as its name. A table can be a list of objects with an ``id`` as well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from tallybook.ledger.decisions.legacy_json import Json, JsonNumber, JsonObject, mend_text, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

Item: TypeAlias = "tuple[str, Json, str | None, str, tuple[str, ...], Json]"
"""An item: place, value as an entry has it, heading, why it is none, keys of its format, value as it is written."""

TABLES: Final = ("skills", "bullets")
LINES: Final = "lines"
TOP_KEYS: Final = (*TABLES, LINES, "sections", "next_id", "similarity_decisions")
"""The top-level keys of these formats; the others, such as ``version``, are passed on."""

_FIELDS: Final = {"id": "name", "content": "text", "helpful_count": "helpful", "harmful_count": "harmful"}
"""Field of these formats → the field of an entry."""
_MORE_KEYS: Final = (
    "created_at",
    "embedding",
    "evidence",
    "justification",
    "neutral",
    "section",
    "sources",
    "status",
    "updated_at",
)
_REMOVED: Final = "invalid"
"""The ``status`` of a skill that its program has removed."""
_LINE: Final = re.compile(r"\s*(?:[-*]\s+)?\[([^\]\s][^\]]*)\]\s+helpful=(\d+)\s+harmful=(\d+)\s*::\s*(.*\S)\s*")
_HEADING: Final = re.compile(r"#{1,6}\s+(.*\S)\s*")


def read_lines(data: bytes) -> JsonObject | None:
    """Return a text with lines of entries as an object with ``lines``; None for any other file."""
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        return None
    lines: list[Json] = list(text.splitlines())
    if text.lstrip()[:1] == "{" or not any(_LINE.fullmatch(line) for line in lines if isinstance(line, str)):
        return None
    return JsonObject(((LINES, lines),))


def table_of(top: dict[str, Json]) -> str:
    """Return the key under which a file has its entries: ``skills``, ``bullets`` or ``lines``; empty for others."""
    if isinstance(top.get("key_points"), list):
        return ""
    return next((key for key in (*TABLES, LINES) if isinstance(top.get(key), JsonObject | list)), "")


def items(content: JsonObject) -> Iterator[Item]:
    """Yield the items of a file in one of these formats, nothing for any other file."""
    top = content.last()
    key = table_of(top)
    table = top.get(key)
    if key == LINES and isinstance(table, list):
        yield from _items_of_lines(table)
    elif isinstance(table, JsonObject | list):
        yield from _items_of_table(key, table, top.get("sections"))


def _items_of_table(key: str, table: JsonObject | list[Json], sections: Json) -> Iterator[Item]:
    headings = _heading_by_id(sections)
    rows = table.pairs if isinstance(table, JsonObject) else [(str(index), row) for index, row in enumerate(table)]
    for label, row in rows:
        place = f"{key}[{shorten(label) if isinstance(table, JsonObject) else label}]"
        if not isinstance(row, JsonObject):
            yield place, row, None, "is not an object with its content", (), None
            continue
        fields = {_FIELDS.get(field, field): value for field, value in row.pairs}
        if isinstance(table, JsonObject):
            fields.setdefault("name", label)
        name, section = fields.get("name"), fields.get("section")
        heading = headings.get(name) if isinstance(name, str) else None
        if heading is None and isinstance(section, str) and section.strip():
            heading = mend_text(section)
        why = "is removed there" if fields.get("status") == _REMOVED else ""
        yield place, JsonObject(tuple(fields.items())), heading, why, _MORE_KEYS, row


def _heading_by_id(sections: Json) -> dict[str, str]:
    """Return the heading of each id in ``{HEADING: [ID, …]}``."""
    pairs = sections.pairs if isinstance(sections, JsonObject) else ()
    return {
        name: mend_text(heading)
        for heading, names in pairs
        if isinstance(names, list)
        for name in names
        if isinstance(name, str)
    }


def _items_of_lines(lines: list[Json]) -> Iterator[Item]:
    heading = None
    for number, line in enumerate(lines, 1):
        text = line if isinstance(line, str) else ""
        if found := _LINE.fullmatch(text):
            name, helpful, harmful, rest = found.groups()
            counts = (("helpful", JsonNumber(_digits(helpful))), ("harmful", JsonNumber(_digits(harmful))))
            yield f"line {number}", JsonObject((("name", name), ("text", rest), *counts)), heading, "", (), text
        elif title := _HEADING.fullmatch(text):
            heading = title[1]
        elif text.strip():
            yield f"line {number}", text, None, "is not a line of an entry", (), None


def _digits(digits: str) -> str:
    """Return a whole number as JSON writes it, without leading zeros."""
    return digits.lstrip("0") or "0"
