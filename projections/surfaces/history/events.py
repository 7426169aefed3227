"""The events of a ledger: chosen by entry, session, rater, kind and place, and read on as they come.

What a batch's bytes rule out is not decoded: every writer writes a name, a session and a kind in one way alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import UnknownEntryError
from tallybook.ledger.events import KIND_OF, RATINGS, EventsVoided, PointRated
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import SECTION, START, head_field
from tallybook.ledger.names import find_name
from tallybook.projections.event_rows import EventFilter, brief, row, select_events
from tallybook.projections.surfaces.history.reading import current
from tallybook.projections.undo import UndoneIds, find_undone

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from tallybook.ledger.line import Position, RawBatch
    from tallybook.ledger.log import Log
    from tallybook.ledger.records import EventRecord


# What a batch's bytes tell


def _needles(wanted: EventFilter) -> list[tuple[bytes, ...]]:
    """Return what the bytes of a batch hold if an event of it is asked for: one of each."""
    needles: list[tuple[bytes, ...]] = [
        (_by(field, value),)
        for field, value in ((b"session", wanted.session), (b"rater", wanted.rater))
        if value is not None
    ]
    if wanted.name is not None:
        needles.append((_quoted(wanted.name),))
    if wanted.kinds:
        needles.append(tuple(map(_of_kind, wanted.kinds)))
    return needles


def _by(field: bytes, value: str) -> bytes:
    return b'"%b":%b' % (field, _quoted(value))


def _of_kind(kind: str) -> bytes:
    return b'"kind":' + (_quoted(kind[:-1])[:-1] if kind.endswith(".*") else _quoted(kind))


def _quoted(value: str) -> bytes:
    return dumps(value).encode("utf-8", "replace")


def _may_match(batch: RawBatch, wanted: EventFilter, needles: Iterable[tuple[bytes, ...]]) -> bool:
    return batch.last > wanted.since and all(any(one in batch.data for one in some) for some in needles)


def comes_from(log: Log, rater: str) -> bool:
    """Say whether any event may come from a rater, without decoding one."""
    return log.may_contain(_by(b"rater", rater))


def raters(log: Log) -> list[str]:
    """Return the raters that events of a log come from, sorted."""
    return sorted({record.by.rater for batch in decode(log.read()) for record in batch.records})


# What was undone


@attrs.frozen
class Undone:
    """What is void in a stretch of the ledger, and the numbers of what it takes back.

    Attributes:
        voids: What is void at its end.
        seqs: Id of an event that was taken back → its sequence number.
    """

    voids: UndoneIds = attrs.field(factory=UndoneIds)
    seqs: dict[str, int] = attrs.field(factory=dict)

    def brief(self, record: EventRecord) -> dict[str, Any]:
        """Return an event for people, marked where it was taken back."""
        return brief(record, self._undone_by(record), self.seqs)

    def row(self, record: EventRecord) -> dict[str, Any]:
        """Return an event as JSON-ready values, with ``undone_by`` where it was taken back.

        A rating that is not one of RATINGS has ``counts``, false.
        """
        number, found = self._undone_by(record), row(record)
        if isinstance(record.event, PointRated) and record.event.rating not in RATINGS:
            found["counts"] = False
        return found if number is None else found | {"undone_by": number}

    def _undone_by(self, record: EventRecord) -> int | None:
        by = self.voids.by(record)
        return None if by is None else by.seq


def undone(log: Log, mark: Position = START) -> Undone:
    """Return what the undoings behind a place take back; where there is none, nothing else is decoded for it."""
    needle = _of_kind(KIND_OF[EventsVoided])
    if not log.may_contain(needle):
        # As most ledgers are; so what is listed begins at once, and is read once.
        return Undone()
    telling = decode(batch for batch in log.read(mark) if needle in batch.data)
    told = [one for batch in telling for one in batch.records]
    ids = {id_ for one in told if isinstance(one.event, EventsVoided) for id_ in one.event.ids}
    return Undone(find_undone(told), _seqs(log, ids) if ids else {})


def _seqs(log: Log, ids: Collection[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for batch in log.read():
        for seq, line in enumerate(batch.data.split(b"\n"), batch.first):
            id_ = head_field(line.partition(SECTION)[0], b"id")
            if id_ in ids:
                found[id_] = seq
        if len(found) == len(ids):
            break
    return found


# The events


class _Place:
    """How far a log was read.

    Attributes:
        mark: The place behind the last batch.
        found: Whether anything that was asked for came.
    """

    def __init__(self) -> None:
        """Begin at the beginning."""
        self.mark = START
        self.found = False

    def records(self, log: Log, wanted: EventFilter) -> Iterator[EventRecord]:
        """Yield the events behind the place that are asked for, up to the log's end by now."""
        for batch in decode(self._batches(log, wanted)):
            for record in select_events(batch, wanted):
                self.found = True
                yield record

    def _batches(self, log: Log, wanted: EventFilter) -> Iterator[RawBatch]:
        needles = _needles(wanted)
        last = None
        for batch in log.read(self.mark):
            if wanted.until is not None and batch.first > wanted.until:
                break
            last = batch
            if _may_match(batch, wanted, needles):
                yield batch
        if last is not None:
            self.mark = last.position


def stretches(
    log: Log, wanted: EventFilter, wait: Callable[[], bool] | None = None
) -> Iterator[tuple[Position, Iterator[EventRecord]]]:
    """Yield the events that are asked for, newest last, each stretch with the place behind which it begins.

    Args:
        log: The ledger.
        wanted: What is asked for.
        wait: Called at the end of each stretch; returns where there may be another, and says whether anybody still
            listens. None for one stretch alone.

    Raises:
        UnknownEntryError: There is one stretch, and no event of the whole log concerns the entry that is asked for.
    """
    place = _Place()
    yield START, place.records(log, wanted)
    while wait is not None and wanted.until is None and wait():
        yield place.mark, place.records(log, wanted)
    if wait is None and not place.found and wanted.name is not None and not _is_told_of(log, wanted.name):
        raise UnknownEntryError(wanted.name, find_name(wanted.name, current(log).used))


def events(log: Log, wanted: EventFilter) -> Iterator[EventRecord]:
    """Yield the events of a log that are asked for, in one stretch, as ``stretches``."""
    for _, records in stretches(log, wanted):
        yield from records


def _is_told_of(log: Log, name: str) -> bool:
    """Say whether any event concerns an entry."""
    return any(True for _ in _Place().records(log, EventFilter(name)))
