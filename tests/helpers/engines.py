"""Helpers of tests: each engine of a book by name, as a context of one new book that several machines open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from helpers.azure_server import serve_containers
from helpers.git_repositories import make_remote
from helpers.memory_store import MemoryStore, plain
from helpers.postgres_server import Database, start_database
from helpers.s3_server import serve_buckets
from tallybook.ledger.sharing.engine import End, Engine, Run
from tallybook.ledger.sharing.git import GitStore
from tallybook.ledger.sharing.objects import ObjectStore
from tallybook.ledger.sharing.postgres import PostgresStore

Connect = Callable[[], Engine]
Make = Callable[[pytest.FixtureRequest], AbstractContextManager[Connect]]


def git_engine(address: str, book: str, folder: str | None, **options: Any) -> Engine:
    """Return the engine of a book in a git remote."""
    return Engine(GitStore(address, book, folder, **options))


def postgres_engine(address: str, book: str, timeout: float = 30, **options: str) -> Engine:
    """Return the engine of a book in a database."""
    return Engine(PostgresStore(address, book, timeout, **options))


@contextmanager
def memory(_request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Give every machine the same list."""
    store = MemoryStore()
    yield lambda: Engine(store)


@contextmanager
def _git(request: pytest.FixtureRequest, scheme: str) -> Iterator[Connect]:
    """Give every machine a cache folder of its own, and one bare repository as the remote."""
    folder = request.getfixturevalue("tmp_path")
    remote = make_remote(folder / "remote.git")
    machines: list[Engine] = []

    def connect() -> Engine:
        machines.append(git_engine(f"{scheme}{remote}", "main", str(folder / f"machine-{len(machines)}")))
        return machines[-1]

    yield connect
    for machine in machines:
        machine.close()


@contextmanager
def postgres(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Connect every machine to the server of the session, as an owner of the book."""
    database: Database = request.getfixturevalue("postgres_database")
    book = database.new_book(anna="own")
    with database.credentials(), ExitStack() as stack:

        def connect() -> Engine:
            engine = postgres_engine(database.address("anna"), book)
            stack.callback(engine.close)
            return engine

        yield connect


def objects_engine(address: str, book: str = "main", limit_s: float = 30) -> Engine:
    """Return the engine of a book in an object store."""
    return Engine(ObjectStore(address, book, limit_s))


@contextmanager
def folder(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Give every machine the same folder, by obstore."""
    pytest.importorskip("obstore", reason="the extra objects is not installed")
    place = request.getfixturevalue("tmp_path") / "objects"
    place.mkdir()
    yield lambda: objects_engine(f"file://{place}")


@contextmanager
def azure(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Give every machine the same prefix of a container, which azurite has on loopback."""
    address = request.getfixturevalue("azure_container").new_address()
    yield lambda: objects_engine(address)


@contextmanager
def s3(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Give every machine the same prefix of a bucket, which moto has on loopback."""
    address = request.getfixturevalue("s3_bucket").new_address()
    yield lambda: objects_engine(address)


ENGINES: dict[str, Make] = {
    "azure": azure,
    "folder": folder,
    "s3": s3,
    "git by path": partial(_git, scheme=""),
    "git by file": partial(_git, scheme="file://"),
    "memory": memory,
    "postgres": postgres,
}
"""Name → a context that gives a function, which opens one more machine's engine on one new book."""


class Fixtures:
    """What the contexts of engines ask of pytest: a folder, which may change, and servers, each started once."""

    def __init__(self, stack: ExitStack, folder: Path, request: pytest.FixtureRequest | None = None) -> None:
        """Take what ends the servers, the folder, and the request of a test, which has servers of its own."""
        self.folder = folder
        self._stack = stack
        self._request = request
        self._servers: dict[str, Any] = {}

    def getfixturevalue(self, name: str) -> Any:
        """Return the folder for ``tmp_path``, and for any other name the fixture or a server that is started here."""
        if name == "tmp_path":
            return self.folder
        if self._request is not None:
            return self._request.getfixturevalue(name)
        if name not in self._servers:
            start: Any = {
                "azure_container": contextmanager(serve_containers),
                "postgres_database": start_database,
                "s3_bucket": contextmanager(serve_buckets),
            }[name]
            self._servers[name] = self._stack.enter_context(start())
        return self._servers[name]

    def open_book(self, engine: str) -> Connect:
        """Return a function that opens one more machine's engine on one new book."""
        return self._stack.enter_context(ENGINES[engine](cast("pytest.FixtureRequest", self)))


def append(engine: Engine, *runs: Run) -> End:
    """Append runs at the engine's end, which must succeed, and return the end after them."""
    end = engine.append(engine.read(0).end, runs)
    assert end is not None
    return end


def read_runs(engine: Engine, after: int = 0) -> list[Run]:
    """Return the runs after an event number, without what an engine says of where it has them."""
    return [plain(run) for run in engine.read(after).runs]
