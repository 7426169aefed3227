"""The history that a machine in a book shows: the book up to its frontier, then its pending batches as they land.

``SharedLog`` reads like a ledger, so every view works on it. It holds no bytes of its own.
"""

from __future__ import annotations

from functools import cached_property
import os
from typing import TYPE_CHECKING

import attrs

from tallybook.ledger.errors import DamagedLedgerError, MissingLinesError
from tallybook.ledger.line import GENESIS, START, Draft, Position, normalize_key
from tallybook.ledger.log import JsonlLog, Transaction
from tallybook.ledger.names import parse_number
from tallybook.ledger.sharing import replica
from tallybook.ledger.sharing.numbers import BOOK, shared_number
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.head import has_position
from tallybook.projections.surfaces.sharing.own_history import (
    Frontier,
    OwnHistory,
    read_history,
    renumber,
    without_shared,
)
from tallybook.projections.surfaces.sharing.own_names import OwnNames
from tallybook.projections.surfaces.sharing.pending_landing import entries_made, joined_entries, land_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tallybook.ledger import clock
    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.reading.deliveries import Delivery
    from tallybook.ledger.sharing.landing import LandedBatch, Names
    from tallybook.ledger.sharing.replica import Replica
    from tallybook.projections.fold import State
    from tallybook.projections.playbook.view import Playbook


