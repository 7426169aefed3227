"""What becomes of key points: taken in, learned, rated, pruned, and changed by hand."""

from __future__ import annotations

from typing import Final

import attrs

from tallybook.ledger.kinds.fields import EXACT, NAMES, NOT_NEGATIVE, Kind, free, is_object


@attrs.frozen(eq=False, repr=False)
class PlaybookAdopted(Kind):
    """A legacy ``playbook.json`` begins to be taken in; a ``point.seeded`` follows for each entry in the same batch.

    Attributes:
        source: SHA-256 of the file's bytes, in hex.
        entries: How many entries follow, 0 or more.
        top: The file's top-level keys other than ``key_points``, as a JSON object in the file's order; ``sections`` of
            entries as ``section_names``, heading → names.
    """

    source: str
    entries: int = attrs.field(validator=NOT_NEGATIVE)
    top: str | None = free(is_object)


@attrs.frozen(eq=False, repr=False)
class PointSeeded(Kind):
    """A key point as a legacy file had it: synthetic, the past before the ledger.

    Attributes:
        name: Its name, the file's or a generated one.
        helpful: Count of helpful ratings before the ledger, 0 or more.
        harmful: Count of harmful ratings before the ledger, 0 or more.
        origin: Shape it had: canonical, bare_string, dict_no_score, dict_with_score, one_counter, section, or odd.
        text: The guidance.
        original: The item as the file had it, in JSON, where that differs from what was read; empty elsewhere.
    """

    name: str
    helpful: int = attrs.field(validator=NOT_NEGATIVE)
    harmful: int = attrs.field(validator=NOT_NEGATIVE)
    origin: str
    text: str | None = free()
    original: str | None = free()


@attrs.frozen(eq=False, repr=False)
class ItemSkipped(Kind):
    """An item of a legacy or edited file that holds no key point; kept as evidence, folded as nothing.

    Attributes:
        index: Its place among the file's items, from 0.
        reason: Why it is no key point, in a few words.
        original: The item as the file had it, in JSON.
    """

    index: int = attrs.field(validator=NOT_NEGATIVE)
    reason: str
    original: str | None = free()


@attrs.frozen(eq=False, repr=False)
class PointAdded(Kind):
    """A new key point was learned; it starts with no ratings.

    Attributes:
        name: Its name, never used before.
        text: The guidance.
    """

    name: str
    text: str | None = free()


RATINGS: Final = ("helpful", "harmful", "neutral")
"""What a rating can be; anything else counts nothing."""


@attrs.frozen(eq=False, repr=False)
class PointRated(Kind):
    """An evaluation of a key point, as it was received.

    Attributes:
        name: The key point meant; a name that is not in the playbook counts nothing and is kept.
        rating: helpful (+1 helpful), harmful (+1 harmful), or anything else, which counts nothing.
    """

    name: str
    rating: str


@attrs.frozen(eq=False, repr=False)
class PlaybookUpdated(Kind):
    """Closes an update. It alone prunes (REQ-SCORE-007), even if the update brought nothing.

    Attributes:
        added: How many points the update added.
        rated: How many evaluations it brought, the uncounted ones included.
        ignored: How many parts of it could not be used at all (not a text, not a pair of name and rating).
    """

    added: int = attrs.field(validator=NOT_NEGATIVE)
    rated: int = attrs.field(validator=NOT_NEGATIVE)
    ignored: int = attrs.field(validator=NOT_NEGATIVE)


@attrs.frozen(eq=False, repr=False)
class PointEdited(Kind):
    """A person or an old program set an entry to what stands here, in ``playbook.json`` itself.

    Attributes:
        name: The entry; one that is not in the playbook comes to stand in it, a pruned one again.
        helpful: Its count from now on, 0 or more.
        harmful: Its count from now on, 0 or more.
        text: Its text from now on.
    """

    name: str
    helpful: int = attrs.field(validator=NOT_NEGATIVE)
    harmful: int = attrs.field(validator=NOT_NEGATIVE)
    text: str | None = free()


@attrs.frozen(eq=False, repr=False)
class PointRemoved(Kind):
    """A person or an old program took an entry out of ``playbook.json``.

    Attributes:
        name: The entry; its name is not used again.
    """

    name: str


@attrs.frozen(eq=False, repr=False)
class PlaybookOrdered(Kind):
    """A stretch of the order that entries have from the batch's ``playbook.edited`` on; stretches add up.

    Attributes:
        names: Names in their order; those that no stretch names follow as they stood.
    """

    names: tuple[str, ...] = attrs.field(validator=NAMES)


@attrs.frozen(eq=False, repr=False)
class PlaybookEdited(Kind):
    """Closes an edit, or a save that changed nothing. It prunes nothing.

    Attributes:
        base: Sequence number of the rendering that was edited, None where that is not known.
        source: SHA-256 of the edited file's bytes, None where a program saved a dict.
        top: The top-level keys other than ``key_points`` from now on, as a JSON object; empty: as they were.
    """

    base: int | None = attrs.field(validator=EXACT)
    source: str | None
    top: str | None = free(is_object)


@attrs.frozen
class KeyPoint:
    """An entry of the playbook, as the specification has it (PlaybookEntry).

    Attributes:
        name: Unique in its playbook, never used again.
        text: The guidance; a note in its place where it was redacted.
        helpful: Count of helpful ratings, 0 or more (INV-SCORE-001).
        harmful: Count of harmful ratings, 0 or more (INV-SCORE-002).
    """

    name: str
    text: str
    helpful: int = 0
    harmful: int = 0
