"""What a view came to at a moment, or to now with what a hand changed in the file, and which moment that is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import attrs

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import DamagedLedgerError, Problem
from tallybook.projections.fold import State, fold
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.history import moments, playbook_file, reading
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.undo import fold_history

if TYPE_CHECKING:
    from tallybook.projections.playbook.checkpoint import Form
    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.workspace.project import Project

S = TypeVar("S", bound=State)
UNTAKEN: Final = "now, with what was changed in playbook.json and no command has taken in yet"
UNPROVEN: Final = (
    "the chain was not verified, so what was changed in the ledger is believed; `tallybook verify` finds it"
)


@attrs.frozen
class Stood(Generic[S]):
    """What a view came to.

    Attributes:
        state: The view's state.
        told: Which moment that is, for people.
        end: Sequence number of the last event that it takes in. What the state numbers behind that was found in
            ``playbook.json``: it is no event yet, and has no number to be told by.
        notes: What people should hear beside it, a line each.
        commit: The commit whose own history it is of; empty for the project's.
    """

    state: S
    told: str
    end: int
    notes: tuple[str, ...] = ()
    commit: str = ""

    @property
    def is_untaken(self) -> bool:
        """Say whether something in it was found in ``playbook.json``."""
        return self.state.seq > self.end

    def number(self, seq: int) -> int | None:
        """Return the number of an event that the state tells of, None where it is none yet."""
        return seq if seq <= self.end else None


def stood(project: Project, form: Form[S], when: str, option: str = "--at") -> Stood[S]:
    """Return what a view came to at a moment.

    Raises:
        BadInputError: There is no such moment; the error begins with ``option``.
    """
    moment = moments.find(project, when, option)
    if moment.commit:
        # Its history may be another than the project's own.
        state = fold_history(form.view, moment.history, moment.seq)
    else:
        state = reading.fold_view(form, open_log(project), moment.seq)
    return Stood(state, moments.as_of(moment, state), state.seq, moment.notes, moment.commit)


def stands(project: Project, form: Form[S]) -> Stood[S]:
    """Return what a view comes to now, with what a hand changed in the file and no command has taken in yet."""
    log = open_log(project)
    state = reading.fold_view(form, log)
    end = state.seq
    found = playbook_file.examine(project, form.book(state), log.read)
    if not found.events:
        return Stood(state, moments.as_of(moments.Moment(end, log.read), state), end)
    return Stood(fold(form.view, [playbook_file.batch_of_found(state, found, log.now().at)], state), UNTAKEN, end)


def unproven(project: Project, when: str | None) -> Stood[Playbook]:
    """Return the playbook now, or at a moment, by what the ledger's lines say of themselves: no chain is compared.

    So nothing of it is kept as a checkpoint, from which others would go on, and what a hand changed in
    ``playbook.json`` is no part of it. A moment other than a number is looked up as ever.

    Raises:
        BadInputError: There is no such moment, or it is one of a commit's own history.
        DamagedLedgerError: Lines are missing, or cannot be read at all.
    """
    log = open_log(project)
    found = None if when is None else moments.find_here(project, when, "--at")
    read = partial(log.read, verify=False)
    try:
        state = fold_history(PLAYBOOK, lambda: decode(read()), None if found is None else found.seq)
        moment = moments.Moment(state.seq, read) if found is None else found
        told = moments.as_of(moment, state)
        # It stands in the head of a batch, and those are read when they are asked for.
        str(state.last_updated)
    except DamagedLedgerError as error:
        raise DamagedLedgerError([_plainly(problem) for problem in error.problems]) from error
    return Stood(state, told, state.seq, (*moment.notes, UNPROVEN))


def _plainly(problem: Problem) -> Problem:
    """Return a problem without what is said of a chain that nobody has looked at."""
    return problem._replace(message=problem.message.removeprefix("its chain fits, but "))


def numbered(answer: Stood[Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows that name an event each, with neither number nor id where it is none yet."""
    untaken = {"seq": None, "id": None}
    return [row if row["event"]["seq"] <= answer.end else row | {"event": row["event"] | untaken} for row in rows]
