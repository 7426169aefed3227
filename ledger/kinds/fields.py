"""What fields of events have in common: their bounds, and which of them hold free text."""

from __future__ import annotations

import json
from typing import Any, Final

import attrs

FREE: Final = "free"
NOT_NEGATIVE: Final = attrs.validators.ge(0)
NAMES: Final = attrs.validators.deep_iterable(attrs.validators.instance_of(str), attrs.validators.instance_of(tuple))


def free(validator: Any = None) -> Any:
    """Return an attrs field that stands in the free section of the line."""
    return attrs.field(metadata={FREE: True}, validator=validator)


def is_object(_event: object, field: attrs.Attribute[Any], value: str | None) -> None:
    """Refuse a text that is neither empty nor a JSON object that can be written again."""
    try:
        said = json.loads(value or "{}")
        json.dumps(said, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{field.name} is no JSON: {error}") from error
    if not isinstance(said, dict):
        raise TypeError(f"{field.name} is no JSON object")
