"""The scores on the page: those of `score`, on the axis of the events."""

from __future__ import annotations

from itertools import combinations
import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.film_reader import read_page
from helpers.score_days import record_days
from tallybook.projections.scores.summary import current_scores
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.scores.state import state_of
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
    state = state_of(here, configuration.load(here))
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


def test_a_day_lies_at_its_last_event(here: Project, run: Run) -> None:
    """The place of today on the axis is the end of the ledger."""
    meta, tables = scores(here, run)
    assert tables is not None
    assert [meta["counts"]["events"]] == tables["ends"][-1:]


def test_without_measurements_there_are_no_scores(project: Path, run: Run) -> None:
    """A ledger of ratings alone has no such stream."""
    commands.add(Project(project), "use types", HUMAN)
    assert scores(Project(project), run)[1] is None


def test_scores_that_are_off_are_not_on_the_page(here: Project, run: Run) -> None:
    """With `enabled: false` the page has no scores, as `score` shows none, and no warning."""
    config = here.claude / "config" / "scoring-config.yaml"
    config.parent.mkdir(exist_ok=True)
    config.write_text("scoring:\n  enabled: false\n")
    assert {"enabled": False} == json.loads(run("score", "--json").out)
    meta, tables = scores(here, run)
    assert (None, []) == (tables, meta["warnings"])


def test_an_invalid_configuration_costs_the_scores_alone(here: Project, run: Run) -> None:
    """The page is written without scores, and says so."""
    config = here.claude / "config" / "scoring-config.yaml"
    config.parent.mkdir(exist_ok=True)
    config.write_text("scoring: [")
    meta, tables = scores(here, run)
    assert (None, ["without scores: their configuration is invalid; run `tallybook score`"]) == (
        tables,
        meta["warnings"],
    )


def expand(tables: dict[str, Any], drop: dict[str, Any]) -> list[list[Any]]:
    """Return the leads of a drop."""
    return [tables["leads"][number] for number in tables["spans"][drop["span"]]]


def test_the_leads_between_two_days_are_those_of_blame(project: Path, run: Run) -> None:
    """For every two days the page has the drop and the leads of `score --blame DAY..DAY`, also after an undo."""
    here = Project(project)
    record_days(here)
    _, tables = scores(here, run)
    assert tables is not None
    days = tables["days"]
    assert 7 == tables["apart"]
    known = {(drop["score"], drop["from"], drop["to"]): drop for drop in tables["drops"]}
    asked = 0
    for score in ("ac03", "session.overall"):
        for since, to in combinations(range(len(days)), 2):
            words = ("--component", score) if score == "ac03" else ()
            answer = json.loads(run("score", *words, "--blame", f"{days[since]}..{days[to]}", "--json").out)
            drop = known.get((score, since, to))
            assert (answer["drop"] is None) == (drop is None)
            if drop is None:
                continue
            asked += 1
            assert answer["between"] == {side: drop[side] for side in ("good", "bad")}
            assert (answer["drop"]["before"]["score"], answer["drop"]["after"]["score"]) == (
                drop["before"],
                drop["after"],
            )
            keys = ("seq", "change", "came", "went", "changed")
            assert [[lead[key] for key in keys] for lead in answer["leads"]] == expand(tables, drop)
    assert asked > 10


def test_without_texts_no_lead_names_a_session(project: Path, run: Run) -> None:
    """Neither the sessions between which a score dropped nor a text of an entry is in the stream."""
    here = Project(project)
    record_days(here)
    assert 0 == run("page", "--without-texts", "-o", str(project / "a.html")).code
    _, document = read_page((project / "a.html").read_text(encoding="utf-8"))
    tables = document["scores"]
    assert tables["drops"]
    assert [] == [drop for drop in tables["drops"] if "session" in drop["good"] or "session" in drop["bad"]]
    assert "guidance" not in str(tables)


def test_what_is_too_much_is_left_out_and_said(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where folding for the leads would cost too much, the page has none, and says between which days it looked."""
    here = Project(project)
    record_days(here)
    for name, value, apart in [("MAX_LOOKS", 80_000, 5), ("MAX_FOLDED", 10, 0), ("MAX_LEADS", 1, 0)]:
        with monkeypatch.context() as patched:
            patched.setattr(f"tallybook.projections.surfaces.page.scores.{name}", value)
            _, tables = scores(here, run)
            assert tables is not None
            assert tables["apart"] <= apart, name
            assert all(drop["to"] - drop["from"] <= tables["apart"] for drop in tables["drops"])
