"""Modes and owners of what Tallybook creates. Standard library only: hooks create files, too."""

from __future__ import annotations

from ledger.light import os, stat, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

FILE_MODE, FOLDER_MODE = 0o600, 0o700


def shared(folder: Path | str) -> tuple[int, int]:
    """Return who may use what is created in a folder: the user alone, unless the folder is shared.

    Shared is a folder that its group, or everybody, may write to. In one with the sticky bit, as /tmp has it, everybody
    keeps his own things.

    Returns:
        Mode bits beside the user's own, the bit that hands a folder's group on among them; and the group they are for.
    """
    found = os.stat(folder)
    if found.st_mode & stat.S_ISVTX:
        return 0, found.st_gid
    bits = 0o070 if found.st_mode & stat.S_IWGRP else 0
    bits |= 0o007 if found.st_mode & stat.S_IWOTH else 0
    return bits | found.st_mode & stat.S_ISGID, found.st_gid


def of_file(path: Path | str) -> tuple[int, int]:
    """Return mode and group of a file: its own where it stands, else what its folder gives."""
    with suppress(FileNotFoundError):
        found = os.lstat(path)
        if stat.S_ISREG(found.st_mode):
            return found.st_mode & 0o777, found.st_gid
    bits, group = shared(os.path.dirname(path) or ".")
    return FILE_MODE | bits & 0o666, group


def grant(file: int | Path, mode: int, group: int) -> None:
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


def give_to_owner(fd: int, parent: Path | str) -> None:
    """Give what root has just created to the owner of its folder, who could not use it otherwise.

    Args:
        fd: The new file or folder, open: a path could lead to another one by now.
        parent: The folder that it is in.
    """
    if os.name == "posix" and os.geteuid() == 0:
        # A file system may have no owners, or not let even root change them.
        with suppress(OSError):
            found = os.stat(parent)
            if found.st_uid != 0:
                # Where its group may use it, that is the right one already.
                os.chown(fd, found.st_uid, -1 if os.fstat(fd).st_mode & 0o070 else found.st_gid)


def give_folder_to_owner(folder: Path) -> None:
    """Give a folder that root has just created to the owner of the one above it."""
    if os.name != "posix" or os.geteuid() != 0:
        return
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            # Another one may have been moved into its place.
            if not os.listdir(fd):
                give_to_owner(fd, folder.parent)
        finally:
            os.close(fd)
