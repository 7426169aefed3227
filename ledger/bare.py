"""What stands for ``os`` in a process that ends before ``os`` would have paid for itself: the calls, and plain paths.

Loading ``os`` takes longer than an append, and nearly all of it is there for others. Here are the system's own calls,
and what ``os.path`` does with paths as they nearly always are; what is not here, and every path that is not plain, is
left to ``os`` itself, which is loaded for it. Where ``os`` is loaded anyway nobody uses this (``ledger.light``). POSIX
alone; standard library only.
"""

from __future__ import annotations

import _stat
import posix
from posix import fspath, getcwd, lstat, stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

name = "posix"
sep = "/"
curdir = "."
devnull = "/dev/null"
SEEK_SET, SEEK_CUR = 0, 1
path = sys.modules[__name__]
"""Paths stand beside the calls, under names that no call has."""
_SYSTEMS = frozenset({"O_BINARY", "fdatasync", "posix_spawn", "pread", "pwrite", "register_at_fork"})
"""What is asked for in case it is there: a system that lacks it among its calls lacks it in ``os``, too."""


def fsdecode(value: bytes) -> str:
    """Return a file's name as text."""
    return value.decode(sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())


environ = {fsdecode(key): fsdecode(value) for key, value in posix.environ.items()}


def __getattr__(asked: str) -> Any:
    """Return a call of the system's, or what else ``os`` or ``os.path`` has; from then on it stands here."""
    if asked in posix.__dict__ or asked in _SYSTEMS:
        value = getattr(posix, asked)
    else:
        import os  # noqa: PLC0415 - what all of this is for

        value = getattr(os, asked) if hasattr(os, asked) else getattr(os.path, asked)
    globals()[asked] = value
    return value


def isabs(place: str) -> bool:
    """Say whether a path begins at the root."""
    return fspath(place).startswith("/")


def join(place: str, *more: str) -> str:
    """Return paths as one; an absolute one begins anew."""
    joined = fspath(place)
    for one in map(fspath, more):
        if one.startswith("/") or not joined:
            joined = one
        else:
            joined += one if joined.endswith("/") else f"/{one}"
    return joined


def split(place: str) -> tuple[str, str]:
    """Return the folder of a path, and its own name."""
    folder, slash, own = fspath(place).rpartition("/")
    return folder.rstrip("/") or slash * (len(folder) + 1), own


def dirname(place: str) -> str:
    """Return the folder of a path."""
    return split(place)[0]


def basename(place: str) -> str:
    """Return the last name of a path."""
    return split(place)[1]


def exists(place: str) -> bool:
    """Say whether something is there, through links."""
    try:
        stat(place)
    except (OSError, ValueError):
        return False
    return True


def lexists(place: str) -> bool:
    """Say whether something is there, a link included that leads nowhere."""
    try:
        lstat(place)
    except (OSError, ValueError):
        return False
    return True


def isdir(place: str) -> bool:
    """Say whether it is a folder, through links."""
    try:
        return _stat.S_ISDIR(stat(place).st_mode)
    except (OSError, ValueError):
        return False


def isfile(place: str) -> bool:
    """Say whether it is a regular file, through links."""
    try:
        return _stat.S_ISREG(stat(place).st_mode)
    except (OSError, ValueError):
        return False


def islink(place: str) -> bool:
    """Say whether it is a link."""
    try:
        return _leads_on(place)
    except ValueError:
        return False


def _leads_on(place: str) -> bool:
    """Say whether it is a link.

    Raises:
        ValueError: No path is written like that.
    """
    try:
        return _stat.S_ISLNK(lstat(place).st_mode)
    except OSError:
        return False


def expanduser(place: str) -> str:
    """Return a path with the home folder in the place of ``~``."""
    home = environ.get("HOME")
    if home is None or fspath(place) != "~":
        return str(__getattr__("expanduser")(place))
    return home.rstrip("/") or "/"


_real: dict[str, str] = {}


def realpath(place: str) -> str:
    """Return a path without links, whole; asked again, as it was: a short process has one look at the disk."""
    given = fspath(place)
    if not given.startswith("/"):
        return _without_links(f"{getcwd()}/{given}")
    if given not in _real:
        _real[given] = _without_links(given)
    return _real[given]


def _without_links(given: str) -> str:
    reached = ""
    for own in given.split("/")[1:]:
        reached += f"/{own}"
        if own in {"", ".", ".."} or _leads_on(reached):
            return str(__getattr__("realpath")(given))
    return reached
