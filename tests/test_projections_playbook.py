"""The playbook view: what each kind of event makes of it."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tallybook.ledger.events import (
    Entry,
    EventRedacted,
    ItemSkipped,
    LedgerOpened,
    PlaybookAdopted,
    PlaybookEdited,
    PlaybookOrdered,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointRated,
    PointRemoved,
    PointSeeded,
)
from tallybook.ledger.records import Batch, EventRecord, make_batch
from tallybook.projections.fold import fold
from tallybook.projections.playbook.entry_state import REDACTED, evolve
from tallybook.projections.playbook.prune import Policy
from tallybook.projections.playbook.view import PLAYBOOK, Playbook, playbook_view

CLOSE = PlaybookUpdated(0, 0, 0)
EDIT = PlaybookEdited(None, None, "")
A, B, C = (PointAdded(f"kpt_{number:03d}", text) for number, text in enumerate("abc", 1))


def at(seq: int) -> str:
    """Return the time at which a test's event was recorded."""
    return f"2026-01-01T00:00:{seq:02d}.000000Z"


def history(*stretches: list[Any]) -> list[Batch]:
    """Return events as batches, a second for each event."""
    seq = count(1)
    return [
        make_batch(*(EventRecord(number, at(number), event) for event, number in zip(events, seq, strict=False)))
        for events in stretches
    ]


def playbook(*stretches: list[Any]) -> Playbook:
    """Return the playbook behind these batches."""
    return fold(PLAYBOOK, history(*stretches))


def harmful(name: str, times: int = 3) -> list[Any]:
    """Return so many harmful ratings of an entry."""
    return [PointRated(name, "harmful")] * times


def test_the_story_of_style_6() -> None:
    """An entry that is rated harmful three times by three updates is pruned by the last."""
    first, second, third = ([PointRated("kpt_001", "harmful"), CLOSE] for _ in range(3))
    assert Entry("kpt_001", "a", 0, 2) == playbook([A, CLOSE], first, second).points["kpt_001"]
    assert {} == playbook([A, CLOSE], first, second, third).points


def test_seeds_prune_nothing_until_an_update() -> None:
    """A legacy entry that the rule condemns stands until the next update, which need not rate it."""
    seeded = [PlaybookAdopted("0" * 64, 1, "{}"), PointSeeded("kpt_001", 0, 7, "canonical", "a", "")]
    assert ["kpt_001"] == list(playbook(seeded).points)
    assert [] == list(playbook(seeded, [CLOSE]).points)


def test_a_rescued_entry_is_no_longer_due() -> None:
    """An entry that is helpful often enough before the update closes stays."""
    rescued = [*harmful("kpt_001"), *[PointRated("kpt_001", "helpful")] * 3, CLOSE]
    assert Entry("kpt_001", "a", 3, 3) == playbook([A, CLOSE], rescued).points["kpt_001"]


def test_a_rating_after_the_prune_changes_nothing() -> None:
    """What was pruned stays pruned, however helpful it is called later."""
    late = [*[PointRated("kpt_001", "helpful")] * 9, CLOSE]
    assert {} == playbook([A, *harmful("kpt_001"), CLOSE], late).points


def test_names_stay_used() -> None:
    """The high-water mark and the used names remember what was pruned and removed."""
    state = playbook([A, B, C, *harmful("kpt_003"), CLOSE], [PointRemoved("kpt_002"), EDIT])
    assert (["kpt_001"], 3) == (list(state.points), state.high_water)
    assert {"kpt_001", "kpt_002", "kpt_003"} == state.used


def test_an_unknown_name_never_stood() -> None:
    """A rating of a name that nobody has leaves the high-water mark where it was."""
    state = playbook([A, PointRated("kpt_900", "helpful"), CLOSE])
    assert (1, {"kpt_001"}) == (state.high_water, state.used)


def test_an_edit_revives_and_prunes_nothing() -> None:
    """A pruned entry comes back by hand, with counts that the rule condemns only at the next update."""
    pruned = [A, *harmful("kpt_001"), CLOSE]
    back = [PointEdited("kpt_001", 1, 9, "a again"), EDIT]
    assert Entry("kpt_001", "a again", 1, 9) == playbook(pruned, back).points["kpt_001"]
    assert {} == playbook(pruned, back, [CLOSE]).points


def test_an_order_is_applied_when_its_edit_closes() -> None:
    """Stretches of an order add up; names that stand in none follow as they stood, names that do not stand are none."""
    ordered = [PlaybookOrdered(("kpt_003",)), PlaybookOrdered(("kpt_404", "kpt_002")), EDIT]
    assert ["kpt_003", "kpt_002", "kpt_001"] == list(playbook([A, B, C, CLOSE], ordered).points)
    assert ["kpt_001", "kpt_002", "kpt_003"] == list(playbook([A, B, C, CLOSE], [EDIT]).points)


