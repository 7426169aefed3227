"""Views, and the folds that turn history into the state of a view: of all events, or without the undone ones.

`fold` is the one loop over history. An undo changes how earlier events read, so `fold_history` finds the undos first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from tallybook.ledger import events

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord


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

    def seal(self) -> None:
        """Finish what a checkpoint is to hold, between two batches."""


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


def batch_view(start: Callable[[], S], kinds: Iterable[type[Any]], apply_batch: Callable[[S, Batch], None]) -> View[S]:
    """Return a view that applies whole batches: those that have an event of these kinds."""
    # Nothing is done for an event: its whole batch is applied afterwards.
    return View(start, dict.fromkeys(kinds, lambda *_: None), apply_batch)


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
        # No half update is ever shown.
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


# Undone events

_UNDOABLE = ("playbook.", "point.", "metrics.", "benchmark.", "feedback.", "baseline.", "session.ended", "lift.")
# What was injected and cited has happened: after an undo it still counts as given and as read.
_REPORTS = ("playbook.injected", "point.cited")
UNDOABLE: frozenset[type[Any]] = frozenset(
    cls
    for kind, (cls, _) in events.EVENT_TYPES.items()
    if kind == "events.voided" or (kind.startswith(_UNDOABLE) and kind not in _REPORTS)
)
"""Kinds that can be undone: what people decide, rate, note or propose, what scores and lift count, and undo itself."""


@attrs.frozen
class UndoneEvent:
    """An undone event, in its own place in history. Views have no row for it unless they need it.

    Attributes:
        event: The event.
        by: The ``events.voided`` that undid it.
    """

    event: Any
    by: EventRecord


@attrs.define
class UndoneIds:
    """The undone events of a history, by id and by session.

    Attributes:
        ids: Id of an event → the undos that name it.
        sessions: Session → the undos that name it; each undoes the session's events before itself.
        last: Event number of the last undo that is not undone, 0 without one; no event after it is undone.
    """

    ids: dict[str, list[EventRecord]] = attrs.field(factory=dict)
    sessions: dict[str, list[EventRecord]] = attrs.field(factory=dict)
    last: int = 0

    def add(self, record: EventRecord, event: events.EventsVoided) -> None:
        """Add the events that an undo names."""
        self.last = max(self.last, record.seq)
        for undone_id in event.ids:
            self.ids.setdefault(undone_id, []).append(record)
        if event.session:
            self.sessions.setdefault(event.session, []).append(record)

    def may_touch(self, batch: Batch) -> bool:
        """Return False where no event of a batch is undone; True may be wrong, as the check reads raw bytes only."""
        return batch.may_contain_ids(self.ids) or any(map(batch.may_contain_text, self.sessions))

    def find_undo(self, record: EventRecord) -> EventRecord | None:
        """Return the first undo of an event, None where it is not undone."""
        # An undo by session names all of its events, those that only report as well.
        if type(record.event) not in UNDOABLE:
            return None
        candidates = [*self.ids.get(record.id, ())]
        if not isinstance(record.event, events.EventsVoided):
            # Undoing a session does not undo the undos in it.
            candidates += self.sessions.get(record.by.session or "", ())
        return min((undo for undo in candidates if undo.seq > record.seq), key=lambda undo: undo.seq, default=None)


def find_undone(undos: Iterable[EventRecord]) -> UndoneIds:
    """Return what these ``events.voided``, given in order, undo.

    The later ones are read first, so an undo that is undone itself undoes nothing.
    """
    undone_ids = UndoneIds()
    for record in reversed(list(undos)):
        if isinstance(record.event, events.EventsVoided) and undone_ids.find_undo(record) is None:
            undone_ids.add(record, record.event)
    return undone_ids


def mark_undone(batches: Iterable[Batch], undone_ids: UndoneIds) -> Iterator[Batch]:
    """Yield the batches with each undone event replaced by an `UndoneEvent`."""
    previous_last = 0
    for batch in batches:
        # Line heads are decoded only where an event may be undone, as that is slow.
        if previous_last < undone_ids.last and undone_ids.may_touch(batch):
            undos: list[Any] = [(record, undone_ids.find_undo(record)) for record in batch.records]
            yield batch.with_records(
                [attrs.evolve(record, event=UndoneEvent(record.event, by)) if by else record for record, by in undos]
            )
        else:
            yield batch
        previous_last = batch.last


def fold_history(view: View[S], read: Callable[[], Iterable[Batch]], until: int | None = None) -> S:
    """Return the state of a view after all of history or as of a moment, without the events undone by then.

    Args:
        view: What to fold into.
        read: Returns history from the beginning; called a second time where an event is undone.
        until: As for ``fold``.
    """
    undos: list[EventRecord] = []

    def read_and_watch() -> Iterator[Batch]:
        for batch in read():
            yield batch
            # Only after the fold has taken it: a batch after the moment is asked for, and left.
            undos.extend(undos_in(batch))

    state = fold(view, read_and_watch(), until=until)
    if not undos:
        return state
    undone_ids = find_undone(undos)
    # Batches appended between the two reads are left out: an undo among them was not considered.
    return fold(view, mark_undone(read(), undone_ids), until=state.seq) if undone_ids.last else state


def history(read: Callable[[], Iterable[Batch]]) -> Iterator[Batch]:
    """Yield history with each event undone by its end replaced by an `UndoneEvent`; ``read`` is called twice."""
    undos: list[EventRecord] = []
    last = 0
    for batch in read():
        undos += undos_in(batch)
        last = batch.last
    # The second read may go further, and undos among its new batches were not considered.
    for batch in mark_undone(read(), find_undone(undos)):
        if batch.last > last:
            break
        yield batch


def undos_in(batch: Batch) -> list[EventRecord]:
    """Return the undos of a batch; line heads are decoded only where it has one, as that is slow."""
    if events.EventsVoided not in map(type, batch.events):
        return []
    return [record for record in batch.records if isinstance(record.event, events.EventsVoided)]
