"""`what-if` and `bisect` on the command line: their answers, their bad input, and that they record nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.reference_model import extraction
from tallybook.ledger.errors import EXIT_BAD_INPUT
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.command_line import Answer


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project in which kpt_002 was pruned at event 11 by session s2, and rated helpful four times later."""
    made = Project(project)
    for text in ("use types", "delete the cache"):
        commands.add(made, text, HUMAN)
    for session, times in (("s1", 2), ("s2", 1)):
        rated = extraction(*[("kpt_002", "harmful")] * times, ("kpt_001", "helpful"))
        commands.record(made, rated, {"rater": "reflector", "session": session})
    commands.record(made, extraction(*[("kpt_002", "helpful")] * 4), {"rater": "agent"})
    return made


def test_the_alternative_is_written_to_another_file(here: Project, run: Callable[..., Answer], tmp_path: Path) -> None:
    """With --output the file has the other playbook; with the default policy it equals playbook.json."""
    same, other = tmp_path / "same.json", tmp_path / "other.json"
    assert 0 == run("what-if", "--output", str(same)).code
    assert here.playbook.read_bytes() == same.read_bytes()
    assert 0 == run("what-if", "--floor", "9", "--output", str(other)).code
    assert ["kpt_001", "kpt_002"] == [kp["name"] for kp in json.loads(other.read_bytes())["key_points"]]
    assert other.read_text(encoding="utf-8") == run("what-if", "--floor", "9", "--output", "-").out


@pytest.mark.usefixtures("here")
def test_a_policy_by_age_answers_about_a_merge(run: Callable[..., Answer]) -> None:
    """What the question adds has a time as well."""
    answer = run("what-if", "--half-life", "90d", "--floor", "9", "--merge", "kpt_001", "kpt_002", "--json")
    assert [["kpt_002"]] == [merge["merged"] for merge in json.loads(answer.out)["merge"]]


# bisect


@pytest.mark.parametrize(
    ("condition", "says"),
    [("(" * 100_000, "100,000 characters, more than 2,000"), ("\udce9\x1b[31m", "has no meaning here")],
)
@pytest.mark.usefixtures("here")
def test_an_invalid_search_is_one_line(run: Callable[..., Answer], condition: str, says: str) -> None:
    """A condition that is too long, and one that a terminal must not see, are said in one printable line."""
    answer = run("bisect", condition)
    assert (EXIT_BAD_INPUT, "", 1) == (answer.code, answer.out, answer.err.count("\n"))
    assert says in answer.err
    assert answer.err.rstrip("\n").isprintable()