def test_top_level_keys_come_from_the_file() -> None:
    """The first adoption brings version, date and other keys; a later import brings entries alone."""
    first = [PlaybookAdopted("0" * 64, 0, '{"version":"0.9","last_updated":"2025","owner":"me"}')]
    later = [PlaybookAdopted("1" * 64, 0, '{"version":"7","last_updated":"1999","owner":"you"}')]
    assert ({"version": "0.9", "owner": "me"}, "2025") == (playbook(first).top, playbook(first).last_updated)
    assert ({"version": "0.9", "owner": "me"}, at(2)) == (
        playbook(first, later).top,
        playbook(first, later).last_updated,
    )
    edited = [PlaybookEdited(1, None, '{"version":"2.0","last_updated":"x"}')]
    assert {"version": "2.0"} == playbook(first, edited).top


def test_the_date_is_that_of_the_last_playbook_event() -> None:
    """Kinds that the playbook ignores change neither its date nor its stamp."""
    state = playbook([LedgerOpened("x", 1)], [A, CLOSE], [ItemSkipped(0, "odd", "7")])
    assert (at(3), (3, "")) == (state.last_updated, state.stamp)
    assert (None, (0, "")) == (playbook().last_updated, playbook().stamp)


@pytest.mark.parametrize(("rating", "counts"), [("helpful", (1, 0)), ("harmful", (0, 1)), ("neutral", (0, 0))])
def test_evolve_is_pure(rating: str, counts: tuple[int, int]) -> None:
    """One event makes a new entry of an old one, which stays as it was."""
    before = Entry("kpt_001", "a")
    after = evolve(before, PointRated("kpt_001", rating))
    assert Entry("kpt_001", "a", *counts) == after
    assert Entry("kpt_001", "a") == before
    assert evolve(None, PointRated("kpt_001", rating)) is None


def test_an_event_about_no_entry_leaves_it_alone() -> None:
    """What evolves the playbook as a whole makes nothing of a single entry."""
    before = Entry("kpt_001", "a", 4, 1)
    assert before is evolve(before, CLOSE)
    assert evolve(None, EDIT) is None


def test_a_name_that_stands_is_not_added_over() -> None:
    """An added or seeded point whose name stands leaves the entry, its counts and its text as they are."""
    rated = Entry("kpt_001", "a", 4, 1)
    assert rated == evolve(rated, PointAdded("kpt_001", "other"))
    assert rated == evolve(rated, PointSeeded("kpt_001", 0, 0, "canonical", "other", ""))


def test_a_removal_of_nobody_changes_nothing() -> None:
    """An edit may name an entry that went meanwhile."""
    assert [A.name] == list(playbook([A, PointRemoved("kpt_404"), EDIT]).points)


def test_an_entry_without_its_text_stands_with_its_counts() -> None:
    """A redacted seed is an entry whose text is gone."""
    for text, shown in ((None, REDACTED), ("a", "a")):
        assert Entry("kpt_001", shown, 4, 2) == evolve(None, PointSeeded("kpt_001", 4, 2, "canonical", text, ""))


def test_an_entry_that_went_and_came_back_is_judged_anew() -> None:
    """What was due when a hand removed an entry is not due when it sets one of that name."""
    gone = [A, *harmful("kpt_001", 3), PointRemoved("kpt_001"), EDIT]
    assert ["kpt_001"] == list(playbook(gone, [PointEdited("kpt_001", 9, 0, "a"), EDIT], [CLOSE]).points)


def test_a_name_that_stands_keeps_its_entry_in_the_fold() -> None:
    """An addition or a seed of a name that stands moves neither its text nor its counts."""
    again = [PointAdded("kpt_001", "other"), PointSeeded("kpt_001", 9, 9, "canonical", "other", "")]
    state = playbook([A, PointRated("kpt_001", "helpful"), CLOSE], [*again, CLOSE])
    assert {"kpt_001": Entry("kpt_001", "a", 1, 0)} == state.points


def test_the_high_water_mark_is_the_highest_number_that_stood() -> None:
    """Names without a number leave it alone; a name that went still counts."""
    assert 0 == playbook([PointAdded("my rule", "a"), CLOSE]).high_water
    assert 7 == playbook([PointAdded("kpt_007", "a"), A, PointRemoved("kpt_007"), CLOSE]).high_water


def test_a_redacted_text_leaves_an_entry() -> None:
    """Where the text is gone from the ledger, the entry stands and its counts are told."""
    state = playbook([PointAdded("kpt_001", None), PointRated("kpt_001", "helpful"), CLOSE])
    assert Entry("kpt_001", REDACTED, 1, 0) == state.points["kpt_001"]


def test_redactions_are_counted() -> None:
    """Whoever goes on from an earlier state sees that texts went since; the entries stay as they are."""
    state = playbook([A, CLOSE], [EventRedacted("id-1", "a name"), EventRedacted("id-2", None)])
    assert (2, (4, "")) == (state.rewrites, state.stamp)
    assert 3 == fold(PLAYBOOK, history([EventRedacted("id-1", "again")]), state).rewrites
    assert ["kpt_001"] == list(state.points)


def test_another_policy_folds_the_same_log() -> None:
    """The same history under another policy shows what would have stood."""
    told = history([A, B, *harmful("kpt_001"), *harmful("kpt_002", 5), CLOSE])
    assert {} == fold(PLAYBOOK, told).points
    assert ["kpt_001"] == list(fold(playbook_view(Policy("patient", floor=5)), told).points)
    assert ["kpt_001", "kpt_002"] == list(fold(playbook_view(Policy("wide", margin=6)), told).points)
