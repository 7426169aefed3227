"""The events of a ledger, filtered by entry, session, rater, kind and number.

A batch is decoded only if its bytes may match: every writer writes a name, a session and a kind in the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger.codec import decode
from tallybook.ledger.errors import DamagedLedgerError, UnknownEntryError
from tallybook.ledger.events import KIND_OF, RATINGS, EventRedacted, EventsVoided, PointRated
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import (
    CHAIN_CHARS,
    LINE_END,
    SECTION,
    START,
    Position,
    RawBatch,
    first_seq,
    head_field,
    place_of,
)
from tallybook.ledger.names import find_name
from tallybook.ledger.records import EventRecord
from tallybook.ledger.scan import bytes_of
from tallybook.ledger.sharing.numbers import format_shared_number
from tallybook.ledger.storage.head import lines_before
from tallybook.projections.history.event_rows import EventFilter, brief, concerns, row
from tallybook.projections.playbook.fold import UndoneIds, find_undone, undos_in
from tallybook.projections.surfaces.history.reading import current, has_book, search

if TYPE_CHECKING:
    from tallybook.ledger.log import JsonlLog, Log
    from tallybook.projections.surfaces.history.shared_log import SharedLog

_TAIL_EVENTS, _TAIL_GROWTH = 64, 8


# Filtering bytes


def find_start(log: JsonlLog, count: int) -> Position:
    """Return a position that at least so many events follow, found from the end; START where that takes long.

    The chain of the batches after it leads to the acknowledged one, which proves it.
    """
    head = log.read_head()
    if head is None:
        return START
    offset = head.position.offset
    for line in lines_before(log.log_file, offset):
        seq, part, parts = place_of(line + b"\n")
        # Only the last line of a batch has a chain value.
        if part and part == parts and seq <= head.position.seq - count:
            chain = line[-CHAIN_CHARS - len(LINE_END) :][:CHAIN_CHARS].decode()
            position = Position(seq, chain, offset)
            # It may be in a sealed range.
            with suppress(DamagedLedgerError):
                deque(log.read(position), 0)
                return position
            return START
        offset -= len(line) + 1
    return START


def find_tail(log: SharedLog, count: int) -> SharedLog:
    """Return a shared history from where its last events begin, so many of them, in the order in which they happened.

    Each log has its times in order, so what is before its part happened before the first event of that part. A machine
    that was away published older events late, and then longer parts are read.
    """
    size = max(count, _TAIL_EVENTS)
    while True:
        starts = [find_start(part, size) for part in (log.own, log.copy.log)]
        if START in starts[1:]:
            return log
        tail = log.read_tail(*starts)
        begins = [next(part.read(start), None) for part, start in zip((log.own, log.copy.log), starts, strict=True)]
        parts = zip(begins, starts, strict=True)
        bound = max((batch.position.at for batch, start in parts if batch is not None and start != START), default="")
        times = sorted(record.when or record.at for batch in decode(tail.read()) for record in batch.records)
        if len(times) >= count and times[-count] > bound:
            return tail
        size *= _TAIL_GROWTH


def bytes_of_kind(kind: str) -> bytes:
    """Return the bytes that a line of a kind or a family holds."""
    return bytes_of("kind", kind[:-1])[:-1] if kind.endswith(".*") else bytes_of("kind", kind)


def _quote(value: str) -> bytes:
    return dumps(value).encode("utf-8", "replace")


# Undone events


@attrs.frozen
class Undone:
    """The undone events of a part of the ledger.

    Attributes:
        voids: What is undone at its end.
        seqs: Id of an undone or redacted event → its event number.
    """

    voids: UndoneIds = attrs.field(factory=UndoneIds)
    seqs: dict[str, int] = attrs.field(factory=dict)

    def brief(self, record: EventRecord) -> dict[str, Any]:
        """Return an event for people, marked if it was undone."""
        by = self.voids.find_undo(record)
        return brief(record, self.seqs) | {"undone_by": by.seq if by else None}

    def row(self, record: EventRecord) -> dict[str, Any]:
        """Return an event as JSON-ready values, with ``undone_by`` if it was undone.

        A rating that is not one of RATINGS has ``counts``, false.
        """
        by, values = self.voids.find_undo(record), row(record)
        if isinstance(record.event, PointRated) and record.event.rating not in RATINGS:
            values["counts"] = False
        return values if by is None else values | {"undone_by": by.seq}


def find_undone_events(log: Log, after: Position = START) -> Undone:
    """Return what the undos after a position undid, with the numbers of the events that these and redactions name.

    Without an undo or a redaction nothing is decoded.
    """
    needles = [bytes_of_kind(KIND_OF[EventsVoided]), bytes_of_kind(KIND_OF[EventRedacted])]
    is_part = after != START and not has_book(log)
    later = (batch for batch in log.read(after) if any(needle in batch.data for needle in needles))
    batches = list(decode(later if is_part else search(log, needles)))
    undos = [undo for batch in batches for undo in undos_in(batch)]
    ids = {id_ for undo in undos if isinstance(undo.event, EventsVoided) for id_ in undo.event.ids}
    ids |= {event.id for batch in batches for event in batch.events if isinstance(event, EventRedacted)}
    named = search(log, [bytes_of("id", id_) for id_ in ids]) if ids else ()
    lines = [line.partition(SECTION)[0] for batch in named for line in batch.lines]
    numbers = {id_: format_shared_number(first_seq(line)) for line in lines if (id_ := head_field(line, b"id")) in ids}
    return Undone(find_undone(undos), numbers)


# The events


def events(log: Log, event_filter: EventFilter, start: Position = START) -> Iterator[EventRecord]:
    """Yield the wanted events of a log after a position, up to its end.

    Raises:
        UnknownEntryError: No event of the whole log is about the wanted entry.
    """
    name, has_matched = event_filter.name, False
    # Of a long ledger little is about an entry, or of a session; what is frequent is found faster by reading on.
    needle = _quote(name or event_filter.session or "")
    is_rare = start == START and (name or event_filter.session) is not None
    for record in _select(search(log, (needle,)) if is_rare else log.read(start), event_filter):
        has_matched = True
        yield record
    if (
        # Other options may have left all of them out: only a name that no event has is an error.
        name is not None
        and not has_matched
        and next(_select(search(log, (_quote(name),)), EventFilter(name)), None) is None
    ):
        raise UnknownEntryError(name, find_name(name, current(log).used))


def _select(batches: Iterable[RawBatch], event_filter: EventFilter) -> Iterator[EventRecord]:
    """Yield the wanted events of batches; those whose bytes cannot match are not decoded."""
    name, until = event_filter.name, event_filter.until
    fields = (("session", event_filter.session), ("rater", event_filter.rater))
    # A batch with a wanted event holds one byte string of each group.
    needles: list[tuple[bytes, ...]] = [(bytes_of(field, value),) for field, value in fields if value is not None]
    if name is not None:
        needles.append((_quote(name),))
    if event_filter.kinds:
        needles.append(tuple(map(bytes_of_kind, event_filter.kinds)))

    def may_match(batch: RawBatch) -> bool:
        is_later = batch.last > event_filter.since
        return is_later and all(any(needle in batch.data for needle in group) for group in needles)

    inside = takewhile(lambda batch: until is None or batch.first <= until, batches)
    for batch in decode(filter(may_match, inside)):
        # Line heads are decoded only where an event may pass, as that is slow.
        if name is None or any(concerns(event, name) for event in batch.events):
            yield from filter(event_filter.takes, batch.records)
