"""Every entry that is absent is explained: by the event without whose batch it would have stayed at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
import pytest

from helpers.view_histories import HISTORIES, history
from tallybook.ledger.events import (
    EventsVoided,
    PlaybookInjected,
    PlaybookUpdated,
    PointAdded,
    PointCited,
    PointEdited,
    PointMerged,
    PointNoted,
    PointRated,
    PointRemoved,
    PointRetired,
    PointSeeded,
)
from tallybook.projections.entry_history.status import STATUS_VIEW
from tallybook.projections.entry_history.story import audit_view, explain, find_exit
from tallybook.projections.fold import fold_history
from tallybook.projections.playbook.view import PLAYBOOK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tallybook.ledger.records import Batch
    from tallybook.projections.entry_history.story import Story

CLOSED = PlaybookUpdated(0, 0, 0)
LEARNED: list[Any] = [PointAdded("kpt_001", "Mock the clock"), CLOSED]
HARMED: list[Any] = [PointRated("kpt_001", "harmful"), CLOSED]
UNDO = EventsVoided((), "s0", "misread")


def teller(batches: Sequence[Batch], name: str) -> Callable[..., Story]:
    """Return what tells the story of a name up to a moment."""
    return lambda until=None: fold_history(audit_view(name), lambda: batches, until)


def told(*stretches: Sequence[Any], name: str = "kpt_001") -> dict[str, Any]:
    """Return what is told beside the stable story of a name."""
    return extras_of(history(stretches), name)


def extras_of(batches: Sequence[Batch], name: str) -> dict[str, Any]:
    """Return what is told beside the stable story of a name in a history."""
    tell = teller(batches, name)
    return explain(tell(), fold_history(STATUS_VIEW, lambda: batches), tell)[1]


def without(batches: Sequence[Batch], seq: int) -> tuple[Batch, list[Batch]]:
    """Return the batch of an event, and history up to that moment without it."""
    (batch,) = [one for one in batches if seq in {record.seq for record in one.records}]
    return batch, [one for one in batches if one.last < batch.last]


def stood(batches: Sequence[Batch], name: str) -> list[bool]:
    """Return for the moment before history and behind each batch whether the playbook had a name."""
    lasts = [0, *(batch.last for batch in batches)]
    return [name in fold_history(PLAYBOOK, lambda: batches, last).points for last in lasts]


@settings(max_examples=150)
@given(HISTORIES)
def test_every_absent_entry_is_explained(stretches: list[list[Any]]) -> None:
    """`why` names an event for each, and without that event's batch the entry is there at that moment.

    Hands, rules and undoings are among the random events, and undoings of undoings. What came and went within one
    batch was in the playbook at no moment; the event that took it out is named all the same.
    """
    batches = history(stretches)
    book = fold_history(PLAYBOOK, lambda: batches)
    for name in book.used - set(book.points):
        extras = extras_of(batches, name)
        batch, rest = without(batches, extras["vanished_by"]["seq"])
        assert any(stood(batches, name)) == extras["stood"]
        if extras["stood"]:
            assert name in fold_history(PLAYBOOK, lambda: rest).points  # noqa: B023 - called at once
            assert name not in fold_history(PLAYBOOK, lambda: batches, batch.last).points


@settings(max_examples=50)
@given(HISTORIES)
def test_an_entry_vanished_at_the_last_moment_that_took_it(stretches: list[list[Any]]) -> None:
    """The event named is of the batch behind which the entry was never seen again, moment by moment."""
    batches = history(stretches)
    for name in ("kpt_001", "kpt_002"):
        seen = stood(batches, name)
        event = find_exit(teller(batches, name)(), teller(batches, name))
        if seen[-1] or not any(seen):
            continue
        assert event is not None
        ended = max(index for index, stands in enumerate(seen) if stands)
        assert without(batches, event.seq)[0] is batches[ended]


@settings(max_examples=50)
@given(HISTORIES)
def test_what_stands_or_never_was_vanished_by_nothing(stretches: list[list[Any]]) -> None:
    """Only what is absent and was used has an event to name."""
    batches = history(stretches)
    book = fold_history(PLAYBOOK, lambda: batches)
    for name in [*book.points, "kpt_404"]:
        assert extras_of(batches, name)["vanished_by"] is None


def test_a_prune_hangs_on_its_last_harmful_rating() -> None:
    """What brought it, the rating that tipped it, and the update that pruned it decided; the others did not."""
    extras = told(LEARNED, *[HARMED] * 3, [PointRated("kpt_001", "harmful"), CLOSED])
    assert [1, 7, 8] == [event["seq"] for event in extras["deciding"]]
    assert 8 == extras["vanished_by"]["seq"]
    assert ["seq", "id", "at", "by", "summary"] == list(extras["vanished_by"])
    assert "kpt_001 rated harmful" == extras["deciding"][1]["summary"]


def test_what_brought_it_back_decided_too() -> None:
    """Every end and every return is told; a retirement hangs on no rating."""
    edited = PointEdited("kpt_001", 1, 1, "Mock time")
    extras = told(LEARNED, HARMED, [PointRetired("kpt_001", "")], [edited], [PointRemoved("kpt_001")])
    assert [1, 5, 6, 7] == [event["seq"] for event in extras["deciding"]]


def test_a_merge_decides_about_what_went_into_the_other() -> None:
    """For the entry that stays it is one more change."""
    stretches: list[list[Any]] = [
        [*LEARNED, PointAdded("kpt_002", "Mock time")],
        [PointMerged("kpt_002", ("kpt_001",), "")],
    ]
    assert [1, 4] == [event["seq"] for event in told(*stretches)["deciding"]]
    assert [3] == [event["seq"] for event in told(*stretches, name="kpt_002")["deciding"]]


def test_an_undoing_that_took_the_entry_away_is_named() -> None:
    """What had brought it, and what took that back, though the story without both is empty."""
    extras = told(LEARNED, HARMED, [UNDO])
    assert (5, [1, 5]) == (extras["vanished_by"]["seq"], [event["seq"] for event in extras["deciding"]])
    assert 's0 undone: "misread"' in extras["vanished_by"]["summary"]


def test_an_undoing_of_what_kept_the_entry_is_named() -> None:
    """Told anew, the entry fell to an earlier update; in the playbook it was until the undoing."""
    kept: list[Any] = [PointRated("kpt_001", "helpful")] * 3
    stretches: list[list[Any]] = [
        kept,
        LEARNED,
        kept,
        *[HARMED] * 3,
        [EventsVoided(("id-6", "id-7", "id-8"), None, "")],
    ]
    story = teller(history(stretches), "kpt_001")()
    assert story.decision is not None
    assert (14, 15) == (story.decision.seq, told(*stretches)["vanished_by"]["seq"])
    assert [4, 13, 14, 15] == [event["seq"] for event in told(*stretches)["deciding"]]


def test_what_came_and_went_in_one_batch_is_explained_by_what_took_it_out() -> None:
    """It was in no playbook, and still has an end; undone as a whole, its undoing."""
    batch = [PointAdded("kpt_001", "Mock the clock"), *[PointRated("kpt_001", "harmful")] * 3, CLOSED]
    assert 5 == told(batch)["vanished_by"]["seq"]
    assert 6 == told(batch, [UNDO])["vanished_by"]["seq"]
    assert [False, False, True] == [told(*stretches)["stood"] for stretches in ([batch], [batch, [UNDO]], [LEARNED])]


def test_what_was_said_beside_ratings_is_told() -> None:
    """Notes in order, with who and when; a redacted one without its words."""
    extras = told(LEARNED, [PointNoted("kpt_001", "harmful: it hung"), *HARMED], [PointNoted("kpt_001", None)])
    assert [(3, "harmful: it hung"), (6, None)] == [(note["seq"], note["note"]) for note in extras["notes"]]
    assert ["seq", "at", "by", "note"] == list(extras["notes"][0])


def test_uses_are_counted_and_change_nothing() -> None:
    """How often sessions were told of it and agents cited it, and when last; they are no steps of the story."""
    injected: list[Any] = [PlaybookInjected(("kpt_002", "kpt_001"), 0)]
    cited: list[Any] = [PointCited("kpt_001", "message"), PointCited("kpt_002", "Bash")]
    noted: list[Any] = [PointCited("kpt_001", "Bash"), PointNoted("kpt_001", "as [kpt_001] says")]
    stretches: list[list[Any]] = [LEARNED, injected, cited, [PlaybookInjected(("kpt_002",), 1)], noted, injected]
    extras = told(*stretches)
    assert (2, 9) == (extras["told"]["count"], extras["told"]["last"]["seq"])
    assert (2, 7) == (extras["cited"]["count"], extras["cited"]["last"]["seq"])
    story = teller(history(stretches), "kpt_001")()
    assert ([1, 8], []) == ([step.record.seq for step in story.trail], story.ignored)
    assert [{"count": 0, "last": None}] * 2 == [told(LEARNED)[key] for key in ("told", "cited")]


@pytest.mark.parametrize(("origin", "original"), [("dict_with_score", '{"score": -3}'), ("canonical", "")])
def test_a_seed_is_told_with_the_shape_it_had(origin: str, original: str) -> None:
    """People are told what the legacy file had."""
    extras = told([PointSeeded("kpt_001", 0, 3, origin, "Twice", original)])
    assert (origin, original) == (extras["origin"], extras["original"])
