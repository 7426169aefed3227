"""The simulations of lift, printed as the tables of projections/scores/LIFT.md.

python -m tests.lift_simulation [COUNT]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from statistics import median, quantiles
import sys
from typing import Final

_TESTS: Final = str(Path(__file__).resolve().parent)
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)

from helpers.lift_worlds import (  # noqa: E402 - the path comes first
    avoid_failures,
    change_odds,
    end_late,
    fill_places,
    first_claim,
    judge,
    ledger_claims,
    let_effects_last,
    lose_outcomes,
    many,
    plain,
    raise_mean,
    resume_lineages,
    t_test_claims,
    twins,
)
from tallybook.projections.scores.lift_verdict import Trial, budget, judge_entries  # noqa: E402 - as above

World = Callable[[Random], Iterable[Trial]]
COUNT: Final = 1000
"""So many ledgers without effect."""
LINEAGES: Final = 250
MOST_FALSE: Final = 0.05
MOST_SESSIONS: Final = 1.4
"""Sample sizes are at most so many times those of the reference."""
FARTHEST: Final = 3000
SHARE: Final = budget(1)
REFERENCE: Final = {
    (5, 0.1): 977,
    (5, 0.2): 541,
    (5, 0.5): 335,
    (10, 0.1): 394,
    (10, 0.2): 192,
    (10, 0.5): 93,
    (20, 0.1): 186,
    (20, 0.2): 87,
    (20, 0.5): 38,
}
"""Effect in points and probability → the median sessions that an e-process took which looked for one direction at an
error share of 0.05; measured for the design, before this one was written."""


def chances(count: int) -> list[Random]:
    """Return sources of chance, the same in every run."""
    return [Random(seed) for seed in range(count)]  # noqa: S311 - a simulation is repeated, nothing is secret


def false_ledgers(count: int, lineages: int = LINEAGES) -> float:
    """Return the share of ledgers without effect that ever claim something."""
    return sum(ledger_claims(rng, lineages) for rng in chances(count)) / count


def median_sessions(effect: int, p: float, count: int) -> float:
    """Return the median number of lineages until the first claim."""
    most = 4 * REFERENCE[effect, p]
    found = (first_claim({"": plain(rng, most, p, effect)}, SHARE) for rng in chances(count))
    return median(number or most for number in found)


def count_claims(world: World, count: int) -> float:
    """Return the share of histories of a world that ever claim something."""
    found = (first_claim({"": world(rng)}, SHARE) for rng in chances(count))
    return sum(number is not None for number in found) / count


def clean_sessions(missing: float, count: int) -> float:
    """Return the median number of sessions until a claim by `clean` where the playbook avoids half of the failures."""
    found = (first_claim({"": avoid_failures(rng, FARTHEST, 0.2, 0.5, missing)}, SHARE) for rng in chances(count))
    return median(number or FARTHEST for number in found)


def drop_missing(world: World) -> World:
    """Return a world in which sessions without an outcome do not count."""
    return lambda rng: (trial for trial in world(rng) if trial.outcome is not None)


def null_rows(count: int) -> Iterator[tuple[str, float, str]]:
    """Yield what each world without effect is, its share of false claims, and the share without what prevents them."""
    worlds: dict[str, World] = {
        "the mean wanders around 70": partial(plain, count=500, p=0.2),
        "the mean rises from 50 to 90": partial(raise_mean, count=500, p=0.2),
        "p falls from 0.5 to 0.1 as the mean jumps from 60 to 80": partial(change_odds, count=500),
        "what sessions with the unit wrote stays in the code, and adds up to 10 points": partial(
            let_effects_last, count=500, p=0.2, direct=0, carried=10
        ),
    }
    for text, world in worlds.items():
        tested = sum(t_test_claims(world(rng)) for rng in chances(count)) / count
        yield text, count_claims(world, count), f"{tested:.1%} by a t-test"
    for share in (0.05, 0.1, 0.2):
        world = partial(lose_outcomes, count=500, p=0.2, share=share)
        text = f"sessions with it lose their {share:.0%} worst outcomes, those without it as many of their best"
        blind = count_claims(drop_missing(world), count)
        yield text, count_claims(world, count), f"{blind:.1%} where a missing outcome does not count"
    drawn, ended = (
        count_claims(partial(end_late, count=500, p=0.2, lag=20, by_ends=each), count) for each in (False, True)
    )
    text = "the mean rises from 50 to 90, and sessions with it end 20 sessions later"
    yield text, drawn, f"{ended:.1%} in the order of the ends"
    once, singly = (
        count_claims(partial(resume_lineages, count=200, p=0.2, singly=each), count) for each in (False, True)
    )
    yield "lineages of five similar sessions, a lineage counted once", once, f"{singly:.1%} with each session counted"
    empty, filled = (
        count_claims(partial(fill_places, count=300, p=0.2, refilled=each), count) for each in (False, True)
    )
    yield "the place of a withheld entry stays empty", empty, f"{filled:.1%} if an entry that adds 15 points fills it"


def effect_rows(count: int) -> Iterator[tuple[str, str]]:
    """Yield a row for each world in which something has an effect: what it is, and what is found."""
    carried = [judge([*let_effects_last(rng, 400, 0.2, 5, 5)], SHARE).estimate or 0.0 for rng in chances(count)]
    yield (
        "half of an effect of 10 points acts at once, and half stays in the code",
        f"the median estimate is {median(carried):.1f}",
    )
    verdicts = [v for rng in chances(count) for v in judge_entries(twins(rng, 400, 0.2, 10), SHARE).values()]
    apart = sum(verdict.word == "helps" for verdict in verdicts) / len(verdicts)
    yield "two entries that say the same, either of which adds 10 points, drawn apart", f"{apart:.0%} of them found"
    group = sum(judge([*plain(rng, 400, 0.2, 10)], SHARE).word == "helps" for rng in chances(count)) / count
    yield "the same two entries, drawn as one group", f"the group found in {group:.0%} of the histories"
    effects = {f"e{number}": {0: 10.0, 1: 10.0, 2: -10.0}.get(number, 0.0) for number in range(30)}
    right = wrong = 0
    for rng in chances(count):
        words = {name: v.word for name, v in judge_entries(many(rng, 400, 0.2, effects), SHARE).items()}
        right += sum(words[name] == ("helps" if effect > 0 else "hurts") for name, effect in effects.items() if effect)
        wrong += sum(words[name] != "not known yet" for name, effect in effects.items() if not effect)
    yield (
        "30 entries drawn apart, three of them worth 10, 10 and -10 points",
        f"{right / count:.2f} of 3 found, {wrong / count:.2f} others wrongly",
    )


def compare_forecast(count: int) -> tuple[str, str]:
    """Return how the number of further sessions, named after 60 of them, agrees with what it took."""
    named, took = [], []
    for rng in chances(count):
        trials = [*plain(rng, 2000, 0.2, 10)]
        number = judge(trials[:60], SHARE).needed
        named += [number] if number else []
        took.append((first_claim({"": trials}, SHARE) or len(trials)) - 60)
    low, middle, high = quantiles(named, n=4)
    return (
        "an effect of 10 points, p = 0.2: further sessions, estimated after 60",
        f"estimated {middle:.0f} (the middle half from {low:.0f} to {high:.0f}), needed {median(took):.0f}",
    )


def main(words: Sequence[str]) -> int:
    """Print the tables, and return 1 where a bound does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.lift_simulation", description="Simulate lift.")
    parser.add_argument("count", nargs="?", type=int, default=COUNT, help="how many ledgers without effect")
    count = parser.parse_args(words).count
    fifth, twentieth = max(1, count // 5), max(2, count // 20)
    write = sys.stdout.write
    false = false_ledgers(count)
    write(f"{false:.1%} of {count} ledgers without effect ever claim something; at most {MOST_FALSE:.0%} may.\n\n")
    write("| effect | p | sessions until a claim | reference | times |\n|---|---|---|---|---|\n")
    worst = 0.0
    for (effect, p), reference in REFERENCE.items():
        found = median_sessions(effect, p, fifth)
        worst = max(worst, found / reference)
        write(f"| {effect} | {p} | {found:.0f} | {reference} | {found / reference:.2f} |\n")
    write("\n| no effect, and | false claims | without the measure |\n|---|---|---|\n")
    for text, share, otherwise in null_rows(fifth):
        false = max(false, share)
        write(f"| {text} | {share:.1%} | {otherwise} |\n")
    write("\n| missing outcomes | sessions until a claim |\n|---|---|\n")
    for missing in (0.0, 0.02, 0.05, 0.1):
        found = clean_sessions(missing, twentieth)
        write(f"| {missing:.0%} | {f'{found:.0f}' if found < FARTHEST else f'none in {FARTHEST}'} |\n")
    write("\n| an effect, 400 sessions, p = 0.2 | result |\n|---|---|\n")
    for text, result in (*effect_rows(twentieth), compare_forecast(fifth)):
        write(f"| {text} | {result} |\n")
    return int(false > MOST_FALSE or worst > MOST_SESSIONS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
