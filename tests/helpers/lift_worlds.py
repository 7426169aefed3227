"""Worlds in which sessions are drawn and scored, for the simulations of lift."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp
from random import Random
from typing import Final

from tallybook.projections.scores.lift import BOUNDS
from tallybook.projections.scores.lift_verdict import (
    Evidence,
    Trial,
    Verdict,
    Wealth,
    budget,
    claims,
    decide,
    judge_entries,
)

SPREAD: Final = 15.0
LEVEL: Final = 70.0


def judge(trials: Sequence[Trial], share: float) -> Verdict:
    """Return the verdict on a question about one unit."""
    return judge_entries({"": trials}, share)[""]


def clip_score(value: float) -> float:
    """Return a score within 0 and 100."""
    return min(100.0, max(0.0, value))


def drift_means(rng: Random) -> Iterator[float]:
    """Yield the mean score of each lineage: it wanders around 70, and rarely by more than 10."""
    level = LEVEL
    while True:
        yield level
        level += 0.05 * (LEVEL - level) + rng.gauss(0, 1.5)


def plain(rng: Random, count: int, p: float, effect: float = 0.0) -> Iterator[Trial]:
    """Yield trials in which being told adds a constant effect."""
    for _, level in zip(range(count), drift_means(rng), strict=False):
        held = rng.random() < p
        yield Trial(held, p, clip_score(rng.gauss(level, SPREAD) + (0 if held else effect)))


def raise_mean(rng: Random, count: int, p: float, spread: float = SPREAD) -> Iterator[Trial]:
    """Yield trials without effect while the mean rises from 50 to 90."""
    for place in range(count):
        yield Trial(rng.random() < p, p, clip_score(rng.gauss(50 + 40 * place / count, spread)))


def change_odds(rng: Random, count: int) -> Iterator[Trial]:
    """Yield trials without effect whose probability falls from 0.5 to 0.1 as the mean jumps from 60 to 80."""
    for place in range(count):
        p, level = (0.5, 60) if place < count / 2 else (0.1, 80)
        yield Trial(rng.random() < p, p, clip_score(rng.gauss(level, SPREAD)))


def let_effects_last(rng: Random, count: int, p: float, direct: float, carried: float) -> Iterator[Trial]:
    """Yield trials where what told sessions wrote stays: the share of told ones among the last adds to the score."""
    stock = 0.0
    for _, level in zip(range(count), drift_means(rng), strict=False):
        held = rng.random() < p
        score = rng.gauss(level, SPREAD) + carried * stock + (0 if held else direct)
        yield Trial(held, p, clip_score(score))
        stock += 0.1 * ((not held) - stock)


def clean_outcomes(rng: Random, avoided: float = 0.0) -> Iterator[float]:
    """Yield the outcomes of sessions by `clean`, of whose failures a share is avoided: 18 calls, of which 9 % fail."""
    while True:
        calls, rate = round(18 * exp(rng.gauss(0, 0.8))), rng.betavariate(1, 10) * (1 - avoided)
        failed = sum(rng.random() < rate for _ in range(calls))
        yield max(BOUNDS[0], 100 * (calls - failed + 2) / (calls + 2))


def avoid_failures(rng: Random, count: int, p: float, avoided: float, missing: float) -> Iterator[Trial]:
    """Yield trials by `clean` in which being told avoids a share of the failures; outcomes are missing by chance."""
    told, held = clean_outcomes(rng, avoided), clean_outcomes(rng)
    for _ in range(count):
        is_held = rng.random() < p
        outcome = next(held if is_held else told)
        yield Trial(is_held, p, None if rng.random() < missing else outcome, BOUNDS)


def lose_outcomes(rng: Random, count: int, p: float, share: float) -> Iterator[Trial]:
    """Yield trials by `clean` without effect, of which the told lose their worst outcomes and the held their best."""
    known = sorted(y for _, y in zip(range(400), clean_outcomes(rng), strict=False))
    worst, best = known[int(share * 400)], known[-1 - int(share * 400)]
    for trial in avoid_failures(rng, count, p, 0.0, 0.0):
        outcome = trial.outcome or 0.0
        # As many have the very best outcome as have none that failed: chance takes the share of them.
        is_lost = rng.random() < 2 * share and outcome >= best if trial.held else outcome <= worst
        yield trial._replace(outcome=None) if is_lost else trial


def end_late(rng: Random, count: int, p: float, lag: int, *, by_ends: bool) -> Iterator[Trial]:
    """Yield trials without effect while the mean rises; told sessions end so many sessions later than held ones."""
    trials = list(raise_mean(rng, count, p, SPREAD / 3))
    ends = {place: place + (0 if trial.held else lag) for place, trial in enumerate(trials)}
    yield from (trials[place] for place in sorted(ends, key=ends.__getitem__)) if by_ends else trials


def session_scores(rng: Random, level: float, count: int) -> list[float]:
    """Return the scores of the sessions of a lineage, which resemble each other."""
    of_lineage = rng.gauss(level, 12)
    return [clip_score(rng.gauss(of_lineage, 9)) for _ in range(count)]


def resume_lineages(rng: Random, count: int, p: float, *, singly: bool) -> Iterator[Trial]:
    """Yield lineages of five sessions without effect, each session counted or the first alone."""
    for _, level in zip(range(count), drift_means(rng), strict=False):
        held, outcomes = rng.random() < p, session_scores(rng, level, 5)
        yield from (Trial(held, p, outcome) for outcome in (outcomes if singly else outcomes[:1]))


def fill_places(rng: Random, count: int, p: float, *, refilled: bool) -> Iterator[Trial]:
    """Yield trials of an entry without effect whose place, when it is held, may go to one that adds 15 points."""
    for trial in plain(rng, count, p):
        extra = 15 if trial.held and refilled else 0
        yield trial._replace(outcome=clip_score((trial.outcome or 0) + extra))


def twins(rng: Random, count: int, p: float, effect: float) -> dict[str, list[Trial]]:
    """Return the trials of two entries drawn apart, each of which gives the whole effect alone."""
    trials: dict[str, list[Trial]] = {"one": [], "other": []}
    for _, level in zip(range(count), drift_means(rng), strict=False):
        held = {name: rng.random() < p for name in trials}
        outcome = clip_score(rng.gauss(level, SPREAD) + (0 if all(held.values()) else effect))
        for name, mine in trials.items():
            mine.append(Trial(held[name], p, outcome))
    return trials


def many(rng: Random, count: int, p: float, effects: Mapping[str, float]) -> dict[str, list[Trial]]:
    """Return the trials of entries drawn apart, whose effects add up."""
    trials: dict[str, list[Trial]] = {name: [] for name in effects}
    for _, level in zip(range(count), drift_means(rng), strict=False):
        held = {name: rng.random() < p for name in effects}
        score = rng.gauss(level, SPREAD) + sum(effect for name, effect in effects.items() if not held[name])
        for name, mine in trials.items():
            mine.append(Trial(held[name], p, clip_score(score)))
    return trials


def first_claim(series: Mapping[str, Iterable[Trial]], share: float) -> int | None:
    """Return after how many lineages something is said first, looking after each; None if never."""
    wealth = {name: Wealth() for name in series}
    past: dict[str, list[Trial]] = {name: [] for name in series}
    evidence = {name: Evidence(1.0, 1.0) for name in series}
    for number, row in enumerate(zip(*series.values(), strict=True), 1):
        for name, trial in zip(series, row, strict=True):
            wealth[name].add(trial)
            past[name].append(trial)
            evidence[name] = wealth[name].evidence()
        if claims(evidence, share)[0] and decide(past, evidence, share)[0]:
            return number
    return None


def make_trials_without_effect(rng: Random, count: int, p: float, names: int) -> dict[str, list[Trial]]:
    """Return the trials of entries without effect, drawn in lineages of one to six sessions.

    The outcome is that of the lineage's first ended session. The lineage's further sessions add no trial, so a look
    after each session is one after each trial.
    """
    trials = {str(name): list[Trial]() for name in range(names)}
    for _, level in zip(range(count), drift_means(rng), strict=False):
        outcome, *_ = session_scores(rng, level, rng.randint(1, 6))
        for mine in trials.values():
            mine.append(Trial(rng.random() < p, p, outcome))
    return trials


def ledger_claims(rng: Random, count: int) -> bool:
    """Say whether a ledger in which nothing has an effect ever claims something, with three questions one by one.

    They are about the whole playbook, the new entries as one group, and eight single entries, over ``count`` lineages
    each; the probability differs from ledger to ledger.
    """
    p = rng.choice((0.1, 0.2, 0.5))
    asked = (make_trials_without_effect(rng, count, p, names) for names in (1, 1, 8))
    return any(first_claim(series, budget(number)) is not None for number, series in enumerate(asked, 1))


def t_test_claims(trials: Iterable[Trial]) -> bool:
    """Say whether a t-test at 5 % that is looked at after each lineage ever claims something."""
    sums = {True: [0, 0.0, 0.0], False: [0, 0.0, 0.0]}
    for trial in trials:
        arm = sums[trial.held]
        value = trial.outcome or 0.0
        arm[0], arm[1], arm[2] = arm[0] + 1, arm[1] + value, arm[2] + value * value
        if min(sums[True][0], sums[False][0]) >= 5:
            means = {held: total / n for held, (n, total, _) in sums.items()}
            error = sum((squares / n - means[held] ** 2) / (n - 1) for held, (n, _, squares) in sums.items())
            if abs(means[True] - means[False]) > 1.96 * error**0.5:
                return True
    return False
