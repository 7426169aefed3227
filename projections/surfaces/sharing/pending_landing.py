"""How the pending batches of a machine land in its copy of the book, one after another."""

from __future__ import annotations

from functools import cached_property
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.events import (
    KIND_OF,
    EventsVoided,
    NamesMeant,
    PointAdded,
    PointEdited,
    PointMatched,
    PointSeeded,
)
from tallybook.ledger.line import START, Position, head_field
from tallybook.ledger.sharing.counting import ids_of
from tallybook.ledger.sharing.equal_texts import (
    edits_with_other_text,
    equal_entries,
    had_text,
    redaction_links,
    text_events,
)
from tallybook.ledger.sharing.landed_kinds import REDACTED
from tallybook.ledger.sharing.landing import LandedBatch, Names, OwnBatch, land
from tallybook.ledger.sharing.numbers import PENDING
from tallybook.ledger.sharing.publishing import Publisher
from tallybook.ledger.storage.redaction import redacted_ids
from tallybook.projections.fold import UNDOABLE, fold, fold_history
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.sharing.own_history import renumber

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tallybook.ledger.events import Entry
    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.sharing.shared_log import SharedLog

MAKES_ENTRY: Final = (PointAdded, PointSeeded, PointEdited)
_MAKES_ENTRY_IN_BOOK: Final = (*MAKES_ENTRY, PointMatched)
_MATCHED: Final = b'"kind":"%b"' % KIND_OF[PointMatched].encode()


def entries_made(records: Sequence[EventRecord]) -> dict[str, str]:
    """Return the entries that a batch makes, or changes by hand: id of the event → name of the entry.

    An edit of an entry that was shown under a name for now is left out: the batch says which entry it means.
    """
    meant = {name for one in records if isinstance(one.event, NamesMeant) for name in one.event.names}
    made: list[tuple[str, Any]] = [(one.id, one.event) for one in records if isinstance(one.event, MAKES_ENTRY)]
    return {id_: event.name for id_, event in made if not (isinstance(event, PointEdited) and event.name in meant)}


def land_all(
    log: SharedLog,
    pending: Sequence[OwnBatch],
    state: Playbook,
    publisher: Publisher | None = None,
    after: Position = START,
) -> tuple[Playbook, list[tuple[LandedBatch, RawBatch | None]], Names]:
    """Land pending batches one after another.

    Args:
        log: The history that they belong to.
        pending: The batches.
        state: The playbook of the book; it is changed.
        publisher: Writes them as the book gets them; None for this machine's own view of them.
        after: The position in the book after which they are written.

    Returns:
        The playbook after them, each with its bytes, and their names in the book.
    """
    names = Names(dict(log.history.renamed))
    facts = _Facts(log, frozenset(state.used))
    landed: list[tuple[LandedBatch, RawBatch | None]] = []
    last = 0
    for own in pending:
        batch = land(own, state, names, facts)
        if not batch.events:
            landed.append((batch, None))
            continue
        raw = (publisher or Publisher()).frame(batch, after)
        after = raw.position
        if publisher is None:
            raw = _with_own_numbers(raw, batch, last)
            last = raw.last
        landed.append((batch, raw))
        facts.landed.append(raw)
        if any(isinstance(one.event, EventsVoided) for one in batch.events):
            state = _refold(log, facts.landed)
        else:
            fold(PLAYBOOK, decode([raw]), state)
    return state, landed, names


def _with_own_numbers(raw: RawBatch, landed: LandedBatch, last: int) -> RawBatch:
    """Return a batch as it lands, after another one, with the numbers that its events have in the own ledger."""
    seqs = {one.record.id: PENDING + one.record.seq for one in landed.events}
    numbers: list[int] = []
    for line in raw.lines:
        # Landing may make several events of a long undo, and views tell events apart by their numbers.
        last = max(last + 1, seqs[head_field(line, b"id").partition(".")[0]])
        numbers.append(last)
    return renumber(raw, numbers)


def _refold(log: SharedLog, landed: Sequence[RawBatch]) -> Playbook:
    """Return the playbook of the book and landed batches, without what is undone by then."""

    def read() -> Iterator[RawBatch]:
        yield from log.read_book()
        yield from landed

    return fold_history(PLAYBOOK, lambda: decode(read()))


def joined_entries(batches: Iterable[RawBatch]) -> dict[str, str]:
    """Return the entries of a book that were joined to another one when they landed: name → the other one's name."""
    found = decode(raw for raw in batches if _MATCHED in raw.data)
    events = (event for batch in found for event in batch.events)
    return {event.name: event.to for event in events if isinstance(event, PointMatched)}


