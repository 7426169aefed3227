"""Marks of agents: the forms that count, the votes and the lessons that they come to."""

from __future__ import annotations

from functools import partial
import json
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from helpers.agent_sessions import CODEX, COPILOT, GEMINI, RecordedSession
from helpers.commands import Run
from helpers.events import HUMAN, give, make_continuation, make_injection
from helpers.hook_calls import START, call, events, here, read_context, set_to
from helpers.reviews import Terminal, items
from helpers.reviews import record as record_events
from helpers.shared_machines import make_machines
from helpers.transcripts import Script, ScriptedClient, answer, ask_again, find_transcripts
from tallybook.ledger.codec import decode
from tallybook.ledger.errors import NothingToDoError
from tallybook.ledger.events import PlaybookUpdated, PointNoted, PointProposed, PointRated
from tallybook.projections.history.votes import VOTES
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.playbook.inject import PLACEHOLDER
from tallybook.projections.surfaces.cli.main import run as run_here
from tallybook.projections.surfaces.cli.mcp import Server
from tallybook.projections.surfaces.cli.review import refresh_notice
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.history.reading import current, open_log
from tallybook.projections.surfaces.hooks import ledger_access
from tallybook.projections.surfaces.reflection import worker
from tallybook.projections.surfaces.reflection.marks import MAX_LESSONS, Mark, MarkedMessage, mark_requests, read_marks
from tallybook.projections.surfaces.workspace.personal import load_template
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.workspace.settings import Settings
from tallybook.projections.surfaces.writing import commands, record
from tallybook.projections.surfaces.writing.requests import ALREADY_RATED, PlainEvents, Request

__all__ = ["here"]

CITED = "As [kpt_001] says.\n\n"
HARMFUL = "[kpt_001 harmful: it broke the build]"


@pytest.fixture
def place(project: Path) -> Project:
    """Return a project with an entry that a person typed and one that a reflection learned."""
    made = Project(project)
    commands.add(made, "Use type hints", HUMAN)
    commands.add(made, "Run the tests first", {"rater": "reflector"})
    return made


def say(place: Project, text: str, session: str = "s1") -> Script:
    """Let an agent that was given the entries end a session with a message, and the worker read it."""
    script = Script(find_transcripts(place.root) / f"{session}.jsonl", session).user("Fix it").agent(text)
    give(place, session, "kpt_001", "kpt_002")
    read(place, script)
    return script


def read(place: Project, script: Script) -> None:
    """Let the worker read what is new in a session."""
    ask_again(place, script)
    assert 0 == run_here(["reflect"])


def list_ratings(place: Project) -> list[tuple[str, str]]:
    """Return the ratings."""
    return [(event.name, event.rating) for event in events(place, PointRated)]


def counts(place: Project, name: str = "kpt_001") -> tuple[int, int] | None:
    """Return how often an entry was rated helpful and harmful; None where it left."""
    entry = reading.current(reading.open_log(place)).entries.get(name)
    return None if entry is None else (entry.helpful, entry.harmful)


def test_nobody_elses_words_rate(place: Project) -> None:
    """What a person typed, a tool printed, or a quote or a fence of the agent holds is no vote."""
    give(place, "s1", "kpt_001")
    script = Script(find_transcripts(place.root) / "s1.jsonl").user(HARMFUL)
    script.tool("Bash", {"command": "cat README"}, HARMFUL)
    script.agent(f"> {HARMFUL}").agent(f"It says:\n```\n{HARMFUL}\n```").agent(HARMFUL, isMeta=True)
    read(place, script)
    assert [] == list_ratings(place)


def test_a_message_that_comes_again_rates_once(place: Project) -> None:
    """The same marks in a later message, after a resume or a compaction, do not count again."""
    script = say(place, f"{CITED}[kpt_001 helpful]")
    script.user("go on").agent(f"{CITED}[kpt_001 helpful]")
    read(place, script)
    script.line("user", "what happened so far", isCompactSummary=True).agent(HARMFUL)
    read(place, script)
    assert [("kpt_001", "helpful")] == list_ratings(place)


