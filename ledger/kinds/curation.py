"""What people and curators decide about entries, and what they take back."""

from __future__ import annotations

import attrs

from tallybook.ledger.kinds.fields import NAMES, Kind, free


@attrs.frozen(eq=False, repr=False)
class PointNoted(Kind):
    """What somebody said beside an evaluation or a citation; it counts nothing.

    Attributes:
        name: The entry meant.
        note: The reason that was given, or a quote that shows it.
    """

    name: str
    note: str | None = free()


@attrs.frozen(eq=False, repr=False)
class Curated(Kind):
    """What a person or a curator decides about an entry; the kinds below say what.

    Attributes:
        name: The entry.
        reason: Why, empty where none was given.
    """

    name: str
    reason: str | None = free()


@attrs.frozen(eq=False, repr=False)
class PointReworded(Curated):
    """An entry has another text; its counts stay.

    Attributes:
        text: Its text from now on.
    """

    text: str | None = free()


@attrs.frozen(eq=False, repr=False)
class PointRetired(Curated):
    """An entry is taken out of the playbook; it can be restored."""


@attrs.frozen(eq=False, repr=False)
class PointRestored(Curated):
    """An entry that is gone stands again, as it stood last; only a later harmful rating lets it be pruned again."""


@attrs.frozen(eq=False, repr=False)
class PointPinned(Curated):
    """An entry is not pruned from now on, whatever its ratings."""


@attrs.frozen(eq=False, repr=False)
class PointUnpinned(Curated):
    """A pinned entry may be pruned again, at the next update that finds it due."""


@attrs.frozen(eq=False, repr=False)
class PointMerged(Kind):
    """Entries that say the same go into one of them: it gets their counts, and later ratings of theirs.

    Attributes:
        name: The entry that stays.
        merged: Names of those that go into it.
        reason: Why, empty where none was given.
    """

    name: str
    merged: tuple[str, ...] = attrs.field(validator=NAMES)
    reason: str | None = free()


@attrs.frozen(eq=False, repr=False)
class EventsVoided(Kind):
    """Undo: from this line on, views are folded as if these events had never been; ids, keys and names stay used.

    Attributes:
        ids: The events, by their own ids; an earlier undoing can be among them.
        session: A session of which every playbook and score event before this one is void; None without one.
        reason: Why, empty where none was given.
    """

    ids: tuple[str, ...] = attrs.field(validator=NAMES)
    session: str | None
    reason: str | None = free()
