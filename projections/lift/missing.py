"""Whether the arms differ in missing outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.projections.lift.betting import Trial

_LEVEL: Final = 0.1
"""Higher than usual, because a false alarm only delays a verdict, and a missed difference makes a false one."""


def missing_p_value(trials: Sequence[Trial]) -> float:
    """Return the exact two-sided p-value of "whether an outcome is missing does not depend on the draw".

    Under this null the trials without an outcome are a fixed set, and the number of held ones among them is a sum of
    independent draws with the recorded probabilities (Poisson's binomial distribution). The p-value is twice the
    smaller tail that contains the observed number.
    """
    missing = [trial for trial in trials if trial.outcome is None]
    chances = [1.0]
    for trial in missing:
        p = trial.probability
        chances = [told * (1 - p) + held * p for told, held in zip([*chances, 0.0], [0.0, *chances], strict=True)]
    held = sum(trial.held for trial in missing)
    return min(1.0, 2 * min(sum(chances[: held + 1]), sum(chances[held:])))


def arms_differ(trials: Sequence[Trial]) -> bool:
    """Say whether the test finds that the arms differ in missing outcomes."""
    return missing_p_value(trials) < _LEVEL
