"""The film: moments, events and what each moment changes, read from the ledger once. README.md has the format."""

from __future__ import annotations

from array import array
from collections import deque
from datetime import date
from functools import lru_cache
import json
from operator import itemgetter
import pickle
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import events
from tallybook.ledger.encoding.codec import texts_of
from tallybook.ledger.encoding.event_json import FREE_FIELDS
from tallybook.ledger.line import CONTINUED, START, Position
from tallybook.projections.fold import undos_in
from tallybook.projections.surfaces.page.track import PRUNED, Track, differences
from tallybook.projections.surfaces.page.undone import Undos, numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tallybook.ledger.records import Batch
    from tallybook.projections.playbook.prune import Policy
    from tallybook.projections.surfaces.page.track import Changed, Row

    Read = Callable[[Position], Iterable[Batch]]
    Special = Callable[["Film", int, Any], None]

MAX_MOMENTS: Final = 50_000
"""Most moments of a page; the ones before them are one snapshot."""

CONTINUED_WORDS: Final = (CONTINUED, "text continued")
"""Kind and words of a line on which the text of the event before it goes on."""

QUOTED: Final = ("reason", "note")
"""Free texts that are no texts of entries."""

_STRIDE: Final = 1024
"""Moments between two copies of the playbooks, from which history is folded again after an undo."""

_MAX_COPIES: Final = 16
"""Most copies that are held; each has every entry under every policy."""

_PLAIN: Final = {events.PointRated, events.PlaybookUpdated}
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAY_MS: Final = 86_400_000


