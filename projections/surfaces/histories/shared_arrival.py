"""The batches of another ledger, landed on one that shares a book: they are pending here until a sync publishes them.

A batch keeps its events' ids, so the book has it once, whether this machine publishes it or the other ledger's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import clock, events
from tallybook.ledger.encoding.codec import decode, texts_of
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.line import START
from tallybook.ledger.sharing.counting import ids_of
from tallybook.ledger.sharing.landed_kinds import REDACTED, text_of
from tallybook.ledger.sharing.landing import SHARED, LandedBatch, LandedEvent, OwnBatch
from tallybook.ledger.sharing.publishing import Publisher
from tallybook.projections.surfaces.histories.arrival import MAKES_ENTRY, Arrival, Ignored, item_of, unshared_event
from tallybook.projections.surfaces.sharing.own_history import read_history
from tallybook.projections.surfaces.sharing.rejoining import Rest
from tallybook.projections.surfaces.sharing.shared_log import SharedLog
from tallybook.projections.surfaces.writing import secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tallybook.ledger.events import Event
    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.line import Position, RawBatch
    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.ledger.storage.redacted_digests import Redactions
    from tallybook.projections.surfaces.sharing.own_history import OwnHistory

_COUNTING: Final = ("helpful", "harmful")


@attrs.frozen
class _Batches:
    """Batches that read like a log."""

    batches: Sequence[RawBatch]

    def read(self, after: Position = START) -> Iterator[RawBatch]:
        return (batch for batch in self.batches if batch.last > after.seq)


class OtherLog(SharedLog):
    """Another machine's own ledger, read as that machine shows it, with the copy of the book that is here."""

    def __init__(self, folder: StrPath, batches: Sequence[RawBatch], until: int | None = None) -> None:
        """Take the folder of the ledger that is here, and the batches of the other one."""
        super().__init__(folder, until=until)
        self._batches = batches

    @property
    def own(self) -> Any:
        """Return the other ledger alone."""
        return _Batches(self._batches)

    @property
    def history(self) -> OwnHistory:
        """Return what the other ledger says of the book."""
        if self._history is None:
            self._history = read_history(self.own.read, START, 0, self.until)
        return self._history

    def at(self, until: int) -> OtherLog:
        """Return the history as of one of its own event numbers."""
        return OtherLog(self.ledger_folder, self._batches, until)


