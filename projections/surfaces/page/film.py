"""The timeline of the page: each moment, its events and what changed, read in one pass. README.md has the format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.ledger.codec import texts_of
from tallybook.ledger.events import Entry
from tallybook.ledger.line import CONTINUED
from tallybook.ledger.records import Author, Batch, EventRecord
from tallybook.projections.history.entry_history import find_affected_names
from tallybook.projections.playbook.fold import UndoneEvent, find_undone, fold, mark_undone, undos_in
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
        sessions: Id of a session → its number plus 1, and the agent and the model that its events name first, if any.
        injections: Event number of each injection, and the entries that it has or the one before has, not both.
        quotes: Event number, field and text of the reasons and notes.
        undone: Undone event → the undo since which it is undone.
        spans: Each event that was undone, with the undos since which and up to which.
        last: Number of the last event.
        chain: The chain value there.
        ledger: Id of the ledger.
        redacted: How many events redact others.
        book: The playbook.
        rows: Name → what the page shows of it.
        changes: Event, name and row of each change.
    """

    read: Read
    base: int = 0
    names: dict[Any, int] = attrs.field(factory=dict)
    lasts: list[int] = attrs.field(factory=list)
    times: list[int] = attrs.field(factory=list)
    moment_authors: list[int] = attrs.field(factory=list)
    kinds: list[int] = attrs.field(factory=list)
    entries: list[int] = attrs.field(factory=list)
    kind_names: dict[Any, int] = attrs.field(factory=dict)
    authors: dict[Any, int] = attrs.field(factory=dict)
    raters: dict[Any, int] = attrs.field(factory=dict)
    sessions: dict[str, tuple[int, str | None, str | None]] = attrs.field(factory=dict)
    injections: list[tuple[int, list[int]]] = attrs.field(factory=list)
    quotes: list[tuple[int, str, str]] = attrs.field(factory=list)
    undone: dict[int, int] = attrs.field(factory=dict)
    spans: list[tuple[int, int, int]] = attrs.field(factory=list)
    last: int = 0
    chain: str = ""
    ledger: str = ""
    redacted: int = 0
    book: Playbook = attrs.field(factory=PLAYBOOK.start)
    rows: dict[str, EntryRow] = attrs.field(factory=dict)
    changes: list[tuple[int, str, EntryRow]] = attrs.field(factory=list)
    _undos: list[EventRecord] = attrs.field(factory=list)
    _last_place: int = 0
    _injected: dict[str, None] = attrs.field(factory=dict)

    def add(self, batch: Batch) -> None:
        """Add a batch, which is a moment."""
        self.lasts.append(batch.last)
        self.times.append((datetime.fromisoformat(batch.at) - _EPOCH) // _MILLISECOND)
        self._add_author(batch.records[0].by)
        numbered: dict[int, Any] = {record.seq: record.event for record in batch.records}
        # Before the fold and after it: the batch can prune an entry that it rates, and rate one that it adds.
        rated = self._ratable(batch)
        if undos := undos_in(batch):
            self._undos += undos
            self._fold_again(undos[0].seq, batch.last)
        else:
            # Taken before the fold: what an update prunes is not due after it.
            names = list(self._names_in(batch))
            fold(PLAYBOOK, (batch,), self.book)
            self._note(names, {getattr(event, "name", ""): seq for seq, event in numbered.items()}, batch.last)
        rated |= self._ratable(batch)
        for seq in range(self.last + 1, batch.last + 1):
            event = numbered.get(seq)
            # The lines on which a text goes on have numbers, and no event.
            words = (CONTINUED, "text continued") if event is None else kind_words(event, rated)
            self.kinds.append(number_of(self.kind_names, words))
            name = getattr(event, "name", None)
            self.entries.append(number_of(self.names, name) + 1 if isinstance(name, str) else 0)
            self._note_event(seq, event)
        self.last, self.chain = batch.last, batch.chain

    def cut(self, most: int) -> None:
        """Make one snapshot of the moments before the last ones, and of an earlier snapshot."""
        base, before = self.lasts[-most - 1], self.base
        self.base = base
        self.moment_authors = self.moment_authors[-most:]
        self.kinds, self.entries = self.kinds[base - before :], self.entries[base - before :]
        snapshot = {name: (base, name, row) for seq, name, row in self.changes if seq <= base}
        self.changes = [*snapshot.values(), *(change for change in self.changes if change[0] > base)]
        given: set[int] = set()
        for seq, changed in self.injections:
            given ^= set(changed) if seq <= base else set()
        later = [injection for injection in self.injections if injection[0] > base]
        self.injections = [(base, sorted(given)), *later] if given else later
        self.quotes = [quote for quote in self.quotes if quote[0] > base]
        self.spans = [span for span in self.spans if span[0] > base]

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

    def _add_author(self, by: Author) -> None:
        """Note the author of a batch; where another program wrote several, of its first event."""
        session = 0
        if by.session is not None:
            session, agent, model = self.sessions.get(by.session) or (len(self.sessions) + 1, None, None)
            self.sessions[by.session] = (session, agent or by.agent, model or by.model)
        rater = number_of(self.raters, f"{by.rater}{_AT}{by.writer}" if by.writer else by.rater)
        self.moment_authors.append(number_of(self.authors, (rater, session)))

    # Changes

    def _names_in(self, batch: Batch) -> Iterator[str]:
        """Yield the names that a batch can change; what it makes prunable, its events name."""
        book = self.book
        for event in batch.events:
            yield from find_affected_names(book, event)
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

    def _fold_again(self, undo: int, until: int) -> None:
        """Fold the playbook up to an event, as history reads after an undo, which can change every name."""
        undone: set[int] = set()

        def read() -> Iterator[Batch]:
            # An undo counts from its own moment on, as in show --at.
            for batch in mark_undone(self.read(), find_undone(self._undos)):
                if UndoneEvent in map(type, batch.events):
                    undone.update(record.seq for record in batch.records if isinstance(record.event, UndoneEvent))
                yield batch

        book = self.book = fold(PLAYBOOK, read(), until=until)
        # An undo can undo an undo, so an event can be undone several times.
        self.spans += [(seq, self.undone.pop(seq), undo) for seq in self.undone.keys() - undone]
        self.undone |= dict.fromkeys(undone - self.undone.keys(), undo)
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
            "undone": sorted(self.spans),
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
    film = Film(read)
    for batch in read():
        film.add(batch)
        # The columns of a long history would take twice the memory.
        if len(film.moment_authors) > 2 * most:
            film.cut(most)
    film.spans += [(seq, begin, 0) for seq, begin in film.undone.items()]
    if len(film.lasts) > most:
        film.cut(most)
    return film
