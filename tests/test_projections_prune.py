"""Policies: when an entry is dropped, and how the rule is told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from ledger.events import KeyPoint
from projections.prune import SPEC_POLICY, Policy

COUNTS = st.integers(0, 50)


def condemned(policy: Policy, helpful: int, harmful: int) -> bool:
    """Say whether an entry with these counts goes."""
    return policy.condemns(KeyPoint("kpt_001", "use types", helpful, harmful))


@given(helpful=COUNTS, harmful=COUNTS)
def test_the_default_is_the_specification(helpful: int, harmful: int) -> None:
    """An entry goes if it is harmful at least three times and more often than helpful (REQ-SCORE-007)."""
    assert (harmful >= 3 and harmful > helpful) == condemned(SPEC_POLICY, helpful, harmful)


@given(floor=st.integers(1, 9), margin=st.integers(1, 9), helpful=COUNTS)
def test_no_policy_drops_what_nobody_called_harmful(floor: int, margin: int, helpful: int) -> None:
    """An entry without a harmful rating stays under every policy (INV-SCORE-003)."""
    assert not condemned(Policy("mine", floor, margin), helpful, 0)


@given(floor=st.integers(1, 9), margin=st.integers(1, 9), helpful=COUNTS, harmful=COUNTS)
def test_one_more_helpful_rating_never_condemns(floor: int, margin: int, helpful: int, harmful: int) -> None:
    """What stays still stays with one more helpful rating, and what goes still goes with one more harmful one."""
    policy = Policy("mine", floor, margin)
    goes = condemned(policy, helpful, harmful)
    assert goes >= condemned(policy, helpful + 1, harmful)
    assert goes <= condemned(policy, helpful, harmful + 1)


@pytest.mark.parametrize(
    ("floor", "margin", "rule"),
    [
        (3, 1, "harmful >= 3 AND harmful > helpful"),
        (5, 1, "harmful >= 5 AND harmful > helpful"),
        (1, 3, "harmful >= 1 AND harmful > helpful + 2"),
    ],
)
def test_the_rule_says_what_the_policy_does(floor: int, margin: int, rule: str) -> None:
    """A policy tells its rule as the specification writes it, with its own numbers."""
    policy = Policy("mine", floor, margin)
    assert rule == policy.rule
    conditions = rule.lower().split(" and ")
    for helpful in range(8):
        for harmful in range(8):
            counts = {"helpful": helpful, "harmful": harmful}
            holds = [eval(condition, {}, counts) for condition in conditions]  # noqa: S307 - the rule above, as told
            assert all(holds) == condemned(policy, helpful, harmful)


@pytest.mark.parametrize(("floor", "margin"), [(0, 1), (3, 0), (-1, 1)])
def test_a_policy_that_drops_the_unrated_cannot_be_made(floor: int, margin: int) -> None:
    """Floor and margin are at least one."""
    with pytest.raises(ValueError, match="must be >= 1"):
        Policy("mine", floor, margin)