@pytest.mark.parametrize("recorded", ["by the hook", "by forkedFrom", "by copied lines"])
def test_forks_and_branches_have_one_vote_with_their_session(place: Project, recorded: str) -> None:
    """A session that continues another one, whose compacted end alone it may copy, does not vote again."""
    first = Script(find_transcripts(place.root) / "s1.jsonl", "s1").user("Fix it").agent("I look.")
    first.line("system", subtype="compact_boundary").agent(f"{CITED}[kpt_001 helpful]")
    give(place, "s1", "kpt_001", "kpt_002")
    read(place, first)
    fork = Script(find_transcripts(place.root) / "s2.jsonl", "s2")
    lines = first.path.read_bytes().splitlines(keepends=True)
    if recorded == "by the hook":
        record.write(place, [Request(PlainEvents((make_continuation("s1"),)), {"rater": "tallybook", "session": "s2"})])
    if recorded == "by forkedFrom":
        fork.user("Fix it", uuid="s2-0", forkedFrom={"sessionId": "s1", "messageUuid": "s1-1"})
    if recorded == "by copied lines":
        fork.path.write_bytes(b"".join(lines[2:]))
    fork.user("again").agent(f"{CITED}{HARMFUL}\n[kpt_002 harmful: slow]")
    read(place, fork)
    assert [("kpt_001", "helpful"), ("kpt_002", "harmful")] == list_ratings(place)


def test_a_subagent_votes_only_if_it_was_given_the_entry(place: Project) -> None:
    """The vote of a subagent that was given the playbook is its lineage's; without it, it has none."""
    folder = find_transcripts(place.root) / "s1" / "subagents"
    for agent in ("a1", "a2"):
        Script(folder / f"agent-{agent}.jsonl", "s1", sidechain=True).agent(HARMFUL)
    given = {"rater": "tallybook", "session": "s1", "agent": "a2"}
    record.write(place, [Request(PlainEvents((make_injection(("kpt_001",)),)), given)])
    say(place, f"{CITED}[kpt_001 helpful]")
    rows = [row for batch in decode(reading.open_log(place).read()) for row in batch.records]
    cast = [(row.by.agent, row.event.rating) for row in rows if isinstance(row.event, PointRated)]
    assert [("a2", "harmful")] == cast


def test_marks_mcp_and_reflection_have_one_vote_together(place: Project, client: ScriptedClient) -> None:
    """The first vote of a lineage counts, on any of the machines; the later ones are refused by name."""
    client.plans(answer(kpt_001="harmful", kpt_002="helpful"))
    script = Script(find_transcripts(place.root) / "s1.jsonl").user("Fix it").agent(f"{CITED}[kpt_001 helpful]")
    give(place, "s1", "kpt_001", "kpt_002")
    ask_again(place, script)
    assert 0 == run_here(["reflect", "--rater", "claude"])
    assert [("kpt_001", "helpful"), ("kpt_002", "helpful")] == list_ratings(place)
    for name in ("kpt_001", "kpt_002"):
        with pytest.raises(NothingToDoError, match="was rated in this session"):
            commands.rate(place, name, "harmful", {"rater": "agent", "session": "s1"})
    commands.rate(place, "kpt_001", "harmful", {"rater": "agent", "session": "s2"})
    say(place, f"{CITED}[kpt_001 helpful]", "s2")
    assert [("kpt_001", "helpful"), ("kpt_002", "helpful"), ("kpt_001", "harmful")] == list_ratings(place)


def test_a_harmful_vote_by_mcp_never_prunes_what_a_person_wrote(place: Project) -> None:
    """The rating that would prune the entry becomes a proposal, which the answer names; a later one is neutral."""
    answers = []
    for session in ("s0", "s1", "s2", "s2", "s3"):
        rating = {"name": "kpt_001", "rating": "harmful", "reason": "it broke"}
        done = Server(place, session).methods["tools/call"]({"name": "rate", "arguments": rating})
        answers.append({} if done["isError"] else json.loads(done["content"][0]["text"]))
    notes = ["kpt_001: proposed to retire, because a person's entry leaves by a person alone"]
    assert [None, None, notes, None, None] == [answer.get("notes") for answer in answers]
    assert [("kpt_001", "harmful")] * 2 + [("kpt_001", "neutral")] == list_ratings(place)
    assert ((0, 2), 1) == (counts(place), len(events(place, PointProposed)))


def test_marks_never_protect(place: Project) -> None:
    """Three helpful marks leave an entry to agents; three ratings of people protect it from them."""
    for number in range(3):
        say(place, f"{CITED}[kpt_001 helpful]", f"s{number}")
    state = reading.current(reading.open_log(place))
    assert ((3, 0), False) == (counts(place), state.is_protected(state.entries["kpt_001"]))
    for _ in range(3):
        commands.rate(place, "kpt_001", "helpful", HUMAN)
    for state in (reading.current(reading.open_log(place)), reading.current(reading.open_log(place), cold=True)):
        assert state.is_protected(state.entries["kpt_001"])


