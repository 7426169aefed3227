"""Who is a person: what an agent types is its own, and a person accepts or rejects what it may only propose."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tallybook.ledger.events import PointProposed
from tallybook.projections.review import LESSON_VERB
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing.record import write
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

AGENTS = {
    "CLAUDECODE": "claude",
    "CLAUDE_CODE_SESSION_ID": "claude",
    "GEMINI_CLI": "gemini",
    "COPILOT_CLI": "copilot",
    "CODEX_THREAD_ID": "codex",
}


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the commands that follow as Claude Code's session s7 would."""
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s7")


def authors(run: Run) -> list[dict[str, str]]:
    """Return the author of every event."""
    return [json.loads(line)["by"] for line in run("log", "--json").out.splitlines()]


def entries(run: Run) -> list[tuple[str, str, int, int]]:
    """Return the playbook's entries."""
    found = json.loads(run("show", "--json").out)["key_points"]
    return [(entry["name"], entry["text"], entry["helpful"], entry["harmful"]) for entry in found]


def protect(run: Run) -> None:
    """Make kpt_001 protected by ratings, and add kpt_002."""
    run("add", "Always test")
    run("add", "Test always")
    for _ in range(3):
        run("rate", "kpt_001", "helpful")


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("variable", AGENTS)
def test_what_an_agent_types_is_the_agents(run: Run, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """Each client's mark in the environment makes the command the agent's, with the client's name (rule 1)."""
    monkeypatch.setenv(variable, "1")
    run("add", "Always test")
    by = authors(run)[-1]
    assert ("agent", AGENTS[variable]) == (by["rater"], by["agent"])


@pytest.mark.usefixtures("project", "inside")
def test_an_agent_cannot_say_that_it_is_a_person(run: Run) -> None:
    """`--rater human` inside an agent is bad input, and nothing is recorded (rule 1)."""
    refused = run("add", "Always test", "--rater", "human")
    assert (2, 0) == (refused.code, len(authors(run)))
    assert "--rater human: is refused inside an agent (CLAUDECODE is set)" in refused.err


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "words",
    [("retire", "kpt_001"), ("reword", "kpt_001", "Never test"), ("merge", "kpt_002", "kpt_001")],
    ids=lambda words: words[0],
)
def test_an_agent_only_proposes_to_change_a_protected_entry(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """The playbook stays as it was, exit code 1 says so, and the proposal is listed (rule 2)."""
    protect(run)
    before = entries(run)
    monkeypatch.setenv("CLAUDECODE", "1")
    answer = run(*words)
    [proposal] = json.loads(run("proposals", "--json").out)
    assert (1, before) == (answer.code, entries(run))
    assert f"{words[0]}: names a protected entry, so inside an agent it was only proposed" in answer.err
    assert (words[0], words[1], "protected") == (proposal["verb"], proposal["name"], proposal["cause"])


@pytest.mark.usefixtures("project")
def test_an_agent_changes_what_is_not_protected(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry without enough helpful ratings is retired at once (rule 3)."""
    protect(run)
    monkeypatch.setenv("CLAUDECODE", "1")
    assert 0 == run("retire", "kpt_002").code
    assert ["kpt_001"] == [entry[0] for entry in entries(run)]


@pytest.mark.usefixtures("project")
def test_an_agent_only_proposes_to_unpin(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pin is a person's decision, so its end is, too (rule 2)."""
    protect(run)
    run("pin", "kpt_002")
    monkeypatch.setenv("CLAUDECODE", "1")
    answer = run("pin", "--off", "kpt_002")
    assert (1, True) == (answer.code, "only proposed" in answer.err)
    assert ["unpin"] == [load["verb"] for load in json.loads(run("proposals", "--json").out)]


@pytest.fixture
def proposed(run: Run, project: object, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the number of an agent's proposal to retire a protected entry."""
    del project
    protect(run)
    with monkeypatch.context() as patch:
        patch.setenv("CLAUDECODE", "1")
        patch.setenv("CLAUDE_CODE_SESSION_ID", "s7")
        run("retire", "kpt_001", "--reason", "too obvious")
    number: int = json.loads(run("proposals", "--json").out)[0]["seq"]
    return number


def test_a_person_accepts_a_proposal(run: Run, proposed: int) -> None:
    """The change and its acceptance are one batch by a person; the proposal is closed (rule 17)."""
    answer = run("proposals", "accept", str(proposed))
    assert (0, ["kpt_002"]) == (answer.code, [entry[0] for entry in entries(run)])
    assert "No proposal is open.\n" == run("proposals").out
    kinds = [json.loads(line)["kind"] for line in run("log", "--json").out.splitlines()]
    assert ["playbook.decided", "point.retired"] == kinds[-2:]
    assert {"rater": "human"} == authors(run)[-1]


def test_an_undo_takes_an_acceptance_back(run: Run, proposed: int) -> None:
    """The entry is there again, and the proposal is open again (rule 17)."""
    before = entries(run)
    run("proposals", "accept", str(proposed))
    assert 0 == run("undo").code
    assert (before, [proposed]) == (entries(run), [load["seq"] for load in json.loads(run("proposals", "--json").out)])


def test_a_person_rejects_a_proposal(run: Run, proposed: int) -> None:
    """The playbook stays as it was, the proposal is closed, and the reason is in the ledger (rule 17)."""
    before = entries(run)
    assert 0 == run("proposals", "reject", str(proposed), "--reason", "it is not obvious").code
    assert (before, []) == (entries(run), json.loads(run("proposals", "--json").out))
    assert "it is not obvious" in run("log").out


@pytest.mark.parametrize("verb", ["proposals accept", "proposals reject"])
@pytest.mark.parametrize("choice", [("--all",), ("--of", "s7")], ids=["all", "session"])
def test_proposals_are_chosen_by_session_or_all(run: Run, proposed: int, verb: str, choice: tuple[str, ...]) -> None:
    """The same is done to every open proposal, or to those of a session (rule 17)."""
    assert [proposed] == [load["proposal"] for load in json.loads(run(*verb.split(), *choice, "--json").out)]


@pytest.mark.parametrize("verb", ["proposals accept", "proposals reject"])
def test_an_agent_cannot_decide_its_own_proposal(
    run: Run, proposed: int, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside an agent the answer is no with exit code 1, and the proposal stays open (rule 2)."""
    monkeypatch.setenv("CLAUDECODE", "1")
    answer = run(*verb.split(), str(proposed))
    assert (1, True) == (answer.code, f"{verb}: only a person may do this" in answer.err)
    assert [proposed] == [load["seq"] for load in json.loads(run("proposals", "--json").out)]


def test_accepting_all_says_what_it_left_out(project: Path, run: Run, proposed: int) -> None:
    """`proposals accept --all` makes the changes, and says how many lessons are open still."""
    lesson = PointProposed(LESSON_VERB, "", (), "lesson", "", "Run make seed before pytest.", "")
    write(Project(project), [Request(PlainEvents((lesson,)), {"rater": "agent", "session": "s1"})])
    answer = run("proposals", "accept", "--all", "--json")
    assert [proposed] == [row["proposal"] for row in json.loads(answer.out)]
    assert "1 lesson left out; each is accepted by its number: tallybook proposals" in answer.err


@pytest.mark.usefixtures("project", "inside")
def test_plain_undo_inside_an_agent_undoes_the_last_change(run: Run) -> None:
    """The session of the agent is provenance only: it does not turn `undo` into the undo of a session."""
    run("add", "Always test")
    run("add", "Test always")
    assert 0 == run("undo").code
    assert ["kpt_001"] == [entry[0] for entry in entries(run)]


@pytest.mark.usefixtures("project")
def test_an_agent_only_proposes_to_redact_a_protected_entry(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proposal names the event and not its text; a person who accepts it by number erases the text (rule 2)."""
    protect(run)
    added, _ = map(json.loads, run("log", "--kind", "point.added", "--json").out.splitlines())
    with monkeypatch.context() as inside_agent:
        inside_agent.setenv("CLAUDECODE", "1")
        answer = run("redact", str(added["seq"]), "--reason", "a name")
    assert (1, "Always test") == (answer.code, entries(run)[0][1])
    assert "redact: is a text of kpt_001, which is protected, so inside an agent it was only proposed" in answer.err
    [proposal] = json.loads(run("proposals", "--json").out)
    assert ("redact", "kpt_001", added["id"]) == tuple(proposal[field] for field in ("verb", "name", "text"))
    assert f"proposed: redact kpt_001, the text of event {added['id']}" in run("proposals").out
    # What cannot be undone is not among those that are accepted as a heap.
    heap = run("proposals", "accept", "--all")
    assert 1 == heap.code
    assert "only lessons and redactions are open, and each is accepted by its number" in heap.err
    assert "Always test" == entries(run)[0][1]
    assert 0 == run("proposals", "accept", str(proposal["seq"])).code
    assert "Always test" not in run("show").out
    assert [] == json.loads(run("proposals", "--json").out)


@pytest.mark.usefixtures("project")
def test_an_agent_cannot_have_a_text_of_a_protected_entry_recorded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proposal would write the text down once more, so the command is refused and names a person's (rule 2)."""
    protect(run)
    before = len(authors(run))
    monkeypatch.setenv("CLAUDECODE", "1")
    answer = run("redact", "--text", "Always", "--reason", "a name", "--yes", "--expect", "1")
    assert (1, before, "Always test") == (answer.code, len(authors(run)), entries(run)[0][1])
    assert "a person runs, outside the agent: tallybook redact --text - --reason WHY" in answer.err
    answer = run("redact", "2", "--reason", "it says Always test")
    assert (2, before) == (answer.code, len(authors(run)))
