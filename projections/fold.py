"""The one loop over history: what a view is, and how a ledger becomes one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tallybook.ledger.records import Batch


@attrs.define
class State:
    """What a fold has come to; views add their own fields.

    Attributes:
        seq: The last line folded, 0 before the first: the moment this state shows.
        chain: Chain value there, empty before the first batch.
        latest_batch: The last batch folded, None before the first.
    """

    seq: int = 0
    chain: str = ""
    latest_batch: Batch | None = None

    @property
    def end(self) -> int:
        """Return the offset of the byte behind what was folded, where reading goes on."""
        return 0 if self.latest_batch is None else self.latest_batch.end


S = TypeVar("S", bound=State)


@attrs.frozen
class View(Generic[S]):
    """A projection: where it starts and what each kind of event does to it.

    Kinds that stand in no row change nothing, so kinds of later versions are ignored by all views.

    Attributes:
        start: Gives the state before the first event.
        table: Class of event → what it does to the state; the batch tells who and when.
        settle: Called once behind each batch of which at least one event stood in the table.
    """

    start: Callable[[], S]
    table: Mapping[type[Any], Callable[[S, Any, Batch], None]]
    settle: Callable[[S, Batch], None] | None = None


def fold(view: View[S], batches: Iterable[Batch], state: S | None = None, until: int | None = None) -> S:
    """Return the state of a view behind these batches.

    Args:
        view: What to fold into.
        batches: History in order, from the beginning or from where ``state`` ended.
        state: Where an earlier fold ended; it is changed and returned. None starts anew.
        until: Time travel: batches that end behind this sequence number are left out. A moment inside a batch
            shows the state before that batch.
    """
    state = view.start() if state is None else state
    changes, settle = view.table.get, view.settle
    for batch in batches:
        if until is not None and batch.last > until:
            break
        touched = False
        for event in batch.events:
            change = changes(type(event))
            if change is not None:
                change(state, event, batch)
                touched = True
        if touched and settle is not None:
            settle(state, batch)
        state.seq, state.chain, state.latest_batch = batch.last, batch.chain, batch
    return state