def test_whatever_an_agent_types_has_the_vote_of_its_session(place: Project, run: Run) -> None:
    """`record`, and what waited in the spool, count what the lineage has not rated, and say what does not count."""
    both = json.dumps({"evaluations": [{"name": name, "rating": "harmful"} for name in ("kpt_001", "kpt_002")]})
    by = ("--rater", "agent", "--session", "s1", "--json")
    run("rate", "kpt_001", "helpful", *by)
    done = run("record", *by, stdin=both.encode())
    assert [{"item": "kpt_001", "name": "kpt_001", "reason": ALREADY_RATED}] == json.loads(done.out)["ignored"]
    assert [("kpt_001", "helpful"), ("kpt_002", "harmful")] == list_ratings(place)
    again = run("record", *by, stdin=both.encode())
    assert (1, f"tallybook: kpt_001: {ALREADY_RATED}") == (again.code, again.err.partition(";")[0])
    with reading.open_log(place).transaction():
        run("rate", "kpt_001", "harmful", "--rater", "agent", "--session", "s1")
        run("rate", "kpt_001", "harmful", "--rater", "agent", "--session", "s2")
    run("replay")
    assert [("kpt_001", "helpful"), ("kpt_002", "harmful"), ("kpt_001", "harmful")] == list_ratings(place)


@pytest.mark.parametrize("recorded", [CODEX, GEMINI, COPILOT], ids=["Codex", "Gemini", "Copilot"])
def test_marks_of_each_client_are_read(place: Project, recorded: RecordedSession) -> None:
    """The last message of each client's own transcript rates, under the client's name."""
    path = recorded.put(place.root)
    text = path.read_text(encoding="utf-8")
    last = "Done; [kpt_001] helped."
    assert last in text
    path.write_text(text.replace(last, rf"{last}\n\n[kpt_001 helpful]\n\nMore:"), encoding="utf-8")
    give(place, recorded.session, "kpt_001")
    for _ in range(2):
        end = path.stat().st_size
        record.write(place, [worker.reflection_request(recorded.session, end, "Stop", str(path), "tallybook")])
        assert worker.DONE == worker.work(place, worker.Plan())
    rows = [row for batch in decode(reading.open_log(place).read()) for row in batch.records]
    by = [(row.by.agent, row.by.session) for row in rows if isinstance(row.event, PointRated)]
    assert [(recorded.agent, recorded.session)] == by


def test_a_vote_follows_its_entry_into_a_shared_book(tmp_path: Path) -> None:
    """A rating by an agent lands as any other, and its lineage has voted on the entry under its new name."""
    anna, ben = make_machines(tmp_path, "anna", "ben")
    commands.add(anna.project, "Always test", HUMAN)
    commands.add(ben.project, "Be kind", HUMAN)
    give(ben.project, "s1", "kpt_001")
    commands.rate(ben.project, "kpt_001", "helpful", {"rater": "agent", "session": "s1"})
    for machine in (anna, ben, anna):
        machine.sync()
    assert {"kpt_001": ("Always test", 0, 0), "kpt_002": ("Be kind", 1, 0)} == anna.entries()
    for machine in (anna, ben):
        found = fold_history(VOTES, partial(reading.batches, machine.project))
        assert [False, True] == [found.has("rated", "s1", name) for name in ("kpt_001", "kpt_002")]
        assert found.maker_of("kpt_002").is_persons


ASKED = "[NAME helpful]"


