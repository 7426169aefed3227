"""A second reader of the page's streams, plain and slow: what the README says a browser does."""

from __future__ import annotations

from base64 import b64decode
import json
import re
from typing import TYPE_CHECKING, Any
import zlib

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def unpack(stream: bytes) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Return the tables and the columns of a stream before compression."""
    at = 4 + int.from_bytes(stream[:4], "little")
    tables = json.loads(stream[4:at])
    columns = {}
    for name, count, width, delta in tables.pop("columns"):
        numbers = [0] * count
        for plane in range(width):
            for index in range(count):
                numbers[index] += stream[at + index] << (8 * plane)
            at += count
        if delta:
            last = 0
            for index, number in enumerate(numbers):
                last += -(number + 1) // 2 if number % 2 else number // 2
                numbers[index] = last
        columns[name] = numbers
    assert len(stream) == at
    return tables, columns


def read_page(page: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the meta of a page, and its streams before compression."""
    (meta,) = re.findall(r'<script type="application/json" id="meta">(.*?)</script>', page, re.DOTALL)
    found = re.findall(r'<script type="application/octet-stream" id="stream-([\w-]+)">([^<]*)</script>', page)
    return json.loads(meta), {name: zlib.decompress(b64decode(text)) for name, text in found}


def play(
    tables: Mapping[str, Any], columns: Mapping[str, list[int]], other: Mapping[str, list[int]] | None = None
) -> Iterator[tuple[int, dict[str, dict[str, Any]]]]:
    """Yield after each moment its last event number and the rows by name, as a browser shows them.

    Args:
        tables: The tables of the film.
        columns: Its columns.
        other: The columns of another policy.
    """
    changed = columns if other is None else other
    effect = columns["e_effect"]
    if other is not None:
        effect = [real ^ different for real, different in zip(effect, other["e_effect"], strict=True)]
    names, texts = tables["names"], tables["texts"]
    rows: dict[str, dict[str, Any]] = {}
    by_event: dict[int, list[int]] = {}
    for index, seq in enumerate(changed["c_event"]):
        by_event.setdefault(seq, []).append(index)
    last = 0
    for size in columns["m_size"]:
        for seq in range(last + 1, last + size + 1):
            if effect[seq - 1] in {1, 2}:
                row = rows[names[columns["e_entry"][seq - 1] - 1]]
                row["helpful" if effect[seq - 1] == 1 else "harmful"] += 1
            assert (effect[seq - 1] == 3) == (seq in by_event)
            for index in by_event.get(seq, ()):
                text, into = changed["c_text"][index], changed["c_into"][index]
                fields = ("status", "helpful", "harmful", "flags", "place")
                rows[names[changed["c_entry"][index]]] = {
                    **{field: changed[f"c_{field}"][index] for field in fields},
                    "text": texts[text - 1] if text else None,
                    "into": names[into - 1] if into else None,
                }
        last += size
        yield last, rows
