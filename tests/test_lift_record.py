"""Around a question of lift: reflection on held sessions, draws that are drawn again, and what MCP gives out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

from helpers.hook_calls import START, events
from helpers.lift import PROMPT, TEXTS, hold, hook, injections, load, six_entries
from helpers.transcripts import Script, answer, asked_for, kept
from tallybook import compat
from tallybook.ledger.events import PointRated
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.hooks import draws
from tallybook.projections.surfaces.mcp import resources
from tallybook.projections.surfaces.mcp.server import Server
from tallybook.projections.surfaces.reflection import schedule
from tallybook.projections.surfaces.writing import record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from helpers.command_line import Run
    from helpers.transcripts import Client
    from tallybook.projections.surfaces.workspace.project import Project


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with six entries, whose user draws half of the sessions."""
    return six_entries(project)


def held_session(project: Project) -> str:
    """Start sessions until one is held, and return it."""
    for number in range(100):
        hook(project, f"s{number}")
        if injections(project)[-1].held:
            return f"s{number}"
    raise AssertionError("no session was held")


# Rule 11


def test_a_reflector_sees_what_was_withheld_without_names(
    here: Project, run: Run, client: Client, project: Path
) -> None:
    """Rule 11: its text is in the prompt, its name is not, and a rating of it in that reflection is ignored."""
    run("lift", "ask", "kpt_001")
    session = held_session(here)
    asked_for(project, Script(kept(project) / f"{session}.jsonl", session).user("Fix it"))
    client.plans(answer("Use type hints", kpt_001="helpful", kpt_002="helpful"))
    said = run("reflect", "--rater", "claude").out
    (prompt,) = [one["prompt"] for one in client.asked]
    assert (True, False, True) == ("- Use type hints\n" in prompt, "kpt_001" in prompt, "[kpt_002]" in prompt)
    assert "ignored the rating of kpt_001: the prompt did not show it" in said
    assert [PointRated("kpt_002", "helpful")] == events(here, PointRated)
    assert list(TEXTS) == [entry["text"] for entry in commands.show(here)["key_points"]]


def test_a_persons_rating_of_a_withheld_entry_counts(here: Project, run: Run) -> None:
    """Rule 11: what a person rates counts, whatever was withheld from the session."""
    run("lift", "ask", "kpt_001")
    session = held_session(here)
    assert 0 == run("rate", "kpt_001", "helpful", "--session", session).code
    assert 1 == commands.show(here)["key_points"][0]["helpful"]


def test_a_forks_reflection_knows_what_its_lineage_was_not_given(
    here: Project, run: Run, client: Client, project: Path
) -> None:
    """Rule 11: a fork without an injection of its own has the draw of the session that it continues."""
    run("lift", "ask", "kpt_001")
    session = held_session(here)
    hook(here, session, {**START, "source": "resume"})
    hook(here, "fork", PROMPT)
    asked_for(project, Script(kept(project) / "fork.jsonl", "fork").user("Fix it"))
    client.plans(answer("Use type hints", kpt_001="helpful", kpt_002="helpful"))
    said = run("reflect", "--rater", "claude").out
    (prompt,) = [one["prompt"] for one in client.asked]
    assert (True, False) == ("- Use type hints\n" in prompt, "kpt_001" in prompt)
    assert "ignored the rating of kpt_001: the prompt did not show it" in said
    assert [PointRated("kpt_002", "helpful")] == events(here, PointRated)


def test_a_forks_own_injection_keeps_what_its_lineage_was_not_given(here: Project, run: Run) -> None:
    """Rule 11: an injection that did not select a withheld entry leaves it withheld."""
    run("lift", "ask", "kpt_001", "kpt_002")
    hook(here, "s1")
    (first,) = injections(here)
    whole = attrs.evolve(first, names=(), held=("kpt_001", "kpt_002"))
    part = attrs.evolve(whole, held=("kpt_002",), units=("kpt_002",))
    for session, event in (("root", attrs.evolve(whole, lineage="root")), ("fork", attrs.evolve(part, lineage="root"))):
        record.write(here, [Request(PlainEvents((event,)), {"rater": "tallybook", "session": session})])
    assert {"kpt_001", "kpt_002"} == schedule.load_reflections(here).withheld["fork"]


