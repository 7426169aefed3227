r"""The form that nearly every line of a kind has: one pattern for each kind, made from its class.

A pattern takes what a line says only as the ledger's writer writes it, with the fields in the order of their class
and nothing in need of an escape, and the fields it finds are exactly those that the codec would come to. What it does
not take is the codec's to decode, or to refuse.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from ledger.events import EVENT_TYPES, FREE, LedgerOpened

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledger.events import Event

_TEXT = r'"([^"\\\x00-\x1f]*)"'
# Fewer digits than 2^53 has.
_NUMBER = r"(0|-?[1-9][0-9]{0,14})"
_SALT = r'"salt":"[^"\\\x00-\x1f]*"'
_SUM = r',"sum":"[0-9a-f]{32}"'
# Where the kind stands in what a line says, and how much of it tells it from all others.
_KIND = slice(len('"kind":"'), len('"kind":"') + 12)
_REFUSALS = (ValueError, TypeError)


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits)


# Type of a field → its pattern, and what makes a value of the text found, None for the text itself.
_FIELDS: dict[Any, tuple[str, Callable[[Any], Any] | None]] = {
    str: (_TEXT, None),
    str | None: (f"(?:{_TEXT}|null)", None),
    int: (_NUMBER, int),
    int | None: (f"(?:{_NUMBER}|null)", _number),
}


class Form(NamedTuple):
    """The form of a kind.

    Attributes:
        match: Finds the fields, in the order of the class.
        make: Makes the event of them.
    """

    match: Callable[[str], re.Match[str] | None]
    make: Callable[..., Event]


Forms = dict[bytes, Form | None]
"""Beginning of a kind → its form, None where it has none; filled by ``event_of`` as kinds are met."""


def event_of(what: bytes, forms: Forms) -> Event | None:
    r"""Return what a line says if it has the form of its kind.

    Args:
        what: Its bytes behind the first section, up to and with its end, ``}\n``.
        forms: The forms met so far.

    Returns:
        The event; None where the codec must look at it.
    """
    kind = what[_KIND]
    try:
        known = forms[kind]
    except KeyError:
        known = forms[kind] = _form_of(kind)
    if known is None:
        return None
    try:
        found = known.match(what.decode())
        return known.make(*found.groups()) if found is not None else None
    except _REFUSALS:
        # The codec says why.
        return None


def _form_of(beginning: bytes) -> Form | None:
    """Return the form of the kind that begins so, None where it has none."""
    for kind, (cls, version) in EVENT_TYPES.items():
        if f'{kind}",'.encode().startswith(beginning):
            return form(kind, cls, version)
    return None


def form(kind: str, cls: type[Any], version: int) -> Form | None:
    """Return the form of a version of a kind, None where the codec must look at every line of it."""
    fields = attrs.fields(attrs.resolve_types(cls))
    free = [field for field in fields if FREE in field.metadata]
    body = [field for field in fields if FREE not in field.metadata]
    if cls is LedgerOpened or any(field.type not in _FIELDS for field in body) or [*body, *free] != [*fields]:
        return None
    said = ",".join(f'"{field.name}":{_FIELDS[field.type][0]}' for field in body)
    text = "".join(f',"{field.name}":{_TEXT}' for field in free)
    end = rf"{_SUM},\t\"free\":{{{_SALT}{text}}}" if free else ""
    pattern = re.compile(rf'"kind":"{re.escape(kind)}","v":{version},"body":\{{{said}\}}{end}\}}\n')
    makers = [_FIELDS[field.type][1] for field in body] + [None] * len(free)
    return Form(pattern.fullmatch, _making(cls, makers) if any(makers) else cls)


def _making(cls: type[Any], makers: list[Callable[[Any], Any] | None]) -> Callable[..., Any]:
    """Return what makes an event of the texts of its fields."""
    return lambda *found: cls(*[text if make is None else make(text) for make, text in zip(makers, found, strict=True)])
