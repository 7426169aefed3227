"""Draws of lift, what is recorded of them, and where they count."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
import stat
from typing import TYPE_CHECKING

import attrs
import pytest

from helpers.hook_calls import START, events
from helpers.lift import PROMPT, TEXTS, hold, hook, injections, load, six_entries
from helpers.transcripts import Script, answer, asked_for, kept
from tallybook.ledger.events import PointRated
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.hooks import draws
from tallybook.projections.surfaces.hooks.injection import load_template
from tallybook.projections.surfaces.mcp.protocol import Server
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from helpers.command_line import Run
    from helpers.transcripts import Client
    from tallybook.projections.lift.view import Lineage


ALL = tuple(f"kpt_{number:03d}" for number in range(1, 7))
COMPACTED = {**START, "source": "compact"}


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with six entries, whose user draws half of the sessions."""
    return six_entries(project)


def held_session(project: Project, *, is_held: bool = True) -> str:
    """Start sessions until one is drawn as wanted, and return it."""
    for number in range(100):
        session = f"{'held' if is_held else 'told'}-{number}"
        hook(project, session)
        if bool(injections(project)[-1].held) == is_held:
            return session
    raise AssertionError("no session was drawn so")


# Rule 4


@pytest.mark.parametrize(("own", "projects", "expected"), [(0, 0.5, 0), (0.2, 0.5, 0.2), (0.2, 0, 0), (0.2, 0.1, 0.2)])
def test_only_the_users_own_settings_withhold(project: Path, own: float, projects: float, expected: float) -> None:
    """Rule 4: a project's settings forbid holding with 0, and start or raise it with no number."""
    hold(own)
    hold(projects, project)
    assert expected == settings.read(Project(project)).hold


def test_a_project_that_forbids_holding_stops_an_open_question(here: Project, run: Run) -> None:
    """Rule 4: from then on every session is given all, and no draw is recorded."""
    assert 0 == run("lift", "ask", "playbook").code
    hold(0, here.root)
    for number in range(8):
        hook(here, f"s{number}")
    assert [((), "", ())] * 8 == [
        (injection.held, injection.question, injection.units) for injection in injections(here)
    ]


# Rule 5


def test_the_playbook_is_withheld_as_a_whole_but_for_what_is_pinned(here: Project, run: Run) -> None:
    """Rule 5: a held session is given the pinned entries alone, and their order and the others' are recorded."""
    run("pin", "kpt_002")
    run("lift", "ask", "playbook")
    held_session(here)
    held_session(here, is_held=False)
    unpinned = tuple(name for name in ALL if name != "kpt_002")
    assert {(("kpt_002",), unpinned), (ALL, ())} == {
        (injection.names, injection.held) for injection in injections(here)
    }
    assert {("playbook",)} == {injection.units for injection in injections(here)}


def test_an_entry_that_is_pinned_later_is_no_longer_withheld(here: Project, run: Run) -> None:
    """Rule 5: pinning counts from the next session on, and unpinning too."""
    run("lift", "ask", "kpt_001")
    run("pin", "kpt_001")
    for number in range(8):
        hook(here, f"s{number}")
    assert [()] * 8 == [injection.units for injection in injections(here)]
    run("pin", "--off", "kpt_001")
    hook(here, "later")
    assert ("kpt_001",) == injections(here)[-1].units


def test_single_entries_are_drawn_each_by_itself(here: Project, run: Run) -> None:
    """Rule 5: of two entries one is told while the other is withheld, and nothing else is withheld."""
    run("lift", "ask", "kpt_001", "kpt_003")
    for number in range(24):
        hook(here, f"s{number}")
    assert {(), ("kpt_001",), ("kpt_003",), ("kpt_001", "kpt_003")} == {
        injection.held for injection in injections(here)
    }


def test_new_entries_are_drawn_as_one_group(here: Project, run: Run) -> None:
    """Rule 5: the entries without ratings are withheld together or not at all."""
    for name in ALL[:4]:
        run("rate", name, "helpful")
    run("lift", "ask", "new")
    for number in range(12):
        hook(here, f"s{number}")
    assert {(), ("kpt_005", "kpt_006")} == {injection.held for injection in injections(here)}
    assert {("new",)} == {injection.units for injection in injections(here)}


def test_nothing_is_withheld_from_fewer_than_five_entries(here: Project, run: Run) -> None:
    """Rule 5: a playbook that shrank after the question is given whole."""
    run("lift", "ask", "playbook")
    run("retire", "kpt_005", "kpt_006")
    for number in range(8):
        hook(here, f"s{number}")
    assert [((), ())] * 8 == [(injection.held, injection.units) for injection in injections(here)]


# Rule 6


def test_a_lineage_is_drawn_once(here: Project, run: Run) -> None:
    """Rule 6: a resume, a compaction, a fork and its compaction and a subagent have the draw of the first session."""
    settings_file = here.claude / "config" / "tallybook.toml"
    settings_file.parent.mkdir(exist_ok=True)
    settings_file.write_text("[playbook]\nsubagents = true\n")
    run("lift", "ask", "playbook")
    for is_held in (True, False):
        session = held_session(here, is_held=is_held)
        before = len(injections(here))
        hook(here, session, {**COMPACTED, "prompt_id": "p1"})
        hook(here, session, {"hook_event_name": "SubagentStart", "agent_id": "a1"})
        hook(here, session, {**START, "source": "resume"})
        hook(here, f"fork-{is_held}", PROMPT)
        hook(here, f"fork-{is_held}", {**COMPACTED, "prompt_id": "p2"})
        later = [injection for injection in injections(here)[before:] if injection.units]
        assert [(session, is_held, 0.5)] * 3 == [(one.lineage, bool(one.held), one.probability) for one in later]
        assert {session: is_held} == {
            name: one.units["playbook"] for name, one in load_lineages(here) if name == session
        }