@pytest.mark.parametrize(
    ("variables", "settings", "expected"),
    [
        ({}, "", True),
        ({"CLAUDE_CODE_SESSION_ATTENDED": "1"}, "", True),
        ({"CLAUDE_CODE_SESSION_ATTENDED": "0"}, "", False),
        ({"CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}, "", False),
        ({"CLAUDE_CODE_SESSION_ATTENDED": "1", "CLAUDE_CODE_ENTRYPOINT": "sdk-cli"}, "", True),
        ({}, 'marks = "off"', False),
        ({}, 'marks = "propose"', True),
    ],
)
def test_a_session_is_asked_for_marks_where_a_person_watches_it(
    here: Project, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], settings: str, expected: bool
) -> None:
    """A session that runs for a program is not asked, nor any where the settings switch marks off."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    set_to(here, f"[reflection]\n{settings}\n")
    assert expected == (ASKED in read_context(call(START)))


def test_only_the_user_has_unattended_sessions_asked(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """`marks_unattended` counts from the user's own settings, and a project cannot switch it on."""
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ATTENDED", "0")
    text = "[reflection]\nmarks_unattended = true\n"
    set_to(here, text)
    assert ASKED not in read_context(call(START))
    own = Path.home() / ".claude" / "config" / "tallybook.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(text, encoding="utf-8")
    assert ASKED in read_context(call(START, "s2"))


def test_codex_exec_is_not_asked_for_marks(here: Project) -> None:
    """The transcript of Codex says that `codex exec` began the session."""
    path = CODEX.put(here.root)
    start: dict[str, Any] = {**START, "transcript_path": str(path)}
    assert '"source":"exec"' in path.read_text(encoding="utf-8")
    text = read_context(call(start, CODEX.session))
    assert ("Use type hints" in text, ASKED in text) == (True, False)


NAMES = ("kpt_001", "kpt_002", "kpt_003", "kpt_004", "my_001", "two words")
HELPFUL = (Mark("kpt_003", "helpful"),)
GONE = (Mark("kpt_004", "harmful", "the flag is gone"),)
LESSON = "run make seed before pytest"

RATINGS = {
    "[kpt_003 helpful]": HELPFUL,
    "- [kpt_003 helpful]": HELPFUL,
    "  1. [kpt_003 helpful]": HELPFUL,
    "- [x] [kpt_003 helpful]": HELPFUL,
    "**[kpt_003 helpful]**": HELPFUL,
    "`[kpt_003 helpful]`": HELPFUL,
    "[**kpt_003** helpful]": HELPFUL,
    "| [kpt_003 helpful] |": HELPFUL,
    r"\[kpt\_003 helpful\]": HELPFUL,
    "[KPT_003 Helpful]": HELPFUL,
    "[kpt_3 helpful]": HELPFUL,
    "[kpt_003\u00a0helpful\u200b]": HELPFUL,
    "[kpt_003: helpful]": HELPFUL,
    "[kpt_003] helpful": HELPFUL,
    "[kpt_003 helpful] ✅": HELPFUL,
    "[kpt_003 helpful].": HELPFUL,
    "Done.\r\n\r\n[kpt_003 helpful]\r\n": HELPFUL,
    "Changes:\n- a parser\n\nAll tests pass.\n\n[kpt_003 helpful]": HELPFUL,
    "```sh\nls\n```\n[kpt_003 helpful]": HELPFUL,
    "Fixed.\n\n```\n[kpt_003 helpful]\n```": HELPFUL,
    "I write `<!--` now.\n\n[kpt_003 helpful]": HELPFUL,
    "[kpt_003 helpful]\n\nAnything else?": HELPFUL,
    "[kpt_003 harmful: no]\n[kpt_003 helpful]": HELPFUL,
    "[kpt_003 helpful: used it]": (Mark("kpt_003", "helpful", "used it"),),
    "[kpt_003 neutral]": (Mark("kpt_003", "neutral"),),
    "[kpt_004 harmful: the flag is gone]": GONE,
    "[kpt_004 harmful — the flag is gone]": GONE,
    "[kpt_004 harmful] — the flag is gone.": GONE,
    "- [kpt_004 harmful: the flag\n  is gone]": GONE,
    "[kpt_004 harmful:\nthe flag\nis gone]": GONE,
    "[kpt_003 helpful] [kpt_004 harmful: the flag is gone]": HELPFUL + GONE,
    "| [kpt_003 helpful] | [kpt_004 harmful: the flag is gone] |": HELPFUL + GONE,
    "[kpt_004 harmful: use list[int] now]": (Mark("kpt_004", "harmful", "use list[int] now"),),
    "[kpt_001, kpt_002 helpful]": (Mark("kpt_001", "helpful"), Mark("kpt_002", "helpful")),
    "[kpt_001 and kpt_002 helpful]": (Mark("kpt_001", "helpful"), Mark("kpt_002", "helpful")),
    "[my_1, two words, and kpt_001 neutral]": tuple(
        Mark(name, "neutral") for name in ("my_001", "two words", "kpt_001")
    ),
    "[kpt_404 helpful]\n[kpt_003 helpful]": HELPFUL,
}
NO_MARKS = [
    "I used the cache [kpt_003 helpful].",
    "[kpt_003 helpful] told me to use the cache.",
    "[kpt_003] was helpful",
    "[kpt_003]",
    "[kpt_003 not helpful]",
    "kpt_003 helpful",
    "[NAME helpful]",
    "[NAME harmful: why]",
    "[kpt_404 helpful]",
    "[kpt_404, kpt_003 helpful]",
    "[kpt_003 harmful]",
    "[kpt_003 harmful: …]",
    "[kpt_003 helpful",
    "[kpt_003\n\nhelpful]",
    "[kpt_004 harmful:\nthe\nflag\nis gone]",
    "> [kpt_003 helpful]",
    "> The README says\n[kpt_003 helpful]",
    '"[kpt_003 helpful]"',
    "    [kpt_003 helpful]",
    "[kpt_003 helpful](https://example.org)",
    "![kpt_003 helpful](picture.png)",
    "[kpt_003 helpful]: https://example.org",
    "<!-- [kpt_003 helpful] -->",
    "<!--\n[kpt_003 helpful]\n-->",
    "<pre>\n[kpt_003 helpful]\n</pre>",
    "```\n[kpt_003 helpful]\n```\n\nThat is all.",
    "Fixed.\n\n```\nls\n[kpt_003 helpful]\n```",
    "The README says:\n```\n[kpt_003 helpful]\n```",
    "The answer ended with:\n\n[kpt_003 helpful]\n\n[kpt_001 helpful]",
    "**Commit message:**\n\n[kpt_003 helpful]",
    "Here is the README:\n\n# Tool\n\nUse it.\n\n[kpt_003 helpful]",
    "# Tool\n\nUse it.\n\n[kpt_003 helpful]\n\n## License\n\nMIT",
    f"[kpt_004 harmful: {'x' * 2_000}]",
]


@pytest.mark.parametrize(("text", "ratings"), RATINGS.items())
def test_a_line_of_marks_rates_in_each_of_the_known_forms(text: str, ratings: tuple[Mark, ...]) -> None:
    """Lines that consist of marks rate, whatever signs of Markdown are around them."""
    assert (ratings, ()) == read_marks(text, NAMES)


@pytest.mark.parametrize("text", NO_MARKS)
def test_what_is_no_line_of_marks_rates_nothing(text: str) -> None:
    """Sentences, quotes, code, comments, links, quoted documents and incomplete marks rate nothing."""
    assert ((), ()) == read_marks(text, NAMES)


@pytest.mark.parametrize(
    ("text", "lessons"),
    {
        f"[kpt_new: {LESSON}]": (LESSON,),
        f"- **[kpt_new: {LESSON}]**": (LESSON,),
        f"[KPT_NEW — {LESSON}]": (LESSON,),
        f"[kpt_003 helpful]\n[kpt_new: {LESSON}]": (LESSON,),
        "[kpt_new: run make seed\nbefore pytest]": (LESSON,),
        f"[kpt_new: {LESSON}]\n" * 2: (LESSON,),
        "[kpt_new: 测试之前必须先运行数据库初始化脚本]": ("测试之前必须先运行数据库初始化脚本",),
        "[kpt_new: …]": (),
        "[kpt_new: too short]": (),
        f"[kpt_new: {'x' * 301}]": (),
        f"[learned: {LESSON}]": (),
        f"> [kpt_new: {LESSON}]": (),
        f"I add [kpt_new: {LESSON}] to it.": (),
        "".join(f"[kpt_new: {LESSON} {number}]\n" for number in range(9)): tuple(
            f"{LESSON} {number}" for number in range(MAX_LESSONS)
        ),
    }.items(),
)
def test_a_lesson_is_a_mark_of_twelve_to_three_hundred_characters(text: str, lessons: tuple[str, ...]) -> None:
    """A lesson is read whether or not any entry can be rated, and at most three of a message."""
    assert lessons == read_marks(text)[1]


@pytest.mark.parametrize("form", ["{}", "```\n{}\n```", "> {}", "- {}", "So it says:\n{}"])
def test_the_injected_text_itself_holds_no_mark(form: str) -> None:
    """The injected text, repeated whole, quoted or fenced, rates nothing and proposes nothing."""
    block = load_template().replace(PLACEHOLDER, "\n".join(f"[{name}] helpful=1 harmful=0 :: text" for name in NAMES))

    assert ((), ()) == read_marks(form.format(block), NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "[kpt_003 harmful: " + "x" * 40_000 + "]",
        "[" * 40_000,
        "[kpt_003 harmful: x\n" * 2_000,
        ("[" * 1_999 + "\n") * 20,
        "a <!--\n" * 6_000,
        "`" * 40_000,
        ("[kpt_003 " + "kpt_003 " * 240 + "]\n") * 20,
    ],
)
def test_a_message_of_forty_kilobytes_is_read_in_linear_time(text: str) -> None:
    """Forty kilobytes of brackets, blanks, comments or fences take less than half a second."""
    begin = process_time()
    read_marks(text, NAMES)

    assert process_time() - begin < 0.5


