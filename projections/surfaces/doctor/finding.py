"""What the doctor finds, as values; what each of its checks is given; and the words for ages and sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import attrs

from tallybook.ledger.clock import MICROSECONDS
from tallybook.projections.surfaces.history.reading import open_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.ledger.backends.jsonl import JsonlLog
    from tallybook.ledger.clock import Now
    from tallybook.projections.surfaces.workspace.project import Project

OK = "ok"
NOTE = "note"
BAD = "bad"

_NAMED = 3
_UNITS_S = ((86_400, "days"), (3600, "h"), (60, "min"))
_UNITS_BYTES = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


@attrs.frozen
class Finding:
    """One thing that a check has to say.

    Attributes:
        level: ``ok``; ``note``, worth knowing; or ``bad``, somebody has to do something.
        message: What was found, in plain words.
        hint: What mends it or tells more; empty where there is nothing to do.
        check: What was looked at, ``spool``; the table of checks names it.
        damage: Whether acknowledged bytes are gone or changed.
        told: Whether a person wants to hear it although nothing is wrong: how long hooks took, what was spent.
    """

    level: str
    message: str
    hint: str = ""
    check: str = ""
    damage: bool = False
    told: bool = False


@attrs.frozen
class Patient:
    """What every check is given; none of them changes anything.

    Attributes:
        project: Whose health it is.
        now: The present moment.
        progress: Called now and then, where a check takes long, with bytes done and bytes in all.
    """

    project: Project
    now: Now
    progress: Callable[[int, int], None] = lambda _done, _size: None

    @property
    def log(self) -> JsonlLog:
        """Return the ledger."""
        return open_log(self.project)


Check: TypeAlias = Callable[[Patient], Iterator[Finding]]


def age(unix_us: int, now: Now) -> str:
    """Return how long ago a moment was, in the largest unit that it fills: ``3 h``; a later moment is ``0 s``."""
    return lasting(now.unix_us - unix_us)


def lasting(time_us: int) -> str:
    """Return a stretch of time, in microseconds, in the largest unit that it fills; less than none is ``0 s``."""
    time_s = max(time_us, 0) // MICROSECONDS
    for unit_s, name in _UNITS_S:
        if time_s >= unit_s:
            number = time_s // unit_s
            return f"{number:,} {'day' if number == 1 and name == 'days' else name}"
    return f"{time_s} s"


def size(number: int) -> str:
    """Return a number of bytes in the largest unit that it fills."""
    for unit, name in _UNITS_BYTES:
        if number >= unit:
            return f"{number // unit:,} {name}"
    return counted(number, "byte")


def counted(number: int, thing: str) -> str:
    """Return a number with what it counts: ``1 byte``, ``2 bytes``."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def named(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
