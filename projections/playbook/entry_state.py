"""The entries that stand, by name: what one event makes of one, and how they are counted in place."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger.events import (
    KeyPoint,
    PointAdded,
    PointEdited,
    PointRated,
    PointRemoved,
    PointRetired,
    PointReworded,
    PointSeeded,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


REDACTED = "[redacted]"


def evolve(point: KeyPoint | None, event: Any) -> KeyPoint | None:
    """Return what one event makes of one entry, whatever the others are; None where there is none.

    Source: REQ-SCORE-002 for ratings, REQ-SCORE-004 to 006 for seeds.
    """
    match event:
        case PointRated():
            after = point and rated(point, event.rating)
        case PointAdded():
            after = point or KeyPoint(event.name, _text(event.text))
        case PointSeeded():
            after = point or KeyPoint(event.name, _text(event.text), event.helpful, event.harmful)
        case PointEdited():
            after = KeyPoint(event.name, _text(event.text), event.helpful, event.harmful)
        case PointReworded():
            after = point and KeyPoint(event.name, _text(event.text), point.helpful, point.harmful)
        case PointRemoved() | PointRetired():
            after = None
        case _:
            after = point
    return after


def _text(text: str | None) -> str:
    return REDACTED if text is None else text


def rated(point: KeyPoint, rating: str) -> KeyPoint:
    """Return an entry after one rating: helpful and harmful count one, anything else nothing (REQ-SCORE-002)."""
    if rating == "helpful":
        return KeyPoint(point.name, point.text, point.helpful + 1, point.harmful)
    if rating == "harmful":
        return KeyPoint(point.name, point.text, point.helpful, point.harmful + 1)
    return point


@attrs.define(weakref_slot=False)
class Tally:
    """An entry whose counts may change; whoever may keep it is given a `KeyPoint` in its place.

    Attributes:
        name: As there.
        text: As there.
        helpful: Count of helpful ratings, 0 or more.
        harmful: Count of harmful ratings, 0 or more.
        shown: What it was last shown as; None once it changed. So it is the same object until then.
    """

    name: str
    text: str
    helpful: int
    harmful: int
    shown: KeyPoint | None = attrs.field(default=None, eq=False)

    @property
    def point(self) -> KeyPoint:
        """Return the entry as it stands now."""
        if self.shown is None:
            self.shown = KeyPoint(self.name, self.text, self.helpful, self.harmful)
        return self.shown


class Points(MutableMapping[str, KeyPoint]):
    """Entries by name, in their order.

    Attributes:
        tallies: The same, to be counted in.
    """

    __slots__ = ("tallies",)

    def __init__(self, points: Mapping[str, KeyPoint] | None = None) -> None:
        """Begin with these entries."""
        self.tallies: dict[str, Tally] = {}
        self.update(points or {})

    def __getitem__(self, name: str) -> KeyPoint:
        """Return an entry as it stands now."""
        return self.tallies[name].point

    def __setitem__(self, name: str, point: KeyPoint) -> None:
        """Let an entry stand as given."""
        self.tallies[name] = Tally(point.name, point.text, point.helpful, point.harmful, point)

    def __delitem__(self, name: str) -> None:
        """Take an entry out."""
        del self.tallies[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self.tallies)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.tallies)

    def __contains__(self, name: object) -> bool:
        """Say whether an entry stands."""
        return name in self.tallies

    def __repr__(self) -> str:
        """Show them as a dict would."""
        return repr(dict(self))

    if not TYPE_CHECKING:
        # As a dict does it: what it inherits asks by an exception.
        def get(self, name: str, default: Any = None) -> Any:
            """Return an entry as it stands now, another value where there is none."""
            tally = self.tallies.get(name)
            return default if tally is None else tally.point
