"""What can be said about a question of lift at the moment, and the evidence for it: an e-process of bets on draws.

The sharp null says that no session's outcome depends on its own draw. Under it an outcome tells nothing about the
draw, so a player who sees the outcome and bets on the draw at the recorded odds gains nothing on average. A bet of
stake ``s`` on a session that was held with probability ``p`` multiplies the wealth by ``1 + s * (held - p)``, whose
expectation is 1, so the wealth is a martingale and exceeds ``1 / a`` at any time with probability ``a`` at most
(Ville's inequality). That is testing by betting: I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random
variables by betting", Journal of the Royal Statistical Society B 86 (2024), pages 1 to 27.

The stake is the one that gains most where outcomes are normal with a difference of ``d`` standard deviations. With
``z`` the outcome in standard deviations from the mean of the past, and ``u`` the odds of "held" that it suggests,

    u = exp(-d * (z + d * (1/2 - p)))      s = (u - 1) / (1 - p + p * u)

so that the factor is ``u / (1 - p + p * u)`` for a held session and ``1 / (1 - p + p * u)`` for another; both are
always positive. The wealth is the mean over a few values of ``d``. Mean and spread come from past outcomes alone.

The bet replaces a missing outcome by its worst value for the direction. For "helps", that is the lower bound in a
session that had the unit and the upper bound in a held one; for "hurts" it is the opposite. Each replacement lowers a
factor, so its expectation is 1 at most, even if the draw decides which outcomes are missing.

A bet on "helps" also gains nothing on average if having the unit lowers outcomes, because ``u`` falls as the outcome
rises. So each direction tests "never better" or "never worse", not just "no difference".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, exp, log, log10, pi, sqrt
from statistics import fmean, pvariance
from typing import Final, Literal, NamedTuple

SIZES: Final = (0.1, 0.2, 0.4, 0.8)
"""The differences, in standard deviations, on which equal parts of the wealth bet."""
_START: Final = 5
"""So many outcomes place no bet: mean and spread come from them."""
_MEMORY: Final = 40
"""Over about so many outcomes mean and spread are taken, so that they follow a drift."""
_STEEPEST: Final = 3.0
"""An outcome moves the odds by at most e to this power, so that one outlier cannot take the wealth."""
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
        helps: Against "having the unit never raised an outcome".
        hurts: Against "having the unit never lowered an outcome".
    """

    helps: float
    hurts: float


def log_factor(trial: Trial, score: float, sign: float, size: float) -> float:
    """Return the logarithm of the factor by which a bet on a size changes the wealth of a direction.

    Args:
        trial: The trial.
        score: Its outcome, in standard deviations from the mean.
        sign: -1 for "helps", 1 for "hurts".
        size: The difference on which is bet, in standard deviations.
    """
    steepness = size * (score - sign * size * (0.5 - trial.probability))
    odds = exp(sign * max(-_STEEPEST, min(_STEEPEST, steepness)))
    # The expectation of this factor over the draw is 1.
    return log((odds if trial.held else 1.0) / (1 - trial.probability + trial.probability * odds))


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
        shift = 0.0 if trial.held else self.shift
        if self._seen >= _START and self._variance > 0:
            for sign, logs in zip((-1.0, 1.0), self.logs, strict=True):
                score = (trial.value(sign) - shift - self._mean) / sqrt(self._variance)
                for place, size in enumerate(SIZES):
                    logs[place] += log_factor(trial, score, sign, size)
        # Only after the bet: a bet that knew its own outcome would gain on average where there is no effect.
        if trial.outcome is not None:
            self._seen += 1
            weight = max(1 / self._seen, 1 / _MEMORY)
            error = trial.outcome - shift - self._mean
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
"""A share of missing outcomes, and an end of an interval, is searched in so many steps."""


class Assumptions(NamedTuple):
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


def mean_gain(world: Assumptions) -> float:
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


def count_sessions(world: Assumptions, lead: float) -> int | None:
    """Return about how many sessions add this to the logarithm of the evidence; None for never, or for too many."""
    gain = mean_gain(world)
    if gain <= 0 or lead >= gain * _FARTHEST:
        return None
    number = max(1.0, lead / gain)
    # Two digits are more than such an estimate deserves.
    unit = int(10 ** max(0, int(log10(number)) - 1))
    return ceil(number / unit) * unit


