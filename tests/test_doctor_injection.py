"""The doctor on injection: agents that `by_task` does not serve, and the share of sessions that cite (rule 22)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.hook_calls import START, call, set_to
from helpers.transcripts import Script, ask_again, kept
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with an entry."""
    made = Project(project)
    commands.add(made, "Use type hints", HUMAN)
    return made


def findings(run: Run) -> list[tuple[str, str]]:
    """Return the findings on injection."""
    rows = json.loads(run("doctor", "--json").out)["findings"]
    return [(one["level"], one["message"]) for one in rows if one["check"] == "injection"]


@pytest.mark.usefixtures("here")
def test_the_share_of_sessions_that_cite_is_shown(run: Run) -> None:
    """A session counts once, however often it cites; one that was given nothing does not count (rule 22)."""
    assert [("ok", "no session was given entries in 30 days")] == findings(run)
    for session in ("s1", "s2", "s3"):
        call(START, session)
    for session, text in (("s1", "as [kpt_001] says"), ("s1", "[kpt_001]!"), ("s3", "no"), ("s9", "[kpt_001]")):
        call({"hook_event_name": "Stop", "last_assistant_message": text}, session)
    assert [("ok", "1 of 3 sessions that were given entries in 30 days cited one (33%)")] == findings(run)
    assert "cited one (33%)" in run("doctor").out


def test_a_session_without_a_prompt_is_not_one_that_could_cite(here: Project, run: Run) -> None:
    """A session that ended before any prompt is left out of the share (rule 22)."""
    for session in ("s1", "s2"):
        call(START, session)
    script = Script(kept(here.root) / "s2.jsonl", "s2").line("attachment", attachment={"type": "hook_success"})
    ask_again(here, script)
    assert 0 == run("reflect").code
    assert [("ok", "0 of 1 session that were given entries in 30 days cited one (0%)")] == findings(run)


def test_an_agent_whose_prompts_take_no_answer_is_named(here: Project, run: Run) -> None:
    """With `by_task = true` Cursor is given nothing, because no answer of it is known to reach the model (rule 22)."""
    (here.root / ".cursor").mkdir()
    (here.root / ".codex").mkdir()
    assert [] == [one for one in findings(run) if one[0] == "note"]
    set_to(here, "[playbook]\nby_task = true\n")
    message = "Cursor is given nothing by task: no answer to its prompts is known to reach the model"
    assert ("note", message) in findings(run)
    assert not any("Codex" in one[1] for one in findings(run))
