"""The history that a machine in a book shows: the book up to its frontier, then its pending batches as they land.

``SharedLog`` reads like a ledger, so every view works on it. It holds no bytes of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, takewhile
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import clock, events, line
from tallybook.ledger.codec import decode, encode, join
from tallybook.ledger.errors import DamagedLedgerError, MissingLinesError
from tallybook.ledger.events import KIND_OF, MAKERS, BookTaken, EventsVoided, NamesMeant, PointEdited, PointMatched
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import START, Position, RawBatch
from tallybook.ledger.log import JsonlLog, Transaction
from tallybook.ledger.names import parse_number
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.records import Batch, EventRecord
from tallybook.ledger.scan import bytes_of, find_batches, find_or_read, read_batches_at
from tallybook.ledger.search import Delivery
from tallybook.ledger.sharing import landing, replica
from tallybook.ledger.sharing.book import Publisher
from tallybook.ledger.sharing.numbers import (
    BOOK,
    PENDING,
    SharedNumber,
    book_number,
    format_shared_number,
    last_shown,
    own_id,
)
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.head import has_position
from tallybook.ledger.storage.redaction import read_redacted_ids
from tallybook.projections.playbook.fold import UNDOABLE, State, UndoneEvent, View, fold, fold_history
from tallybook.projections.playbook.view import PLAYBOOK, Playbook, settle
from tallybook.projections.surfaces.history.checkpoints import REWRITING, Form, S, fold_log

if TYPE_CHECKING:
    from tallybook.ledger.fast_stdlib import StrPath

    Landing = list[tuple[landing.Landed, RawBatch | None]]


SHARED_KINDS: Final = tuple(bytes_of("kind", KIND_OF[cls]) for cls in landing.SHARED)
# Views have no use for the ids of names.
_HIDDEN: Final = (*SHARED_KINDS, bytes_of("kind", KIND_OF[NamesMeant]))
_CONTINUED: Final = bytes_of("kind", line.CONTINUED)
_TAKEN: Final = bytes_of("kind", KIND_OF[BookTaken])


@attrs.frozen
class OwnHistory:
    """What a machine's own ledger says of its book, up to a moment.

    Attributes:
        frontier: Up to where the playbook contains the book there: up to its event 0 before it contains any.
        pending: The batches after those that are known to be in the book, in order.
        begin: The position before the first pending batch, the one at the end without such.
        end: The position at the end.
        stamp: Number and chain value of the last own batch that changes the playbook, (0, "") for none.
    """

    frontier: BookTaken
    pending: tuple[landing.Sent, ...]
    begin: Position
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
        before = landing.Reader(find_session)
        deque(map(before.read, takewhile(lambda batch: batch.last <= start.seq, decode(read(START)))), maxlen=0)
        return before.made

    reader = landing.Reader(find_session, (taken, ""), find_made)
    frontier, end, stamp = BookTaken(taken, "", 0, (), ()), start, (0, "")
    found: list[tuple[Position, landing.Sent]] = []
    for batch in decode(read(start)):
        # What its names mean is never shown, so the event before that ends a batch for people.
        if until is not None and batch.last - sum(isinstance(event, NamesMeant) for event in batch.events) > until:
            break
        for event in batch.events:
            frontier = event if isinstance(event, BookTaken) else frontier
        kinds = {*map(type, batch.events)}
        if BookTaken in kinds or kinds & landing.SHARED:
            sent, stamp = reader.read(batch), (batch.last, batch.chain)
            if kinds & landing.SHARED:
                found.append((end, sent))
        end = Position(batch.last, batch.chain, batch.end)
    waiting = [(position, sent) for position, sent in found if sent.batch.first > frontier.upto]
    begin = waiting[0][0] if waiting else end
    return OwnHistory(frontier, tuple(sent for _, sent in waiting), begin, end, stamp)


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
    lines = [_set_number(raw_line, number) for raw_line, number in zip(batch.lines, numbers, strict=True)]
    return batch._replace(first=SharedNumber(numbers[0]), last=SharedNumber(numbers[-1]), lines=lines)


def _set_number(raw_line: bytes, number: int) -> bytes:
    return raw_line[: line.CRC_BYTES] + b'"seq":%d' % number + raw_line[raw_line.index(b",", line.CRC_BYTES) :]


def without_shared(batch: RawBatch) -> RawBatch | None:
    """Return a batch with the lines alone that the book does not share; None where it has none."""
    if not any(kind in raw_line for raw_line in batch.lines for kind in _HIDDEN):
        return batch
    lines: list[bytes] = []
    is_shared = False
    for raw_line in batch.lines:
        what = raw_line.partition(line.SECTION)[2]
        # A continued text belongs to the line that it continues.
        is_shared = is_shared if what.startswith(_CONTINUED) else what.startswith(_HIDDEN)
        lines += [] if is_shared else [raw_line]
    if not lines:
        return None
    first, last = (SharedNumber(line.first_seq(lines[index])) for index in (0, -1))
    return batch._replace(first=first, last=last, lines=lines)


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


def add_arrivals(syncs: Sequence[PastSync], value: Any) -> None:
    """Add ``taken``, as ``{seq, at}``, to each row of an answer that is about an event of the book."""
    if isinstance(value, list | dict):
        for child in list(value.values()) if isinstance(value, dict) else value:
            add_arrivals(syncs, child)
    seq = value.get("seq") if isinstance(value, dict) else None
    number = book_number(seq) if isinstance(seq, SharedNumber) else None
    place = len(syncs) if number is None else bisect_left(syncs, number, key=lambda sync: sync.taken)
    if place < len(syncs):
        value["taken"] = {"seq": syncs[place].number, "at": syncs[place].at}


# ---- Names in own events that the book does not share ----

_NAMING: Final = tuple(
    bytes_of("kind", KIND_OF[cls])
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


# ---- The history ----

_NO_REASON: Final = b'"reason":""'
# Few events have a reason, and no text holds these bytes: a quote in it would be escaped.
_REASON: Final = b'"reason":"'


@attrs.define
class BookState(Playbook):
    """The playbook, with who made its entries.

    Attributes:
        ids: Name → id of the event that made the entry, also where that is undone.
        matched: Name of an entry that was joined to another one when it landed → that one.
    """

    ids: dict[str, str] = attrs.field(factory=dict)
    matched: dict[str, str] = attrs.field(factory=dict)


def _settle(state: BookState, batch: Batch) -> None:
    settle(state, batch)
    if any(isinstance(event, (*MAKERS, UndoneEvent)) for event in batch.events):
        for record in batch.records:
            event: Any = record.event
            if isinstance(event, PointMatched):
                state.matched[event.name] = event.to
            event = event.event if isinstance(event, UndoneEvent) else event
            if isinstance(event, MAKERS):
                state.ids.setdefault(event.name, record.id)


BOOK_VIEW: Final[View[BookState]] = View(BookState, PLAYBOOK.table, _settle)
"""The view of what batches land on."""

BOOK_FORM: Final[Form[BookState]] = Form("book", BOOK_VIEW, lambda state: state)
"""How it is saved."""


def make_ground(state: BookState, read: Callable[[], Iterable[RawBatch]], **facts: Any) -> landing.Ground:
    """Return what batches land on.

    Args:
        state: The playbook there; it is changed.
        read: Returns the batches there.
        facts: The other attributes of `Ground`.
    """
    return landing.Ground(state, state.ids, state.matched, _advance, read=read, **facts)


def _advance(ground: landing.Ground, landed: landing.Landed, raw: RawBatch) -> None:
    """Fold a landed batch; all of history anew where it undoes something."""
    # A text can be masked in the bytes. Without one they say what landed, and decoding takes a fifth of a first sync.
    batch = next(decode([raw])) if line.FREE_MARK in raw.data else join(raw, [event.event for event in landed.events])
    state: Any = ground.state
    if any(isinstance(event, EventsVoided) for event in batch.events):
        state = fold_history(BOOK_VIEW, lambda: decode([*ground.read(), *ground.landed]))
    else:
        fold(BOOK_VIEW, [batch], state)
    ground.state, ground.ids, ground.matched = state, state.ids, state.matched
    # Nearly all batches only rate, and decoding their heads would take a sixth of a long first sync.
    for record in batch.records if any(isinstance(event, MAKERS) for event in batch.events) else ():
        event: Any = record.event
        if isinstance(event, MAKERS) and state.ids.get(event.name) == record.id:
            ground.names[record.id] = event.name


def highest_in_block(names: Iterable[str], block: tuple[int, int]) -> int:
    """Return the highest number of a block of names that an entry has or had; 0 for none."""
    numbers = (parse_number(name) or 0 for name in names)
    return max((number for number in numbers if block[0] <= number <= block[1]), default=0)


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
        self._starts = START, START

    def _forget(self) -> None:
        """Forget what was read, because the own ledger has grown."""
        for name in ("history", "syncs", "_landing"):
            self.__dict__.pop(name, None)

    @property
    def own(self) -> JsonlLog:
        """Return the own ledger alone."""
        return JsonlLog(self.ledger_folder, self.now)

    @cached_property
    def copy(self) -> replica.Replica:
        """Return the copy of the book that has the frontier: the present one, or one that was set aside."""
        return replica.find_copy(self.ledger_folder, self.history.frontier.chain)

    # ---- The own part ----

    @cached_property
    def history(self) -> OwnHistory:
        """Return what the own ledger says of the book at this moment."""
        start, taken = self._start() if self.until is None else (START, 0)
        return read_history(super().read, start, taken, self.until)

    def _start(self) -> tuple[Position, int]:
        """Return the position from which the own ledger has to be read, and the frontier's event number there."""
        current = replica.read_current(self.ledger_folder)
        if current.upto.seq:
            with disk.hold_open(self.log_file) as fd:
                if has_position(fd, current.upto):
                    return current.upto, current.taken
        return START, 0

    # ---- The whole history ----

    def read(self, after: Position = START) -> Iterator[RawBatch]:
        """Yield own batches that the book does not share, then the book, then pending batches as they land.

        Raises:
            DamagedLedgerError: The own ledger is damaged.
            MissingLinesError: The copy of the book lacks lines, or is damaged.
        """
        if after != START:
            raise ValueError("a shared history is read from its beginning")
        yield from self._join(super().read(self._starts[0]), self.read_book())

    def read_batches(self, places: Mapping[int, int]) -> Iterator[RawBatch]:
        """Yield batches by their places, last event number → offset in their log, and all pending ones.

        Raises:
            DamagedLedgerError: One of them does not verify.
        """
        own = read_batches_at(self.own, [offset for last, offset in places.items() if last <= BOOK])
        return self._join(own, read_batches_at(self.copy.log, [places[last] for last in places if book_number(last)]))

    def _join(self, own: Iterable[RawBatch], book: Iterable[RawBatch]) -> Iterator[RawBatch]:
        """Yield batches of the own ledger, batches of the book, and all pending ones, as views read them."""
        yield from self._own_part(own)
        for batch in book:
            yield self._with_reasons(renumber(batch, range(BOOK + batch.first, BOOK + batch.last + 1)))
        yield from (self._with_reasons(raw) for _, raw in self.land_pending() if raw is not None)

    def _with_reasons(self, batch: RawBatch) -> RawBatch:
        """Return a batch with the reasons of this machine's events, which stay in the own ledger."""
        return batch._replace(lines=[self._with_reason(raw_line) for raw_line in batch.lines])

    def _with_reason(self, raw_line: bytes) -> bytes:
        reason = self._find_reason(line.head_field(raw_line, b"id")) if _NO_REASON in raw_line else None
        return raw_line.replace(_NO_REASON, bytes_of("reason", reason)) if reason else raw_line

    def _find_reason(self, id_: str) -> str | None:
        """Return the reason of an event of this machine; None where the own ledger has none."""
        return self._reasons.get(own_id(id_)) or None

    @cached_property
    def _reasons(self) -> dict[str, str]:
        """Return id → reason of the events of the own ledger that give one."""
        records = (record for batch in decode(find_or_read(self.own, (_REASON,))) for record in batch.records)
        reasons = ((record.id, getattr(record.event, "reason", "")) for record in records)
        return {id_: reason for id_, reason in reasons if reason}

    def _own_part(self, batches: Iterable[RawBatch]) -> Iterator[RawBatch]:
        """Yield what the book does not share of batches of the own ledger, with the names of the book."""
        for batch in batches:
            if self.until is not None and last_shown(batch) > self.until:
                break
            if (own := without_shared(batch)) is not None:
                yield self._rename(own)

    # ---- Names in own events that the book does not share ----

    @cached_property
    def syncs(self) -> list[PastSync]:
        """Return the syncs of this machine up to this moment, in order."""
        return [sync for sync in read_syncs(self.own) if self.until is None or sync.number <= self.until]

    def _rename(self, batch: RawBatch) -> RawBatch:
        """Return a batch of the own ledger with the names of the book; its bytes no longer prove themselves."""
        if not any(sync.renamed for sync in self.syncs):
            return batch
        return batch._replace(lines=[self._rename_in_line(raw_line, batch.first) for raw_line in batch.lines])

    def _rename_in_line(self, raw_line: bytes, number: int) -> bytes:
        if not any(kind in raw_line for kind in _NAMING):
            return raw_line
        begin = raw_line.index(_BODY) + len(_BODY)
        text = raw_line[begin:].decode()
        body, end = _DECODER.raw_decode(text)
        if "name" in body:
            body["name"] = self._name_now(body["name"], number)
        for field in ("names", "held", "units", "merged"):
            if field in body:
                body[field] = [self._name_now(name, number) for name in body[field]]
        return raw_line[:begin] + dumps(body).encode() + text[end:].encode()

    def _name_now(self, name: str, number: int) -> str:
        """Return the present name of the entry that a name meant at an own event.

        A name means what it meant when its event was recorded: an own entry, unless the book had the name by then.
        """
        later = next((sync for sync in self.syncs if sync.number > number and name in sync.renamed), None)
        if later is None:
            return name
        taken = max((sync.taken for sync in self.syncs if sync.number < number), default=0)
        return name if taken and name in self.book_playbook(taken).used else later.renamed[name]

    def read_book(self, until: int | None = None) -> Iterator[RawBatch]:
        """Yield the book up to the frontier, or up to an earlier event number.

        Raises:
            MissingLinesError: Lines up to the frontier are missing, damaged, or of another history.
        """
        frontier, start = self.history.frontier, self._starts[1]
        last, chain = start.seq, start.chain
        try:
            for batch in self.copy.read(frontier.seq if until is None else until, start):
                yield batch
                last, chain = batch.last, batch.chain
        except DamagedLedgerError as error:
            raise self._make_missing_error(error) from error
        if until is None and frontier.seq and (last, chain) != (frontier.seq, frontier.chain):
            raise self._make_missing_error()

    def read_tail(self, own: Position, book: Position) -> SharedLog:
        """Return the present history without what is before positions of the own ledger and of the book."""
        log = SharedLog(self.ledger_folder, self.now)
        log._starts = own, book
        return log

    def _make_missing_error(self, damage: DamagedLedgerError | None = None) -> MissingLinesError:
        """Return the error that says which lines are not here, and how to get them."""
        present = self if self.until is None else SharedLog(self.ledger_folder, self.now)
        is_fetched = damage is not None or not present.copy.has(present.history.frontier.chain)
        moment = "the present playbook" if self.until is None else f"event {self.until}"
        hint = "run `tallybook sync`" if is_fetched else "they are in no copy of the book on this machine"
        state = "missing" if damage is None else f"missing or damaged ({damage.problems[0]})"
        return MissingLinesError(moment, self.history.frontier.seq, hint, state)

    def land_pending(self) -> Landing:
        """Return the pending batches as they land, each with its bytes; None for one that concerns nobody else."""
        return self._landing[1]

    def count_pending(self) -> int:
        """Return how many own batches are not in the book."""
        if not self.history.pending:
            return 0
        return sum(not landed.is_here and (bool(landed.events) or landed.lacks) for landed, _ in self.land_pending())

    # ---- Views ----

    def playbook(self) -> Playbook:
        """Return the playbook at this moment."""
        state = self._landing[0].state
        # The state is changed by callers that fold on.
        del self._landing
        return state

    def book_playbook(self, seq: int) -> BookState:
        """Return the playbook of the book alone, as of one of its event numbers."""
        return self._book_state(BOOK_FORM, seq)

    def _book_state(self, form: Form[S], seq: int) -> S:
        """Return the state of a view of the book alone, as of one of its event numbers, from its checkpoint on."""
        try:
            # Checkpoints go on from the end, which another process may have moved, or which an interrupted sync left.
            state = fold_log(form, self.copy.log, None if self.copy.end().seq == seq else seq)
            return state if state.seq <= seq else fold_log(form, self.copy.log, seq)
        except DamagedLedgerError as error:
            raise self._make_missing_error(error) from error

    def state(self, form: Form[S]) -> S:
        """Return the state of a view at this moment."""
        pending = list(decode(self._with_reasons(raw) for _, raw in self.land_pending() if raw is not None))
        is_rewritten = any(type(event) in REWRITING for batch in pending for event in batch.events)
        if form.number_in_book is None or is_rewritten or not self.history.frontier.seq:
            state = fold_history(form.view, lambda: decode(self.read()))
        else:
            state = self._book_state(form, self.history.frontier.seq)
            form.number_in_book(state, self._find_reason)
            # What only the own ledger has does not depend on the book.
            own_kinds = {kind for kind in form.view.table if kind in KIND_OF} - landing.SHARED - {BookTaken}
            own = find_or_read(self.own, [bytes_of("kind", KIND_OF[kind]) for kind in own_kinds])
            latest = state.latest_batch
            fold(form.view, decode(self._own_part(own)), state)
            state.latest_batch = latest
            fold(form.view, pending, state)
        self.stamp(state, form.book(state))
        return state

    @cached_property
    def _landing(self) -> tuple[landing.Ground, Landing]:
        """Return what the pending batches landed on, and how they landed."""
        frontier = self.history.frontier
        state = self.book_playbook(frontier.seq)
        if frontier.seq and (state.seq, state.chain) != (frontier.seq, frontier.chain):
            list(self.read_book())
        ground = self.ground(state)
        landed = [*landing.land(self._read_pending(), ground, _frame_pending)]
        self.stamp(ground.state, ground.state)
        block = replica.read_current(self.ledger_folder).block
        if block[0]:
            # The next name comes from this machine's own block.
            ground.state.high_water = highest_in_block(ground.state.used, block) or block[0] - 1
        return ground, landed

    def _read_pending(self) -> Sequence[landing.Sent]:
        """Return the pending batches; of a past moment, with a text in each edit whose text was redacted only later."""
        if self.until is None:
            return self.history.pending

        def restore(record: EventRecord) -> EventRecord:
            event = record.event
            if not isinstance(event, PointEdited) or event.text is not None or record.id in self._redacted_then:
                return record
            # Without one it would leave the text of its entry, as an edit does that was redacted before publication.
            return attrs.evolve(record, event=event.evolve(text=REDACTED))

        return [
            attrs.evolve(sent, batch=sent.batch.with_records([*map(restore, sent.records)]))
            for sent in self.history.pending
        ]

    @cached_property
    def _redacted_then(self) -> set[str]:
        """Return the ids of the events that were redacted at a past moment, as far as this machine knew."""
        return {id_ for batch in self._read_known() for id_ in read_redacted_ids(batch)}

    def _read_known(self) -> list[RawBatch]:
        """Return the own ledger up to this moment, and the book up to the frontier."""
        own = (batch for batch in self.own.read() if self.until is None or batch.last <= self.until)
        return [*own, *self.read_book()]

    def ground(self, state: BookState) -> landing.Ground:
        """Return what pending batches land on: the book up to the frontier, of which this is the playbook."""
        taken = self.history.frontier.seq

        def has_key(key: str) -> bool:
            delivery = self.copy.find_delivery(key)
            return delivery is not None and delivery.last <= taken

        return make_ground(state, self.read_book, has_key=has_key, here=self._ids_here(), links=self._links)

    def present_ground(self) -> landing.Ground:
        """Return what batches land on that come after the pending ones."""
        return self._landing[0]

    def _ids_here(self) -> frozenset[str]:
        """Return the ids of pending events that the book has already."""
        taken = self.history.frontier.seq
        known = {sent.frontier: self.find_known_end(sent) for sent in self.history.pending}
        ids = {id_ for sent in self.history.pending if known[sent.frontier] < taken for id_ in sent.ids}
        if not ids:
            # Nothing came in since they were recorded.
            return frozenset()
        found = ids.intersection(self.copy.ids(min(known.values())))
        if found and self.copy.end().seq > taken:
            found = ids.intersection(id_ for batch in self.read_book() for id_ in replica.find_ids(batch.data))
        return frozenset(found)

    def find_known_end(self, sent: landing.Sent) -> int:
        """Return the number of the last event of this history that the playbook contained when a batch was recorded."""
        seq, chain = sent.frontier
        # Numbers of another history that was taken since mean nothing here.
        return seq if not chain or self.copy.has(chain) else 0

    def _links(self) -> list[frozenset[str]]:
        """Return the ids of events whose texts were equal before they were redacted, as far as this moment knows."""
        links = landing.redaction_links(self._read_known())
        if self.until is None:
            return links
        # What was joined at a past moment by a text that could be read here then stays joined.
        records = (record for batch in decode(self.read_book()) for record in batch.records)
        hidden = {record.id for record in records if getattr(record.event, "text", None) == REDACTED}
        hidden |= self._redacted_then
        # Another history of the book, taken since, may be where they were linked.
        copies = {copy.name: copy for copy in (self.copy, SharedLog(self.ledger_folder, self.now).copy)}
        later = chain(self.own.read(), *(copy.read() for copy in copies.values()))
        return [*links, *(link - hidden for link in landing.redaction_links(later))]

    def stamp(self, state: State, book: Playbook) -> None:
        """Say in a state of this history, and in the playbook in it, which moment it is: an own event number."""
        history = self.history
        state.seq, state.chain = history.end[:2]
        book.stamp, book.shared_stamp = history.stamp, (history.frontier.seq, history.frontier.chain)

    def open_at(self, until: int) -> SharedLog:
        """Return the history as of an own event number."""
        return SharedLog(self.ledger_folder, self.now, until)

    def open_at_book(self, end: Position, upto: int) -> SharedLog:
        """Return the present history with another frontier: as it will be when a sync is done.

        Args:
            end: The position in the book up to which it contains that.
            upto: The own event number up to which batches are in the book.
        """
        log, history = SharedLog(self.ledger_folder, self.now), self.history
        log.history = attrs.evolve(
            history,
            frontier=BookTaken(end.seq, end.chain, upto, (), ()),
            pending=tuple(sent for sent in history.pending if sent.batch.first > upto),
        )
        return log

    def names_since(self, until: int) -> dict[str, str]:
        """Return the present names of entries that had another name at an own moment: name then → present name."""
        then, now = self.open_at(until).present_ground().ids, self.present_ground()
        present: dict[str, str] = {}
        for name, id_ in then.items():
            found = now.names.get(id_, name)
            shown = found if found in now.state.entries else now.matched.get(found, found)
            if shown != name:
                present[name] = shown
        return present

    def count_missing(self, copy: replica.Replica) -> int:
        """Return how many events of another copy of the book neither the present one nor the own ledger has."""
        here = {own_id(id_) for id_ in self.copy.ids()}
        here |= {own_id(id_) for batch in self.own.read() for id_ in replica.find_ids(batch.data)}
        records = (record for batch in decode(copy.read()) for record in batch.records)
        return len({own_id(record.id) for record in records if type(record.event) in landing.SHARED} - here)

    def refresh(self) -> SharedLog:
        """Return itself, without what it remembers of the own ledger where that has changed since."""
        if self.head()[:2] != self.history.end[:2]:
            self._forget()
        return self

    # ---- Appending ----

    def transaction(self) -> Transaction:
        """Return a transaction on the own ledger."""
        self._forget()
        return SharedTransaction(self)


