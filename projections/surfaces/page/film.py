"""The timeline of the page: each moment, its events and what changed, read in one pass. README.md has the format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.ledger.codec import texts_of
from tallybook.ledger.events import Entry
from tallybook.ledger.line import CONTINUED
from tallybook.ledger.records import Batch, EventRecord
from tallybook.projections.history.entry_history import affected_names
from tallybook.projections.playbook.fold import UndoneIds, find_undone, fold, mark_undone, undos_in
from tallybook.projections.playbook.inject import interval
from tallybook.projections.playbook.view import PLAYBOOK, UNDONE, Playbook
from tallybook.projections.surfaces.writing.secrets import mask

if TYPE_CHECKING:
    Read = Callable[[], Iterable[Batch]]

MAX_MOMENTS: Final = 50_000
"""Most moments of a page; the ones before them are one snapshot."""

STATUSES: Final = ("absent", "kept", "pruned", "retired", "merged", UNDONE)
"""Status of a name in a row, by its number."""

_AT: Final = " at "
"""Between a rater and the machine, in a shared playbook."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

PINNED, PARDONED = 1, 2
"""Flags of an entry: no update prunes it; only a further harmful rating can prune it."""

WORDS: Final = {
    "point.added": "learned",
    "point.seeded": "imported",
    "point.edited": "changed by a manual edit",
    "point.removed": "removed by a manual edit",
    "point.merged": "took in another entry",
    "events.voided": "undo",
    "event.redacted": "text redacted",
    "playbook.edited": "manual edit",
    "book.block": "numbers reserved for this machine's new entries",
    "book.taken": "events of the shared playbook came in",
}
"""Kind → what such an event does; other kinds are named as in the ledger."""


class EntryRow(NamedTuple):
    """All that the page shows of an entry.

    Attributes:
        status: Index of STATUSES.
        helpful: Count of helpful ratings.
        harmful: Count of harmful ratings.
        text: Its text; empty for a name that never had one.
        flags: PINNED and PARDONED.
        into: The entry that it was merged into; empty for none.
        place: The playbook lists entries by rising places.
    """

    status: int = 0
    helpful: int = 0
    harmful: int = 0
    text: str = ""
    flags: int = 0
    into: str = ""
    place: int = 0


ABSENT: Final = EntryRow()


def number_of(table: dict[Any, int], value: Hashable) -> int:
    """Return the number of a value in a table; a new one is added with the next number, from 0."""
    return table.setdefault(value, len(table))