def greatest_missing(world: Assumptions) -> float:
    """Return the share of missing outcomes, the same in both arms, from which on no verdict can come."""
    return _search(0.0, 1.0, lambda share: mean_gain(world._replace(missing=(share, share))) > 0)


def _search(begin: float, end: float, is_before: Callable[[float], bool]) -> float:
    """Return the last value from the beginning on that is still before a limit, by bisection."""
    for _ in range(_HALVINGS):
        middle = (begin + end) / 2
        begin, end = (middle, end) if is_before(middle) else (begin, middle)
    return begin


Word = Literal["helps", "hurts", "not known yet"]

_TOTAL: Final = 0.05
"""The error share of everything that is said about lift in a ledger."""
_FEWEST: Final = 5
"""Each arm has so many outcomes before anything is said."""


class Verdict(NamedTuple):
    """What can be said at the moment.

    Attributes:
        word: "helps", "hurts" or "not known yet".
        reason: Why, in plain words.
        needed: About how many more sessions a verdict takes if the difference is the estimated one; None where there
            is a verdict, where too few outcomes are in, or where the number would be above 5000.
        told: Number of trials with an outcome that were given the unit.
        held: Number of trials with an outcome from which it was withheld.
        missing_told: Number of trials that were given it and have no outcome.
        missing_held: Number of trials from which it was withheld and which have no outcome.
        estimate: Hajek's estimate of the mean outcome if told minus that if held; None with few outcomes.
        interval: From where to where a constant difference, the same in every session, fits the draws, by inverting the
            test at this question's error share; None with few outcomes, and where no constant difference fits.
        evidence: The e-values of both directions.
    """

    word: Word
    reason: str
    needed: int | None
    told: int
    held: int
    missing_told: int
    missing_held: int
    estimate: float | None
    interval: tuple[float, float] | None
    evidence: Evidence


def budget(question: int) -> float:
    """Return the error share of the question with this number in its ledger, from 1 on.

    The shares ``0.05 * 6 / (pi * k) ** 2`` add up to 0.05 over all ``k``, however many questions are asked.
    """
    # The inverse squares of all numbers add up to pi squared over six.
    return _TOTAL * 6 / (pi * question) ** 2


def claims(evidence: Mapping[str, Evidence], share: float) -> tuple[dict[str, Word], float]:
    """Choose by e-BH the entries about which something is said, and return the e-value that it took as well.

    There are two hypotheses for each of ``n`` entries. With the e-values in falling order, e-BH rejects the first
    ``k``, for the largest ``k`` with ``e_k >= 2 * n / (k * share)``. Among what it rejects, the expected share of
    errors is at most ``share``, whatever the dependence between entries, and at any time when one looks. With one
    entry it is the test of each direction at half of the share. Source: R. Wang and A. Ramdas, "False discovery rate
    control with e-values", Journal of the Royal Statistical Society B 84 (2022), pages 822 to 852.
    """
    values = sorted((value for pair in evidence.values() for value in pair), reverse=True)
    rejected = max((k for k, value in enumerate(values, 1) if value * k * share >= len(values)), default=0)
    threshold = len(values) / (max(rejected, 1) * share)
    words: dict[str, Word] = {
        name: "helps" if pair.helps >= pair.hurts else "hurts"
        for name, pair in evidence.items()
        if max(pair) >= threshold
    }
    return words, threshold


def judge_entries(series: Mapping[str, Sequence[Trial]], budget: float) -> dict[str, Verdict]:
    """Return the verdict on each entry of a question about several.

    Args:
        series: Name → its trials, in the order of their draws. A later trial is always appended: that keeps the verdict
            valid however often one looks. All entries that the question names are in it from the start, an entry
            without trials too.
        budget: The error share of the whole question.
    """
    evidence = {name: evidence_of(trials) for name, trials in series.items()}
    words, threshold = decide(series, evidence, budget)
    return {
        name: _judge(trials, words.get(name, "not known yet"), evidence[name], threshold)
        for name, trials in series.items()
    }


