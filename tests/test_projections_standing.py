"""The standing view: the event that last changed each entry, why others were removed, and how sure the counts are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from helpers.sweep import slice_of
from helpers.view_histories import HISTORIES, history
from tallybook.ledger.events import (
    Entry,
    EventsVoided,
    PlaybookEdited,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointMerged,
    PointPinned,
    PointRated,
    PointRemoved,
    PointRetired,
    PointReworded,
)
from tallybook.projections.entry_history.status import EntryStatuses, blame, graveyard, status_view
from tallybook.projections.fold import fold, fold_history
from tallybook.projections.fold import history as retold
from tallybook.projections.playbook.confidence import interval, lower_bound
from tallybook.projections.playbook.render import needs_ratings
from tallybook.projections.playbook.view import PLAYBOOK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallybook.projections.playbook.prune import Policy

CLOSED = PlaybookUpdated(0, 0, 0)
LEARNED = [PointAdded("kpt_001", "Use types"), PointAdded("kpt_002", "Mock time"), CLOSED]


def standing(*stretches: Sequence[Any], policy: Policy | None = None) -> EntryStatuses:
    """Return the status of every name after these batches."""
    batches = history(stretches)
    return fold_history(status_view(*[policy] if policy else []), lambda: batches)


def seqs(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return name → the event that a row names."""
    return {row["name"]: row["event"]["seq"] for row in rows}


@pytest.mark.parametrize(
    ("events", "seq"),
    [
        ([PointRated("kpt_001", "helpful")], 4),
        ([PointRated("kpt_001", "neutral")], 1),
        ([PointReworded("kpt_001", "", "Use all types")], 4),
        ([PointPinned("kpt_001", "")], 1),
        ([PointEdited("kpt_001", 0, 0, "Use types")], 1),
        ([PointEdited("kpt_001", 0, 1, "Use types")], 4),
        ([PointMerged("kpt_001", ("kpt_002",), ""), PointRated("kpt_002", "helpful")], 5),
    ],
)
def test_blame_names_the_last_change_of_counts_text_or_status(events: list[Any], seq: int) -> None:
    """An event without effect on an entry is not named; a rating of a merged entry is."""
    assert seq == seqs(blame(standing(LEARNED, events)))["kpt_001"]


@settings(max_examples=40)
@given(HISTORIES)
def test_blame_is_right_about_every_entry(stretches: list[list[Any]]) -> None:
    """After that event's batch an entry is as it is now, and before it was different or absent."""
    batches = list(retold(lambda: history(stretches)))
    now = fold(PLAYBOOK, batches).entries
    for name, seq in seqs(blame(fold(status_view(), batches))).items():
        (place,) = [index for index, batch in enumerate(batches) if seq in {one.seq for one in batch.records}]
        assert now[name] == fold(PLAYBOOK, batches[: place + 1]).entries[name]
        assert all(now[name] == fold(PLAYBOOK, batches[:k]).entries[name] for k in range(place + 1, len(batches) + 1))


@given(HISTORIES)
def test_every_name_is_present_or_in_the_graveyard(stretches: list[list[Any]]) -> None:
    """No used name is missing from both, and none is in both."""
    state = fold_history(status_view(), lambda: history(stretches))
    book = fold_history(PLAYBOOK, lambda: history(stretches))
    assert [*book.entries] == [row["name"] for row in blame(state)]
    graves = [row["name"] for row in graveyard(state)]
    assert book.used == {*book.entries, *graves}
    assert len(book.used) == len(book.entries) + len(graves)


@settings(max_examples=slice_of(200, 50))
@given(stretches=HISTORIES)
def test_blame_equals_a_comparison_of_moments(stretches: list[list[Any]]) -> None:
    """With one event a batch, comparing the moments shows which event changed an entry last."""
    batches = list(retold(lambda: history([[event] for stretch in stretches for event in stretch])))
    last: dict[str, int] = {}
    before: Mapping[str, Entry] = {}
    for count, batch in enumerate(batches, 1):
        after = fold(PLAYBOOK, batches[:count]).entries
        last |= {name: batch.last for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        before = after
    state = fold(status_view(), batches)
    told = seqs(blame(state)) | seqs([row for row in graveyard(state) if row["status"] != "undone"])
    assert last == told


@pytest.mark.parametrize(
    ("events", "status", "reason", "into"),
    [
        ([PointRetired("kpt_001", "stale")], "retired", "stale", None),
        ([PointRetired("kpt_001", None)], "retired", None, None),
        ([PointRemoved("kpt_001"), PlaybookEdited(None, None, "")], "retired", None, None),
        ([PointMerged("kpt_002", ("kpt_001",), "the same")], "merged", "the same", "kpt_002"),
        ([EventsVoided(("id-1",), None, "misread")], "undone", "misread", None),
        ([EventsVoided((), "s0", "")], "undone", None, None),
    ],
)
def test_a_removed_entry_is_there_with_its_reason(
    events: list[Any], status: str, reason: str | None, into: str | None
) -> None:
    """Retired, removed, merged and undone entries have the reason, if one was given, and keep their text."""
    row = next(row for row in graveyard(standing(LEARNED, events)) if row["name"] == "kpt_001")
    assert (status, reason, into, 4) == (row["status"], row["reason"], row["into"], row["event"]["seq"])
    assert ("Use types", None) == (row["text"], row["rule"])


# How sure counts are


@pytest.mark.parametrize(
    ("helpful", "harmful", "low", "high"),
    [(0, 0, 0.0, 1.0), (1, 0, 0.2065, 1.0), (0, 1, 0.0, 0.7935), (8, 2, 0.4902, 0.9433), (50, 50, 0.4038, 0.5962)],
)
def test_an_interval_is_that_of_wilson(helpful: int, harmful: int, low: float, high: float) -> None:
    """It equals tables of the score interval at 95 %; that of an unrated entry is 0 to 1."""
    assert (low, high) == pytest.approx(interval(helpful, harmful), abs=5e-5)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_an_interval_holds_the_share_and_mirrors(helpful: int, harmful: int) -> None:
    """It is within 0 and 1 around the share, its lower end ranks entries, and it mirrors with the counts."""
    low, high = interval(helpful, harmful)
    share = helpful / (helpful + harmful) if helpful + harmful else 0.5
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1
    assert lower_bound(helpful, harmful) == low
    assert (1 - high, 1 - low) == pytest.approx(interval(harmful, helpful), abs=1e-9)


def test_the_least_certain_entries_are_first() -> None:
    """Unrated ones are first, the older of equals before the newer, and the surest last."""
    added = [PointAdded(f"kpt_00{number}", "x") for number in range(1, 5)]
    rated = [*[PointRated("kpt_001", "helpful")] * 5, PointRated("kpt_003", "harmful")]
    rows = needs_ratings(fold(PLAYBOOK, history([added, rated])))
    assert ["kpt_002", "kpt_004", "kpt_003", "kpt_001"] == [row["name"] for row in rows]
    assert [row["high"] - row["low"] for row in rows] == [row["width"] for row in rows]
    assert [] == needs_ratings(PLAYBOOK.start())
