"""The film: moments, events and what each moment changes, read from the ledger once. README.md has the format."""

from __future__ import annotations

from array import array
from collections import deque
from datetime import UTC, datetime, timedelta
from operator import itemgetter
import pickle
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.ledger.encoding.codec import texts_of
from tallybook.ledger.events import Entry
from tallybook.ledger.line import CONTINUED, START, Position
from tallybook.projections.entry_history.view import affected_names
from tallybook.projections.fold import UndoneIds, View, find_undone, fold, mark_undone, undos_in
from tallybook.projections.playbook.aging import AgedPolicy, aged_view
from tallybook.projections.playbook.view import UNDONE, Playbook, playbook_view

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence

    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.playbook.prune import Policy

    Read = Callable[[Position], Iterable[Batch]]

MAX_MOMENTS: Final = 50_000
"""Most moments of a page; the ones before them are one snapshot."""

CONTINUED_WORDS: Final = (CONTINUED, "text continued")
"""Kind and words of a line on which the text of the event before it goes on."""

QUOTED: Final = ("reason", "note")
"""Free texts that are no texts of entries."""

_STRIDE: Final = 1024
"""Batches between two copies of the playbooks, from which history is folded again after an undo."""

_MAX_COPIES: Final = 16
"""Most copies that are held; each has every entry under every policy."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

STATUSES: Final = ("absent", "kept", "pruned", "retired", "merged", UNDONE)
"""Status of a name in a row, by its number."""

KEPT, PRUNED = STATUSES.index("kept"), STATUSES.index("pruned")

SAME: Final = len(STATUSES)
"""Status in a row of another policy: from here on the entry is as under the playbook's own."""

PLACES: Final = 2**16
"""Places for the entries that one moment brings."""

PINNED, PARDONED = 1, 2
"""Flags of an entry: no update prunes it; only a further harmful rating can prune it."""


class Row(NamedTuple):
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


ABSENT: Final = Row()
_LIKE_OWN: Final = Row(SAME)

Changed = dict[str, Row]


# The playbook under one policy


@attrs.define
class Track:
    """A playbook under one policy, and what the page shows of it.

    Attributes:
        policy: The policy.
        book: The playbook.
        rows: Name → what the page shows of it.
        told: Name → what the page last had of it, apart from the rows of the playbook's own policy.
    """

    policy: Policy
    book: Playbook = attrs.field(init=False)
    rows: dict[str, Row] = attrs.field(factory=dict)
    told: dict[str, Row] = attrs.field(factory=dict)
    _view: View[Any] = attrs.field(init=False)
    _last_place: int = 0

    def __attrs_post_init__(self) -> None:
        """Begin before the first event."""
        policy = self.policy
        if isinstance(policy, AgedPolicy):
            self._view = aged_view(policy, policy.half_life_us)
        else:
            self._view = playbook_view(policy)
        self.book = self.begin()

    def begin(self) -> Playbook:
        """Return the playbook before the first event."""
        book: Playbook = self._view.start()
        return book

    def fold(self, batch: Batch) -> None:
        """Apply a batch."""
        fold(self._view, (batch,), self.book)

    def advance(self, batch: Batch) -> Changed:
        """Apply a batch, and return the rows that it changed."""
        names = dict.fromkeys(self._names_in(batch))
        self.fold(batch)
        return self.note(names, batch.last)

    def _names_in(self, batch: Batch) -> Iterator[str]:
        """Yield the names that a batch can change; what it makes prunable, its events name."""
        book = self.book
        for event in batch.events:
            yield from affected_names(book, event)
            if type(event) is events.PointRated:
                continue
            if isinstance(event, events.PlaybookUpdated) and not self.policy.is_permanent:
                yield from book.pruned
            elif isinstance(event, events.PlaybookOrdered):
                yield from book.mutable
            elif isinstance(event, events.PointMatched):
                yield book.merged.get(event.to, event.to)
            elif isinstance(event, events.PointMerged):
                # Names merged earlier into one that is merged now get another target.
                yield from (name for name, into in book.merged.items() if into in event.merged)

    def note_all(self, seq: int) -> Changed:
        """Return the rows of all names that changed since they were noted: what an undo changes."""
        book = self.book
        return self.note(dict.fromkeys([*self.rows, *book.mutable, *book.gone, *book.used, *book.pinned]), seq)

    def note(self, names: Collection[str], seq: int) -> Changed:
        """Note the rows of names as of an event, and return those that changed."""
        before = self.rows
        changed = {name: row for name in names if (row := self._row(name)) != before.get(name, ABSENT)}
        changed |= self._place(names, changed, seq)
        self.rows |= changed
        return changed

    def has_ratable(self, name: str) -> bool:
        """Return whether a rating of a name counts for an entry of the playbook."""
        return name in self.book.mutable or self.book.merged.get(name) in self.book.mutable

    def _row(self, name: str) -> Row:
        """Return what the page shows of a name now, in its place so far."""
        book, old = self.book, self.rows.get(name, ABSENT)
        flags = PINNED * (name in book.pinned) + PARDONED * (name in book.pardons)
        status = "kept" if name in book.mutable else book.status_of(name)
        if status not in STATUSES:
            return ABSENT._replace(flags=flags)
        # Of an entry whose addition is undone the playbook has the name alone.
        entry = book.mutable.get(name) or book.gone.get(name) or Entry(name, old.text)
        into = book.merged.get(name, "")
        return Row(STATUSES.index(status), entry.helpful, entry.harmful, entry.text, flags, into, old.place)

    def _place(self, names: Collection[str], changed: Changed, seq: int) -> Changed:
        """Return the rows of the last entries of the playbook with rising places.

        An entry that comes in or comes back is the last one, so only names that may have moved are looked at.
        """
        moved, last = [], 0
        for name in reversed(self.book.mutable):
            if name not in names:
                last = self.rows[name].place
                break
            moved.append(name)
        placed = {}
        for name in reversed(moved):
            row = changed.get(name) or self.rows[name]
            if row.place <= last:
                self._last_place = max(self._last_place + 1, seq * PLACES)
                row = placed[name] = row._replace(place=self._last_place)
            last = row.place
        return placed


