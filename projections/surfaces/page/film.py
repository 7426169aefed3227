"""The film: moments, events and what each changes, read from the ledger once into columns. README.md has the format."""

from __future__ import annotations

from array import array
from datetime import date
from functools import lru_cache
import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import events
from tallybook.ledger.encoding.codec import texts_of
from tallybook.ledger.encoding.event_json import FREE_FIELDS
from tallybook.ledger.line import CONTINUED, START
from tallybook.projections.fold import undos_in
from tallybook.projections.surfaces.page import track
from tallybook.projections.surfaces.page.columns import Column
from tallybook.projections.surfaces.page.snapshots import NEAR, History, Snapshots
from tallybook.projections.surfaces.page.track import Changes, Interned
from tallybook.projections.surfaces.page.undone import Undos

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tallybook.ledger.records import Batch

    Special = Callable[["Film", int, Any], None]
    from tallybook.projections.playbook.prune import Policy

CONTINUED_WORDS: Final = f"{CONTINUED}\ttext continued"
"""Kind and words of a line on which the text of the event before it goes on."""

QUOTED: Final = ("reason", "note")
"""Free texts that are no texts of entries."""

_MEMO: Final = 65_536
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAY_MS: Final = 86_400_000


Memo = tuple[Any, int, int, "Special | None"]
"""An event, the number of its kind, its entry plus 1, and what else it adds to a film."""


