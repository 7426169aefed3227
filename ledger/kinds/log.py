"""Events about the ledger itself: its creation, recovery and redactions; and events of a later version."""

from __future__ import annotations

import attrs

from tallybook.ledger.kinds.fields import NOT_NEGATIVE, Kind, free_text


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
    """The free text of an earlier event is erased from disk; its proof remains.

    From this line on readers accept that the text is missing. A missing text without such a line is damage.

    Attributes:
        id: Id of the earlier event.
        reason: Why it was redacted.
    """

    id: str
    reason: str | None = free_text()


@attrs.frozen(eq=False, repr=False)
class LogRecovered(Kind):
    """A range of bytes that was never acknowledged and does not verify is sealed: readers skip exactly this range.

    Attributes:
        begin: Offset of the first sealed byte.
        end: Offset after the last one, where this line begins.
        digest: First 16 bytes of the range's SHA-256, in hex.
    """

    begin: int = attrs.field(validator=NOT_NEGATIVE)
    end: int = attrs.field(validator=NOT_NEGATIVE)
    digest: str


@attrs.frozen(eq=False, repr=False)
class UnknownEvent(Kind):
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
