"""The statistics of lift: fair bets, verdicts in both directions, missing outcomes, shares of the budget."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, product
from math import isclose, log, prod
import re
from typing import TYPE_CHECKING

from hypothesis import example, given, settings
from hypothesis import strategies as st
import pytest

from helpers.lift_worlds import clean_outcomes, first_claim, many, opposed, plain
from helpers.repository import ROOT
from helpers.sweep import slice_of
import lift_simulation
from tallybook.projections.lift import betting
from tallybook.projections.lift.betting import Evidence, Trial, Wealth, evidence_of
from tallybook.projections.lift.planning import World, count_sessions, greatest_missing
from tallybook.projections.lift.verdict import budget, claims, judge, judge_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROBABILITIES = st.floats(0.01, 0.99)
OUTCOMES = st.none() | st.floats(0, 100) | st.sampled_from([0.0, 50.0, 100.0])
TRIALS = st.lists(st.builds(Trial, st.booleans(), PROBABILITIES, OUTCOMES, st.just((0.0, 100.0))), max_size=40)
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
        patch.setattr(betting, "_START", 2)
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


@settings(max_examples=slice_of(300, 40), deadline=None)
@given(TRIALS)
def test_exchanged_arms_mirror_the_verdict(trials: list[Trial]) -> None:
    """With the arms' labels and probabilities exchanged, "helps" becomes "hurts" and the difference its negative."""
    exchanged = [Trial(not trial.held, 1 - trial.probability, trial.outcome) for trial in trials]
    one, other = judge(trials, SHARE), judge(exchanged, SHARE)
    assert other.word == {"helps": "hurts", "hurts": "helps"}.get(one.word, one.word)
    assert (one.told, one.held, one.missing_told, one.missing_held) == (
        other.held,
        other.told,
        other.missing_held,
        other.missing_told,
    )
    assert one.evidence == pytest.approx(other.evidence[::-1], rel=1e-6)
    assert one.estimate == (None if other.estimate is None else pytest.approx(-other.estimate, abs=1e-6))


@settings(max_examples=slice_of(300, 40), deadline=None)
@given(TRIALS)
def test_a_look_changes_nothing(trials: list[Trial]) -> None:
    """The evidence of trials that came one by one, looked at after each, is that of all of them at once."""
    wealth, looks = Wealth(), []
    for trial in trials:
        wealth.add(trial)
        looks.append(wealth.evidence())
    assert looks == [evidence_of(trials[:number]) for number in range(1, len(trials) + 1)]
    assert all(value > 0 for look in looks for value in look)


def test_a_claim_ends_where_the_evidence_does() -> None:
    """A verdict is about the evidence of now: later sessions that speak against it take it back."""
    for_it = scored(40, told=80, held=60)
    assert "helps" == judge(for_it, SHARE).word
    assert "not known yet" == judge([*for_it, *scored(12, told=50, held=90)], SHARE).word
    assert "hurts" == judge([*for_it, *scored(60, told=50, held=90)], SHARE).word


