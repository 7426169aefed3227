"""Runs of random histories of machines that share a book, in memory where the system has a folder there."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
import shutil
import tempfile
from typing import TYPE_CHECKING, Final

from helpers.git_repositories import make_remote
from helpers.postgres_server import start_database
from helpers.s3_server import serve_buckets
from helpers.sharing_histories import History
from tallybook.ledger.sharing.engine import Engine
from tallybook.ledger.sharing.git import GitStore
from tallybook.ledger.sharing.objects import ObjectStore
from tallybook.ledger.sharing.postgres import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    MakeEngine = Callable[[Path], Engine | None]

STEPS: Final = 30
_SHM: Final = Path("/dev/shm")  # noqa: S108 - each run makes a folder of its own in it


@contextmanager
def memory_folder() -> Iterator[Path]:
    """Give an empty folder, in memory where the system has it, because every step of a history flushes files."""
    folder = Path(tempfile.mkdtemp(prefix="tallybook-laws-", dir=_SHM if _SHM.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def _open_postgres() -> Iterator[MakeEngine]:
    with start_database() as database, database.credentials():
        yield lambda _: Engine(PostgresStore(database.address("anna"), database.new_book(anna="own")))


@contextmanager
def _open_git() -> Iterator[MakeEngine]:
    yield lambda folder: Engine(GitStore(str(make_remote(folder / "remote.git")), "main", str(folder / "cache")))


@contextmanager
def _open_s3() -> Iterator[MakeEngine]:
    with contextmanager(serve_buckets)() as buckets:
        yield lambda _: Engine(ObjectStore(buckets.new_address(), "main"))


@contextmanager
def _open_memory() -> Iterator[MakeEngine]:
    yield lambda _: None


ENGINES: Final = {"memory": _open_memory, "git": _open_git, "postgres": _open_postgres, "s3": _open_s3}
"""Name → a context that starts what an engine needs, and gives a function that opens one on a new book."""


def run_history(seed: int, folder: Path, steps: int = STEPS, make_engine: MakeEngine = lambda _: None) -> None:
    """Run one history, and say what was done where a law is broken.

    Raises:
        AssertionError: A law is broken.
    """
    place = folder / f"history-{seed}"
    place.mkdir()
    engine = make_engine(place)
    history = History(seed, place, engine)
    try:
        history.run(steps)
    except Exception as error:
        told = "\n".join(history.told)
        raise AssertionError(f"history {seed}, {steps} steps: {type(error).__name__}: {error}\n{told}") from error
    finally:
        history.engine.close()
        shutil.rmtree(place)
