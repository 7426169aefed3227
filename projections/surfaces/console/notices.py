"""What people hear beside an answer: which moment it shows, what waits, and what a hand changed that is not in it."""

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

NAMED: Final = 5
"""Entries that a note names at most."""

SAID: Final = (PointAdded, PointSeeded, PointEdited, PointRemoved)
TAKES_IN: Final = "the next command that writes takes it in"


def tell(project: Project, moment: Moment | None, book: Playbook, name: str | None = None) -> None:
    """Print what waits for the next command that writes, as far as it concerns an answer.

    Args:
        project: Whose answer.
        moment: The moment that was asked for, None for now.
        book: The playbook there.
        name: The entry that the answer is about, None for all of them.
    """
    if waits := commands.waiting(project):
        note(waits)
    if moment is None and (said := untaken(project, book, name)):
        note(said)


def as_of(moment: Moment | None, state: State) -> None:
    """Print which moment an answer shows, where the one that was asked for lies inside a batch."""
    if moment is not None and state.seq < moment.seq:
        note(f"as of {moments.as_of(moment, state)}")


def untaken(project: Project, book: Playbook, name: str | None = None) -> str:
    """Say what a hand changed in ``playbook.json`` that no command has taken in yet; empty for nothing.

    Args:
        project: Whose file.
        book: The playbook at the end of the ledger.
        name: The entry that is asked for, None for all of them.
    """
    found = playbook_file.examine(project, book, open_log(project).read).events
    events = {event.name: event for event in found if isinstance(event, SAID)}
    if name is None:
        return f"the ledger does not know yet what playbook.json says of {_list(events)}; {TAKES_IN}" if events else ""
    if name not in events:
        return ""
    if isinstance(events[name], PointRemoved):
        return f"a hand took it out of playbook.json; {TAKES_IN}"
    if name in book.points:
        return f"a hand changed it in playbook.json; {TAKES_IN}"
    return f"it stands in playbook.json, where a hand put it; {TAKES_IN}"


def _list(given: Iterable[str]) -> str:
    """Return names as a list, the first of them where there are many."""
    names = list(given)
    first = ", ".join(names[:NAMED])
    return f"{first} and {len(names) - NAMED} more" if len(names) > NAMED else first
