"""What a command came to when a test ran it in its own process; conftest.py has the fixture that does."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Answer(NamedTuple):
    """What a command came to: its exit code and what it printed."""

    code: int
    out: str
    err: str


Run = Callable[..., Answer]
"""Takes the words of a command line, and ``stdin`` as bytes."""
