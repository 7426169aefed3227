"""When an entry is dropped from the playbook: policies as values, the default the specification's."""

from __future__ import annotations

from itertools import accumulate, repeat
from math import ldexp, sqrt
from operator import mul
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.ledger.events import KeyPoint
    from tallybook.projections.playbook.entry_state import Tally


@attrs.frozen
class Condition:
    """What must hold beside floor and margin before an entry goes.

    Attributes:
        rule: How it is told, in the form of the specification's rule.
        holds: Takes the helpful and the harmful count, 0 or more, fractions where ratings lose weight with age.
            Where it holds, it holds with one more harmful rating; where it does not, nor does it with one more helpful
            one, or with both counts scaled down.
    """

    rule: str
    holds: Callable[[float, float], bool]


@attrs.frozen
class Policy:
    """Drops an entry with at least ``floor`` harmful ratings and more harmful than helpful ones by ``margin``.

    Attributes:
        name: What people call it.
        floor: Fewest harmful ratings at which an entry can go, 1 or more (so an unrated one never does,
            INV-SCORE-003).
        margin: How many more harmful than helpful ratings it takes, 1 or more.
        condition: What must hold as well, None for nothing.
        lasting: Whether what was pruned stays so. Else its ratings count on, and the first update that finds it
            condemned no more brings it back.
        about: When an entry is out, in a few words.
    """

    name: str = "sticky"
    floor: int = attrs.field(default=3, validator=attrs.validators.ge(1))
    margin: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    condition: Condition | None = None
    lasting: bool = True
    about: str = ""

    @property
    def rule(self) -> str:
        """Return the rule as the specification writes it (REQ-SCORE-007)."""
        extra = f" + {self.margin - 1}" if self.margin > 1 else ""
        also = f" AND {self.condition.rule}" if self.condition else ""
        return f"harmful >= {self.floor} AND harmful > helpful{extra}{also}"

    def condemns(self, point: KeyPoint | Tally) -> bool:
        """Say whether the next update drops this entry (REQ-SCORE-007)."""
        return (
            point.harmful >= self.floor
            and point.harmful - point.helpful >= self.margin
            and (self.condition is None or self.condition.holds(point.helpful, point.harmful))
        )

    def condemns_weighed(self, helpful: float, harmful: float) -> bool:
        """Say whether the next update drops an entry with these counts, of which some are fractions.

        On whole counts it says what ``condemns`` says. At least three is read as more than two, so that three ratings
        of the last days are three, although none of them has quite its full weight any more.
        """
        return (
            harmful > self.floor - 1
            and harmful - helpful > self.margin - 1
            and (self.condition is None or self.condition.holds(helpful, harmful))
        )


Z_SQUARED: Final = 3.8416
"""1.96 squared: the normal distribution has 95 % within 1.96 standard deviations of its mean."""


def surely_harmful(helpful: float, harmful: float) -> bool:
    """Say whether the Wilson score interval (95 %) of helpful / (helpful + harmful) lies below one half.

    Its upper bound is below 1/2 exactly where the score test refuses 1/2, that is where
    ``1/2 - helpful/n > z * sqrt(1/4 / n)`` with ``n = helpful + harmful``; so nothing is divided and no root taken.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the
    American Statistical Association 22 (1927), pages 209 to 212.
    """
    lead = harmful - helpful
    return lead > 0 and lead * lead > Z_SQUARED * (harmful + helpful)


WILSON: Final = Condition(f"harmful > helpful + {sqrt(Z_SQUARED):.2f} * sqrt(helpful + harmful)", surely_harmful)

SPEC_POLICY: Final = Policy(about="an update condemned it; later ratings change nothing (REQ-SCORE-007)")

POLICIES: Final = {
    policy.name: policy
    for policy in (
        SPEC_POLICY,
        Policy("final", lasting=False, about="its counts at the end condemn it; later helpful ratings bring it back"),
        Policy("wilson", condition=WILSON, about="an update found it more harmful than helpful with 95 % confidence"),
    )
}
"""Name → the policy, with the specification's floor and margin. To add one: a row here, and one in the README."""

# A rating that counts less with age

STEPS: Final = 1024
"""Ages are measured in steps, of which so many make a half-life."""

# A square root, unlike a power, is the same on every machine, and so is a product.
_STEP: Final = list(accumulate(repeat(0.5, 11), lambda root, _: sqrt(root)))[-1]
_SHARES: Final = tuple(accumulate(repeat(_STEP, STEPS - 1), mul, initial=1.0))


def weight(steps: int) -> float:
    """Return what is left of a rating's weight after so many steps, 0 or more: 1 at first, 1/2 after 1,024."""
    return ldexp(_SHARES[steps % STEPS], -(steps // STEPS))