def differences(track: Track, changed: Changed, real: Track, really: Iterable[str]) -> Changed:
    """Return the rows of another policy that differ from the own ones, or no longer do: these have the status SAME.

    Args:
        track: The other policy's.
        changed: What changed in it.
        real: The playbook's own.
        really: The names that changed there.
    """
    rows = {}
    for name in {**changed, **dict.fromkeys(really)}:
        row = track.rows.get(name, ABSENT)
        row = _LIKE_OWN if row == real.rows.get(name, ABSENT) else row
        if row != track.told.get(name, _LIKE_OWN):
            rows[name] = track.told[name] = row
    return rows


# Undos


class Undos:
    """The undos of a history, and what they undo.

    Attributes:
        records: The undos, in order.
    """

    def __init__(self, records: Sequence[EventRecord]) -> None:
        """Begin before the first event."""
        self.records = records
        self._named = UndoneIds()
        self._touched: list[EventRecord] = []
        self._since: dict[int, int] = {}
        self._ended: list[tuple[int, int, int]] = []
        for record in records:
            if isinstance(record.event, events.EventsVoided):
                self._named.add(record, record.event)

    @property
    def spans(self) -> list[tuple[int, int, int]]:
        """Return each undone event with the undos since which and up to which it is undone, 0 for none, in order."""
        return sorted([*self._ended, *((seq, since, 0) for seq, since in self._since.items())])

    def see(self, batch: Batch) -> None:
        """Note the events of a batch that an undo may name."""
        if self.records and self._named.may_touch(batch):
            self._touched += batch.records

    def note(self, until: int) -> tuple[UndoneIds, int]:
        """Note what is undone as of an event; return it, and the first event that is undone now or was before.

        Returns:
            The undone events, and the number of the first one that changed, ``until`` + 1 where none did.
        """
        known = [record for record in self.records if record.seq <= until]
        ids = find_undone(known)
        undone = {record.seq for record in self._touched if ids.by(record) is not None}
        changed = sorted(undone ^ self._since.keys())
        for seq in changed:
            if seq in undone:
                self._since[seq] = known[-1].seq
            else:
                self._ended.append((seq, self._since.pop(seq), known[-1].seq))
        return ids, changed[0] if changed else until + 1


