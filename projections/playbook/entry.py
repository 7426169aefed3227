"""An entry of the playbook, the table of entries, and what an event does to one entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger import events
from tallybook.ledger.events import Entry
from tallybook.ledger.playbook_constants import REDACTED


def evolve(entry: Entry | None, event: Any) -> Entry | None:
    """Return an entry after one event, whatever the other entries are; None where there is none.

    Source: REQ-SCORE-002 for ratings, REQ-SCORE-004 to 006 for seeds.
    """
    match event:
        case events.PointRated():
            after = entry and add_rating(entry, event.rating)
        case events.PointAdded():
            after = entry or Entry(event.name, text_of(event))
        case events.PointSeeded():
            after = entry or Entry(event.name, text_of(event), event.helpful, event.harmful)
        case events.PointEdited():
            # Where an edit left the text, its own copy of that may be redacted, or be another one's by now.
            stays = entry and event.change == "kept" and event.text in {None, REDACTED}
            text = entry.text if entry and stays else text_of(event)
            after = Entry(event.name, text, event.helpful, event.harmful)
        case events.PointReworded():
            after = entry and Entry(event.name, text_of(event), entry.helpful, entry.harmful)
        case events.PointRemoved() | events.PointRetired():
            after = None
        case _:
            after = entry
    return after


def text_of(event: Any) -> str:
    """Return the text that an event gives an entry."""
    return REDACTED if event.text is None else str(event.text)


def add_rating(entry: Entry, rating: str) -> Entry:
    """Return an entry after one rating: helpful and harmful add one, any other rating nothing (REQ-SCORE-002)."""
    if rating == "helpful":
        return Entry(entry.name, entry.text, entry.helpful + 1, entry.harmful)
    if rating == "harmful":
        return Entry(entry.name, entry.text, entry.helpful, entry.harmful + 1)
    return entry


@attrs.define(weakref_slot=False)
class MutableEntry:
    """An entry whose counts change in place, which makes a long replay faster; readers get an `Entry`.

    Attributes:
        name: As in `Entry`.
        text: As in `Entry`.
        helpful: Count of helpful ratings, 0 or more.
        harmful: Count of harmful ratings, 0 or more.
        snapshot: The `Entry` that readers got last, None after a change: an unchanged entry is the same object.
    """

    name: str
    text: str
    helpful: int
    harmful: int
    snapshot: Entry | None = attrs.field(default=None, eq=False)

    @property
    def entry(self) -> Entry:
        """Return the entry as an immutable value."""
        if self.snapshot is None:
            self.snapshot = Entry(self.name, self.text, self.helpful, self.harmful)
        return self.snapshot


class Entries(MutableMapping[str, Entry]):
    """A mapping of entries by name, in the playbook's order.

    Attributes:
        mutable: The same entries, to count in place.
    """

    __slots__ = ("mutable",)

    def __init__(self, entries: Mapping[str, Entry] | None = None) -> None:
        """Start with these entries."""
        self.mutable: dict[str, MutableEntry] = {}
        self.update(entries or {})

    def __getitem__(self, name: str) -> Entry:
        """Return an entry as an immutable value."""
        return self.mutable[name].entry

    def __setitem__(self, name: str, entry: Entry) -> None:
        """Replace or append an entry."""
        self.mutable[name] = MutableEntry(entry.name, entry.text, entry.helpful, entry.harmful, entry)

    def __delitem__(self, name: str) -> None:
        """Delete an entry."""
        del self.mutable[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self.mutable)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.mutable)

    def __contains__(self, name: object) -> bool:
        """Say whether there is an entry of this name."""
        return name in self.mutable

    if not TYPE_CHECKING:
        # Faster than the inherited method, which raises and catches KeyError.
        def get(self, name: str, default: Any = None) -> Any:
            """Return an entry, or the default where there is none."""
            entry = self.mutable.get(name)
            return default if entry is None else entry.entry


@attrs.frozen
class Past:
    """The time of a batch that was folded before the checkpoint that this state comes from.

    Attributes:
        at: When it was recorded.
    """

    at: str
