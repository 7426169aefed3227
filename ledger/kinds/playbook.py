"""Events about the ledger itself and its playbook: creation, import, updates, manual edits, curation, undo."""

from __future__ import annotations

from typing import Final

import attrs

from tallybook.ledger.kinds.fields import EXACT, FREE_TEXT, NAMES, NOT_NEGATIVE, Event, check_day, check_json_object

EDITS: Final = ("", "kept", "changed", "new", "copied")
"""What a manual edit did to the text of an entry; see ``PointEdited``."""

# ---- The ledger ----


class LedgerOpened(Event, kind="ledger.opened"):
    """The first line of every ledger.

    Attributes:
        ledger: The ledger's own id, a UUIDv7; a copy keeps it.
        format: Number of the line format, from 1.
    """

    ledger: str
    format: int = attrs.field(validator=NOT_NEGATIVE)


class EventRedacted(Event, kind="event.redacted"):
    """The free text of an earlier event is erased from disk; its proof remains.

    From this line on readers accept that the text is missing. A missing text without such a line is damage.

    Attributes:
        id: Id of the earlier event.
        reason: Why it was redacted.
    """

    id: str
    reason: str | None = attrs.field(metadata=FREE_TEXT)


class LogRecovered(Event, kind="log.recovered"):
    """A range of bytes that was never acknowledged and does not verify is sealed: readers skip exactly this range.

    Attributes:
        begin: Offset of the first sealed byte.
        end: Offset after the last one, where this line begins.
        digest: First 16 bytes of the range's SHA-256, in hex.
    """

    # Recovery never truncates, so readers must know what to skip.
    begin: int = attrs.field(validator=NOT_NEGATIVE)
    end: int = attrs.field(validator=NOT_NEGATIVE)
    digest: str


class UnknownEvent(Event):
    """An event of a kind or version that this Tallybook does not know: kept byte for byte, ignored by every view.

    Attributes:
        kind: Its kind.
        v: Its version.
        body: Its body, in JSON.
        free: Its free text by field, in JSON; None where it has none or was redacted.
    """

    kind: str
    v: int
    body: str
    free: str | None = None


# ---- The playbook: import, updates, manual edits ----


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


class PlaybookAdopted(Event, kind="playbook.adopted"):
    """A legacy ``playbook.json`` is imported; a ``point.seeded`` follows for each entry in the same batch.

    Attributes:
        source: SHA-256 of the file's bytes, in hex.
        entries: How many entries follow, 0 or more.
        top: The file's top-level keys other than ``key_points``, as a JSON object in the file's order; ``sections`` of
            entries as ``section_names``, heading → names.
    """

    source: str
    entries: int = attrs.field(validator=NOT_NEGATIVE)
    top: str | None = attrs.field(metadata=FREE_TEXT, validator=check_json_object)


class PointSeeded(Event, kind="point.seeded"):
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
    text: str | None = attrs.field(metadata=FREE_TEXT)
    original: str | None = attrs.field(metadata=FREE_TEXT)


class ItemSkipped(Event, kind="item.skipped"):
    """An item of a legacy or edited file that is not an entry; kept as evidence, ignored by every view.

    Attributes:
        index: Its index among the file's items, from 0.
        reason: Why it is not an entry, in a few words.
        original: The item of the file, in JSON.
    """

    index: int = attrs.field(validator=NOT_NEGATIVE)
    reason: str
    original: str | None = attrs.field(metadata=FREE_TEXT)


class PointAdded(Event, kind="point.added"):
    """A new entry; it starts without ratings.

    Attributes:
        name: Its name, never used before.
        text: Its text.
    """

    name: str
    text: str | None = attrs.field(metadata=FREE_TEXT)


RATINGS: Final = ("helpful", "harmful", "neutral")
"""The ratings that Tallybook knows; any other is recorded and has no effect."""


class PointRated(Event, kind="point.rated"):
    """A rating of an entry, recorded as received.

    Attributes:
        name: The entry; the rating of a name that is not in the playbook is recorded and has no effect.
        rating: helpful (+1 helpful), harmful (+1 harmful), or anything else, which has no effect.
    """

    # Any text is a rating here: what a reflector says is evidence, also where it has no effect.
    name: str
    rating: str


class PlaybookUpdated(Event, kind="playbook.updated"):
    """The end of an update, the only event that prunes (REQ-SCORE-007), even where the update was empty.

    Attributes:
        added: How many entries the update added.
        rated: How many ratings counted.
        ignored: How many parts had no effect, such as a rating of an unknown entry.
    """

    # Nothing else prunes, so that a replay equals load, update and save of the specification.
    added: int = attrs.field(validator=NOT_NEGATIVE)
    rated: int = attrs.field(validator=NOT_NEGATIVE)
    ignored: int = attrs.field(validator=NOT_NEGATIVE)


class PointEdited(Event, kind="point.edited", version=2):
    """A manual edit of ``playbook.json`` gave an entry these values.

    Attributes:
        name: The entry; one that is not in the playbook is added to it, even if it was pruned before.
        helpful: Its new count, 0 or more.
        harmful: Its new count, 0 or more.
        change: What its writer did to the text: "kept", "changed", "new" for an entry that he did not have, "copied"
            for such an entry whose text another one had; empty in version 1, which did not say.
        helpful_before: The count that its writer saw; 0 for a new entry.
        harmful_before: The count that its writer saw; 0 for a new entry.
        text: Its new text. A kept one that is redacted leaves the entry the text that it has.
    """

    name: str
    # Values and not differences: the same edit, recorded again, changes nothing.
    helpful: int = attrs.field(validator=NOT_NEGATIVE)
    harmful: int = attrs.field(validator=NOT_NEGATIVE)
    change: str = attrs.field(default="", validator=attrs.validators.in_(EDITS), kw_only=True)
    helpful_before: int = attrs.field(default=0, validator=NOT_NEGATIVE, kw_only=True)
    harmful_before: int = attrs.field(default=0, validator=NOT_NEGATIVE, kw_only=True)
    text: str | None = attrs.field(metadata=FREE_TEXT)


