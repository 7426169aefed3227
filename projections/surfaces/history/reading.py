"""A project's ledger, opened with its shared book, what one command knows of it, and states as of a moment."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final, Generic, TypeGuard, cast

import attrs

from tallybook.ledger.codec import decode
from tallybook.ledger.line import START, RawBatch
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.names import BY_SECTION, PREFIX
from tallybook.ledger.playbook_constants import PERSONAL_PREFIX, SECTIONED
from tallybook.ledger.records import Batch
from tallybook.ledger.scan import find_or_read
from tallybook.ledger.sharing.numbers import PENDING, book_number
from tallybook.ledger.storage import redacted_digests
from tallybook.ledger.storage.redacted_digests import Redactions
from tallybook.projections.fold import State, fold, fold_history
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces.console.output import METER, format_time
from tallybook.projections.surfaces.history.checkpoints import PLAYBOOK_FORM, Form, S, fold_log, position_of
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.personal import PersonalPlaybook
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.workspace.settings import Settings

if TYPE_CHECKING:
    from tallybook.ledger.log import Log
    from tallybook.projections.surfaces.sharing.shared_log import SharedLog


def open_log(project: Project) -> JsonlLog:
    """Return the project's ledger, with the shared book in it if it has one; nothing is created yet."""
    log = open_own_log(project)
    head = log.read_head()
    # Its own events are then not all of its history.
    if head is not None and head.shared:
        from tallybook.projections.surfaces.sharing.shared_log import SharedLog

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
    log_then = log if until is None else log.at(until)
    if form.view is not PLAYBOOK:
        return log_then.state(form)
    if until is not None and not log_then.history.frontier.number:
        # Before the ledger was in a book.
        return fold_log(form, log_then.own, until)
    return cast("S", log_then.playbook())


def search(log: Log, needles: Collection[bytes]) -> Iterator[RawBatch]:
    """Return the batches of a log that hold one of these byte strings, in order.

    Others are not read unless one of these is damaged, so damage in them is found by ``verify``.
    """
    if has_book(log):
        return find_or_read(log, needles, type(log).find)
    if isinstance(log, JsonlLog):
        return find_or_read(log, needles)
    return (batch for batch in log.read() if any(needle in batch.data for needle in needles))


def has_book(log: Log) -> TypeGuard[SharedLog]:
    """Return whether a ledger has a shared book in it."""
    return isinstance(log, JsonlLog) and type(log) is not JsonlLog


def catch_up(log: JsonlLog, state: Playbook) -> Playbook:
    """Return a state folded to the end of the ledger; anew where what it has folded was redacted or undone since."""
    if has_book(log):
        return log.refreshed().playbook()
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


# A state as of a moment

WITH_EDIT: Final = "now, with a manual edit of playbook.json that is not recorded yet"


@attrs.frozen
class AsOf(Generic[S]):
    """The state of a view as of a moment.

    Attributes:
        state: The view's state.
        moment: Which moment that is, for people: "event 812, 2026-11-21 20:17 UTC".
        notes: Notes for a person, a line each.
        commit: The commit whose own history it is of; empty for the project's.
    """

    state: S
    moment: str
    notes: tuple[str, ...] = ()
    commit: str = ""


def describe(state: State, seq: int, named: str = "") -> str:
    """Return which moment an answer shows: "event 812, 2026-11-21 20:17 UTC".

    Args:
        state: What was folded up to the moment.
        seq: The event number that was asked for.
        named: What else the moment is called.
    """
    if state.latest_batch is None:
        moment = "the beginning, before any event"
    else:
        moment = f"event {state.seq}, {format_time(state.latest_batch.at)}"
    if seq > state.seq:
        moment += f" (event {seq} is inside a batch, which counts as a whole)"
    return f"{moment}, {named}" if named else moment


def as_of(project: Project, form: Form[S], when: str | None = None, option: str = "--at") -> AsOf[S]:
    """Return the state of a view as of a moment; now, with a manual edit that is not recorded yet, without one.

    Raises:
        BadInputError: There is no such moment; the error begins with ``option``.
    """
    from tallybook.projections.surfaces.history import playbook_file

    opened = Opened(project)
    log, moment = opened.log, None
    if when is not None:
        from tallybook.projections.surfaces.history import moments

        moment = moments.find(project, when, option, log)
    if moment is None or not moment.is_apart:
        state = fold_view(form, log, None if moment is None else moment.seq)
    else:
        # The history of a commit, or of the book alone, is another than the project's own.
        state = fold_history(form.view, moment.history)
        if moment.in_book is not None:
            book = form.book(state)
            book.stamp, book.shared_stamp = (0, ""), (book_number(book.stamp[0]) or 0, book.stamp[1])
    if moment is not None:
        return AsOf(state, describe(state, moment.seq, moment.named), moment.notes, moment.commit)
    file = playbook_file.examine(opened, form.book(state))
    if not file.events:
        says = "playbook.json is not a playbook, so this is what the ledger says; `tallybook doctor` says why"
        return AsOf(state, describe(state, state.seq), (says,) if file.unreadable else ())
    end = PENDING + state.seq if has_book(log) else state.seq
    return AsOf(fold(form.view, [playbook_file.edit_batch(end, file, log.now().at)], state), WITH_EDIT)
