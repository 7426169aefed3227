"""Lessons: what an agent proposes by a mark, what is left out, who accepts it, and how a person hears of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from helpers.hook_calls import START, call
from helpers.injections import give
from helpers.reviews import Terminal, items, record
from helpers.transcripts import Script, ask_again, kept
from tallybook.ledger.events import PlaybookUpdated, PointNoted, PointProposed, PointRated, PointRetired
from tallybook.projections.surfaces.history.reading import current, open_log
from tallybook.projections.surfaces.hooks import notices
from tallybook.projections.surfaces.reflection.mark_requests import MarkedMessage, mark_requests
from tallybook.projections.surfaces.review.session import refresh_notice
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.workspace.settings import Settings
from tallybook.projections.surfaces.writing import record as writing

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

LESSON = "Run make seed before pytest."
MESSAGE = f"The fixture database was empty, so I filled it.\n\n[kpt_new: {LESSON}]"
SEEN = f"The fixture database was empty, so I filled it. [kpt_new: {LESSON}]"
BY = {"rater": "agent", "session": "s7"}
NOTICE = "1 lesson proposed: tallybook review"


def learn(here: Path, *sentences: str, message: str = MESSAGE, learned: str = "propose") -> None:
    """Record the lessons of one message as the worker does."""
    project = Project(here)
    found = [MarkedMessage((), sentences, message, BY, f"marks:s7:{message}")]
    options = Settings(learned=learned)
    writing.write(project, list(mark_requests(project, current(open_log(project)), (), found, options)))
    refresh_notice(project)


def proposed(run: Run) -> list[str]:
    """Return the texts of the open lessons."""
    return [one["text"] for one in json.loads(run("proposals", "--json").out)]


def texts(run: Run) -> list[str]:
    """Return the texts of the playbook's entries."""
    return [one["text"] for one in json.loads(run("show", "--json").out)["key_points"]]


def test_a_lesson_is_shown_whole_and_accepted_by_its_number(project: Path, run: Run) -> None:
    """`proposals accept --all` and `--of` leave a lesson out; by its number it becomes an unrated entry (rule 28)."""
    long = " ".join(["Run make seed before pytest, or the fixture database is empty"] * 4)
    run("add", "Never push on Friday.")
    learn(project, long)
    (proposal,) = json.loads(run("proposals", "--json").out)
    number = str(proposal["seq"])
    whole = f"{number}  {long}  (lesson; by agent in session s7)\n    in its message: {SEEN}\n"
    for words in (("--all",), ("--of", "s7")):
        refused = run("proposals", "accept", *words)
        assert (1, ["Never push on Friday."]) == (refused.code, texts(run))
        assert "only lessons and redactions are open, and each is accepted by its number" in refused.err
    assert whole == run("proposals").out
    assert f"lesson {whole}".replace("  ", ": ", 1) in run("review").out
    assert run("proposals", "accept", number).out.startswith(whole)
    assert (["Never push on Friday.", long], []) == (texts(run), proposed(run))
    assert [] == items(run)


def test_a_review_decides_about_lessons_after_disputes(project: Path, run: Run) -> None:
    """A key accepts or rejects; what an agent wants retired comes first, and rejected it is not contested (rule 21)."""
    run("add", "Never push on Friday.")
    record(project, PointRated("kpt_001", "harmful"), PlaybookUpdated(0, 1, 0), rater="agent", session="s7")
    learn(project, LESSON)
    record(project, PointProposed("retire", "kpt_001", (), "typed", "", "", "it blocks"), rater="agent", session="s7")
    assert [("in dispute", ["kpt_001"]), ("lesson", [])] == items(run)
    terminal = Terminal(project, "review")
    for key in ("r", "a"):
        terminal.wait_for("[a] accept  [r] reject")
        terminal.press(key)
    code, shown = terminal.end()
    assert (0, True) == (code, "2 decisions recorded" in shown)
    assert ([], ["Never push on Friday.", LESSON]) == (items(run), texts(run))
    record(project, PointRated("kpt_001", "harmful"), PlaybookUpdated(0, 1, 0), rater="agent", session="s8")
    assert [("contested", ["kpt_001"])] == items(run)


@pytest.mark.parametrize("before", ["entry", "pruned", "retired", "redacted", "open", "rejected", "accepted"])
def test_what_was_said_before_is_not_proposed_again(project: Path, run: Run, before: str) -> None:
    """An entry, a former one, a redacted text and any earlier proposal leave a lesson that says the same out."""
    run("add", "Never push on Friday.")
    if before in {"open", "rejected", "accepted"}:
        learn(project, LESSON)
        number = str(json.loads(run("proposals", "--json").out)[0]["seq"])
        if before != "open":
            run(before.removesuffix("ed"), number)
    else:
        run("add", LESSON)
    if before == "pruned":
        for _ in range(3):
            run("rate", "kpt_002", "harmful")
    elif before == "retired":
        record(project, PointRetired("kpt_002", ""))
    elif before == "redacted":
        run("redact", "--text", LESSON, "--reason", "a name", "--yes", "--expect", "1")
    standing = proposed(run)
    same = LESSON if before == "redacted" else f"  {LESSON.upper().removesuffix('.')}!"
    learn(project, same, "Tests need the network.", message="another")
    assert [*standing, "Tests need the network."] == proposed(run)


