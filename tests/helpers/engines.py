"""Helpers of tests: each engine of a book by name, as a context of one new book that several machines open."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tallybook.ledger.sharing.engines.memory import MemoryEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import pytest

    from tallybook.ledger.sharing.engines.engine import Engine

    Connect = Callable[[], Engine]
    Make = Callable[[pytest.FixtureRequest], AbstractContextManager[Connect]]


@contextmanager
def memory(_request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Give every machine the same list."""
    engine = MemoryEngine()
    yield lambda: engine


ENGINES: dict[str, Make] = {"memory": memory}
"""Name → a context that gives a function, which opens one more machine's engine on one new book."""
