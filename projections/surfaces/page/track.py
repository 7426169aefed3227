"""The changes that each event makes to the playbook under one policy, as codes of ratings and rows of other changes."""

from __future__ import annotations

from array import array
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.projections.entry_history.status import ADDING_KINDS
from tallybook.projections.fold import UndoneEvent
from tallybook.projections.playbook.aging import AgedPlaybook, AgedPolicy, apply_aged, decide_due, event_steps
from tallybook.projections.playbook.entry_state import REDACTED
from tallybook.projections.playbook.prune import SPEC_POLICY, Policy
from tallybook.projections.playbook.view import CHANGES, UNDONE, Playbook
from tallybook.projections.surfaces.page.columns import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tallybook.ledger.records import Batch

    Numbered = tuple[int, Any, Callable[..., None]]

STATUSES: Final = ("absent", "kept", "pruned", "retired", "merged", UNDONE)
"""Status of a name in a row, by its number."""

NOTHING, HELPFUL, HARMFUL, CHANGED = range(4)
"""What an event did to the playbook; CHANGED means that it has rows."""

PLACES: Final = 2**16
"""Places for the entries that one event brings."""

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
class Changes:
    """The recorded changes, in columns; README.md has their meaning.

    Attributes:
        names: Every name of an entry, shared by all policies.
        texts: Every text of an entry, likewise.
        effect: What each event did, by event number from 1.
        rows: Event number, entry, status, counts, text, flags, merged into and place of each row.
        pairs: The counts that occur, ``helpful << 32 | harmful``.
    """

    names: Interned
    texts: Interned
    effect: bytearray = attrs.field(factory=bytearray)
    rows: tuple[array[int], ...] = attrs.field(factory=lambda: tuple(array("Q") for _ in range(9)))
    pairs: set[int] = attrs.field(factory=set)

    def add(self, seq: int, name: str, row: Row) -> None:
        """Add the state of an entry after an event."""
        numbers = self.names.number
        text = self.texts.number(row.text) + 1 if row.text or row.status else 0
        into = numbers(row.into) + 1 if row.into else 0
        values = (seq, numbers(name), row.status, row.helpful, row.harmful, text, row.flags, into, row.place)
        for column, value in zip(self.rows, values, strict=True):
            column.append(value)
        self.pairs.add(row.helpful << 32 | row.harmful)

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return len(self.rows[0])

    def cut(self, count: int, seq: int) -> None:
        """Take back all rows but so many, and what the events after a number did."""
        for column in self.rows:
            del column[count:]
        self.effect[seq:] = bytes(len(self.effect) - seq)

    def columns(self) -> list[Column]:
        """Return the columns of the rows."""
        names = ("event", "entry", "status", "helpful", "harmful", "text", "flags", "into", "place")
        rising = {"event", "entry", "text", "place"}
        return [Column(f"c_{name}", column, name in rising) for name, column in zip(names, self.rows, strict=True)]


