"""What events have in common: how they are told and compared, the types and bounds of fields, and what is free text."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

import attrs

from tallybook.ledger.kinds.limits import MAX_INT

FREE: Final = "free"


def _check_count(_event: object, field: attrs.Attribute[Any], value: int) -> None:
    # One function, because it runs for every count of every event that is read: attrs' own would take four calls.
    if not 0 <= value <= MAX_INT:
        raise ValueError(f"{field.name!r} must be from 0 to 2^53: {value}")


def _check_exact(_event: object, field: attrs.Attribute[Any], value: int | None) -> None:
    if value is not None and not abs(value) <= MAX_INT:
        raise ValueError(f"{field.name!r} must be within 2^53: {value}")


NOT_NEGATIVE: Final = _check_count
EXACT: Final = _check_exact
PERCENT: Final = attrs.validators.and_(attrs.validators.ge(0), attrs.validators.le(100))
NAMES: Final = attrs.validators.deep_iterable(attrs.validators.instance_of(str), attrs.validators.instance_of(tuple))


@attrs.frozen(eq=False, repr=False)
class Kind:
    """What every kind of event is, beside its fields: told, compared and counted by their values.

    attrs would write and compile all of that for each kind anew, which takes longer than to make the class itself, and
    every command makes all of them.
    """

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in attrs.fields(type(self)))

    def __eq__(self, other: object) -> bool:
        """Say whether the other is of the same kind and says the same."""
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        """Equal events have equal hashes."""
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        """Render as ``PointRated(name='kpt_001', rating='helpful')``."""
        said = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in attrs.fields(type(self)))
        return f"{type(self).__name__}({said})"


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


class Numbers(dict[str, float]):
    """Numbers by name, as a field of an event: made once and never changed, so that the event can be remembered by it.

    A value lies within 2^53, beyond which JSON readers disagree, and may be true or false.
    """

    def __init__(self, values: dict[str, float]) -> None:
        """Take the numbers.

        Raises:
            TypeError: A name is no text, or a value no number.
            ValueError: A value lies beyond 2^53, or is none.
        """
        for name, value in values.items():
            if type(name) is not str or type(value) not in {bool, int, float}:
                raise TypeError(f"expected numbers by name, got {name!r}: {type(value).__name__}")
            if not abs(value) <= MAX_INT:
                raise ValueError(f"expected a number within 2^53 as {name}")
        super().__init__(values)

    def __eq__(self, other: object) -> bool:
        """Say whether both name the same: 1, 1.0 and true are three things, since each is written otherwise."""
        return isinstance(other, Numbers) and self._told() == other._told()

    def __ne__(self, other: object) -> bool:
        """Say whether they do not, which a dict would answer by its own rule."""
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]
        """Equal numbers have equal hashes, in whatever order they were named."""
        return hash(self._told())

    def _told(self) -> frozenset[tuple[str, type, float]]:
        return frozenset((name, type(value), value) for name, value in self.items())

    def _refuse(self, *_args: object, **_named: object) -> NoReturn:
        raise TypeError("numbers of an event never change")

    __setitem__ = __delitem__ = __ior__ = update = pop = popitem = clear = setdefault = _refuse
