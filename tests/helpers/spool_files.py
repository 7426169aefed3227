"""Payloads in the spool while another process holds the lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
import subprocess
import sys

from tallybook.projections.surfaces.workspace.project import Project

HOLD = """
import fcntl, sys
with open(sys.argv[1], "r+b") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held(project: Project) -> Iterator[None]:
    """Hold the ledger's lock in another process."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(project.ledger / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert b"held\n" == holder.stdout.readline()
    try:
        yield
    finally:
        holder.communicate()


def spooled(project: Project) -> list[Path]:
    """Return the spooled files, oldest first."""
    return sorted((project.ledger / "spool").glob("*.json"))
