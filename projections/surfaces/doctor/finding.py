"""What a check of the doctor takes and yields, and how findings write ages, sizes, counts and lists of names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import os
from typing import TYPE_CHECKING, TypeAlias

import attrs

from tallybook.ledger.clock import MICROSECONDS, to_unix_us
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.disk import read_at
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.history.reading import open_own_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.ledger.backends.jsonl import JsonlLog
    from tallybook.ledger.clock import Now
    from tallybook.projections.surfaces.workspace.project import Project

OK = "ok"
NOTE = "note"
BAD = "bad"

_MAX_NAMES = 3
_UNITS_S = ((86_400, "days"), (3600, "h"), (60, "min"))
_UNITS_BYTES = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


@attrs.frozen
class Finding:
    """One result of a check. Printed, it reads: what is wrong, why it matters; the fix.

    Attributes:
        level: ``ok``; ``note``, worth knowing; or ``bad``, someone has to act.
        message: What the check found and, where it is not plain, why that matters.
        fix: The command or step that fixes it or shows more; empty where there is nothing to do.
        check: Name of the check, ``spool``; the runner fills it in from the table of checks.
        is_damage: Whether acknowledged bytes are gone or changed.
        is_always_shown: Whether people see it although nothing is wrong: how long hooks took, what reflection cost.
    """

    level: str
    message: str
    fix: str = ""
    check: str = ""
    is_damage: bool = False
    is_always_shown: bool = False


@attrs.frozen
class Context:
    """The argument of every check.

    Attributes:
        project: The project to check.
        now: The present moment.
        progress: Called during long checks with the bytes done and the bytes in all.
    """

    project: Project
    now: Now
    progress: Callable[[int, int], None] = lambda _done, _size: None

    @property
    def log(self) -> JsonlLog:
        """Return the project's own ledger."""
        return open_own_log(self.project)

    def age(self, at: str | int) -> str:
        """Return how long ago a moment was, in the largest unit that it fills: ``3 h``; a later moment is ``0 s``.

        Args:
            at: The moment in ISO form, or in microseconds since 1970.
        """
        return format_duration(self.now.unix_us - (to_unix_us(at) if isinstance(at, str) else at))


Check: TypeAlias = Callable[[Context], Iterator[Finding]]
"""A check: yields what it finds and changes nothing on disk."""


def read_part(path: str | os.PathLike[str], size: int, *, from_end: bool = False) -> bytes:
    """Return the first, or the last, bytes of a regular file.

    Raises:
        FileNotFoundError: There is no such file.
        CannotWriteError: It is not a regular file, or it cannot be opened.
    """
    fd = disk.open_file(path, write=False)
    try:
        return read_at(fd, size, max(os.fstat(fd).st_size - size, 0) if from_end else 0)
    finally:
        os.close(fd)


def format_duration(time_us: int) -> str:
    """Return a duration in microseconds in the largest unit that it fills; a negative one is ``0 s``."""
    time_s = max(time_us, 0) // MICROSECONDS
    for unit_s, name in _UNITS_S:
        if time_s >= unit_s:
            number = time_s // unit_s
            return f"{number:,} {'day' if number == 1 and name == 'days' else name}"
    return f"{time_s} s"


def format_size(number: int) -> str:
    """Return a number of bytes in the largest unit that it fills."""
    for unit, name in _UNITS_BYTES:
        if number >= unit:
            return f"{number // unit:,} {name}"
    return format_count(number, "byte")


def format_names(names: Sequence[str]) -> str:
    """Return the first three names, and how many more there are."""
    rest = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + rest
