"""The view of proposals: those that no person has accepted or rejected yet. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger import events
from tallybook.projections.fold import State, View, batch_view

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord


@attrs.define
class Proposals(State):
    """The proposals of a ledger.

    Attributes:
        open: Id → the event that proposed it, in order, for each that was not decided.
    """

    open: dict[str, EventRecord] = attrs.field(factory=dict)


def _apply(state: Proposals, batch: Batch) -> None:
    for record in batch.records:
        if isinstance(record.event, events.PointProposed):
            state.open[record.id] = record
        elif isinstance(record.event, events.ProposalDecided):
            state.open.pop(record.event.id, None)


PROPOSALS: Final[View[Proposals]] = batch_view(Proposals, (events.PointProposed, events.ProposalDecided), _apply)
