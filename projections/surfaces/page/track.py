"""The playbook under one policy, folded batch by batch, and the rows that each batch changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.projections.fold import View, fold
from tallybook.projections.playbook.aging import AgedPolicy, aged_view
from tallybook.projections.playbook.prune import SPEC_POLICY, Policy
from tallybook.projections.playbook.view import UNDONE, Playbook, playbook_view

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tallybook.ledger.records import Batch

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

Changed = dict[str, Row]


def view_of(policy: Policy) -> View[Any]:
    """Return the view of the playbook under a policy."""
    return aged_view(policy, policy.half_life_us) if isinstance(policy, AgedPolicy) else playbook_view(policy)


@attrs.define
class Track:
    """A playbook under one policy, and what the page shows of it.

    Attributes:
        policy: The policy.
        book: The playbook.
        rows: Name → what the page shows of it.
        differing: Names of which the page shows something else than under the playbook's own policy.
    """

    policy: Policy = SPEC_POLICY
    book: Playbook = attrs.field(init=False)
    rows: dict[str, Row] = attrs.field(factory=dict)
    differing: set[str] = attrs.field(factory=set)
    _view: View[Any] = attrs.field(init=False)
    _last_place: int = 0

    def __attrs_post_init__(self) -> None:
        """Begin before the first event."""
        self._view = view_of(self.policy)
        self.book = self.begin()

    def begin(self) -> Playbook:
        """Return the playbook before the first event."""
        book: Playbook = self._view.start()
        return book

    def fold(self, batch: Batch) -> None:
        """Apply a batch."""
        fold(self._view, (batch,), self.book)

    def may_prune(self, batch: Batch) -> bool:
        """Return whether a batch may prune entries that it does not name, or bring them back."""
        return events.PlaybookUpdated in map(type, batch.events) and bool(
            self.book.due or (self.book.pruned and not self.policy.is_permanent)
        )

    def advance(self, batch: Batch) -> Changed:
        """Apply a batch, and return the rows that it changed."""
        book, names = self.book, dict.fromkeys(self.names_in(batch))
        turning: Sequence[str] = ()
        if self.may_prune(batch):
            turning = (*book.due, *(() if self.policy.is_permanent else book.pruned))
        self.fold(batch)
        # A pruned entry that stays pruned is one of very many.
        names |= dict.fromkeys(name for name in turning if (name in book.mutable) != self.is_listed(name))
        return self.note(names, batch.last)

    def names_in(self, batch: Batch) -> list[str]:
        """Return the names that the events of a batch can change, without those that an update prunes."""
        book, names = self.book, []
        for event in batch.events:
            if isinstance(event, events.PlaybookOrdered):
                names += [*book.mutable]
            name = getattr(event, "name", None)
            if isinstance(name, str):
                merged = getattr(event, "merged", ())
                # Names merged earlier into one that is merged now get another target.
                names += [name, *merged, *(old for old, into in book.merged.items() if into in merged)]
                names += filter(None, (book.merged.get(name), getattr(event, "to", None)))
        return names

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

    def is_listed(self, name: str) -> bool:
        """Return whether the page shows an entry as one of the playbook."""
        return self.rows.get(name, ABSENT).status == KEPT

    def has_ratable(self, name: str) -> bool:
        """Return whether a rating of a name counts for an entry of the playbook."""
        return name in self.book.mutable or self.book.merged.get(name) in self.book.mutable

    def _row(self, name: str) -> Row:
        """Return what the page shows of a name now, in its place so far."""
        book, old = self.book, self.rows.get(name, ABSENT)
        flags = PINNED * (name in book.pinned) + PARDONED * (name in book.pardons)
        entry = book.mutable.get(name)
        if entry is not None:
            return Row(KEPT, entry.helpful, entry.harmful, entry.text, flags, "", old.place)
        status = book.status_of(name)
        if status not in STATUSES:
            return ABSENT._replace(flags=flags)
        gone, into, number = book.gone.get(name), book.merged.get(name, ""), STATUSES.index(status)
        if gone is None:
            # Of an entry whose addition is undone the playbook has the name alone.
            return Row(number, 0, 0, old.text, flags, into, old.place)
        return Row(number, gone.helpful, gone.harmful, gone.text, flags, into, old.place)

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
        if row == real.rows.get(name, ABSENT):
            if name in track.differing:
                track.differing.discard(name)
                rows[name] = Row(SAME)
        elif name in changed or name not in track.differing:
            track.differing.add(name)
            rows[name] = row
    return rows
