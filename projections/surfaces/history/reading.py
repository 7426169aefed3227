"""Reading: a project's ledger, and the playbook that it comes to. Every verb that only asks comes here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallybook.ledger.backends import table
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.line import START, Position
from tallybook.projections.fold import fold
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces.console.output import METER
from tallybook.projections.surfaces.history import checkpoints
from tallybook.projections.undo import fold_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallybook.ledger.backends.jsonl import JsonlLog
    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.log import Log
    from tallybook.ledger.records import Batch
    from tallybook.projections.fold import State
    from tallybook.projections.surfaces.workspace.project import Project


def open_log(project: Project) -> JsonlLog:
    """Return the project's ledger; nothing is created yet."""
    log = table.open_log(project.ledger)
    log.watch = METER.watcher
    return log


def open_for_append(project: Project) -> JsonlLog:
    """Return the project's ledger for a command that may begin it; nothing is created yet.

    Raises:
        BadInputError: There is no ledger, and the project is the home folder, which nobody named.
    """
    log = open_log(project)
    if project.unnamed_home and not log.exists():
        hint = f"change to a project, or give --project {project.root}; nothing was recorded"
        raise BadInputError(str(project.root), "the home folder is not a project", hint)
    return log


def batches(project: Project) -> Iterator[Batch]:
    """Yield the ledger's batches."""
    return decode(open_log(project).read())


def mark_of(state: State) -> Position:
    """Return the place behind what a state has folded."""
    return Position(state.seq, state.chain, state.end) if state.seq else START


def current(log: Log, until: int | None = None, *, cold: bool = False) -> Playbook:
    """Return the playbook at the end of the ledger, or at an earlier moment; ``cold`` takes nothing from a cache."""
    return checkpoints.playbook(log, until, whole=cold)


def caught_up(read: Callable[[Position], Iterator[RawBatch]], state: Playbook) -> Playbook:
    """Return a state folded on to the end of the ledger; anew where what it has folded was redacted or undone since."""
    rewrites = state.rewrites
    state = fold(PLAYBOOK, decode(read(mark_of(state))), state)
    return state if state.rewrites == rewrites else fold_history(PLAYBOOK, lambda: decode(read(START)))
