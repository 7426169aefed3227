"""The lock of a ledger, held by this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import os

from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.workspace.project import Project

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@contextmanager
def held(project: Project) -> Iterator[None]:
    """Hold the ledger's lock."""
    lock = disk.open_file(project.ledger / "lock", write=True)
    disk.lock(lock, project.ledger / "lock", 0)
    yield
    os.close(lock)