class SharedLanding:
    """Lands histories one after another on a ledger that shares a book, in memory."""

    def __init__(self, log: SharedLog, redactions: Redactions) -> None:
        """Take the ledger, and the texts that were redacted in it."""
        self.arrival = Arrival()
        self._log = log
        self._redactions = redactions
        own = list(log.own.read())
        self._end = own[-1].position
        self._ids = {id_.partition(".")[0] for batch in (*own, *log.copy.read()) for id_ in ids_of(batch)}
        self._book = [*log.read_book(), *(raw for _, raw in log.landed() if raw is not None)]
        self._provisional = log.provisional_names()
        records = (one for batch in decode([*own, *log.copy.read()]) for one in batch.records)
        self._texts = {one.id for one in records if any(texts_of(one.event).values())}
        self._at = clock.clamp_time(clock.utc_now().at, self._end.at)
        self._publisher = Publisher("", self._at, clock.new_salt, self._mask)

    def _mask(self, text: str) -> str:
        masked = secrets.mask(text).text
        self.arrival.masked += masked != text
        return masked

    def land(self, history: Sequence[RawBatch]) -> None:
        """Land every batch of a history, given from its first line on, that is not here yet.

        Raises:
            BadInputError: It contains more of a book than this machine has.
        """
        other = OtherLog(self._log.ledger_folder, history)
        frontier = other.history.frontier
        if frontier.seq > self._log.history.frontier.seq or (frontier.chain and not other.copy.has(frontier.chain)):
            why = "that ledger has taken in events of a book that are not here"
            hint = "run `tallybook sync` here and try again; nothing was recorded"
            raise BadInputError("--ledger", why, hint)
        pending = [raw for _, raw in other.landed() if raw is not None]
        here = {id_ for raw in self._book for id_ in ids_of(raw)}
        # What is in the own ledger and lands as nothing is not in the book, and not new.
        waiting = [raw for raw in pending if not here.isdisjoint(ids_of(raw)) or self._ids.isdisjoint(ids_of(raw))]
        known = other.book_playbook(frontier.seq).used
        rest = Rest(list(other.read_book()), waiting, self._book, known=known)
        arrived = rest.land(lambda _: Publisher())
        self._book += arrived
        landed = {batch.records[0].id.partition(".")[0]: batch for batch in decode(arrived)}
        self.arrival.renamed |= rest.renamed

        def present(name: str) -> str | None:
            return name if name in known else rest.names.get(name)

        for batch in decode(history):
            ids = [one.id.partition(".")[0] for one in batch.records]
            if not self._ids.isdisjoint(ids):
                self.arrival.known += 1
                continue
            came = next((landed[id_] for id_ in ids if id_ in landed), None)
            self._append(batch, list(self._as_own(batch, came, present)), came)
            self._report(batch, came)
            self._ids.update(ids)
        self.arrival.renamed = {old: new for old, new in self.arrival.renamed.items() if old not in self.arrival.joined}

    def _as_own(
        self, batch: Batch, arrived: Batch | None, present: Callable[[str], str | None]
    ) -> Iterator[LandedEvent]:
        """Yield the events that the own ledger gets of a batch, before they land in the book."""
        repeated = arrived is not None and arrived.records[0].key is None and batch.records[0].key is not None
        for record in batch.records:
            if isinstance(record.event, events.EventRedacted) and record.event.id in self._texts:
                self.arrival.redacted.append(record.event.id)
            if type(record.event) not in SHARED:
                kept = unshared_event(record.event, present, self._redactions)
                if kept is not None:
                    yield LandedEvent(record, kept)
            for one in () if arrived is None else arrived.records:
                if one.id.partition(".")[0] == record.id:
                    yield from self._event(record, one.event, repeated=repeated)

    def _event(self, record: EventRecord, landed: Any, *, repeated: bool) -> Iterator[LandedEvent]:
        event: Any = record.event
        if isinstance(landed, events.PointMatched) and isinstance(event, MAKES_ENTRY):
            # It is joined where it lands, and brings then what exceeds the counts that stand by then.
            self.arrival.joined[event.name] = landed.to
            landed = attrs.evolve(event, name=landed.name, text=text_of(event.text))
            if repeated and not isinstance(landed, events.PointAdded):
                landed = attrs.evolve(landed, helpful=0, harmful=0)
        elif isinstance(landed, MAKES_ENTRY) and not isinstance(event, events.PointEdited):
            self.arrival.added.append(landed.name)
        text = getattr(landed, "text", None)
        if text and (why := self._redactions.refusal(text)) is not None:
            self.arrival.ignored.append(Ignored(item_of(event), why))
            former = self._redactions.former(text)
            if former in self._ids:
                yield LandedEvent(self._new_record(record), events.RedactionLinked((former, record.id)))
            landed = attrs.evolve(landed, text=REDACTED)
        yield LandedEvent(record, landed)

    def _new_record(self, record: EventRecord) -> EventRecord:
        """Return what an event needs to be recorded that the other ledger does not have."""
        return attrs.evolve(record, id=clock.new_id(clock.utc_now().unix_us))

    def _append(self, batch: Batch, changes: list[LandedEvent], arrived: Batch | None) -> None:
        if not changes:
            return
        names = dict.fromkeys(name for one in changes for name in _names_in(one.event) if name in self._provisional)
        if names:
            meant = events.NamesMeant(tuple(names), tuple(self._provisional[name] for name in names))
            changes.insert(0, LandedEvent(self._new_record(batch.records[0]), meant))
        key = batch.records[0].delivery if arrived is None else arrived.records[0].delivery
        raw = self._publisher.frame(LandedBatch(OwnBatch(tuple(batch.records), 0), tuple(changes), key, {}), self._end)
        self._end = raw.position
        self.arrival.batches.append(raw)

    def _report(self, batch: Batch, arrived: Batch | None) -> None:
        """Count the ratings of a batch that came, and note those that count nothing."""
        came: dict[str, Any] = {} if arrived is None else {one.id: one.event for one in arrived.records}
        for record in batch.records:
            if isinstance(record.event, events.PointRated) and record.event.rating in _COUNTING:
                event = came.get(record.id)
                if isinstance(event, events.PointRated):
                    self.arrival.ratings += 1
                    continue
                reason = "the entry that it rates is not here"
                if isinstance(event, events.EventRepeated):
                    reason = f"its delivery {batch.records[0].key} is in the book already"
                self.arrival.ignored.append(Ignored(item_of(record.event), reason))


def _names_in(event: Event) -> Iterator[str]:
    for field in ("name", "to"):
        if hasattr(event, field):
            yield getattr(event, field)
    for field in ("names", "merged"):
        yield from getattr(event, field, ())
