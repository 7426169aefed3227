"""Every absent entry has an explanation: the event without whose batch it would still be there at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings

from helpers.injections import injected
from helpers.sweep import slice_of
from helpers.view_histories import HISTORIES, history
from tallybook.ledger.events import (
    EventsVoided,
    PlaybookUpdated,
    PointAdded,
    PointCited,
    PointNoted,
    PointRated,
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


def story_teller(batches: Sequence[Batch], name: str) -> Callable[..., Story]:
    """Return a function that returns the story of a name up to a moment."""
    return lambda until=None: fold_history(audit_view(name), lambda: batches, until)


def further_fields(*stretches: Sequence[Any], name: str = "kpt_001") -> dict[str, Any]:
    """Return the further fields of a name's story, apart from the stable ones."""
    return extras_of(history(stretches), name)


def extras_of(batches: Sequence[Batch], name: str) -> dict[str, Any]:
    """Return the further fields of a name's story in a history."""
    tell = story_teller(batches, name)
    return explain(tell(), fold_history(STATUS_VIEW, lambda: batches), tell)[1]


def without(batches: Sequence[Batch], seq: int) -> tuple[Batch, list[Batch]]:
    """Return the batch of an event, and history up to that moment without it."""
    (batch,) = [one for one in batches if seq in {record.seq for record in one.records}]
    return batch, [one for one in batches if one.last < batch.last]


def presence(batches: Sequence[Batch], name: str) -> list[bool]:
    """Return for the moment before a history and after each batch whether the playbook had a name."""
    lasts = [0, *(batch.last for batch in batches)]
    return [name in fold_history(PLAYBOOK, lambda: batches, last).entries for last in lasts]


@settings(max_examples=slice_of(150, 50))
@given(HISTORIES)
def test_every_absent_entry_is_explained(stretches: list[list[Any]]) -> None:
    """`why` names an event for each, and without that event's batch the entry is there at that moment.

    Manual edits, rules and undos are among the random events, and undos of undos. An entry that was added and removed
    within one batch was in the playbook at no moment; the event that removed it is still named.
    """
    batches = history(stretches)
    book = fold_history(PLAYBOOK, lambda: batches)
    for name in book.used - set(book.entries):
        extras = extras_of(batches, name)
        batch, rest = without(batches, extras["vanished_by"]["seq"])
        assert any(presence(batches, name)) == extras["stood"]
        if extras["stood"]:
            assert name in fold_history(PLAYBOOK, lambda: rest).entries  # noqa: B023 - called at once
            assert name not in fold_history(PLAYBOOK, lambda: batches, batch.last).entries


@settings(max_examples=50)
@given(HISTORIES)
def test_the_removing_event_is_at_the_last_removal(stretches: list[list[Any]]) -> None:
    """The named event is in the batch after which the entry was never present again, moment by moment."""
    batches = history(stretches)
    for name in ("kpt_001", "kpt_002"):
        seen = presence(batches, name)
        event = find_exit(story_teller(batches, name)(), story_teller(batches, name))
        if seen[-1] or not any(seen):
            continue
        assert event is not None
        ended = max(index for index, stands in enumerate(seen) if stands)
        assert without(batches, event.seq)[0] is batches[ended]


@settings(max_examples=50)
@given(HISTORIES)
def test_a_present_or_unknown_entry_has_no_removal(stretches: list[list[Any]]) -> None:
    """Only an absent entry whose name was used has an event to name."""
    batches = history(stretches)
    book = fold_history(PLAYBOOK, lambda: batches)
    for name in [*book.entries, "kpt_404"]:
        assert extras_of(batches, name)["vanished_by"] is None


def test_the_last_ten_ratings_are_listed() -> None:
    """Of many ratings that counted, the last ten are listed among the events that decided, and neutral ones are not."""
    ratings = [PointRated("kpt_001", rating) for _ in range(11) for rating in ("helpful", "neutral")]
    extras = further_fields(LEARNED, ratings)
    assert [1, *range(5, 24, 2)] == [event["seq"] for event in extras["deciding"]]


def test_an_undo_of_an_addition_is_named() -> None:
    """The addition and its undo are listed, although the story without both is empty."""
    extras = further_fields(LEARNED, HARMED, [UNDO])
    assert (5, [1, 5]) == (extras["vanished_by"]["seq"], [event["seq"] for event in extras["deciding"]])
    assert 's0 undone: "misread"' in extras["vanished_by"]["summary"]


def test_an_undo_that_caused_a_prune_is_named() -> None:
    """Refolded, the entry was pruned by an earlier update; in the playbook it was present until the undo."""
    kept: list[Any] = [PointRated("kpt_001", "helpful")] * 3
    stretches: list[list[Any]] = [
        kept,
        LEARNED,
        kept,
        *[HARMED] * 3,
        [EventsVoided(("id-6", "id-7", "id-8"), None, "")],
    ]
    story = story_teller(history(stretches), "kpt_001")()
    assert story.decision is not None
    assert (14, 15) == (story.decision.seq, further_fields(*stretches)["vanished_by"]["seq"])
    assert [4, 9, 11, 13, 14, 15] == [event["seq"] for event in further_fields(*stretches)["deciding"]]


def test_an_entry_of_one_batch_is_explained_by_its_removal() -> None:
    """It was in no playbook, and still has an end: if its batch is undone, the undo."""
    batch = [PointAdded("kpt_001", "Mock the clock"), *[PointRated("kpt_001", "harmful")] * 3, CLOSED]
    assert 5 == further_fields(batch)["vanished_by"]["seq"]
    assert 6 == further_fields(batch, [UNDO])["vanished_by"]["seq"]
    assert [False, False, True] == [
        further_fields(*stretches)["stood"] for stretches in ([batch], [batch, [UNDO]], [LEARNED])
    ]


def test_uses_are_counted_and_change_nothing() -> None:
    """Injections and citations have a number and a last time; they are no steps of the story."""
    given: list[Any] = [injected(("kpt_002", "kpt_001"), 0)]
    cited: list[Any] = [PointCited("kpt_001", "message"), PointCited("kpt_002", "Bash")]
    noted: list[Any] = [PointCited("kpt_001", "Bash"), PointNoted("kpt_001", "as [kpt_001] says")]
    stretches: list[list[Any]] = [LEARNED, given, cited, [injected(("kpt_002",), 1)], noted, given]
    extras = further_fields(*stretches)
    assert (2, 9) == (extras["told"]["count"], extras["told"]["last"]["seq"])
    assert (2, 7) == (extras["cited"]["count"], extras["cited"]["last"]["seq"])
    story = story_teller(history(stretches), "kpt_001")()
    assert ([1, 8], []) == ([step.record.seq for step in story.trail], story.ignored)
    assert [{"count": 0, "last": None}] * 2 == [further_fields(LEARNED)[key] for key in ("told", "cited")]
