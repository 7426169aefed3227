"""Many stories in one fold: each is the story that a fold of its own tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given

from helpers.view_histories import HISTORIES, history
from tallybook.ledger.events import EventRedacted, PlaybookUpdated, PointAdded, PointMerged, PointRated, PointRestored
from tallybook.projections.entry_history.status import STATUS_VIEW
from tallybook.projections.entry_history.stories import stories_view
from tallybook.projections.entry_history.story import Story, audit_view, explain
from tallybook.projections.fold import fold_history

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch

NAMES = (*(f"kpt_{number:03d}" for number in (1, 2, 3, 4, 5, 10, 11)), "pat-001")
OWN = [field.name for field in attrs.fields(Story) if field.name not in {"seq", "chain", "latest_batch", "book"}]


def own_parts(story: Story) -> list[Any]:
    """Return the parts of a story of its own, with events by number."""
    values = {name: getattr(story, name) for name in OWN}
    values["last_undo_batch"] = story.last_undo_batch and story.last_undo_batch.last
    return list(values.items())


def check(batches: list[Batch]) -> None:
    """Compare each story, and what is explained of it, with folds of its own."""
    state = fold_history(stories_view(NAMES), lambda: batches)
    statuses = fold_history(STATUS_VIEW, lambda: batches)
    for name in NAMES:

        def story_as_of(until: int | None, name: str = name) -> Story:
            return fold_history(audit_view(name), lambda: batches, until)

        alone = story_as_of(None)
        assert own_parts(alone) == own_parts(state.stories[name]), name
        assert explain(alone, statuses, story_as_of) == explain(state.stories[name], state.statuses, story_as_of)


@given(stretches=HISTORIES)
def test_each_story_is_that_of_a_fold_of_its_own(stretches: list[list[Any]]) -> None:
    """Trail, ignored events, decision and exit agree for every name, and so does what `why` answers."""
    check(history(stretches))


def test_a_redaction_is_in_the_stories_of_its_event() -> None:
    """An event that redacts the text of an entry is a step of its story; redacting a merge is one of each entry."""
    stretches: list[list[Any]] = [
        [PointAdded("kpt_001", None), PointAdded("kpt_002", "b")],
        [PointMerged("kpt_002", ("kpt_001",), None)],
        [EventRedacted("id-1", "why"), EventRedacted("id-3", "why"), EventRedacted("id-99", "why")],
        [PointRated("kpt_001", "harmful"), PlaybookUpdated(0, 1, 0), PointRestored("kpt_001", "")],
    ]
    check(history(stretches))
    state = fold_history(stories_view(NAMES), lambda: history(stretches))
    steps = [step.record.seq for step in state.stories["kpt_001"].trail]
    assert [1, 3, 4, 5] == steps
