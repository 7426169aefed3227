"""Events about lift: which question about the playbook is open, so that draws withhold entries for it."""

from __future__ import annotations

import attrs

from tallybook.ledger.kinds.fields import NAMES, Event

_SHARE = attrs.validators.and_(attrs.validators.gt(0), attrs.validators.le(1))


@attrs.frozen(eq=False, repr=False, slots=False)
class LiftAsked(Event):
    """A person asks whether something helps; sessions that begin from here on are drawn for it.

    Attributes:
        question: About what: ``playbook``, all that is not pinned; ``new``, some entries as one group; ``names``,
            each of some entries.
        names: The entries that it is about; empty for ``playbook``.
        outcome: By what sessions are compared: ``clean``, the share of calls that did not fail, or a score.
        share: The error share: with which probability at most its verdict is ever false.
        scoring: Digest of the configuration by which a score is computed; empty for ``clean``.
    """

    question: str
    names: tuple[str, ...] = attrs.field(validator=NAMES)
    outcome: str
    share: float = attrs.field(validator=_SHARE)
    scoring: str


@attrs.frozen(eq=False, repr=False, slots=False)
class LiftStopped(Event):
    """A question is closed: nothing is withheld for it any more, and what is known stays.

    Attributes:
        id: Id of the event that asked it.
    """

    id: str