class SharedTransaction(Transaction):
    """A transaction on the own ledger of a machine in a book."""

    def __init__(self, log: SharedLog) -> None:
        """Prepare; the lock is taken on entering."""
        super().__init__(log)
        self._shared = log
        self._ids: dict[str, str] | None = None

    def find_delivery(self, key: str, payload: str = "") -> Delivery | None:
        """Return the batch that has an idempotency key, of the book as well where the caller gave the key."""
        own = super().find_delivery(key)
        if own is not None:
            batches = find_batches(self._shared.own, (b',"key":"%b' % line.normalize_key(key).encode(),))
            return next((own._replace(last=last_shown(raw)) for raw in batches if raw.first == own.first), own)
        if not payload:
            return None
        shared = self._shared.copy.find_delivery(line.normalize_key(key))
        if shared is None or shared.last > self._shared.history.frontier.seq:
            return None
        first, last = (format_shared_number(BOOK + seq) for seq in shared[:2])
        return shared._replace(first=first, last=last)

    def append(
        self, drafts: Sequence[line.Draft], by: Mapping[str, str], key: str | None = None, payload: str = ""
    ) -> RawBatch | None:
        """Add a batch; it says by id which entries its names mean, for the book may give another entry such a name."""
        if self._ids is None:
            self._ids = dict(self._shared.present_ground().ids)
        fields = (SimpleNamespace(**draft.body, **(draft.free or {})) for draft in drafts)
        names = chain.from_iterable(map(landing.names_in, fields))
        meant = {name: self._ids[name] for name in names if name in self._ids}
        if meant:
            # At the end, so that a command answers with the number of its first event.
            drafts = [*drafts, encode(NamesMeant(tuple(meant), tuple(meant.values())))]
        raw = super().append(drafts, by, key, payload)
        for record in next(decode([raw])).records if raw is not None else ():
            event: Any = record.event
            if isinstance(event, MAKERS):
                self._ids.setdefault(event.name, record.id)
        return raw


def _frame_pending(landed: landing.Landed, after: Position) -> RawBatch:
    """Return a batch as it lands after a position, with the numbers that its events have in the own ledger."""
    raw, last = Publisher().frame(landed, after), after.seq
    seqs = {event.record.id: PENDING + event.record.seq for event in landed.events}
    numbers: list[int] = []
    for raw_line in raw.lines:
        # Landing may make several events of a long undo, and views tell events apart by their numbers.
        last = max(last + 1, seqs[own_id(line.head_field(raw_line, b"id"))])
        numbers.append(last)
    return renumber(raw, numbers)
