"""Undo: which events are undone as of a moment, and folding history without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from tallybook.ledger import events
from tallybook.projections.fold import State, View, fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tallybook.ledger.records import Batch, EventRecord

UNDOABLE: frozenset[type[Any]] = frozenset(
    {
        events.EventsVoided,
        events.PlaybookAdopted,
        events.PlaybookEdited,
        events.PlaybookOrdered,
        events.PlaybookUpdated,
        events.PointAdded,
        events.PointEdited,
        events.PointMerged,
        events.PointNoted,
        events.PointPinned,
        events.PointRated,
        events.PointRemoved,
        events.PointRestored,
        events.PointRetired,
        events.PointReworded,
        events.PointSeeded,
        events.PointUnpinned,
        events.MetricsRecorded,
        events.BenchmarkRecorded,
        events.FeedbackRecorded,
        events.BaselineSet,
        events.SessionEnded,
    }
)
"""Kinds that can be undone: those that change the playbook or a score, and undo itself."""

S = TypeVar("S", bound=State)


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

    def by(self, record: EventRecord) -> EventRecord | None:
        """Return the first undo of an event, None where it is not undone."""
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
        if isinstance(record.event, events.EventsVoided) and undone_ids.by(record) is None:
            undone_ids.add(record, record.event)
    return undone_ids


def mark_undone(batches: Iterable[Batch], undone_ids: UndoneIds) -> Iterator[Batch]:
    """Yield the batches with each undone event replaced by an `UndoneEvent`."""
    previous_last = 0
    for batch in batches:
        # Line heads are decoded only where an event may be undone, as that is slow.
        may_be_undone = previous_last < undone_ids.last and undone_ids.may_touch(batch)
        yield batch.with_records([_mark(record, undone_ids) for record in batch.records]) if may_be_undone else batch
        previous_last = batch.last


def _mark(record: EventRecord, undone_ids: UndoneIds) -> EventRecord:
    by = undone_ids.by(record)
    change: dict[str, Any] = {"event": UndoneEvent(record.event, by)} if by is not None else {}
    return attrs.evolve(record, **change)


def fold_history(view: View[S], read: Callable[[], Iterable[Batch]], until: int | None = None) -> S:
    """Return the state of a view after all of history or as of a moment, without the events undone by then.

    Args:
        view: What to fold into.
        read: Returns history from the beginning; called a second time where an event is undone.
        until: As for ``fold``.
    """
    undos: dict[int, EventRecord] = {}
    state = fold(_collecting_view(view, undos), read(), until=until)
    undone_ids = find_undone(undos.values())
    # Batches appended between the two reads are left out: an undo among them was not considered.
    return fold(view, mark_undone(read(), undone_ids), until=state.seq) if undone_ids.last else state


def history(read: Callable[[], Iterable[Batch]]) -> Iterator[Batch]:
    """Yield history with each event undone by its end replaced by an `UndoneEvent`; ``read`` is called twice."""
    undos: list[EventRecord] = []
    last = 0
    for batch in read():
        undos += undos_in(batch)
        last = batch.last
    for batch in mark_undone(read(), find_undone(undos)):
        if batch.last > last:
            break
        yield batch


def undos_in(batch: Batch) -> list[EventRecord]:
    """Return the undos of a batch; line heads are decoded only where it has one, as that is slow."""
    if events.EventsVoided not in map(type, batch.events):
        return []
    return [record for record in batch.records if isinstance(record.event, events.EventsVoided)]


def _collecting_view(view: View[S], undos: dict[int, EventRecord]) -> View[S]:
    """Return the same view, which also collects every ``events.voided`` by its number.

    Its table has a row for undos although the view's own may not: ``settle`` then runs only as it would without that.
    """
    own_change, settle = view.table.get(events.EventsVoided), view.settle

    def add(state: S, event: Any, batch: Batch) -> None:
        undos.update((record.seq, record) for record in undos_in(batch))
        if own_change is not None:
            own_change(state, event, batch)

    def settle_own(state: S, batch: Batch) -> None:
        if settle and any(type(event) in view.table for event in batch.events):
            settle(state, batch)

    # A view with its own row for undos needs no second check of which batches concern it.
    return View(
        view.start, {**view.table, events.EventsVoided: add}, settle if own_change or settle is None else settle_own
    )
