"""Strict parsing of a line's head (who and when): only the exact form that Tallybook writes."""

from __future__ import annotations

from datetime import date
from functools import lru_cache
import json
import re
from typing import NamedTuple

_AT = rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z"
_TEXT = rb'[^"\\\x00-\x1f]+'
_HEAD = re.compile(
    rb'\{"crc":"[0-9a-f]{8}","seq":([1-9][0-9]{0,17}),"id":"(' + _TEXT + rb')"'
    rb'(?:,"key":"(' + _TEXT + rb')")?,"at":"(' + _AT + rb')"(?:,"when":"(' + _AT + rb')")?'
    rb',"part":\[([1-9][0-9]{0,8}),([1-9][0-9]{0,8})\],"by":(\{.*\})'
)


class LineHead(NamedTuple):
    """The fields of a head.

    Attributes:
        seq: Event number.
        id: Id of the event.
        key: Idempotency key; None without one.
        at: When it was recorded.
        when: When it happened, if that was another time; None otherwise.
        part: Index in its batch, from 1, and the size of the batch.
        by: Who recorded it, in JSON.
    """

    seq: int
    id: str
    key: str | None
    at: str
    when: str | None
    part: tuple[int, int]
    by: bytes


def parse_head(head: bytes) -> LineHead | None:
    """Return the fields of a line's head; None where Tallybook did not write it."""
    found = _HEAD.fullmatch(head)
    if found is None or (not head.isascii() and not _is_utf8(head)):
        return None
    seq, id_, key, at, when, part, size, by = found.groups()
    if not _is_day(at[:10]) or (when is not None and not _is_day(when[:10])):
        return None
    return LineHead(int(seq), id_.decode(), _text(key), at.decode(), _text(when), (int(part), int(size)), by)


@lru_cache(maxsize=1024)
def parse_session(by: bytes) -> str | None:
    """Return the session in a head's ``by``; None without one, and where ``by`` is not a JSON object."""
    try:
        found = json.loads(by).get("session")
    except (ValueError, RecursionError, AttributeError):
        # Tallybook did not write that; decoding the head reports it.
        return None
    return found if isinstance(found, str) else None


def _is_utf8(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError:
        return False
    return True


@lru_cache(maxsize=1024)
def _is_day(day: bytes) -> bool:
    """Return whether this day exists in the calendar; arithmetic with another would fail."""
    try:
        date.fromisoformat(day.decode())
    except ValueError:
        return False
    return True


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
