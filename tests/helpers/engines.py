"""Helpers of tests: each engine of a book by name, as a context of one new book that several machines open."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from helpers.git_repositories import make_remote
from tallybook.ledger.sharing.engines.git import GitEngine
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


@contextmanager
def _git(request: pytest.FixtureRequest, scheme: str) -> Iterator[Connect]:
    """Give every machine a cache folder of its own, and one bare repository as the remote."""
    folder = request.getfixturevalue("tmp_path")
    remote = make_remote(folder / "remote.git")
    machines: list[GitEngine] = []

    def connect() -> Engine:
        machines.append(GitEngine(f"{scheme}{remote}", "main", str(folder / f"machine-{len(machines)}")))
        return machines[-1]

    yield connect
    for machine in machines:
        machine.close()


ENGINES: dict[str, Make] = {
    "git by path": partial(_git, scheme=""),
    "git by file": partial(_git, scheme="file://"),
    "memory": memory,
}
"""Name → a context that gives a function, which opens one more machine's engine on one new book."""
