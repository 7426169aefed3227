"""Helpers of tests: heads, failing flushes and killed writers."""

from __future__ import annotations

from collections.abc import Callable
import errno
import os

import pytest

from helpers.ledger_logs import append
from tallybook.ledger.errors import OutcomeUnknownError
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage.head import NO_HEAD, Head


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
