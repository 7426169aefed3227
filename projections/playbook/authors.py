"""The view of who gave the entries their texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import events
from tallybook.projections.fold import State, batch_view

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch

_TEXTS: Final = (events.PointAdded, events.PointSeeded, events.PointEdited, events.PointReworded, events.PointMatched)
_PERSON: Final = "human"


@attrs.define
class Authors(State):
    """Who gave the entries their texts.

    Attributes:
        texts: Name → the text that the entry was given last.
        by_person: Names of entries whose present text a person typed, or accepted.
    """

    texts: dict[str, str | None] = attrs.field(factory=dict)
    by_person: set[str] = attrs.field(factory=set)


def _apply_batch(state: Authors, batch: Batch) -> None:
    for record in batch.records:
        event: Any = record.event
        if not isinstance(event, _TEXTS) or state.texts.get(event.name, "") == event.text:
            continue
        state.texts[event.name] = event.text
        if record.by.rater == _PERSON:
            # A person's entry that was joined to another one of the same text is that one.
            state.by_person |= {event.name, getattr(event, "to", event.name)}
        else:
            state.by_person.discard(event.name)


AUTHORS: Final = batch_view(Authors, _TEXTS, _apply_batch)
