"""When an entry is dropped from the playbook: policies as values, the default the specification's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from ledger.events import KeyPoint


@attrs.frozen
class Policy:
    """Drops an entry with at least ``floor`` harmful ratings and more harmful than helpful ones by ``margin``.

    Attributes:
        name: What people call it.
        floor: Fewest harmful ratings at which an entry can go, 1 or more (so an unrated one never does,
            INV-SCORE-003).
        margin: How many more harmful than helpful ratings it takes, 1 or more.
    """

    name: str = "spec"
    floor: int = attrs.field(default=3, validator=attrs.validators.ge(1))
    margin: int = attrs.field(default=1, validator=attrs.validators.ge(1))

    @property
    def rule(self) -> str:
        """Return the rule as the specification writes it (REQ-SCORE-007)."""
        extra = f" + {self.margin - 1}" if self.margin > 1 else ""
        return f"harmful >= {self.floor} AND harmful > helpful{extra}"

    def condemns(self, point: KeyPoint) -> bool:
        """Say whether the next update drops this entry (REQ-SCORE-007)."""
        return point.harmful >= self.floor and point.harmful - point.helpful >= self.margin


SPEC_POLICY = Policy()
