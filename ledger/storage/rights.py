"""Modes and owners of the files and folders that Tallybook creates. Standard library only: hooks create files."""

from __future__ import annotations

from contextlib import suppress
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tallybook.ledger.fast_stdlib import StrPath

    Owner = tuple[int, int]
    """A user and a group."""

FILE_MODE, FOLDER_MODE = 0o600, 0o700


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


def file_rights(path: StrPath) -> tuple[int, int, Owner | None]:
    """Return mode, group and new owner of a file.

    Mode and group are the file's own where it exists, else those that its folder gives. The owner is that of the
    folder where root creates the file; None elsewhere.
    """
    folder = os.stat(os.path.dirname(path) or os.curdir)
    owner = _other_owner(folder)
    with suppress(FileNotFoundError):
        file = os.lstat(path)
        if stat.S_ISREG(file.st_mode):
            return file.st_mode & 0o777, file.st_gid, owner
    bits, group = folder_rights(folder)
    return FILE_MODE | bits & 0o666, group, owner


def _other_owner(folder: os.stat_result) -> Owner | None:
    """Return the owner of a folder; None where that is root, or where this process is not root's."""
    is_root = os.name == "posix" and os.geteuid() == 0
    return (folder.st_uid, folder.st_gid) if is_root and folder.st_uid != 0 else None


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


def set_owner(fd: int, owner: Owner | None) -> None:
    """Give a file or folder that root has just created to another user, who could not use it otherwise.

    A refusal is not an error: a file system may have no owners, or not let even root change them.

    Args:
        fd: The new file or folder, open: its path could lead to another one by now.
        owner: The user and the user's group; None to leave it as it is.
    """
    if owner is not None:
        with suppress(OSError):
            # Where its group may use the file, that is the right one already.
            os.chown(fd, owner[0], -1 if os.fstat(fd).st_mode & 0o070 else owner[1])


def set_folder_owner(folder: StrPath, parent: os.stat_result) -> None:
    """Give a folder that root has just created to the owner of the one above it; a refusal is not an error."""
    owner = _other_owner(parent)
    if owner is None:
        return
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            # Another one may have been moved into its place.
            if not os.listdir(fd):
                set_owner(fd, owner)
        finally:
            os.close(fd)
