"""A project's ledger, opened with its shared book, and what one command knows of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, TypeGuard, cast

from tallybook.ledger.codec import decode
from tallybook.ledger.line import START, RawBatch
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.names import BY_SECTION, PREFIX
from tallybook.ledger.playbook_constants import PERSONAL_PREFIX, SECTIONED
from tallybook.ledger.records import Batch
from tallybook.ledger.scan import find_or_read
from tallybook.ledger.storage import redacted_digests
from tallybook.ledger.storage.redacted_digests import Redactions
from tallybook.projections.playbook.fold import fold, fold_history
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces.console.output import METER
from tallybook.projections.surfaces.history.checkpoints import PLAYBOOK_FORM, Form, S, fold_log, position_of
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.personal import PersonalPlaybook
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.workspace.settings import Settings

if TYPE_CHECKING:
    from tallybook.ledger.log import Log
    from tallybook.projections.surfaces.history.shared_log import SharedLog


def open_log(project: Project) -> JsonlLog:
    """Return the project's ledger, with the shared book in it if it has one; nothing is created yet."""
    log = open_own_log(project)
    head = log.read_head()
    # Its own events are then not all of its history.
    if head is not None and head.shared:
        from tallybook.projections.surfaces.history.shared_log import SharedLog

        log = SharedLog(project.ledger, log.now)
        log.watch = METER.update
    return log


def open_own_log(project: Project) -> JsonlLog:
    """Return the project's own ledger alone, for what no book shares; nothing is created yet."""
    log = JsonlLog(project.ledger)
    log.watch = METER.update
    return log


def batches(project: Project) -> Iterator[Batch]:
    """Yield the ledger's batches."""
    return decode(open_log(project).read())


def current(log: Log, until: int | None = None, *, cold: bool = False) -> Playbook:
    """Return the playbook at the end of the ledger or as of a moment, as ``fold_view``."""
    return fold_view(PLAYBOOK_FORM, log, until, cold=cold)


def fold_view(form: Form[S], log: Log, until: int | None = None, *, cold: bool = False) -> S:
    """Return the state of a view at the end of a ledger or as of a moment, from its checkpoint on.

    Args:
        form: The view, and how its state is saved.
        log: The ledger.
        until: The moment, as for ``fold``; None for the end.
        cold: Whether to fold from the first event on and not from the checkpoint; a new one is stored all the same.

    Raises:
        TallybookError: The ledger is damaged or cannot be read.
    """
    if not has_book(log):
        return fold_log(form, log, until, cold=cold)
    # Of a ledger with a book in it the moment is one of the own ledger, and the checkpoints are of the book alone.
    log_then = log if until is None else log.open_at(until)
    if form.view is not PLAYBOOK:
        return log_then.state(form)
    if until is not None and not log_then.history.frontier.seq:
        # Before the ledger was in a book.
        return fold_log(form, log_then.own, until)
    return cast("S", log_then.playbook())


def search(log: Log, needles: Collection[bytes]) -> Iterator[RawBatch]:
    """Return the batches of a log that hold one of these byte strings, in order.

    Of a log file others are not read unless one of these is damaged, so damage in them is found by ``verify``.
    """
    # In a shared history a name of the own ledger can be another one.
    if type(log) is JsonlLog:
        return find_or_read(log, needles)
    return (batch for batch in log.read() if any(needle in batch.data for needle in needles))


def has_book(log: Log) -> TypeGuard[SharedLog]:
    """Return whether a ledger has a shared book in it."""
    return isinstance(log, JsonlLog) and type(log) is not JsonlLog


def catch_up(log: JsonlLog, state: Playbook) -> Playbook:
    """Return a state folded to the end of the ledger; anew where what it has folded was redacted or undone since."""
    if has_book(log):
        return log.refresh().playbook()
    rewrites, prefix = state.rewrites, state.prefix
    state = fold(PLAYBOOK, decode(log.read(position_of(state))), state)
    if state.rewrites != rewrites:
        state = fold_history(PLAYBOOK, lambda: decode(log.read(START)))
    # A fold from the beginning does not know how new entries are to be named.
    state.prefix = prefix
    return state


class Opened:
    """A project for the time of one command. What it has read it does not read again, whatever others change.

    Attributes:
        project: The paths of the project.
        log: The ledger, with the shared book in it if the project has one.
    """

    def __init__(self, project: Project) -> None:
        """Take the project; nothing is created."""
        self.project = project
        self.log = open_log(project)

    @cached_property
    def settings(self) -> Settings:
        """Return the settings that apply; no cache of them is written."""
        return settings.read(self.project, store=False)

    @cached_property
    def redactions(self) -> Redactions:
        """Return the texts that were redacted here."""
        return redacted_digests.load(self.project.ledger)

    @cached_property
    def prefix(self) -> str:
        """Return the beginning of the names that new entries are given."""
        if isinstance(self.project, PersonalPlaybook):
            return PERSONAL_PREFIX
        return BY_SECTION if self.settings.format == SECTIONED else PREFIX

    def playbook(self, *, cold: bool = False) -> Playbook:
        """Return the playbook at the end of the ledger, as ``reading.current``: each time as it is then."""
        return fold_view(PLAYBOOK_FORM, self.log, cold=cold)

    def close(self) -> None:
        """Close the ledger."""
        self.log.close()