SEED = "Run make seed before pytest."
MESSAGE = f"The fixture database was empty, so I filled it.\n\n[kpt_new: {SEED}]"
BY = {"rater": "agent", "session": "s7"}
NOTICE = "1 lesson proposed: tallybook review"


def learn(here: Path, *sentences: str) -> None:
    """Record the lessons of one message as the worker does."""
    project = Project(here)
    found = [MarkedMessage((), sentences, MESSAGE, BY, f"marks:s7:{MESSAGE}")]
    options = Settings(learned="propose")
    record.write(project, list(mark_requests(project, current(open_log(project)), (), found, options)))
    refresh_notice(project)


def texts(run: Run) -> list[str]:
    """Return the texts of the playbook's entries."""
    return [point["text"] for point in json.loads(run("show", "--json").out)["key_points"]]


def test_a_review_decides_about_lessons_after_disputes(project: Path, run: Run) -> None:
    """A key accepts or rejects; what an agent wants retired comes first, and rejected it is not contested (rule 21)."""
    run("add", "Never push on Friday.")
    record_events(project, PointRated("kpt_001", "harmful"), PlaybookUpdated(0, 1, 0), rater="agent", session="s7")
    learn(project, SEED)
    record_events(
        project, PointProposed("retire", "kpt_001", (), "typed", "", "", "it blocks"), rater="agent", session="s7"
    )
    assert [("in dispute", ["kpt_001"]), ("lesson", [])] == items(run)
    terminal = Terminal(project, "review")
    for key in ("r", "a"):
        terminal.wait_for("[a] accept  [r] reject")
        terminal.press(key)
    code, shown = terminal.end()
    assert (0, True) == (code, "2 decisions recorded" in shown)
    assert ([], ["Never push on Friday.", SEED]) == (items(run), texts(run))
    record_events(project, PointRated("kpt_001", "harmful"), PlaybookUpdated(0, 1, 0), rater="agent", session="s8")
    assert [("contested", ["kpt_001"])] == items(run)