class Track:
    """A playbook that is folded event by event, with what each changes.

    Attributes:
        book: The playbook.
        undone: Name whose addition was undone → its text.
        places: Name → its place in the order of the playbook, by the event that brought it: an undo then changes the
            places of few others.
        seq: Number of the event that is applied.
    """

    def __init__(self, policy: Policy = SPEC_POLICY) -> None:
        """Begin before the first event."""
        self.book = Playbook(policy=policy)
        self.undone: dict[str, str] = {}
        self.places: dict[str, int] = {}
        self.seq = 0
        self._last_place = 0

    def prepare(self, changing: Sequence[Numbered], _batch: Batch) -> Sequence[Numbered]:
        """Return the events of a batch with what each does to this playbook."""
        return changing

    def row(self, name: str) -> Row:
        """Return what the page shows of a name now."""
        book = self.book
        flags = PINNED * (name in book.pinned) + PARDONED * (name in book.pardons)
        entry = book.mutable.get(name)
        if entry is not None:
            return Row(1, entry.helpful, entry.harmful, entry.text, flags, "", self._place(name))
        gone = book.gone.get(name)
        if gone is None:
            undone = STATUSES.index(UNDONE)
            is_undone = book.status_of(name) == UNDONE
            return Row(undone, text=self.undone[name], flags=flags) if is_undone else ABSENT._replace(flags=flags)
        status, into, place = STATUSES.index(book.status_of(name)), book.merged.get(name, ""), self.places.get(name, 0)
        return Row(status, gone.helpful, gone.harmful, gone.text, flags, into, place)

    def _place(self, name: str) -> int:
        place = self.places.get(name)
        return self._next_place(name) if place is None else place

    def _next_place(self, name: str) -> int:
        """Give a name the last place in the order."""
        self._last_place = max(self._last_place + 1, self.seq * PLACES)
        self.places[name] = self._last_place
        return self._last_place

    def rows(self) -> dict[str, Row]:
        """Return what the page shows of every name that it shows anything of."""
        book = self.book
        names = [*book.mutable, *book.gone, *self.undone, *book.pinned, *book.pardons]
        return {name: row for name in dict.fromkeys(names) if (row := self.row(name)) != ABSENT}

    def apply(self, event: Any, batch: Batch, change: Callable[..., None]) -> list[tuple[str, Row]]:
        """Apply an event, and return the rows that it changed."""
        names = self._affected(event)
        before = [(name, self.row(name)) for name in names]
        was_present = {name for name in names if name in self.book.mutable}
        reorders = isinstance(event, events.PlaybookEdited) and bool(self.book.order)
        change(self.book, event, batch)
        self._note_names(event, was_present, names)
        if reorders:
            for name in self.book.mutable:
                self._next_place(name)
        return [(name, after) for name, old in before if (after := self.row(name)) != old]

    def _note_names(self, event: Any, was_present: set[str], names: tuple[str, ...]) -> None:
        """Note which names came back by an event, and the text of one whose addition is undone."""
        for name in names:
            if name in self.book.mutable and name not in was_present:
                # An entry that comes back is the last of the playbook.
                self.places.pop(name, None)
        if isinstance(event, UndoneEvent) and isinstance(event.event, ADDING_KINDS):
            text = event.event.text
            self.undone[event.event.name] = REDACTED if text is None else text

    def _affected(self, event: Any) -> tuple[str, ...]:
        """Return the names whose rows an event can change."""
        book = self.book
        if isinstance(event, events.PlaybookUpdated):
            return _turning(book)
        if isinstance(event, events.PlaybookEdited):
            return tuple(book.mutable) if book.order else ()
        if isinstance(event, UndoneEvent):
            return self._affected(event.event) if isinstance(event.event, ADDING_KINDS) else ()
        name = getattr(event, "name", None)
        if name is None:
            return ()
        merged = getattr(event, "merged", ())
        # Names merged earlier into one that is merged now get another target.
        chained = [old for old, into in book.merged.items() if into in merged] if merged else []
        return tuple(dict.fromkeys([name, book.merged.get(name, name), *merged, *chained]))


def _drop_order(book: Playbook) -> None:
    """After a batch, drop an order whose edit was undone; the page shows nothing else of what `settle` notes."""
    if book.order:
        book.order.clear()


def _turning(book: Playbook) -> tuple[str, ...]:
    """Return the names that an update would prune now, or bring back."""
    if book.policy.is_permanent:
        return tuple(book.due)
    return (*book.due, *(name for name in book.pruned if not book.prunes(book.gone[name])))