def load_lineages(project: Project) -> list[tuple[str, Lineage]]:
    """Return the lineages of the only question."""
    (question,) = load(project).questions.values()
    return list(question.lineages.items())


def test_the_draw_is_an_hmac_with_a_secret_that_only_the_user_can_read(here: Project, run: Run) -> None:
    """Rule 6: HMAC-SHA-256 over question, lineage and unit; the secret is in the user's folder with mode 0600."""
    run("lift", "ask", "kpt_001", "kpt_002")
    path = Path(draws.secrets_file(here))
    assert Path.home() / ".claude" / "config" / "tallybook-lift" == path.parent
    assert (0o600, 0o700) == (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode) & 0o700)
    [(question, digits)] = json.loads(path.read_bytes()).items()
    for number in range(12):
        hook(here, f"s{number}")
    for injection in injections(here):
        for unit in injection.units:
            message = json.dumps([question, injection.lineage, unit], separators=(",", ":")).encode()
            digest = hmac.new(bytes.fromhex(digits), message, hashlib.sha256).digest()
            drawn = (int.from_bytes(digest[:8], "big") >> 11) / 2**53
            assert (drawn < 0.5) == (unit in injection.held)


def test_a_question_that_another_user_asked_withholds_nothing(here: Project, run: Run) -> None:
    """Rule 6: without the secret, as in a clone, sessions are given all and no draw is recorded."""
    run("lift", "ask", "playbook")
    Path(draws.secrets_file(here)).unlink()
    for number in range(8):
        hook(here, f"s{number}")
    assert [((), "")] * 8 == [(injection.held, injection.question) for injection in injections(here)]


# Rule 7


def test_lineages_that_began_earlier_do_not_count(here: Project, run: Run) -> None:
    """Rule 7: a session from before the question is given all after a compaction, and so are its forks."""
    hook(here, "old")
    run("lift", "ask", "playbook")
    hook(here, "old", COMPACTED)
    hook(here, "old", {**START, "source": "resume"})
    hook(here, "fork", PROMPT)
    hook(here, "fork", COMPACTED)
    hook(here, "unknown", {**START, "source": "resume"})
    assert [("", ())] * 5 == [(injection.question, injection.held) for injection in injections(here)]
    assert [] == load_lineages(here)


# Rule 10


def test_the_place_of_a_withheld_entry_is_not_refilled(here: Project, run: Run) -> None:
    """Rule 10: selection comes first; what did not fit is left out whether or not an entry is withheld."""
    for name in ALL[:3]:
        run("rate", name, "helpful")
    (here.claude / "config").mkdir(exist_ok=True)
    budget_chars = len(load_template(settings.Settings(marks="off"))) + 250
    (here.claude / "config" / "tallybook.toml").write_text(f"[playbook]\nbudget_chars = {budget_chars}\n")
    run("lift", "ask", "kpt_001")
    held_session(here)
    held_session(here, is_held=False)
    by_arm = {bool(injection.held): injection for injection in injections(here)}
    assert 0 < by_arm[True].left_out["room"] == by_arm[False].left_out["room"]
    assert by_arm[False].names == tuple(sorted((*by_arm[True].names, "kpt_001")))


def test_parts_by_task_obey_the_draw_of_their_session(here: Project, run: Run) -> None:
    """Rule 10: where each prompt is given what fits it, the session's draw holds for every prompt."""
    (here.claude / "config").mkdir(exist_ok=True)
    (here.claude / "config" / "tallybook.toml").write_text("[playbook]\nby_task = true\n")
    run("lift", "ask", "playbook")
    answers = {}
    for number in range(12):
        session = f"s{number}"
        hook(here, session)
        answers[session] = hook(here, session, {**PROMPT, "prompt": "run the linter, read the logs", "prompt_id": "1"})
    drawn = {injection.lineage: bool(injection.held) for injection in injections(here)}
    assert {True, False} == set(drawn.values())
    assert {session: not is_held for session, is_held in drawn.items()} == {
        session: bool(answer) for session, answer in answers.items()
    }


# Rule 11


@pytest.mark.parametrize("in_a_fork", [False, True], ids=["the session", "a fork of it"])
def test_a_reflector_sees_what_was_withheld_without_names(
    here: Project, run: Run, client: Client, *, in_a_fork: bool
) -> None:
    """Rule 11: its text is in the prompt, its name is not, and a rating of it in that reflection is ignored.

    A fork without an injection of its own has the draw of the session that it continues.
    """
    run("lift", "ask", "kpt_001")
    session = held_session(here)
    if in_a_fork:
        hook(here, session, {**START, "source": "resume"})
        session = "fork"
        hook(here, session, PROMPT)
    asked_for(here.root, Script(kept(here.root) / f"{session}.jsonl", session).user("Fix it"))
    client.plans(answer("Use type hints", kpt_001="helpful", kpt_002="helpful"))
    said = run("reflect", "--rater", "claude").out
    (prompt,) = [asked["prompt"] for asked in client.asked]
    assert (True, False, True) == ("- Use type hints\n" in prompt, "kpt_001" in prompt, "[kpt_002]" in prompt)
    assert "ignored the rating of kpt_001: the prompt did not show it" in said
    assert [PointRated("kpt_002", "helpful")] == events(here, PointRated)
    assert list(TEXTS) == [entry["text"] for entry in commands.show(here)["key_points"]]


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
    assert {((), every)} == {
        (injection.names, tuple(sorted(injection.held))) for injection in injections(here) if injection.held
    }
    assert 1 == len({injection.candidates for injection in injections(here)})
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
