"""Notes on standard error about an answer: its moment, and changes that the ledger does not have yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tallybook.ledger.events import PointAdded, PointEdited, PointRemoved, PointSeeded
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import note
from tallybook.projections.surfaces.history import moments, playbook_file
from tallybook.projections.surfaces.history.reading import open_log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallybook.projections.fold import State
    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.workspace.project import Project

MAX_NAMES: Final = 5
"""Entries that a note names at most."""

MANUAL_EDITS: Final = (PointAdded, PointSeeded, PointEdited, PointRemoved)
NEXT_WRITE: Final = "the next command that writes records it"


def note_pending(project: Project, moment: Moment | None, book: Playbook, name: str | None = None) -> None:
    """Print what the next command that writes will record, as far as it concerns an answer.

    Args:
        project: The project of the answer.
        moment: The moment that the user named, None for now.
        book: The playbook at that moment.
        name: The entry that the answer is about, None for all of them.
    """
    for line in commands.spool_notes(project):
        note(line)
    if moment is None and (line := manual_edits(project, book, name)):
        note(line)


def note_moment(moment: Moment | None, state: State) -> None:
    """Print which moment an answer shows if the user named an event inside a batch."""
    if moment is not None and state.seq < moment.seq:
        note(f"as of {moments.as_of(moment, state)}")


def manual_edits(project: Project, book: Playbook, name: str | None = None) -> str:
    """Describe the manual edits of ``playbook.json`` that no command has recorded yet; empty for none.

    Args:
        project: The project of the file.
        book: The playbook at the end of the ledger.
        name: The entry that the answer is about, None for all of them.
    """
    found = playbook_file.examine(project, book, open_log(project).read).events
    events = {event.name: event for event in found if isinstance(event, MANUAL_EDITS)}
    if name is None:
        return f"playbook.json has manual edits of {_list(events)}; {NEXT_WRITE}" if events else ""
    if name not in events:
        return ""
    if isinstance(events[name], PointRemoved):
        return f"a manual edit removed it from playbook.json; {NEXT_WRITE}"
    return f"a manual edit {'changed' if name in book.points else 'added'} it in playbook.json; {NEXT_WRITE}"


def _list(given: Iterable[str]) -> str:
    """Return names as a list, the first of them where there are many."""
    names = list(given)
    first = ", ".join(names[:MAX_NAMES])
    return f"{first} and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else first