class Interned:
    """Strings by number, in the order of first use.

    Attributes:
        numbers: String → its number, from 0.
    """

    def __init__(self) -> None:
        """Begin without a string."""
        self.numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a string."""
        return self.numbers.setdefault(text, len(self.numbers))


@attrs.define
class Film:
    """The columns and tables of a history.

    Attributes:
        tracks: Stream → the playbook under a policy; ``film`` is the real one.
        undos: The undos of the history.
        base: Number of the last event before the first moment of the page; 0 where the page has every moment.
        skipped: How many moments are before it.
        names: Names of entries.
        rows: Stream → event, name and row of each change, those of the snapshot with the number ``base``.
        sizes: How many event numbers each moment has, those before the page as well.
        times: The time of each, in milliseconds since 1970.
        moment_authors: Number of the author of each moment of the page.
        kinds: Number of the kind of each event of the page.
        entries: The entry that each event names, plus 1; 0 for none.
        kind_names: Kind, words, the rating of one and whether it counted, joined by tabs.
        authors: Rater, session, agent and model, as JSON.
        injections: Event number of each injection, and the entries that it has or the one before has, not both.
        quotes: Event number, field and text, where they are asked for.
        last: Number of the last event.
        chain: The chain value there.
        ledger: Id of the ledger.
        redacted: Numbers of the events that redact others.
        types: The classes of events that there are.
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
    injections: list[tuple[int, list[int]]] = attrs.field(factory=list)
    quotes: list[tuple[int, str, str]] = attrs.field(factory=list)
    last: int = 0
    chain: str = ""
    ledger: str = ""
    redacted: list[int] = attrs.field(factory=list)
    types: set[type[Any]] = attrs.field(factory=set)
    _injected: dict[str, None] = attrs.field(factory=dict)
    _author_numbers: dict[bytes, int] = attrs.field(factory=dict)
    _copies: list[tuple[Position, bytes]] = attrs.field(factory=list)

    def add_old(self, batch: Batch) -> None:
        """Add a batch before the first moment of the page, with its undone events marked."""
        self._begin(batch)
        for seq, event in zip(numbers_of(batch, self.last), batch.events, strict=True):
            if (special := _SPECIAL.get(type(event))) is not None:
                special(self, seq, event)
        for track in self.tracks.values():
            track.fold(batch)
        self._end(batch)

    def take_snapshot(self) -> None:
        """Note the playbooks before the first moment of the page."""
        self.quotes.clear()
        self.injections = [(self.base, [self.names.number(name) for name in self._injected])] if self._injected else []
        self._add_rows(
            {stream: track.note_all(self.base) for stream, track in self.tracks.items()}, lambda *_: self.base
        )

    def add(self, batch: Batch, read: Read) -> None:
        """Add a moment of the page."""
        self._begin(batch)
        self.moment_authors.append(self._author(batch))
        rated = {event.name for event in batch.events if isinstance(event, events.PointRated)}
        real = self.tracks["film"]
        counted = set(filter(real.has_ratable, rated))
        if events.EventsVoided in map(type, batch.events):
            self._fold_again(batch, read)
            changed = {stream: track.note_all(batch.last) for stream, track in self.tracks.items()}
        else:
            changed = self._advance(batch)
        self._add_rows(changed, self._deciding(batch))
        self._add_events(batch, {*counted, *filter(real.has_ratable, rated)})
        self._end(batch)

    def _begin(self, batch: Batch) -> None:
        self.types.update(map(type, batch.events))
        self.undos.see(batch)
        self.sizes.append(batch.last - self.last)
        self.times.append(to_ms(batch.unverified_at))

    def _end(self, batch: Batch) -> None:
        self.last, self.chain = batch.last, batch.chain
        if len(self.sizes) % _STRIDE == 0:
            self._copy(batch)

    def _advance(self, batch: Batch) -> dict[str, Changed]:
        """Apply a batch under every policy, and return the rows that it changed under each."""
        real, kinds = self.tracks["film"], set(map(type, batch.events))
        is_plain = kinds <= _PLAIN and not real.may_prune(batch)
        names = dict.fromkeys(real.names_in(batch)) if is_plain else {}
        changed = {"film": real.advance(batch)}
        is_plain = is_plain and all(map(real.is_listed, changed["film"]))
        for stream, track in self.tracks.items():
            if track is real:
                continue
            if not is_plain or track.may_prune(batch) or not track.differing.isdisjoint(names):
                changed[stream] = track.advance(batch)
                continue
            # Ratings change the same counts under each policy, of entries that do not differ already.
            track.fold(batch)
            if all(name in track.book.mutable for name in changed["film"]):
                track.rows |= changed["film"]
            else:
                changed[stream] = track.note(names, batch.last)
        return changed

    def _deciding(self, batch: Batch) -> Callable[[str, Row], int]:
        """Return what gives, for a row that a batch changed, the number of the event that did so."""
        seqs = {"update": batch.last, "undo": 0}
        for seq, event in zip(numbers_of(batch, self.last), batch.events, strict=True):
            name = getattr(event, "name", None)
            if isinstance(event, events.PlaybookUpdated):
                seqs["update"] = seq
            elif isinstance(event, events.EventsVoided):
                seqs["undo"] = seq
            elif isinstance(name, str):
                seqs |= dict.fromkeys([f"name {name}", *(f"name {old}" for old in getattr(event, "merged", ()))], seq)

        def decide(name: str, row: Row) -> int:
            named = seqs["update"] if row.status == PRUNED else seqs.get(f"name {name}", seqs["update"])
            return seqs["undo"] or named

        return decide

    def _add_rows(self, changed: Mapping[str, Changed], decide: Callable[[str, Row], int]) -> None:
        """Add the rows of a moment: of another policy, those that differ from the playbook's own."""
        real = self.tracks["film"]
        for stream, rows in changed.items():
            track = self.tracks[stream]
            told = rows if track is real else differences(track, rows, real, changed["film"])
            self.rows[stream] += sorted(
                ((decide(name, row), name, row) for name, row in told.items()), key=itemgetter(0)
            )

    def _copy(self, batch: Batch) -> None:
        """Keep a copy of the playbooks, where a later undo may go on from it."""
        records = self.undos.records
        if records and records[-1].seq > batch.last and not (self._copies and self._copies[-1][0].seq >= batch.last):
            books = {stream: track.book for stream, track in self.tracks.items()}
            for book in books.values():
                # The page asks no playbook for its last batch.
                book.latest = book.latest_batch = None
            self._copies.append((Position(batch.last, batch.chain, batch.end), pickle.dumps(books)))
            if len(self._copies) > _MAX_COPIES:
                del self._copies[1::2]

    def _fold_again(self, batch: Batch, read: Read) -> None:
        """Fold history up to a batch with undos without what is undone as of it."""
        first = self.undos.first_of(batch)
        while self._copies and self._copies[-1][0].seq >= first:
            self._copies.pop()
        begin, copies = self._copies[-1] if self._copies else (START, b"")
        books = pickle.loads(copies) if copies else {}  # noqa: S301 - pickled by this process
        for stream, track in self.tracks.items():
            track.book = books.get(stream) or track.begin()
        for number, earlier in enumerate(self.undos.mark(read(begin), begin.seq, batch.last), 1):
            for track in self.tracks.values():
                track.fold(earlier)
            if number % _STRIDE == 0:
                self._copy(earlier)

    def _add_events(self, batch: Batch, counted: set[str]) -> None:
        """Add the kind and the entry of each event."""
        seqs, size = numbers_of(batch, self.last), batch.last - self.last
        # The lines on which a text goes on have numbers, and no event.
        kinds, entries = [self.kind_names.number("\t".join(CONTINUED_WORDS))] * size, [0] * size
        if len(batch.events) == size:
            kinds, entries = [0] * size, [0] * size
        for seq, event in zip(seqs, batch.events, strict=True):
            name = getattr(event, "name", None)
            kind, words, *rating = kind_words(event)
            if isinstance(event, events.PointRated) and event.rating in {"helpful", "harmful"}:
                if event.name in counted:
                    rating.append("counts")
                else:
                    words += ", no effect"
            kinds[seq - self.last - 1] = self.kind_names.number("\t".join([kind, words, *rating]))
            entries[seq - self.last - 1] = 0 if not isinstance(name, str) else self.names.number(name) + 1
            if (special := _SPECIAL.get(type(event))) is not None:
                special(self, seq, event)
        self.kinds += kinds
        self.entries += entries

    def words_of(self, seq: int) -> str:
        """Return what an event did, in a few words."""
        return list(self.kind_names.numbers)[self.kinds[seq - self.base - 1]].split("\t")[1] if seq > self.base else ""

    def _author(self, batch: Batch) -> int:
        """Return the number of the author of a batch; where another program wrote several, of its first event."""
        _, authors = batch.unverified_authors
        key = next(iter(authors)) if len(authors) == 1 else b""
        number = self._author_numbers.get(key) if key else None
        if number is None:
            author = _read_author(key) or _encode_author(attrs.asdict(batch.records[0].by))
            number = self._author_numbers[key] = self.authors.number(author)
        return number

    def note_injection(self, seq: int, names: Iterable[str]) -> None:
        """Add which entries an injection has and the one before it has not, and the other way round."""
        new = dict.fromkeys(names)
        changed = [*(name for name in new if name not in self._injected), *(n for n in self._injected if n not in new)]
        self.injections.append((seq, [self.names.number(name) for name in changed]))
        self._injected = new


