"""The vocabulary: one frozen class per kind of event, and the table that names them.

Read from top to bottom it is the schema of the ledger. A field's name and order are what stands in a line's
``body``; fields marked ``free()`` hold what a person or a model wrote, stand in the line's free section, and can be
redacted: they are None once they were. Nothing of ours is imported here.

To add a kind: write its class, give it a row in EVENT_TYPES, and add its golden line to tests/golden.jsonl.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

FREE: Final = "free"
NOT_NEGATIVE: Final = attrs.validators.ge(0)
_NAMES: Final = attrs.validators.deep_iterable(attrs.validators.instance_of(str), attrs.validators.instance_of(tuple))


def free(validator: Callable[[Any, Any, Any], None] | None = None) -> Any:
    """Return an attrs field that stands in the free section of the line."""
    return attrs.field(metadata={FREE: True}, validator=validator)


def _is_object(_event: object, field: attrs.Attribute[Any], value: str | None) -> None:
    """Refuse a text that is neither empty nor a JSON object that can be written again."""
    try:
        said = json.loads(value or "{}")
        json.dumps(said, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{field.name} is no JSON: {error}") from error
    if not isinstance(said, dict):
        raise TypeError(f"{field.name} is no JSON object")


@attrs.frozen
class LedgerOpened:
    """The first line of every ledger.

    Attributes:
        ledger: The ledger's own id, a UUIDv7; a copy keeps it.
        format: Number of the line format, from 1.
    """

    ledger: str
    format: int = attrs.field(validator=NOT_NEGATIVE)


@attrs.frozen
class PlaybookAdopted:
    """A legacy ``playbook.json`` begins to be taken in; a ``point.seeded`` follows for each entry in the same batch.

    Attributes:
        source: SHA-256 of the file's bytes, in hex.
        entries: How many entries follow, 0 or more.
        top: The file's top-level keys other than ``key_points``, as a JSON object in the file's order.
    """

    source: str
    entries: int = attrs.field(validator=NOT_NEGATIVE)
    top: str | None = free(_is_object)


@attrs.frozen
class PointSeeded:
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


@attrs.frozen
class ItemSkipped:
    """An item of a legacy or edited file that holds no key point; kept as evidence, folded as nothing.

    Attributes:
        index: Its place among the file's items, from 0.
        reason: Why it is no key point, in a few words.
        original: The item as the file had it, in JSON.
    """

    index: int = attrs.field(validator=NOT_NEGATIVE)
    reason: str
    original: str | None = free()


@attrs.frozen
class PointAdded:
    """A new key point was learned; it starts with no ratings.

    Attributes:
        name: Its name, never used before.
        text: The guidance.
    """

    name: str
    text: str | None = free()


@attrs.frozen
class PointRated:
    """An evaluation of a key point, as it was received.

    Attributes:
        name: The key point meant; a name that is not in the playbook counts nothing and is kept.
        rating: helpful (+1 helpful), harmful (+1 harmful), or anything else, which counts nothing.
    """

    name: str
    rating: str


@attrs.frozen
class PlaybookUpdated:
    """Closes an update. It alone prunes (REQ-SCORE-007), even if the update brought nothing.

    Attributes:
        added: How many points the update added.
        rated: How many evaluations it brought, the uncounted ones included.
        ignored: How many parts of it could not be used at all (not a text, not a pair of name and rating).
    """

    added: int = attrs.field(validator=NOT_NEGATIVE)
    rated: int = attrs.field(validator=NOT_NEGATIVE)
    ignored: int = attrs.field(validator=NOT_NEGATIVE)


@attrs.frozen
class PointEdited:
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


@attrs.frozen
class PointRemoved:
    """A person or an old program took an entry out of ``playbook.json``.

    Attributes:
        name: The entry; its name is not used again.
    """

    name: str


@attrs.frozen
class PlaybookOrdered:
    """A stretch of the order that entries have from the batch's ``playbook.edited`` on; stretches add up.

    Attributes:
        names: Names in their order; those that no stretch names follow as they stood.
    """

    names: tuple[str, ...] = attrs.field(validator=_NAMES)


@attrs.frozen
class PlaybookEdited:
    """Closes an edit, or a save that changed nothing. It prunes nothing.

    Attributes:
        base: Sequence number of the rendering that was edited, None where that is not known.
        source: SHA-256 of the edited file's bytes, None where a program saved a dict.
        top: The top-level keys other than ``key_points`` from now on, as a JSON object; empty: as they were.
    """

    base: int | None
    source: str | None
    top: str | None = free(_is_object)


@attrs.frozen
class EventRedacted:
    """The free text of an earlier event is gone from disk; its proof stays.

    Readers take the text for gone from this line on, and a text that is gone without such a line for damage.

    Attributes:
        id: The earlier event's own id.
        reason: Why it had to go.
    """

    id: str
    reason: str | None = free()


@attrs.frozen
class LogRecovered:
    """Bytes that were never acknowledged and do not verify were sealed: readers skip exactly this range.

    Attributes:
        begin: Offset of the first sealed byte.
        end: Offset behind the last; this line begins there.
        digest: First 16 bytes of the range's SHA-256, in hex.
    """

    begin: int = attrs.field(validator=NOT_NEGATIVE)
    end: int = attrs.field(validator=NOT_NEGATIVE)
    digest: str


@attrs.frozen
class UnknownEvent:
    """A kind, or a version of one, that this Tallybook does not know: kept byte for byte, ignored by every view.

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


Event = (
    LedgerOpened
    | PlaybookAdopted
    | PointSeeded
    | ItemSkipped
    | PointAdded
    | PointRated
    | PlaybookUpdated
    | PointEdited
    | PointRemoved
    | PlaybookOrdered
    | PlaybookEdited
    | EventRedacted
    | LogRecovered
    | UnknownEvent
)

EVENT_TYPES: Final[dict[str, tuple[type[Any], int]]] = {
    "ledger.opened": (LedgerOpened, 1),
    "playbook.adopted": (PlaybookAdopted, 1),
    "point.seeded": (PointSeeded, 1),
    "item.skipped": (ItemSkipped, 1),
    "point.added": (PointAdded, 1),
    "point.rated": (PointRated, 1),
    "playbook.updated": (PlaybookUpdated, 1),
    "point.edited": (PointEdited, 1),
    "point.removed": (PointRemoved, 1),
    "playbook.ordered": (PlaybookOrdered, 1),
    "playbook.edited": (PlaybookEdited, 1),
    "event.redacted": (EventRedacted, 1),
    "log.recovered": (LogRecovered, 1),
}
"""Kind on disk → its class and the version this Tallybook writes; the codec lifts older versions."""

KIND_OF: Final[dict[type[Any], str]] = {cls: kind for kind, (cls, _) in EVENT_TYPES.items()}


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
