"""What ratings do to an entry: its counts, and the policies that prune it; and the text by which entries are equal.

The default policy is the specification's (REQ-SCORE-007).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import sqrt
import re
from typing import Final
import unicodedata

import attrs

from tallybook.ledger.events import Entry


def add_rating(entry: Entry, rating: str) -> Entry:
    """Return an entry after one rating: helpful and harmful add one, any other rating nothing (REQ-SCORE-002)."""
    if rating == "helpful":
        return Entry(entry.name, entry.text, entry.helpful + 1, entry.harmful)
    if rating == "harmful":
        return Entry(entry.name, entry.text, entry.helpful, entry.harmful + 1)
    return entry


# Policies: when an update prunes an entry


@attrs.frozen
class PolicyCondition:
    """A further condition of a policy, besides floor and margin.

    Attributes:
        rule: Its text, in the form of the specification's rule.
        holds: Takes the helpful and harmful counts, 0 or more.
    """

    rule: str
    holds: Callable[[int, int], bool]


@attrs.frozen
class Policy:
    """Prunes an entry with at least ``floor`` harmful ratings and at least ``margin`` more harmful than helpful ones.

    Attributes:
        name: Its name in ``--policy``.
        floor: Fewest harmful ratings of a pruned entry, 1 or more, so an unrated entry is never pruned
            (INV-SCORE-003).
        margin: Least difference of harmful and helpful ratings, 1 or more.
        condition: A further condition, None without one.
        is_permanent: Whether a pruned entry stays pruned. Otherwise its ratings go on counting, and the first
            update at which the policy no longer applies brings it back.
        about: The policy in a few words, for help and projections/README.md.
    """

    name: str = "sticky"
    floor: int = attrs.field(default=3, validator=attrs.validators.ge(1))
    margin: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    condition: PolicyCondition | None = None
    is_permanent: bool = True
    about: str = ""

    @property
    def rule(self) -> str:
        """Return the rule as the specification writes it (REQ-SCORE-007)."""
        extra = f" + {self.margin - 1}" if self.margin > 1 else ""
        also = f" AND {self.condition.rule}" if self.condition else ""
        return f"harmful >= {self.floor} AND harmful > helpful{extra}{also}"

    def prunes(self, entry: Entry) -> bool:
        """Say whether the next update prunes this entry (REQ-SCORE-007)."""
        return (
            entry.harmful >= self.floor
            and entry.harmful - entry.helpful >= self.margin
            and (self.condition is None or self.condition.holds(entry.helpful, entry.harmful))
        )


# This rounded number is in the rule which `why` prints, and a finer one could prune other entries of old ledgers.
_PRUNE_Z_SQUARED: Final = 3.8416


def is_surely_harmful(helpful: int, harmful: int) -> bool:
    """Say whether the 95 % interval of helpful / (helpful + harmful) lies below one half.

    The upper bound is below 1/2 exactly where the score test rejects 1/2, that is where
    ``1/2 - helpful/n > z * sqrt(1/4 / n)`` with ``n = helpful + harmful``. Multiplied out, that needs no division and
    no square root.

    Args:
        helpful: Count of helpful ratings, 0 or more.
        harmful: Count of harmful ratings, 0 or more.
    """
    lead = harmful - helpful
    return lead > 0 and lead * lead > _PRUNE_Z_SQUARED * (harmful + helpful)


WILSON: Final = PolicyCondition(
    f"harmful > helpful + {sqrt(_PRUNE_Z_SQUARED):.2f} * sqrt(helpful + harmful)", is_surely_harmful
)

SPEC_POLICY: Final = Policy(about="an update prunes an entry for good; later ratings change nothing (REQ-SCORE-007)")

POLICIES: Final = {
    policy.name: policy
    for policy in (
        SPEC_POLICY,
        Policy("final", is_permanent=False, about="an update prunes an entry, and later helpful ratings bring it back"),
        Policy(
            "wilson",
            condition=WILSON,
            about="an update prunes an entry that is more harmful than helpful with 95 % confidence",
        ),
    )
}
"""Name → policy, with the specification's floor and margin. `cog` writes them into projections/README.md."""


_WORD: Final = re.compile(r"\w+")


# A lineage compares every text of an entry with those of all names, so each text comes up again and again.
@lru_cache(maxsize=4096)
def normalize_words(text: str) -> str:
    """Return a text's words without case, white space, punctuation and Unicode variants, to compare texts by.

    A text without any word stays as it is.
    """
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold())) or text
