"""Removal of caches: those of redacted texts, of ledgers that are gone or unused, and of earlier versions."""

from __future__ import annotations

from contextlib import suppress
import os
from pathlib import Path
import re
import stat
from typing import TYPE_CHECKING, Final

from tallybook.ledger import clock
from tallybook.ledger.backends.files import LOG_NAME
from tallybook.ledger.storage import caches
from tallybook.ledger.storage.head import ledger_id

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMER_FOLDER: Final = "cache"
"""Folder in the ledger where earlier versions kept their caches."""
SWEEP_STAMP: Final = "swept"
"""File in the user's cache folder whose time says when that was last swept."""
MAX_UNUSED_US: Final = 30 * caches.DAY_US
_FOLDER: Final = re.compile(rf"[0-9a-f-]+/[0-9a-f]{{{caches.DIGEST_CHARS}}}")


def remove_former(ledger: Path) -> None:
    """Remove the cache of earlier versions, or the link in its place, but never what the link leads to."""
    path = ledger / FORMER_FOLDER
    with suppress(OSError):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            path.unlink()
        elif stat.S_ISDIR(mode):
            _remove(path)


def sweep(ledger: Path) -> None:
    """Remove, once a day, the caches of ledgers that are gone, and those that were not used for 30 days."""
    folder = caches.find_folder(ledger)
    if folder is not None:
        with suppress(OSError):
            _sweep(Path(folder).parent.parent)


def _remove(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as the system lets this user."""
    # Slow to load, and hardly ever needed.
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def clear(ledger: Path) -> tuple[str, ...]:
    """Remove every cache that this user has of a ledger and of its copies.

    Returns:
        What could not be removed, a line each.
    """
    base = Path(caches.user_folder())
    id_ = ledger_id(ledger / LOG_NAME) if base.is_absolute() and _is_own(base) else ""
    if not id_:
        return ()
    _remove(base / id_)
    return (f"{base / id_}: this cache could not be removed; delete it",) if (base / id_).exists() else ()


def _is_own(base: Path) -> bool:
    """Return whether a folder is this user's, however open it is by now."""
    try:
        return os.name != "posix" or base.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _sweep(base: Path) -> None:
    """Sweep the user's cache folder, unless that was done within a day.

    Raises:
        OSError: The folder cannot be read or written.
    """
    now_us, swept = clock.utc_now().unix_us, base / SWEEP_STAMP
    if not base.exists() or (swept.exists() and now_us - _changed_us(swept) < caches.DAY_US):
        return
    swept.touch(0o600)
    for folder in _folders(base):
        with suppress(OSError):
            if _is_unneeded(folder, now_us):
                _remove(folder)
                folder.parent.rmdir()


def _folders(base: Path) -> Iterator[Path]:
    """Yield the cache folders of every ledger."""
    for folder in base.glob("*/*"):
        if _FOLDER.fullmatch(folder.relative_to(base).as_posix()) and not folder.is_symlink():
            yield folder


def _is_unneeded(folder: Path, now_us: int) -> bool:
    """Return whether the ledger of a cache folder is gone, or nobody used the folder for 30 days."""
    owner = folder / caches.OWNER
    if not owner.exists():
        return now_us - _changed_us(folder) > MAX_UNUSED_US
    log = Path(os.fsdecode(owner.read_bytes())) / LOG_NAME
    # Where the system does not say, the ledger may be there.
    with suppress(PermissionError):
        if not log.exists() or ledger_id(log) not in {"", folder.parent.name}:
            return True
    return now_us - _changed_us(owner) > MAX_UNUSED_US


def _changed_us(path: Path) -> int:
    return path.stat().st_mtime_ns // 1000