def test_the_rating_functions_count_for_a_withheld_entry(here: Project, run: Run) -> None:
    """Rule 11: the functions of `compat` keep REQ-SCORE-002, whatever was withheld from a session."""
    run("lift", "ask", "playbook")
    held_session(here)
    evaluations = [{"name": "kpt_001", "rating": "helpful"}, {"name": "kpt_002", "rating": "harmful"}]
    playbook = compat.load_playbook()
    compat.save_playbook(compat.update_playbook_data(playbook, {"new_key_points": [], "evaluations": evaluations}))
    counts = {entry["name"]: (entry["helpful"], entry["harmful"]) for entry in commands.show(here)["key_points"]}
    assert [(1, 0), (0, 1), (0, 0)] == [counts[name] for name in ("kpt_001", "kpt_002", "kpt_003")]


# Rule 10


def test_mcp_obeys_the_draw_of_its_session(here: Project, run: Run) -> None:
    """Rule 10: its tool, its resource and its stories give out nothing that the session's draw withholds."""
    run("lift", "ask", "kpt_001")
    session = held_session(here)
    server = Server(here, session)
    tool = {"name": "playbook", "arguments": {}}
    for text in (
        server.methods["tools/call"](tool)["content"][0]["text"],
        server.methods["resources/read"]({"uri": "tallybook://playbook"})["contents"][0]["text"],
        server.methods["tools/call"]({"name": "why", "arguments": {"name": "kpt_1"}})["content"][0]["text"],
    ):
        assert "Use type hints" not in text
    for arguments in ({"limit": 200}, {"since": "1"}):
        told = server.methods["tools/call"]({"name": "history", "arguments": arguments})["content"][0]["text"]
        assert ("Use type hints" in told, "Run the linter" in told) == (False, True)
    review = server.methods["prompts/get"]({"name": "review"})["messages"][0]["content"]["text"]
    assert (False, True) == ("Use type hints" in review, "Run the linter" in review)
    last = injections(here)[-1]
    assert (("kpt_001",), session, "kpt_002") == (last.held, last.lineage, min(last.names))


def test_no_draw_is_about_an_own_entry(here: Project, run: Run) -> None:
    """Rules 10 and 24: hooks, MCP and `show --as-agent` give own entries to a held session too, the draws omit them.

    They do not make up the five entries below which nothing is withheld either.
    """
    run("init", "--mine")
    run("add", "--mine", "Commit small steps")
    run("lift", "ask", "playbook")
    session = held_session(here)
    tool = {"name": "playbook", "arguments": {}}
    server = Server(here, session)
    for text in (
        server.methods["tools/call"](tool)["content"][0]["text"],
        run("show", "--as-agent", "--session", session).out,
        hook(here, session, {**START, "source": "compact"}),
    ):
        assert (True, False) == ("Commit small steps" in text, "Use type hints" in text)
    every = tuple(f"kpt_{number:03d}" for number in range(1, 7))
    assert {((), every)} == {(one.names, tuple(sorted(one.held))) for one in injections(here) if one.held}
    assert 1 == len({one.candidates for one in injections(here)})
    run("retire", "kpt_001", "kpt_002")
    assert "Name things well" in server.methods["tools/call"](tool)["content"][0]["text"]


def test_what_mcp_gives_an_unknown_session_is_recorded_and_does_not_count(here: Project, run: Run) -> None:
    """Rule 10: without a known session the answer is whole, and its event has no draw."""
    run("lift", "ask", "playbook")
    server = Server(here, "unknown")
    said = server.methods["tools/call"]({"name": "playbook", "arguments": {}})["content"][0]["text"]
    assert "Use type hints" in said
    (last,) = injections(here)
    assert (6, "", ()) == (len(last.names), last.question, last.units)
    (question,) = load(here).questions.values()
    assert {} == question.lineages