# The history


class Interned:
    """Values by number, in the order of first use.

    Attributes:
        numbers: Value → its number, from 0.
    """

    def __init__(self) -> None:
        """Begin without a value."""
        self.numbers: dict[Any, int] = {}

    def number(self, value: Hashable) -> int:
        """Return the number of a value."""
        return self.numbers.setdefault(value, len(self.numbers))


@attrs.define
class Film:
    """The columns and tables of a history.

    Attributes:
        tracks: Stream → the playbook under a policy; ``film`` is the real one.
        undos: The undos of the history.
        base: Number of the last event before the first moment of the page; 0 where the page has every moment.
        skipped: How many moments are before it.
        rows: Stream → event, name and row of each change, those of the snapshot with the number ``base``.
        names: Names of entries.
        sizes: How many event numbers each moment has, those before the page as well.
        times: The time of each, in milliseconds since 1970.
        moment_authors: Number of the author of each moment of the page.
        kinds: Number of the kind of each event of the page.
        entries: The entry that each event names, plus 1; 0 for none.
        kind_names: Kind, words, the rating of one and whether it counted.
        authors: Number of the rater, and that of the session plus 1, 0 for none.
        raters: human, reflector and so on.
        sessions: Ids of sessions.
        agents: Number of a session plus 1 → the agent and the model that its events name first, None where none does.
        injections: Event number of each injection, and the entries that it has or the one before has, not both.
        quotes: Event number, field and text of the reasons and notes.
        last: Number of the last event.
        chain: The chain value there.
        ledger: Id of the ledger.
        redacted: How many events redact others.
    """

    tracks: dict[str, Track]
    undos: Undos
    base: int
    skipped: int
    rows: dict[str, list[tuple[int, str, Row]]]
    names: Interned = attrs.field(factory=Interned)
    sizes: array[int] = attrs.field(factory=lambda: array("I"))
    times: array[int] = attrs.field(factory=lambda: array("q"))
    moment_authors: list[int] = attrs.field(factory=list)
    kinds: list[int] = attrs.field(factory=list)
    entries: list[int] = attrs.field(factory=list)
    kind_names: Interned = attrs.field(factory=Interned)
    authors: Interned = attrs.field(factory=Interned)
    raters: Interned = attrs.field(factory=Interned)
    sessions: Interned = attrs.field(factory=Interned)
    agents: dict[int, tuple[str | None, str | None]] = attrs.field(factory=dict)
    injections: list[tuple[int, list[int]]] = attrs.field(factory=list)
    quotes: list[tuple[int, str, str]] = attrs.field(factory=list)
    last: int = 0
    chain: str = ""
    ledger: str = ""
    redacted: int = 0
    _injected: dict[str, None] = attrs.field(factory=dict)
    _author_numbers: dict[tuple[bytes, ...], int] = attrs.field(factory=dict)
    _copies: list[tuple[Position, bytes]] = attrs.field(factory=list)

    def add(self, batch: Batch, read: Read) -> None:
        """Add a batch: before the first moment of the page its time alone, and the last of those as a snapshot."""
        self.undos.see(batch)
        self.sizes.append(batch.last - self.last)
        self.times.append(to_ms(batch.unverified_at))
        if batch.last > self.base:
            self._add_moment(batch, read)
        self._note_events(batch)
        self.last, self.chain = batch.last, batch.chain
        if batch.last == self.base:
            self._take_snapshot(read)

    def _take_snapshot(self, read: Read) -> None:
        """Note the playbooks before the first moment of the page."""
        ids, _ = self.undos.note(self.base)
        self._fold_again(mark_undone(read(START), ids), self.base)
        self.quotes.clear()
        self.injections = [(self.base, [self.names.number(name) for name in self._injected])] if self._injected else []
        self._add_rows(lambda track: track.note_all(self.base), lambda *_: self.base)

    def _add_moment(self, batch: Batch, read: Read) -> None:
        self.moment_authors.append(self._author(batch))
        names, own = [str(getattr(event, "name", "")) for event in batch.events], self.tracks["film"]
        counted = set(filter(own.has_ratable, names))
        ids, first = (
            self.undos.note(batch.last) if events.EventsVoided in map(type, batch.events) else (None, batch.last + 1)
        )
        if ids is not None and first <= batch.last:
            begin = self._go_back(first)
            self._fold_again(mark_undone(read(begin), ids), batch.last)
            self._add_rows(lambda track: track.note_all(batch.last), self._deciding(batch))
        else:
            self._add_rows(lambda track: track.advance(batch), self._deciding(batch))
            self._copy(batch, len(self.sizes))
        self._add_events(batch, {*counted, *filter(own.has_ratable, names)})

    def _deciding(self, batch: Batch) -> Callable[[str, Row], int]:
        """Return what gives, for a row that a batch changed, the number of the event that did so."""
        named: dict[str, int] = {}
        deciding = batch.last
        for seq, event in _numbered(batch, self.last):
            if isinstance(event, events.PlaybookUpdated | events.EventsVoided):
                deciding = seq
            elif isinstance(name := getattr(event, "name", None), str):
                named |= dict.fromkeys((name, *getattr(event, "merged", ())), seq)
        if events.EventsVoided in map(type, batch.events):
            named.clear()
        return lambda name, row: deciding if row.status == PRUNED else named.get(name, deciding)

    def _add_rows(self, change: Callable[[Track], Changed], decide: Callable[[str, Row], int]) -> None:
        """Add the rows of a moment: of another policy, those that differ from the playbook's own."""
        own = self.tracks["film"]
        changed = change(own)
        for stream, track in self.tracks.items():
            rows = changed if track is own else differences(track, change(track), own, changed)
            decided = ((decide(name, row), name, row) for name, row in rows.items())
            self.rows[stream] += sorted(decided, key=itemgetter(0))

    # Undos

    def _copy(self, batch: Batch, number: int) -> None:
        """Keep a copy of the playbooks at every so many batches, where a later undo may go on from it."""
        if number % _STRIDE or not self.undos.records or self.undos.records[-1].seq <= batch.last:
            return
        books = {stream: track.book for stream, track in self.tracks.items()}
        for book in books.values():
            # The page asks no playbook for its last batch.
            book.latest = book.latest_batch = None
        self._copies.append((Position(batch.last, batch.chain, batch.end), pickle.dumps(books)))
        if len(self._copies) > _MAX_COPIES:
            del self._copies[1::2]

    def _go_back(self, first: int) -> Position:
        """Go back to the last copy before an event, or to the beginning."""
        while self._copies and self._copies[-1][0].seq >= first:
            self._copies.pop()
        begin, copy = self._copies[-1] if self._copies else (START, b"")
        books = pickle.loads(copy) if copy else {}  # noqa: S301 - pickled by this process
        for stream, track in self.tracks.items():
            track.book = books.get(stream) or track.begin()
        return begin

    def _fold_again(self, batches: Iterable[Batch], until: int) -> None:
        for number, batch in enumerate(_until(batches, until), 1):
            for track in self.tracks.values():
                track.fold(batch)
            self._copy(batch, number)

    # Events

    def _add_events(self, batch: Batch, counted: set[str]) -> None:
        """Add the kind and the entry of each event."""
        size = batch.last - self.last
        # The lines on which a text goes on have numbers, and no event.
        kinds, entries = [self.kind_names.number(CONTINUED_WORDS) if len(batch.events) < size else 0] * size, [0] * size
        for seq, event in _numbered(batch, self.last):
            kind, words, *rating = kind_words(event)
            if isinstance(event, events.PointRated) and event.rating in {"helpful", "harmful"}:
                if event.name in counted:
                    rating.append("counts")
                else:
                    words += ", no effect"
            kinds[seq - self.last - 1] = self.kind_names.number((kind, words, *rating))
            name = getattr(event, "name", None)
            entries[seq - self.last - 1] = self.names.number(name) + 1 if isinstance(name, str) else 0
        self.kinds += kinds
        self.entries += entries

    def _note_events(self, batch: Batch) -> None:
        """Note what single events say of the ledger, of injections, and in quotes."""
        for seq, event in _numbered(batch, self.last):
            if isinstance(event, events.LedgerOpened):
                self.ledger = event.ledger
            elif isinstance(event, events.PlaybookInjected):
                new = dict.fromkeys(event.names)
                changed = [*(n for n in new if n not in self._injected), *(n for n in self._injected if n not in new)]
                self.injections.append((seq, [self.names.number(name) for name in changed]))
                self._injected = new
            elif isinstance(event, events.EventRedacted):
                self.redacted += 1
            if getattr(event, "reason", None) or getattr(event, "note", None):
                self.quotes += [(seq, field, text) for field, text in texts_of(event).items() if field in QUOTED]

    def words_of(self, seq: int) -> str:
        """Return what an event did, in a few words."""
        words: str = list(self.kind_names.numbers)[self.kinds[seq - self.base - 1]][1] if seq > self.base else ""
        return words

    def _author(self, batch: Batch) -> int:
        """Return the number of the author of a batch; where another program wrote several, of its first event."""
        _, authors = batch.unverified_authors
        key = tuple(authors)
        if len(key) != 1 or key not in self._author_numbers:
            by = batch.records[0].by
            session = 0 if by.session is None else self.sessions.number(by.session) + 1
            agent, model = self.agents.get(session, (None, None))
            self.agents[session] = (agent or by.agent, model or by.model)
            self._author_numbers[key] = self.authors.number((self.raters.number(by.rater), session))
        return self._author_numbers[key]


