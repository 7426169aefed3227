"""Where the caches of a ledger are: in the user's own cache folder, never in the project.

    <the user's cache folder>/tallybook/<ledger id>/<digest of the ledger's real path>/

A cache in the project could be someone else's, because a project is passed on with every file in it. The digest
separates copies of a ledger. ``TALLYBOOK_CACHE_DIR`` replaces the first two folders. Standard library only, because
hooks use caches.
"""

from __future__ import annotations

from contextlib import suppress
import os
import stat
import sys

from tallybook.ledger import clock
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.fast_stdlib import sha256
from tallybook.ledger.line import LOG_NAME
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.head import ledger_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tallybook.ledger.fast_stdlib import StrPath

VARIABLE = "TALLYBOOK_CACHE_DIR"
OWNER = "ledger"
"""File in each cache folder that holds the path of its ledger; its time says when the cache was last used."""
DAY_US = 24 * 3600 * clock.MICROSECONDS
DIGEST_CHARS = 32
_NAME = "tallybook"
_MODE = 0o700


def find_folder(ledger: StrPath) -> str | None:
    """Return the folder for the caches of a ledger, which need not exist yet.

    Args:
        ledger: The ledger's folder.

    Returns:
        None where there is no ledger yet, or where this user has no cache folder that is safe to use.
    """
    base, real = user_folder(), os.path.realpath(ledger)
    if not base or find_fault(base, real):
        return None
    id_ = ledger_id(os.path.join(ledger, LOG_NAME))
    if not id_:
        return None
    folder = os.path.join(base, id_, path_digest(real))
    with suppress(OSError):
        owner = os.path.join(folder, OWNER)
        # A day is exact enough: only caches without use for 30 days are removed.
        if clock.utc_now().unix_us - os.stat(owner).st_mtime_ns // 1000 > DAY_US:
            os.utime(owner)
    return folder


def make_folder(folder: StrPath, ledger: StrPath) -> None:
    """Create the folder that ``find_folder`` returned, unless it exists.

    Raises:
        CannotWriteError: It cannot be created, is a link, or was just created by another user.
    """
    disk.refuse_link(folder)
    owner = os.path.join(folder, OWNER)
    if os.path.exists(owner):
        return
    try:
        for path in disk.list_missing(folder):
            with suppress(FileExistsError):
                os.mkdir(path, _MODE)
    except OSError as error:
        raise CannotWriteError(folder, disk.reason(error)) from error
    real = os.path.realpath(ledger)
    # Checked after the creation: another user may have created the folder first.
    if fault := find_fault(user_folder(), real):
        raise CannotWriteError(folder, f"is not safe as a cache: it {fault}")
    disk.replace_cache_file(owner, real.encode("utf-8", "surrogateescape"))


def knows_former(ledger: StrPath) -> bool:
    """Return whether this user has caches of a ledger that was in a place, whichever ledger is there now."""
    base, real = user_folder(), os.path.realpath(ledger)
    if base and not find_fault(base, real):
        with suppress(OSError):
            digest = path_digest(real)
            return any(os.path.exists(os.path.join(base, id_, digest, OWNER)) for id_ in os.listdir(base))
    return False


def user_folder() -> str:
    """Return the folder for this user's caches of all ledgers; empty where the system names none."""
    if folder := os.environ.get(VARIABLE):
        return folder
    parent = os.environ.get("XDG_CACHE_HOME", "")
    # The specification of that variable says that a relative path is to be ignored.
    if not os.path.isabs(parent):
        home = os.path.expanduser("~")
        parent = os.path.join(home, "Library", "Caches") if sys.platform == "darwin" else os.path.join(home, ".cache")
        if sys.platform == "win32":
            parent = os.environ.get("LOCALAPPDATA", "")
    # Where the system knows no home, the path would be relative.
    return os.path.join(parent, _NAME) if os.path.isabs(parent) else ""


def find_fault(base: str, ledger: str) -> str:
    """Return why a folder cannot have the caches of a ledger, as the end of a sentence; empty where it can.

    Args:
        base: The folder.
        ledger: The real path of the ledger's folder.
    """
    if not os.path.isabs(base):
        return "is not an absolute path"
    real = os.path.realpath(base)
    if f"{real}{os.sep}".startswith(find_project(ledger).rstrip(os.sep) + os.sep):
        return "is in the project"
    try:
        return _access_fault(real) if os.name == "posix" else ""
    except FileNotFoundError:
        return _parent_fault(real)
    except OSError as error:
        return f"cannot be used: {disk.reason(error)}"


def _access_fault(path: str) -> str:
    """Return why other users may have written to a folder; empty where they cannot.

    Raises:
        OSError: It does not exist, or the system does not say.
    """
    folder = os.lstat(path)
    if not stat.S_ISDIR(folder.st_mode):
        return "is not a folder"
    if folder.st_uid != os.geteuid():
        return "belongs to another user"
    return "is open to other users" if folder.st_mode & 0o077 else ""


def _parent_fault(path: str) -> str:
    """Return why a missing folder must not be created; empty where it may: root would create it in another's home."""
    above = os.path.dirname(path)
    while not os.path.exists(above):
        above = os.path.dirname(above)
    return "belongs to another user" if os.geteuid() == 0 != os.stat(above).st_uid else ""


def find_project(ledger: str) -> str:
    """Return the real path of the outermost folder whose ``.claude`` has the ledger; else the ledger's own folder."""
    project = ledger
    claude = folder = os.path.dirname(ledger)
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        link = os.path.join(folder, ".claude")
        if link == claude or (os.path.islink(link) and os.path.realpath(link) == claude):
            project = folder
    return project


def path_digest(ledger: str) -> str:
    """Return the digest of a ledger's real path, which differs between its copies."""
    return sha256(ledger.encode("utf-8", "surrogateescape")).hexdigest()[:DIGEST_CHARS]
