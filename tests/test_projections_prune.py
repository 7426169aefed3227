"""Policies: when an entry is pruned, and the text of the rule."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.view_histories import CLOSE, A, B, history
from tallybook.ledger.events import (
    Entry,
    PlaybookEdited,
    PointEdited,
    PointMerged,
    PointPinned,
    PointRated,
    PointRetired,
    PointReworded,
)
from tallybook.projections.playbook.entry import POLICIES, SPEC_POLICY, Policy
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.playbook.view import playbook_view

FINAL = playbook_view(POLICIES["final"])
UPDATES = st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=4), max_size=12)
COUNTS = st.integers(0, 50)


def condemned(policy: Policy, helpful: int, harmful: int) -> bool:
    """Return whether an entry with these counts is pruned."""
    return policy.prunes(Entry("kpt_001", "use types", helpful, harmful))


@given(helpful=COUNTS, harmful=COUNTS)
def test_the_default_is_the_specification(helpful: int, harmful: int) -> None:
    """An entry is pruned if it is harmful at least three times and more often than helpful (REQ-SCORE-007)."""
    assert (harmful >= 3 and harmful > helpful) == condemned(SPEC_POLICY, helpful, harmful)


@given(floor=st.integers(1, 9), margin=st.integers(1, 9), helpful=COUNTS)
def test_no_policy_prunes_an_entry_without_harmful_ratings(floor: int, margin: int, helpful: int) -> None:
    """Under every policy such an entry stays (INV-SCORE-003)."""
    assert not condemned(Policy("mine", floor, margin), helpful, 0)


@given(floor=st.integers(1, 9), margin=st.integers(1, 9), helpful=COUNTS, harmful=COUNTS)
def test_one_more_helpful_rating_never_condemns(floor: int, margin: int, helpful: int, harmful: int) -> None:
    """One more helpful rating never causes a prune, and one more harmful one never prevents it."""
    policy = Policy("mine", floor, margin)
    goes = condemned(policy, helpful, harmful)
    assert goes >= condemned(policy, helpful + 1, harmful)
    assert goes <= condemned(policy, helpful, harmful + 1)


# Wilson


def test_wilson_needs_certainty() -> None:
    """Worked by hand: four harmful and none helpful is beyond chance, three is not, and so is 9 against 2."""
    wilson = POLICIES["wilson"]
    least = {helpful: next(n for n in COUNTED if condemned(wilson, helpful, n)) for helpful in range(6)}
    assert {0: 4, 1: 7, 2: 9, 3: 11, 4: 12, 5: 14} == least


COUNTED = range(1, 60)


# Final


def standing(view: Any, updates: list[list[tuple[str, bool]]]) -> set[str]:
    """Return the present entries after updates of ratings of a and b, each helpful or not."""
    names = {"a": "kpt_001", "b": "kpt_002"}
    stretches = [
        [*(PointRated(names[name], "helpful" if good else "harmful") for name, good in update), CLOSE]
        for update in updates
    ]
    return set(fold_history(view, lambda: history([[A, B, CLOSE], *stretches])).entries)


@given(UPDATES)
def test_final_uses_the_counts_at_the_end(updates: list[list[tuple[str, bool]]]) -> None:
    """The sum of all ratings of each entry decides, whatever their order."""
    rated = [rating for update in updates for rating in update]
    counts = {name: [sum(n == name and good is g for n, g in rated) for good in (True, False)] for name in "ab"}
    expected = {f"kpt_00{1 + (name == 'b')}" for name in "ab" if not condemned(SPEC_POLICY, *counts[name])}
    assert expected == standing(FINAL, updates)


HARMFUL, HELPFUL = ([*[PointRated("kpt_001", word)] * 3, CLOSE] for word in ("harmful", "helpful"))


@pytest.mark.parametrize(
    ("stretches", "text", "counts"),
    [
        ([HARMFUL], None, None),
        ([HARMFUL, HELPFUL], "a", (3, 3)),
        ([HARMFUL, HELPFUL, HARMFUL], None, None),
        ([HARMFUL, [PointReworded("kpt_001", "", "a!")], HELPFUL], "a!", (3, 3)),
        ([HARMFUL, [PointPinned("kpt_001", "")], [CLOSE]], "a", (0, 3)),
        ([HARMFUL, [PointRetired("kpt_001", "")], HELPFUL], None, None),
        ([HARMFUL, [PointEdited("kpt_001", 0, 0, "b"), PlaybookEdited(None, None, "")], HARMFUL], None, None),
        (
            [[PointMerged("kpt_001", ("kpt_002",), "")], HARMFUL, [PointRated("kpt_002", "helpful")] * 3 + [CLOSE]],
            "a",
            (3, 3),
        ),
    ],
)
def test_an_entry_returns_under_final(
    stretches: list[list[Any]], text: str | None, counts: tuple[int, int] | None
) -> None:
    """It returns at the first update whose counts keep it, with all its ratings, unless it was removed."""
    point = fold_history(FINAL, lambda: history([[A, B, CLOSE], *stretches])).entries.get("kpt_001")
    assert (text, counts) == ((None, None) if point is None else (point.text, (point.helpful, point.harmful)))


# Weights