def _numbered(batch: Batch, before: int) -> Iterable[tuple[int, Any]]:
    """Return a batch's events with their numbers; a text that continues on further lines takes numbers of its own."""
    if len(batch.events) == batch.last - before:
        return zip(range(before + 1, batch.last + 1), batch.events, strict=True)
    return [(record.seq, record.event) for record in batch.records]


def kind_words(event: Any) -> tuple[str, ...]:
    """Return the kind of an event, what it does in a few words, and of a rating what it is."""
    if isinstance(event, events.UnknownEvent):
        return event.kind, f"{event.kind}, unknown to this Tallybook"
    kind = events.KIND_OF[type(event)]
    if isinstance(event, events.PointRated):
        rating = event.rating if event.rating in events.RATINGS else ""
        return kind, f"rated {rating}" if rating else "rated, counts nothing", rating
    return kind, WORDS.get(kind) or kind.removeprefix("point.").replace(".", " ")


WORDS: Final = {
    "point.added": "learned",
    "point.seeded": "imported from a legacy playbook",
    "point.edited": "changed by a manual edit",
    "point.removed": "removed by a manual edit",
    "point.merged": "took in another entry",
    "playbook.updated": "update",
    "playbook.injected": "playbook injected",
    "events.voided": "undo",
    "event.redacted": "text redacted",
    "playbook.adopted": "legacy playbook imported",
    "playbook.ordered": "playbook ordered",
    "playbook.edited": "manual edit",
    "book.block": "numbers reserved for this machine's new entries",
    "book.taken": "events of the shared playbook came in",
}
"""Kind → what such an event does; other kinds are named as in the ledger."""


def to_ms(at: str) -> int:
    """Return the milliseconds since 1970 of a time as the ledger writes it."""
    return (datetime.fromisoformat(at) - _EPOCH) // _MILLISECOND


def fold_film(read: Read, policies: Mapping[str, Policy], most: int = MAX_MOMENTS) -> Film:
    """Return the film of a history under these policies, of which ``film`` is the real one.

    Args:
        read: Reads the history after a position.
        policies: Stream → policy.
        most: Most moments; those before them are one snapshot.
    """
    lasts: deque[int] = deque([0], maxlen=most + 1)
    moments, undos = 0, []
    for batch in read(START):
        moments += 1
        lasts.append(batch.last)
        undos += undos_in(batch)
    base = lasts[0] if moments > most else 0
    tracks = {stream: Track(policy) for stream, policy in policies.items()}
    film = Film(tracks, Undos(undos), base, max(0, moments - most), {stream: [] for stream in policies})
    for batch in _until(read(START), lasts[-1]):
        film.add(batch, read)
    return film


def _until(batches: Iterable[Batch], last: int) -> Iterator[Batch]:
    """Yield batches up to an event: what is appended meanwhile was not searched for undos."""
    for batch in batches:
        if batch.last > last:
            return
        yield batch