@attrs.define
class Film:
    """The columns and tables of a history.

    Attributes:
        read: Reads the history.
        undos: The undos of the history.
        spans: Each undone event with the undos since which and up to which it is undone, 0 for none, in order.
        base: Number of the last event before the first moment of the page; 0 where the page has every moment.
        names: Names of entries.
        lasts: The last event of each moment, those before the page as well.
        times: The time of each moment, those before the page as well, in milliseconds since 1970.
        moment_authors: Number of the author of each moment of the page.
        kinds: Number of the kind of each event of the page.
        entries: The entry that each event names, plus 1; 0 for none.
        kind_names: Kind, words, the rating of one and whether it counted.
        authors: Number of the rater, and that of the session plus 1, 0 for none.
        raters: human, reflector and so on, in a shared playbook with the machine.
        sessions: Ids of sessions.
        agents: Number of a session plus 1 → the agent and the model that its events name first, None where none does.
        injections: Event number of each injection, and the entries that it has or the one before has, not both.
        quotes: Event number, field and text of the reasons and notes.
        last: Number of the last event.
        chain: The chain value there.
        ledger: Id of the ledger.
        redacted: How many events redact others.
        book: The playbook.
        rows: Name → what the page shows of it.
        changes: Event, name and row of each change.
    """

    read: Read
    undos: Sequence[EventRecord]
    spans: Sequence[tuple[int, int, int]]
    base: int
    names: dict[Any, int] = attrs.field(factory=dict)
    lasts: list[int] = attrs.field(factory=list)
    times: list[int] = attrs.field(factory=list)
    moment_authors: list[int] = attrs.field(factory=list)
    kinds: list[int] = attrs.field(factory=list)
    entries: list[int] = attrs.field(factory=list)
    kind_names: dict[Any, int] = attrs.field(factory=dict)
    authors: dict[Any, int] = attrs.field(factory=dict)
    raters: dict[Any, int] = attrs.field(factory=dict)
    sessions: dict[Any, int] = attrs.field(factory=dict)
    agents: dict[int, tuple[str | None, str | None]] = attrs.field(factory=dict)
    injections: list[tuple[int, list[int]]] = attrs.field(factory=list)
    quotes: list[tuple[int, str, str]] = attrs.field(factory=list)
    last: int = 0
    chain: str = ""
    ledger: str = ""
    redacted: int = 0
    book: Playbook = attrs.field(factory=PLAYBOOK.start)
    rows: dict[str, EntryRow] = attrs.field(factory=dict)
    changes: list[tuple[int, str, EntryRow]] = attrs.field(factory=list)
    _last_place: int = 0
    _injected: dict[str, None] = attrs.field(factory=dict)
    _author_numbers: dict[tuple[bytes, ...], int] = attrs.field(factory=dict)

    def add(self, batch: Batch) -> None:
        """Add a batch: before the first moment of the page its time alone, and the last of those as a snapshot."""
        size = batch.last - self.last
        whole = len(batch.events) == size
        # A text that continues on further lines takes numbers of its own.
        numbers = range(self.last + 1, batch.last + 1) if whole else [record.seq for record in batch.records]
        self.lasts.append(batch.last)
        self.times.append((datetime.fromisoformat(batch.unverified_at) - _EPOCH) // _MILLISECOND)
        numbered = list(zip(numbers, batch.events, strict=True))
        if batch.last > self.base:
            self._add_moment(batch, numbered)
        for seq, event in numbered:
            self._note_event(seq, event)
        self.last, self.chain = batch.last, batch.chain
        if batch.last == self.base:
            self._fold_again(self.base)
            self.quotes.clear()
            given = [number_of(self.names, name) for name in self._injected]
            # The first injection of the page tells what differs from this one.
            self.injections = [(self.base, given)] if given else []

    def _add_moment(self, batch: Batch, numbered: Sequence[tuple[int, Any]]) -> None:
        self._add_author(batch)
        # Before the fold and after it: the batch can prune an entry that it rates, and rate one that it adds.
        rated = self._ratable(batch)
        if events.EventsVoided in map(type, batch.events):
            self._fold_again(batch.last)
        else:
            # Taken before the fold: what an update prunes is not due after it.
            names = list(self._names_in(batch))
            fold(PLAYBOOK, (batch,), self.book)
            self._note(names, {getattr(event, "name", ""): seq for seq, event in numbered}, batch.last)
        rated |= self._ratable(batch)
        # The lines on which a text goes on have numbers, and no event.
        size, continued = batch.last - self.last, number_of(self.kind_names, (CONTINUED, "text continued"))
        kinds, entries = [continued] * size, [0] * size
        for seq, event in numbered:
            name = getattr(event, "name", None)
            kinds[seq - self.last - 1] = number_of(self.kind_names, kind_words(event, rated))
            entries[seq - self.last - 1] = number_of(self.names, name) + 1 if isinstance(name, str) else 0
        self.kinds += kinds
        self.entries += entries

    def _ratable(self, batch: Batch) -> set[str]:
        """Return the names in a batch of which a rating counts for an entry of the playbook."""
        entries, names = self.book.entries, {str(getattr(event, "name", "")) for event in batch.events}
        return {name for name in names if name in entries or self.book.merged.get(name) in entries}

    def _note_event(self, seq: int, event: Any) -> None:
        """Note what an event says of the ledger, of injections, and in quotes."""
        if isinstance(event, events.LedgerOpened):
            self.ledger = event.ledger
        elif isinstance(event, events.PlaybookInjected):
            new = dict.fromkeys(event.names)
            changed = [*(n for n in new if n not in self._injected), *(n for n in self._injected if n not in new)]
            self.injections.append((seq, [number_of(self.names, name) for name in changed]))
            self._injected = new
        elif isinstance(event, events.EventRedacted):
            self.redacted += 1
        if getattr(event, "reason", None) or getattr(event, "note", None):
            self.quotes += [
                (seq, field, text) for field, text in texts_of(event).items() if field in {"reason", "note"}
            ]

    def _add_author(self, batch: Batch) -> None:
        """Note the author of a batch; where another program wrote several, of its first event."""
        key = tuple(batch.unverified_authors)
        # To decode the author of every batch would be a sixth of the time of a page.
        if len(key) != 1 or key not in self._author_numbers:
            by = batch.records[0].by
            session = 0 if by.session is None else number_of(self.sessions, by.session) + 1
            agent, model = self.agents.get(session, (None, None))
            self.agents[session] = (agent or by.agent, model or by.model)
            rater = number_of(self.raters, f"{by.rater}{_AT}{by.writer}" if by.writer else by.rater)
            self._author_numbers[key] = number_of(self.authors, (rater, session))
        self.moment_authors.append(self._author_numbers[key])

    # Changes

    def _names_in(self, batch: Batch) -> Iterator[str]:
        """Yield the names that a batch can change; what it makes prunable, its events name."""
        book = self.book
        for event in batch.events:
            yield from affected_names(book, event)
            if isinstance(event, events.PlaybookOrdered):
                yield from book.entries
            elif isinstance(event, events.PointMatched):
                yield book.merged.get(event.to, event.to)
            elif isinstance(event, events.PointMerged):
                # Names merged earlier into one that is merged now get another target.
                yield from (name for name, into in book.merged.items() if into in event.merged)

    def _note(self, names: Collection[str], named: Mapping[str, int], seq: int) -> None:
        """Note what changed of these names.

        Args:
            names: The names that may have changed.
            named: Name → the event that changed it, where it is not the last one.
            seq: The last event.
        """
        rows = {name: row for name in dict.fromkeys(names) if (row := self._row(name)) != self.rows.get(name, ABSENT)}
        self.rows |= rows
        # An entry that comes in or comes back is the last one.
        if next(reversed(self.book.entries), None) in names:
            rows |= self._place()
        for name, row in rows.items():
            # What prunes an entry is the update at the end of a batch.
            event = seq if row.status == STATUSES.index("pruned") else named.get(name, seq)
            self.changes.append((event, name, row))

    def _row(self, name: str) -> EntryRow:
        """Return what the page shows of a name now, in its place so far."""
        book, old = self.book, self.rows.get(name, ABSENT)
        flags = PINNED * (name in book.pinned) + PARDONED * (name in book.pardons)
        status = book.status_of(name)
        if status not in STATUSES:
            return ABSENT._replace(flags=flags)
        # Of an entry whose addition is undone the playbook has the name alone.
        entry = book.entries.get(name) or book.gone.get(name) or Entry(name, old.text)
        into = book.merged.get(name, "")
        return EntryRow(STATUSES.index(status), entry.helpful, entry.harmful, entry.text, flags, into, old.place)

    def _place(self) -> dict[str, EntryRow]:
        """Give the entries that are not in rising places new ones; return their rows."""
        placed, last = {}, 0
        for name in self.book.entries:
            row = self.rows[name]
            if row.place <= last:
                self._last_place += 1
                self.rows[name] = row = placed[name] = row._replace(place=self._last_place)
            last = row.place
        return placed

    def _fold_again(self, until: int) -> None:
        """Fold the playbook up to an event, as history reads then, and note it; an undo can change every name."""
        # An undo counts from its own moment on, as in show --at.
        undone = find_undone(undo for undo in self.undos if undo.seq <= until)
        book = self.book = fold(PLAYBOOK, mark_undone(self.read(), undone), until=until)
        self._note([*self.rows, *book.entries, *book.gone, *book.used, *book.pinned], {}, until)

    def part(self, *, with_texts: bool) -> dict[str, Any]:
        """Return tables, moments, events and changes as the document has them; README.md has the format."""
        texts, shown = dict[str, int](), len(self.moment_authors)
        times = self.times[-shown:]
        start = times[0] if times else 0
        # First: they add names and texts.
        changes = self._columns(texts)
        part: dict[str, Any] = {
            "base": self.base,
            "names": list(self.names),
            "kinds": list(self.kind_names),
            "authors": list(self.authors),
            # The label of a machine has the name of its user.
            "raters": [rater if with_texts else rater.partition(_AT)[0] for rater in self.raters],
            "start": start,
            "m_size": [last - before for before, last in pairwise([self.base, *self.lasts[-shown:]])],
            "m_time": [time - start for time in times],
            "m_author": self.moment_authors,
            "e_kind": self.kinds,
            "e_entry": self.entries,
            "undone": [span for span in self.spans if span[1] > self.base or span[2] > self.base],
            "injections": self.injections,
            **changes,
        }
        if with_texts:
            # What people typed is recorded as it is, and a page can be mailed.
            part["texts"] = [mask(text) for text in texts]
        return part

    def _columns(self, texts: dict[str, int]) -> dict[str, list[int]]:
        """Return the changes in columns, each with the 95 % interval of the helpful share in thousandths."""
        columns: list[tuple[int, ...]] = []
        for seq, name, row in sorted(self.changes, key=itemgetter(0)):
            text = number_of(texts, row.text) + 1 if row.text else 0
            into = number_of(self.names, row.into) + 1 if row.into else 0
            trust = _trust(row.helpful, row.harmful)
            columns.append((seq, number_of(self.names, name), *row[:3], text, row.flags, into, row.place, *trust))
        fields = ("event", "entry", "status", "helpful", "harmful", "text", "flags", "into", "place", "low", "high")
        return {f"c_{field}": [row[index] for row in columns] for index, field in enumerate(fields)}


@cache
def _trust(helpful: int, harmful: int) -> tuple[int, int]:
    low, high = interval(helpful, harmful)
    return round(1000 * low), round(1000 * high)


def kind_words(event: Any, rated: Container[str] = ()) -> tuple[str, ...]:
    """Return the kind of an event, what it does in a few words, and of a rating what it is and whether it counts.

    Args:
        event: The event.
        rated: The names of which a rating counts.
    """
    if isinstance(event, events.UnknownEvent):
        return event.kind, f"{event.kind}, unknown to this Tallybook"
    kind = events.KIND_OF[type(event)]
    if not isinstance(event, events.PointRated):
        return kind, WORDS.get(kind) or kind.removeprefix("point.").replace(".", " ")
    rating = event.rating if event.rating in events.RATINGS else ""
    if rating in {"helpful", "harmful"} and event.name in rated:
        return kind, f"rated {rating}", rating, "counts"
    return kind, f"rated {rating}, no effect" if rating != "neutral" else "rated neutral", rating


def fold_film(read: Read, most: int = MAX_MOMENTS) -> Film:
    """Return the film of a history.

    Args:
        read: Reads the history.
        most: Most moments; those before them are one snapshot.
    """
    # History is read before it is folded: where the page begins, and what is undone, is known only at its end.
    lasts, undos = list[int](), list[EventRecord]()
    for batch in read():
        lasts.append(batch.last)
        undos += undos_in(batch)
    base = lasts[-most - 1] if len(lasts) > most else 0
    film = Film(read, undos, _find_spans(undos, read), base)
    # What is appended meanwhile was not searched for undos.
    for batch in islice(read(), len(lasts)):
        film.add(batch)
    return film


def _find_spans(undos: Sequence[EventRecord], read: Read) -> list[tuple[int, int, int]]:
    """Return each undone event with the undos since which and up to which it is undone, 0 for none, in order."""
    named = UndoneIds()
    for undo in undos:
        if isinstance(undo.event, events.EventsVoided):
            named.add(undo, undo.event)
    touched = [record for batch in read() if named.may_touch(batch) for record in batch.records] if undos else []
    since: dict[int, int] = {}
    spans: list[tuple[int, int, int]] = []
    for number, undo in enumerate(undos, 1):
        # An undo can undo an undo, so what is undone is asked at each of them.
        ids = find_undone(undos[:number])
        undone = {record.seq for record in touched if record.seq < undo.seq and ids.find_undo(record) is not None}
        spans += [(seq, since.pop(seq), undo.seq) for seq in since.keys() - undone]
        since |= dict.fromkeys(undone - since.keys(), undo.seq)
    return sorted([*spans, *((seq, begin, 0) for seq, begin in since.items())])
