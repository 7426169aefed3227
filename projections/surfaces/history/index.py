"""The register of a long ledger: which batches speak of an entry or a session, and when each stretch was recorded.

It is kept as ``stretch`` has it, a file in the cache's ``register/`` for each stretch, bound to the
ledger by its sequence number and chain value, and grows by what is new. What is missing, stale, foreign or damaged
costs time and changes no answer; only that what is not asked for is not read, so damage there is ``verify``'s to find.
"""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.events import EventsVoided, PlaybookUpdated, PointMerged
from tallybook.ledger.line import START, Position, head_field
from tallybook.ledger.reading.random_access import read_batches_at
from tallybook.ledger.storage import redaction
from tallybook.projections.playbook.view import CHANGES
from tallybook.projections.surfaces.history import checkpoints
from tallybook.projections.surfaces.history import index_segment as stretches
from tallybook.projections.surfaces.history.index_segment import MERGES, REDACTIONS, UNDOINGS, Stretch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallybook.ledger.backends.jsonl import JsonlLog
    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.log import Log
    from tallybook.ledger.records import Batch

_FOLDER: Final = "register"
_SOURCES: Final = (
    "tallybook.ledger.encoding.header",
    "tallybook.ledger.line",
    "tallybook.projections.surfaces.history.index_segment",
)


@attrs.frozen
class Register:
    """What a ledger speaks of, from its first event to its last.

    Attributes:
        log: The ledger.
        stretches: Its stretches, one behind the other.
    """

    log: JsonlLog
    stretches: tuple[Stretch, ...]

    def with_keys(self, keys: Collection[str]) -> Iterator[RawBatch]:
        """Yield the batches that have one of these keys, in order; raises as ``picked`` does."""
        found = {place for stretch in self.stretches for key in keys for place in stretch.where(key)}
        return read_batches_at(self.log.path, sorted(found))

    def with_beginning(self, key: str) -> Iterator[RawBatch]:
        """Yield the batches that have a key that begins so; raises as ``speaking_of`` does."""
        found = {place for stretch in self.stretches for place in stretch.where_begins(key)}
        return self._explained(read_batches_at(self.log.path, sorted(found)))

    def speaking_of(self, names: Collection[str]) -> Iterator[Batch]:
        """Yield what decides about these entries: a fold of it comes to what the whole of history makes of them.

        That is what names one of them or of those that one was ever merged with, every undoing and redaction, and
        behind each of these batches what there is up to the update that closes it, for that drops what is due.

        Raises:
            DamagedLedgerError: A batch is not as it was, or a text is gone and nobody is known to have redacted it.
        """
        undone = self._undone()
        kin = self._kin(names)
        keys = {*map(stretches.entry, kin), UNDOINGS, REDACTIONS}
        places = sorted({place for stretch in self.stretches for key in keys for place in stretch.where(key)})
        behind = 0
        chosen = (place for place in places if place >= behind)
        for batch in decode(self._explained(read_batches_at(self.log.path, chosen))):
            yield batch
            behind = batch.end
            if _leaves_open(batch, kin, undone):
                for closing in self._up_to_a_closing(batch, kin, undone):
                    yield closing
                    behind = closing.end

    def _up_to_a_closing(self, batch: Batch, names: Collection[str], undone: Undone) -> Iterator[Batch]:
        """Yield what follows on a batch, up to one behind which none of these entries can be due."""
        for closing in decode(self.log.read(Position(batch.last, batch.chain, batch.end))):
            yield closing
            if _leaves_open(closing, names, undone) is False:
                return

    def _kin(self, names: Collection[str]) -> set[str]:
        """Return entries with all those that ever went into one of them, or that one of them went into."""
        merges = [
            {event.name, *event.merged}
            for batch in decode(self.with_keys({MERGES}))
            for event in batch.events
            if isinstance(event, PointMerged)
        ]
        kin, size = set(names), -1
        while len(kin) > size:
            size = len(kin)
            kin = kin.union(*(merged for merged in merges if merged & kin))
        return kin

    def _undone(self) -> Undone:
        """Return what was ever taken back, whether or not that was taken back in turn."""
        told = [
            event
            for batch in decode(self.with_keys({UNDOINGS}))
            for event in batch.events
            if isinstance(event, EventsVoided)
        ]
        ids = frozenset(id_ for event in told for id_ in event.ids)
        return Undone(ids, frozenset(event.session for event in told if event.session))

    def _explained(self, batches: Iterator[RawBatch]) -> Iterator[RawBatch]:
        """Yield batches whose texts stand, or were redacted."""
        known: set[str] | None = None
        for batch in batches:
            if lost := redaction.find_erased(batch):
                if known is None:
                    known = {id_ for one in self.with_keys({REDACTIONS}) for id_ in redaction.redacted_ids(one)}
                if problems := redaction.find_unexplained(lost, known, self.log.path.name):
                    raise DamagedLedgerError(problems)
            yield batch


