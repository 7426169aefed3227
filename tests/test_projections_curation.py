"""Curation in the fold: merged, pinned, restored and reworded entries, and how the rule treats them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.undo_histories import SAID, folded, followed_by, playbook
from helpers.view_histories import history
from tallybook.ledger.events import (
    Entry,
    PlaybookEdited,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointMerged,
    PointPinned,
    PointRated,
    PointRemoved,
    PointRestored,
    PointRetired,
    PointReworded,
    PointSeeded,
    PointUnpinned,
)

CLOSE = PlaybookUpdated(0, 0, 0)
EDIT = PlaybookEdited(None, None, "")
A, B, C = (PointAdded(f"kpt_{number:03d}", text) for number, text in enumerate("abc", 1))

PAIR = st.builds(PointRated, st.sampled_from(["kpt_001", "kpt_002"]), st.sampled_from(["helpful", "harmful"]))


@given(st.lists(PAIR))
def test_a_merged_pair_has_the_sum(ratings: list[PointRated]) -> None:
    """Ratings of both entries count for the target, before the merge and after it."""
    for cut in range(len(ratings) + 1):
        state = playbook([A, B, *ratings[:cut]], [PointMerged("kpt_001", ("kpt_002",), ""), *ratings[cut:]])
        counts = [sum(one.rating == rating for one in ratings) for rating in ("helpful", "harmful")]
        assert {"kpt_001": Entry("kpt_001", "a", *counts)} == state.entries


def test_a_merged_entry_that_a_manual_edit_sets_is_separate_again() -> None:
    """Later ratings are its own; the merge target keeps the earlier ones."""
    told = [A, B, PointRated("kpt_002", "helpful"), PointMerged("kpt_001", ("kpt_002",), "")]
    state = playbook(told, [PointEdited("kpt_002", 5, 0, "b again"), EDIT], [PointRated("kpt_002", "harmful")])
    assert [Entry("kpt_001", "a", 1, 0), Entry("kpt_002", "b again", 5, 1)] == list(state.entries.values())
    gone = [PointRemoved("kpt_002"), EDIT]
    late = [PointRated("kpt_002", "harmful"), CLOSE]
    state = playbook(told, [PointEdited("kpt_002", 5, 0, "b again"), EDIT], gone, late)
    assert {"kpt_001": Entry("kpt_001", "a", 1, 0)} == state.entries


LEAVING = PointRemoved | PointRetired | PointMerged | PointUnpinned
STAYING = SAID.filter(lambda event: not isinstance(event, LEAVING))


@given(st.lists(st.lists(STAYING, min_size=1, max_size=6), max_size=6))
def test_a_pinned_entry_is_never_pruned(future: list[list[Any]]) -> None:
    """Whatever its ratings or counts, it stays until someone removes or unpins it."""
    batches = history([[A, PointPinned("kpt_001", "")], *future])
    assert [True] * len(batches) == ["kpt_001" in folded(batches, batch.last).entries for batch in batches]


OTHERS = SAID.filter(
    lambda event: (
        not isinstance(event, LEAVING | PointSeeded | PointEdited)
        and not (isinstance(event, PointRated) and (event.name, event.rating) == ("kpt_001", "harmful"))
    )
)


@given(st.lists(st.lists(OTHERS, min_size=1, max_size=6), max_size=6), st.integers(3, 6))
def test_a_restored_entry_is_pruned_only_by_a_further_harmful_rating(future: list[list[Any]], harmful: int) -> None:
    """Updates skip it until it is rated harmful once more; then the rule applies again."""
    rated = [PointRated("kpt_001", "harmful")]
    batches = history([[A, *rated * harmful, CLOSE], [PointRestored("kpt_001", "")], *future])
    state = folded(batches)
    assert {"kpt_001"} <= state.entries.keys()
    helpful = state.entries["kpt_001"].helpful
    fate = folded(followed_by(batches, [*rated * (helpful + 1), CLOSE]))
    assert ("kpt_001" in state.pinned) == ("kpt_001" in fate.entries)


@pytest.mark.parametrize(
    ("event", "stands"),
    [
        (PointEdited("kpt_001", 0, 3, "better said"), True),
        (PointReworded("kpt_001", "", "better said"), True),
        (PointEdited("kpt_001", 0, 4, "a"), False),
        (PointMerged("kpt_001", ("kpt_002",), ""), True),
        (PointMerged("kpt_002", ("kpt_001",), ""), True),
        (PointMerged("kpt_003", ("kpt_001",), ""), False),
    ],
)
def test_a_pardon_holds_for_its_counts(event: Any, stands: bool) -> None:
    """A new text keeps it, and so does a merge with an entry without harmful ratings; other counts end it."""
    pruned = [A, B, C, PointRated("kpt_003", "harmful"), *[PointRated("kpt_001", "harmful")] * 3, CLOSE]
    state = playbook(pruned, [PointRestored("kpt_001", "")], [event], [CLOSE])
    assert stands == (state.entries.keys() >= {event.name})


@pytest.mark.parametrize("leaving", [PointRetired("kpt_001", ""), PointRemoved("kpt_001"), CLOSE])
def test_a_restored_entry_has_its_last_state(leaving: Any) -> None:
    """Retired, removed or pruned, it returns with its text and counts, after the others."""
    rated = [PointRated("kpt_001", rating) for rating in ("helpful", "harmful", "harmful", "harmful")]
    gone = playbook([A, B, *rated, PointReworded("kpt_001", "", "A")], [leaving])
    assert ["kpt_002"] == list(gone.entries)
    state = playbook([A, B, *rated, PointReworded("kpt_001", "", "A")], [leaving], [PointRestored("kpt_001", "")])
    assert [Entry("kpt_002", "b"), Entry("kpt_001", "A", 1, 3)] == list(state.entries.values())
