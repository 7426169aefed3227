"""Questions of lift: asked and closed, drawn, their outcomes and answers, and the laws of undo and moments."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
import stat
from typing import Any

import pytest

from helpers.commands import Run
from helpers.events import list_events
from helpers.hook_calls import START, events, set_to
from helpers.lift import (
    PROMPT,
    TEXTS,
    end,
    end_events,
    hold,
    hook,
    injections,
    load,
    make_measurement,
    observe,
    six_entries,
)
from helpers.transcripts import Script, ScriptedClient, answer, asked_for, find_transcripts
from tallybook.ledger.events import (
    LiftAsked,
    LiftStopped,
    MetricsRecorded,
    Numbers,
    PlaybookInjected,
    PointRated,
    ReflectionRequested,
    SessionMeasured,
    TranscriptRead,
)
from tallybook.ledger.sharing.landing import RULES
from tallybook.projections.scores.lift import Question
from tallybook.projections.surfaces.cli.mcp import Server
from tallybook.projections.surfaces.hooks import draws
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

TOO_FEW = (
    "not known yet: too few sessions: {} with it and {} without it have an outcome, and at least 5 of each are needed"
)


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with six entries, whose user draws half of the sessions."""
    return six_entries(project)


def question(project: Project) -> Question:
    """Return the last question."""
    return list(load(project).questions.values())[-1]


def injection(id_: str, lineage: str, *, is_held: bool, probability: float = 0.5) -> PlaybookInjected:
    """Return the injection of an entry with a draw for the whole playbook, as a hook records it."""
    told, held = ((), ("kpt_001",)) if is_held else (("kpt_001",), ())
    return PlaybookInjected(
        told, held, Numbers({"room": 0}), None, "", id_, lineage, units=("playbook",), probability=probability
    )


def draw(project: Project, session: str, *, is_held: bool, lineage: str = "", probability: float = 0.5) -> None:
    """Record the first injection of a session with the draw that a test wants."""
    injected = injection(load(project).open, lineage or session, is_held=is_held, probability=probability)
    record.write(project, [Request(PlainEvents((injected,)), {"rater": "tallybook", "session": session})])


def outcomes(project: Project, now: str = "") -> list[tuple[bool, float | None]]:
    """Return the draws of the last question that are judged: whether withheld, and with which outcome."""
    state = load(project)
    assert state.latest_batch is not None
    return [(trial.held, trial.outcome) for trial in question(project).trials("playbook", now or state.latest_batch.at)]


# Rule 7: outcomes and series


def test_the_outcome_is_that_of_the_first_ended_session_and_stays(here: Project, run: Run) -> None:
    """Rule 7: later ends in the lineage, later measurements and later ends of the session change nothing."""
    run("lift", "ask", "playbook", "--outcome", "ac02")
    draw(here, "s1", is_held=True)
    draw(here, "fork", is_held=True, lineage="s1")
    end(here, "fork", 60)
    first = outcomes(here)
    end(here, "s1", 100)
    end(here, "fork", 100)
    late = MetricsRecorded("ac02", Numbers({"completed": 100, "total": 100}), "")
    record.write(here, [Request(PlainEvents((late,)), {"rater": "import", "session": "fork"})])
    assert [(True, first[0][1])] == first == outcomes(here)
    assert first[0][1] is not None


def test_a_lineage_counts_once_by_its_first_draw(here: Project, run: Run) -> None:
    """Rule 6: five injections of one lineage are one trial, with the first one's probability."""
    run("lift", "ask", "playbook")
    for number in range(5):
        draw(here, f"s{number}", is_held=True, lineage="s0", probability=0.5 if number == 0 else 0.2)
        observe(here, f"s{number}", make_measurement(0))
    [(name, lineage)] = question(here).lineages.items()
    assert ("s0", {"playbook": True}, 0.5) == (name, lineage.units, lineage.probability)
    assert 1 == len(outcomes(here))


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        ((make_measurement(2),), 90.0),
        ((make_measurement(0, 0),), 100.0),
        ((make_measurement(18),), 80.0),
        ((make_measurement(8, ended=False), make_measurement(2)), 90.0),
        ((make_measurement(2), make_measurement(8)), 90.0),
    ],
    ids=["some failed", "no call", "all failed", "measured again", "measured after its end"],
)
def test_the_outcome_is_the_share_of_clean_calls(
    here: Project, run: Run, seen: tuple[SessionMeasured, ...], outcome: float
) -> None:
    """Rule 7: by default it is max(clean, 80) of the first session that was measured as ended."""
    run("lift", "ask", "playbook")
    draw(here, "s1", is_held=True)
    observe(here, "s1", *seen)
    assert [(True, outcome)] == outcomes(here)


