"""The results of syncs: stored by each sync, and shown once by the next command of a person on a terminal."""

from __future__ import annotations

from contextlib import closing, suppress
import os
import sys
from typing import TYPE_CHECKING, Any

from tallybook.ledger import clock
from tallybook.ledger.errors import LockHeldError, MissingLinesError, TallybookError
from tallybook.ledger.line import LOG_NAME
from tallybook.ledger.sharing.counting import SKIPPED
from tallybook.projections.surfaces.console.output import format_time, note
from tallybook.projections.surfaces.history.reading import open_own_log
from tallybook.projections.surfaces.hooks import sync_results
from tallybook.projections.surfaces.sharing import joining, membership, status
from tallybook.projections.surfaces.sharing.own_history import read_syncs
from tallybook.projections.surfaces.sharing.shared_log import SharedLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tallybook.projections.surfaces.sharing.membership import Membership
    from tallybook.projections.surfaces.sharing.rejoining import Rejoined
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
        opened = membership.open_engine(part, project.ledger, limit_s=limit_s)
        with closing(opened) as engine:
            result = joining.run(project, part, engine, limit_s)
    except LockHeldError:
        # The other sync stores its own result.
        raise
    except Exception as error:
        # A fault of ours too: nobody sees the output of a detached sync.
        problem = str(error) if isinstance(error, TallybookError) else f"{type(error).__name__}: {error}"
        _store(project, before, [problem], taken=0)
        raise
    store(project, before, result)
    return result


def store(project: Project, before: int, result: SyncResult) -> None:
    """Store what a sync changed since an own event; a person at a terminal has read it already."""
    problems = [str(run) for run in result.skipped]
    problems += [result.refusal] if result.refusal else []
    _store(project, before, problems, taken=result.taken)


def drop_skipped(project: Project) -> None:
    """Forget the runs that do not count, because the book was stored anew without them."""
    with sync_results.open_results(project) as results:
        for result in results:
            result["problems"] = [text for text in result["problems"] if SKIPPED not in text]


def store_rejoined(project: Project, before: int, done: Rejoined) -> None:
    """Store what taking another history changed since an own event."""
    _store(project, before, [], taken=done.taken)


def _store(project: Project, before: int, problems: Sequence[str], *, taken: int) -> None:
    """Store the result of a sync that began at an own event, after what earlier ones could not store."""
    with sync_results.open_results(project) as results:
        changes: list[str] = []
        events = [sync_results.last_event(results)] * 2
        with suppress(MissingLinesError):
            missed = _find_missed(project, results)
            _add_missed(project, results, [seq for seq in missed if seq <= before])
            # Those of this sync may have been told already, by a command that found them in the ledger.
            new = [seq for seq in missed if seq > before]
            changes = [line for seq in new for line in _changes(project, seq)] if taken else []
            events = [before, max([before, *new])]
        sync_results.add(results, events, changes, problems, shown=is_seen())


def store_missed(project: Project) -> None:
    """Store what syncs changed that were killed before they could store it.

    Raises:
        TallybookError: The lock or the disk refuses, or lines of the book are missing.
    """
    with sync_results.open_results(project) as results:
        _add_missed(project, results, _find_missed(project, results))


def _add_missed(project: Project, results: list[dict[str, Any]], seqs: Sequence[int]) -> None:
    for seq in seqs:
        sync_results.add(results, (seq - 1, seq), _changes(project, seq), [], shown=False)


def _find_missed(project: Project, results: Sequence[dict[str, Any]]) -> list[int]:
    """Return the own numbers of the arrivals of which no result says what they changed."""
    found = read_syncs(open_own_log(project)) if (project.ledger / LOG_NAME).exists() else []
    told = sync_results.last_event(results)
    # Without results all were told, unless the very first sync was killed.
    return [sync.number for sync in found if sync.number > told] if told or len(found) == 1 else []


def _changes(project: Project, seq: int) -> list[str]:
    """Return what an arrival changed, a line for each change; nothing where the copy of that history was deleted.

    Raises:
        MissingLinesError: A sync brings the lines.
    """
    try:
        return status.change_lines(project, seq - 1, seq)
    except MissingLinesError:
        log = SharedLog(project.ledger)
        if not log.copy.has(log.history.frontier.chain):
            raise
        return []


def is_seen() -> bool:
    """Return whether a person reads what this command prints."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def sync_unattended(project: Project, limit_s: float) -> int:
    """Sync as the process that a hook started: it has no terminal, and its result is stored."""
    with suppress(OSError, AttributeError):
        # Some systems cannot begin a session for another process, so the hook could not.
        os.setsid()
    # The agent's open files, inherited from the hook.
    os.closerange(_STANDARD_FILES, _MAX_FILES)
    part = membership.load(project)
    if part is not None:
        with suppress(Exception):
            # Nobody reads an error here, and what went wrong is stored.
            if part.engine == "git" and (log := SharedLog(project.ledger)).history.pending:
                clock.wait_about(status.longest_wait(log.copy))
            sync(project, part, limit_s)
    return 0


def tell_new(project: Project) -> None:
    """Print what syncs changed and met that nobody has seen, a line each, on standard error, once."""
    with suppress(TallybookError, OSError):
        # A command that did its own work does not fail for what syncs have to say.
        if membership.load(project) is not None:
            store_missed(project)
            with sync_results.new_results(project) as results:
                note(*(line for result in results for line in lines(result)))


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a result for people: a line for each change and each problem."""
    when = format_time(clock.moment(result["at"]).at)
    for what in (*result["changes"], *result["problems"]):
        yield f"sync {when}: {what}"
