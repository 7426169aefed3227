"""JSON as a legacy file has it, with every pair and every digit: to be kept word for word, or to be normalised."""

from __future__ import annotations

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
        "contains half of a surrogate pair": any(isinstance(part, str) and part != mend_text(part) for part in parts),
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