def test_a_lineage_counts_from_its_first_prompt(here: Project, run: Run) -> None:
    """Rule 7: after a week a lost transcript is a missing outcome; a session that nobody spoke in does not count."""
    run("lift", "ask", "playbook")
    for session in ("open", "lost", "silent", "unseen"):
        draw(here, session, is_held=session == "lost")
    observe(here, "open", make_measurement(2, ended=False))
    for session in ("lost", "silent"):
        observe(here, session, ReflectionRequested(90, "SessionEnd", "/x"))
    observe(here, "silent", TranscriptRead("", 0, 0, 90, "", "none"))
    assert [] == outcomes(here)
    assert [(False, 90.0), (True, None)] == outcomes(here, "2100-01-01T00:00:00.000000Z")


def test_the_order_is_that_of_the_draws(here: Project, run: Run) -> None:
    """Rule 9: when a session ends may depend on its draw, so an earlier open one is waited for."""
    run("lift", "ask", "playbook")
    for session, is_held in (("s1", False), ("s2", True), ("s3", False)):
        draw(here, session, is_held=is_held)
    observe(here, "s2", make_measurement(2))
    assert [] == outcomes(here)
    observe(here, "s1", make_measurement(0))
    assert [(False, 100.0), (True, 90.0)] == outcomes(here)


def test_asking_names_what_a_verdict_takes(here: Project, run: Run) -> None:
    """The answer has the sessions that it takes at the share of missing outcomes seen, or that none can come."""
    for number in range(40):
        observe(here, f"s{number}", make_measurement(number % 4))
    said = run("lift", "ask", "playbook").out
    assert "half of the failures, takes about " in said
    assert " sessions if 0.0% of the sessions have no outcome, as of the last ones; above " in said
    run("lift", "stop")
    for number in range(20):
        observe(here, f"lost{number}", ReflectionRequested(90, "SessionEnd", "/x"))
    said = run("lift", "ask", "new").out
    assert "No verdict can come if 33.3% of the sessions have no outcome, as of the last ones; above " in said


# What is said


@pytest.mark.parametrize("outcome", ["ac02", "clean"])
@pytest.mark.parametrize("helps", [True, False])
def test_a_clear_difference_has_a_word(here: Project, run: Run, outcome: str, *, helps: bool) -> None:
    """Rule 9: "not known yet" gives way to "helps" or "hurts", with the estimate, its interval and the work done."""
    run("lift", "ask", "playbook", "--outcome", outcome)
    told, held = (1, 9) if outcome == "clean" else (95, 55)
    requests = []
    id_ = load(here).open
    for number in range(100):
        is_held, session = bool(number % 2), {"rater": "tallybook", "session": f"s{number}"}
        value = (held if is_held == helps else told) + number % 5
        seen = (make_measurement(value, 30),) if outcome == "clean" else end_events(value)
        requests.append(Request(PlainEvents((injection(id_, f"s{number}", is_held=is_held),)), session))
        requests.append(Request(PlainEvents(seen), session))
    record.write(here, requests)
    first, second, *rest = run("lift").out.split("\n")
    word = "helps" if helps else "hurts"
    assert (True, f"  {word}") == (first.endswith(f"does the playbook help? By {outcome}."), second)
    assert "points" in rest[0]
    assert "    50 with it and 50 without it have an outcome; 0 and 0 have none" == rest[1]
    verdict = json.loads(run("lift", "--json").out)[0]["verdicts"][0]
    assert (word, 50, 50) == (verdict["word"], verdict["told"], verdict["held"])
    work = {"calls": 30, "tests": 1, "prompts": 2} if outcome == "clean" else {}
    assert ({"told": work, "held": work} if work else {}) == verdict["work"]
    if work:
        each = "calls 30, tests 1, prompts 2"
        assert f"    a session on average: {each} with it; {each} without it" == rest[2]


