"""The index of a long ledger: which batches concern an entry or a session, and when each part was recorded.

It is a row of segments, each a rebuildable file named after the event number at which it begins; it grows with the
ledger. A segment may list a batch too many and never one too few: the caller reads each batch that is listed. Batches
that are not listed are not read, so damage in them is found by ``verify``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger.encoding.codec import decode, parse_session
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.events import EVENT_TYPES, EventRedacted, EventsVoided, PlaybookUpdated, PointMerged, PointNoted
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import START, Position, head_field
from tallybook.ledger.reading.random_access import read_batches_at
from tallybook.ledger.storage import redaction
from tallybook.projections.playbook.view import CHANGES
from tallybook.projections.surfaces.history import cache_files
from tallybook.projections.surfaces.history.cache_files import FAULTS, CacheFiles, Reading

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallybook.ledger.backends.jsonl import JsonlLog
    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.log import Log
    from tallybook.ledger.records import Batch

_FILES: Final = CacheFiles(
    "register", ("tallybook.ledger.encoding.codec", "tallybook.projections.surfaces.history.index")
)


MERGES: Final = "merges"
UNDOINGS: Final = "undoings"
REDACTIONS: Final = "redactions"
_ALSO: Final[dict[type[Any], str]] = {PointMerged: MERGES, EventsVoided: UNDOINGS, EventRedacted: REDACTIONS}
"""Class of event → the key that lists every batch with such an event."""

ABOUT: Final = frozenset(
    kind for kind, _ in EVENT_TYPES.values() if kind in {*CHANGES, PointNoted} and "name" in attrs.fields_dict(kind)
)
"""Classes of events that change or describe an entry that they name."""


@lru_cache(maxsize=16_384)
def entry_key(name: str) -> str:
    """Return the key of an entry."""
    return f"entry {dumps(name)}"


@lru_cache(maxsize=1024)
def session_key(name: str) -> str:
    """Return the key of a session."""
    return f"session {dumps(name)}"


def session_prefix(prefix: str) -> str:
    """Return the common beginning of the keys of all sessions whose ids have a prefix."""
    return session_key(prefix)[:-1]


def entries_in(batch: Batch) -> set[str]:
    """Return the entries that a batch changes or describes."""
    names = set()
    for event in batch.events:
        if type(event) in ABOUT:
            names.add(event.name)  # type: ignore[attr-defined]
            if isinstance(event, PointMerged):
                names.update(event.merged)
    return names


def _keys(batch: Batch, raters: Collection[bytes]) -> set[str]:
    keys = set(map(entry_key, entries_in(batch)))
    keys.update(_ALSO[kind] for kind in map(type, batch.events) if kind in _ALSO)
    keys.update(session_key(name) for name in map(parse_session, raters) if name is not None)
    return keys


@attrs.define
class Segment:
    """Consecutive batches, and the keys that each of them has.

    Attributes:
        begin: The position before the first batch.
        before: The position before the last batch, which is read again: it proves that the ledger is the same.
        end: The position after the last batch.
        first_at: When the first batch was recorded, empty where there is none.
        last_at: When the last batch was recorded.
        earliest: The earliest time of all batches.
        latest: The latest time of all batches.
        table: A line for each key, after a line feed: the key, a tab, and the batches that have it, as offsets from
            the beginning of the segment. Text is searched faster than it would be parsed. Empty until ``close``.
        offsets: The same by key, while the segment grows.
    """

    begin: Position = START
    before: Position = START
    end: Position = START
    first_at: str = ""
    last_at: str = ""
    earliest: str = ""
    latest: str = ""
    table: bytes = b""
    offsets: dict[str, list[str]] = attrs.field(factory=dict)

    @classmethod
    def after(cls, position: Position) -> Segment:
        """Return an empty segment that begins at a position."""
        return cls(position, position, position)

    @classmethod
    def load(cls, header: Any, body: bytes) -> Segment:
        """Return the segment of a file.

        Raises:
            ValueError, TypeError: The header is not one of a segment.
        """
        positions, (first_at, last_at, earliest, latest) = header
        begin, before, end = (Position(*position) for position in positions)
        return cls(begin, before, end, first_at, last_at, earliest, latest, b"\n" + body)

    @property
    def header(self) -> Any:
        """Return what a file says before the table."""
        times = (self.first_at, self.last_at, self.earliest, self.latest)
        return [(self.begin[:3], self.before[:3], self.end[:3]), times]

    @property
    def events(self) -> int:
        """Return how many events the segment has."""
        return self.end.seq - self.begin.seq

    def add(self, batch: Batch) -> None:
        """Add the next batch."""
        at, raters = batch.unverified_authors
        offset = str(batch.begin - self.begin.offset)
        for key in _keys(batch, raters):
            self.offsets.setdefault(key, []).append(offset)
        if not self.first_at:
            self.first_at = self.earliest = self.latest = at
        self.earliest, self.latest, self.last_at = min(self.earliest, at), max(self.latest, at), at
        self.before, self.end = self.end, Position(batch.last, batch.chain, batch.end)

    def close(self) -> None:
        """Write the table; no batch is added after this."""
        lines = (f"\n{key}\t{' '.join(offsets)}" for key, offsets in self.offsets.items())
        self.table = ("".join(lines) + "\n").encode("utf-8", "replace")
        self.offsets.clear()

    def find(self, prefix: str) -> Iterator[int]:
        """Yield the offset of each batch that has a key with a prefix, key by key; a whole key ends with a tab."""
        beginning = b"\n" + prefix.encode("utf-8", "replace")
        line = self.table.find(beginning)
        while line >= 0:
            end = self.table.find(b"\n", line + 1)
            offsets = self.table[self.table.find(b"\t", line) + 1 : end]
            yield from (self.begin.offset + int(offset) for offset in offsets.split())
            line = self.table.find(beginning, end)


@attrs.frozen
class Index:
    """Which batches of a ledger concern what.

    Attributes:
        log: The ledger.
        segments: The segments in order; together they cover the whole ledger.
    """

    log: JsonlLog
    segments: tuple[Segment, ...]

    def _offsets(self, *prefixes: str) -> list[int]:
        return sorted({offset for segment in self.segments for prefix in prefixes for offset in segment.find(prefix)})

    def _with_key(self, key: str) -> Iterator[RawBatch]:
        return read_batches_at(self.log.path, self._offsets(f"{key}\t"))

    def with_prefix(self, prefix: str) -> Iterator[RawBatch]:
        """Yield the batches that have a key with a prefix; raises as ``about`` does."""
        return self._check_redactions(read_batches_at(self.log.path, self._offsets(prefix)))

    def about(self, names: Collection[str]) -> Iterator[Batch]:
        """Yield the batches that decide the history of entries: folding them gives what all of history gives.

        These are the batches that name one of the entries, or an entry that was ever merged with one, every undoing
        and redaction, and after each of them the batches up to the update that prunes what is due.

        Raises:
            DamagedLedgerError: A batch was changed, or a text is missing and no redaction explains it.
        """
        undone = self._undone()
        kin = self._kin(names)
        read_up_to = 0
        offsets = self._offsets(*(f"{key}\t" for key in (*map(entry_key, kin), UNDOINGS, REDACTIONS)))
        # A batch that was read on the way to an update is not read twice.
        unread = (offset for offset in offsets if offset >= read_up_to)
        for batch in decode(self._check_redactions(read_batches_at(self.log.path, unread))):
            yield batch
            read_up_to = batch.end
            if _leaves_open(batch, kin, undone):
                for following in self._up_to_update(batch, kin, undone):
                    yield following
                    read_up_to = following.end

    def _up_to_update(self, batch: Batch, names: Collection[str], undone: Undone) -> Iterator[Batch]:
        """Yield the batches after one, up to an update after which none of these entries can be due."""
        for following in decode(self.log.read(Position(batch.last, batch.chain, batch.end))):
            yield following
            if _leaves_open(following, names, undone) is False:
                return

    def _kin(self, names: Collection[str]) -> set[str]:
        """Return entries with every entry that was ever merged with one of them, directly or not."""
        merges = [
            {event.name, *event.merged}
            for batch in decode(self._with_key(MERGES))
            for event in batch.events
            if isinstance(event, PointMerged)
        ]
        kin, size = set(names), -1
        while len(kin) > size:
            size = len(kin)
            kin = kin.union(*(merged for merged in merges if merged & kin))
        return kin

    def _undone(self) -> Undone:
        """Return what was ever undone, also where that undoing was undone later."""
        undoings = [
            event
            for batch in decode(self._with_key(UNDOINGS))
            for event in batch.events
            if isinstance(event, EventsVoided)
        ]
        ids = frozenset(id_ for event in undoings for id_ in event.ids)
        return Undone(ids, frozenset(event.session for event in undoings if event.session))

    def _check_redactions(self, batches: Iterator[RawBatch]) -> Iterator[RawBatch]:
        """Yield batches; every text that is missing in them was redacted."""
        redacted: set[str] | None = None
        for batch in batches:
            if missing := redaction.find_erased(batch):
                if redacted is None:
                    redacted = {id_ for one in self._with_key(REDACTIONS) for id_ in redaction.redacted_ids(one)}
                if problems := redaction.find_unexplained(missing, redacted, self.log.path.name):
                    raise DamagedLedgerError(problems)
            yield batch


@attrs.frozen
class Undone:
    """What was ever undone.

    Attributes:
        ids: Ids of events.
        sessions: Sessions of which every event was undone.
    """

    ids: frozenset[str]
    sessions: frozenset[str]

    def may_touch(self, batch: Batch) -> bool:
        """Return False where nothing in a batch was ever undone."""
        return (bool(self.ids) and batch.may_contain_ids(self.ids)) or any(map(batch.may_contain_text, self.sessions))


class Passage(NamedTuple):
    """Consecutive events, all recorded up to a time or all after it.

    Attributes:
        last: Number of the last event.
        events: How many events there are, 1 or more.
        first_at: When the first one was recorded.
        last_at: When the last one was recorded.
        is_later: Whether all of them were recorded after that time.
    """

    last: int
    events: int
    first_at: str
    last_at: str
    is_later: bool


def passages(log: Log, at: str) -> Iterator[Passage]:
    """Yield a whole ledger in passages; of a long one only the segments are read in which a time may lie."""
    index = index_of(log)
    for segment in (None,) if index is None else index.segments:
        if segment is None:
            yield from (_passage(batch, at) for batch in log.read())
        elif segment.earliest > at or segment.latest <= at:
            if segment.events:
                is_later = segment.earliest > at
                yield Passage(segment.end.seq, segment.events, segment.first_at, segment.last_at, is_later)
        else:
            for batch in log.read(segment.begin):
                if batch.last > segment.end.seq:
                    break
                yield _passage(batch, at)


def _passage(batch: RawBatch, at: str) -> Passage:
    # All events of a batch have one time.
    recorded_at = head_field(batch.data, b"at")
    return Passage(batch.last, batch.last - batch.first + 1, recorded_at, recorded_at, recorded_at > at)


def _leaves_open(batch: Batch, names: Collection[str], undone: Undone) -> bool | None:
    """Return whether one of these entries may be due after a batch, None where the batch does not decide that.

    An update prunes what is due, unless it is undone: then a later update does.
    """
    counts = not undone.may_touch(batch)
    for event in reversed(batch.events):
        if isinstance(event, PlaybookUpdated) and counts:
            return False
        if type(event) in CHANGES and type(event) in ABOUT:
            entry_names = {event.name, *getattr(event, "merged", ())}  # type: ignore[attr-defined]
            if not entry_names.isdisjoint(names):
                return True
    return None


def index_of(log: Log) -> Index | None:
    """Return the index of a ledger, grown by what is new; None where no files are stored of the ledger.

    Raises:
        TallybookError: The ledger is damaged or cannot be read.
    """
    reading = Reading.of(log)
    if reading is None or reading.is_redacting:
        return None
    segments = _load_segments(reading.log)
    while segments and not _fits(reading.log, segments[-1]):
        segments.pop()
    return Index(reading.log, (*segments, *_new(reading, segments[-1].end if segments else START)))


def _load_segments(log: JsonlLog) -> list[Segment]:
    """Return the stored segments from the beginning on, each where the one before it ends."""
    segments: list[Segment] = []
    end = START
    while (content := _FILES.read(log, str(end.seq))) is not None:
        try:
            segment = Segment.load(*content)
        except FAULTS:
            break
        if segment.begin != end or segment.end.seq <= end.seq:
            break
        segments.append(segment)
        end = segment.end
    return segments


def _fits(log: JsonlLog, last: Segment) -> bool:
    """Return whether a segment ends at a batch of this ledger."""
    try:
        batch = next(read_batches_at(log.path, [last.before.offset]))
    except (OSError, DamagedLedgerError):
        return False
    return (batch.last, batch.chain, batch.end) == last.end[:3]


def _new(reading: Reading, end: Position) -> Iterator[Segment]:
    """Yield the segments after a position, and store those that are long enough."""
    may_store, segment = True, Segment.after(end)
    for batch in decode(reading.log.read(end)):
        segment.add(batch)
        if segment.end.offset - segment.begin.offset >= cache_files.APART_BYTES:
            segment.close()
            may_store = may_store and _store(reading, segment)
            yield segment
            segment = Segment.after(segment.end)
    segment.close()
    yield segment


def _store(reading: Reading, segment: Segment) -> bool:
    """Store a segment; return False where no more can be stored."""
    try:
        return _FILES.write(reading, segment.end.seq, str(segment.begin.seq), segment.header, segment.table[1:])
    except FAULTS:
        return False
