"""Undo: which events are void at a moment, and history told without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from tallybook.ledger.events import (
    BaselineSet,
    BenchmarkRecorded,
    EventsVoided,
    FeedbackRecorded,
    MetricsRecorded,
    PlaybookAdopted,
    PlaybookEdited,
    PlaybookOrdered,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointMerged,
    PointNoted,
    PointPinned,
    PointRated,
    PointRemoved,
    PointRestored,
    PointRetired,
    PointReworded,
    PointSeeded,
    PointUnpinned,
    SessionEnded,
)
from tallybook.projections.fold import State, View, fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tallybook.ledger.records import Batch, EventRecord

VOIDABLE: frozenset[type[Any]] = frozenset(
    {
        EventsVoided,
        PlaybookAdopted,
        PlaybookEdited,
        PlaybookOrdered,
        PlaybookUpdated,
        PointAdded,
        PointEdited,
        PointMerged,
        PointNoted,
        PointPinned,
        PointRated,
        PointRemoved,
        PointRestored,
        PointRetired,
        PointReworded,
        PointSeeded,
        PointUnpinned,
        MetricsRecorded,
        BenchmarkRecorded,
        FeedbackRecorded,
        BaselineSet,
        SessionEnded,
    }
)
"""Kinds that can be taken back: those that say something about the playbook or a score, and undoing itself."""

S = TypeVar("S", bound=State)


@attrs.frozen
class Voided:
    """An event that is void, in the place of itself: views that do not ask for it pass it over.

    Attributes:
        event: What it was.
        by: What made it void.
    """

    event: Any
    by: EventRecord


@attrs.define
class Voids:
    """What is void.

    Attributes:
        ids: Id of an event → what makes it void.
        sessions: Session → what makes it void, each up to its own place.
        last: Sequence number of the last ``events.voided`` that stands, 0 without one: nothing behind it is void.
    """

    ids: dict[str, list[EventRecord]] = attrs.field(factory=dict)
    sessions: dict[str, list[EventRecord]] = attrs.field(factory=dict)
    last: int = 0

    def hear(self, record: EventRecord, event: EventsVoided) -> None:
        """Take in what an undoing that stands makes void."""
        self.last = max(self.last, record.seq)
        for void in event.ids:
            self.ids.setdefault(void, []).append(record)
        if event.session:
            self.sessions.setdefault(event.session, []).append(record)

    def may_touch(self, batch: Batch) -> bool:
        """Return False where nothing in a batch is void, in a fraction of the time that it takes to be sure."""
        return batch.may_contain_ids(self.ids) or any(map(batch.may_contain_text, self.sessions))

    def by(self, record: EventRecord) -> EventRecord | None:
        """Return what made an event void first, None where it stands."""
        if type(record.event) not in VOIDABLE:
            return None
        said = [*self.ids.get(record.id, ())]
        if not isinstance(record.event, EventsVoided):
            # A session is taken back, not what was taken back in it.
            said += self.sessions.get(record.by.session or "", ())
        return min((one for one in said if one.seq > record.seq), key=lambda one: one.seq, default=None)


def voids_of(told: Iterable[EventRecord]) -> Voids:
    """Return what is void by these ``events.voided``, given in order; the later ones are heard first.

    So one that is itself void makes nothing void.
    """
    voids = Voids()
    for record in reversed(list(told)):
        if isinstance(record.event, EventsVoided) and voids.by(record) is None:
            voids.hear(record, record.event)
    return voids


def marked(batches: Iterable[Batch], voids: Voids) -> Iterator[Batch]:
    """Yield the batches with a `Voided` in the place of each event that is void."""
    seen = 0
    for batch in batches:
        # Heads are decoded only where something may be void.
        told = seen < voids.last and voids.may_touch(batch)
        yield batch.with_records([_marked(record, voids) for record in batch.records]) if told else batch
        seen = batch.last


def _marked(record: EventRecord, voids: Voids) -> EventRecord:
    by = voids.by(record)
    void: dict[str, Any] = {"event": Voided(record.event, by)} if by is not None else {}
    return attrs.evolve(record, **void)


def fold_history(view: View[S], read: Callable[[], Iterable[Batch]], until: int | None = None) -> S:
    """Return the state of a view behind the whole of history, or up to a moment, without what is void there.

    Args:
        view: What to fold into.
        read: Gives history from the beginning; it is read a second time where something is void.
        until: As for ``fold``.
    """
    told: dict[int, EventRecord] = {}
    state = fold(_listening_view(view, told), read(), until=until)
    voids = voids_of(told.values())
    # What was appended between the two readings may take back what this one took for standing: it stays out.
    return fold(view, marked(read(), voids), until=state.seq) if voids.last else state


def history(read: Callable[[], Iterable[Batch]]) -> Iterator[Batch]:
    """Yield history with what is void at its end marked so; it is read twice."""
    told: list[EventRecord] = []
    last = 0
    for batch in read():
        if EventsVoided in map(type, batch.events):
            told += _undoings(batch)
        last = batch.last
    for batch in marked(read(), voids_of(told)):
        if batch.last > last:
            break
        yield batch


def _undoings(batch: Batch) -> list[EventRecord]:
    return [record for record in batch.records if isinstance(record.event, EventsVoided)]


def _listening_view(view: View[S], told: dict[int, EventRecord]) -> View[S]:
    """Return a view that notes every ``events.voided`` by its seq, and is otherwise the same.

    That it stands in the table of the one and not of the other is told to nobody: see ``settle``.
    """
    own, settle = view.table.get(EventsVoided), view.settle

    def hear(state: S, event: Any, batch: Batch) -> None:
        told.update((record.seq, record) for record in _undoings(batch))
        if own is not None:
            own(state, event, batch)

    def settled(state: S, batch: Batch) -> None:
        if settle and any(type(event) in view.table for event in batch.events):
            settle(state, batch)

    # Most views know that kind, and need not look again whether a batch is theirs.
    return View(view.start, {**view.table, EventsVoided: hear}, settle if own or settle is None else settled)
