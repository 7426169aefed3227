"""Copies of the tracks before what undos concern: an undo folds history again from one, and not from the beginning."""

from __future__ import annotations

from bisect import bisect_right
import pickle
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger import events
from tallybook.ledger.line import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.surfaces.page.track import Track

MOST: Final = 16
"""Most snapshots that are held; each has every entry of every policy."""

NEAR: Final = 1024
"""A snapshot serves an event at most so many events later: to take one costs more than to fold these again."""


@attrs.frozen
class History:
    """A history that can be read from a position.

    Attributes:
        read: Returns the batches after a position.
        firsts: Number of an undo → the first event that it concerns; of an undo that is missing here, the beginning.
    """

    read: Callable[[Position], Iterable[Batch]]
    firsts: Mapping[int, int] = attrs.field(factory=dict)


class Snapshots:
    """The snapshots of one fold.

    Attributes:
        history: What is folded.
        near: How many events before an event its snapshot may be.
    """

    def __init__(self, history: History, near: int = NEAR) -> None:
        """Begin before the first event."""
        self.history = history
        self.near = near
        self._taken: list[tuple[Position, bytes]] = []
        self._wanted = sorted({*history.firsts.values()})

    def offer(self, batch: Batch, tracks: Mapping[str, Track]) -> None:
        """Take a snapshot after a batch, if it is the one before an event that a later undo concerns."""
        following = bisect_right(self._wanted, batch.last)
        if following == len(self._wanted):
            return
        earliest = self._wanted[following] - self.near
        if batch.last < earliest or (self._taken and self._taken[-1][0].seq >= earliest):
            return
        self._taken.append((Position(batch.last, batch.chain, batch.end), pickle.dumps(dict(tracks))))
        if len(self._taken) > MOST:
            del self._taken[1::2]

    def before(self, undos: Sequence[EventRecord]) -> tuple[Position, dict[str, Track]] | None:
        """Return the last snapshot before all that these undos concern, None for none; later ones are dropped."""
        firsts = self.history.firsts
        self._wanted = sorted({first for undo, first in firsts.items() if undo > undos[-1].seq})
        first = min(firsts.get(undo.seq, 0) for undo in undos)
        while self._taken and self._taken[-1][0].seq >= first:
            self._taken.pop()
        if not self._taken:
            return None
        position, tracks = self._taken[-1]
        return position, pickle.loads(tracks)  # noqa: S301 - pickled by this process


def find_firsts(undos: Iterable[EventRecord], numbers: Mapping[str, int], begins: Mapping[str, int]) -> dict[int, int]:
    """Return the number of each undo with that of the first event that it concerns, 0 where that is not known.

    Args:
        undos: The undos of a history, in order.
        numbers: Id of an event → its number, of the events that the undos name.
        begins: Session → the number of its first event, of the sessions that they name.
    """
    firsts: dict[int, int] = {}
    for undo in undos:
        if isinstance(undo.event, events.EventsVoided):
            named = [numbers.get(id_, 0) for id_ in undo.event.ids]
            if undo.event.session is not None:
                named.append(begins.get(undo.event.session, undo.seq))
            # Undoing an undo concerns what that one did, too.
            firsts[undo.seq] = min((min(seq, firsts.get(seq, seq)) for seq in named), default=undo.seq)
    return firsts
