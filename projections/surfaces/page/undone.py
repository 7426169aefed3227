"""The undone events of a history, each with the moments from which and up to which it is undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallybook.projections.fold import UndoneEvent, UndoneIds, find_undone, mark_undone
from tallybook.projections.surfaces.page.columns import Column
from tallybook.projections.surfaces.page.track import numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tallybook.ledger.records import Batch, EventRecord


class Undos:
    """The undos so far, and what they undo.

    Attributes:
        current: What is undone now.
        since: Event number → number of the undo since which it is undone.
        spans: Event number, and the numbers of the undos since which and up to which it was undone, 0 for none.
    """

    def __init__(self) -> None:
        """Begin without an undo."""
        self.current = UndoneIds()
        self.since: dict[int, int] = {}
        self.spans: list[tuple[int, int, int]] = []
        self._records: list[EventRecord] = []

    def add(self, undos: Iterable[EventRecord]) -> None:
        """Add the undos of a batch."""
        self._records += undos
        self.current = find_undone(self._records)

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of the undos, in order."""
        return [record.seq for record in self._records]

    def read(self, batches: Iterable[Batch], before: int, until: int) -> Iterator[Batch]:
        """Yield history up to the batch of the last undo, with its undone events marked and noted.

        Args:
            batches: History from an event on, before which nothing changes.
            before: Number of the last event before them.
            until: Number of the last event to yield.
        """
        undone = {seq for seq in self.since if seq <= before}
        for batch in mark_undone(batches, self.current):
            if batch.last > until:
                break
            if UndoneEvent in map(type, batch.events):
                marked = zip(numbers_of(batch, before), batch.events, strict=True)
                undone.update(seq for seq, event in marked if isinstance(event, UndoneEvent))
            yield batch
            before = batch.last
        self._note(undone, self._records[-1].seq)

    def _note(self, undone: set[int], now: int) -> None:
        """Note which events are undone since now, and which no longer."""
        ended = [seq for seq in self.since if seq not in undone]
        self.spans += [(seq, self.since.pop(seq), now) for seq in ended]
        self.since.update((seq, now) for seq in undone if seq not in self.since)

    def columns(self) -> list[Column]:
        """Return the columns of the undone events, in order."""
        spans = sorted([*self.spans, *((seq, since, 0) for seq, since in self.since.items())])
        return [
            Column("u_event", [seq for seq, _, _ in spans], delta=True),
            Column("u_from", [since for _, since, _ in spans], delta=True),
            Column("u_to", [to for _, _, to in spans], delta=True),
        ]
