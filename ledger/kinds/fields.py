"""What event classes share: their base class, types and bounds of fields, and the marker of free text."""

from __future__ import annotations

from datetime import date
import json
from typing import Any, ClassVar, Final, NoReturn, Self, TypeGuard, dataclass_transform

import attrs

from tallybook.ledger.kinds.limits import MAX_INT

FREE: Final = "free"
FREE_TEXT: Final = {FREE: True}
"""Metadata of a field whose text is written to the free section of a line, where it can be redacted."""


def _check_count(_event: object, field: attrs.Attribute[Any], value: int) -> None:
    # One function, because it runs for every count of every event that is read: validators of attrs would take four.
    if not 0 <= value <= MAX_INT:
        raise ValueError(f"{field.name!r} must be from 0 to 2^53: {value}")


def _check_exact(_event: object, field: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and not abs(value) <= MAX_INT:
        raise ValueError(f"{field.name!r} must be from -2^53 to 2^53: {value}")


NOT_NEGATIVE: Final = _check_count
EXACT: Final = _check_exact
PERCENT: Final = attrs.validators.and_(attrs.validators.ge(0), attrs.validators.le(100))
NAMES: Final = attrs.validators.deep_iterable(attrs.validators.instance_of(str), attrs.validators.instance_of(tuple))


EVENT_TYPES: Final[dict[str, tuple[type[Any], int]]] = {}
"""Kind on disk → its class, and the version that this Tallybook writes; the codec upcasts older versions."""
KIND_OF: Final[dict[type[Any], str]] = {}
"""Class of an event → its kind on disk."""


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(attrs.field,))
class Event:
    """Base of every event class: events are shown, compared and hashed by the values of their fields."""

    # What makes a class one of attrs, for the type checker.
    __attrs_attrs__: ClassVar[Any]

    def __init_subclass__(cls, kind: str = "", version: int = 1) -> None:
        """Make a frozen class of attrs, and enter it into the tables where it is a kind on disk."""
        # attrs would generate and compile the methods below for each class, which takes longer than to make the class
        # itself, and every command makes all the classes. No slots: attrs makes such a class twice, and msgspec would
        # write its fields in the order of the alphabet.
        attrs.frozen(cls, eq=False, repr=False, slots=False)
        if kind:
            EVENT_TYPES[kind] = (cls, version)
            KIND_OF[cls] = kind

    def evolve(self, **changes: Any) -> Self:
        """Return the same event with other values in these fields."""
        return type(self)(**attrs.asdict(self, recurse=False) | changes)

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in attrs.fields(type(self)))

    def __eq__(self, other: object) -> bool:
        """Return whether the other is of the same class with the same values."""
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        """Equal events have equal hashes."""
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        """Render as ``PointRated(name='kpt_001', rating='helpful')``."""
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in attrs.fields(type(self)))
        return f"{type(self).__name__}({values})"


def check_json_object(_event: object, field: attrs.Attribute[Any], value: str | None) -> None:
    """Refuse a text that is neither empty nor a JSON object that can be encoded again."""
    try:
        decoded = json.loads(value or "{}")
        json.dumps(decoded, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{field.name} is not JSON: {error}") from error
    if not isinstance(decoded, dict):
        raise TypeError(f"{field.name} is not a JSON object")


def check_day(_event: object, field: attrs.Attribute[Any], value: str) -> None:
    """Refuse a text that is neither empty nor a day such as ``2026-12-31``."""
    if value and not is_day(value):
        raise ValueError(f"{field.name!r} must be a day such as 2026-12-31: {value!r}")


def is_day(value: object) -> TypeGuard[str]:
    """Return whether a value is a day of the calendar as events write it, ``2026-12-31``."""
    try:
        return isinstance(value, str) and date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


class Numbers(dict[str, float]):
    """An immutable, hashable dict of numbers, as a field of an event. A value lies within 2^53, or is true or false."""

    def __init__(self, values: dict[str, float]) -> None:
        """Copy the numbers.

        Raises:
            TypeError: A name is not a text, or a value is not a number.
            ValueError: A value lies beyond 2^53, or is NaN.
        """
        for name, value in values.items():
            if type(name) is not str or type(value) not in {bool, int, float}:
                raise TypeError(f"expected numbers by name, got {name!r}: {type(value).__name__}")
            if not abs(value) <= MAX_INT:
                raise ValueError(f"expected a number from -2^53 to 2^53 as {name}")
        super().__init__(values)

    def __eq__(self, other: object) -> bool:
        """Return whether both hold the same; 1, 1.0 and true differ, because JSON writes each differently."""
        return isinstance(other, Numbers) and self._typed_items() == other._typed_items()

    def __ne__(self, other: object) -> bool:
        """Return the opposite of ``==``; without it dict's own comparison would be used."""
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]
        """Equal numbers have equal hashes, whatever their order."""
        return hash(self._typed_items())

    def _typed_items(self) -> frozenset[tuple[str, type, float]]:
        return frozenset((name, type(value), value) for name, value in self.items())

    def _refuse(self, *_args: object, **_named: object) -> NoReturn:
        raise TypeError("numbers of an event are immutable")

    __setitem__ = __delitem__ = __ior__ = update = pop = popitem = clear = setdefault = _refuse
