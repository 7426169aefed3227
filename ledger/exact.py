"""What the fields of an event take: exactly the values that their types name, and nothing that could become one.

An event is made here where its fields fit, which is nearly always; why they do not is ``wire``'s to say, which has the
same takers.
"""

from __future__ import annotations

from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import attrs

from ledger.kinds.fields import Numbers
from ledger.strict import MAX_INT

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

T = TypeVar("T")


class UnfitError(ValueError):
    """Fields do not fit their kind."""

    def __init__(self, told: Callable[[str], str]) -> None:
        """Keep what tells why, of the path at which the fields stand."""
        self.told = told
        super().__init__(told("$"))


def whole(value: Any) -> int:
    """Return a whole number within 2^53, or raise TypeError."""
    if type(value) is not int or abs(value) > MAX_INT:
        raise TypeError
    return value


def text(value: Any) -> str:
    """Return a text, or raise TypeError."""
    if type(value) is not str:
        raise TypeError(f"expected str, got {type(value).__name__}")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Return texts, or raise TypeError."""
    # A tuple is how our own classes hold it, a list how JSON gives it.
    if type(value) not in {list, tuple}:
        raise TypeError
    return tuple(map(text, value))


def number(value: Any) -> float:
    """Return a finite number within 2^53, or raise TypeError."""
    if type(value) not in {int, float} or not isfinite(value) or abs(value) > MAX_INT:
        raise TypeError
    taken: float = value
    return taken


def numbers(value: Any) -> Numbers:
    """Return numbers by name, or raise TypeError or ValueError."""
    # How our own class holds them, or how JSON gives them.
    if type(value) not in {Numbers, dict}:
        raise TypeError
    return Numbers(value)


LEAVES: Final[dict[Any, Callable[[Any], Any]]] = {
    int: whole,
    str: text,
    float: number,
    Numbers: numbers,
    tuple[str, ...]: texts,
}
"""Type of a field → what takes a value for it: returns it, or raises TypeError or ValueError."""


def _or_none(take: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else take(value)


TAKERS: Final = LEAVES | {leaf | None: _or_none(take) for leaf, take in LEAVES.items()}
"""The same, and those of fields that may be None."""


@cache
def _takers(cls: Hashable) -> Mapping[str, Callable[[Any], Any]] | None:
    """Return what takes each field of a class, None where one has another type."""
    fields = attrs.fields(attrs.resolve_types(cast("type[Any]", cls)))
    known = all(field.type in TAKERS for field in fields)
    return {field.name: TAKERS[field.type] for field in fields} if known else None


def made(fields: Mapping[str, Any], cls: type[T]) -> T | None:
    """Return what a class makes of these fields, None where they are not exactly what it takes."""
    # To mypy no class is certain to be one that a cache takes.
    hashable: Any = cls
    takers = _takers(hashable)
    if takers is None or not fields.keys() <= takers.keys():
        return None
    try:
        return cls(**{name: takers[name](value) for name, value in fields.items()})
    except (TypeError, ValueError):
        return None
