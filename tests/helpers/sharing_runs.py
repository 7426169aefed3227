"""Runs of random histories of machines that share a book, in memory where the system has a folder there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
import shutil
import tempfile
from typing import Final

from helpers.engines import Fixtures
from helpers.sharing_histories import History
from tallybook.ledger.sharing.engine import Engine

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


NAMES: Final = {"memory": "memory", "git": "git by path", "postgres": "postgres", "s3": "s3", "azure": "azure"}
"""Name on the command line → that of the engine."""


@contextmanager
def open_engines(name: str) -> Iterator[MakeEngine]:
    """Start what an engine needs, and give a function that opens one on a new book in a folder."""
    with ExitStack() as stack:
        fixtures = Fixtures(stack, Path())

        def make_engine(folder: Path) -> Engine | None:
            fixtures.folder = folder
            return None if name == "memory" else fixtures.open_book(NAMES[name])()

        yield make_engine


def run_history(seed: int, folder: Path, steps: int = STEPS, make_engine: MakeEngine = lambda _: None) -> None:
    """Run one history, and say what was done where a law is broken."""
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
