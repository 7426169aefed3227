"""JSON that is read strictly: no key twice, no number that is none, not too much, not too deep."""

from __future__ import annotations

import json
from math import isinf
from typing import Any

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.playbook_constants import MAX_INT

MAX_PAYLOAD_BYTES = 16 * 1024 * 1024
# Every reader of JSON accepts this depth; their own limits differ, also between versions of Python.
MAX_DEPTH = 100
# As many characters as 2^53 has with a sign.
_MAX_DIGITS = 17
HINT = "nothing was recorded"


def loads(data: bytes, source: str, hint: str = HINT) -> Any:
    """Return the JSON value of these bytes.

    Args:
        data: UTF-8, at most MAX_PAYLOAD_BYTES.
        source: Their name in the error: a file's name, ``standard input``.
        hint: The end of the error's message.

    Raises:
        BadInputError: Not UTF-8, not JSON, nested too deeply, or with something that readers disagree about: a key
            twice in one object, NaN, Infinity, a number that overflows, or a whole number beyond 2^53.
    """
    if len(data) > MAX_PAYLOAD_BYTES:
        raise BadInputError(source, f"has more than {MAX_PAYLOAD_BYTES:,} bytes", hint)
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_check_keys,
            parse_constant=_refuse_constant,
            parse_int=_parse_int,
            parse_float=_parse_float,
        )
    except (ValueError, RecursionError) as error:
        raise BadInputError(source, describe_error(error), hint) from error
    # Fewer brackets than that cannot nest so deep, so most payloads are not walked through.
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and is_too_deep(value):
        raise BadInputError(source, f"is nested more than {MAX_DEPTH} deep", hint)
    return value


def describe_error(error: ValueError | RecursionError) -> str:
    """Return what is wrong with bytes that cannot be read as JSON."""
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 text, from byte {error.start} on"
    if isinstance(error, json.JSONDecodeError):
        place = f"at line {error.lineno}, column {error.colno}"
        return f"is not JSON: {error.msg} {place}" if error.doc.strip() else "is empty"
    # The refusals below are errors of no special class.
    return "is nested too deeply" if isinstance(error, RecursionError) else str(error)


def is_canonical(value: bytes) -> bool:
    """Return whether JSON is in the spelling of the ledger, without values that readers disagree about."""
    try:
        return dumps(loads(value, "line")).encode() == value
    except (BadInputError, UnicodeEncodeError):
        return False


def is_too_deep(value: Any) -> bool:
    """Return whether a JSON value is nested more than MAX_DEPTH deep."""
    layer = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for part in layer:
            inner += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if not inner:
            return False
        layer = inner
    return True


def _check_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"has the key {twice!r} twice in one object")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"holds {name}, which is no JSON")


def _parse_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS or abs(int(digits)) > MAX_INT:
        raise ValueError(f"holds the number {digits[:20]}, beyond 2^53")
    return int(digits)


def _parse_float(digits: str) -> float:
    if isinf(number := float(digits)):
        raise ValueError(f"holds the number {digits[:20]}, which is too large")
    return number
