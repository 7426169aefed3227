"""A second reader of the page's document, plain and slow: what the README says a browser does."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Iterator, Mapping
import json
import re
from typing import Any
import zlib

FIELDS = ("status", "helpful", "harmful", "flags", "place")


def read_page(page: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the meta of a page, and its document."""
    (meta,) = re.findall(r'<script type="application/json" id="meta">(.*?)</script>', page, re.DOTALL)
    (packed,) = re.findall(r'<script type="application/octet-stream" id="document">([^<]*)</script>', page)
    return json.loads(meta), json.loads(zlib.decompress(b64decode(packed)))


def bytes_of(document: Mapping[str, Any]) -> bytes:
    """Return all that a document says, to search in."""
    return json.dumps(document, ensure_ascii=False).encode()


def play(
    film: Mapping[str, Any], other: Mapping[str, list[int]] | None = None
) -> Iterator[tuple[int, dict[str, dict[str, Any]]]]:
    """Yield the snapshot, if there is one, and each moment, as its last event number and the rows by name.

    Args:
        film: The film.
        other: The columns of another policy.
    """
    own: dict[str, dict[str, Any]] = {}
    others: dict[str, dict[str, Any]] = {}
    last = film["base"]
    for number, size in enumerate([0, *film["m_size"]]):
        last += size
        moment = range(last - size + 1, last + 1) if number else (last,)
        own |= _rows(film, film, moment)
        others |= {} if other is None else _rows(film, other, moment)
        differing = {name: row for name, row in others.items() if row["status"] != SAME}
        if number or film["base"]:
            yield last, own | differing


SAME = 6


def _rows(
    film: Mapping[str, Any], columns: Mapping[str, list[int]], moment: Collection[int]
) -> dict[str, dict[str, Any]]:
    """Return the rows of a moment by name."""
    names, texts, rows = film["names"], film.get("texts"), {}
    for index, seq in enumerate(columns["c_event"]):
        if seq in moment:
            text, into = columns["c_text"][index], columns["c_into"][index]
            rows[names[columns["c_entry"][index]]] = {
                **{field: columns[f"c_{field}"][index] for field in FIELDS},
                "text": texts[text - 1] if text and texts else None,
                "into": names[into - 1] if into else None,
            }
    return rows
