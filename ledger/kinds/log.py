"""What the ledger says of itself: that it was opened, mended, or made to forget; and what a later version said."""

from __future__ import annotations

import attrs

from tallybook.ledger.kinds.fields import NOT_NEGATIVE, Kind, free


@attrs.frozen(eq=False, repr=False)
class LedgerOpened(Kind):
    """The first line of every ledger.

    Attributes:
        ledger: The ledger's own id, a UUIDv7; a copy keeps it.
        format: Number of the line format, from 1.
    """

    ledger: str
    format: int = attrs.field(validator=NOT_NEGATIVE)


@attrs.frozen(eq=False, repr=False)
class EventRedacted(Kind):
    """The free text of an earlier event is gone from disk; its proof stays.

    Readers take the text for gone from this line on, and a text that is gone without such a line for damage.

    Attributes:
        id: The earlier event's own id.
        reason: Why it had to go.
    """

    id: str
    reason: str | None = free()


@attrs.frozen(eq=False, repr=False)
class LogRecovered(Kind):
    """Bytes that were never acknowledged and do not verify were sealed: readers skip exactly this range.

    Attributes:
        begin: Offset of the first sealed byte.
        end: Offset behind the last; this line begins there.
        digest: First 16 bytes of the range's SHA-256, in hex.
    """

    begin: int = attrs.field(validator=NOT_NEGATIVE)
    end: int = attrs.field(validator=NOT_NEGATIVE)
    digest: str


@attrs.frozen(eq=False, repr=False)
class UnknownEvent(Kind):
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
