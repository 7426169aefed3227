"""This machine's ledger next to a book: the last event of the book taken in, pending batches, events never shared."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, takewhile
import json
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.ledger.codec import decode
from tallybook.ledger.events import KIND_OF, BookTaken, EventsVoided, NamesMeant
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import CONTINUED, CRC_BYTES, SECTION, START, Position, RawBatch
from tallybook.ledger.records import Batch
from tallybook.ledger.scan import find_or_read
from tallybook.ledger.sharing.landing import SHARED, Reader, Sent
from tallybook.ledger.sharing.numbers import SharedNumber, book_number
from tallybook.projections.fold import UNDOABLE

if TYPE_CHECKING:
    from tallybook.ledger.log import JsonlLog


SHARED_KINDS: Final = tuple(b'"kind":"%b"' % KIND_OF[cls].encode() for cls in SHARED)
# Views have no use for the ids of names.
_HIDDEN: Final = (*SHARED_KINDS, b'"kind":"%b"' % KIND_OF[NamesMeant].encode())
_CONTINUED: Final = b'"kind":"%b"' % CONTINUED.encode()
_TAKEN: Final = b'"kind":"%b"' % KIND_OF[BookTaken].encode()
_PART: Final = b',"part":['


@attrs.frozen
class Frontier:
    """Up to where the playbook of a machine contains the book.

    Attributes:
        seq: The last event number of the book that is contained, 0 for none.
        chain: The chain value of the book there; empty for none.
        upto: Own batches up to this event number are in the book.
        number: The own event number of the event that says so, 0 for none.
    """

    seq: int = 0
    chain: str = ""
    upto: int = 0
    number: int = 0


@attrs.frozen
class OwnHistory:
    """What a machine's own ledger says of its book, up to a moment.

    Attributes:
        frontier: The frontier there.
        pending: The batches after those that are known to be in the book, in order.
        positions: The position before each pending batch, and the one at the end.
        end: The position at the end.
        stamp: Number and chain value of the last own batch that changes the playbook, (0, "") for none.
    """

    frontier: Frontier
    pending: tuple[Sent, ...]
    positions: tuple[Position, ...]
    end: Position
    stamp: tuple[int, str]


def read_history(
    read: Callable[[Position], Iterable[RawBatch]], start: Position = START, taken: int = 0, until: int | None = None
) -> OwnHistory:
    """Return what the own ledger says of the book.

    Args:
        read: Reads the own ledger after a position.
        start: A position up to which all shared batches are in the book.
        taken: The frontier's event number there.
        until: The own event number of the moment; None for the end.
    """

    def find_session(session: str, seq: int) -> list[str]:
        before = takewhile(lambda batch: batch.last < seq, decode(read(START)))
        return list(ids_of_session(before, session))

    def find_made() -> dict[str, str]:
        before = Reader(find_session)
        deque(map(before.read, takewhile(lambda batch: batch.last <= start.seq, decode(read(START)))), maxlen=0)
        return before.made

    reader = Reader(find_session, (taken, ""), find_made)
    frontier, end, stamp = Frontier(taken), start, (0, "")
    found: list[tuple[Position, Sent]] = []
    for batch in decode(read(start)):
        if until is not None and batch.last > until:
            break
        taken_here = [event for event in batch.events if isinstance(event, BookTaken)]
        for event in taken_here:
            frontier = Frontier(event.seq, event.chain, event.upto, batch.last)
        is_shared = any(type(event) in SHARED for event in batch.events)
        if is_shared or taken_here:
            sent, stamp = reader.read(batch), (batch.last, batch.chain)
            if is_shared:
                found.append((end, sent))
        end = Position(batch.last, batch.chain, batch.end)
    waiting = [(position, sent) for position, sent in found if sent.records[-1].seq > frontier.upto]
    positions = (*(position for position, _ in waiting), end)
    return OwnHistory(frontier, tuple(sent for _, sent in waiting), positions, end, stamp)


def ids_of_session(batches: Iterable[Batch], session: str) -> Iterator[str]:
    """Yield the ids of a session's events that can be undone."""
    for batch in batches:
        if batch.may_contain_text(session):
            for record in batch.records:
                kind = type(record.event)
                if record.by.session == session and kind in UNDOABLE and kind is not EventsVoided:
                    yield record.id


# ---- Lines under other numbers ----


def renumber(batch: RawBatch, numbers: Sequence[int]) -> RawBatch:
    """Return a batch with other event numbers, one for each line; its bytes no longer prove themselves."""
    lines = [_set_number(line, number) for line, number in zip(batch.lines, numbers, strict=True)]
    return batch._replace(first=SharedNumber(numbers[0]), last=SharedNumber(numbers[-1]), lines=lines)


def _set_number(line: bytes, number: int) -> bytes:
    return line[:CRC_BYTES] + b'"seq":%d' % number + line[line.index(b",", CRC_BYTES) :]


