"""Views and `fold`, the one loop over history that turns events into the state of a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tallybook.ledger.records import Batch


@attrs.define
class State:
    """The state of a fold; views add their own fields.

    Attributes:
        seq: Number of the last event folded, 0 before the first: the state is as of this event.
        chain: Chain value there, empty before the first batch.
        latest_batch: The last batch folded, None before the first.
    """

    seq: int = 0
    chain: str = ""
    latest_batch: Batch | None = None

    @property
    def end(self) -> int:
        """Return the byte offset in the log where reading goes on."""
        return 0 if self.latest_batch is None else self.latest_batch.end


S = TypeVar("S", bound=State)


@attrs.frozen
class View(Generic[S]):
    """A projection: its start state and the effect of each kind of event.

    Kinds without a row change nothing, so every view ignores kinds of later versions.

    Attributes:
        start: Returns the state before the first event.
        table: Class of an event → its effect on the state; the batch has who recorded it and when.
        settle: Called after each batch with at least one event in the table.
    """

    start: Callable[[], S]
    table: Mapping[type[Any], Callable[[S, Any, Batch], None]]
    settle: Callable[[S, Batch], None] | None = None


def ignore(_state: Any, _event: Any, _batch: Batch) -> None:
    """Do nothing: the row of a kind in the table of a view that handles whole batches in ``settle``."""


def batch_view(start: Callable[[], S], kinds: Iterable[type[Any]], apply_batch: Callable[[S, Batch], None]) -> View[S]:
    """Return a view that applies whole batches: those that have an event of these kinds."""
    return View(start, dict.fromkeys(kinds, _wait_for_batch), apply_batch)


def _wait_for_batch(_state: State, _event: Any, _batch: Batch) -> None:
    """Do nothing: the whole batch is applied afterwards."""


def fold(view: View[S], batches: Iterable[Batch], state: S | None = None, until: int | None = None) -> S:
    """Return the state of a view after these batches.

    Args:
        view: What to fold into.
        batches: History in order, from the beginning or from where ``state`` ended.
        state: The state of an earlier fold to go on from; it is changed and returned. None starts a new one.
        until: As-of event number: batches that end after it are left out, because a batch applies whole or not at
            all. So a moment inside a batch gives the state before that batch.
    """
    state = view.start() if state is None else state
    changes, settle = view.table.get, view.settle
    for batch in batches:
        if until is not None and batch.last > until:
            break
        has_change = False
        for event in batch.events:
            change = changes(type(event))
            if change is not None:
                change(state, event, batch)
                has_change = True
        if has_change and settle is not None:
            settle(state, batch)
        state.seq, state.chain, state.latest_batch = batch.last, batch.chain, batch
    return state