def test_the_persons_own_entries_are_not_drawn_in_mcp(here: Project, run: Run) -> None:
    """Rule 10: MCP withholds and records the project's entries alone, as hooks do."""
    assert 0 == run("init", "--mine").code
    assert 0 == run("add", "--mine", "Answer in English").code
    run("lift", "ask", "playbook")
    session = held_session(here)
    said = Server(here, session).methods["tools/call"]({"name": "playbook", "arguments": {}})["content"][0]["text"]
    assert (True, False) == ("Answer in English" in said, "Use type hints" in said)
    last = injections(here)[-1]
    assert ((), ()) == (last.names, tuple(name for name in last.held if name.startswith("my")))


def test_a_task_inside_an_agent_is_that_agents_own(here: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 10: an agent is not given under another session's name what is withheld from its own."""
    run("lift", "ask", "playbook")
    session = held_session(here)
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", session)
    said = run("show", "--as-agent", "--for", "use type hints", "--session", "another")
    assert (0, False) == (said.code, "Use type hints" in said.out)
    assert (session, ()) == ((last := injections(here)[-1]).lineage, last.names)


def test_mcp_records_once_what_it_gave_without_a_question(here: Project) -> None:
    """Rule 27: what a session was given by the tool and by the resource counts as given, without a draw."""
    server = Server(here, "s1")
    for _ in range(2):
        server.methods["tools/call"]({"name": "playbook", "arguments": {}})
        server.methods["resources/read"]({"uri": "tallybook://playbook"})
    (given,) = injections(here)
    assert (6, (), "") == (len(given.names), given.held, given.question)


def test_mcp_reads_no_playbook_where_nothing_is_asked(here: Project) -> None:
    """Rule 4: what is withheld is known without a look at the ledger."""
    (here.ledger / "events.jsonl").write_bytes(b"damaged\n")
    assert () == resources.withheld(Server(here, "s1").ledger)


# Rule 12


def test_verify_draws_again_where_it_has_the_secret(here: Project, run: Run) -> None:
    """Rule 12: each draw is repeated; without the secret they are counted, and the ledger passes."""
    assert "drawn again" not in run("verify").out
    run("lift", "ask", "playbook")
    for number in range(6):
        hook(here, f"s{number}")
    assert (0, True) == ((done := run("verify")).code, "6 draws of lift drawn again\n" in done.out)
    assert {"again": 6, "unknown": 0, "different": []} == json.loads(run("verify", "--json").out)["draws"]
    Path(draws.secrets_file(here)).unlink()
    done = run("verify")
    assert (0, True) == (done.code, "6 draws of lift not drawn again: the secret is not here\n" in done.out)


def test_verify_names_a_draw_that_differs(here: Project, run: Run) -> None:
    """Rule 12: a draw that somebody chose by hand is named with its event, and the exit code is 1."""
    run("lift", "ask", "playbook")
    hook(here, "s1")
    (drawn,) = injections(here)
    other = attrs.evolve(drawn, names=drawn.held, held=drawn.names)
    record.write(here, [Request(PlainEvents((other,)), {"rater": "tallybook", "session": "s1"})])
    done = run("verify")
    seq = list(commands.list_events(here))[-1]["seq"]
    assert (1, True) == (done.code, f"event {seq}: playbook came out otherwise when drawn again\n" in done.out)


def test_nothing_is_drawn_where_nothing_was_asked(here: Project, run: Run) -> None:
    """Rule 4: hold alone withholds nothing, and makes no secret."""
    hold(0.5)
    for number in range(6):
        hook(here, f"s{number}")
    assert [""] * 6 == [one.question for one in injections(here)]
    assert not Path(draws.secrets_file(here)).exists()
    assert "Nothing was asked" in run("lift").out
