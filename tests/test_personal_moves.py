"""Entries that go from a person's own playbook to the project's and back, and what never leaves (rules 24, 25)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers.git_repositories import git
from helpers.hook_calls import START, call
from helpers.shared_clones import make_clones
from tallybook.projections.surfaces.mcp.protocol import Server
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from helpers.command_line import Run

OWN = "Commit small steps"


@pytest.fixture
def mine(project: Path, run: Run) -> Path:
    """Make a project with an entry and a playbook of one's own with a rated one; return the latter's folder."""
    del project
    run("add", "Write tests")
    run("init", "--mine")
    run("add", "--mine", OWN)
    run("rate", "my_001", "helpful")
    return Path.home() / ".claude" / "my-playbook"


def entries(run: Run, *words: str) -> list[tuple[str, str, int, int]]:
    """Return the entries that `show` prints."""
    found = json.loads(run("show", "--json", *words).out)["key_points"]
    return [(one["name"], one["text"], one["helpful"], one["harmful"]) for one in found]


@pytest.mark.usefixtures("mine")
def test_promote_adds_the_entry_at_zero_and_keeps_its_origin(run: Run) -> None:
    """It shows the text, the project's entry has no ratings, the own one stays, and both stories link (rule 25)."""
    answer = run("promote", "my_1")
    assert (0, f"my_001  +1 -0  {OWN}") == (answer.code, answer.out.splitlines()[0])
    assert [("kpt_001", "Write tests", 0, 0), ("kpt_002", OWN, 0, 0)] == entries(run)
    assert [("my_001", OWN, 1, 0)] == entries(run, "--mine")
    rows = [("kpt_002", "my_001", "In your own playbook:"), ("my_001", "kpt_002", "In the project's playbook:")]
    for name, other, heading in rows:
        story = json.loads(run("why", name, "--json").out)
        assert (name, [other]) == (story["name"], [one["name"] for one in story["linked"]])
        assert f"{heading}\n{other}  kept" in run("why", name).out
    assert '"promoted from my_001" (human' in run("why", "kpt_002").out
    assert (1, True) == (run("promote", "my_001").code, "has this text as kpt_002" in run("promote", "my_001").err)
    run("undo")
    assert [("kpt_001", "Write tests", 0, 0)] == entries(run)
    assert "linked" not in json.loads(run("why", "my_001", "--json").out)


@pytest.mark.usefixtures("mine")
def test_demote_takes_the_entry_out_of_the_project(run: Run) -> None:
    """It leaves the project, starts in the own playbook at 0/0, and both stories link (rule 25)."""
    run("rate", "kpt_001", "helpful")
    answer = run("demote", "kpt_001", "--reason", "only mine", "--json")
    made = json.loads(answer.out)
    assert ['kpt_001 retired: "only mine"'] == [event["summary"] for event in made["events"]]
    assert ([], [("my_001", OWN, 1, 0), ("my_002", "Write tests", 0, 0)]) == (entries(run), entries(run, "--mine"))
    assert ["my_002"] == [one["name"] for one in json.loads(run("why", "kpt_001", "--json").out)["linked"]]
    assert ["kpt_001"] == [one["name"] for one in json.loads(run("why", "my_002", "--json").out)["linked"]]
    assert (1, 1) == (run("demote", "kpt_001").code, run("demote", "kpt_009").code)


@pytest.mark.usefixtures("mine")
def test_a_redacted_text_moves_in_neither_direction(run: Run) -> None:
    """An entry whose text was redacted in one of the playbooks stays where it is, and nothing is recorded (rule 25)."""
    run("add", "A secret of the team")
    run("add", "--mine", "A secret of mine")
    run("redact", "--text", "A secret of the team", "--reason", "leaked", "--yes", "--expect", "1")
    run("redact", "--mine", "--text", "A secret of mine", "--reason", "leaked", "--yes", "--expect", "1")
    run("add", "A secret of mine")
    run("add", "--mine", "A secret of the team")
    before = entries(run), entries(run, "--mine"), run("log").out, run("log", "--mine").out
    for words in (("promote", "my_002"), ("promote", "my_003"), ("demote", "kpt_002"), ("demote", "kpt_003")):
        answer = run(*words)
        assert (1, True) == (answer.code, "has a text that was redacted; nothing was recorded" in answer.err), answer
    assert before == (entries(run), entries(run, "--mine"), run("log").out, run("log", "--mine").out)


