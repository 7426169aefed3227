"""The playbook view: the effect of each kind of event."""

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
    """Return the playbook after these batches."""
    return fold(PLAYBOOK, history(*stretches))


def harmful(name: str, times: int = 3) -> list[Any]:
    """Return so many harmful ratings of an entry."""
    return [PointRated(name, "harmful")] * times


def test_an_entry_is_pruned_by_its_third_harmful_update() -> None:
    """An entry that is rated harmful three times by three updates is pruned by the last."""
    first, second, third = ([PointRated("kpt_001", "harmful"), CLOSE] for _ in range(3))
    assert Entry("kpt_001", "a", 0, 2) == playbook([A, CLOSE], first, second).entries["kpt_001"]
    assert {} == playbook([A, CLOSE], first, second, third).entries


def test_seeds_are_pruned_only_by_an_update() -> None:
    """A legacy entry that meets the rule stays until the next update, which need not rate it."""
    seeded = [PlaybookAdopted("0" * 64, 1, "{}"), PointSeeded("kpt_001", 0, 7, "canonical", "a", "")]
    assert ["kpt_001"] == list(playbook(seeded).entries)
    assert [] == list(playbook(seeded, [CLOSE]).entries)


def test_a_rescued_entry_is_no_longer_due() -> None:
    """An entry that is rated helpful often enough before the update closes stays."""
    rescued = [*harmful("kpt_001"), *[PointRated("kpt_001", "helpful")] * 3, CLOSE]
    assert Entry("kpt_001", "a", 3, 3) == playbook([A, CLOSE], rescued).entries["kpt_001"]


def test_a_rating_after_the_prune_changes_nothing() -> None:
    """It stays pruned, however helpful the later ratings are."""
    late = [*[PointRated("kpt_001", "helpful")] * 9, CLOSE]
    assert {} == playbook([A, *harmful("kpt_001"), CLOSE], late).entries


def test_names_stay_used() -> None:
    """The high-water mark and the used names include pruned and removed entries."""
    state = playbook([A, B, C, *harmful("kpt_003"), CLOSE], [PointRemoved("kpt_002"), EDIT])
    assert (["kpt_001"], 3) == (list(state.entries), state.high_water)
    assert {"kpt_001", "kpt_002", "kpt_003"} == state.used


def test_an_unknown_name_has_no_entry() -> None:
    """A rating of an unknown name leaves the high-water mark unchanged."""
    state = playbook([A, PointRated("kpt_900", "helpful"), CLOSE])
    assert (1, {"kpt_001"}) == (state.high_water, state.used)


def test_an_edit_revives_and_prunes_nothing() -> None:
    """A manual edit returns a pruned entry, with counts to which the rule applies only at the next update."""
    pruned = [A, *harmful("kpt_001"), CLOSE]
    back = [PointEdited("kpt_001", 1, 9, "a again"), EDIT]
    assert Entry("kpt_001", "a again", 1, 9) == playbook(pruned, back).entries["kpt_001"]
    assert {} == playbook(pruned, back, [CLOSE]).entries


def test_an_order_is_applied_when_its_edit_closes() -> None:
    """Partial orders add up; unlisted names follow in their order, and unknown ones are ignored."""
    ordered = [PlaybookOrdered(("kpt_003",)), PlaybookOrdered(("kpt_404", "kpt_002")), EDIT]
    assert ["kpt_003", "kpt_002", "kpt_001"] == list(playbook([A, B, C, CLOSE], ordered).entries)
    assert ["kpt_001", "kpt_002", "kpt_003"] == list(playbook([A, B, C, CLOSE], [EDIT]).entries)


def test_top_level_keys_come_from_the_file() -> None:
    """The first import has version, date and other keys; a later one adds entries alone."""
    first = [PlaybookAdopted("0" * 64, 0, '{"version":"0.9","last_updated":"2025","owner":"me"}')]
    later = [PlaybookAdopted("1" * 64, 0, '{"version":"7","last_updated":"1999","owner":"you"}')]
    assert ({"version": "0.9", "owner": "me"}, "2025") == (playbook(first).top, playbook(first).last_updated)
    assert ({"version": "0.9", "owner": "me"}, at(2)) == (
        playbook(first, later).top,
        playbook(first, later).last_updated,
    )
    edited = [PlaybookEdited(1, None, '{"version":"2.0","last_updated":"x"}')]
    assert {"version": "2.0"} == playbook(first, edited).top


def test_a_rating_of_no_entry_begins_no_playbook() -> None:
    """An import is the first after such a rating alone, which a book would not even take in (SHARING, law 2)."""
    imported = [PlaybookAdopted("0" * 64, 0, '{"version":"0.9","last_updated":"2025"}')]
    assert ({"version": "0.9"}, "2025") == (playbook(imported).top, playbook(imported).last_updated)
    rated = [PointRated("nothing", "harmful")]
    assert ("0.9", at(1)) == (playbook(rated, imported).top["version"], playbook(rated, imported).last_updated)


