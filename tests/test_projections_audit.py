"""The audit view: every name that ever existed has its origin, its ratings, and the reason for its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from tallybook.ledger.events import (
    EventRedacted,
    EventsVoided,
    PlaybookEdited,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointMatched,
    PointMerged,
    PointNoted,
    PointPinned,
    PointRated,
    PointRemoved,
    PointRestored,
    PointRetired,
    PointReworded,
    PointSeeded,
    PointUnpinned,
    UnknownEvent,
)
from tallybook.ledger.records import Author, Batch, EventRecord, make_batch
from tallybook.projections.entry_history.status import STATUS_VIEW, graveyard
from tallybook.projections.entry_history.story import Story, audit_view, deciding_events, story_json
from tallybook.projections.fold import fold, fold_history
from tallybook.projections.playbook.prune import POLICIES, SPEC_POLICY, Policy
from tallybook.projections.playbook.view import playbook_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.ledger.events import Event

AT = "2026-11-21T20:17:03.123456Z"
BY = Author("reflector", session="s1")
CLOSED = PlaybookUpdated(0, 0, 0)


def history(*batches: Sequence[Event]) -> list[Batch]:
    """Return batches of these events, with seq from 1, ids such as id-1, and one rater."""
    made = []
    seq = 0
    for events in batches:
        records = [
            EventRecord(seq + part, AT, event, f"id-{seq + part}", BY, part=(part, len(events)))
            for part, event in enumerate(events, 1)
        ]
        seq += len(events)
        made.append(make_batch(*records))
    return made


def audit(name: str, *batches: Sequence[Event], until: int | None = None) -> dict[str, Any]:
    """Return the story of a name after these batches, as JSON."""
    return story_json(fold(audit_view(name), history(*batches), until=until))


def rated(rating: str, name: str = "kpt_001") -> list[Event]:
    """Return an update with one rating."""
    return [PointRated(name, rating), PlaybookUpdated(0, 1, 0)]


ADDED: list[Event] = [PointAdded("kpt_001", "Mock the clock"), PlaybookUpdated(1, 0, 0)]
PRUNED = [ADDED, *[rated("harmful")] * 3]


def test_a_pruned_entry_names_the_event_and_the_rule_that_pruned_it() -> None:
    """s1 + kpt_001, then ! ! ! one update each: pruned by the fourth update, 3 harmful > 0 helpful (REQ-SCORE-007)."""
    by = {"rater": "reflector", "session": "s1"}
    row = {"at": AT, "by": by}
    expected = {
        "name": "kpt_001",
        "text": "Mock the clock",
        "status": "pruned",
        "helpful": 0,
        "harmful": 3,
        "rule": "harmful >= 3 AND harmful > helpful",
        "decided_by": {"seq": 8, "id": "id-8", "at": AT, "by": by},
        "trail": [
            row | {"seq": 1, "kind": "point.added", "rating": None, "helpful": 0, "harmful": 0},
            row | {"seq": 3, "kind": "point.rated", "rating": "harmful", "helpful": 0, "harmful": 1},
            row | {"seq": 5, "kind": "point.rated", "rating": "harmful", "helpful": 0, "harmful": 2},
            row | {"seq": 7, "kind": "point.rated", "rating": "harmful", "helpful": 0, "harmful": 3},
            row | {"seq": 8, "kind": "playbook.updated", "rating": None, "helpful": 0, "harmful": 3},
        ],
        "ignored": [],
    }
    assert expected == audit("kpt_001", *PRUNED)


@pytest.mark.parametrize("rating", ["helpful", "harmful", "neutral"])
def test_a_rating_after_the_prune_changes_nothing(rating: str) -> None:
    """A late rating is listed as ignored, and neither counts nor decision change."""
    before = audit("kpt_001", *PRUNED)
    after = audit("kpt_001", *PRUNED, rated(rating))
    assert [(9, "point.rated", rating, "already pruned")] == [
        (row["seq"], row["kind"], row["rating"], row["reason"]) for row in after["ignored"]
    ]
    assert before == after | {"ignored": []}


def test_ratings_of_a_merged_name_count_for_the_target() -> None:
    """The merged story ends with the merge and names the entry of later ratings; the other story counts them."""
    both: list[Event] = [PointAdded("kpt_001", "Mock the clock"), PointAdded("kpt_002", "Mock time"), CLOSED]
    late: list[Event] = [PointRated("kpt_001", "harmful"), PointRated("kpt_001", "neutral"), CLOSED]
    batches: list[list[Event]] = [both, rated("helpful"), [PointMerged("kpt_002", ("kpt_001",), "")], late]
    gone, stays = audit("kpt_001", *batches), audit("kpt_002", *batches)
    assert ("merged", 1, 0, 6) == (gone["status"], gone["helpful"], gone["harmful"], gone["decided_by"]["seq"])
    assert [("harmful", "counts for kpt_002"), ("neutral", "counts nothing")] == [
        (row["rating"], row["reason"]) for row in gone["ignored"]
    ]
    assert [("point.added", 0, 0), ("point.merged", 1, 0), ("point.rated", 1, 1)] == [
        (row["kind"], row["helpful"], row["harmful"]) for row in stays["trail"]
    ]
    assert ("kpt_002", ["kpt_001"]) == (stays["trail"][1]["name"], stays["trail"][1]["merged"])
    assert [("neutral", "counts nothing")] == [(row["rating"], row["reason"]) for row in stays["ignored"]]


def test_curation_by_a_person_is_in_the_trail() -> None:
    """Pins, rewordings, retirements, restorations and notes have the counts of their time."""
    decided: list[Event] = [
        PointPinned("kpt_001", ""),
        PointReworded("kpt_001", "", "Mock time"),
        PointNoted("kpt_001", "it hung"),
        PointRetired("kpt_001", ""),
        PointNoted("kpt_001", "gone at last"),
        PointRestored("kpt_001", ""),
        PointUnpinned("kpt_001", ""),
    ]
    story = audit("kpt_001", ADDED, rated("helpful"), *([event] for event in decided))
    kinds = ["pinned", "reworded", "noted", "retired", "noted", "restored", "unpinned"]
    assert [(f"point.{kind}", 1, 0) for kind in kinds] == [
        (row["kind"], row["helpful"], row["harmful"]) for row in story["trail"][2:]
    ]
    assert ("kept", "Mock time", []) == (story["status"], story["text"], story["ignored"])
    retired = audit("kpt_001", ADDED, *([event] for event in decided[:4]))
    assert ("retired", None, 6) == (retired["status"], retired["rule"], retired["decided_by"]["seq"])


def test_an_undone_event_is_listed_as_undone() -> None:
    """It has its own kind, outside the trail; the entry is as if the event had never been."""
    batches = history(ADDED, rated("harmful"), [EventsVoided(("id-1", "id-3"), None, "")])
    story = story_json(fold_history(audit_view("kpt_001"), lambda: batches))
    assert ("undone", "Mock the clock", []) == (story["status"], story["text"], story["trail"])
    assert 5 == story["decided_by"]["seq"]
    assert [("point.added", None, "undone"), ("point.rated", "harmful", "undone")] == [
        (row["kind"], row["rating"], row["reason"]) for row in story["ignored"]
    ]
    assert "kept" == story_json(fold_history(audit_view("kpt_001"), lambda: batches, 4))["status"]


def test_a_matched_entry_is_told_as_merged() -> None:
    """An entry that was joined to one with its text has that status, its text and its counts."""
    matched = PointMatched("kpt_103", "kpt_001", 2, 1, "Mock the clock")
    story = audit("kpt_103", ADDED, [matched], [PointRated("kpt_103", "helpful")])
    assert ("merged", "Mock the clock", 2, 1) == tuple(story[key] for key in ("status", "text", "helpful", "harmful"))
    assert (3, ["point.matched"]) == (story["decided_by"]["seq"], [row["kind"] for row in story["trail"]])
    assert ["counts for kpt_001"] == [row["reason"] for row in story["ignored"]]


def test_a_matched_entry_whose_match_was_undone_is_undone() -> None:
    """An undone match leaves the name as an undone addition does, in the story and in the graveyard."""
    batches = history([PointMatched("kpt_103", "kpt_001", 2, 1, "Mock the clock")], [EventsVoided(("id-1",), None, "")])
    story = story_json(fold_history(audit_view("kpt_103"), lambda: batches))
    assert ("undone", "Mock the clock") == (story["status"], story["text"])
    (row,) = graveyard(fold_history(STATUS_VIEW, lambda: batches))
    assert ("kpt_103", "undone", "Mock the clock") == (row["name"], row["status"], row["text"])


def test_under_a_policy_that_returns_entries_ratings_still_count() -> None:
    """A rating of a pruned entry is a step of its story and not ignored, and so is its return."""
    final = POLICIES["final"]
    batches = history(*PRUNED, rated("helpful"), rated("neutral"), *[rated("helpful")] * 2)
    told = story_json(fold(audit_view("kpt_001", final), batches))
    out = fold(audit_view("kpt_001", final), batches[: len(PRUNED) + 2])
    assert ("pruned", 1, ["counts nothing"]) == (out.status, out.trail[-1].helpful, [one.reason for one in out.ignored])
    assert ("kept", None, 3) == (told["status"], told["decided_by"], told["helpful"])
    last = batches[-1].last
    turns = [fold(audit_view("kpt_001", policy), batches) for policy in (final, SPEC_POLICY)]
    assert [True, False] == [last in [one.seq for one in deciding_events(story)] for story in turns]
    assert {"already pruned"} == {one.reason for one in turns[1].ignored}


def test_a_redaction_of_one_of_its_texts_is_part_of_the_story() -> None:
    """The trail has the redaction of a text of the entry, with the counts of that time, and no other redaction."""
    redacted: list[Event] = [EventRedacted("id-1", "a name"), EventRedacted("id-2", "not of the entry")]
    story = audit("kpt_001", ADDED, rated("helpful"), rated("neutral"), redacted, [EventRedacted("id-5", None)])
    assert [(1, "point.added", 0), (3, "point.rated", 1), (7, "event.redacted", 1), (9, "event.redacted", 1)] == [
        (row["seq"], row["kind"], row["helpful"]) for row in story["trail"]
    ]
    assert [0, 0, 0, 0] == [row["harmful"] for row in story["trail"]]
    assert story == audit("kpt_001", ADDED, rated("helpful"), rated("neutral"), redacted, [EventRedacted("id-5", "x")])


NAMES = ["kpt_001", "kpt_002", "kpt_003"]
names = st.sampled_from(NAMES)
counts = st.integers(0, 5)
texts = st.sampled_from(["Use types", "Mock the clock"])
ratings = st.builds(PointRated, names, st.sampled_from(["harmful", "harmful", "helpful", "neutral"]))
updates = st.tuples(
    st.lists(st.builds(PointAdded, names, texts), max_size=2), st.lists(ratings, max_size=6), st.just([CLOSED])
).map(lambda parts: [event for part in parts for event in part])
seeds = st.lists(st.builds(PointSeeded, names, counts, counts, st.just("canonical"), texts, st.just("")), min_size=1)
edits = st.lists(
    st.one_of(st.builds(PointEdited, names, counts, counts, texts), st.builds(PointRemoved, names)), max_size=3
).map(lambda events: [*events, PlaybookEdited(None, None, "")])
histories = st.lists(st.one_of(updates, updates, seeds, edits), max_size=8).map(lambda made: history(*made))
policies = st.builds(Policy, st.just("any"), st.integers(1, 4), st.integers(1, 2), st.none(), st.booleans())


@given(histories, policies)
def test_the_status_is_present_exactly_if_the_playbook_has_the_entry(batches: list[Batch], policy: Policy) -> None:
    """After every batch and for every name, status and counts agree with the playbook of that moment.

    So do the counts of removed entries, which ratings change under some policies.
    """
    for k in range(len(batches) + 1):
        book = fold(playbook_view(policy), batches[:k])
        points = {**book.entries, **book.gone}
        for name in NAMES:
            told = story_json(fold(audit_view(name, policy), batches[:k]))
            assert book.status_of(name) == told["status"]
            if name in points:
                point = points[name]
                assert (point.text, point.helpful, point.harmful) == (told["text"], told["helpful"], told["harmful"])


@given(histories)
def test_every_event_about_a_name_is_listed_once(batches: list[Batch]) -> None:
    """Trail and ignored hold each event with the name exactly once; all other rows of the trail are prunes."""
    records = [record for batch in batches for record in batch.records]
    for name in NAMES:
        told = story_json(fold(audit_view(name), batches))
        prunes = [row["seq"] for row in told["trail"] if row["kind"] == "playbook.updated"]
        rows = [row["seq"] for row in told["trail"] + told["ignored"] if row["seq"] not in prunes]
        assert [record.seq for record in records if getattr(record.event, "name", None) == name] == sorted(rows)


@given(histories, st.data())
def test_a_story_until_a_moment_is_the_story_of_the_batches_before_it(
    batches: list[Batch], data: st.DataObject
) -> None:
    """``until`` shows the first batches only; a moment inside a batch shows the state before it."""
    until = data.draw(st.integers(0, batches[-1].last if batches else 0))
    before = [batch for batch in batches if batch.last <= until]
    view = audit_view("kpt_001")
    assert fold(view, before) == fold(view, batches, until=until)


@given(histories, st.data())
def test_a_continued_story_equals_a_story_at_once(batches: list[Batch], data: st.DataObject) -> None:
    """Folding on from an earlier fold gives the same story as folding from the beginning."""
    k = data.draw(st.integers(0, len(batches)))
    view = audit_view("kpt_001")
    assert fold(view, batches) == fold(view, batches[k:], fold(view, batches[:k]))


@given(histories)
def test_unknown_kinds_change_no_story(batches: list[Batch]) -> None:
    """Unknown events, alone or in the middle of a batch, leave every story unchanged."""
    unknown = UnknownEvent("point.pinned", 1, '{"name":"kpt_001"}')
    mixed = [make_batch(*batch.records, EventRecord(batch.last, AT, unknown, "id-x", BY)) for batch in batches]
    alone = make_batch(EventRecord(99, AT, unknown, "id-99", BY))
    expected = story_json(fold(audit_view("kpt_001"), batches))
    story: Story = fold(audit_view("kpt_001"), [*mixed, alone])
    assert expected == story_json(story)