class SharedLog(JsonlLog):
    """The ledger of a machine in a book, with the book in it.

    Event numbers are those of ``ledger/sharing/numbers.py``. Appending goes to the own ledger.

    Attributes:
        until: The own event number of the moment that it shows; None for the present.
    """

    def __init__(self, folder: StrPath, now: Callable[[], clock.Now] | None = None, until: int | None = None) -> None:
        """Take the ledger's folder; nothing is opened yet."""
        super().__init__(folder, *(() if now is None else (now,)))
        self.until = until
        self._forget()

    def _forget(self) -> None:
        """Forget what was read, because the own ledger has grown."""
        self._history: OwnHistory | None = None
        self._landing: tuple[Playbook, list[tuple[LandedBatch, RawBatch | None]], Names] | None = None

    @property
    def own(self) -> JsonlLog:
        """Return the own ledger alone."""
        return JsonlLog(self.ledger_folder, self.now)

    @cached_property
    def copy(self) -> Replica:
        """Return the copy of the book that has the frontier: the present one, or one that was set aside."""
        return replica.find_copy(self.ledger_folder, self.history.frontier.chain)

    # ---- The own part ----

    @property
    def history(self) -> OwnHistory:
        """Return what the own ledger says of the book at this moment."""
        if self._history is None:
            start, taken = self._start() if self.until is None else (START, 0)
            self._history = read_history(super().read, start, taken, self.until)
        return self._history

    def _start(self) -> tuple[Position, int]:
        """Return the position from which the own ledger has to be read, and the frontier's event number there."""
        current = replica.read_current(self.ledger_folder)
        if current is not None and current.upto.seq:
            fd = disk.open_file(self.log_file, write=False)
            try:
                if has_position(fd, current.upto):
                    return current.upto, current.taken
            finally:
                os.close(fd)
        return START, 0

    @property
    def frontier_end(self) -> Position:
        """Return the position in the book after the frontier."""
        return Position(self.history.frontier.seq, self.history.frontier.chain or GENESIS, 0)

    # ---- The whole history ----

    def read(self, after: Position = START, *, verify: bool = True) -> Iterator[RawBatch]:
        """Yield own batches that the book does not share, then the book, then pending batches as they land.

        Raises:
            DamagedLedgerError: The own ledger is damaged.
            MissingLinesError: The copy of the book lacks lines, or is damaged.
        """
        if after != START:
            raise ValueError("a shared history is read from its beginning")
        names = OwnNames(self)
        for batch in super().read(verify=verify):
            if self.until is not None and batch.last > self.until:
                break
            yield from map(names.rename, without_shared(batch))
        for batch in self.read_book():
            yield renumber(batch, range(BOOK + batch.first, BOOK + batch.last + 1))
        yield from (raw for _, raw in self.landed() if raw is not None)

    def read_book(self, until: int | None = None) -> Iterator[RawBatch]:
        """Yield the book up to the frontier, or up to an earlier event number.

        Raises:
            MissingLinesError: Lines up to the frontier are missing, damaged, or of another history.
        """
        frontier = self.history.frontier
        last, chain = 0, ""
        try:
            for batch in self.copy.read(frontier.seq if until is None else until):
                yield batch
                last, chain = batch.last, batch.chain
        except DamagedLedgerError as error:
            raise self._missing(error) from error
        if until is None and frontier.seq and (last, chain) != (frontier.seq, frontier.chain):
            raise self._missing()

    def _missing(self, damage: DamagedLedgerError | None = None) -> MissingLinesError:
        """Return the error that says which lines are not here, and how to get them."""
        present = self if self.until is None else SharedLog(self.ledger_folder, self.now)
        is_fetched = damage is not None or not present.copy.has(present.history.frontier.chain)
        moment = "the present playbook" if self.until is None else f"event {self.until}"
        hint = "run `tallybook sync`" if is_fetched else "they are in no copy of the book on this machine"
        state = "missing" if damage is None else f"missing or damaged ({damage.problems[0]})"
        return MissingLinesError(moment, self.history.frontier.seq, hint, state)

    def landed(self) -> list[tuple[LandedBatch, RawBatch | None]]:
        """Return the pending batches as they land, each with its bytes; None for one that concerns nobody else."""
        return self._landed()[1]

    # ---- The playbook ----

    def playbook(self) -> Playbook:
        """Return the playbook at this moment."""
        state = self._landed()[0]
        # The state is changed by callers that fold on.
        self._landing = None
        return state

    def book_playbook(self, seq: int) -> Playbook:
        """Return the playbook of the book alone, as of one of its event numbers."""
        from tallybook.projections.surfaces.history.reading import PLAYBOOK_FORM, fold_view

        try:
            # Checkpoints go on from the end, which another process may have moved, or which an interrupted sync left.
            state = fold_view(PLAYBOOK_FORM, self.copy.log, None if self.copy.end().seq == seq else seq)
            return state if state.seq <= seq else fold_view(PLAYBOOK_FORM, self.copy.log, seq)
        except DamagedLedgerError as error:
            raise self._missing(error) from error

    def _landed(self) -> tuple[Playbook, list[tuple[LandedBatch, RawBatch | None]], Names]:
        if self._landing is None:
            state = self.book_playbook(self.history.frontier.seq)
            if self.history.frontier.seq and (state.seq, state.chain) != self.frontier_end[:2]:
                list(self.read_book())
            self._landing = land_all(self, self.history.pending, state)
            state = self._landing[0]
            self.stamp(state, state)
            current = replica.read_current(self.ledger_folder)
            if current is not None and current.block[0]:
                # The next name comes from this machine's own block.
                state.high_water = self.highest_in_block(current.block) or current.block[0] - 1
        return self._landing

    def stamp(self, state: State, book: Playbook) -> None:
        """Say in a state of this history, and in the playbook in it, which moment it is: an own event number."""
        history = self.history
        state.seq, state.chain = history.end[:2]
        book.stamp, book.shared_stamp = history.stamp, (history.frontier.seq, history.frontier.chain)

    def at(self, until: int) -> SharedLog:
        """Return the history as of an own event number."""
        return SharedLog(self.ledger_folder, self.now, until)

    def at_book(self, end: Position, upto: int, renamed: Mapping[str, str]) -> SharedLog:
        """Return the present history with another frontier: as it will be when a sync is done.

        Args:
            end: The position in the book up to which it contains that.
            upto: The own event number up to which batches are in the book.
            renamed: Own name → name in the book, besides those that are recorded.
        """
        log, history = SharedLog(self.ledger_folder, self.now), self.history
        log._history = attrs.evolve(
            history,
            frontier=Frontier(end.seq, end.chain, upto, history.frontier.number),
            pending=tuple(own for own in history.pending if own.records[-1].seq > upto),
            renamed={**history.renamed, **renamed},
        )
        return log

    def highest_in_block(self, block: tuple[int, int]) -> int:
        """Return the highest number of a block of names that an entry has or had; 0 for none."""
        numbers = (parse_number(name) or 0 for name in self._landed()[0].used)
        return max((number for number in numbers if block[0] <= number <= block[1]), default=0)

    def names_since(self, until: int) -> dict[str, str]:
        """Return the present names of entries that had another name at an own moment: name then → present name."""
        then, now = self.at(until), self.at(self.history.end.seq)
        before, after = then.names(), now.names()
        own_names, entries = then.names_of_pending(), now._landed()[0].entries  # noqa: SLF001 - of this class
        joined = {**now.matched(), **after.joined}
        present: dict[str, str] = {}
        for id_, name in before.by_id.items():
            own_name = own_names[id_]
            landed = after.by_id.get(id_) or now.history.renamed.get(own_name, own_name)
            shown = landed if landed in entries else joined.get(landed, landed)
            if shown != name:
                present[name] = shown
        return present

    def matched(self) -> dict[str, str]:
        """Return the entries that were joined to another one when they landed: name → the other one's name."""
        return joined_entries(self.read_book())

    def names(self) -> Names:
        """Return the names of pending entries in the book as it is here."""
        return self._landed()[2]

    def names_of_pending(self) -> dict[str, str]:
        """Return the names of entries as pending batches give them: id of the event that made the entry → name."""
        return {id_: name for own in self.history.pending for id_, name in entries_made(own.records).items()}

    def refreshed(self) -> SharedLog:
        """Return itself, without what it remembers of the own ledger."""
        self._forget()
        return self

    # ---- Appending ----

    def transaction(self, wait_ms: int = disk.LOCK_WAIT_MS) -> Transaction:
        """Return a transaction on the own ledger."""
        self._forget()
        return SharedTransaction(self, wait_ms)

    def provisional_names(self) -> dict[str, str]:
        """Return names that pending entries are shown under for now: name → id of the event that made the entry."""
        names = self.names()
        made = self.names_of_pending()
        return {name: id_ for id_, name in names.by_id.items() if made.get(id_, name) != name}


