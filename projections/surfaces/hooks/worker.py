"""How a hook starts a worker: a process for slow work that outlives the session. Standard library only."""

from __future__ import annotations

from contextlib import suppress
import os
import sys

from tallybook.ledger import clock
from tallybook.ledger.errors import TallybookError
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.workspace.project import MARKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tallybook.projections.surfaces.workspace.project import AnyProject

SETTLED = "settled"
"""Marker that says that a rater has no pending work; if it is missing or old, the next session starts a worker."""
SETTLED_S = 3_600
# -P: no module is imported from the current folder, whose files may be someone else's.
_COMMAND = ("-P", "-m", "tallybook")


def is_settled(project: AnyProject, rater: str) -> bool:
    """Return whether a worker found a short while ago that a rater has no pending work."""
    path = os.path.join(project.ledger, MARKS, SETTLED)
    with suppress(OSError, TallybookError):
        fresh = 0 <= clock.utc_now().unix_us - os.stat(path).st_mtime_ns // 1000 <= SETTLED_S * clock.MICROSECONDS
        return fresh and disk.read_file(path) == rater.encode()
    return False


def unsettle(project: AnyProject) -> None:
    """Note that there is pending work."""
    with suppress(OSError):
        os.unlink(os.path.join(project.ledger, MARKS, SETTLED))


def start(project: AnyProject) -> None:
    """Start ``tallybook reflect`` on a project, in a session of its own, with nothing of the agent's open.

    Raises:
        OSError: No process could be started.
    """
    start = str(project.start or project.root)
    words = [sys.executable, *_COMMAND, "--project", str(project.root), "reflect", "--unattended", "--start", start]
    if hasattr(os, "posix_spawn"):
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)
        files = [nothing, (os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
        try:
            os.posix_spawn(sys.executable, words, os.environ, file_actions=files, setsid=True)
        except NotImplementedError:
            # This system cannot begin a session for another process: the worker begins its own (`verb._unattended`).
            os.posix_spawn(sys.executable, words, os.environ, file_actions=files)
        return
    import subprocess

    flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP  # type: ignore[attr-defined,unused-ignore]
    null = subprocess.DEVNULL
    subprocess.Popen(words, stdin=null, stdout=null, stderr=null, creationflags=flags)  # noqa: S603 - our own command
