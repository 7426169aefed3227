"""Real engines on loopback, and machines that join a book there."""

from __future__ import annotations

from contextlib import contextmanager
import os
from typing import TYPE_CHECKING, Any

from helpers.shared_clones import Machine, make_clones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

NAMES = ("anna", "ben", "cleo")


class Scenery:
    """An engine and machines that can join a book of it.

    Attributes:
        machines: Each with a home and a project of its own.
        words: What each types after ``tallybook share``.
        said: What runs there, for people.
        engine: The remote's folder, or the database.
    """

    def __init__(self, machines: Sequence[Machine], words: Sequence[str], said: str, engine: Any) -> None:
        """Take what there is."""
        self.machines = list(machines)
        self.words = tuple(words)
        self.said = said
        self.engine = engine

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
        yield Scenery(_plain(folder, names, **passed), words, f"a PostgreSQL at {address}", database)


ENGINES: dict[str, Callable[[Path, Sequence[str]], Any]] = {"git": git, "postgres": postgres}
"""Name of an engine → a context that starts it and makes machines."""