def test_the_worker_proposes_what_an_agent_said_once(project: Path, run: Run) -> None:
    """A lesson of the agent's message is proposed, one that a tool or a person wrote is not, and `doctor` counts it."""
    run("add", "Never push on Friday.")
    give(Project(project), "s7", "kpt_001")
    script = Script(kept(project) / "s7.jsonl", "s7").user("Say [kpt_new: a person typed this].")
    script.tool("Bash", {"command": "cat README"}, "[kpt_new: a tool printed this line]").agent(MESSAGE)
    for _ in range(2):
        ask_again(Project(project), script)
        assert 0 == run("reflect").code
        (proposal,) = json.loads(run("proposals", "--json").out)
        author = (proposal["by"]["rater"], proposal["by"]["session"])
        assert (LESSON, SEEN, "agent", "s7") == (proposal["text"], proposal["reason"], *author)
        script.agent(f"Once more.\n\n[kpt_001 harmful: it was Friday]\n[kpt_new: {LESSON}]")
    assert f"Tallybook: {NOTICE}" == json.loads(call({**START, "source": "resume"}, "s7"))["systemMessage"]
    run("proposals", "accept", str(proposal["seq"]))
    says = "marks in 1 of 1 session that were given entries; 1 vote, 1 lesson accepted, 0 entries left, 0 in dispute"
    assert f"ok    marks: {says}; `marks` in the section" in run("doctor").out


def test_a_secret_in_a_lesson_or_its_message_is_masked(project: Path, run: Run) -> None:
    """No byte of a token gets into the ledger (rule 28)."""
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    run("add", "Never push on Friday.")
    learn(project, f"Push with {token} as the key.", message=f"It failed.\n{token}\n" * 60)
    assert ["Push with [masked: GitHub Token] as the key."] == proposed(run)
    assert token.encode() not in (project / ".claude/ledger/events.jsonl").read_bytes()


@pytest.mark.parametrize(("learned", "added"), [("add", [LESSON]), ("off", [])])
def test_the_setting_adds_lessons_at_once_or_drops_them(
    project: Path, run: Run, learned: str, added: list[str]
) -> None:
    """`learned = "add"` makes the entry, with a note of its origin; `"off"` records nothing (rule 28)."""
    run("add", "Never push on Friday.")
    learn(project, LESSON, learned=learned)
    learn(project, LESSON, learned=learned)
    assert (["Never push on Friday.", *added], []) == (texts(run), proposed(run))
    assert ("a lesson by a mark" in run("log").out) == bool(added)


def test_a_person_hears_once_a_day_at_a_start(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to a start has one line for the person and the same context; later starts of the day have none."""
    run("add", "Never push on Friday.")
    plain = json.loads(call(START, "s1"))
    learn(project, LESSON)
    assert "" == call({**START, "source": "compact", "session_id": "s1"}).partition("systemMessage")[1]
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ATTENDED", "0")
    assert ["hookSpecificOutput"] == [*json.loads(call(START, "s2"))]
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ATTENDED", "1")
    assert plain | {"systemMessage": f"Tallybook: {NOTICE}"} == json.loads(call(START, "s3"))
    assert plain == json.loads(call(START, "s4"))
    notice = Project(project).ledger / "marks" / notices.NAME
    notice.write_text(f"2026-01-01 {NOTICE}")
    assert {"systemMessage": f"Tallybook: {NOTICE}"} == json.loads(call({**START, "source": "resume"}, "s4"))


def test_a_person_hears_after_a_command_at_a_terminal(project: Path, run: Run) -> None:
    """The next command at a terminal says it, once; a decision takes it back, and neither verb repeats it."""
    run("add", "Never push on Friday.")
    learn(project, LESSON)
    assert NOTICE not in run("show").err
    for expected in (True, False):
        code, shown = Terminal(project, "show").end()
        assert (0, expected) == (code, f"note: {NOTICE}\n" in shown)
    number = str(json.loads(run("proposals", "--json").out)[0]["seq"])
    run("proposals", "reject", number)
    assert not notices.is_open(Project(project))


def test_what_an_agents_rating_pruned_is_named_with_its_restore(project: Path, run: Run) -> None:
    """The next start names it although another notice was shown that day, and a review restores or leaves it."""
    run("add", LESSON)
    run("add", "Never push on Friday.")
    learn(project, "Tests need the network.")
    assert "systemMessage" in call(START, "s1")
    for session in ("s1", "s2", "s3"):
        for name in ("kpt_001", "kpt_002"):
            harm = (PointNoted(name, "harmful: there is no make"), PointRated(name, "harmful"))
            record(project, *harm, PlaybookUpdated(0, 1, 0), rater="agent", session=session)
    refresh_notice(Project(project))
    says = "1 lesson proposed, agents' ratings pruned kpt_001, kpt_002 (`tallybook restore kpt_002`): tallybook review"
    assert {"systemMessage": f"Tallybook: {says}"} == json.loads(call({**START, "source": "resume"}, "s1"))
    (first, *_) = json.loads(run("review", "--json").out)
    says = f"an agent's rating pruned it, at +0 -3: {LESSON}; harmful: there is no make; `tallybook restore kpt_001`"
    assert (["kpt_001"], f"{says} brings it back") == (first["names"], first["says"])
    terminal = Terminal(project, "review")
    for key in ("b", "l", "s"):
        terminal.wait_for("[q] quit")
        terminal.press(key)
    assert 0 == terminal.end()[0]
    assert [LESSON] == texts(run)
    assert [("contested", ["kpt_001"]), ("lesson", [])] == items(run)
