"""Events by which people and curators change entries, or undo earlier events."""

from __future__ import annotations

import attrs

from tallybook.ledger.kinds.fields import NAMES, Kind, free_text


@attrs.frozen(eq=False, repr=False)
class PointNoted(Kind):
    """A remark that came with a rating or a citation; it counts nothing.

    Attributes:
        name: The entry.
        note: The reason that was given, or a quote that shows it.
    """

    name: str
    note: str | None = free_text()


@attrs.frozen(eq=False, repr=False)
class CurationEvent(Kind):
    """What the curation events below have in common.

    Attributes:
        name: The entry.
        reason: Why; empty where none was given.
    """

    name: str
    reason: str | None = free_text()


@attrs.frozen(eq=False, repr=False)
class PointReworded(CurationEvent):
    """An entry gets another text; its counts stay.

    Attributes:
        text: Its new text.
    """

    text: str | None = free_text()


@attrs.frozen(eq=False, repr=False)
class PointRetired(CurationEvent):
    """An entry leaves the playbook by decision; it can be restored."""


@attrs.frozen(eq=False, repr=False)
class PointRestored(CurationEvent):
    """An entry returns with the text and counts that it had last; only a later harmful rating can prune it again."""


@attrs.frozen(eq=False, repr=False)
class PointPinned(CurationEvent):
    """An entry is exempt from pruning, whatever its ratings."""


@attrs.frozen(eq=False, repr=False)
class PointUnpinned(CurationEvent):
    """A pinned entry can be pruned again, from the next update on."""


@attrs.frozen(eq=False, repr=False)
class PointMerged(Kind):
    """Entries that say the same are merged into one, which gets their counts and their later ratings.

    Attributes:
        name: The entry that remains.
        merged: Names of the entries that are merged into it.
        reason: Why; empty where none was given.
    """

    name: str
    merged: tuple[str, ...] = attrs.field(validator=NAMES)
    reason: str | None = free_text()


@attrs.frozen(eq=False, repr=False)
class EventsVoided(Kind):
    """Undo: from this line on views fold the log without these events; ids, keys and names remain used.

    Attributes:
        ids: Ids of the events; an earlier undo can be among them.
        session: A session whose playbook and score events before this one are all undone; None without one.
        reason: Why; empty where none was given.
    """

    ids: tuple[str, ...] = attrs.field(validator=NAMES)
    session: str | None
    reason: str | None = free_text()
