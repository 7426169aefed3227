"""The statistics of lift: fair bets, verdicts in both directions, missing outcomes, shares of the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, product
from math import isclose, log, prod
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
import pytest

from helpers.commands import ROOT
from helpers.lift_worlds import clean_outcomes, first_claim, judge, lose_outcomes, plain
from helpers.sweep import slice_of
import lift_simulation
from tallybook.projections.scores import lift_verdict as verdict
from tallybook.projections.scores.lift_verdict import (
    Assumptions,
    Evidence,
    Trial,
    budget,
    claims,
    count_sessions,
    evidence_of,
    greatest_missing,
)

PROBABILITIES = st.floats(0.01, 0.99)
SHARE = budget(1)


def expectation(probabilities: Sequence[float], value: Callable[[tuple[bool, ...]], float]) -> float:
    """Return the exact expectation of a value over all draws with these probabilities."""
    return sum(
        prod(p if held else 1 - p for held, p in zip(draws, probabilities, strict=True)) * value(draws)
        for draws in product((False, True), repeat=len(probabilities))
    )


@pytest.fixture
def early_bets() -> Iterator[None]:
    """Let bets begin with the third outcome, so that few draws hold many bets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdict, "_START", 2)
        yield


ROWS = st.lists(st.tuples(PROBABILITIES, st.floats(0, 100)), min_size=1, max_size=8)


@pytest.mark.usefixtures("early_bets")
@settings(max_examples=slice_of(500, 25), deadline=None)
@given(ROWS, st.sampled_from([0, 1]))
@example([(0.2, 10.0), (0.5, 90.0), (0.9, 0.0), (0.1, 100.0), (0.3, 0.0), (0.6, 20.0), (0.2, 55.0), (0.8, 100.0)], 0)
def test_the_expected_wealth_is_one_over_all_draws(rows: list[tuple[float, float | None]], direction: int) -> None:
    """Rule 9: whatever the outcomes and probabilities, the mean wealth over all draws is 1 if these change nothing."""
    probabilities = [p for p, _ in rows]

    def wealth(draws: tuple[bool, ...]) -> float:
        return evidence_of([Trial(held, p, y) for held, (p, y) in zip(draws, rows, strict=True)])[direction]

    assert isclose(1.0, expectation(probabilities, wealth), rel_tol=1e-9)


@pytest.mark.usefixtures("early_bets")
@settings(max_examples=slice_of(300, 15), deadline=None)
@given(st.lists(st.floats(0, 60), min_size=8, max_size=8), st.floats(0, 40), st.sampled_from([0, 1]))
def test_past_draws_may_change_later_outcomes_and_probabilities(
    scores: list[float], carried: float, direction: int
) -> None:
    """Rule 9: the mean wealth is 1 where what earlier sessions were given stays, and later probabilities follow it."""

    def trials_of(draws: tuple[bool, ...]) -> list[Trial]:
        held_before = [0, *accumulate(draws)]
        return [
            Trial(held, (1 + before) / (2 + number), score + carried * before / 8)
            for number, (held, before, score) in enumerate(zip(draws, held_before, scores, strict=False))
        ]

    def weight(draws: tuple[bool, ...]) -> float:
        return prod(trial.probability if trial.held else 1 - trial.probability for trial in trials_of(draws))

    draws = product((False, True), repeat=8)
    assert isclose(1.0, sum(weight(d) * evidence_of(trials_of(d))[direction] for d in draws), rel_tol=1e-9)


@pytest.mark.usefixtures("early_bets")
@settings(max_examples=slice_of(300, 15), deadline=None)
@given(st.lists(st.tuples(PROBABILITIES, st.floats(0, 100), st.floats(0, 50)), min_size=1, max_size=8))
def test_a_direction_gains_nothing_where_the_truth_is_the_other(rows: list[tuple[float, float, float]]) -> None:
    """Rule 9: where being told only lowers outcomes, by whatever it is, the mean wealth for "helps" is at most 1."""
    probabilities = [p for p, _, _ in rows]

    def mirrored(draws: tuple[bool, ...], sign: int) -> list[Trial]:
        pairs = zip(draws, rows, strict=True)
        return [Trial(held, p, y if held else y - sign * harm) for held, (p, y, harm) in pairs]

    assert expectation(probabilities, lambda draws: evidence_of(mirrored(draws, 1)).helps) <= 1 + 1e-9
    assert expectation(probabilities, lambda draws: evidence_of(mirrored(draws, -1)).hurts) <= 1 + 1e-9


@pytest.mark.usefixtures("early_bets")
@settings(max_examples=slice_of(300, 15), deadline=None)
@given(st.lists(st.tuples(PROBABILITIES, st.floats(0, 100), st.booleans(), st.booleans()), min_size=1, max_size=8))
def test_missing_outcomes_gain_nothing_whatever_they_depend_on(rows: list[tuple[float, float, bool, bool]]) -> None:
    """Rule 8: where the draw and the outcome decide whether an outcome is missing, the mean wealth is at most 1."""
    probabilities = [p for p, *_ in rows]

    def trials_of(draws: tuple[bool, ...]) -> list[Trial]:
        pairs = zip(draws, rows, strict=True)
        return [
            Trial(held, p, None if (if_held if held else if_told) else y) for held, (p, y, if_told, if_held) in pairs
        ]

    for direction in (0, 1):
        assert expectation(probabilities, lambda draws: evidence_of(trials_of(draws))[direction]) <= 1 + 1e-9  # noqa: B023 - used at once


