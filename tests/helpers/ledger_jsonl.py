"""Helpers of tests: processes that append to one log file."""

from __future__ import annotations

from contextlib import contextmanager
import errno
import os
from typing import TYPE_CHECKING

from helpers.ledger_logs import BY, rated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallybook.ledger.log import JsonlLog


@contextmanager
def unprivileged() -> Iterator[None]:
    """Drop the administrator's right to write everywhere, if the tests run with it."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def full_after(room: int) -> Callable[[int, bytes], int]:
    """Return a stand-in for a full disk: the log takes ``room`` more bytes in a short write, then nothing."""
    left = [room]
    real = os.write

    def write(fd: int, data: bytes) -> int:
        taken = real(fd, data[: left[0]])
        left[0] -= taken
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return taken

    return write


def append_two(log: JsonlLog) -> None:
    """Append two batches in one transaction."""
    with log.transaction() as tx:
        tx.append(rated("a"), BY)
        tx.append(rated("b"), BY)