class _Facts:
    """Answers of one landing about the book and the own past; see `landing.Book`."""

    def __init__(self, log: SharedLog, used: frozenset[str]) -> None:
        """Take the history, and the names that the book has at the frontier."""
        self.landed: list[RawBatch] = []
        self._log = log
        self._taken = log.history.frontier.seq
        self._used = {self._taken: used, 0: frozenset[str]()}
        self._past: dict[int, Mapping[str, Entry]] = {}

    def has_key(self, key: str) -> bool:
        delivery = self._log.copy.find_delivery(key)
        return delivery is not None and delivery.last <= self._taken

    def published(self, own: OwnBatch) -> Mapping[str, str] | None:
        # Nothing came in since it was recorded.
        return self._published.get(own.records[0].id) if own.taken < self._taken else None

    @cached_property
    def _published(self) -> Mapping[str, Mapping[str, str]]:
        """Return the pending batches that the book has already: id of the first event → the entries that it made."""
        waiting = [own for own in self._log.history.pending if own.taken < self._taken]
        of_batch = {one.id: own.records[0].id for own in waiting for one in own.records}
        since = min((own.taken for own in waiting), default=self._taken)
        if not waiting or of_batch.keys().isdisjoint(id_.decode() for id_ in self._log.copy.ids(since)):
            return {}
        published: dict[str, dict[str, str]] = {}
        for batch in self._log.read_book():
            if batch.last > since and not of_batch.keys().isdisjoint(ids_of(batch)):
                for one in next(decode([batch])).records:
                    if (first := of_batch.get(one.id)) is not None:
                        names = published.setdefault(first, {})
                        if isinstance(one.event, _MAKES_ENTRY_IN_BOOK):
                            names[one.id] = one.event.name
        return published

    def had(self, name: str, taken: int) -> bool:
        if taken not in self._used:
            self._used[taken] = frozenset(self._log.book_playbook(taken).used)
        return name in self._used[taken]

    def matched(self, name: str) -> str | None:
        return self._matched.get(name)

    @cached_property
    def _matched(self) -> Mapping[str, str]:
        """Return the entries that were joined to another one when they landed: name → the other one's name."""
        return self._log.matched()

    def linked(self, id_: str) -> frozenset[str]:
        return equal_entries(id_, self._links, lambda: {**self._texts, **text_events(self.landed)})

    def had_text(self, id_: str, name: str) -> bool:
        return had_text(id_, name, self._links, chain(self._log.read_book(), self.landed))

    @cached_property
    def _links(self) -> Sequence[frozenset[str]]:
        log = self._log
        links = redaction_links(self._known())
        if log.until is None:
            return links
        # What was joined at a past moment by a text that could be read here then stays joined.
        hidden = {id_ for batch in self._known() for id_ in redacted_ids(batch)} | self._landed_redacted()
        return [*links, *(link - hidden for link in redaction_links(chain(log.own.read(), log.copy.read())))]

    def _known(self) -> Iterator[RawBatch]:
        """Yield the own ledger and the book as of this moment."""
        until = self._log.until
        yield from (batch for batch in self._log.own.read() if until is None or batch.last <= until)
        yield from self._log.read_book()

    def _landed_redacted(self) -> set[str]:
        """Return the events of the book whose text was redacted before they landed."""
        records = (record for batch in decode(self._log.read_book()) for record in batch.records)
        return {one.id for one in records if getattr(one.event, "text", None) == REDACTED}

    @cached_property
    def _texts(self) -> Mapping[str, str]:
        return text_events(self._log.read_book())

    def has_text(self, id_: str) -> bool:
        return id_ in self._edits

    @cached_property
    def _edits(self) -> frozenset[str]:
        redacted = {id_ for batch in self._known() for id_ in redacted_ids(batch)}
        return edits_with_other_text(self._log.read_book, redacted)

    def own_name(self, name: str) -> str | None:
        return self._log.history.renamed.get(name, name) if name in self._made.values() else None

    def made_name(self, id_: str) -> str | None:
        return self.own_name(self._made[id_]) if id_ in self._made else None

    @cached_property
    def _made(self) -> Mapping[str, str]:
        """Return the entries of the own ledger that are in the book: id of the event that made it → own name."""
        made: dict[str, str] = {}
        for batch in decode(self._log.own.read()):
            if batch.last > self._log.history.frontier.upto:
                break
            if any(isinstance(event, MAKES_ENTRY) for event in batch.events):
                made |= entries_made(batch.records)
        return made

    def shown(self, own: OwnBatch) -> Mapping[str, Entry] | None:
        if own.taken == self._taken:
            return None
        before = own.records[0].seq - 1
        if before not in self._past:
            self._past[before] = self._log.at(before).playbook().entries
        return self._past[before]

    def session_ids(self, own: OwnBatch, session: str) -> tuple[str, ...]:
        ids: dict[str, None] = {}
        for history, last in ((self._log.read_book, own.taken), (self._log.own.read, own.records[0].seq - 1)):
            until = takewhile(lambda batch, last=last: batch.last <= last, decode(history()))  # type: ignore[misc]
            ids |= dict.fromkeys(ids_of_session(until, session))
        return tuple(ids)


def ids_of_session(batches: Iterable[Batch], session: str) -> Iterator[str]:
    """Yield the ids of a session's events that can be undone."""
    for batch in batches:
        if batch.may_contain_text(session):
            for one in batch.records:
                kind = type(one.event)
                if one.by.session == session and kind in UNDOABLE and kind is not EventsVoided:
                    yield one.id
