"""Modes and owners of what Tallybook creates. Standard library only: hooks create files, too."""

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


def folder_rights(folder: StrPath) -> tuple[int, int]:
    """Return who may use what is created in a folder: the user alone, unless the folder is shared.

    Shared is a folder that its group, or everybody, may write to. In one with the sticky bit, as /tmp has it, everybody
    keeps his own things.

    Returns:
        Mode bits beside the user's own, the bit that hands a folder's group on among them; and the group they are for.
    """
    return _folder_rights(os.stat(folder))


def _folder_rights(found: os.stat_result) -> tuple[int, int]:
    if found.st_mode & stat.S_ISVTX:
        return 0, found.st_gid
    bits = 0o070 if found.st_mode & stat.S_IWGRP else 0
    bits |= 0o007 if found.st_mode & stat.S_IWOTH else 0
    return bits | found.st_mode & stat.S_ISGID, found.st_gid


def file_rights(path: StrPath) -> tuple[int, int, Owner | None]:
    """Return mode, group and new owner of a file.

    Mode and group are its own where it exists, else what its folder gives; the owner is as for ``give_folder``.
    """
    parent = os.path.dirname(path) or "."
    with suppress(FileNotFoundError):
        found = os.lstat(path)
        if stat.S_ISREG(found.st_mode):
            return found.st_mode & 0o777, found.st_gid, _other_owner(os.stat(parent)) if _is_root() else None
    folder = os.stat(parent)
    bits, group = _folder_rights(folder)
    return FILE_MODE | bits & 0o666, group, _other_owner(folder)


def _is_root() -> bool:
    return os.name == "posix" and os.geteuid() == 0


def _other_owner(folder: os.stat_result) -> Owner | None:
    """Return who owns a folder, None where that is root or this process is not root's."""
    return (folder.st_uid, folder.st_gid) if _is_root() and folder.st_uid != 0 else None


def set_mode(file: int | StrPath, mode: int, group: int) -> None:
    """Give a fresh file or folder its rights, whatever the umask."""
    if os.name != "posix":
        return
    if mode & 0o070 and os.stat(file).st_gid != group:
        try:
            os.chown(file, -1, group)
        except OSError:
            # Whoever is in the user's own group gets no more than everybody does.
            mode &= ~0o070 | (mode & 0o007) << 3
    # A file system that has no modes refuses, and has given the file what it gives to all.
    with suppress(PermissionError):
        os.chmod(file, mode)


def set_owner(fd: int, owner: Owner | None) -> None:
    """Give what root has just created to another user, who could not use it otherwise; a refusal is no error.

    Args:
        fd: The new file or folder, open: a path could lead to another one by now.
        owner: The user and the user's group, None for nobody.
    """
    if owner is not None:
        # A file system may have no owners, or not let even root change them.
        with suppress(OSError):
            # Where its group may use the file, that is the right one already.
            os.chown(fd, owner[0], -1 if os.fstat(fd).st_mode & 0o070 else owner[1])


def set_folder_owner(folder: StrPath) -> None:
    """Give a folder that root has just created to the owner of the one above it; a refusal is no error."""
    if not _is_root():
        return
    with suppress(OSError):
        owner = _other_owner(os.stat(os.path.dirname(folder) or os.curdir))
        if owner is None:
            return
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            # Another one may have been moved into its place.
            if not os.listdir(fd):
                set_owner(fd, owner)
        finally:
            os.close(fd)
