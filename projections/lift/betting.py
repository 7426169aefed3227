"""Evidence that a draw changed outcomes: an e-process that bets on each recorded draw.

The sharp null says that no session's outcome depends on its own draw. Under it an outcome tells nothing about the
draw, so a player who sees the outcome and bets on the draw at the recorded odds gains nothing on average. A bet of
stake ``s`` on a session that was held with probability ``p`` multiplies the wealth by ``1 + s * (held - p)``, whose
expectation is 1, so the wealth is a martingale and exceeds ``1 / a`` at any time with probability ``a`` at most
(Ville's inequality). That is testing by betting: I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random
variables by betting", Journal of the Royal Statistical Society B 86 (2024), pages 1 to 27.

The stake is the one that gains most where outcomes are normal with a difference of ``d`` standard deviations. With
``z`` the outcome in standard deviations from the mean of the past, and ``u`` the odds of "held" that it suggests,

    u = exp(-d * (z + d * (1/2 - p)))      s = (u - 1) / (1 - p + p * u)

so that the factor is ``u / (1 - p + p * u)`` for a held session and ``1 / (1 - p + p * u)`` for another: positive
whatever happens. The wealth is the mean over a few values of ``d``. Mean and spread come from past outcomes alone.

A missing outcome is bet on as the worst that it can be for the direction: to be told counts as the lower bound of the
outcomes for "helps" and as the upper one for "hurts", to be held the other way round. A factor falls with each such
change, so its expectation is 1 at most, whatever decides which outcomes are missing, the draw as well.

A bet on "helps" gains nothing on average either where being told lowers outcomes, because ``u`` falls as the outcome
rises: each direction tests "never better" or "never worse", not just "no difference".
"""

from __future__ import annotations

from math import ceil, exp, log, log10, sqrt
from statistics import fmean, pvariance
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


SIZES: Final = (0.1, 0.2, 0.4, 0.8)
"""The differences, in standard deviations, on which equal parts of the wealth bet."""
_START: Final = 5
"""So many outcomes place no bet: mean and spread come from them."""
_MEMORY: Final = 40
"""Over about so many outcomes mean and spread are taken, so that they follow a drift."""
_STEEPEST: Final = 3.0
"""An outcome moves the odds by at most e to this power, so that one outlier cannot take the wealth."""
_GREATEST: Final = 1e100
"""The square of a greater outcome may be no number."""
_LARGEST: Final = 700.0
"""The logarithm at which an e-value ends, just below the largest float."""


class Trial(NamedTuple):
    """A lineage of sessions that was drawn once.

    Attributes:
        held: Whether the draw withheld the unit.
        probability: The recorded probability that it would be withheld, above 0 and below 1. It may depend on
            everything before the draw.
        outcome: A number; None where it is missing.
        bounds: The least and the greatest outcome that there can be.
    """

    held: bool
    probability: float
    outcome: float | None
    bounds: tuple[float, float] = (0.0, 100.0)

    def value(self, sign: float) -> float:
        """Return the outcome, a missing one as the worst for "helps" (-1) or "hurts" (1)."""
        return self.bounds[self.held == (sign < 0)] if self.outcome is None else self.outcome


class Evidence(NamedTuple):
    """An e-value for each direction: 1 at the start, and above ``1 / a`` by chance with probability ``a`` at most.

    Attributes:
        helps: Against "being told never raised an outcome".
        hurts: Against "being told never lowered an outcome".
    """

    helps: float
    hurts: float


def payoff(trial: Trial, odds: float) -> float:
    """Return the factor of the wealth for a draw on which was bet: its expectation over the draw is 1."""
    return (odds if trial.held else 1.0) / (1 - trial.probability + trial.probability * odds)


def log_factor(trial: Trial, score: float, sign: float, size: float) -> float:
    """Return the logarithm of the factor by which a bet on a size changes the wealth of a direction.

    Args:
        trial: The trial.
        score: Its outcome, in standard deviations from the mean.
        sign: -1 for "helps", 1 for "hurts".
        size: The difference on which is bet, in standard deviations.
    """
    steepness = size * (score - sign * size * (0.5 - trial.probability))
    return log(payoff(trial, exp(sign * max(-_STEEPEST, min(_STEEPEST, steepness)))))


class Wealth:
    """The wealth of both directions while trials come in, one after another.

    Attributes:
        shift: The difference between told and held that the null assumes: 0, or another for an interval.
        logs: For each direction, "helps" first, the logarithm of the wealth that bets on each size.
    """

    def __init__(self, shift: float = 0.0) -> None:
        """Start with a wealth of 1 and no past."""
        self.shift = shift
        self.logs = ([0.0] * len(SIZES), [0.0] * len(SIZES))
        self._seen = 0
        self._mean = 0.0
        self._variance = 0.0

    def add(self, trial: Trial) -> None:
        """Bet on a trial; mean and spread learn nothing of a missing outcome."""
        if not 0 < trial.probability < 1:
            raise ValueError(f"probability {trial.probability}: must be above 0 and below 1")
        if trial.outcome is not None and not abs(trial.outcome) <= _GREATEST:
            raise ValueError(f"outcome {trial.outcome}: must be a number of at most {_GREATEST:g}")
        shift = 0.0 if trial.held else self.shift
        if self._seen >= _START and self._variance > 0:
            for sign, logs in zip((-1.0, 1.0), self.logs, strict=True):
                score = (trial.value(sign) - shift - self._mean) / sqrt(self._variance)
                for place, size in enumerate(SIZES):
                    logs[place] += log_factor(trial, score, sign, size)
        # Only after the bet: a bet that knew its own outcome would gain on average where there is no effect.
        if trial.outcome is not None:
            self._learn(trial.outcome - shift)

    def _learn(self, value: float) -> None:
        """Take a value into mean and spread, after the bet."""
        self._seen += 1
        weight = max(1 / self._seen, 1 / _MEMORY)
        error = value - self._mean
        self._mean += weight * error
        self._variance = (1 - weight) * (self._variance + weight * error * error)

    def evidence(self) -> Evidence:
        """Return the wealth of each direction: the mean over the sizes."""
        helps, hurts = (sum(exp(min(value, _LARGEST)) for value in logs) / len(logs) for logs in self.logs)
        return Evidence(helps, hurts)


def evidence_of(trials: Iterable[Trial], shift: float = 0.0) -> Evidence:
    """Return the evidence of trials against a constant difference of ``shift``."""
    wealth = Wealth(shift)
    for trial in trials:
        wealth.add(trial)
    return wealth.evidence()


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
    # An entry that avoids a share of the failures moves a bad outcome more than a good one.
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

    # The wealth is the mean over the sizes, and the one that gains most soon outweighs the others.
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
