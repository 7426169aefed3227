"""What a check of the doctor takes and yields, and how findings write lists of names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import attrs

from tallybook.projections.surfaces.history.reading import open_own_log
from tallybook.projections.surfaces.workspace import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.ledger.clock import Now
    from tallybook.ledger.log import JsonlLog
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.workspace.settings import Settings

OK = "ok"
NOTE = "note"
BAD = "bad"

_MAX_NAMES = 3


@attrs.frozen
class Finding:
    """One result of a check. Printed, it reads: what is wrong, why it matters; the fix.

    Attributes:
        level: ``ok``; ``note``, better changed; or ``bad``, someone has to act.
        message: What the check found and, where it is not plain, why that matters.
        fix: The command or edit that fixes it; a check that is not ok always has one.
        check: Name of the check, ``spool``; the runner fills it in from the table of checks.
        is_damage: Whether acknowledged bytes are gone or changed.
    """

    level: str
    message: str
    fix: str = ""
    check: str = ""
    is_damage: bool = False


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

    @property
    def settings(self) -> Settings:
        """Return the settings in force, read from the files: the usual way would write to the cache."""
        return settings.merge({path: settings.load(path) for path in settings.files(self.project)})


Check: TypeAlias = Callable[[Context], Iterator[Finding]]
"""A check: yields what it finds and changes nothing on disk."""


def format_names(names: Sequence[str]) -> str:
    """Return the first three names, and how many more there are."""
    rest = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + rest
