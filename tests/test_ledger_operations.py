"""A curator's operations and tags: what counts at once, what is proposed, and what is ignored (LEARNING 14 to 16)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tallybook.ledger.decisions.operations import APPLY, PERSON, PROPOSE, Terms, translate
from tallybook.ledger.decisions.update import decide_extraction, read_extraction
from tallybook.ledger.events import Entry, PointAdded, PointMerged, PointNoted, PointProposed, PointRated, PointRetired
from tallybook.projections.playbook.view import Playbook

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run
    from tallybook.ledger.decisions.operations import Translated

ENTRIES = {
    "kpt_001": Entry("kpt_001", "Always test", 4, 1),
    "kpt_002": Entry("kpt_002", "Test always", 0, 2),
    "kpt_003": Entry("kpt_003", "Test", 0, 2),
    "kpt_004": Entry("kpt_004", "Commit often", 1, 0),
    "kpt_005": Entry("kpt_005", "Pinned", 0, 0),
}
KNOWN = Playbook(entries=ENTRIES, high_water=5, used=set(ENTRIES), pinned={"kpt_005"})


FEW = "fewer than two of its entries are in the playbook, or were shown"


def curate(may: str, *operations: dict[str, Any], **more: Any) -> Translated:
    """Translate a result with these operations."""
    return translate({"operations": list(operations), **more}, KNOWN, Terms(may))


def delete(name: str) -> dict[str, Any]:
    """Return a DELETE."""
    return {"type": "DELETE", "target_id": name, "reason": "it is obvious"}


def merge(*names: str, text: str = "Test before each commit") -> dict[str, Any]:
    """Return a MERGE."""
    return {"type": "MERGE", "source_ids": list(names), "merged_text": text}


def test_a_result_without_operations_stays_as_it_is() -> None:
    """The earlier format is not touched."""
    payload = {"new_key_points": ["a"], "evaluations": []}
    assert (payload, ()) == (translate(payload, KNOWN, Terms()).payload, translate(payload, KNOWN, Terms()).events)


def test_an_add_is_a_new_entry_at_once() -> None:
    """Its text is a new key point whatever the settings say."""
    done = curate(PROPOSE, {"type": "ADD", "text": "Read the logs"})
    assert (["Read the logs"], ()) == (done.payload["new_key_points"], done.events)


def test_operations_count_in_place_of_new_key_points() -> None:
    """Even an empty list of operations leaves the new key points out, and says so."""
    done = curate(PROPOSE, new_key_points=["Read the logs"])
    assert ([], ["new_key_points"]) == (done.payload["new_key_points"], [one.item for one in done.ignored])


def test_a_tag_is_a_rating_with_its_rationale_noted() -> None:
    """Both counters and notes go to the entry that the tag names."""
    tags = [{"name": "kpt_002", "tag": "harmful", "rationale": "it broke the build"}]
    done = translate({"bullet_tags": tags}, KNOWN, Terms())
    assert [{"name": "kpt_002", "rating": "harmful"}] == done.payload["evaluations"]
    assert (PointNoted("kpt_002", "harmful: it broke the build"),) == done.events


@pytest.mark.parametrize("operation", [delete("kpt_004"), {"type": "UPDATE", "target_id": "kpt_004", "text": "Commit"}])
def test_a_change_is_proposed_by_default(operation: dict[str, Any]) -> None:
    """Nothing changes, and the proposal says that the settings decide so."""
    [event] = curate(PROPOSE, operation).events
    assert isinstance(event, PointProposed)
    assert ("kpt_004", "the settings say propose") == (event.name, event.cause)


def test_a_delete_retires_where_it_may() -> None:
    """The entry is retired with the curator's reason."""
    assert (PointRetired("kpt_004", "it is obvious"),) == curate(APPLY, delete("kpt_004")).events


def test_an_update_retires_the_entry_and_adds_a_new_one() -> None:
    """The new entry has no ratings, and the old one's reason names it."""
    done = curate(APPLY, {"type": "UPDATE", "target_id": "kpt_004", "text": "Commit each step"})
    assert (PointRetired("kpt_004", "replaced by kpt_006"), PointAdded("kpt_006", "Commit each step")) == done.events
    assert Entry("kpt_006", "Commit each step") == done.state.entries["kpt_006"]


def test_a_merge_makes_a_new_entry_with_the_sums() -> None:
    """Its sources lead to it, and later decisions see its counts."""
    done = curate(APPLY, merge("kpt_003", "kpt_004"))
    expected = (PointAdded("kpt_006", "Test before each commit"), PointMerged("kpt_006", ("kpt_003", "kpt_004"), ""))
    assert expected == done.events
    assert Entry("kpt_006", "Test before each commit", 1, 2) == done.state.entries["kpt_006"]
    assert {"kpt_003", "kpt_004"}.isdisjoint(done.state.entries)


@pytest.mark.parametrize("may", [PROPOSE, APPLY])
@pytest.mark.parametrize("operation", [delete("kpt_001"), delete("kpt_005"), merge("kpt_001", "kpt_004")])
def test_a_protected_entry_is_only_ever_proposed_to_change(may: str, operation: dict[str, Any]) -> None:
    """Pinned entries and mostly helpful ones are a person's, kept or absorbed."""
    [event] = curate(may, operation).events
    assert isinstance(event, PointProposed)
    assert "protected" == event.cause


