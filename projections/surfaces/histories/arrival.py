"""The batches of another history, landed on a ledger: each by its id once, with names and texts decided anew.

In a shared project they are pending until a sync publishes them. A batch keeps its events' ids, so the book has it
once, whether this machine publishes it or the other ledger's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import clock, events
from tallybook.ledger.codec import decode, texts_of
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import KIND_OF, BookTaken, EventRepeated, NamesMeant, PointMatched, RedactionLinked
from tallybook.ledger.line import START, batch_key
from tallybook.ledger.playbook_constants import PLAYBOOK_NEUTRAL
from tallybook.ledger.sharing.landing import (
    REDACTED,
    SHARED,
    Landed,
    LandedEvent,
    Reader,
    Sent,
    land,
    names_in,
    own_id,
)
from tallybook.ledger.sharing.numbers import PENDING
from tallybook.ledger.sharing.publishing import Publisher
from tallybook.ledger.sharing.replica import find_ids
from tallybook.projections.fold import fold_history
from tallybook.projections.surfaces.history.reading import log_with_book
from tallybook.projections.surfaces.sharing.own_history import ids_of_session, renumber
from tallybook.projections.surfaces.sharing.shared_log import BOOK_VIEW, make_ground
from tallybook.projections.surfaces.writing import secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tallybook.ledger.events import Event
    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.log import JsonlLog
    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.ledger.storage.redacted_digests import Redactions
    from tallybook.projections.surfaces.sharing.shared_log import SharedLog

# What one machine has done or has to do; another one neither did it nor can do it.
_OF_ONE_MACHINE: Final = {
    "playbook.injected",
    "reflection.requested",
    "reflection.started",
    "reflection.failed",
    "book.opened",
    "book.rules",
    "book.block",
    "book.taken",
    "names.meant",
    "lift.asked",
    "lift.stopped",
    "point.reviewed",
}
_COUNTING: Final = ("helpful", "harmful")


@attrs.frozen
class Ignored:
    """An event of the other history that has no effect here.

    Attributes:
        item: What it is, with the name that it has there.
        reason: Why it has no effect.
    """

    item: str
    reason: str


@attrs.define
class Arrival:
    """What the batches of other histories bring to a ledger.

    Attributes:
        batches: What is appended, in order.
        added: Names of the new entries.
        joined: Name there → the entry here with the same text.
        renamed: Name there → its name here, which differs.
        ratings: How many ratings count.
        known: How many batches this ledger has already.
        ignored: What has no effect.
        masked: How many texts had a secret in them.
        redacted: Ids of events whose text was redacted there and is still here.
    """

    batches: list[RawBatch] = attrs.field(factory=list)
    added: list[str] = attrs.field(factory=list)
    joined: dict[str, str] = attrs.field(factory=dict)
    renamed: dict[str, str] = attrs.field(factory=dict)
    ratings: int = 0
    known: int = 0
    ignored: list[Ignored] = attrs.field(factory=list)
    masked: int = 0
    redacted: list[str] = attrs.field(factory=list)


class Landing:
    """Lands histories one after another on a ledger, in memory."""

    def __init__(self, log: JsonlLog, own: Sequence[RawBatch], redactions: Redactions) -> None:
        """Take the ledger, its batches, and the texts that were redacted in it."""
        self.arrival = Arrival()
        self._redactions = redactions
        self._log: SharedLog | None = log if log_with_book(log) else None
        here = list(own)
        if self._log is None:
            state = fold_history(BOOK_VIEW, lambda: decode(own))
            keys = {batch_key(raw.data) for raw in own}
            self._ground = make_ground(state, lambda: own, has_key=keys.__contains__, is_book=False)
        else:
            here += self._log.copy.read()
            self._ground = self._log.present_ground()
        self._ids: set[str] = {own_id(id_) for raw in here for id_ in find_ids(raw.data)}
        self._texts = _with_text(decode(here))
        self._end = own[-1].position if own else START
        at = clock.clamp_time(clock.utc_now().at, self._end.at)
        self._publisher = Publisher("", at, clock.new_salt, self._mask)

    def _mask(self, text: str) -> str:
        masked = secrets.mask(text).text
        self.arrival.masked += masked != text
        return masked

    def land(self, history: Sequence[RawBatch]) -> None:
        """Land every batch of a history, given from its first line on, that is not here yet.

        Raises:
            BadInputError: It contains more of a book than this machine has.
        """
        for landed, raw in land(self._new_batches(history), self._ground, self._frame):
            self._report(landed)
            if raw is not None:
                [batch] = decode([raw])
                self._texts |= {
                    record.id for record in batch.records if {*texts_of(record.event).values()} - {None, "", REDACTED}
                }
                made = {
                    getattr(event.event, "name", "") for event in landed.events if _makes(landed.sent, event.record)
                }
                entries = self._ground.state.entries
                self.arrival.added += [name for name in entries if name in made]

    def _new_batches(self, history: Sequence[RawBatch]) -> Iterator[Sent]:
        """Yield the batches that are not here yet, without texts that were redacted here."""
        reader = Reader(lambda session, seq: self._session_ids(history, session, seq))
        for batch in decode(history):
            self._check_frontier(batch)
            sent = reader.read(batch)
            for event in batch.events:
                if isinstance(event, events.EventRedacted) and event.id in self._texts:
                    self.arrival.redacted.append(event.id)
            if not self._ids.isdisjoint(sent.ids):
                self.arrival.known += 1
                continue
            self._ids.update(sent.ids)
            records = [event for record in sent.records for event in self._without_redacted(record)]
            if records:
                first = sent.records[0]
                # The first line has the key of all of them.
                records[0] = attrs.evolve(records[0], key=first.key, payload=first.payload)
                yield attrs.evolve(sent, records=tuple(records))

    @staticmethod
    def _session_ids(history: Sequence[RawBatch], session: str, seq: int) -> list[str]:
        return list(ids_of_session(decode(raw for raw in history if raw.last < seq), session))

    def _check_frontier(self, batch: Batch) -> None:
        for event in batch.events:
            if isinstance(event, BookTaken) and self._log is not None:
                frontier = self._log.history.frontier.seq
                if event.seq > frontier or (event.chain and not self._log.copy.has(event.chain)):
                    why = "that ledger has taken in events of a book that are not here"
                    hint = "run `tallybook sync` here and try again; nothing was recorded"
                    raise BadInputError("--ledger", why, hint)

    def _without_redacted(self, record: EventRecord) -> Iterator[EventRecord]:
        """Yield an event unless it brings back a text that was redacted here; in a book it lands without the text."""
        event: Any = record.event
        text = getattr(event, "text", None) if isinstance(event, events.TEXT_GIVERS) else None
        why = self._redactions.refusal(text) if text else None
        if text is None or why is None:
            yield record
            return
        self.arrival.ignored.append(Ignored(item_of(event), why))
        if self._log is not None:
            former = self._redactions.former(text)
            if former in self._ids:
                yield attrs.evolve(record, id=_new_id(), event=RedactionLinked((former, record.id)))
            yield attrs.evolve(record, event=attrs.evolve(event, text=REDACTED))

    def _frame(self, landed: Landed) -> RawBatch | None:
        """Return a landed batch as the own ledger gets it, with what a book does not share."""
        by_record: dict[str, list[LandedEvent]] = {}
        for event in landed.events:
            by_record.setdefault(event.record.id, []).append(event)
        changes: list[LandedEvent] = []
        for record in landed.sent.records:
            changes += by_record.get(record.id, ())
            kept = None if type(record.event) in SHARED else self._unshared(record.event, landed)
            if kept is not None:
                changes.append(LandedEvent(record, kept))
        if not changes:
            return None
        if self._log is not None:
            made = {change.record.id for change in changes}
            ids = {name: self._ground.ids.get(name) for change in changes for name in names_in(change.event)}
            meant = {name: id_ for name, id_ in ids.items() if id_ is not None and id_ not in made}
            if meant:
                line = NamesMeant(tuple(meant), tuple(meant.values()))
                changes.append(LandedEvent(attrs.evolve(landed.sent.records[0], id=_new_id()), line))
        raw = self._publisher.frame(attrs.evolve(landed, events=tuple(changes)), self._end)
        self._end = raw.position
        self.arrival.batches.append(raw)
        # It lands after the book and what is pending, whose numbers are higher than those of the own ledger.
        return raw if self._log is None else renumber(raw, range(PENDING + raw.first, PENDING + raw.last + 1))

    def _unshared(self, event: Event, landed: Landed) -> Event | None:
        """Return an event that changes no playbook, such as a note or a measurement, as it is recorded here.

        Returns:
            None where it is of the other machine alone, or about an entry that is not here.
        """
        kind = KIND_OF.get(type(event))
        if kind not in PLAYBOOK_NEUTRAL or kind in _OF_ONE_MACHINE:
            return None
        if not isinstance(event, events.PointNoted | events.PointCited | events.PointProposed):
            return event
        made: list[tuple[EventRecord, Any]] = [(event.record, event.event) for event in landed.events]
        fresh = {old: new.name for one, new in made if (old := _makes(landed.sent, one)) is not None}

        def present(name: str) -> str | None:
            id_ = landed.sent.means.get(name)
            return fresh.get(name) or (self._ground.names.get(id_) if id_ else None)

        name = present(event.name)
        if name is None:
            return None
        changes: dict[str, Any] = {"name": name}
        if isinstance(event, events.PointProposed):
            merged = tuple(present(name) for name in event.merged)
            if None in merged:
                return None
            changes["merged"] = merged
        for field, text in texts_of(event).items():
            if text and self._redactions.refusal(text) is not None:
                changes[field] = ""
        return attrs.evolve(event, **changes)

    def _report(self, landed: Landed) -> None:
        """Count the ratings of a landed batch, and note what has no effect."""
        as_landed: dict[str, Any] = {event.record.id: event.event for event in landed.events}
        matched = {event.name: event.to for event in as_landed.values() if isinstance(event, PointMatched)}
        records: list[tuple[str, Any]] = [(record.id, record.event) for record in landed.sent.records]
        joined = {
            event.name: as_landed[id_].to for id_, event in records if isinstance(as_landed.get(id_), PointMatched)
        }
        self.arrival.joined |= joined
        self.arrival.renamed |= {old: new for old, new in landed.renamed.items() if old not in joined}
        state = self._ground.state
        for id_, given in records:
            if type(given) in SHARED and not isinstance(given, events.PointRated) and id_ not in as_landed:
                self.arrival.ignored.append(Ignored(item_of(given), "the entry that it changes is not here"))
            if isinstance(given, events.PointRated) and given.rating in _COUNTING:
                event = as_landed.get(id_)
                name = "" if event is None or isinstance(event, EventRepeated) else event.name
                name = matched.get(name, state.merged.get(name, name))
                if name in state.entries:
                    self.arrival.ratings += 1
                    continue
                reason = f"{name} is not in the playbook any more; `tallybook restore {name}` brings it back"
                if event is None:
                    reason = "the entry that it rates is not here"
                elif isinstance(event, EventRepeated):
                    reason = f"its delivery {landed.sent.records[0].key} is recorded here already"
                self.arrival.ignored.append(Ignored(item_of(given), reason))


def _with_text(batches: Iterable[Batch]) -> set[str]:
    """Return the ids of the events that have a text; what came in erased needs no erasing."""
    records = (record for batch in batches for record in batch.records)
    return {record.id for record in records if {*texts_of(record.event).values()} - {None, "", REDACTED}}


def _makes(sent: Sent, record: EventRecord) -> str | None:
    event: Any = record.event
    return event.name if sent.makes(record) else None


def _new_id() -> str:
    return clock.new_id(clock.utc_now().unix_us)


def item_of(event: Any) -> str:
    """Return an event and the name in it in a few words."""
    kind = KIND_OF.get(type(event), "event")
    rating = f" {event.rating}" if isinstance(event, events.PointRated) else ""
    return f"{kind} {getattr(event, 'name', '')}{rating}".rstrip()
