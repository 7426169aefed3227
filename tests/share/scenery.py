"""Real engines on loopback, and machines that join a book there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
import os
from pathlib import Path
from typing import Any, NamedTuple

from helpers.postgres_front import Front
from helpers.s3_server import BucketServer, start_bucket_server
from helpers.shared_clones import Machine, make_clones

NAMES = ("anna", "ben", "cleo")


class Scenery(NamedTuple):
    """An engine and machines that can join a book of it.

    Attributes:
        machines: Each with a home and a project of its own.
        words: What each types after ``tallybook share``.
        said: What runs there, for people.
        engine: The remote's folder, or a server with its proxy.
        roll_back: Takes away runs from the end of the book; a function says how many stay of so many.
    """

    machines: Sequence[Machine]
    words: Sequence[str]
    said: str
    engine: Any
    roll_back: Callable[[Callable[[int], int]], None] = lambda _: None

    def share(self) -> None:
        """Let every machine join the book, the first with an entry."""
        self.machines[0].do("add", "Run the tests before a commit")
        for machine in self.machines:
            machine.do("share", *self.words, "--yes")


def _plain(folder: Path, names: Sequence[str], **environment: str) -> list[Machine]:
    machines = [Machine(folder / name, None, **environment) for name in names]
    for machine in machines:
        machine.root.mkdir()
    return machines


@contextmanager
def git(folder: Path, names: Sequence[str]) -> Iterator[Scenery]:
    """Make a bare repository, and clone it for each machine."""
    remote, machines = make_clones(folder, *names)
    yield Scenery(machines, ["git"], f"a bare git repository at {remote}", remote)


@contextmanager
def postgres(folder: Path, names: Sequence[str]) -> Iterator[Scenery]:
    """Start a PostgreSQL with the operator's file in a database."""
    # Loaded only where the server is asked for.
    from helpers.postgres_server import start_database  # noqa: PLC0415 - as above

    with start_database() as database, database.credentials():
        book = database.new_book(anna="own")
        passed = {name: os.environ[name] for name in ("PGPASSFILE", "PGSSLROOTCERT")}
        address = database.address("anna")
        words = ["postgres", address, "--book", book]

        def roll_back(choose: Callable[[int], int]) -> None:
            where = f"FROM tallybook.runs WHERE book = '{book}'"
            [(last,)] = database.server.execute(f"SELECT count(*)::int {where}", "tally")
            database.server.execute(f"DELETE {where} AND number > {choose(int(str(last)))}", "tally")

        machines = _plain(folder, names, **passed)
        yield Scenery(machines, words, f"a PostgreSQL at {address}", database, roll_back)


class _Objects(NamedTuple):
    """An object store and its proxy, under the names of a database's."""

    server: BucketServer
    front: Front


@contextmanager
def objects(folder: Path, names: Sequence[str]) -> Iterator[Scenery]:
    """Start an emulated S3."""
    with start_bucket_server() as server:

        def roll_back(choose: Callable[[int], int]) -> None:
            server.roll_back(choose(server.count()))

        machines = _plain(folder, names, **server.environment)
        words = ["objects", server.address, "--book", "main"]
        yield Scenery(machines, words, f"an S3 at {server.address}", _Objects(server, server.front), roll_back)


ENGINES: dict[str, Callable[[Path, Sequence[str]], Any]] = {"git": git, "objects": objects, "postgres": postgres}
"""Name of an engine → a context that starts it and makes machines."""
