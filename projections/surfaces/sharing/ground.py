"""What batches land on: a playbook that knows by which event each entry was made, and folds what lands."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.events import MAKERS, EventsVoided, PointMatched
from tallybook.ledger.sharing.landing import Ground
from tallybook.projections.fold import UNDOABLE, UndoneEvent, View, fold, fold_history
from tallybook.projections.playbook.checkpoint import pack, unpack_as
from tallybook.projections.playbook.view import PLAYBOOK, Playbook, settle
from tallybook.projections.surfaces.history.reading import Form

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.records import Batch


@attrs.define
class BookState(Playbook):
    """The playbook, with who made its entries.

    Attributes:
        ids: Name → id of the event that made the entry, also where that is undone.
        matched: Name of an entry that was joined to another one when it landed → that one.
    """

    ids: dict[str, str] = attrs.field(factory=dict)
    matched: dict[str, str] = attrs.field(factory=dict)


def _settle(state: BookState, batch: Batch) -> None:
    settle(state, batch)
    if any(isinstance(event, (*MAKERS, UndoneEvent)) for event in batch.events):
        for record in batch.records:
            event: Any = record.event
            if isinstance(event, PointMatched):
                state.matched[event.name] = event.to
            event = event.event if isinstance(event, UndoneEvent) else event
            if isinstance(event, MAKERS):
                state.ids.setdefault(event.name, record.id)


def _pack(state: BookState) -> dict[str, Any]:
    return pack(state) | {"ids": state.ids, "matched": state.matched}


def _unpack(values: Mapping[str, Any]) -> BookState:
    state = unpack_as(BookState, values)
    state.ids, state.matched = dict(values["ids"]), dict(values["matched"])
    return state


BOOK: Final[View[BookState]] = View(BookState, PLAYBOOK.table, _settle)
"""The view of what batches land on."""

BOOK_FORM: Final[Form[BookState]] = Form("book", BOOK, _pack, _unpack, lambda state: state)
"""How it is saved."""


def make_ground(state: BookState, read: Callable[[], Iterable[RawBatch]], **facts: Any) -> Ground:
    """Return what batches land on.

    Args:
        state: The playbook there; it is changed.
        read: Returns the batches there.
        facts: The other attributes of `Ground`.
    """
    return Ground(state, state.ids, state.matched, partial(_advance, read), read=read, **facts)


def _advance(read: Callable[[], Iterable[RawBatch]], ground: Ground, raw: RawBatch) -> None:
    """Fold a landed batch; all of history anew where it undoes something."""
    [batch] = decode([raw])
    state: Any = ground.state
    if any(isinstance(event, EventsVoided) for event in batch.events):
        state = fold_history(BOOK, lambda: decode([*read(), *ground.landed]))
    else:
        fold(BOOK, [batch], state)
    ground.state, ground.ids, ground.matched = state, state.ids, state.matched
    for record in batch.records:
        event: Any = record.event
        if isinstance(event, MAKERS) and state.ids.get(event.name) == record.id:
            ground.names[record.id] = event.name


def ids_of_session(batches: Iterable[Batch], session: str) -> Iterator[str]:
    """Yield the ids of a session's events that can be undone."""
    for batch in batches:
        if batch.may_contain_text(session):
            for one in batch.records:
                kind = type(one.event)
                if one.by.session == session and kind in UNDOABLE and kind is not EventsVoided:
                    yield one.id