class Film:
    """The columns and tables of a history.

    Attributes:
        tracks: Stream → the playbook under a policy; ``film`` is the real one.
        changes: Stream → its changes.
        names: Names of entries.
        texts: Texts of entries.
        sizes: How many event numbers each moment has.
        times: The time of each moment, in milliseconds since 1970.
        moment_authors: Number of the author of each moment.
        kinds: Number of the kind of each event.
        entries: The entry that each event names, plus 1; 0 for none.
        kind_names: Kind, words and the rating of one, joined by tabs.
        authors: Rater, session, agent and model, as JSON.
        injections: Event number, how many entries changed, and which, of each injection.
        undos: The undone events.
        snapshots: From where history is folded again after an undo.
        quotes: Event number, field and text, where they are asked for.
        last: Number of the last event.
        chain: The chain value there.
        last_at: The time of the last batch, as the ledger writes it.
        ledger: Id of the ledger.
        redacted: Numbers of the events that redact others.
    """

    def __init__(self, policies: dict[str, Policy], history: History, near: int = NEAR) -> None:
        """Begin before the first event."""
        self.snapshots = Snapshots(history, near)
        self.names, self.texts = Interned(), Interned()
        self.tracks = {stream: track.make_track(policy) for stream, policy in policies.items()}
        self.changes = {stream: Changes(self.names, self.texts) for stream in policies}
        self.sizes, self.times, self.moment_authors = array("I"), array("q"), array("I")
        self.kinds, self.entries = array("I"), array("I")
        self.kind_names, self.authors = Interned(), Interned()
        self.injections: tuple[array[int], array[int], array[int]] = (array("Q"), array("I"), array("I"))
        self.undos = Undos()
        self.quotes: list[tuple[int, str, str]] = []
        self.last, self.chain, self.last_at, self.ledger = 0, "", "", ""
        self.redacted: list[int] = []
        self._injected: dict[str, None] = {}
        self._known: dict[int, Memo] = {}
        self._author_numbers: dict[bytes, int] = {}

    def add(self, batch: Batch) -> None:
        """Add a batch, without what its undos change."""
        seqs = track.numbers_of(batch, self.last)
        size = batch.last - self.last
        for changes in self.changes.values():
            changes.effect.extend(bytes(size))
        self.last_at = batch.unverified_at
        self.sizes.append(size)
        self.times.append(to_ms(self.last_at))
        self.moment_authors.append(self._author(batch))
        self._add_events(batch, seqs, size)
        changing = track.changing_events(batch, seqs)
        for stream, one in self.tracks.items() if changing else ():
            track.advance(one, batch, changing, self.changes[stream])
        self.last, self.chain = batch.last, batch.chain

    def _add_events(self, batch: Batch, seqs: Sequence[int], size: int) -> None:
        """Add the kind and the entry of each event."""
        known, kinds, entries = self._known, self.kinds, self.entries
        if len(batch.events) < size:
            # The lines on which a text goes on have numbers, and no event.
            kinds.extend([self.kind_names.number(CONTINUED_WORDS)] * size)
            entries.extend([0] * size)
        for seq, event in zip(seqs, batch.events, strict=True):
            memo = known.get(id(event))
            if memo is None or memo[0] is not event:
                memo = self._describe(event)
            _, kind, entry, special = memo
            if len(batch.events) < size:
                kinds[seq - 1], entries[seq - 1] = kind, entry
            else:
                kinds.append(kind)
                entries.append(entry)
            if special is not None:
                special(self, seq, event)

    def _describe(self, event: Any) -> Memo:
        """Return an event with the numbers of its kind, and of its entry plus 1, and with what else it adds."""
        name = getattr(event, "name", None)
        entry = 0 if not isinstance(name, str) else self.names.number(name) + 1
        kind = self.kind_names.number("\t".join(kind_words(event)))
        memo = (event, kind, entry, _SPECIAL.get(type(event)))
        if isinstance(event, events.PointRated | events.PlaybookUpdated):
            # The decoder gives the same object for equal lines, and most lines are ratings.
            if len(self._known) >= _MEMO:
                self._known.clear()
            self._known[id(event)] = memo
        return memo

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
        event, size, entries = self.injections
        event.append(seq)
        size.append(len(changed))
        entries.extend(self.names.number(name) for name in changed)
        self._injected = new

    def add_undo(self, batch: Batch) -> None:
        """Add a batch with undos: history is folded again without what they undo, and the difference recorded."""
        before = {stream: one.rows() for stream, one in self.tracks.items()}
        counts = {stream: changes.count for stream, changes in self.changes.items()}
        policies = {stream: one.book.policy for stream, one in self.tracks.items()}
        self.add(batch)
        undos = undos_in(batch)
        self.undos.add(undos)
        begin, self.tracks = self.snapshots.before(undos) or (
            START,
            {one: track.make_track(policies[one]) for one in policies},
        )
        marked = self.undos.read(self.snapshots.history.read(begin), begin.seq, batch.last)
        for one in track.replay(list(self.tracks.values()), marked, begin.seq):
            self.snapshots.offer(one, self.tracks)
        for stream, again in self.tracks.items():
            changes = self.changes[stream]
            changes.cut(counts[stream], batch.last - self.sizes[-1])
            track.record_difference(before[stream], again, undos[-1].seq, changes)

    def columns(self) -> list[Column]:
        """Return the columns of the stream ``film``."""
        start = self.times[0] if self.times else 0
        return [
            Column("m_size", self.sizes),
            Column("m_time", [time - start for time in self.times], delta=True),
            Column("m_author", self.moment_authors, delta=True),
            Column("e_kind", self.kinds),
            Column("e_entry", self.entries),
            Column("e_effect", self.changes["film"].effect),
            *self.changes["film"].columns(),
            *self.undos.columns(),
            Column("i_event", self.injections[0], delta=True),
            Column("i_size", self.injections[1]),
            Column("i_entry", self.injections[2]),
        ]


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


def fold_film(history: History, policies: dict[str, Policy], near: int = NEAR) -> Film:
    """Return the film of a history under these policies, of which ``film`` is the real one.

    Args:
        history: The history.
        policies: Stream → policy.
        near: How many events before an event its snapshot may be.
    """
    film = Film(policies, history, near)
    for batch in history.read(START):
        if events.EventsVoided in map(type, batch.events):
            film.add_undo(batch)
        else:
            film.add(batch)
            film.snapshots.offer(batch, film.tracks)
    return film
