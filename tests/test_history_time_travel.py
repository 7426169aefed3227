"""Answers about the past: every number of a long history, undone and redacted events, and diffs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.reference_model import extraction
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Answer, Run


# Every number


# What was undone or redacted


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with an entry (2 to 3) that was pruned (4 to 7), and another (8 to 9)."""
    made = Project(project)
    commands.add(made, "one", HUMAN)
    commands.record(made, extraction(*[("kpt_001", "harmful")] * 3), {"rater": "reflector", "session": "s1"})
    commands.add(made, "two", HUMAN)
    return made


def test_show_names_its_moment(here: Project, run: Run) -> None:
    """Number and time of the last event follow the entries; an odd WHEN gets a note."""
    at = commands.playbook(here, "3").state.last_updated
    told = " ".join(run("show", "--at", "session:s1").out.split())
    assert told.endswith(f"as of event 3, {at[:16].replace('T', ' ')} UTC, before session s1 began")
    answer = run("show", "--at", "1d")
    assert answer.err.startswith("note: 1d is before the ledger's first event, ")
    assert "The playbook was empty at the beginning, before any event." in " ".join(answer.out.split())
    assert [] == json.loads(run("show", "--at", "1d", "--json").out)["key_points"]


# What changed


def difference(answer: Answer) -> dict[str, Any]:
    """Return the JSON answer of `diff`."""
    found: dict[str, Any] = json.loads(answer.out)
    return found


def test_diff_answers_with_both_moments_and_the_changes(here: Project, run: Run) -> None:
    """The stable shape has both ends, added and removed entries, changes, order, and further fields."""
    answer = difference(run("diff", "3", "9", "--json"))
    assert ["from", "to", "added", "gone", "changed", "order", "top"] == list(answer)
    assert [3, 9] == [answer[end]["seq"] for end in ("from", "to")]
    two = {"name": "kpt_002", "text": "two", "helpful": 0, "harmful": 0}
    assert [two | {"was": None}] == answer["added"]
    left = {"how": "pruned", "seq": 7, "helpful": 0, "harmful": 3, "into": None}
    assert [two | {"name": "kpt_001", "text": "one", "left": left}] == answer["gone"]
    assert ([], None) == (answer["changed"], answer["order"])
    assert commands.show(here)["last_updated"] == answer["top"]["last_updated"] == answer["to"]["at"]


def test_diff_without_a_second_moment_is_up_to_now(here: Project, run: Run) -> None:
    """A manual edit of the file belongs to the present, as in `show`, and is marked as one."""
    assert difference(run("diff", "3", "9", "--json")) == difference(run("diff", "3", "--json"))
    changed = json.loads(here.playbook.read_bytes())
    changed["key_points"] = []
    here.playbook.write_text(json.dumps(changed), encoding="utf-8")
    answer = run("diff", "9")
    assert "now, with a manual edit of playbook.json" in " ".join(answer.out.split())
    assert "- kpt_002  removed in playbook.json, with 0 helpful and 0 harmful\n" in answer.out
    assert commands.playbook(here, "~0").state.seq == 9


def test_a_manual_edit_that_is_not_recorded_has_no_number(here: Project, run: Run) -> None:
    """It is no event yet, so its moment is given by time, not by number."""
    changed = json.loads(here.playbook.read_bytes())
    changed["key_points"] = []
    here.playbook.write_text(json.dumps(changed), encoding="utf-8")
    answer = difference(run("diff", "9", "--json"))
    assert (9, None) == (answer["from"]["seq"], answer["to"]["seq"])
    assert answer["from"]["at"] < answer["to"]["at"] == answer["top"]["last_updated"]
    assert ("removed", None) == (answer["gone"][0]["left"]["how"], answer["gone"][0]["left"]["seq"])
    commands.replay(here)
    assert [10] == [one["left"]["seq"] for one in difference(run("diff", "9", "--json"))["gone"]]
