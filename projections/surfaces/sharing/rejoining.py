"""Taking another history of the same book: own batches that it lacks are pending again, and land at its end.

What others had published and the new history lacks comes back by their own machines. Of a machine that never returns,
`import --ledger` brings it from the copy that is set aside.
"""

from __future__ import annotations

from contextlib import suppress
import shutil
from typing import TYPE_CHECKING

import attrs

from tallybook.ledger.codec import encode
from tallybook.ledger.errors import MissingLinesError
from tallybook.ledger.events import BookTaken
from tallybook.ledger.sharing import erasing
from tallybook.ledger.sharing import replica as replicas
from tallybook.ledger.sharing.counting import read_pieces
from tallybook.projections.surfaces.sharing.own_history import SHARED_KINDS
from tallybook.projections.surfaces.sharing.syncing import PIECE_BYTES, SYSTEM, OtherBookError, Sync, check_book

if TYPE_CHECKING:
    from tallybook.ledger.sharing.engines.engine import Engine
    from tallybook.ledger.sharing.landing import LandedEvent
    from tallybook.projections.surfaces.sharing.syncing import Machine


@attrs.define
class Rejoined:
    """What taking another history did.

    Attributes:
        copy: Folder of the copy that is the present one now.
        kept: Folder of the copy that was set aside.
        taken: How many events of the new history this machine did not have.
        landed: The own events that the new history lacked and that were appended to it again.
        end: Event number and chain value of the book's end.
        missing: How many events of others the copy that was set aside has, and the new history lacks.
        pending: How many own batches wait still.
        refusal: Why nothing can be appended; empty where it can.
    """

    copy: str
    kept: str
    taken: int
    landed: list[LandedEvent]
    end: tuple[int, str]
    missing: int
    pending: int
    refusal: str


def rejoin(machine: Machine, engine: Engine) -> Rejoined:
    """Take the engine's history of the book, and append to it the own batches that it lacks.

    The copy that this machine had is set aside, so past moments stay what they were. If it is interrupted, the next
    call goes on: what is in the engine already is recognised by its ids.

    Raises:
        LockHeldError: A sync of this project runs.
        OtherBookError: The engine holds another book, or nothing.
        EngineError: The engine cannot be reached, or this machine may not write what the history lacks.
    """
    with replicas.lock(machine.folder):
        replicas.set_aside_foreign(machine.folder, machine.load_ends())
        former = _Rejoin(machine, engine)
        kept, had = former.replica.folder, former.replica.ids()
        fresh = former.take()
        new = fresh.ids()
        sync = Sync(machine, engine)
        result = sync.run()
        taken = len(new - had)
        return Rejoined(
            copy=fresh.folder,
            kept=kept,
            taken=taken,
            landed=sync.landed,
            end=result.end,
            missing=sync.log.count_missing(former.replica),
            pending=result.pending,
            refusal=result.refusal,
        )


class _Rejoin(Sync):
    """The state of one rejoining."""

    def take(self) -> replicas.Replica:
        """Make the engine's history the present copy, and return it.

        Raises:
            OtherBookError: It is another book, or there is none.
        """
        fresh = replicas.next_copy(self.machine.folder)
        for _, counted in read_pieces(self.engine, fresh, PIECE_BYTES):
            if counted.newer:
                raise OtherBookError(f"{self.engine.address}: its book follows newer rules; upgrade to go on")
            if counted.batches:
                check_book(self.engine.address, counted.batches[0], self.machine.book)
                fresh.append(counted.batches, counted.data)
                erasing.list_lost(fresh, counted.batches, {"rater": SYSTEM})
        end = fresh.end()
        if not end.seq:
            raise OtherBookError(
                f"{self.engine.address}: holds nothing; run `tallybook sync`, which gives back what this machine has"
            )
        if self.replica.has(end.chain):
            # It lost its end at most, and gets that back.
            shutil.rmtree(fresh.folder)
            return self.replica
        self._redact(fresh.read)
        names = self._new_names(fresh)
        self.machine.save_ends(self.replica.end()[:2], end[:2])
        # The pointer first: until the own ledger says so, the copy that it names is the one with the frontier.
        block = self.current.block
        keeps_block = any(
            b'"first":%d,"last":%d}' % block in line for batch in fresh.read() for line in batch.lines[:1]
        )
        current = replicas.Current(fresh.name, block=block if keeps_block else (0, 0))
        replicas.write_current(self.machine.folder, current)
        with self.log.own.transaction() as tx:
            tx.mark_shared()
            taken = BookTaken(end.seq, end.chain, self._find_upto(fresh), tuple(names), tuple(names.values()))
            tx.append([encode(taken)], {"rater": SYSTEM})
        return fresh

    def _find_upto(self, fresh: replicas.Replica) -> int:
        """Return the own event number up to which the new history has all batches."""
        there, last = fresh.ids(), 0
        for batch in self.log.own.read():
            is_shared = any(kind in line for line in batch.lines for kind in SHARED_KINDS)
            if is_shared and there.isdisjoint(replicas.find_ids(batch.data)):
                break
            last = batch.last
        return last

    def _new_names(self, fresh: replicas.Replica) -> dict[str, str]:
        """Return the entries that have another name in the new history: name → name there."""
        with suppress(MissingLinesError):
            before = self.log.book_playbook(self.log.history.frontier.seq).ids
            there = self.log.at_book(fresh.end(), 0).book_playbook(fresh.end().seq).ids
            after = {id_: name for name, id_ in there.items()}
            return {name: after[id_] for name, id_ in before.items() if after.get(id_, name) != name}
        return {}
