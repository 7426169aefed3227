"""Names in a reflection: a model rates what its prompt showed, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
import re
from typing import TYPE_CHECKING

from helpers.hook_calls import events
from helpers.reference_model import point
from helpers.transcripts import Script, answer, asked_for, kept
from tallybook.ledger.events import PointNoted, PointProposed
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli.main import run as run_here
from tallybook.projections.surfaces.reflection import prompt as prompts

if TYPE_CHECKING:
    import pytest

    from helpers.transcripts import Client

TEMPLATE = (Path(__file__).parents[1] / "prompts" / "reflection.txt").read_text(encoding="utf-8")


def test_a_rating_of_a_name_that_the_prompt_did_not_show_is_ignored(
    project: Path, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new entry starts without ratings, although the answer rates the name that it gets."""
    place = asked_for(project, Script(kept(project) / "s1.jsonl").user("Fix it"))
    client.plans(answer("Never push on Friday.", kpt_001="helpful", kpt_002="harmful"))
    assert 0 == run_here(["reflect", "--rater", "claude"])
    first, second = commands.show(place)["key_points"]
    assert (1, 0) == (first["helpful"], first["harmful"])
    assert point("kpt_002", "Never push on Friday.") == second
    assert ["kpt_001"] == [note.name for note in events(place, PointNoted)]
    said = "s1: 1 rated, learned kpt_002, ignored the rating of kpt_002: the prompt did not show it, 1,250 tokens\n"
    assert said == capsys.readouterr().out


def test_an_entry_without_room_in_the_prompt_is_not_rated() -> None:
    """Of a playbook that is longer than its place, only the names in the prompt count."""
    many = [point(f"kpt_{number:03d}", "x" * 200) for number in range(1000)]
    shown = prompts.shown_names(TEMPLATE, many)
    asked = prompts.render_prompt(TEMPLATE, many, [], "User: Fix it")
    assert set(re.findall(r"^\[(kpt_[0-9]+)\]", asked, re.MULTILINE)) == shown
    assert 0 < len(shown) < len(many)
    judged = prompts.read_answer(answer(**{kp["name"]: "helpful" for kp in many}))
    rated = {one["name"] for one in judged.about(shown).payload["evaluations"]}
    assert shown == rated


def test_a_template_without_the_playbook_shows_no_name() -> None:
    """A user's own template that leaves the playbook out asks for no rating."""
    assert frozenset() == prompts.shown_names("{transcript}", [point()])


def test_the_example_in_the_prompt_names_no_entry() -> None:
    """The shape of an answer in the prompt has no JSON string as a name, so that it cannot be an entry's name."""
    assert [] == re.findall(r"kpt_[0-9]+", TEMPLATE)
    assert ["NAME,"] == re.findall(r'"name": (\S+)', TEMPLATE)


def test_unknown_keys_of_an_answer_are_named(project: Path, client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    """What an answer brings beside its two lists counts nothing, and `reflect` says so."""
    asked_for(project, Script(kept(project) / "s1.jsonl").user("Fix it"))
    client.plans(json.dumps({"new_key_points": [], "evaluations": [], "advice": []}))
    assert 0 == run_here(["reflect", "--rater", "claude"])
    said = "s1: 0 rated, ignored advice: is not a key of an extraction result, 1,250 tokens\n"
    assert said == capsys.readouterr().out


def test_operations_become_proposals(project: Path, client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    """A reflection's DELETE of an entry that its prompt showed is a proposal; of any other name it counts nothing."""
    place = asked_for(project, Script(kept(project) / "s1.jsonl").user("Fix it"))
    wanted = [{"type": "DELETE", "target_id": name, "reason": "out of date"} for name in ("kpt_001", "kpt_999")]
    client.plans(json.dumps({"new_key_points": ["Read the logs"], "evaluations": [], "operations": wanted}))
    assert 0 == run_here(["reflect", "--rater", "claude"])
    said = "s1: 0 rated, learned kpt_002, ignored operations[1]: no such entry in the playbook, 1,250 tokens\n"
    assert said == capsys.readouterr().out
    [proposed] = events(place, PointProposed)
    assert ("delete", "kpt_001", "out of date") == (proposed.verb, proposed.name, proposed.reason)
    assert ["kpt_001", "kpt_002"] == [one["name"] for one in commands.show(place)["key_points"]]