def test_a_person_hears_after_a_command_at_a_terminal(project: Path, run: Run) -> None:
    """The next command at a terminal says it, once; a decision takes it back, and neither verb repeats it."""
    run("add", "Never push on Friday.")
    learn(project, SEED)
    assert NOTICE not in run("show").err
    for expected in (True, False):
        code, shown = Terminal(project, "show").end()
        assert (0, expected) == (code, f"note: {NOTICE}\n" in shown)
    number = str(json.loads(run("proposals", "--json").out)[0]["seq"])
    run("proposals", "reject", number)
    assert not ledger_access.read_notice(Project(project))[1]


def test_what_an_agents_rating_pruned_is_named_with_its_restore(project: Path, run: Run) -> None:
    """The next start names it although another notice was shown that day, and a review restores or leaves it."""
    run("add", SEED)
    run("add", "Never push on Friday.")
    learn(project, "Tests need the network.")
    assert "systemMessage" in call(START, "s1")
    for session in ("s1", "s2", "s3"):
        for name in ("kpt_001", "kpt_002"):
            harm = (PointNoted(name, "harmful: there is no make"), PointRated(name, "harmful"))
            record_events(project, *harm, PlaybookUpdated(0, 1, 0), rater="agent", session=session)
    refresh_notice(Project(project))
    says = "1 lesson proposed, agents' ratings pruned kpt_001, kpt_002 (`tallybook restore kpt_002`): tallybook review"
    assert {"systemMessage": f"Tallybook: {says}"} == json.loads(call({**START, "source": "resume"}, "s1"))
    (first, *_) = json.loads(run("review", "--json").out)
    says = f"an agent's rating pruned it, at +0 -3: {SEED}; harmful: there is no make; `tallybook restore kpt_001`"
    assert (["kpt_001"], f"{says} brings it back") == (first["names"], first["says"])
    terminal = Terminal(project, "review")
    for key in ("b", "l", "s"):
        terminal.wait_for("[q] quit")
        terminal.press(key)
    assert 0 == terminal.end()[0]
    assert [SEED] == texts(run)
    assert [("contested", ["kpt_001"]), ("lesson", [])] == items(run)
