"""Events that change the playbook: import of a legacy file, updates with ratings, and manual edits."""

from __future__ import annotations

from typing import Final

import attrs

from tallybook.ledger.kinds.fields import EXACT, NAMES, NOT_NEGATIVE, Kind, check_json_object, free_text


@attrs.frozen(eq=False, repr=False)
class PlaybookAdopted(Kind):
    """A legacy ``playbook.json`` is imported; a ``point.seeded`` follows for each entry in the same batch.

    Attributes:
        source: SHA-256 of the file's bytes, in hex.
        entries: How many entries follow, 0 or more.
        top: The file's top-level keys other than ``key_points``, as a JSON object in the file's order; ``sections`` of
            entries as ``section_names``, heading → names.
    """

    source: str
    entries: int = attrs.field(validator=NOT_NEGATIVE)
    top: str | None = free_text(check_json_object)


@attrs.frozen(eq=False, repr=False)
class PointSeeded(Kind):
    """An entry of a legacy file, a synthetic event for its history before the ledger.

    Attributes:
        name: Its name, from the file or generated.
        helpful: Count of helpful ratings before the ledger, 0 or more.
        harmful: Count of harmful ratings before the ledger, 0 or more.
        origin: Shape it had: canonical, bare_string, dict_no_score, dict_with_score, one_counter, section, or odd.
        text: Its text.
        original: The item of the file in JSON, where it differs from what was read; empty elsewhere.
    """

    name: str
    helpful: int = attrs.field(validator=NOT_NEGATIVE)
    harmful: int = attrs.field(validator=NOT_NEGATIVE)
    origin: str
    text: str | None = free_text()
    original: str | None = free_text()


@attrs.frozen(eq=False, repr=False)
class ItemSkipped(Kind):
    """An item of a legacy or edited file that is not an entry; kept as evidence, ignored by every view.

    Attributes:
        index: Its index among the file's items, from 0.
        reason: Why it is not an entry, in a few words.
        original: The item of the file, in JSON.
    """

    index: int = attrs.field(validator=NOT_NEGATIVE)
    reason: str
    original: str | None = free_text()


@attrs.frozen(eq=False, repr=False)
class PointAdded(Kind):
    """A new entry; it starts without ratings.

    Attributes:
        name: Its name, never used before.
        text: Its text.
    """

    name: str
    text: str | None = free_text()


RATINGS: Final = ("helpful", "harmful", "neutral")
"""The ratings that Tallybook knows; any other is recorded and counts nothing."""


@attrs.frozen(eq=False, repr=False)
class PointRated(Kind):
    """A rating of an entry, recorded as received.

    Attributes:
        name: The entry; the rating of a name that is not in the playbook is recorded and counts nothing.
        rating: helpful (+1 helpful), harmful (+1 harmful), or anything else, which counts nothing.
    """

    name: str
    rating: str


@attrs.frozen(eq=False, repr=False)
class PlaybookUpdated(Kind):
    """The end of an update, the only event that prunes (REQ-SCORE-007), even where the update was empty.

    Attributes:
        added: How many entries the update added.
        rated: How many ratings counted.
        ignored: How many parts counted nothing, such as a rating of an unknown entry.
    """

    added: int = attrs.field(validator=NOT_NEGATIVE)
    rated: int = attrs.field(validator=NOT_NEGATIVE)
    ignored: int = attrs.field(validator=NOT_NEGATIVE)


@attrs.frozen(eq=False, repr=False)
class PointEdited(Kind):
    """A manual edit of ``playbook.json`` gave an entry these values.

    Attributes:
        name: The entry; one that is not in the playbook is added to it, even if it was pruned before.
        helpful: Its new count, 0 or more.
        harmful: Its new count, 0 or more.
        text: Its new text.
    """

    name: str
    helpful: int = attrs.field(validator=NOT_NEGATIVE)
    harmful: int = attrs.field(validator=NOT_NEGATIVE)
    text: str | None = free_text()


@attrs.frozen(eq=False, repr=False)
class PointRemoved(Kind):
    """A manual edit removed an entry from ``playbook.json``.

    Attributes:
        name: The entry; its name is not used again.
    """

    name: str


@attrs.frozen(eq=False, repr=False)
class PlaybookOrdered(Kind):
    """A part of the order that entries have after the ``playbook.edited`` of this batch; the parts of a batch add up.

    Attributes:
        names: Names in their new order; entries that no part names follow in their old order.
    """

    names: tuple[str, ...] = attrs.field(validator=NAMES)


@attrs.frozen(eq=False, repr=False)
class PlaybookEdited(Kind):
    """The end of a manual edit, or of a save that changed nothing. It prunes nothing.

    Attributes:
        base: Event number of the rendering that was edited; None where unknown.
        source: SHA-256 of the edited file's bytes; None where a program saved a dict.
        top: The new top-level keys other than ``key_points``, as a JSON object; empty where they did not change.
    """

    base: int | None = attrs.field(validator=EXACT)
    source: str | None
    top: str | None = free_text(check_json_object)


@attrs.frozen
class Entry:
    """An entry of the playbook (PlaybookEntry of the specification).

    Attributes:
        name: Unique in its playbook, never used again.
        text: Its text, or a placeholder where it was redacted.
        helpful: Count of helpful ratings, 0 or more (INV-SCORE-001).
        harmful: Count of harmful ratings, 0 or more (INV-SCORE-002).
    """

    name: str
    text: str
    helpful: int = 0
    harmful: int = 0