def decide(
    series: Mapping[str, Sequence[Trial]], evidence: Mapping[str, Evidence], share: float
) -> tuple[dict[str, Word], float]:
    """Return what is claimed of entries that have enough outcomes, and the e-value that a claim takes."""
    # An e-value that is lowered stays one: an entry of which nothing may be claimed takes no part.
    few = {name for name, trials in series.items() if min(map(len, _outcomes(trials))) < _FEWEST}
    return claims({name: Evidence(0.0, 0.0) if name in few else pair for name, pair in evidence.items()}, share)


def _outcomes(trials: Iterable[Trial]) -> tuple[list[Trial], list[Trial]]:
    """Return the trials with an outcome, those that were given the unit first and then the others."""
    arms: tuple[list[Trial], list[Trial]] = ([], [])
    for trial in trials:
        if trial.outcome is not None:
            arms[trial.held].append(trial)
    return arms


def _weigh(arm: Sequence[Trial]) -> float:
    """Return the mean outcome of an arm; the weight of a trial is one over the probability of its arm."""
    weights = [1 / (trial.probability if trial.held else 1 - trial.probability) for trial in arm]
    return sum((trial.outcome or 0) * weight for trial, weight in zip(arm, weights, strict=True)) / sum(weights)


def _interval(trials: Sequence[Trial], threshold: float) -> tuple[float, float] | None:
    """Return the ends between which the test rejects no constant difference; None if it rejects each.

    A difference is rejected where, after it is taken off the outcomes of the told, the evidence of a direction
    reaches the threshold. An end is searched up to twice the range of the outcomes, and lies outside by at most a
    250th of that range. Source of inverting a betting test: Waudby-Smith and Ramdas, as at the top of this module.
    """
    outcomes = [trial.outcome for trial in trials if trial.outcome is not None]
    reach = 2 * (max(outcomes) - min(outcomes))
    low = _search(-reach, reach, lambda difference: evidence_of(trials, difference).helps >= threshold)
    high = _search(reach, -reach, lambda difference: evidence_of(trials, difference).hurts >= threshold)
    return (low, high) if low < high else None


def _judge(trials: Sequence[Trial], word: Word, evidence: Evidence, threshold: float) -> Verdict:
    """Return the verdict of what is claimed.

    The estimate is Hajek's: the weighted mean outcome of the told minus that of the held.
    Source: J. Hajek, comment on D. Basu, in "Foundations of Statistical Inference" (1971), page 236.
    """
    arms = _outcomes(trials)
    told, held = map(len, arms)
    all_held = sum(trial.held for trial in trials)
    counts = (told, held, len(trials) - all_held - told, all_held - held)
    if min(told, held) < _FEWEST:
        have = f"{told} with it and {held} without it have an outcome"
        reason = f"too few sessions: {have}, and at least {_FEWEST} of each are needed"
        return Verdict(word, reason, None, *counts, None, None, evidence)
    estimate, needed = _weigh(arms[0]) - _weigh(arms[1]), None
    if word != "not known yet":
        higher = "higher" if word == "helps" else "lower"
        reason = f"sessions with it scored {higher}: evidence {max(evidence):.3g}, and {threshold:.3g} was needed"
    else:
        # Without the estimated difference both arms show the outcomes as they are without the unit.
        outcomes = [trial.outcome - (0 if trial.held else estimate) for trial in trials if trial.outcome is not None]
        missing = (counts[2] / (counts[2] + told), counts[3] / all_held)
        probability = fmean(trial.probability for trial in trials)
        world = Assumptions(outcomes, estimate, probability, missing, trials[0].bounds)
        # What the wealth of the expected direction has gained already, later sessions need not gain again. It can fall
        # to a float of 0, which has no logarithm.
        lead = evidence.helps if estimate > 0 else evidence.hurts
        needed = count_sessions(world, log(threshold) - log(max(lead, 1e-300)))
        reason = f"the evidence is {max(evidence):.2g}, and {threshold:.3g} is needed"
    return Verdict(word, reason, needed, *counts, estimate, _interval(trials, threshold), evidence)
