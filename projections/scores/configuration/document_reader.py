"""Strict reading of a nested document: an unknown key or a wrong type is an error that names the key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.events import MAX_INT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PLAIN: Final = re.compile(r"[\w -]+")
_SHOWN_CHARS: Final = 80


class DocumentError(ValueError):
    """A key of a document is unknown or has a wrong value; the message names the key and what is allowed."""


@attrs.frozen
class Reader:
    """A mapping in a document, whose values are read by name and type.

    Attributes:
        values: The mapping.
        keys: The path of keys that leads to it; empty at the top.
    """

    values: Mapping[str, Any]
    keys: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: object, *keys: str) -> Reader:
        """Return a reader of a value that should be a mapping.

        Raises:
            DocumentError: It is not a mapping, or a key is not a text.
        """
        place = _path(keys) or "the file"
        if not isinstance(value, dict):
            raise DocumentError(f"{place} should hold keys and values, and is {told(value)}")
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            raise DocumentError(f"{place} has the key {told(odd)}, which is not a text; put it in quotes")
        return cls(value, keys)

    @property
    def name(self) -> str:
        """Return the last key that leads here."""
        return self.keys[-1]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the keys in order, without those whose value is false."""
        return tuple(name for name, value in self.values.items() if value is not False)

    def fault(self, what: str, *keys: str) -> DocumentError:
        """Return the error about a key, or about this mapping where no key is given."""
        return DocumentError(f"{_path((*self.keys, *keys))} {what}")

    def only(self, *names: str) -> Reader:
        """Return this reader.

        Raises:
            DocumentError: There is another key than these.
        """
        for name in self.values:
            if name not in names:
                raise self.fault(f"is not a known key; use one of {', '.join(names)}", name)
        return self

    def has(self, name: str) -> bool:
        """Say whether there is a key."""
        return name in self.values

    def inner(self, name: str) -> Reader:
        """Return a reader of the mapping under a key."""
        return Reader.of(self._get(name), *self.keys, name)

    def parts(self) -> Iterator[Reader]:
        """Yield a reader of the mapping under each key, without those whose value is false."""
        for name in self.names:
            yield Reader.of(self.values[name], *self.keys, name)

    def flag(self, name: str, *, default: bool | None = None) -> bool:
        """Return a value that is true or false."""
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise self.fault(f"is true or false, and not {told(value)}", name)
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text that is not empty."""
        value = self._get(name, default)
        if not isinstance(value, str) or not value.strip():
            raise self.fault(f"is a text, and not {told(value)}", name)
        return value

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self._get(name, None if default is None else list(default))
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise self.fault(f"is a list of names, and not {told(value)}", name)
        return tuple(value)

    def number(self, name: str, least: float = -MAX_INT, most: float = MAX_INT, default: float | None = None) -> float:
        """Return a number between two bounds, both included."""
        value = self._get(name, default)
        if type(value) not in {int, float}:
            raise self.fault(f"is a number, and not {told(value)}", name)
        if not least <= value <= most:
            raise self.fault(f"is {_bounds(least, most)}, and not {told(value)}", name)
        return float(value)

    def whole(self, name: str, least: int, most: int = 1_000_000) -> int:
        """Return a whole number between two bounds, both included."""
        value = self.number(name, least, most)
        if value != int(value):
            raise self.fault(f"is a whole number, and not {told(value)}", name)
        return int(value)

    def _get(self, name: str, default: Any = None) -> Any:
        value = self.values.get(name, default)
        if value is None:
            raise self.fault("has no value" if name in self.values else "is missing", name)
        return value


def _bounds(least: float, most: float) -> str:
    if most < MAX_INT:
        return f"from {least:,g} to {most:,.12g}"
    return f"at least {least:g}" if least > -MAX_INT else "within 2^53"


def told(value: object) -> str:
    """Describe a value for a one-line message."""
    if isinstance(value, dict):
        return "keys and values"
    if isinstance(value, bool):
        return str(value).lower()
    return "a list" if isinstance(value, list) else _short(repr(value))


def _path(keys: tuple[str, ...]) -> str:
    """Return keys joined by dots; keys with unusual characters are quoted, so that paths stay unambiguous."""
    return ".".join(_short(key if _PLAIN.fullmatch(key) else repr(key)) for key in keys)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
