"""Playbooks of other programs: tables of skills or bullets by their ids, and lines of text under headings.

    {"skills": {ID: {"section", "content", "helpful", "harmful", …}}, "sections": {HEADING: [ID, …]}, …}
    {"bullets": {ID: {"section", "content", "helpful", "harmful", …}}, "sections": {HEADING: [ID, …]}, …}
    ## HEADING
    [ID] helpful=5 harmful=0 :: TEXT

An entry keeps its id as its name. A table can be a list of objects with an ``id`` as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
import json
import math
import re
from typing import Any, Final, TypeAlias

import attrs

SHOWN_CHARS: Final = 40


@attrs.frozen
class JsonNumber:
    """A JSON number as it was written, NaN and Infinity included, so that parsing loses no digit."""

    text: str

    @property
    def is_infinite(self) -> bool:
        """Return whether it is NaN or infinite, or so large that readers take it for infinite."""
        return not math.isfinite(float(self.text))


@attrs.frozen
class JsonObject:
    """A JSON object as it was written: every pair, repeated keys included."""

    pairs: tuple[tuple[str, Json], ...]

    def last(self) -> dict[str, Json]:
        """Return it as most readers read it: the last value of a repeated key counts."""
        return dict(self.pairs)


Json: TypeAlias = "str | bool | JsonNumber | list[Json] | JsonObject | None"
DECODER: Final = json.JSONDecoder(
    object_pairs_hook=lambda pairs: JsonObject(tuple(pairs)),
    parse_int=JsonNumber,
    parse_float=JsonNumber,
    parse_constant=JsonNumber,
)


def list_levels(value: Json) -> list[list[Json]]:
    """Return a value and everything in it, keys included, level by level."""
    levels, level = [], [value]
    while level:
        levels.append(level)
        inner: list[Json] = []
        for part in level:
            inner += chain.from_iterable(part.pairs) if isinstance(part, JsonObject) else ()
            inner += part if isinstance(part, list) else ()
        level = inner
    return levels


def find_flaws(value: Json) -> tuple[str, ...]:
    """Return what JSON readers disagree about in a value, each in a few words."""
    parts = list(chain.from_iterable(list_levels(value)))
    objects = [part for part in parts if isinstance(part, JsonObject)]
    numbers = [part for part in parts if isinstance(part, JsonNumber)]
    flaws = {
        "repeats a key, of which the last one counts": any(len(part.last()) < len(part.pairs) for part in objects),
        "contains a broken character, recorded as \ufffd": any(
            isinstance(part, str) and part != mend_text(part) for part in parts
        ),
        "holds a number that many cannot read": any(number.is_infinite for number in numbers),
    }
    return tuple(flaw for flaw, is_present in flaws.items() if is_present)


def mend_text(text: str) -> str:
    """Return a text with every half of a surrogate pair replaced, so that it can be written as UTF-8."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def to_plain(value: Json) -> Any:
    """Return a value as JSON that every reader accepts; an infinite number becomes its text."""
    if isinstance(value, JsonObject):
        return {mend_text(key): to_plain(child) for key, child in value.pairs}
    if isinstance(value, list):
        return [to_plain(child) for child in value]
    if isinstance(value, JsonNumber):
        read = str if value.is_infinite else int if value.text.lstrip("-").isdigit() else float
        return read(value.text)
    return mend_text(value) if isinstance(value, str) else value


def to_text(value: Json) -> str:
    """Return a value as it was written, without the white space between its parts."""
    if isinstance(value, JsonObject):
        return "{" + ",".join([f"{to_text(key)}:{to_text(child)}" for key, child in value.pairs]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([to_text(child) for child in value]) + "]"
    if isinstance(value, JsonNumber):
        return value.text
    return json.dumps(value, ensure_ascii=isinstance(value, str) and value != mend_text(value))


def shorten(value: Json) -> str:
    """Return a value short and on one line, for a message."""
    text = value if isinstance(value, str) else to_text(value)
    shown = repr(text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…")
    return shown if isinstance(value, str) else shown[1:-1]


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


def list_items(content: JsonObject) -> Iterator[Item]:
    """Yield the items of a file in one of these formats, nothing for any other file."""
    top = content.last()
    key = table_of(top)
    table = top.get(key)
    if key == LINES and isinstance(table, list):
        yield from _list_line_items(table)
    elif isinstance(table, JsonObject | list):
        yield from _list_table_items(key, table, top.get("sections"))


def _list_table_items(key: str, table: JsonObject | list[Json], sections: Json) -> Iterator[Item]:
    headings: dict[str, str] = {}
    for title, ids in sections.pairs if isinstance(sections, JsonObject) else ():
        for id_ in ids if isinstance(ids, list) else ():
            if isinstance(id_, str):
                headings[id_] = mend_text(title)
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


def _list_line_items(lines: list[Json]) -> Iterator[Item]:
    heading = None
    for number, line in enumerate(lines, 1):
        text = line if isinstance(line, str) else ""
        if found := _LINE.fullmatch(text):
            name, helpful, harmful, rest = found.groups()
            counts = (("helpful", JsonNumber(_strip_zeros(helpful))), ("harmful", JsonNumber(_strip_zeros(harmful))))
            yield f"line {number}", JsonObject((("name", name), ("text", rest), *counts)), heading, "", (), text
        elif title := _HEADING.fullmatch(text):
            heading = title[1]
        elif text.strip():
            yield f"line {number}", text, None, "is not a line of an entry", (), None


def _strip_zeros(digits: str) -> str:
    """Return a whole number as JSON writes it, without leading zeros."""
    return digits.lstrip("0") or "0"
