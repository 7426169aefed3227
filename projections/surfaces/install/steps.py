"""What an installation does, step by step: each is known before the first is taken, and told in one line."""

from __future__ import annotations

import contextlib
import difflib
import re
import stat
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.storage import disk

if TYPE_CHECKING:
    from pathlib import Path

LEFT: Final = "left"
FOLDERS: Final = ("commands", "config")
"""Folders that go with the last file of ours in them."""


@attrs.frozen
class Step:
    """What becomes of one file.

    Attributes:
        path: The file.
        what: created, changed, restored, deleted, or left.
        why: What is to be said beside it; may be empty.
        before: The bytes that stand there, None for no file.
        after: Those that will, None for no file.
        shown: Whether a person wants to see what is changed in it.
    """

    path: Path
    what: str
    why: str = ""
    before: bytes | None = None
    after: bytes | None = None
    shown: bool = False

    def __str__(self) -> str:
        """Render as ``created FILE: why``."""
        return f"{self.what} {self.path}" + (f": {self.why}" if self.why else "")


def write(path: Path, before: bytes | None, after: bytes, why: str = "") -> Step:
    """Return the step that makes a file what it should be."""
    if before == after:
        return Step(path, LEFT, why or "is as it should be", before, after)
    return Step(path, "created" if before is None else "changed", why, before, after)


def take(step: Step) -> None:
    """Do what a step says.

    Raises:
        CannotWriteError: The file is not what it was when the step was planned, or cannot be written.
        OutcomeUnknownError: The disk would not confirm it.
    """
    if step.what == LEFT:
        return
    if step.after is None:
        _still(step)
        step.path.unlink()
        if step.path.parent.name in FOLDERS:
            # What still holds something is not removed.
            with contextlib.suppress(OSError):
                step.path.parent.rmdir()
        return
    disk.make_folder(step.path.parent)
    disk.replace_file(step.path, step.after, may_replace=lambda: _still(step))


def _still(step: Step) -> bool:
    """Make sure that nobody has changed a file since it was looked at.

    Raises:
        CannotWriteError: Somebody has.
    """
    if read(step.path) != step.before:
        raise CannotWriteError(step.path, "was changed by another program", "the file is unchanged; try again")
    return True


def read(path: Path) -> bytes | None:
    """Return the bytes of a file, None where there is none.

    Raises:
        CannotWriteError: It cannot be read, or is not a regular file, or its folder is a link.
    """
    try:
        return disk.read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error), "nothing was changed") from error


def is_plain(path: Path) -> bool:
    """Say whether a path is free or a regular file, in a folder that is no link."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(path.parent.lstat().st_mode):
            return False
        return stat.S_ISREG(path.lstat().st_mode)
    return True


def diff(step: Step) -> str:
    """Return what a step changes in settings, as a unified diff; empty for other files.

    A last line without an end is shown like any other.
    """
    if not step.shown:
        return ""
    old, new = (_lines((data or b"").decode("utf-8", "replace")) for data in (step.before, step.after))
    was, is_now = ("/dev/null" if data is None else str(step.path) for data in (step.before, step.after))
    return "\n".join(difflib.unified_diff(old, new, was, is_now, lineterm=""))


def _lines(text: str) -> list[str]:
    lines = re.split(r"\r\n|\n|\r", text)
    return lines if lines[-1] else lines[:-1]
