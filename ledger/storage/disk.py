"""Access to files where systems differ or a mistake would lose data: open, lock, write, flush. Standard library only.

CannotWriteError means that nothing was recorded, OutcomeUnknownError that bytes were written and not confirmed.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
import errno
import os
import stat
from time import monotonic, sleep

from tallybook.ledger.errors import CannotWriteError, LockHeldError, OutcomeUnknownError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallybook.ledger.fast_stdlib import StrPath

    Content = bytes | Callable[[int], bytes]
    """Bytes of a new file, or a function that returns them, given the file's descriptor."""

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SMALL_BYTES = 16 * 1024 * 1024
"""A file of the ledger other than the log holds at most this, where it does not say otherwise."""
FILE_MODE, FOLDER_MODE = 0o600, 0o700
LOCK_WAIT_MS = 250
"""A writer waits this long for the lock; then its payload is spooled, so that no agent has to wait."""

# A link is not followed out of the ledger's folder, and opening a pipe does not wait for its other end.
_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK if os.name == "posix" else getattr(os, "O_BINARY", 0)
_NO_LINK = "replace it by what it points to"

flush_data = getattr(os, "fdatasync", os.fsync)


class TooLargeError(CannotWriteError):
    """A file holds more than Tallybook writes to it."""


def reason(error: Exception) -> str:
    """Return the system's description of an error, or the reason that one of Tallybook's gives."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(getattr(error, "reason", error))


def create_file(path: StrPath, flags: int = os.O_WRONLY, like: StrPath | None = None) -> int:
    """Create and open a file where there is nothing, not even a link.

    Args:
        path: The file.
        flags: How to open it.
        like: Another file: it gets that file's rights, or those that file would get; None for its own.

    Raises:
        OSError: It cannot be created, or the path is in use.
    """
    like = like or path
    folder = os.stat(_folder_of(like))
    bits, group = folder_rights(folder)
    mode = FILE_MODE | bits & 0o666
    with suppress(FileNotFoundError):
        file = os.lstat(like)
        if stat.S_ISREG(file.st_mode):
            mode, group = file.st_mode & 0o777, file.st_gid
    fd = os.open(path, flags | os.O_CREAT | os.O_EXCL | _SAFE, FILE_MODE)
    try:
        # The umask cannot take these rights away: a team shares a ledger by sharing its folder.
        set_mode(fd, mode, group)
        set_owner(fd, folder)
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextmanager
def closing(fd: int) -> Iterator[int]:
    """Give an open file, and close it in the end."""
    try:
        yield fd
    finally:
        os.close(fd)


def _seek_and_read(fd: int, size: int, offset: int) -> bytes:
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, size)


read_at: Callable[[int, int, int], bytes] = getattr(os, "pread", _seek_and_read)
"""Returns up to so many bytes of an open file from an offset on, fewer only at the end of the file."""


def refuse_link(folder: StrPath) -> None:
    """Refuse a folder of the ledger that is a symbolic link.

    Raises:
        CannotWriteError: It is one.
    """
    if os.path.islink(folder):
        raise CannotWriteError(folder, "is a symbolic link", _NO_LINK)


def refuse_hard_link(fd: int, path: StrPath, is_ours: Callable[[], bool] = lambda: False) -> None:
    """Refuse to write to a hard link of a file that is elsewhere, unless its content shows that it is the ledger's own.

    A backup by hard links, which gives every file of the ledger a second name, is no obstacle.

    Raises:
        CannotWriteError: It has a second name and another content.
    """
    if os.fstat(fd).st_nlink > 1 and not is_ours():
        raise CannotWriteError(path, "is a hard link to a file that is not the ledger's", "move it away")


def open_file(path: StrPath, *, write: bool, append: bool = False, create: bool = False) -> int:
    """Open a regular file of the ledger, never through a link, and never a pipe or a device.

    Raises:
        FileNotFoundError: It does not exist, and ``create`` is false.
        CannotWriteError: Anything else: it cannot be opened, or is not a regular file.
    """
    flags = (os.O_RDWR if write else os.O_RDONLY) | (os.O_APPEND if append else 0)
    try:
        try:
            fd = os.open(path, flags | _SAFE)
        except FileNotFoundError:
            if not create:
                raise
            try:
                return create_file(path, flags)
            except FileExistsError:
                # Another process has just created it.
                fd = os.open(path, flags | _SAFE)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CannotWriteError(path, "is a symbolic link", _NO_LINK) from error
        if error.errno == errno.ENOTDIR:
            folder = os.path.dirname(path)
            while not os.path.lexists(folder):
                folder = os.path.dirname(folder)
            raise CannotWriteError(folder, "is not a folder", "move it away") from error
        hint = "nothing was recorded; try again" if write else "it cannot be read"
        raise CannotWriteError(path, reason(error), hint) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise CannotWriteError(path, "is not a regular file", "move it away")
    return fd


@contextmanager
def hold_open(path: StrPath, *, write: bool = False, create: bool = False) -> Iterator[int]:
    """Open a file as ``open_file``, and close it at the end."""
    with closing(open_file(path, write=write, create=create)) as fd:
        yield fd


@contextmanager
def hold_lock(path: StrPath, wait_ms: int) -> Iterator[None]:
    """Hold the lock of a file, which is created where there is none, with its folder; raises as ``lock``."""
    make_folder(os.path.dirname(path))
    with hold_open(path, write=True, create=True) as fd:
        lock(fd, path, wait_ms)
        yield


def read_file(path: StrPath, limit: int = SMALL_BYTES) -> bytes:
    """Return the bytes of a regular file of the ledger other than the log, as ``read_small``.

    Raises:
        FileNotFoundError: It does not exist.
        CannotWriteError: As ``read_small``, or its folder is a link.
        OSError: It cannot be read.
    """
    refuse_link(os.path.dirname(path))
    return read_small(path, limit)


def read_small(path: StrPath, limit: int) -> bytes:
    """Return the bytes of a regular file that is no link; a pipe in its place is refused without waiting for it.

    Args:
        path: The file.
        limit: What it may hold at most, in bytes.

    Raises:
        FileNotFoundError: It does not exist.
        TooLargeError: It holds more.
        CannotWriteError: It is a link, no regular file, or cannot be opened.
        OSError: It cannot be read.
    """
    with open(open_file(path, write=False), "rb") as file:
        # No file costs more time and memory than its limit.
        if os.fstat(file.fileno()).st_size > limit:
            raise TooLargeError(path, f"holds more than {limit:,} bytes", "move it away")
        return file.read()


def make_folder(path: StrPath, *, durable: bool = True) -> None:
    """Create a folder of the ledger and those above it, each as private as the one above it.

    Args:
        path: The folder.
        durable: Whether it must survive a power loss; a cache need not.

    Raises:
        CannotWriteError: It cannot be created, or is a link.
    """
    with suppress(OSError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            return
    refuse_link(path)
    try:
        for folder in list_missing(path):
            _make_one_folder(folder)
            if durable:
                flush_folder(_folder_of(folder))
    except OSError as error:
        raise CannotWriteError(path, reason(error)) from error


def list_missing(folder: StrPath) -> list[str]:
    """Return a missing folder and those above it that are missing, the outermost first."""
    missing = [os.fspath(folder)]
    while not os.path.exists(_folder_of(missing[0])):
        missing.insert(0, _folder_of(missing[0]))
    return missing


def _make_one_folder(folder: StrPath) -> None:
    """Create a folder, unless another process has just done so."""
    parent = os.stat(_folder_of(folder))
    bits, group = folder_rights(parent)
    try:
        os.mkdir(folder, FOLDER_MODE)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            raise
    else:
        set_mode(folder, FOLDER_MODE | bits, group)
        set_folder_owner(folder, parent)


def flush_folder(path: StrPath) -> None:
    """Make the names in a folder durable; Windows does that by itself."""
    if os.name != "posix":
        return
    with closing(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as fd:
        os.fsync(fd)


def write_all(fd: int, data: bytes, path: StrPath) -> None:
    """Append bytes, in one call wherever the system takes them at once.

    Raises:
        CannotWriteError: The system refused; what it wrote remains as an unfinished batch, which is never read.
    """
    try:
        done = os.write(fd, data)
        while done < len(data):
            done += os.write(fd, data[done:])
    except OSError as error:
        raise CannotWriteError(path, reason(error)) from error


def check_place(fd: int, data: bytes, path: StrPath, offset: int) -> None:
    """Check that the bytes appended last begin at this offset, for which they were made.

    Raises:
        CannotWriteError: A program that ignores the lock appended first. The next writer seals its bytes and these.
    """
    # After a write in append mode, the file's own position shows where the bytes are.
    if os.lseek(fd, 0, os.SEEK_CUR) != offset + len(data) and read_at(fd, len(data), offset) != data:
        raise CannotWriteError(path, "another program wrote to it meanwhile")


def flush(fd: int, path: StrPath) -> None:
    """Make what was written durable.

    Raises:
        OutcomeUnknownError: The system did not confirm. The flush is not repeated: a second one that succeeds proves
            nothing, because the kernel has marked the pages clean.
    """
    try:
        flush_data(fd)
    except OSError as error:
        raise OutcomeUnknownError(path, reason(error)) from error


def replace_file(
    path: StrPath,
    data: Content,
    may_replace: Callable[[], bool] = lambda: True,
    *,
    private: bool = False,
    durable: bool = True,
) -> bool:
    """Put a whole file in place of another: written in the same folder, flushed, renamed, and the folder flushed.

    It gets the rights of the old file, if there is one, or those that its folder gives.

    Args:
        path: The file.
        data: Its new bytes.
        may_replace: Called right before the rename; returns whether the old file may be replaced.
        private: Whether only this user may read it, even in a shared folder.
        durable: Whether the file and the folder are flushed.

    Returns:
        Whether it was replaced.

    Raises:
        CannotWriteError: The old file is unchanged.
        OutcomeUnknownError: The new one is there, but the disk did not confirm its name.
    """
    fresh = os.path.join(_folder_of(path), f".{os.path.basename(path)}.{os.getpid()}.tmp")
    try:
        # A killed process with the same number may have left one, or someone planted a link: removed, not followed.
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        with closing(create_file(fresh, like=path)) as fd:
            if private:
                os.chmod(fresh, FILE_MODE)
            write_all(fd, data if isinstance(data, bytes) else data(fd), path)
            if durable:
                os.fsync(fd)
        if not may_replace():
            return False
        os.replace(fresh, path)
    except OSError as error:
        raise CannotWriteError(path, reason(error), "the file is unchanged") from error
    finally:
        with suppress(OSError):
            os.unlink(fresh)
    try:
        if durable:
            flush_folder(_folder_of(path))
    except OSError as error:
        raise OutcomeUnknownError(path, reason(error)) from error
    return True


def link_aside(path: StrPath, stem: StrPath, at: str, suffix: str, otherwise: Callable[[StrPath, str], object]) -> str:
    """Give a file a second name with the time in it, and with a number where something has that name; return it.

    Args:
        path: The file.
        stem: The beginning of the name.
        at: Now, UTC.
        suffix: The end of the name.
        otherwise: Called with the file and the name where no link can be made: of a folder, or without links.

    Raises:
        OSError: The system refuses.
    """
    stem = f"{os.fspath(stem)}-{at[:19].replace(':', '').replace('-', '')}"
    aside, number = stem + suffix, 1
    while True:
        try:
            # A hard link never replaces what another process set aside.
            os.link(path, aside)
        except FileExistsError:
            number += 1
            aside = f"{stem}-{number}{suffix}"
            continue
        except OSError:
            otherwise(path, aside)
        return aside


def replace_cache_file(path: StrPath, data: bytes) -> None:
    """Put a file that may be lost in place of another, whole but not flushed; a refusal of the disk is ignored."""
    with suppress(CannotWriteError):
        replace_file(path, data, durable=False)


def _folder_of(path: StrPath) -> str:
    return os.path.dirname(path) or os.curdir


acknowledged = 0
"""Transactions and spooled payloads acknowledged so far: a command interrupted after one does not report a failure."""


def try_lock(fd: int) -> bool:
    """Take the lock of a file unless another process holds it; it is released when the process ends."""
    try:
        _set_lock(fd, locked=True)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK, errno.EINTR}:
            return False
        raise
    return True


def _set_lock(fd: int, *, locked: bool) -> None:
    if fcntl is not None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB if locked else fcntl.LOCK_UN)
        return
    import msvcrt  # noqa: PLC0415 - exists only on Windows

    os.lseek(fd, 0, os.SEEK_SET)
    msvcrt.locking(fd, msvcrt.LK_NBLCK if locked else msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined,unused-ignore]


def lock(fd: int, path: StrPath, wait_ms: int) -> None:
    """Take the lock of a file, waiting at most ``wait_ms``.

    Raises:
        LockHeldError: Another process held it all the time.
        CannotWriteError: The file system has no locks.
    """
    deadline, pause = 0.0, 0.0002
    try:
        # A wait in the system call needs an alarm to end it, which takes a signal from programs that import this.
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
    """Wait until the holder of a very short lock has probably finished."""
    sleep(0.0002)


def unlock(fd: int) -> None:
    """Release the lock.

    Raises:
        OutcomeUnknownError: The system refused; bytes that were written under the lock are not flushed yet.
    """
    try:
        _set_lock(fd, locked=False)
    except OSError as error:
        raise OutcomeUnknownError("ledger", f"its lock could not be released: {reason(error)}") from error


def boot_id() -> str:
    """Return the id of this boot of the machine, which no file from elsewhere knows; empty where there is none."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", "rb", 0) as file:
        return file.read(64).decode("ascii", "replace").strip()
    return ""


