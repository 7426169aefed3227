"""How sure the counts of an entry are: Wilson's score interval, and the two values of z. Standard library only.

Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the American
Statistical Association 22 (1927), pages 209 to 212.
"""

from __future__ import annotations

# Two values of z, because they have two readers. Shown intervals and the choice of entries to inject take the exact
# quantile of the normal distribution for 95 %, both tails. The policy `wilson` prunes by the rounded 1.96 squared:
# that number is written in the rule which `why` prints, and a finer one could prune other entries of old ledgers.
_Z = 1.959963984540054
PRUNE_Z_SQUARED = 3.8416


def lower_bound(helpful: int, harmful: int) -> float:
    """Return the lower end of the 95 % interval of an entry's share of helpful ratings.

    Args:
        helpful: Count of helpful ratings, 0 or more.
        harmful: Count of harmful ratings, 0 or more.

    Returns:
        Wilson's lower bound for helpful / (helpful + harmful), from 0 to 1; 0 without a helpful rating.
    """
    number = helpful + harmful
    if not helpful:
        # The formula would give 0, or the rounding error of a float.
        return 0.0
    share, square = helpful / number, _Z * _Z
    # A power instead of math.sqrt: this runs in hooks, which would import a module for that alone.
    spread: float = _Z * ((share * (1 - share) + square / (4 * number)) / number) ** 0.5
    return (share + square / (2 * number) - spread) / (1 + square / number)


def interval(helpful: int, harmful: int) -> tuple[float, float]:
    """Return both ends of that interval: (0, 1) where the entry is unrated."""
    # The upper end for helpful is one minus the lower end for harmful.
    return lower_bound(helpful, harmful), 1 - lower_bound(harmful, helpful)


def is_surely_harmful(helpful: float, harmful: float) -> bool:
    """Say whether the 95 % interval of helpful / (helpful + harmful) lies below one half.

    The upper bound is below 1/2 exactly where the score test rejects 1/2, that is where
    ``1/2 - helpful/n > z * sqrt(1/4 / n)`` with ``n = helpful + harmful``. Multiplied out, that needs no division and
    no square root.

    Args:
        helpful: Count of helpful ratings, 0 or more; a fraction where ratings lose weight with age.
        harmful: Count of harmful ratings, in the same way.
    """
    lead = harmful - helpful
    return lead > 0 and lead * lead > PRUNE_Z_SQUARED * (harmful + helpful)
