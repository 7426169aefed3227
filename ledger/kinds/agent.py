"""What an agent saw and used of its playbook."""

from __future__ import annotations

import attrs

from tallybook.ledger.kinds.fields import NAMES, NOT_NEGATIVE, Kind


@attrs.frozen(eq=False, repr=False)
class PlaybookInjected(Kind):
    """A session was told of the playbook.

    Attributes:
        names: The entries that it was told, in order.
        left_out: How many others there was no room for.
    """

    names: tuple[str, ...] = attrs.field(validator=NAMES)
    left_out: int = attrs.field(validator=NOT_NEGATIVE)


@attrs.frozen(eq=False, repr=False)
class PointCited(Kind):
    """An agent named an entry in what it said or handed to a tool: use, not praise, so it counts as no rating.

    Attributes:
        name: The entry.
        where: ``message``, or the name of the tool.
    """

    name: str
    where: str
