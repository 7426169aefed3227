"""Helpers of tests: heads, failing flushes and killed writers."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from helpers.ledger_logs import append
from tallybook.ledger.errors import OutcomeUnknownError
from tallybook.ledger.storage.head import NO_HEAD, Head

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.ledger.backends.jsonl import JsonlLog


class Killed(BaseException):
    """Stands for a process that ends at once: nothing of ours catches it."""


class Flushes:
    """Stands in for the disk's flush: the n-th call does what the n-th step says, any later one nothing."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        """Take what the calls are to do."""
        self.steps = list(steps)

    def __call__(self, _: int) -> None:
        """Do the next step."""
        if self.steps:
            self.steps.pop(0)()


def fail() -> None:
    """Fail as a disk does."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def die() -> None:
    """End the process."""
    raise Killed


def append_failing(log: JsonlLog, *some: str, key: str | None = None) -> None:
    """Append a batch whose outcome is reported as unknown."""
    with pytest.raises(OutcomeUnknownError):
        append(log, *some, key=key)


def head_of(log: JsonlLog) -> Head:
    """Return the head as it stands on disk."""
    return log.read_head() or NO_HEAD