def test_the_date_is_that_of_the_last_playbook_event() -> None:
    """Kinds that the playbook ignores change neither its date nor its stamp."""
    state = playbook([LedgerOpened("x", 1)], [A, CLOSE], [ItemSkipped(0, "odd", "7")])
    assert (at(3), (3, "")) == (state.last_updated, state.stamp)
    assert (None, (0, "")) == (playbook().last_updated, playbook().stamp)


@pytest.mark.parametrize(("rating", "counts"), [("helpful", (1, 0)), ("harmful", (0, 1)), ("neutral", (0, 0))])
def test_evolve_is_pure(rating: str, counts: tuple[int, int]) -> None:
    """One event makes a new entry of an old one, which does not change."""
    before = Entry("kpt_001", "a")
    after = evolve(before, PointRated("kpt_001", rating))
    assert Entry("kpt_001", "a", *counts) == after
    assert Entry("kpt_001", "a") == before
    assert evolve(None, PointRated("kpt_001", rating)) is None


def test_an_event_about_no_entry_changes_no_entry() -> None:
    """An event about the whole playbook changes no single entry."""
    before = Entry("kpt_001", "a", 4, 1)
    assert before is evolve(before, CLOSE)
    assert evolve(None, EDIT) is None


def test_a_present_name_is_not_added_again() -> None:
    """An addition or a seed of a present name leaves the entry, its counts and its text unchanged."""
    rated = Entry("kpt_001", "a", 4, 1)
    assert rated == evolve(rated, PointAdded("kpt_001", "other"))
    assert rated == evolve(rated, PointSeeded("kpt_001", 0, 0, "canonical", "other", ""))


def test_a_removal_of_a_missing_entry_changes_nothing() -> None:
    """An edit may name an entry that was removed in the meantime."""
    assert [A.name] == list(playbook([A, PointRemoved("kpt_404"), EDIT]).entries)


def test_an_entry_without_its_text_keeps_its_counts() -> None:
    """A redacted seed is an entry without a text."""
    for text, shown in ((None, REDACTED), ("a", "a")):
        assert Entry("kpt_001", shown, 4, 2) == evolve(None, PointSeeded("kpt_001", 4, 2, "canonical", text, ""))


def test_a_returned_entry_is_due_by_its_new_counts() -> None:
    """A removal by a manual edit clears what was due, and an entry set under the same name starts anew."""
    gone = [A, *harmful("kpt_001", 3), PointRemoved("kpt_001"), EDIT]
    assert ["kpt_001"] == list(playbook(gone, [PointEdited("kpt_001", 9, 0, "a"), EDIT], [CLOSE]).entries)


def test_a_present_name_keeps_its_entry_in_the_fold() -> None:
    """An addition or a seed of a present name changes neither its text nor its counts."""
    again = [PointAdded("kpt_001", "other"), PointSeeded("kpt_001", 9, 9, "canonical", "other", "")]
    state = playbook([A, PointRated("kpt_001", "helpful"), CLOSE], [*again, CLOSE])
    assert {"kpt_001": Entry("kpt_001", "a", 1, 0)} == state.entries


def test_the_high_water_mark_is_the_highest_number_ever_used() -> None:
    """Names without a number do not move it; a removed name still counts."""
    assert 0 == playbook([PointAdded("my rule", "a"), CLOSE]).high_water
    assert 7 == playbook([PointAdded("kpt_007", "a"), A, PointRemoved("kpt_007"), CLOSE]).high_water


def test_a_redacted_text_leaves_an_entry() -> None:
    """Without its text the entry is present with its counts."""
    state = playbook([PointAdded("kpt_001", None), PointRated("kpt_001", "helpful"), CLOSE])
    assert Entry("kpt_001", REDACTED, 1, 0) == state.entries["kpt_001"]


def test_redactions_are_counted() -> None:
    """A fold that continues from an earlier state sees new redactions; the entries do not change."""
    state = playbook([A, CLOSE], [EventRedacted("id-1", "a name"), EventRedacted("id-2", None)])
    assert (2, (4, "")) == (state.rewrites, state.stamp)
    assert 3 == fold(PLAYBOOK, history([EventRedacted("id-1", "again")]), state).rewrites
    assert ["kpt_001"] == list(state.entries)


def test_another_policy_folds_the_same_log() -> None:
    """The same history under another policy shows the entries that it would have kept."""
    told = history([A, B, *harmful("kpt_001"), *harmful("kpt_002", 5), CLOSE])
    assert {} == fold(PLAYBOOK, told).entries
    assert ["kpt_001"] == list(fold(playbook_view(Policy("patient", floor=5)), told).entries)
    assert ["kpt_001", "kpt_002"] == list(fold(playbook_view(Policy("wide", margin=6)), told).entries)
