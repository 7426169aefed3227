"""How many sessions a verdict takes, and how many outcomes may be missing before none can come."""

from __future__ import annotations

from math import ceil, log10, sqrt
from statistics import fmean, pvariance
from typing import TYPE_CHECKING, Final, NamedTuple

from tallybook.projections.lift.betting import SIZES, Trial, log_factor

if TYPE_CHECKING:
    from collections.abc import Sequence

_FARTHEST: Final = 5000
"""No number of sessions above this is named."""
_HALVINGS: Final = 10
"""The share of missing outcomes is searched in so many steps."""


class World(NamedTuple):
    """What sessions are assumed to be like.

    Attributes:
        outcomes: Outcomes as they are without the unit.
        effect: What having it adds on average: to each outcome in proportion to its distance from the bound, as an
            entry that avoids a share of the failures does.
        probability: With which it is withheld.
        missing: The share of missing outcomes of the told and of the held.
        bounds: The least and the greatest outcome that there can be.
    """

    outcomes: Sequence[float]
    effect: float
    probability: float
    missing: tuple[float, float]
    bounds: tuple[float, float]


def mean_gain(world: World) -> float:
    """Return what a session adds to the logarithm of the evidence on average, by the size that gains most."""
    bound = world.bounds[world.effect > 0]
    room = abs(bound - fmean(world.outcomes))
    share = min(1.0, abs(world.effect) / room) if room else 0.0
    arms = [[y + share * (bound - y) for y in world.outcomes], world.outcomes]
    weights = (1 - world.probability, world.probability)
    mean = sum(weight * fmean(arm) for weight, arm in zip(weights, arms, strict=True))
    variance = sum(
        weight * (pvariance(arm) + (fmean(arm) - mean) ** 2) for weight, arm in zip(weights, arms, strict=True)
    )
    if not variance:
        return 0.0
    sign = -1.0 if world.effect > 0 else 1.0

    def gain(size: float) -> float:
        """Return the mean gain of bets on a size."""
        total = 0.0
        for held, (weight, arm, missing) in enumerate(zip(weights, arms, world.missing, strict=True)):
            trial = Trial(bool(held), world.probability, None, world.bounds)
            worst = log_factor(trial, (trial.value(sign) - mean) / sqrt(variance), sign, size)
            known = fmean(log_factor(trial, (y - mean) / sqrt(variance), sign, size) for y in arm)
            total += weight * (missing * worst + (1 - missing) * known)
        return total

    return max(map(gain, SIZES))


def count_sessions(world: World, lead: float) -> int | None:
    """Return about how many sessions add this to the logarithm of the evidence; None for never, or for too many."""
    gain = mean_gain(world)
    if gain <= 0 or lead >= gain * _FARTHEST:
        return None
    number = max(1.0, lead / gain)
    # Two digits are more than such an estimate deserves.
    unit = int(10 ** max(0, int(log10(number)) - 1))
    return ceil(number / unit) * unit


def greatest_missing(world: World) -> float:
    """Return the share of missing outcomes, the same in both arms, from which on no verdict can come."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_gain(world._replace(missing=(middle, middle))) > 0 else (low, middle)
    return low
