"""Events about what an agent saw and used of its playbook."""

from __future__ import annotations

import attrs

from tallybook.ledger.kinds.fields import NAMES, NOT_NEGATIVE, Kind


@attrs.frozen(eq=False, repr=False)
class PlaybookInjected(Kind):
    """A session received the playbook.

    Attributes:
        names: The entries that it received, in order.
        left_out: How many further entries did not fit, 0 or more.
    """

    names: tuple[str, ...] = attrs.field(validator=NAMES)
    left_out: int = attrs.field(validator=NOT_NEGATIVE)


@attrs.frozen(eq=False, repr=False)
class PointCited(Kind):
    """An agent named an entry in a message or in a tool call. It shows use, not approval, so it is not a rating.

    Attributes:
        name: The entry.
        where: ``message``, or the name of the tool.
    """

    name: str
    where: str
