"""Events about what a person decides: changes of entries that were proposed, and entries in a review."""

from __future__ import annotations

import attrs

from tallybook.ledger.kinds.fields import FREE_TEXT, NAMES, Event


@attrs.frozen(eq=False, repr=False, slots=False)
class PointProposed(Event):
    """A change of an entry is proposed; it changes nothing until a person accepts it.

    Attributes:
        verb: What would be done: retire, reword, merge, unpin, rate, add or redact; update, merge or delete by a
            curator.
        name: The entry; empty for a new one.
        merged: Names of the entries that would be merged into it; empty for other verbs.
        cause: Why it is only proposed, in a few words: ``protected``.
        section: Heading of the section that a new entry is put into; empty for none, or that of the first source.
        text: The new text; for redact, the id of the event whose text would be erased; for rate, the rating; empty for
            verbs without one.
        reason: Why it is proposed; empty where none was given.
    """

    verb: str
    name: str
    merged: tuple[str, ...] = attrs.field(validator=NAMES)
    cause: str
    section: str
    text: str | None = attrs.field(metadata=FREE_TEXT)
    reason: str | None = attrs.field(metadata=FREE_TEXT)


@attrs.frozen(eq=False, repr=False, slots=False)
class ProposalDecided(Event):
    """A proposal was accepted, with the change in the same batch, or rejected.

    Attributes:
        id: Id of the event that proposed it.
        verdict: accepted or rejected.
        reason: Why; empty where none was given.
    """

    id: str
    verdict: str
    reason: str | None = attrs.field(metadata=FREE_TEXT)


@attrs.frozen(eq=False, repr=False, slots=False)
class PointReviewed(Event):
    """A person decided about entries in a review; a change of them is in the same batch.

    Attributes:
        names: The entries, in order; two where they resemble each other.
        why: Why they were shown: contested, duplicate, unproven, no sign of use, or gone path.
        decision: keep, retire, reword or merge.
    """

    names: tuple[str, ...] = attrs.field(validator=NAMES)
    why: str
    decision: str
