"""The files of a ledger: the lock, the spool, caches and heads, and what makes them fail."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
import errno
import os
from pathlib import Path
import stat

import pytest

from helpers.ledger_logs import append
from tallybook.ledger.errors import OutcomeUnknownError
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import caches, disk
from tallybook.ledger.storage.head import NO_HEAD, Head
from tallybook.projections.surfaces.workspace.project import Project


def hold_ledger_lock(project: Project) -> AbstractContextManager[object]:
    """Hold the ledger's lock, as another process would: a lock belongs to the opening of the file."""
    return disk.hold_lock(project.ledger / "lock", 0)


def list_spooled(project: Project) -> list[Path]:
    """Return the spooled files, oldest first."""
    return sorted((project.ledger / "spool").glob("*.json"))


# The folder of a ledger's caches during the tests: in the cache folder of their home.


def caches_of(ledger: Path) -> Path:
    """Return the folder for the caches of a ledger, which need not exist; fail where caches are off."""
    folder = caches.find_folder(ledger)
    if folder is None:
        raise AssertionError(f"{ledger} has no cache folder")
    return Path(folder)


def make_caches(ledger: Path) -> Path:
    """Create the folder for the caches of a ledger and return it."""
    folder = caches_of(ledger)
    caches.make_folder(folder, ledger)
    return folder


# Helpers of tests: failing disk calls, and file modes.


def refuse(code: int) -> Callable[..., int]:
    """Return a stand-in for a system call that fails."""

    def call(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return call


def mode_of(path: Path) -> int:
    """Return a file's mode."""
    return stat.S_IMODE(path.stat().st_mode)


# The lock of a ledger, held by this process.


IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


# Helpers of tests: heads, failing flushes and killed writers.


class Killed(BaseException):
    """Simulates the end of a process: Tallybook never catches it."""


class Flushes:
    """Replaces the disk's flush: the n-th call does the n-th step, any later one nothing."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        """Store the steps of the calls."""
        self.steps = list(steps)

    def __call__(self, _: int) -> None:
        """Do the next step."""
        if self.steps:
            self.steps.pop(0)()


def fail() -> None:
    """Fail like a disk."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def die() -> None:
    """End the process."""
    raise Killed


def append_failing(log: JsonlLog, *some: str, key: str | None = None) -> None:
    """Append a batch whose outcome is reported as unknown."""
    with pytest.raises(OutcomeUnknownError):
        append(log, *some, key=key)


def head_of(log: JsonlLog) -> Head:
    """Return the head on disk."""
    return log.read_head() or NO_HEAD
