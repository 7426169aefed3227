"""The verb `show --as-agent`: what a session is given for a task, each score as a sum (rule 22)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.hook_calls import call, events, set_to, told
from tallybook.ledger.events import PlaybookInjected
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

TEXTS = ("Run the tests before each commit.", "Quote ids as strings in JSON.", "Name the units of numbers.")
TASK = "commit these tests"


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with three entries, of which the second is rated."""
    made = Project(project)
    for text in TEXTS:
        commands.add(made, text, HUMAN)
    commands.rate(made, "kpt_002", "helpful", HUMAN)
    return made


def test_a_task_is_shown_what_a_prompt_would_be_given(here: Project, run: Run) -> None:
    """The text is the hook's to the character, and nothing is recorded where a person asks (rule 22)."""
    before = [*commands.list_events(here)]
    shown = run("show", "--as-agent", "--for", TASK)
    assert (0, before) == (shown.code, [*commands.list_events(here)])
    set_to(here, "[playbook]\nby_task = true\n")
    assert told(call({"hook_event_name": "UserPromptSubmit", "prompt": TASK})) == shown.out.removesuffix("\n")


def test_without_a_task_the_start_of_a_session_is_shown(here: Project, run: Run) -> None:
    """It is what the hook of a start gives."""
    start = told(call({"hook_event_name": "SessionStart", "source": "startup"}))
    assert start == run("show", "--as-agent").out.removesuffix("\n")
    found = json.loads(run("show", "--as-agent", "--json").out)
    assert ["kpt_001", "kpt_002", "kpt_003"] == [entry["name"] for entry in found["entries"]]
    assert len(start) == found["chars"]
    assert 1 == len(events(here, PlaybookInjected))


@pytest.mark.usefixtures("here")
def test_a_score_is_explained_as_a_sum(run: Run) -> None:
    """Each word has its points, and the ratings theirs; JSON has the same numbers (rule 22)."""
    answer = run("show", "--as-agent", "--for", TASK, "--explain")
    best, text, second, *_ = answer.out.splitlines()
    assert "kpt_001  1.89 = commit 0.95 + test 0.95 + ratings 0.00 (0 helpful, 0 harmful)" == best
    assert f"    {TEXTS[0]}" == text
    assert "kpt_002  0.21 = ratings 0.21 (1 helpful, 0 harmful)" == second
    assert "note: left out: 1 unrelated\n" == answer.err
    found = json.loads(run("show", "--as-agent", "--for", TASK, "--json").out)
    first, other = found["entries"]
    assert first["score"] == pytest.approx(sum(first["words"].values()) + first["proof"], abs=1e-3)
    assert ({}, 0.2065, {"unrelated": 1}) == (other["words"], other["proof"], found["left_out"])


def test_what_an_agent_asks_for_is_recorded(here: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The injection is in the agent's session, or in none where it does not say which (rules 10 and 22)."""
    monkeypatch.setenv("CLAUDECODE", "1")
    run("show", "--as-agent", "--for", TASK)
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s7")
    run("show", "--as-agent", "--for", TASK)
    rows = [row for row in commands.list_events(here) if row["kind"] == "playbook.injected"]
    assert [None, "s7"] == [row["by"].get("session") for row in rows]
    assert [("kpt_001", "kpt_002")] * 2 == [event.names for event in events(here, PlaybookInjected)]


@pytest.mark.usefixtures("project")
def test_an_empty_project_gives_nothing_and_stays_empty(run: Run, project: Path) -> None:
    """The answer says so, exits with 0, and no file is made."""
    before = sorted(project.rglob("*"))
    answer = run("show", "--as-agent", "--for", TASK)
    assert (0, "", "note: nothing is given\n") == (answer.code, answer.out, answer.err)
    found = json.loads(run("show", "--as-agent", "--json").out)
    assert {"entries": [], "left_out": {}, "chars": 0, "budget_chars": 8000} == found
    assert before == sorted(project.rglob("*"))


def test_odd_input_is_answered_in_one_line(here: Project, run: Run) -> None:
    """Scores need a task; one without a word leaves the best proven; a budget of nothing gives nothing."""
    refused = run("show", "--as-agent", "--explain")
    assert (2, "tallybook: --explain: needs a task; give --for TEXT\n") == (refused.code, refused.err)
    for task in ("", "\x1b[2J…", "the"):
        found = json.loads(run("show", "--as-agent", "--for", task, "--json").out)
        assert ["kpt_002"] == [entry["name"] for entry in found["entries"]]
    set_to(here, "[playbook]\nbudget_chars = 0\n")
    assert "note: nothing is given: budget_chars is 0\n" == run("show", "--as-agent", "--for", TASK).err