def make_scored_trials(count: int, *, told: float, held: float) -> list[Trial]:
    """Return trials at one half, in turn told and held, with outcomes 3 points around these."""
    return [Trial(bool(n % 2), 0.5, (held if n % 2 else told) + 3 * (-1) ** (n // 2)) for n in range(count)]


def test_a_long_series_stays_finite() -> None:
    """A large effect over thousands of sessions gives finite evidence in both directions, above zero in one."""
    evidence = evidence_of(make_scored_trials(20_000, told=100, held=0))
    assert 1e300 < evidence.helps < float("inf")
    assert 0.0 <= evidence.hurts < 1e-300


def test_the_interval_covers_the_effect() -> None:
    """Rule 9: of 25 histories with a constant effect, the interval leaves it out in one at most."""
    intervals = [judge([*plain(rng, 100, 0.5, 10)], SHARE).interval for rng in lift_simulation.chances(25)]
    assert sum(not pair or not pair[0] <= 10 <= pair[1] for pair in intervals) <= 1


def test_the_shares_of_all_questions_are_one_budget() -> None:
    """Rule 9: each question has a share, and however many are asked, the shares are 0.05 together."""
    shares = [budget(question) for question in range(1, 100_000)]
    assert 0.0499 < sum(shares) < 0.05
    assert sorted(shares, reverse=True) == shares
    assert min(shares) > 0


def test_entries_are_chosen_by_e_bh() -> None:
    """Rule 9: of 2n e-values the k largest are claimed, for the largest k whose k-th reaches 2n / (k * share)."""
    evidence = {"a": Evidence(90, 0), "b": Evidence(0, 50), "c": Evidence(26, 1), "d": Evidence(1, 1)}
    assert ({"a": "helps", "b": "hurts"}, 40) == claims(evidence, 0.1)
    assert ({"b": "hurts"}, 80) == claims(evidence | {"a": Evidence(1, 1), "b": Evidence(0, 80)}, 0.1)
    assert ({}, 80) == claims(evidence | {"a": Evidence(79, 0), "b": Evidence(0, 39)}, 0.1)


def test_ledgers_without_effect_hardly_ever_claim() -> None:
    """Rule 13: of ledgers without effect, at most 5 in 100 ever say something; `tests.lift_simulation` runs 1,000."""
    assert lift_simulation.false_ledgers(slice_of(1000, 60), slice_of(250, 100)) <= lift_simulation.MOST_FALSE


@pytest.mark.parametrize(("effect", "p"), [(10, 0.5), (20, 0.2), (20, 0.5)])
def test_an_effect_is_found_in_time(effect: int, p: float) -> None:
    """Rule 13: the median sample size is at most 1.4 times the reference; the documented table has all nine."""
    most = lift_simulation.MOST_SESSIONS * lift_simulation.REFERENCE[effect, p]
    assert lift_simulation.median_sessions(effect, p, slice_of(200, 60)) <= most


def test_the_documented_sample_sizes_are_within_the_bound() -> None:
    """Rule 13: the documented table has each effect and probability with its reference, at most 1.4 times of it."""
    page = (ROOT / "projections" / "scores" / "LIFT.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (0\.\d) \| (\d+) \| (\d+) \| [\d.]+ \|$", page, re.MULTILINE)
    assert {(int(effect), float(p)): int(reference) for effect, p, _, reference in rows} == lift_simulation.REFERENCE
    assert [] == [row for row in rows if int(row[2]) > lift_simulation.MOST_SESSIONS * int(row[3])]


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_opposite_missing_outcomes_make_no_false_claims(share: float) -> None:
    """Rule 8: sessions with it lose their worst outcomes and those without it their best, and nothing is claimed."""
    histories = [[*lose_outcomes(rng, 300, 0.2, share)] for rng in lift_simulation.chances(slice_of(200, 20))]
    claimed = sum(first_claim({"": trials}, SHARE) is not None for trials in histories)
    blind = sum(
        first_claim({"": [trial for trial in trials if trial.outcome is not None]}, SHARE) is not None
        for trials in histories
    )
    assert claimed <= lift_simulation.MOST_FALSE * len(histories) < blind


def test_the_number_of_sessions_agrees_with_what_it_takes() -> None:
    """`lift ask` names about what a verdict takes, more of them with missing outcomes, and none above a share."""
    [rng] = lift_simulation.chances(1)
    outcomes = [y for _, y in zip(range(500), clean_outcomes(rng), strict=False)]
    world = Assumptions(outcomes, (100 - sum(outcomes) / 500) / 2, 0.2, (0.0, 0.0), (80.0, 100.0))
    lead = log(2 * len(verdict.SIZES) / SHARE)
    shares = (0.0, 0.02, 0.05, 0.2)
    none, few, more, too_many = (count_sessions(world._replace(missing=(m, m)), lead) for m in shares)
    assert none is not None
    assert few is not None
    assert more is not None
    assert (True, None) == (none < few < more, too_many)
    assert 0.05 < greatest_missing(world) < 0.2
    assert none / 1.5 < lift_simulation.clean_sessions(0.0, slice_of(100, 20)) < 1.5 * none
