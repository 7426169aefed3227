"""The state of a view as of a moment, or now with a manual edit of ``playbook.json``, and which moment that is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import attrs

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import BadInputError, DamagedLedgerError
from tallybook.ledger.fast_stdlib import sha256
from tallybook.ledger.sharing.numbers import PENDING, book_number
from tallybook.projections.fold import State, fold, fold_history
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces.console.output import format_time
from tallybook.projections.surfaces.history.opened import Opened
from tallybook.projections.surfaces.history.reading import fold_view, log_with_book, open_log

if TYPE_CHECKING:
    from tallybook.ledger.log import Log
    from tallybook.projections.surfaces.history.checkpoints import Form
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.workspace.project import Project

S = TypeVar("S", bound=State)
WITH_EDIT: Final = "now, with a manual edit of playbook.json that is not recorded yet"
_CHAIN_FITS: Final = "its chain fits, but "
UNVERIFIED: Final = (
    "the chain was not verified, so a changed ledger is shown as it is; `tallybook verify` finds changes"
)


@attrs.frozen
class AsOf(Generic[S]):
    """The state of a view as of a moment.

    Attributes:
        state: The view's state.
        moment: Which moment that is, for people: "event 812, 2026-11-21 20:17 UTC".
        end: Number of the last event in it. Later numbers in the state are those of a manual edit of
            ``playbook.json``, which is no event yet.
        notes: Notes for a person, a line each.
        commit: The commit whose own history it is of; empty for the project's.
    """

    state: S
    moment: str
    end: int
    notes: tuple[str, ...] = ()
    commit: str = ""

    @property
    def has_edit(self) -> bool:
        """Return whether a manual edit that is not recorded yet is in it."""
        return self.state.seq > self.end

    def number(self, seq: int) -> int | None:
        """Return the number of an event in the state, None for one that is not recorded yet."""
        return seq if seq <= self.end else None

    def without_numbers(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return rows that name an event each, with neither number nor id where it is not recorded yet."""
        no_event = {"seq": None, "id": None}
        return [row if row["event"]["seq"] <= self.end else row | {"event": row["event"] | no_event} for row in rows]


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
    if when is None:
        return _ask_now(project, form)
    from tallybook.projections.surfaces.history import moments

    log = open_log(project)
    moment = moments.find(project, when, option, log)
    state = state_at(form, log, moment)
    end = PENDING + state.seq if log_with_book(log) and not moment.commit else state.seq
    return AsOf(state, describe(state, moment.seq, moment.named), end, moment.notes, moment.commit)


def last_rendering(project: Project, *, edited: bool = False) -> Playbook | None:
    """Return the entries that ``playbook.json`` was rendered with last; None where it is no such rendering.

    Args:
        project: The project.
        edited: Whether a file with a manual edit will do.
    """
    from tallybook.ledger.decisions.legacy_import import read_legacy
    from tallybook.projections.surfaces.history import playbook_file

    rendered, data = playbook_file.last_rendered(project), playbook_file.read_bytes(project.playbook)
    if rendered is None or data is None or not (edited or sha256(data).hexdigest() == rendered.sha256):
        return None
    try:
        legacy = read_legacy(data, project.playbook.name)
    except BadInputError:
        return None
    top = legacy.top_keys
    updated = top.pop("last_updated", None)
    entries = {item.entry.name: item.entry for item in legacy.items}
    return Playbook(rendered.seq, entries=entries, used=set(entries), top=top, adopted_at=updated)


def state_at(form: Form[S], log: Log, moment: Moment) -> S:
    """Return the state of a view as of a moment of a ledger, from the nearest checkpoint on where there may be one."""
    # The history of a commit, or of the book alone, is another than the project's own.
    if not moment.is_apart:
        return fold_view(form, log, moment.seq)
    state = fold_history(form.view, moment.history)
    if moment.in_book is not None:
        book = form.book(state)
        book.stamp, book.shared_stamp = (0, ""), (book_number(book.stamp[0]) or 0, book.stamp[1])
    return state


def _ask_now(project: Project, form: Form[S]) -> AsOf[S]:
    from tallybook.projections.surfaces.history import playbook_file

    opened = Opened(project)
    log, state = opened.log, opened.state(form)
    end = PENDING + state.seq if log_with_book(log) else state.seq
    file = playbook_file.examine(opened, form.book(state))
    if not file.events:
        return AsOf(state, describe(state, state.seq), end)
    return AsOf(fold(form.view, [playbook_file.edit_batch(end, file, log.now().at)], state), WITH_EDIT, end)


def ask_unverified(project: Project, when: str | None) -> AsOf[Playbook]:
    """Return the playbook now or as of a moment without comparing any chain value.

    It is not stored as a checkpoint, from which others would go on, and has no manual edit of ``playbook.json``.

    Raises:
        BadInputError: There is no such moment, or it is one of a commit's own history.
        DamagedLedgerError: Lines are missing, or cannot be read at all.
    """
    log = open_log(project)
    moment: Moment | None = None
    if when is not None:
        from tallybook.projections.surfaces.history import moments

        # Moments other than numbers are looked up with proof, as ever.
        moment = moments.find_here(project, when, "--at")
    read = partial(log.read, verify=False)
    try:
        until = None if moment is None else moment.seq
        if until is not None and log_with_book(log):
            read, until = partial(log.at(until).read, verify=False), None
        state = fold_history(PLAYBOOK, lambda: decode(read()), until)
        end = state.seq if moment is None else moment.seq
        description = describe(state, end, "" if moment is None else moment.named)
        # It is in the head of a batch, and heads are decoded when they are asked for.
        str(state.last_updated)
    except DamagedLedgerError as error:
        # The decoder says that the chain fits, which was not verified.
        unproven = [problem._replace(message=problem.message.removeprefix(_CHAIN_FITS)) for problem in error.problems]
        raise DamagedLedgerError(unproven) from error
    return AsOf(state, description, state.seq, (*(() if moment is None else moment.notes), UNVERIFIED))