def test_another_configuration_of_the_scores_is_no_basis_for_a_verdict(here: Project, run: Run) -> None:
    """Rule 7: an outcome is what it was when the question was asked; how scores are shown does not matter."""
    run("lift", "ask", "playbook", "--outcome", "ac02")
    config = here.root / ".claude" / "config" / "scoring-config.yaml"
    config.parent.mkdir(exist_ok=True)
    config.write_text("scoring:\n  display:\n    show_grades: false\n")
    assert TOO_FEW.format(0, 0) in run("lift").out
    config.write_text("scoring:\n  components:\n    ac02:\n      enabled: false\n")
    assert "  not known yet: the configuration of the scores is not the one with which it was asked; ask again\n" in (
        run("lift").out
    )


# The laws


@pytest.mark.parametrize("content", [None, "garbage"], ids=["lost", "damaged"])
def test_a_lost_marker_is_made_again_by_the_next_hook(here: Project, run: Run, content: str | None) -> None:
    """The ledger says which question is open, and a session is drawn for it as ever."""
    run("lift", "ask", "playbook")
    path = here.ledger / "marks" / draws.QUESTION
    path.unlink() if content is None else path.write_text(content)
    hook(here, "s1")
    assert (load(here).open, True) == (injections(here)[-1].question, path.exists())


@pytest.mark.parametrize("kind", [LiftAsked, LiftStopped, PlaybookInjected])
def test_lift_is_not_published(kind: type[Any]) -> None:
    """A shared book has no question and no draw."""
    assert kind not in RULES


def judge(project: Project, run: Run, told: int, held: int) -> None:
    """Ask about an entry, and let 60 sessions end with these scores."""
    run("lift", "ask", "kpt_001", "--outcome", "ac02")
    id_, requests = load(project).open, []
    for number in range(60):
        session, name = f"s{number}", ("kpt_001",)
        names, withheld = ((), name) if number % 2 else (name, ())
        drawn = PlaybookInjected(names, withheld, Numbers({"room": 0}), None, "", id_, session, name, 0.5)
        ends = end_events((held if number % 2 else told) + number % 5)
        requests += [Request(PlainEvents(part), {"rater": "import", "session": session}) for part in ((drawn,), ends)]
    record.write(project, requests)


def test_an_entry_that_hurts_is_said_to(here: Project, run: Run) -> None:
    """Rule 9: `why` and the page say the same, and the page asks for no more."""
    assert "Lift" not in run("why", "kpt_001").out
    judge(here, run, 55, 95)
    assert "Lift: hurts (question 1).\n" in run("why", "kpt_001").out
    assert "Lift" not in run("why", "kpt_002").out
    line = "kpt_001: hurts (question 1)"
    assert 0 == run("page", "--output", str(here.root / "page.html")).code
    assert f"<li>{line}</li>" in (here.root / "page.html").read_text()


def test_pruning_by_lift_is_a_policy_to_choose(here: Project, run: Run) -> None:
    """Rule 9: `what-if --policy lift` takes out what hurts, and the playbook itself keeps it."""
    before = here.playbook.read_bytes()
    judge(here, run, 55, 95)
    said = run("what-if", "--policy", "lift").out
    assert "by the policy lift: harmful >= 3 AND harmful > helpful, or lift says that it hurts\n" in said
    assert "kpt_001 would be retired" in said
    assert "nothing would differ" in run("what-if", "--policy", "final").out
    assert before == here.playbook.read_bytes()


COMPACTED = {**START, "source": "compact"}


def find_drawn_session(project: Project, *, is_held: bool = True) -> str:
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


# Rule 5


def test_a_question_about_the_playbook_says_nothing_of_an_entry(here: Project, run: Run) -> None:
    """Another program may have named entries in it."""
    asked = LiftAsked("playbook", ("kpt_001",), "clean", 0.05, "")
    commands.record_request(here, Request(PlainEvents((asked,)), {"rater": "human"}))
    code, out, _ = run("why", "kpt_001")
    assert (0, False) == (code, "Lift:" in out)


