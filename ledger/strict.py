"""JSON at the door: what readers of JSON disagree about is refused, in one line that says where. Standard library."""

from __future__ import annotations

import json
from typing import Any

from ledger.errors import BadInputError

MAX_INT = 2**53
MAX_PAYLOAD_BYTES = 16 * 1024 * 1024
HINT = "nothing was recorded"


def loads(data: bytes, source: str) -> Any:
    """Return the JSON value of these bytes.

    Args:
        data: UTF-8, at most MAX_PAYLOAD_BYTES.
        source: What the error calls them: a file's name, ``standard input``.

    Raises:
        BadInputError: Not UTF-8, not JSON, nested too deeply, or with something that readers disagree about: a key
            twice in one object, NaN, Infinity, or a whole number beyond 2^53.
    """
    if len(data) > MAX_PAYLOAD_BYTES:
        raise BadInputError(source, f"has more than {MAX_PAYLOAD_BYTES:,} bytes", HINT)

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(found)
        if len(value) < len(found):
            names = [name for name, _ in found]
            twice = next(name for name in names if names.count(name) > 1)
            raise BadInputError(source, f"has the key {twice!r} twice in one object", HINT)
        return value

    def constant(name: str) -> Any:
        raise BadInputError(source, f"holds {name}, which is no JSON", HINT)

    def whole(digits: str) -> int:
        if len(digits) > 17 or abs(int(digits)) > MAX_INT:  # noqa: PLR2004 - more digits than 2^53 and a sign have
            raise BadInputError(source, f"holds the number {digits[:20]}, beyond 2^53", HINT)
        return int(digits)

    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant, parse_int=whole)
    except UnicodeDecodeError as error:
        raise BadInputError(source, f"is not UTF-8 text, from byte {error.start} on", HINT) from error
    except json.JSONDecodeError as error:
        what = f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}" if data.strip() else "is empty"
        raise BadInputError(source, what, HINT) from error
    except RecursionError as error:
        raise BadInputError(source, "is nested too deeply", HINT) from error
