"""Putting a whole log in place of a damaged one, which is kept: under the lock, and so that a crash loses neither."""

from __future__ import annotations

from contextlib import suppress
import os
import shutil
from typing import TYPE_CHECKING, Final

from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.line import LOG_NAME
from tallybook.ledger.storage import disk
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.head import NO_HEAD

if TYPE_CHECKING:
    from pathlib import Path

    from tallybook.ledger.line import Position

FOLDER: Final = "quarantine"
_TAKEN: Final = b',\t"kind":"book.taken","v":1,'


def identify(folder: Path) -> tuple[int, int, int] | None:
    """Return what tells a log file from every other and from itself after a change; None where there is none."""
    try:
        file = (folder / LOG_NAME).stat()
    except FileNotFoundError:
        return None
    return file.st_ino, file.st_size, file.st_mtime_ns


def replace_log(folder: Path, data: bytes, end: Position, at: str, seen: tuple[int, int, int] | None) -> Path | None:
    """Put a log in place of the present one, and let the head acknowledge all of it.

    Args:
        folder: The ledger's folder.
        data: The new log's bytes.
        end: The position after its last batch.
        at: Now, for the name of the present file's copy.
        seen: What ``identify`` returned before the present file was read.

    Returns:
        The present file under its new name, in the folder ``quarantine``; None where there was none.

    Raises:
        LockHeldError: Another process holds the lock.
        CannotWriteError: The log is unchanged: it is not the one that was seen, or the system refused.
        OutcomeUnknownError: The disk did not confirm the new log.
    """
    lock = disk.open_file(folder / "lock", write=True, create=True)
    try:
        disk.lock(lock, folder / "lock", disk.LOCK_WAIT_MS)
        if identify(folder) != seen:
            hint = "nothing was recorded; try again"
            raise CannotWriteError(folder / LOG_NAME, "was changed by another program", hint)
        aside = None if seen is None else _set_aside(folder, at)
        disk.replace_file(folder / LOG_NAME, data)
        _write_head(folder, end, shared=_TAKEN in data)
        return aside
    finally:
        os.close(lock)


def _set_aside(folder: Path, at: str) -> Path:
    """Give the present log a second name, or a copy where the file system has no links; return it."""
    path, copies = folder / LOG_NAME, folder / FOLDER
    disk.make_folder(copies)
    name = f"events-{at[:19].replace(':', '').replace('-', '')}"
    aside, number = copies / f"{name}.jsonl", 1
    while os.path.lexists(aside):
        number += 1
        aside = copies / f"{name}-{number}.jsonl"
    try:
        try:
            os.link(path, aside)
        except OSError:
            shutil.copyfile(path, aside)
        disk.flush_folder(copies)
    except OSError as error:
        with suppress(OSError):
            aside.unlink()
        raise CannotWriteError(aside, disk.reason(error), "nothing was changed") from error
    return aside


def _write_head(folder: Path, end: Position, *, shared: bool) -> None:
    path = folder / "head"
    fd = disk.open_file(path, write=True, create=True)
    try:
        before = heads.read(fd) or NO_HEAD
        head = before._replace(position=end, boot=disk.boot_id(), suspect=-1, shared=before.shared or shared)
        heads.write(fd, heads.encode(head))
        disk.flush(fd, path)
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error), "the log is whole; try again") from error
    finally:
        os.close(fd)