class SharedTransaction(Transaction):
    """A transaction on the own ledger of a machine in a book."""

    def __init__(self, log: SharedLog, wait_ms: int) -> None:
        """Prepare; the lock is taken on entering."""
        super().__init__(log, wait_ms)
        self._shared = log

    def find_delivery(self, key: str, payload: str = "") -> Delivery | None:
        """Return the batch that has an idempotency key, of the book as well where the caller gave the key."""
        own = super().find_delivery(key)
        if own is not None or not payload:
            return own
        shared = self._shared.copy.find_delivery(normalize_key(key))
        if shared is None or shared.last > self._shared.history.frontier.seq:
            return None
        first, last = (shared_number(BOOK + seq) for seq in shared[:2])
        return shared._replace(first=first, last=last)

    def append(
        self, drafts: Sequence[Draft], by: Mapping[str, str], key: str | None = None, payload: str = ""
    ) -> RawBatch | None:
        """Add a batch; names that the book may give another entry are noted with the entries that they mean."""
        provisional = self._shared.provisional_names()
        meant = {name: provisional[name] for name in _names_in(drafts) if name in provisional}
        if meant:
            body = {"names": list(meant), "ids": list(meant.values())}
            drafts = [Draft("names.meant", 1, body), *drafts]
        return super().append(drafts, by, key, payload)


def _names_in(drafts: Iterable[Draft]) -> Iterator[str]:
    for draft in drafts:
        if "name" in draft.body:
            yield draft.body["name"]
        yield from draft.body.get("names", ())
        yield from draft.body.get("merged", ())
