"""The undos of a history: what each concerns, and from when and up to when an event is undone."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from tallybook.ledger.events import EventsVoided
from tallybook.projections.fold import UndoneEvent, UndoneIds, find_undone, mark_undone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tallybook.ledger.records import Batch, EventRecord


def numbers_of(batch: Batch, before: int) -> Sequence[int]:
    """Return the numbers of a batch's events; a text that continues on further lines takes numbers of its own.

    Args:
        batch: The batch.
        before: Number of the last event before it.
    """
    if len(batch.events) == batch.last - before:
        return range(before + 1, batch.last + 1)
    return [record.seq for record in batch.records]


class Undos:
    """The undos of a history, and what they undo.

    Attributes:
        records: The undos, in order.
    """

    def __init__(self, records: Sequence[EventRecord]) -> None:
        """Begin before the first event."""
        self.records = records
        self._since: dict[int, int] = {}
        self._ended: list[tuple[int, int, int]] = []
        self._named = UndoneIds()
        for record in records:
            if isinstance(record.event, EventsVoided):
                self._named.add(record, record.event)
        self._firsts: dict[str, int] = {}

    @property
    def spans(self) -> list[tuple[int, int, int]]:
        """Return each undone event with the undos since which and up to which it is undone, 0 for none, in order."""
        return sorted([*self._ended, *((seq, since, 0) for seq, since in self._since.items())])

    def see(self, batch: Batch) -> None:
        """Note the first event that each undo of a batch, or a later one, concerns."""
        if self.records and (self._named.may_touch(batch) or EventsVoided in map(type, batch.events)):
            for record in batch.records:
                first, event = record.seq, record.event
                undo = event.event if isinstance(event, UndoneEvent) else event
                if isinstance(undo, EventsVoided):
                    named = [*undo.ids, f"session {undo.session}"]
                    first = min(first, *(self._firsts.get(name, first) for name in named))
                # Undoing an undo concerns what that one did, too.
                self._firsts.setdefault(record.id, first)
                self._firsts.setdefault(f"session {record.by.session}", record.seq)

    def first_of(self, batch: Batch) -> int:
        """Return the number of the first event that the undos of a batch concern."""
        return min(self._firsts[record.id] for record in batch.records if isinstance(record.event, EventsVoided))

    def mark(self, batches: Iterable[Batch], before: int, until: int) -> Iterator[Batch]:
        """Yield batches up to an event, with the events marked and noted that are undone as of it.

        Args:
            batches: History from an event on.
            before: Number of the last event before them, before which nothing changes.
            until: Number of the last event to yield.
        """
        known = list(takewhile(lambda record: record.seq <= until, self.records))
        undone = {seq for seq in self._since if seq <= before}
        for batch in mark_undone(batches, find_undone(known)):
            if batch.last > until:
                break
            if UndoneEvent in map(type, batch.events):
                marked = zip(numbers_of(batch, before), batch.events, strict=True)
                undone.update(seq for seq, event in marked if isinstance(event, UndoneEvent))
            yield batch
            before = batch.last
        if known:
            self._note(undone, known[-1].seq)

    def _note(self, undone: set[int], now: int) -> None:
        """Note which events are undone since now, and which no longer."""
        ended = [seq for seq in self._since if seq not in undone]
        self._ended += [(seq, self._since.pop(seq), now) for seq in ended]
        self._since.update((seq, now) for seq in undone if seq not in self._since)