@attrs.frozen
class Undone:
    """What was ever taken back.

    Attributes:
        ids: Events.
        sessions: Sessions, of which every event was.
    """

    ids: frozenset[str]
    sessions: frozenset[str]

    def may_touch(self, batch: Batch) -> bool:
        """Return False where nothing in a batch was ever taken back."""
        return (bool(self.ids) and batch.may_contain_ids(self.ids)) or any(map(batch.may_contain_text, self.sessions))


class Passage(NamedTuple):
    """Events that follow one another, all recorded by a time or all behind it.

    Attributes:
        last: Sequence number of the last.
        events: How many there are, 1 or more.
        first_at: When the first was recorded.
        last_at: When the last was.
        is_later: Whether all of them were recorded behind that time.
    """

    last: int
    events: int
    first_at: str
    last_at: str
    is_later: bool


def passages(log: Log, at: str) -> Iterator[Passage]:
    """Yield all of a ledger in passages; of a long one only the stretches are read in which a time may lie."""
    found = register_of(log)
    for one in (None,) if found is None else found.stretches:
        if one is None:
            yield from (_passage(batch, at) for batch in log.read())
        elif one.least > at or one.greatest <= at:
            if one.events:
                yield Passage(one.end.seq, one.events, one.first_at, one.last_at, one.least > at)
        else:
            within = takewhile(partial(_is_within, one), log.read(one.begin))
            yield from (_passage(batch, at) for batch in within)


def _is_within(stretch: Stretch, batch: RawBatch) -> bool:
    return batch.last <= stretch.end.seq


def _passage(batch: RawBatch, at: str) -> Passage:
    # One append has one time.
    recorded = head_field(batch.data, b"at")
    return Passage(batch.last, batch.last - batch.first + 1, recorded, recorded, recorded > at)


def _leaves_open(batch: Batch, names: Collection[str], undone: Undone) -> bool | None:
    """Say whether one of these entries may be due behind a batch, None where the batch decides nothing about that.

    An update drops what is due, unless it is undone; then another one does, further on.
    """
    stands = not undone.may_touch(batch)
    for event in reversed(batch.events):
        if isinstance(event, PlaybookUpdated) and stands:
            return False
        if type(event) in CHANGES and type(event) in stretches.ABOUT:
            said = {event.name, *getattr(event, "merged", ())}  # type: ignore[union-attr]
            if not said.isdisjoint(names):
                return True
    return None


def register_of(log: Log) -> Register | None:
    """Return the register of a ledger, grown by what is new; None where nothing is kept of it.

    Raises:
        TallybookError: The ledger is damaged or cannot be read.
    """
    if not checkpoints.is_kept_of(log):
        return None
    # What was said before this is read is done or owed; what is owed is looked for behind it.
    seen = log.head()
    if seen == START or redaction.read_pending(log.folder) is not None:
        return None
    kept = _kept(log)
    while kept and not _fits(log, kept[-1]):
        kept.pop()
    return Register(log, (*kept, *_new(log, seen, kept[-1].end if kept else START)))


def _kept(log: JsonlLog) -> list[Stretch]:
    """Return the stretches that are kept, from the beginning on, each where the one before it ends."""
    kept: list[Stretch] = []
    end, code = START, checkpoints.code_of(*_SOURCES)
    while True:
        try:
            one = stretches.unpacked(checkpoints.got(log, _FOLDER, str(end.seq)) or b"", code)
        except checkpoints.FAULTS:
            return kept
        if one is None or one.begin != end or one.end.seq <= end.seq:
            return kept
        kept.append(one)
        end = one.end


def _fits(log: JsonlLog, last: Stretch) -> bool:
    """Say whether a stretch ends where this ledger goes on."""
    try:
        found = next(read_batches_at(log.path, [last.before.offset]))
    except (OSError, DamagedLedgerError):
        return False
    return (found.last, found.chain, found.end) == last.end[:3]


def _new(log: JsonlLog, seen: Position, end: Position) -> Iterator[Stretch]:
    """Yield the stretches behind a place, and keep those that are long enough."""
    may_keep, one = True, Stretch.behind(end)
    for batch in decode(log.read(end)):
        one.hear(batch)
        if one.end.offset - one.begin.offset >= checkpoints.APART_BYTES:
            one.tell()
            may_keep = may_keep and _keep(log, seen, one)
            yield one
            one = Stretch.behind(one.end)
    one.tell()
    yield one


def _keep(log: JsonlLog, seen: Position, one: Stretch) -> bool:
    """Keep a stretch; False where no more can be kept."""
    try:
        data = stretches.packed(one, checkpoints.code_of(*_SOURCES))
        return checkpoints.put(log, seen, one.end.seq, (_FOLDER, str(one.begin.seq)), data)
    except checkpoints.FAULTS:
        return False