def without_shared(batch: RawBatch) -> Iterator[RawBatch]:
    """Yield the lines of a batch that the book does not share, as batches of their own: consecutive lines together."""
    if not any(kind in line for line in batch.lines for kind in _HIDDEN):
        yield batch
        return
    is_shared = False
    rows: list[tuple[bool, int, bytes]] = []
    for seq, line in enumerate(batch.lines, batch.first):
        what = line.partition(SECTION)[2]
        # A continued text belongs to the line that it continues.
        is_shared = is_shared if what.startswith(_CONTINUED) else what.startswith(_HIDDEN)
        rows.append((is_shared, seq, line))
    for hidden, group in groupby(rows, itemgetter(0)):
        _, numbers, lines = zip(*group, strict=True)
        if not hidden:
            yield _as_batch(batch, numbers[0], lines)


def _as_batch(batch: RawBatch, first: int, lines: Sequence[bytes]) -> RawBatch:
    parted = []
    for index, line in enumerate(lines, 1):
        begin, mark, rest = line.partition(_PART)
        parted.append(b"%b%b%d,%d]%b" % (begin, mark, index, len(lines), rest.partition(b"]")[2]))
    return batch._replace(first=first, last=first + len(lines) - 1, lines=parted)


class PastSync(NamedTuple):
    """One sync of this machine.

    Attributes:
        number: Own number of the event that says so.
        taken: The book's event number that the playbook contains from there on.
        renamed: Own name → name in the book, of the entries that it published under another name.
        at: Its time.
    """

    number: int
    taken: int
    renamed: Mapping[str, str]
    at: str


def read_syncs(own: JsonlLog) -> list[PastSync]:
    """Return the syncs of this machine, in order."""
    return [
        PastSync(record.seq, event.seq, dict(zip(event.names, event.new_names, strict=False)), record.at)
        for batch in decode(find_or_read(own, (_TAKEN,)))
        for record in batch.records
        if isinstance(event := record.event, BookTaken)
    ]


def find_renamed(own: JsonlLog, before: int, after: int) -> dict[str, str]:
    """Return the entries that syncs between two own events published under another name: own name → name there."""
    renamed: dict[str, str] = {}
    for sync in read_syncs(own):
        if before < sync.number <= after:
            renamed = {name: sync.renamed.get(new, new) for name, new in renamed.items()} | dict(sync.renamed)
    return renamed


def add_arrivals(own: JsonlLog, value: Any) -> None:
    """Add ``taken``, as ``{seq, at}``, to each row of an answer that is about an event of the book."""
    syncs = read_syncs(own)

    def add(value: Any) -> None:
        if isinstance(value, list | dict):
            for child in list(value.values()) if isinstance(value, dict) else value:
                add(child)
        seq = value.get("seq") if isinstance(value, dict) else None
        number = book_number(seq) if isinstance(seq, SharedNumber) else None
        place = len(syncs) if number is None else bisect_left(syncs, number, key=lambda sync: sync.taken)
        if place < len(syncs):
            value["taken"] = {"seq": syncs[place].number, "at": syncs[place].at}

    add(value)


# ---- Names in own events that the book does not share ----

_NAMING: Final = tuple(
    b'"kind":"%b"' % KIND_OF[cls].encode()
    for cls in (
        events.LiftAsked,
        events.PlaybookInjected,
        events.PointCited,
        events.PointNoted,
        events.PointProposed,
        events.PointReviewed,
    )
)
_BODY: Final = b'"body":'
_DECODER: Final = json.JSONDecoder()


class OwnNames:
    """The names in one reading of the own ledger.

    A name means what it meant when its event was recorded: an own entry, unless the book had the name by then.

    Attributes:
        has_renames: Whether an entry was published under another name.
    """

    def __init__(self, own: JsonlLog, until: int | None, names_at: Callable[[int], Collection[str]]) -> None:
        """Read which entries were renamed.

        Args:
            own: The own ledger.
            until: The own event number of the moment; None for the end.
            names_at: Returns the names that the book had at one of its event numbers.
        """
        self._names_at = names_at
        self._syncs = [sync for sync in read_syncs(own) if until is None or sync.number <= until]
        self.has_renames = any(sync.renamed for sync in self._syncs)

    def rename(self, batch: RawBatch) -> RawBatch:
        """Return a batch of the own ledger with the names of the book; its bytes no longer prove themselves."""
        if not self.has_renames or not any(kind in line for line in batch.lines for kind in _NAMING):
            return batch
        return batch._replace(lines=[self._line(line, batch.first) for line in batch.lines])

    def _line(self, line: bytes, number: int) -> bytes:
        if not any(kind in line for kind in _NAMING):
            return line
        begin = line.index(_BODY) + len(_BODY)
        text = line[begin:].decode()
        body, end = _DECODER.raw_decode(text)
        if "name" in body:
            body["name"] = self._name(body["name"], number)
        for field in ("names", "held", "units", "merged"):
            if field in body:
                body[field] = [self._name(name, number) for name in body[field]]
        return line[:begin] + dumps(body).encode() + text[end:].encode()

    def _name(self, name: str, number: int) -> str:
        """Return the present name of the entry that a name meant at an own event."""
        later = next((sync for sync in self._syncs if sync.number > number and name in sync.renamed), None)
        if later is None:
            return name
        taken = max((sync.taken for sync in self._syncs if sync.number < number), default=0)
        had = taken and name in self._names_at(taken)
        return name if had else later.renamed[name]