def test_a_merge_that_would_be_pruned_is_proposed() -> None:
    """Two entries at 0/2 sum up to 0/4, which the next update prunes."""
    [event] = curate(APPLY, merge("kpt_002", "kpt_003")).events
    assert isinstance(event, PointProposed)
    assert "the next update would prune the result" == event.cause


def test_a_persons_operations_are_made() -> None:
    """A person who records a result has consented."""
    assert (PointRetired("kpt_001", "it is obvious"),) == curate(PERSON, delete("kpt_001")).events


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (delete("kpt_999"), "no such entry in the playbook"),
        ({"type": "delete", "target_id": "kpt_004"}, "expected a type of ADD, UPDATE, MERGE, DELETE"),
        ({"type": ["ADD"]}, "expected a type of ADD, UPDATE, MERGE, DELETE"),
        ("ADD", "expected a type of ADD, UPDATE, MERGE, DELETE"),
        ({"type": "ADD", "text": " "}, "the text is empty"),
        ({"type": "ADD"}, "expected a text, got NoneType"),
        (merge("kpt_003"), FEW),
        (merge("kpt_003", "kpt_003"), FEW),
        (
            {"type": "MERGE", "source_ids": "kpt_003"},
            FEW,
        ),
        (merge("kpt_003", "kpt_004", text="Test always"), "already in the playbook as kpt_002"),
        ({"type": "UPDATE", "target_id": "kpt_004", "text": "Test"}, "already in the playbook as kpt_003"),
    ],
)
def test_an_unusable_operation_is_ignored_with_its_reason(operation: Any, why: str) -> None:
    """The others count all the same."""
    done = curate(APPLY, operation, delete("kpt_004"))
    assert [("operations[0]", why)] == [(one.item, one.reason) for one in done.ignored]
    assert (PointRetired("kpt_004", "it is obvious"),) == done.events


def test_ten_operations_count() -> None:
    """The eleventh and those after it are ignored."""
    done = curate(PROPOSE, *({"type": "ADD", "text": f"Text {number}"} for number in range(12)))
    assert (10, ["operations[10]", "operations[11]"]) == (
        len(done.payload["new_key_points"]),
        [one.item for one in done.ignored],
    )


def test_an_operation_counts_only_for_what_the_prompt_showed() -> None:
    """A name that the model was not shown is a guess."""
    done = translate({"operations": [delete("kpt_004")]}, KNOWN, Terms(APPLY, {"kpt_003"}))
    assert ((), ["the prompt did not show this entry"]) == (done.events, [one.reason for one in done.ignored])


def test_later_operations_see_what_earlier_ones_did() -> None:
    """An entry that was deleted cannot be merged after it."""
    done = curate(APPLY, delete("kpt_004"), merge("kpt_003", "kpt_004"))
    assert ["operations[1]"] == [one.item for one in done.ignored]


def test_ratings_follow_the_operations() -> None:
    """A rating of a deleted entry counts nothing; new entries get names after those of the operations."""
    payload = {
        "operations": [{"type": "UPDATE", "target_id": "kpt_004", "text": "Commit"}, {"type": "ADD", "text": "Read"}],
        "evaluations": [{"name": "kpt_004", "rating": "helpful"}],
    }
    done = translate(payload, KNOWN, Terms(APPLY))
    decision = decide_extraction(read_extraction(done.payload), done.state)
    assert [PointAdded("kpt_007", "Read"), PointRated("kpt_004", "helpful")] == list(decision.events[:2])
    assert ["no such entry in the playbook"] == [one.reason for one in decision.ignored]


RESULT = {
    "operations": [{"type": "DELETE", "target_id": "kpt_001"}],
    "bullet_tags": [{"name": "kpt_001", "tag": "helpful"}],
}


def recorded(run: Run, *options: str) -> tuple[list[str], list[str]]:
    """Record a result with operations, and return the names of the playbook and the verbs of open proposals."""
    run("add", "Always test")
    run("record", "-", *options, stdin=json.dumps(RESULT).encode())
    names = [one["name"] for one in json.loads(run("show", "--json").out)["key_points"]]
    return names, [one["verb"] for one in json.loads(run("proposals", "--json").out)]


@pytest.mark.parametrize(("own", "expected"), [(True, ([], [])), (False, (["kpt_001"], ["delete"]))])
def test_apply_counts_only_from_the_users_own_settings(
    run: Run, project: Path, *, own: bool, expected: tuple[list[str], list[str]]
) -> None:
    """A project's file cannot let a model change entries."""
    from pathlib import Path as HomePath  # noqa: PLC0415 - the other name is for types

    folder = (HomePath.home() if own else project) / ".claude" / "config"
    folder.mkdir(parents=True)
    (folder / "tallybook.toml").write_text('[curation]\nmay = "apply"\n', encoding="utf-8")
    assert expected == recorded(run)