def folder_rights(folder: os.stat_result) -> tuple[int, int]:
    """Return who may use what is created in a folder: the user alone, unless the folder is shared.

    A folder is shared if its group, or everybody, may write to it, unless it has the sticky bit, as /tmp has: there
    each user's files are their own.

    Returns:
        Mode bits besides the user's own, with the bit that passes on the folder's group; and that group.
    """
    if folder.st_mode & stat.S_ISVTX:
        return 0, folder.st_gid
    bits = 0o070 if folder.st_mode & stat.S_IWGRP else 0
    bits |= 0o007 if folder.st_mode & stat.S_IWOTH else 0
    return bits | folder.st_mode & stat.S_ISGID, folder.st_gid


def set_mode(file: int | StrPath, mode: int, group: int) -> None:
    """Give a new file or folder its rights, whatever the umask."""
    if os.name != "posix":
        return
    if mode & 0o070 and os.stat(file).st_gid != group:
        try:
            os.chown(file, -1, group)
        except OSError:
            # The file keeps the user's own group, which must not get more rights than everybody has.
            mode &= ~0o070 | (mode & 0o007) << 3
    # A file system without modes refuses, and has given the file the rights that all its files have.
    with suppress(PermissionError):
        os.chmod(file, mode)


def set_owner(fd: int, parent: os.stat_result) -> None:
    """Give a file or folder that root has just created to the owner of the folder above it, who could not use it else.

    A refusal is not an error: a file system may have no owners, or not let even root change them.

    Args:
        fd: The new file or folder, open: its path could lead to another one by now.
        parent: The folder above it.
    """
    if os.name == "posix" and os.geteuid() == 0 != parent.st_uid:
        with suppress(OSError):
            # Where its group may use the file, that is the right one already.
            os.chown(fd, parent.st_uid, -1 if os.fstat(fd).st_mode & 0o070 else parent.st_gid)


def set_folder_owner(folder: StrPath, parent: os.stat_result) -> None:
    """Give a folder that root has just created to the owner of the one above it; a refusal is not an error."""
    if os.name != "posix":
        return
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError), closing(os.open(folder, flags)) as fd:
        # Another one may have been moved into its place.
        if not os.listdir(fd):
            set_owner(fd, parent)