class AgedTrack(Track):
    """A track under a policy by which ratings lose weight with age."""

    book: AgedPlaybook

    def __init__(self, policy: AgedPolicy) -> None:
        """Begin before the first event."""
        super().__init__(policy)
        self.book = AgedPlaybook(policy=policy, half_life_us=policy.half_life_us)
        self._now = 0

    def prepare(self, changing: Sequence[Numbered], batch: Batch) -> Sequence[Numbered]:
        """Return the events with what each does at its time."""
        self._now, steps = event_steps(self.book, batch)
        if any(type(event) is events.PlaybookUpdated for _, event, _ in changing):
            # Also of an update that is left out because nothing is due.
            self.book.step = max(self.book.step, self._now)
        times = [step for event, step in zip(batch.events, steps, strict=True) if type(event) in CHANGES]
        return [
            (seq, event, partial(apply_aged, change, step))
            for (seq, event, change), step in zip(changing, times, strict=True)
        ]

    def _affected(self, event: Any) -> tuple[str, ...]:
        """Return the names whose rows an event can change: of an update, those that it prunes."""
        if isinstance(event, events.PlaybookUpdated):
            decide_due(self.book, self._now)
        return super()._affected(event)


def make_track(policy: Policy) -> Track:
    """Return the track of a policy, before the first event."""
    return AgedTrack(policy) if isinstance(policy, AgedPolicy) else Track(policy)


def changing_events(batch: Batch, seqs: Sequence[int]) -> list[Numbered]:
    """Return the events of a batch that can change a playbook, each with its number and what it does."""
    numbered = zip(seqs, batch.events, strict=True)
    return [(seq, event, change) for seq, event in numbered if (change := CHANGES.get(type(event))) is not None]


def advance(track: Track, batch: Batch, changing: Sequence[Numbered], changes: Changes) -> None:
    """Apply the events of a batch, and record what each changes."""
    book, effect, add_pair = track.book, changes.effect, changes.pairs.add
    changing = track.prepare(changing, batch)
    mutable, rated, updated = book.mutable, events.PointRated, events.PlaybookUpdated
    for seq, event, change in changing:
        kind = type(event)
        if kind is rated and (entry := mutable.get(event.name)) is not None:
            # The most frequent event takes a short way: it changes one count of an entry at most.
            helpful, harmful = entry.helpful, entry.harmful
            change(book, event, batch)
            if entry.helpful != helpful:
                effect[seq - 1] = HELPFUL
                add_pair(entry.helpful << 32 | harmful)
            elif entry.harmful != harmful:
                effect[seq - 1] = HARMFUL
                add_pair(helpful << 32 | entry.harmful)
        elif kind is not updated or _turning(book):
            # Most updates prune nothing.
            track.seq = seq
            _record(track.apply(event, batch, change), seq, changes)
    _drop_order(book)


def _record(rows: Sequence[tuple[str, Row]], seq: int, changes: Changes) -> None:
    """Record the rows that an event changed."""
    if rows:
        changes.effect[seq - 1] = CHANGED
    for name, row in rows:
        changes.add(seq, name, row)


def replay(tracks: Sequence[Track], batches: Iterable[Batch], before: int = 0) -> Iterator[Batch]:
    """Apply batches without recording what they change, and yield each when it is applied.

    Args:
        tracks: The tracks.
        batches: History after an event.
        before: The number of that event.
    """
    for batch in batches:
        changing = changing_events(batch, numbers_of(batch, before))
        for track in tracks if changing else ():
            book = track.book
            for seq, event, change in track.prepare(changing, batch):
                kind = type(event)
                if kind is events.PointRated:
                    # The most frequent event changes counts alone.
                    change(book, event, batch)
                elif kind is not events.PlaybookUpdated or _turning(book):
                    track.seq = seq
                    track.apply(event, batch, change)
            _drop_order(book)
        before = batch.last
        yield batch


def numbers_of(batch: Batch, before: int) -> Sequence[int]:
    """Return the numbers of a batch's events; a text that continues on further lines takes numbers of its own.

    Args:
        batch: The batch.
        before: Number of the last event before it.
    """
    if len(batch.events) == batch.last - before:
        return range(before + 1, batch.last + 1)
    return [record.seq for record in batch.records]


def record_difference(before: dict[str, Row], track: Track, seq: int, changes: Changes) -> None:
    """Record at an event the rows in which a playbook differs from an earlier one: what an undo changes."""
    after = track.rows()
    rows = [(name, after.get(name, ABSENT)) for name in {**before, **after}]
    _record([(name, row) for name, row in rows if row != before.get(name, ABSENT)], seq, changes)
