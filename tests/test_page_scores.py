"""The scores on the page: those of `score`, on the axis of the events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.film_reader import read_page
from tallybook.projections.scores.summary import current_scores
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.scores.configuration import state_of
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run


@pytest.fixture
def here(project: Path, run: Run) -> Project:
    """Return a project with an entry and two measured sessions, and a baseline."""
    made = Project(project)
    commands.add(made, "use types", HUMAN)
    for session, startup in (("s1", "900"), ("s2", "8000")):
        assert 0 == run("score", "record", "--session", session, "--component", "ac01", f"startup_ms={startup}").code
    assert 0 == run("score", "baseline", "ac01", "--value", "90").code
    return made


def scores(project: Project, run: Run) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the meta of a project's page, and its scores, None without any."""
    assert 0 == run("page", "-o", str(project.root / "a.html")).code
    meta, document = read_page((project.root / "a.html").read_text(encoding="utf-8"))
    return meta, document["scores"]


def test_the_scores_are_those_of_score(here: Project, run: Run) -> None:
    """Each series has the values that are shown of its score, its coverage, its baseline and its alerts."""
    _, tables = scores(here, run)
    assert tables is not None
    state = state_of(here)
    current = current_scores(state)
    assert list(current) == [row["id"] for row in tables["series"]]
    assert sorted(state.days) == tables["days"]
    for row in tables["series"]:
        one = current[row["id"]]
        assert [value for _, value in one.shown] == [value for value in row["values"] if value is not None]
        assert one.name == row["label"]
    groups = {row["id"]: row["group"] for row in tables["series"]}
    assert ("overall", "component") == (groups["session.overall"], groups["ac01"])
    (measured,) = [row for row in tables["series"] if row["id"] == "ac01"]
    assert (90, True) == (measured["baseline"], 0 < measured["coverage"][0] <= 1)


@pytest.mark.parametrize(
    ("own", "warnings"),
    [
        ("scoring:\n  enabled: false\n", []),
        ("scoring: [", ["without scores: their configuration is invalid; run `tallybook score`"]),
    ],
)
def test_scores_that_are_off_or_invalid_are_not_on_the_page(
    here: Project, run: Run, own: str, warnings: list[str]
) -> None:
    """With `enabled: false` the page has no scores and no warning; an invalid configuration costs the scores alone."""
    config = here.claude / "config" / "scoring-config.yaml"
    config.parent.mkdir(exist_ok=True)
    config.write_text(own)
    meta, tables = scores(here, run)
    assert (None, warnings) == (tables, meta["warnings"])
