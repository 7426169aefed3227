"""What can be said about a question, or about each entry of a question, at the moment."""

from __future__ import annotations

from math import log, pi
from statistics import fmean
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from tallybook.projections.lift.betting import Evidence, Trial, World, count_sessions, evidence_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Word = Literal["helps", "hurts", "not known yet"]

_TOTAL: Final = 0.05
"""The error share of everything that is said about lift in a ledger."""
_FEWEST: Final = 5
"""Each arm has so many outcomes before anything is said."""
_HALVINGS: Final = 10
"""An end of the interval is searched in so many steps."""


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
    words, obstacles, threshold = decide(series, evidence, budget)
    return {
        name: _verdict(trials, words.get(name, "not known yet"), obstacles[name], evidence[name], threshold)
        for name, trials in series.items()
    }


def decide(
    series: Mapping[str, Sequence[Trial]], evidence: Mapping[str, Evidence], share: float
) -> tuple[dict[str, Word], dict[str, str], float]:
    """Return what is claimed, the obstacle of each entry or an empty text, and the e-value that a claim takes."""
    obstacles = {name: _obstacle(trials) for name, trials in series.items()}
    # An e-value that is lowered stays one: an entry of which nothing may be claimed takes no part.
    usable = {name: Evidence(0.0, 0.0) if obstacles[name] else pair for name, pair in evidence.items()}
    words, threshold = claims(usable, share)
    return words, obstacles, threshold


def _outcomes(trials: Iterable[Trial], *, held: bool) -> list[tuple[float, float]]:
    """Return outcome and weight, one over the probability of its arm, of the trials of an arm."""
    return [
        (trial.outcome, 1 / (trial.probability if held else 1 - trial.probability))
        for trial in trials
        if trial.held == held and trial.outcome is not None
    ]


def _is_few(trials: Iterable[Trial]) -> bool:
    """Say whether an arm has too few outcomes."""
    seen = [trial.held for trial in trials if trial.outcome is not None]
    return min(sum(seen), len(seen) - sum(seen)) < _FEWEST


def _obstacle(trials: Sequence[Trial]) -> str:
    """Return why nothing can be claimed whatever the evidence is; empty if it can."""
    told, held = (len(_outcomes(trials, held=arm)) for arm in (False, True))
    if not _is_few(trials):
        return ""
    return (
        f"too few sessions: {told} with it and {held} without it have an outcome, "
        f"and at least {_FEWEST} of each are needed"
    )


def _estimate(trials: Sequence[Trial]) -> float:
    """Return Hajek's estimate: the weighted mean outcome of the told minus that of the held.

    The weight of a trial is one over the probability of its arm, and the weights of an arm are divided by their sum.
    Source: J. Hajek, comment on D. Basu, in "Foundations of Statistical Inference" (1971), page 236.
    """
    told, held = (_outcomes(trials, held=arm) for arm in (False, True))
    mean_told, mean_held = (sum(y * w for y, w in arm) / sum(w for _, w in arm) for arm in (told, held))
    return mean_told - mean_held


def _interval(trials: Sequence[Trial], threshold: float) -> tuple[float, float] | None:
    """Return the ends between which the test rejects no constant difference; None if it rejects each.

    A difference is rejected where, after it is taken off the outcomes of the told, the evidence of a direction
    reaches the threshold. An end is searched up to twice the range of the outcomes, and lies outside by at most a
    250th of that range. Source of inverting a betting test: Waudby-Smith and Ramdas, as in ``betting``.
    """
    outcomes = [trial.outcome for trial in trials if trial.outcome is not None]
    reach = 2 * (max(outcomes) - min(outcomes))

    def end(direction: int, outside: float) -> float:
        """Return the end at which the evidence of a direction reaches the threshold, by bisection."""
        inside = -outside
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            if evidence_of(trials, middle)[direction] >= threshold:
                outside = middle
            else:
                inside = middle
        return outside

    low, high = end(0, -reach), end(1, reach)
    return (low, high) if low < high else None


def _estimate_sessions(trials: Sequence[Trial], estimate: float, evidence: Evidence, threshold: float) -> int | None:
    """Return about how many more sessions a verdict takes if the difference is the estimated one; None for never."""
    # Without the estimated difference both arms show the outcomes as they are without the unit.
    outcomes = [trial.outcome - (0 if trial.held else estimate) for trial in trials if trial.outcome is not None]
    missing = [fmean(trial.outcome is None for trial in trials if trial.held == arm) for arm in (False, True)]
    probability = fmean(trial.probability for trial in trials)
    # What the wealth of the expected direction has gained already, later sessions need not gain again.
    lead = evidence.helps if estimate > 0 else evidence.hurts
    world = World(outcomes, estimate, probability, (missing[0], missing[1]), trials[0].bounds)
    # The wealth can fall to a float of 0, which has no logarithm.
    return count_sessions(world, log(threshold) - log(max(lead, 1e-300)))


def _verdict(trials: Sequence[Trial], word: Word, obstacle: str, evidence: Evidence, threshold: float) -> Verdict:
    """Put a verdict together."""
    told, held = (len(_outcomes(trials, held=arm)) for arm in (False, True))
    all_held = sum(trial.held for trial in trials)
    counts = (told, held, len(trials) - all_held - told, all_held - held)
    if _is_few(trials):
        return Verdict(word, obstacle, None, *counts, None, None, evidence)
    estimate = _estimate(trials)
    interval = _interval(trials, threshold)
    if word != "not known yet":
        higher = "higher" if word == "helps" else "lower"
        reason = f"sessions with it scored {higher}: evidence {max(evidence):.3g}, and {threshold:.3g} was needed"
        return Verdict(word, reason, None, *counts, estimate, interval, evidence)
    needed = None if obstacle else _estimate_sessions(trials, estimate, evidence, threshold)
    reason = obstacle or f"the evidence is {max(evidence):.2g}, and {threshold:.3g} is needed"
    return Verdict(word, reason, needed, *counts, estimate, interval, evidence)
