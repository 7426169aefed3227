"""One step of ``init`` or ``uninstall``: a file that is created, changed, restored, deleted or left."""

from __future__ import annotations

import contextlib
import difflib
import stat
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.install.hook_entries import UNCHANGED

if TYPE_CHECKING:
    from pathlib import Path

LEFT: Final = "left"


@attrs.frozen
class Step:
    """One file of an installation.

    Attributes:
        path: The file.
        result: created, changed, restored, deleted, or left.
        why: The reason to print; may be empty.
        before: Its bytes now, None without a file.
        after: Its bytes afterwards, None without a file.
        has_diff: Whether to show people the difference.
        top: The folder below which folders go that are empty once the file is deleted; None to leave all of them.
    """

    path: Path
    result: str
    why: str = ""
    before: bytes | None = None
    after: bytes | None = None
    has_diff: bool = False
    top: Path | None = None

    def __str__(self) -> str:
        """Return the line that people see, ``created FILE: why``."""
        return f"{self.result} {self.path}" + (f": {self.why}" if self.why else "")


def write_step(path: Path, before: bytes | None, after: bytes, why: str = "") -> Step:
    """Return the step that gives a file these bytes."""
    if before == after:
        return Step(path, LEFT, why or "is as it should be", before, after)
    return Step(path, "created" if before is None else "changed", why, before, after)


def take(step: Step) -> None:
    """Take a step.

    Raises:
        CannotWriteError: The file has changed since the step was planned, or cannot be written.
        OutcomeUnknownError: The disk did not confirm the write.
    """
    if step.result == LEFT:
        return
    if step.after is None:
        _check_unchanged(step)
        step.path.unlink()
        _remove_empty_folders(step)
        return
    disk.make_folder(step.path.parent)
    # An agent may write its settings between the look and the write.
    disk.replace_file(step.path, step.after, may_replace=lambda: _check_unchanged(step))


def _remove_empty_folders(step: Step) -> None:
    # The system refuses to remove a folder that is not empty.
    with contextlib.suppress(OSError):
        for folder in step.path.parents:
            if step.top is None or not folder.is_relative_to(step.top) or folder == step.top:
                return
            folder.rmdir()


def _check_unchanged(step: Step) -> bool:
    """Return True.

    Raises:
        CannotWriteError: The file has changed since the step was planned.
    """
    if read(step.path) != step.before:
        raise CannotWriteError(step.path, "was changed by another program", "the file is unchanged; try again")
    return True


def read(path: Path) -> bytes | None:
    """Return the bytes of a file, None where there is none.

    Raises:
        CannotWriteError: It cannot be read, is not a regular file, or its folder is a link.
    """
    try:
        return disk.read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error), UNCHANGED) from error


def is_plain(path: Path, top: Path) -> bool:
    """Return whether a path is free or a regular file, and no folder between it and a folder above is a link."""
    with contextlib.suppress(FileNotFoundError):
        for folder in reversed(path.relative_to(top).parents[:-1]):
            if not stat.S_ISDIR((top / folder).lstat().st_mode):
                return False
        return stat.S_ISREG(path.lstat().st_mode)
    return True


def diff(step: Step) -> str:
    """Return what a step changes in settings, as a unified diff; empty for other files."""
    if not step.has_diff:
        return ""
    # splitlines() of bytes ends a line where an editor does, not at other characters of Unicode.
    sides = ((data or b"").splitlines() for data in (step.before, step.after))
    old, new = ([line.decode("utf-8", "replace") for line in lines] for lines in sides)
    old_name, new_name = ("/dev/null" if data is None else str(step.path) for data in (step.before, step.after))
    return "\n".join(difflib.unified_diff(old, new, old_name, new_name, lineterm=""))