def scored(count: int, *, told: float, held: float) -> list[Trial]:
    """Return trials at one half, in turn told and held, with outcomes 3 points around these."""
    return [Trial(bool(n % 2), 0.5, (held if n % 2 else told) + 3 * (-1) ** (n // 2)) for n in range(count)]


def test_a_long_series_stays_finite() -> None:
    """A large effect over thousands of sessions gives finite evidence in both directions, above zero in one."""
    evidence = evidence_of(scored(20_000, told=100, held=0))
    assert 1e300 < evidence.helps < float("inf")
    assert 0.0 <= evidence.hurts < 1e-300


@pytest.mark.parametrize("count", [0, 1, 9])
def test_few_sessions_say_so_and_nothing_else(count: int) -> None:
    """With fewer than five outcomes of an arm there is no estimate, no interval and no number of further sessions."""
    verdict = judge(scored(count, told=100, held=0), SHARE)
    told = count - count // 2
    assert ("not known yet", None, None, None) == (verdict.word, verdict.needed, verdict.estimate, verdict.interval)
    assert (
        f"too few sessions: {told} with it and {count // 2} without it have an outcome, "
        "and at least 5 of each are needed"
    ) == verdict.reason


def test_the_estimate_weighs_by_the_recorded_probability() -> None:
    """Rule 9: Hajek's estimate divides by the probability of each trial's arm, so that a change of it does no harm."""
    rows = [(p, level) for p, level, count in ((0.5, 60, 8), (0.2, 90, 10)) for _ in range(count)]
    held = {0, 1, 2, 3, 8, 9}
    trials = [Trial(n in held, p, level - 10 * (n in held)) for n, (p, level) in enumerate(rows)]
    verdict = judge(trials, SHARE)
    # Held: four of weight 2 at 50 and two of weight 5 at 80. Told: four of weight 2 at 60, eight of 1.25 at 90.
    assert verdict.estimate == pytest.approx((8 * 60 + 10 * 90) / 18 - (8 * 50 + 10 * 80) / 18)


def test_the_number_of_further_sessions_follows_from_the_estimate() -> None:
    """Rule 9: about so many more sessions, each adding p * (1 - p) * d ** 2 / 2 to the logarithm, reach the claim."""
    verdict = judge(scored(20, told=71, held=70), SHARE)
    # The estimate is 1 point, and the outcomes of an arm lie 3 points around its mean.
    exact = (log(2 / SHARE) - log(verdict.evidence.helps)) / (0.25 * (1 / 3) ** 2 / 2)
    assert verdict.needed is not None
    assert exact <= verdict.needed <= 1.1 * exact
    no_difference = judge(scored(20, told=70, held=70), SHARE)
    assert (0, None) == (no_difference.estimate, no_difference.needed)


@pytest.mark.parametrize(("effect", "seed"), [(0, 1), (10, 2), (-20, 3), (25, 4)])
def test_the_interval_inverts_the_test(effect: float, seed: int) -> None:
    """Rule 9: the interval has the differences that the test does not reject; zero is outside where a claim is."""
    [rng] = lift_simulation.chances(seed + 1)[seed:]
    trials = [*plain(rng, 120, 0.5, effect)]
    verdict = judge(trials, SHARE)
    assert verdict.interval is not None
    low, high = verdict.interval
    kept = [shift for shift in range(-100, 101) if max(evidence_of(trials, shift)) < 2 / SHARE]
    assert (kept[0], kept[-1]) == pytest.approx((low, high), abs=1.5)
    assert kept == [*range(kept[0], kept[-1] + 1)]
    assert (low < 0 < high) == (verdict.word == "not known yet")


def test_the_interval_covers_the_effect() -> None:
    """Rule 9: of 25 histories with a constant effect, the interval leaves it out in one at most."""
    intervals = [judge([*plain(rng, 100, 0.5, 10)], SHARE).interval for rng in lift_simulation.chances(25)]
    assert sum(not pair or not pair[0] <= 10 <= pair[1] for pair in intervals) <= 1


@pytest.mark.parametrize("scale", [0.0, 1e-100, 1.0, 1e100])
def test_outcomes_of_any_size_are_judged(scale: float) -> None:
    """Outcomes that are all the same say nothing, and those of any other unit say what scores do."""
    trials = [trial._replace(outcome=(trial.outcome or 0) / 100 * scale) for trial in scored(60, told=80, held=60)]
    verdict = judge(trials, SHARE)
    assert ("not known yet" if scale == 0 else "helps") == verdict.word
    assert verdict.estimate == pytest.approx(0.2 * scale)
    assert (verdict.interval is None) == (scale == 0)


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


@settings(max_examples=slice_of(300, 20), deadline=None)
@given(TRIALS)
def test_a_single_entry_is_judged_as_a_question(trials: list[Trial]) -> None:
    """A question about one entry is judged alike by both functions, and an entry without trials says that it is few."""
    assert {"kpt_001": judge(trials, SHARE)} == judge_entries({"kpt_001": trials}, SHARE)
    assert {} == judge_entries({}, SHARE)
    assert judge([], SHARE)._replace(evidence=Evidence(1, 1)) == judge_entries({"a": trials, "b": []}, SHARE)["b"]


def test_entries_that_help_and_hurt_are_named() -> None:
    """Of eight entries drawn apart, the two with an effect are named with their direction, and no other."""
    effects = {f"kpt_{n:03}": {1: 25.0, 2: -25.0}.get(n, 0.0) for n in range(1, 9)}
    [rng] = lift_simulation.chances(1)
    verdicts = judge_entries(many(rng, 300, 0.3, effects), SHARE)
    expected = {"kpt_001": "helps", "kpt_002": "hurts"}
    assert expected == {name: v.word for name, v in verdicts.items() if v.word != "not known yet"}


@pytest.mark.parametrize(("p", "outcome"), [(0.0, 5), (1.0, 5), (0.5, float("nan")), (0.5, -1e200)])
def test_an_impossible_trial_is_refused(p: float, outcome: float) -> None:
    """A probability that is no chance, or an outcome that is no number, is an error and not a verdict."""
    with pytest.raises(ValueError, match=r"(probability|outcome) .*: must be"):
        judge([Trial(held=True, probability=p, outcome=outcome)], SHARE)


def test_ledgers_without_effect_hardly_ever_claim() -> None:
    """Rule 13: of ledgers without effect, at most 5 in 100 ever say something; `tests.lift_simulation` runs 1,000."""
    assert lift_simulation.false_ledgers(slice_of(1000, 60), slice_of(250, 100)) <= lift_simulation.MOST_FALSE


Payoff = Callable[[Trial, float], float]


def paid_at_fixed_odds(trial: Trial, odds: float) -> float:
    """Return the payoff as if each draw had been made at 0.2."""
    return (odds if trial.held else 1.0) / (0.8 + 0.2 * odds)


def paid_too_much(trial: Trial, odds: float) -> float:
    """Return a payoff that is a twentieth too high, a bet that no draw loses in the mean."""
    return 1.05 * (odds if trial.held else 1.0) / (1 - trial.probability + trial.probability * odds)


@pytest.mark.parametrize("broken", [paid_at_fixed_odds, paid_too_much])
def test_a_broken_bet_breaks_the_bound(
    monkeypatch: pytest.MonkeyPatch, broken: Callable[[Trial, float], float]
) -> None:
    """The bound of that simulation is able to fail: with bets that are not fair more ledgers claim something."""
    monkeypatch.setattr(betting, "payoff", broken)
    assert lift_simulation.false_ledgers(40, 160) > lift_simulation.MOST_FALSE


@pytest.mark.parametrize(("effect", "p"), [(10, 0.5), (20, 0.2), (20, 0.5)])
def test_an_effect_is_found_in_time(effect: int, p: float) -> None:
    """Rule 13: the median sample size is at most 1.4 times the reference; the documented table has all nine."""
    most = lift_simulation.MOST_SESSIONS * lift_simulation.REFERENCE[effect, p]
    assert lift_simulation.median_sessions(effect, p, slice_of(200, 60)) <= most


def test_the_documented_sample_sizes_are_within_the_bound() -> None:
    """Rule 13: the documented table has each effect and probability with its reference, at most 1.4 times of it."""
    page = (ROOT / "projections" / "lift" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (0\.\d) \| (\d+) \| (\d+) \| [\d.]+ \|$", page, re.MULTILINE)
    assert {(int(effect), float(p)): int(reference) for effect, p, _, reference in rows} == lift_simulation.REFERENCE
    assert [] == [row for row in rows if int(row[2]) > lift_simulation.MOST_SESSIONS * int(row[3])]


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_opposite_missing_outcomes_make_no_false_claims(share: float) -> None:
    """Rule 8: sessions with it lose their worst outcomes and those without it their best, and nothing is claimed."""
    histories = [[*opposed(rng, 300, 0.2, share)] for rng in lift_simulation.chances(slice_of(200, 20))]
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
    world = World(outcomes, (100 - sum(outcomes) / 500) / 2, 0.2, (0.0, 0.0), (80.0, 100.0))
    lead = log(2 * len(betting.SIZES) / SHARE)
    shares = (0.0, 0.02, 0.05, 0.2)
    none, few, more, too_many = (count_sessions(world._replace(missing=(m, m)), lead) for m in shares)
    assert none is not None
    assert few is not None
    assert more is not None
    assert (True, None) == (none < few < more, too_many)
    assert 0.05 < greatest_missing(world) < 0.2
    assert none / 1.5 < lift_simulation.clean_sessions(0.0, slice_of(100, 20)) < 1.5 * none