class PointRemoved(Event, kind="point.removed"):
    """A manual edit removed an entry from ``playbook.json``.

    Attributes:
        name: The entry; its name is not used again.
    """

    name: str


class PlaybookOrdered(Event, kind="playbook.ordered"):
    """A new order of entries, in effect from the ``playbook.edited`` of the same batch.

    A long order is split over several events; their names are concatenated.

    Attributes:
        names: Names in their new order; entries that no part names follow in their old order.
    """

    # A line has at most 64 KiB, and a large playbook has more names than fit.
    names: tuple[str, ...] = attrs.field(validator=NAMES)


class PlaybookEdited(Event, kind="playbook.edited"):
    """The end of a manual edit, or of a save that changed nothing. It prunes nothing.

    Attributes:
        base: Event number of the rendering that was edited; None where unknown.
        source: SHA-256 of the edited file's bytes; None where a program saved a dict.
        top: The new top-level keys other than ``key_points``, as a JSON object; empty where they did not change.
    """

    # Apart from an update, because loading and saving must give the same entries (INV-SCORE-005).
    base: int | None = attrs.field(validator=EXACT)
    source: str | None
    top: str | None = attrs.field(metadata=FREE_TEXT, validator=check_json_object)


# ---- Curation, by people and curators ----


class PointNoted(Event, kind="point.noted"):
    """A remark that came with a rating or a citation; it has no effect.

    Attributes:
        name: The entry.
        note: The reason that was given, or a quote that shows it.
    """

    name: str
    note: str | None = attrs.field(metadata=FREE_TEXT)


class CurationEvent(Event):
    """What the curation events below have in common.

    Attributes:
        name: The entry.
        reason: Why; empty where none was given.
    """

    name: str
    reason: str | None = attrs.field(metadata=FREE_TEXT)


class PointReworded(CurationEvent, kind="point.reworded"):
    """An entry gets another text; its counts stay.

    Attributes:
        text: Its new text.
    """

    text: str | None = attrs.field(metadata=FREE_TEXT)


class PointRetired(CurationEvent, kind="point.retired"):
    """An entry leaves the playbook by decision; it can be restored."""


class PointRestored(CurationEvent, kind="point.restored"):
    """An entry returns with the text and counts that it had last; only a later harmful rating can prune it again."""


class PointPinned(CurationEvent, kind="point.pinned"):
    """An entry is exempt from pruning, whatever its ratings."""


class PointUnpinned(CurationEvent, kind="point.unpinned"):
    """A pinned entry can be pruned again, from the next update on."""


class PointPlaced(CurationEvent, kind="point.placed"):
    """An entry is put into a section of the playbook, in place of the one that it had.

    Attributes:
        section: The heading, one of SECTIONS; a heading that a later version has is kept as it is.
    """

    # No field of the event that adds an entry: an older Tallybook would lose the entry.
    section: str


class PointLimited(CurationEvent, kind="point.limited"):
    """An entry holds until a day, in place of the one that it had: after it, it stays and is not injected.

    Attributes:
        until: The last day on which it is injected, ``2026-12-31``, in UTC; empty for no end.
    """

    # No field of other events: an older Tallybook reads theirs as they are, and ignores this one.
    until: str = attrs.field(validator=check_day)


class PointMerged(Event, kind="point.merged"):
    """Entries that say the same are merged into one, which gets their counts and their later ratings.

    Attributes:
        name: The entry that remains.
        merged: Names of the entries that are merged into it.
        reason: Why; empty where none was given.
    """

    name: str
    merged: tuple[str, ...] = attrs.field(validator=NAMES)
    reason: str | None = attrs.field(metadata=FREE_TEXT)


class EventsVoided(Event, kind="events.voided"):
    """Undo: from this line on views fold the log without these events; ids, keys and names remain used.

    Attributes:
        ids: Ids of the events; an earlier undo can be among them.
        session: A session whose playbook and score events before this one are all undone; None without one.
        reason: Why; empty where none was given.
    """

    # Not numbers, because an event has its id in every copy.
    ids: tuple[str, ...] = attrs.field(validator=NAMES)
    session: str | None
    reason: str | None = attrs.field(metadata=FREE_TEXT)


class PointProposed(Event, kind="point.proposed", version=2):
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
    # A redaction gives an id here, because its text would be written down once more.
    text: str | None = attrs.field(metadata=FREE_TEXT)
    reason: str | None = attrs.field(metadata=FREE_TEXT)


class ProposalDecided(Event, kind="playbook.decided"):
    """A proposal was accepted, with the change in the same batch, or rejected.

    Attributes:
        id: Id of the event that proposed it.
        verdict: accepted or rejected.
        reason: Why; empty where none was given.
    """

    id: str
    verdict: str
    reason: str | None = attrs.field(metadata=FREE_TEXT)


class PointReviewed(Event, kind="point.reviewed"):
    """A person decided about entries in a review; a change of them is in the same batch.

    Attributes:
        names: The entries, in order; two where they resemble each other.
        why: Why they were shown: contested, duplicate, unproven, no sign of use, or gone path.
        decision: keep, retire, reword or merge.
    """

    names: tuple[str, ...] = attrs.field(validator=NAMES)
    why: str
    decision: str
