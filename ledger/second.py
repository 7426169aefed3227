"""The second core: another process that proves a long log while this one goes on with it. Standard library only.

It reads the same file from the same place in the same pieces, and says of each piece where what is proven of it ends,
and with which chain value. So nothing is given out before it was proven, and whatever goes wrong with the other
process, or with the log, is left to this one, which then proves the rest itself and finds what it would have found.
"""

from __future__ import annotations

from contextlib import suppress
import os
import signal
import sys
from typing import IO, TYPE_CHECKING

from ledger.line import CHAIN_CHARS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ledger.found import Found, Run

_OFFSET_BYTES = 8


class Second:
    """A process that proves runs of batches, one after the other."""

    def __init__(self, pid: int, told: IO[bytes]) -> None:
        """Listen to a process."""
        self._pid = pid
        self._told = told

    def confirms(self, last: Found) -> bool:
        """Say whether the next run that the other process proved ends with this batch; waits until it has."""
        said = _said(last)
        return self._told.read(len(said)) == said

    def close(self) -> None:
        """End the process."""
        self._told.close()
        # It may have ended, and whoever ignores the end of all children has none to wait for.
        with suppress(OSError):
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)


def _said(last: Found) -> bytes:
    """Return what is said of a run that ends with this batch, always as many bytes."""
    return last.end.to_bytes(_OFFSET_BYTES) + last.chain.encode("latin-1").ljust(CHAIN_CHARS)[:CHAIN_CHARS]


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def load() -> float:
    """Return how many processes wanted a core in the last minute, 0 where the system does not say."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0


def _is_alone() -> bool:
    """Say whether this process has one thread: of several, a fork could copy a lock that another holds."""
    threading = sys.modules.get("threading")
    return threading is None or threading.active_count() == 1


def beside(runs: Iterable[Run]) -> Second | None:
    """Go through runs in another process; None where there is no second core to spare, or no second process."""
    # On a busy machine the two would wait for one another.
    if cores() < 2 or load() >= cores() or not hasattr(os, "fork") or not _is_alone():  # noqa: PLR2004 - the second core
        return None
    try:
        reader, writer = os.pipe()
    except OSError:
        return None
    try:
        pid = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        return None
    if pid == 0:
        try:
            os.close(reader)
            for run in runs:
                os.write(writer, _said(run.found[-1]))
        finally:
            # Whatever happened, nothing of the other process's business is done twice.
            os._exit(0)
    os.close(writer)
    return Second(pid, os.fdopen(reader, "rb"))