@pytest.mark.parametrize("words", [("promote", "my_001"), ("demote", "kpt_001"), ("promote", "my_001", "--rater", "x")])
def test_an_agent_can_do_neither(run: Run, mine: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    """Inside an agent, and for another rater than a person, nothing is recorded: exit code 1 (rules 2, 25)."""
    before = (mine / "ledger" / "events.jsonl").read_bytes(), entries(run)
    if "--rater" not in words:
        monkeypatch.setenv("CLAUDECODE", "1")
    answer = run(*words)
    assert (1, True) == (answer.code, "only a person may do this" in answer.err)
    assert before == ((mine / "ledger" / "events.jsonl").read_bytes(), entries(run))


# Where both are shown, and where only names may be


def test_mcp_answers_with_both(run: Run, project: Path, mine: Path) -> None:
    """The tools give, explain and rate entries of both; the own playbook is a resource (rule 24)."""
    server = Server(Project(project), "m1")

    def ask(tool: str, **arguments: Any) -> Any:
        answer = server.methods["tools/call"]({"name": tool, "arguments": arguments})
        return json.loads(answer["content"][0]["text"]) if not answer["isError"] else answer

    assert {"kpt_001", "my_001"} == {entry["name"] for entry in ask("playbook", task="commit")["entries"]}
    assert OWN == ask("why", name="my_001")["text"]
    assert ([None, None], [7, 8]) == (
        (made := ask("rate", name="my_001", rating="harmful"))["events"],
        made["mine"]["events"],
    )
    assert ask("rate", name="my_001", rating="helpful")["isError"]
    assert [("my_001", OWN, 1, 1)] == entries(run, "--mine")
    assert "tallybook://mine" in [resource["uri"] for resource in server.methods["resources/list"]({})["resources"]]
    contents = server.methods["resources/read"]({"uri": "tallybook://mine"})["contents"]
    assert [OWN] == [point["text"] for point in json.loads(contents[0]["text"])["key_points"]]
    assert mine.exists()


def test_a_project_holds_no_text_or_rating_of_an_own_entry(run: Run, project: Path, mine: Path) -> None:
    """After a told, cited and rated session neither a file of the project nor its page has an own text (rule 24)."""
    call(START)
    call({"hook_event_name": "Stop", "last_assistant_message": "As [my_001] says."})
    run("rate", "my_001", "kpt_001", "harmful", "--reason", "too slow", "--session", "s1")
    run("record", stdin=b'{"evaluations": [{"name": "my_001", "rating": "helpful"}]}')
    run("page", "--output", str(project / "page.html"))
    files = [path for path in project.rglob("*") if path.is_file()]
    assert (project / "page.html") in files
    assert [] == [path for path in files if OWN.encode() in path.read_bytes()]
    ledger = (project / ".claude" / "ledger" / "events.jsonl").read_bytes()
    assert (False, True) == (b"my_001" in ledger, b"too slow" in ledger)
    assert [("my_001", OWN, 2, 1)] == entries(run, "--mine")
    assert mine.exists()


def test_nothing_of_it_is_shared(tmp_path: Path) -> None:
    """A shared book gets the project's events alone, and no verb of sharing takes the own playbook (rules 23, 24)."""
    remote, (anna,) = make_clones(tmp_path, "anna")
    anna.do("add", "Write tests")
    anna.do("init", "--mine")
    anna.do("add", "--mine", OWN)
    anna.do("share", "git", "--yes")
    anna.hook("SessionStart", source="startup")
    anna.hook("Stop", last_assistant_message="As [my_001] and [kpt_001] say.")
    anna.do("rate", "my_001", "kpt_001", "helpful")
    assert "my_001" not in anna.do("sync", "--dry-run")
    anna.do("sync")
    everything = git(remote, "log", "--all", "--patch")
    assert (True, False, False) == tuple(text in everything for text in ("Write tests", OWN, "my_001"))
    for words in (("share", "git", "--mine"), ("sync", "--mine"), ("share", "status", "--mine")):
        assert 2 == anna.run(*words).code
    mine = anna.home / ".claude" / "my-playbook"
    assert not (mine / "ledger" / "book").exists()
    assert {"kpt_001": ("Write tests", 1, 0)} == anna.entries()
    assert 1 == json.loads(anna.do("show", "--mine", "--json"))["key_points"][0]["helpful"]
