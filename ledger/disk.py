"""The few things that differ between systems, or that must be done right every time: open, lock, write, flush.

Standard library only. Every failing call ends as one of ours: nothing written (CannotWriteError), or handed over and
not confirmed (OutcomeUnknownError).
"""

from __future__ import annotations

import errno
import os
import stat
from time import monotonic, sleep
from typing import TYPE_CHECKING

from ledger.errors import CannotWriteError, LockHeldError, OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK_WAIT_MS = 250
"""A writer waits this long for the lock; then its payload is spooled, so that no agent stands still."""

# A link is not followed out of the ledger's folder, and opening a pipe does not wait for its other end.
_SAFE = 0
for _flag in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
    _SAFE |= getattr(os, _flag, 0)
_FILE_MODE = 0o600
_DIR_MODE = 0o700

flush_data = getattr(os, "fdatasync", os.fsync)


def reason(error: OSError) -> str:
    """Return the system's words for an error."""
    return error.strerror or type(error).__name__


def open_file(path: Path | str, *, write: bool, append: bool = False, create: bool = False) -> int:
    """Open a regular file of the ledger, never through a link, and never a pipe or a device.

    Raises:
        FileNotFoundError: It is not there and was not to be created.
        CannotWriteError: Anything else: it cannot be opened, or is no regular file.
    """
    flags = (os.O_RDWR if write else os.O_RDONLY) | (os.O_APPEND if append else 0) | (os.O_CREAT if create else 0)
    try:
        fd = os.open(path, flags | _SAFE, _FILE_MODE)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CannotWriteError(
                path, "is a symbolic link", "the ledger is never followed out of its folder"
            ) from error
        hint = "nothing was recorded, try again" if write else "it cannot be read"
        raise CannotWriteError(path, reason(error), hint) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise CannotWriteError(path, "is no regular file", "move it away")
    return fd


def read_file(path: Path) -> bytes:
    """Return the bytes of a regular file of the ledger; a pipe planted in its place is not waited for.

    Raises:
        FileNotFoundError: It is not there.
        CannotWriteError: It is no regular file.
        OSError: It cannot be read.
    """
    fd = open_file(path, write=False)
    with os.fdopen(fd, "rb") as file:
        return file.read()


def make_folder(path: Path) -> None:
    """Create a folder of the ledger and those above it, private to the user, durably.

    Raises:
        CannotWriteError: It cannot be created.
    """
    if path.is_dir():
        return
    try:
        missing = [path, *(parent for parent in path.parents if not parent.exists())]
        for folder in reversed(missing):
            folder.mkdir(mode=_DIR_MODE, exist_ok=True)
            flush_folder(folder.parent)
    except OSError as error:
        raise CannotWriteError(path, reason(error)) from error


def flush_folder(path: Path) -> None:
    """Make the names in a folder durable; Windows does that by itself."""
    if os.name != "posix":
        return
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes, path: Path | str) -> None:
    """Append bytes, in one call wherever the system takes them at once.

    Raises:
        CannotWriteError: The system refused; what it had taken stays as an unfinished batch, which is never read.
    """
    try:
        done = os.write(fd, data)
        while done < len(data):
            done += os.write(fd, data[done:])
    except OSError as error:
        raise CannotWriteError(path, reason(error)) from error


def flush(fd: int, path: Path | str) -> None:
    """Make what was written durable.

    Raises:
        OutcomeUnknownError: The system would not confirm. It is never asked again: a second flush that succeeds
            proves nothing, because the kernel has marked the pages clean.
    """
    try:
        flush_data(fd)
    except OSError as error:
        raise OutcomeUnknownError(path, reason(error)) from error


def replace_file(path: Path, data: bytes, beside: Path | None = None, still: Callable[[], bool] = lambda: True) -> bool:
    """Put a whole file in place of another: written aside, flushed, renamed, and the folder flushed.

    Args:
        path: The file.
        data: Its new bytes.
        beside: A folder of the same file system for the new file until it is renamed; None for the file's own.
        still: Asked right before the rename whether the old file may be replaced.

    Returns:
        Whether it was replaced.

    Raises:
        CannotWriteError: The old file stands as it was.
        OutcomeUnknownError: The new one stands, but the disk would not confirm its name.
    """
    fresh = (beside or path.parent) / f".{path.name}.{os.getpid()}.tmp"
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _SAFE, _FILE_MODE)
        try:
            if path.exists() and hasattr(os, "fchmod"):
                os.fchmod(fd, stat.S_IMODE(path.stat().st_mode))
            write_all(fd, data, path)
            os.fsync(fd)
        finally:
            os.close(fd)
        if not still():
            fresh.unlink(missing_ok=True)
            return False
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise CannotWriteError(path, reason(error), "the file stands as it was") from error
    except CannotWriteError:
        fresh.unlink(missing_ok=True)
        raise
    try:
        flush_folder(path.parent)
    except OSError as error:
        raise OutcomeUnknownError(path, reason(error)) from error
    return True


def try_lock(fd: int) -> bool:
    """Take the lock of a file if nobody has it; it goes when the process does."""
    try:
        if fcntl is not None:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt  # noqa: PLC0415 - exists on Windows alone

            os.lseek(fd, 0, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK, errno.EINTR}:
            return False
        raise
    return True


def lock(fd: int, path: Path | str, wait_ms: int) -> None:
    """Take the lock of a file, waiting at most ``wait_ms``.

    Raises:
        LockHeldError: Somebody else had it all the while.
        CannotWriteError: The file system has no locks.
    """
    deadline = 0.0
    pause = 0.0002
    try:
        while not try_lock(fd):
            now = monotonic()
            deadline = deadline or now + wait_ms / 1000
            if now >= deadline:
                raise LockHeldError(path, wait_ms)
            sleep(min(pause, deadline - now))
            pause = min(pause * 1.5, 0.004)
    except OSError as error:
        raise CannotWriteError(path, f"cannot be locked: {reason(error)}") from error


def pause() -> None:
    """Let a holder of a very short lock finish."""
    sleep(0.0002)


def unlock(fd: int) -> None:
    """Give the lock back."""
    if fcntl is not None:
        fcntl.flock(fd, fcntl.LOCK_UN)
        return
    import msvcrt  # noqa: PLC0415 - exists on Windows alone

    os.lseek(fd, 0, os.SEEK_SET)
    msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined,unused-ignore]


def boot_id() -> str:
    """Return what names this boot of the machine: within one, the page cache holds what was written.

    Empty where the system has no such name; then every byte behind the head is read again, which is always right.
    """
    try:
        fd = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(fd, 64).decode("ascii", "replace").strip()
    finally:
        os.close(fd)
