"""What a view came to at a moment, or to now with what a hand changed in the file, and which moment that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import attrs

from projections.fold import State, fold
from projections.surfaces import checkpoints, playbook_file
from projections.surfaces import when as moments
from projections.surfaces.reading import open_log
from projections.voids import fold_history

if TYPE_CHECKING:
    from projections.checkpoint import Form
    from projections.surfaces.project import Project

S = TypeVar("S", bound=State)
UNTAKEN: Final = "now, with what was changed in playbook.json and no command has taken in yet"


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
        state = checkpoints.folded(form, open_log(project), moment.seq)
    return Stood(state, moments.as_of(moment, state), state.seq, moment.notes, moment.commit)


def stands(project: Project, form: Form[S]) -> Stood[S]:
    """Return what a view comes to now, with what a hand changed in the file and no command has taken in yet."""
    log = open_log(project)
    state = checkpoints.folded(form, log)
    end = state.seq
    found = playbook_file.examine(project, form.book(state), log.read)
    if not found.events:
        return Stood(state, moments.as_of(moments.Moment(end, log.read), state), end)
    return Stood(fold(form.view, [playbook_file.batch_of_found(state, found, log.now().at)], state), UNTAKEN, end)


def numbered(answer: Stood[Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows that name an event each, with neither number nor id where it is none yet."""
    untaken = {"seq": None, "id": None}
    return [row if row["event"]["seq"] <= answer.end else row | {"event": row["event"] | untaken} for row in rows]
