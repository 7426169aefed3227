"""Copies of the tracks at some moments: an undo folds history again from one of them, and not from the beginning."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger import events
from tallybook.ledger.line import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.surfaces.page.track import Track

MOST: Final = 16
"""Most snapshots that are held; each has every entry of every policy."""

SPACING: Final = 4096
"""Events between two snapshots at first; the distance doubles when there are too many."""


@attrs.frozen
class History:
    """A history that can be read from a position.

    Attributes:
        read: Returns the batches after a position.
        seqs: Id of an event that an undo names → its number; None where the history has no undo.
    """

    read: Callable[[Position], Iterable[Batch]]
    seqs: Mapping[str, int] | None = None


@attrs.define
class Snapshots:
    """The snapshots of one fold.

    Attributes:
        history: What is folded.
        firsts: Session → number of its first event.
        taken: Position and pickled tracks of each, in order.
        spacing: Events between two.
        reach: Number of an undo → the first event that it concerns.
    """

    history: History
    firsts: dict[str, int] = attrs.field(factory=dict)
    taken: list[tuple[Position, bytes]] = attrs.field(factory=list)
    spacing: int = SPACING
    reach: dict[int, int] = attrs.field(factory=dict)

    def offer(self, batch: Batch, tracks: Mapping[str, Track]) -> None:
        """Take a snapshot after a batch if one is due, and if the history has undos at all."""
        last = self.taken[-1][0].seq if self.taken else 0
        if self.history.seqs is None or batch.last - last < self.spacing:
            return
        for track in tracks.values():
            # Not needed to go on, and no batch can be pickled.
            track.book.latest = None
        self.taken.append((Position(batch.last, batch.chain, batch.end), pickle.dumps(dict(tracks))))
        if len(self.taken) > MOST:
            del self.taken[::2]
            self.spacing *= 2

    def before(self, undos: Iterable[EventRecord]) -> tuple[Position, dict[str, Track]] | None:
        """Return the last snapshot before all that these undos concern, None for none; later ones are dropped."""
        first = min(map(self._first, undos))
        while self.taken and self.taken[-1][0].seq >= first:
            self.taken.pop()
        if not self.taken:
            return None
        position, tracks = self.taken[-1]
        return position, pickle.loads(tracks)  # noqa: S301 - pickled by this process

    def _first(self, undo: EventRecord) -> int:
        """Return the number of the first event that an undo concerns, 0 where that is not known."""
        seqs, event = self.history.seqs or {}, undo.event
        if not isinstance(event, events.EventsVoided):
            return undo.seq
        named = [seqs.get(id_, 0) for id_ in event.ids]
        # Undoing an undo concerns what that one did.
        firsts = [self.reach.get(seq, seq) for seq in named]
        if event.session is not None:
            firsts.append(self.firsts.get(event.session, undo.seq))
        self.reach[undo.seq] = first = min(firsts, default=undo.seq)
        return first


def whole(read: Callable[[], Iterable[Batch]]) -> History:
    """Return a history that is always read from its beginning."""
    return History(lambda _: read())
