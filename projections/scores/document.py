"""Reading a nested document strictly: every key is known and has the type it should, or one line says which has not."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class DocumentError(ValueError):
    """A key of a document cannot be what it is; the message names the key, and says what it can be."""


@attrs.frozen
class Reader:
    """A place in a document, whose values are asked for by name and type.

    Attributes:
        values: What stands there.
        path: The keys that lead there, joined by dots; empty at the top.
    """

    values: Mapping[str, Any]
    path: str

    @classmethod
    def of(cls, value: object, path: str) -> Reader:
        """Return a reader of what should be keys and values.

        Raises:
            DocumentError: It is something else, or a key is no text.
        """
        if not isinstance(value, dict):
            raise DocumentError(f"{path or 'the file'} should hold keys and values, and is {_told(value)}")
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            raise DocumentError(f"{path or 'the file'} has the key {odd!r}, which is no text; put it in quotes")
        return cls(value, path)

    @property
    def name(self) -> str:
        """Return the last key that leads here."""
        return self.path.rpartition(".")[2]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the keys, in their order."""
        return tuple(self.values)

    def fault(self, name: str, what: str) -> DocumentError:
        """Return the error about a key, or about this place itself for an empty one."""
        return DocumentError(f"{self._at(name)} {what}")

    def only(self, *names: str) -> Reader:
        """Return this reader.

        Raises:
            DocumentError: There is another key than these.
        """
        for name in self.values:
            if name not in names:
                raise self.fault(name, f"is no key that is known; there are {', '.join(names)}")
        return self

    def has(self, name: str) -> bool:
        """Say whether there is a key."""
        return name in self.values

    def inner(self, name: str) -> Reader:
        """Return a reader of what stands under a key."""
        return Reader.of(self._get(name), self._at(name))

    def parts(self) -> Iterator[Reader]:
        """Yield a reader of what stands under each key, but for those that are false."""
        for name, value in self.values.items():
            if value is not False:
                yield Reader.of(value, self._at(name))

    def flag(self, name: str, *, default: bool | None = None) -> bool:
        """Return a value that is true or false."""
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise self.fault(name, f"is true or false, and not {_told(value)}")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text that is not empty."""
        value = self._get(name, default)
        if not isinstance(value, str) or not value.strip():
            raise self.fault(name, f"is a text, and not {_told(value)}")
        return value

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self._get(name, None if default is None else list(default))
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise self.fault(name, f"is a list of names, and not {_told(value)}")
        return tuple(value)

    def number(self, name: str, least: float = -(2**53), most: float = 2**53, default: float | None = None) -> float:
        """Return a number between two bounds, both included."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise self.fault(name, f"is a number, and not {_told(value)}")
        if not least <= value <= most:
            bounds = f"at least {least:g}" if most == 2**53 else f"from {least:g} to {most:g}"
            raise self.fault(name, f"is {bounds}, and not {value:g}")
        return value

    def whole(self, name: str, least: int, most: int = 1_000_000) -> int:
        """Return a whole number between two bounds, both included."""
        value = self.number(name, least, most)
        if value != int(value):
            raise self.fault(name, f"is a whole number, and not {value:g}")
        return int(value)

    def _get(self, name: str, default: Any = None) -> Any:
        value = self.values.get(name, default)
        if value is None:
            raise self.fault(name, "has no value" if name in self.values else "is missing")
        return value

    def _at(self, name: str) -> str:
        return ".".join(filter(None, (self.path, name)))


def _told(value: object) -> str:
    """Return what something is, for a message."""
    if isinstance(value, dict):
        return "keys and values"
    return "a list" if isinstance(value, list) else repr(value)
