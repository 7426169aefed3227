"""The checks of the library's arguments: one that cannot be used is refused by its name."""

from __future__ import annotations

import json
from typing import Any, Final

from tallybook.ledger.decisions.update import text_fault
from tallybook.ledger.errors import BadInputError

_MAX_NUMBER: Final = 10**18 - 1
"""No event number is larger."""


def check_type(kind: Any, **arguments: object) -> None:
    """Refuse arguments of another type.

    Args:
        kind: A class, or several as ``int | str | None``.
        arguments: Name → value.

    Raises:
        BadInputError: One is of another type; the message begins with its name.
    """
    for name, value in arguments.items():
        # To Python a bool is an int; no argument is meant to be one.
        if isinstance(value, bool) or not isinstance(value, kind):
            expected = getattr(kind, "__name__", kind)
            raise BadInputError(name, f"expected {expected}, got {type(value).__name__}", "nothing was recorded")


def check(kind: Any, **arguments: object) -> None:
    """Refuse arguments of another type, empty texts, texts that are not Unicode, and what is no event number.

    An empty ``reason`` is no reason, and passes. Otherwise as `check_type`.
    """
    check_type(kind, **arguments)
    for name, value in arguments.items():
        fault = None
        if isinstance(value, int) and not 0 <= value <= _MAX_NUMBER:
            fault = "is not an event number"
        elif isinstance(value, str) and (value or name != "reason"):
            fault = text_fault(value)
        if fault is not None:
            raise BadInputError(name, fault, "nothing was recorded")


def read_json(**arguments: object) -> Any:
    """Return the value of the only argument as JSON reads it back: with lists for tuples.

    Raises:
        BadInputError: It is not JSON.
    """
    [(name, value)] = arguments.items()
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInputError(name, f"is not JSON: {error}", "nothing was recorded") from error
