"""When events of a shared book came in here: what this machine's own ledger says of each of its syncs."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, NamedTuple

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.events import KIND_OF, BookTaken
from tallybook.ledger.sharing.numbers import SharedNumber, book_number

if TYPE_CHECKING:
    from tallybook.projections.surfaces.sharing.shared_log import SharedLog


class Arrival(NamedTuple):
    """One sync of this machine.

    Attributes:
        last: The last event number of the book that came in.
        seq: The own event number of the event that says so.
        at: Its time.
    """

    last: int
    seq: int
    at: str


def arrivals(log: SharedLog) -> list[Arrival]:
    """Return the syncs of this machine, in order."""
    needle = b'"kind":"%b"' % KIND_OF[BookTaken].encode()
    return [
        Arrival(record.event.seq, record.seq, record.at)
        for batch in decode(raw for raw in log.own.read() if needle in raw.data)
        for record in batch.records
        if isinstance(record.event, BookTaken)
    ]


def arrival_of(found: list[Arrival], number: int) -> Arrival | None:
    """Return the sync that brought an event of the book; None where none did yet."""
    place = bisect_left(found, number, key=lambda one: one.last)
    return found[place] if place < len(found) else None


def add_arrivals(log: SharedLog, value: Any) -> None:
    """Add ``taken``, as ``{seq, at}``, to each row of an answer that is about an event of the book."""
    _add(arrivals(log), value)


def _add(found: list[Arrival], value: Any) -> None:
    if isinstance(value, dict):
        for child in list(value.values()):
            _add(found, child)
        seq = value.get("seq")
        number = book_number(seq) if isinstance(seq, SharedNumber) else None
        arrival = None if number is None else arrival_of(found, number)
        if arrival is not None:
            value["taken"] = {"seq": arrival.seq, "at": arrival.at}
    elif isinstance(value, list):
        for child in value:
            _add(found, child)
