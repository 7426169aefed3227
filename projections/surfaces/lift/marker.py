"""The marker by which hooks know the open question, which they have no time to fold. It follows every write."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import TallybookError
from tallybook.ledger.events import EventsVoided, LiftAsked, LiftStopped
from tallybook.projections.surfaces.hooks import draws

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.ledger.log import JsonlLog
    from tallybook.ledger.records import EventRecord
    from tallybook.projections.lift.view import Lift
    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.workspace.project import Project

_ASKED: Final = b'"kind":"lift.asked"'


def save(project: Project, state: Lift, book: Playbook) -> None:
    """Write the marker of the open question, or remove it."""
    event = state.questions[state.open].event if state.open else None
    question = None if event is None else draws.Question(state.open, event.question, event.names, tuple(book.pinned))
    draws.save_question(project, question)


def refresh(project: Project, book: Playbook, *, undone: bool) -> None:
    """Bring the marker up to date after a write: by pins, by an undo of a question, or because the file was lost."""
    question = draws.read_question(project)
    if question is not None and not undone:
        if set(question.pinned) != book.pinned:
            draws.save_question(project, question._replace(pinned=tuple(book.pinned)))
    elif (undone or not draws.is_closed(project)) and draws.read_secrets(project):
        # Few projects have a question, and its modules compute scores.
        from tallybook.projections.surfaces.lift import questions

        # The events are durable, and `lift` itself says what is wrong.
        with suppress(TallybookError):
            save(project, questions.load_state(project), book)


def is_changed_by_undo(log: JsonlLog, records: Sequence[EventRecord]) -> bool:
    """Return whether undoing events begins or ends that something is withheld, by an undo of an undo too."""
    if not log.may_contain(_ASKED):
        return False
    ids: set[str] = set()
    for batch in decode(log.read()):
        for record in batch.records:
            event: Any = record.event
            is_undo = isinstance(event, EventsVoided) and bool(ids.intersection(event.ids))
            if is_undo or isinstance(event, LiftAsked | LiftStopped):
                ids.add(record.id)
    return not ids.isdisjoint(one.id for one in records)
