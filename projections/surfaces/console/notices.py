"""The moment of an answer: found from an option, and noted on standard error with changes that are not recorded yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tallybook.ledger.events import PointAdded, PointEdited, PointRemoved, PointSeeded
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import note
from tallybook.projections.surfaces.history import moments, playbook_file
from tallybook.projections.surfaces.history.reading import Opened

if TYPE_CHECKING:
    from tallybook.projections.fold import State
    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.workspace.project import Project

_MAX_NAMES: Final = 5
_MANUAL_EDITS: Final = (PointAdded, PointSeeded, PointEdited, PointRemoved)
_NEXT_WRITE: Final = "the next command that writes records it"


def find_moment(project: Project, when: str | None) -> Moment | None:
    """Return the moment that ``--at`` names, None without one; print which moment it is and notes about it."""
    if when is None:
        return None
    moment = moments.find(project, when)
    # A plain event number needs no explanation.
    if when != str(moment.seq):
        place = f"event {moment.seq}" if moment.seq else "the beginning, before any event"
        note(f"{when} is {place}{f', {moment.named}' if moment.named else ''}")
    note(*moment.notes)
    return moment


def find_seq(project: Project, when: str | None, option: str) -> int | None:
    """Return the event number of the moment that an option names, None without one; print notes about it.

    Raises:
        BadInputError: It names no moment of the project's own ledger.
    """
    if when is None:
        return None
    moment = moments.find_here(project, when, option)
    note(*moment.notes)
    return moment.seq


def note_moment(moment: Moment | None, state: State) -> None:
    """Print which moment an answer shows if the user named an event inside a batch."""
    if moment is not None and state.seq < moment.seq:
        from tallybook.projections.surfaces.history.stories import describe

        note(f"as of {describe(state, moment.seq, moment.named)}")


def note_pending(project: Project, moment: Moment | None, book: Playbook, name: str | None = None) -> None:
    """Print what the next command that writes will record, as far as it concerns an answer.

    Args:
        project: The project of the answer.
        moment: The moment that the user named, None for now.
        book: The playbook at that moment.
        name: The entry that the answer is about, None for all of them.
    """
    note(*commands.spool_notes(project))
    if moment is not None:
        return
    edits = playbook_file.examine(Opened(project), book).events
    names = [event.name for event in edits if isinstance(event, _MANUAL_EDITS)]
    if name is None and names:
        rest = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        note(f"playbook.json has manual edits of {', '.join(names[:_MAX_NAMES])}{rest}; {_NEXT_WRITE}")
    elif name in names:
        removed = any(isinstance(event, PointRemoved) and event.name == name for event in edits)
        what = "removed it from" if removed else f"{'changed' if name in book.entries else 'added'} it in"
        note(f"a manual edit {what} playbook.json; {_NEXT_WRITE}")
