"""The results of syncs: stored by each sync, and shown once by the next command of a person on a terminal."""

from __future__ import annotations

from contextlib import closing, suppress
import os
import sys
from typing import TYPE_CHECKING, Any

from tallybook.ledger import clock
from tallybook.ledger.errors import LockHeldError, TallybookError
from tallybook.projections.surfaces.console.output import format_time, note
from tallybook.projections.surfaces.hooks import sync_results
from tallybook.projections.surfaces.sharing import engines, joining, membership, status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallybook.projections.surfaces.sharing.membership import Membership
    from tallybook.projections.surfaces.sharing.syncing import SyncResult
    from tallybook.projections.surfaces.workspace.project import Project

_STANDARD_FILES, _MAX_FILES = 3, 1024


def sync(project: Project, part: Membership, limit_s: float) -> SyncResult:
    """Sync once and store what that changed, or why it failed.

    Raises:
        TallybookError: As ``joining.run``; a sync that found another one at work stores nothing.
    """
    before = status.own_end(project)
    try:
        with closing(engines.open_engine(part.engine, part.address, part.name, part.options, project.ledger)) as engine:
            result = joining.run(project, part, engine, limit_s)
    except LockHeldError:
        raise
    except Exception as error:
        # A fault of ours too: nobody sees the output of a detached sync.
        problem = str(error) if isinstance(error, TallybookError) else f"{type(error).__name__}: {error}"
        sync_results.store(project, (before, before), [], [problem], shown=is_seen())
        raise
    store(project, before, result)
    return result


def store(project: Project, before: int, result: SyncResult) -> None:
    """Store what a sync changed since an own event; a person at a terminal has read it already."""
    changes = status.change_lines(project, before) if result.taken else []
    problems = [f"{run.place}: does not count: {run.why}" for run in result.skipped]
    problems += [result.refusal] if result.refusal else []
    sync_results.store(project, (before, status.own_end(project)), changes, problems, shown=is_seen())


def is_seen() -> bool:
    """Return whether a person reads what this command prints."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def sync_unattended(project: Project, limit_s: float) -> int:
    """Sync as the process that a hook started: it has no terminal, and its result is stored."""
    with suppress(OSError, AttributeError):
        os.setsid()
    # The agent's open files, inherited from the hook.
    os.closerange(_STANDARD_FILES, _MAX_FILES)
    part = membership.load(project)
    if part is not None:
        with suppress(Exception):
            sync(project, part, limit_s)
    return 0


def tell_new(project: Project) -> None:
    """Print what syncs changed and met that nobody has seen, a line each, on standard error, once."""
    with suppress(TallybookError, OSError):
        if membership.load(project) is not None:
            with sync_results.new_results(project) as results:
                note(*(line for one in results for line in lines(one)))


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a result for people: a line for each change and each problem."""
    when = format_time(clock.moment(result["at"]).at)
    for what in (*result["changes"], *result["problems"]):
        yield f"sync {when}: {what}"