def _read_author(by: bytes) -> str:
    """Return the author in a line's head, empty where Tallybook did not write it so."""
    try:
        fields = json.loads(by)
    except ValueError:
        return ""
    return _encode_author(fields) if isinstance(fields, dict) and isinstance(fields.get("rater"), str) else ""


def _encode_author(fields: dict[str, Any]) -> str:
    return json.dumps([fields.get(name) for name in ("rater", "session", "agent", "model")])


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


def _quote(film: Film, seq: int, event: Any) -> None:
    film.quotes.extend((seq, field, text) for field, text in texts_of(event).items() if field in QUOTED)


def _redact(film: Film, seq: int, event: Any) -> None:
    film.redacted.append(seq)
    _quote(film, seq, event)


def _open(film: Film, _seq: int, event: events.LedgerOpened) -> None:
    film.ledger = event.ledger


def _inject(film: Film, seq: int, event: events.PlaybookInjected) -> None:
    film.note_injection(seq, event.names)


_SPECIAL: Final[dict[type[Any], Special]] = {
    **{cls: _quote for cls, fields in FREE_FIELDS.items() if not {*QUOTED}.isdisjoint(fields)},
    events.LedgerOpened: _open,
    events.PlaybookInjected: _inject,
    events.EventRedacted: _redact,
}


@lru_cache(maxsize=4096)
def _day_ms(day: str) -> int:
    return (date.fromisoformat(day).toordinal() - _EPOCH) * _DAY_MS


def to_ms(at: str) -> int:
    """Return the milliseconds since 1970 of a time as the ledger writes it."""
    day_ms = _day_ms(at[:10])
    return day_ms + int(at[11:13]) * 3_600_000 + int(at[14:16]) * 60_000 + int(at[17:19]) * 1000 + int(at[20:23])


def fold_film(read: Read, policies: Mapping[str, Policy], most: int = MAX_MOMENTS) -> Film:
    """Return the film of a history under these policies, of which ``film`` is the real one.

    Args:
        read: Reads the history after a position.
        policies: Stream → policy.
        most: Most moments; those before them are one snapshot.
    """
    latest: deque[Position] = deque(maxlen=most + 1)
    moments, undos = 0, []
    for batch in read(START):
        moments += 1
        latest.append(Position(batch.last, batch.chain, batch.end))
        undos += undos_in(batch)
    begin = latest[0] if moments > most else START
    end = latest[-1].seq if latest else 0
    tracks = {stream: Track(policy) for stream, policy in policies.items()}
    film = Film(tracks, Undos(undos), begin.seq, max(0, moments - most), {stream: [] for stream in policies})
    if begin.seq:
        for batch in film.undos.mark(read(START), 0, begin.seq):
            film.add_old(batch)
        film.take_snapshot()
    for batch in _until(read(begin), end):
        film.add(batch, read)
    return film


def _until(batches: Iterable[Batch], last: int) -> Iterator[Batch]:
    """Yield batches up to an event: what is appended meanwhile was not searched for undos."""
    for batch in batches:
        if batch.last > last:
            return
        yield batch
