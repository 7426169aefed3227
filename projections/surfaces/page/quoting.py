"""Values in commands to copy: quoted for a shell, and refused where they hold control characters."""

from __future__ import annotations

import re
from shlex import quote
from typing import TYPE_CHECKING, Final
import unicodedata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
"""What the script puts into a command as it is; README.md repeats it."""

_REFUSED: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that a terminal obeys or hides: controls, marks of direction, halves of pairs, line ends."""


def quote_value(value: str) -> str | None:
    """Return a value quoted for a shell, None where it holds control characters."""
    return None if any(unicodedata.category(char) in _REFUSED for char in value) else quote(value)


def quote_argument(value: str) -> str | None:
    """Return a value as the last argument of a command: one that looks like an option follows ``--``."""
    text = quote_value(value)
    return f"-- {text}" if text is not None and value.startswith("-") else text


def quote_all(values: Iterable[str], form: Callable[[str], str | None] = quote_value) -> dict[int, str | None]:
    """Return each value that is not plain by its index, quoted for a shell, or None where it is refused."""
    return {number: form(value) for number, value in enumerate(values) if not PLAIN.fullmatch(value)}
