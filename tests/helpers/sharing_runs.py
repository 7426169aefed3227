"""Runs of random histories of machines that share a book, in memory where the system has a folder there."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
import shutil
import tempfile
from typing import TYPE_CHECKING, Final

from helpers.sharing_histories import History

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def run_history(seed: int, folder: Path, steps: int = STEPS) -> None:
    """Run one history, and say what was done where a law is broken.

    Raises:
        AssertionError: A law is broken.
    """
    place = folder / f"history-{seed}"
    place.mkdir()
    history = History(seed, place)
    try:
        history.run(steps)
    except Exception as error:
        told = "\n".join(history.told)
        raise AssertionError(f"history {seed}, {steps} steps: {type(error).__name__}: {error}\n{told}") from error
    finally:
        shutil.rmtree(place)