def test_single_entries_are_drawn_each_by_itself(here: Project, run: Run) -> None:
    """Rule 5: of two entries one is told while the other is withheld, and nothing else is withheld."""
    run("lift", "ask", "kpt_001", "kpt_003")
    for number in range(24):
        hook(here, f"s{number}")
    assert {(), ("kpt_001",), ("kpt_003",), ("kpt_001", "kpt_003")} == {
        injection.held for injection in injections(here)
    }


# Rule 6


def test_a_lineage_is_drawn_once(here: Project, run: Run) -> None:
    """Rule 6: a resume, a compaction, a fork and its compaction and a subagent have the draw of the first session."""
    set_to(here, "[playbook]\nsubagents = true\n")
    run("lift", "ask", "playbook")
    for is_held in (True, False):
        session = find_drawn_session(here, is_held=is_held)
        before = len(injections(here))
        hook(here, session, {**COMPACTED, "prompt_id": "p1"})
        hook(here, session, {"hook_event_name": "SubagentStart", "agent_id": "a1"})
        hook(here, session, {**START, "source": "resume"})
        hook(here, f"fork-{is_held}", PROMPT)
        hook(here, f"fork-{is_held}", {**COMPACTED, "prompt_id": "p2"})
        later = [injection for injection in injections(here)[before:] if injection.units]
        assert [(session, is_held, 0.5)] * 3 == [
            (injection.lineage, bool(injection.held), injection.probability) for injection in later
        ]
        assert is_held == question(here).lineages[session].units["playbook"]


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


# Rule 10


def test_parts_by_task_obey_the_draw_of_their_session(here: Project, run: Run) -> None:
    """Rule 10: where each prompt is given what fits it, the session's draw holds for every prompt."""
    set_to(here, "[playbook]\nby_task = true\n")
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
    here: Project, run: Run, client: ScriptedClient, *, in_a_fork: bool
) -> None:
    """Rule 11: its text is in the prompt, its name is not, and a rating of it in that reflection is ignored.

    A fork without an injection of its own has the draw of the session that it continues.
    """
    run("lift", "ask", "kpt_001")
    session = find_drawn_session(here)
    if in_a_fork:
        hook(here, session, {**START, "source": "resume"})
        session = "fork"
        hook(here, session, PROMPT)
    asked_for(here.root, Script(find_transcripts(here.root) / f"{session}.jsonl", session).user("Fix it"))
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
    session = find_drawn_session(here)
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
    last = injections(here)[-1]
    assert (("kpt_001",), session, "kpt_002") == (last.held, last.lineage, min(last.names))
    rating = {"name": "rate", "arguments": {"name": "kpt_001", "rating": "helpful"}}
    told = server.methods["tools/call"](rating)["content"][0]["text"]
    assert (True, False) == ("seq_from" in told, "Use type hints" in told)


def test_no_draw_is_about_an_own_entry(here: Project, run: Run) -> None:
    """Rules 10 and 24: hooks, MCP and `show --as-agent` give own entries to a held session too, the draws omit them.

    They do not make up the five entries below which nothing is withheld either.
    """
    run("init", "--mine")
    run("add", "--mine", "Commit small steps")
    run("lift", "ask", "playbook")
    session = find_drawn_session(here)
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
    assert {} == question(here).lineages


def test_a_task_inside_an_agent_is_that_agents_own(here: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 10: an agent is not given under another session's name what is withheld from its own."""
    run("lift", "ask", "playbook")
    session = find_drawn_session(here)
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


def test_verify_names_a_draw_that_differs(here: Project, run: Run) -> None:
    """Rule 12: a draw that somebody chose by hand is named with its event, and the exit code is 1."""
    run("lift", "ask", "playbook")
    hook(here, "s1")
    (drawn,) = injections(here)
    other = drawn.evolve(names=drawn.held, held=drawn.names)
    record.write(here, [Request(PlainEvents((other,)), {"rater": "tallybook", "session": "s1"})])
    done = run("verify")
    seq = list(list_events(here))[-1]["seq"]
    assert (1, True) == (done.code, f"event {seq}: playbook came out otherwise when drawn again\n" in done.out)
