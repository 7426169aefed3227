"""The view of proposals: those that no person has accepted or rejected yet. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import events
from tallybook.projections.event_rows import summary
from tallybook.projections.fold import State, View, batch_view
from tallybook.projections.playbook.entry_state import REDACTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.ledger.records import Batch, EventRecord


LESSON_VERB: Final = "add"
ACCEPTED: Final = "accepted"


@attrs.define
class Proposals(State):
    """The proposals of a ledger.

    Attributes:
        open: Id → the event that proposed it, in order, for each that was not decided.
        lessons: The texts of all lessons, whatever became of them.
        accepted: How many lessons were accepted.
    """

    open: dict[str, EventRecord] = attrs.field(factory=dict)
    lessons: set[str] = attrs.field(factory=set)
    accepted: int = 0


def _apply(state: Proposals, batch: Batch) -> None:
    for record in batch.records:
        if isinstance(record.event, events.PointProposed):
            state.open[record.id] = record
            if is_lesson(record):
                # An agent proposed again what a person had rejected, so that the text stays known.
                state.lessons.add(record.event.text or "")
        elif isinstance(record.event, events.ProposalDecided):
            decided = state.open.pop(record.event.id, None)
            if decided is not None and record.event.verdict == ACCEPTED and is_lesson(decided):
                state.accepted += 1


def is_lesson(record: EventRecord) -> bool:
    """Return whether a proposal is a lesson: a new entry by an agent's mark, which a person sees whole."""
    return getattr(record.event, "verb", "") == LESSON_VERB


def proposal_lines(record: EventRecord) -> Iterator[str]:
    """Yield a proposal for people: what it would do; of a lesson its whole text, and the message it came from."""
    event: Any = record.event
    by = record.by.agent or record.by.rater
    session = f" in session {record.by.session}" if record.by.session else ""
    if not is_lesson(record):
        yield f"{summary(event)}  ({event.cause}; by {by}{session})"
        return
    # Whole, because later sessions get the text as it is accepted here.
    yield f"{event.text or REDACTED}  (lesson; by {by}{session})"
    yield f"    in its message: {event.reason or REDACTED}"


PROPOSALS: Final[View[Proposals]] = batch_view(Proposals, (events.PointProposed, events.ProposalDecided), _apply)
