"""What a session is given for a task by `show --as-agent`, and in a file that agents read by `export agents-md`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.events import list_events
from helpers.hook_calls import START, call, events, here, set_to, told
from tallybook.ledger.events import PlaybookInjected, PointCited, PointProposed
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.hooks import blocks
from tallybook.projections.surfaces.selection.exported import MAX_CHARS, SENTENCE
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from helpers.command_line import Run

__all__ = ["here"]


BEGIN, END = blocks.BEGIN.decode(), blocks.END.decode()
BLOCK = f"{BEGIN}\n{SENTENCE}\n\n- Use type hints [kpt_001]\n- Write tests [kpt_002]\n{END}"
CRLF_BLOCK = BLOCK.replace("\n", "\r\n")
OLD = f"{BEGIN}\nanything\n{END}"


@pytest.fixture(name="folder")
def _folder(here: Project) -> Path:
    return Path(here.root)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, f"{BLOCK}\n"),
        ("# Rules\n", f"# Rules\n\n{BLOCK}\n"),
        ("\ufeff# Rules\r\nBe kind.\r\n", f"\ufeff# Rules\r\nBe kind.\r\n\r\n{CRLF_BLOCK}\r\n"),
        (f"a\n\n{OLD}\n\nb", f"a\n\n{BLOCK}\n\nb"),
        (f"a\r\n{BEGIN}\r\n{END}\r\nb\n", f"a\r\n{CRLF_BLOCK}\r\nb\n"),
        (f"```\n{BEGIN}\n```\nb\n", f"```\n{BEGIN}\n```\nb\n\n{BLOCK}\n"),
        (f"~~~~ text\n```\n{OLD}\n~~~~\n{OLD}\n", f"~~~~ text\n```\n{OLD}\n~~~~\n{BLOCK}\n"),
        (f"Write `{BEGIN}` first.\n", f"Write `{BEGIN}` first.\n\n{BLOCK}\n"),
    ],
)
def test_a_block_is_written_and_the_rest_stays(folder: Path, run: Run, before: str | None, after: str) -> None:
    """Every byte outside of the markers stays, and the same command again writes nothing."""
    path = folder / "AGENTS.md"
    if before is not None:
        path.write_bytes(before.encode())
    done = run("export", "agents-md")
    assert (0, "AGENTS.md written: 2 entries\n") == (done.code, done.out)
    assert after.encode() == path.read_bytes()
    inode = path.stat().st_ino
    assert (0, "AGENTS.md has them already: 2 entries\n") == run("export", "agents-md")[:2]
    assert inode == path.stat().st_ino


@pytest.mark.parametrize(
    ("data", "words", "says"),
    [
        (f"a\n{BEGIN}\n".encode(), (), f"its markers are no pair: {BEGIN} in line 2;"),
        (f"{END}\n{BEGIN}\n".encode(), (), f"no pair: {END} in line 1, {BEGIN} in line 2;"),
        (f"{OLD}\n{OLD}\n".encode(), (), f"{BEGIN} in line 1, {END} in line 3, {BEGIN} in line 4, {END} in line 6;"),
        ("# Rules".encode("utf-16"), (), "is not UTF-8 text"),
        (b"x" * (blocks.MAX_FILE_BYTES + 1), (), "holds more than"),
        (b"", ("README.md",), "agents read; use CLAUDE.md, AGENTS.md, GEMINI.md, .cursor/rules/tallybook.mdc"),
        (b"", ("../AGENTS.md",), "agents read; use"),
        (b"mine", (".cursor/rules/tallybook.mdc",), "was not written by Tallybook"),
    ],
    ids=["begin", "order", "twice", "utf-16", "large", "other", "outside", "foreign"],
)
def test_a_file_that_cannot_have_a_block_is_refused(
    folder: Path, run: Run, data: bytes, words: tuple[str, ...], says: str
) -> None:
    """The error names the file and the lines, and the file stays as it is."""
    path = folder / (words[0] if words[:1] == (blocks.RULES,) else "AGENTS.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    done = run("export", "agents-md", *words)
    assert done.code in {2, 4}
    assert says in done.err
    assert data == path.read_bytes()


def test_a_read_only_file_and_a_link_out_of_the_project_are_refused(folder: Path, run: Run, tmp_path: Path) -> None:
    """Neither a file whose rights forbid it nor one of another project is written."""
    path = folder / "AGENTS.md"
    path.write_text("a")
    path.chmod(0o444)
    assert "is read-only" in run("export", "agents-md").err
    assert "a" == path.read_text()
    path.unlink()
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere.md"
    elsewhere.write_text("b")
    path.symlink_to(elsewhere)
    assert "leads out of the project" in run("export", "agents-md").err
    assert "b" == elsewhere.read_text()


@pytest.mark.parametrize("form", ["link", "import", "cursor"])
def test_one_file_gets_the_block(folder: Path, run: Run, form: str) -> None:
    """A CLAUDE.md that is a link or imports AGENTS.md leads there; rules of Cursor are a file of their own."""
    agents, claude = folder / "AGENTS.md", folder / "CLAUDE.md"
    agents.write_text("# Rules\n")
    if form == "cursor":
        assert 0 == run("export", "agents-md", blocks.RULES).code
        assert BLOCK[len(BEGIN) : -len(END)] in f"\n{(folder / blocks.RULES).read_text()}"
        assert (folder / blocks.RULES).read_text().startswith("---\nalwaysApply: true\n---\n")
        return
    if form == "link":
        claude.symlink_to("AGENTS.md")
    else:
        claude.write_text("# Claude\n@AGENTS.md\n")
    assert 0 == run("export", "agents-md", "CLAUDE.md").code
    assert f"# Rules\n\n{BLOCK}\n" == agents.read_text()
    assert claude.is_symlink() or claude.read_text() == "# Claude\n@AGENTS.md\n"
    if form == "import":
        claude.write_text(f"{OLD}\n@AGENTS.md\n")
        assert "has a block in lines 1 to 3, and imports AGENTS.md" in run("export", "agents-md").err


def test_a_block_has_what_a_person_approved(here: Project, folder: Path, run: Run) -> None:
    """An agent's entry is in it once a person pinned, reworded or accepted it; a comment and a past day are not."""
    for text in ("By an agent", "Pinned", "Reworded"):
        assert 0 == run("add", text, "--rater", "agent").code
    run("pin", "kpt_004")
    run("reword", "kpt_005", "By a person, see @src/app.py")
    run("add", "Hidden <!-- here")
    run("add", "Old", "--until", "2020-01-01")
    run("add", "x" * MAX_CHARS)
    lesson = PlainEvents((PointProposed("add", "", (), "lesson", "", "Seed the database", ""),))
    [number] = commands.record_request(here, Request(lesson, {"rater": "agent"})).numbers
    assert 0 == run("proposals", "accept", str(number)).code
    document = json.loads(here.playbook.read_bytes())
    document["key_points"].append({"name": "house", "text": "By hand", "helpful": 0, "harmful": 0})
    here.playbook.write_text(json.dumps(document))
    done = run("export", "agents-md", "--json")
    assert {"kpt_006", "kpt_008"} == json.loads(done.out)["left_out"].keys()
    assert "kpt_006 is left out" in done.err
    lines = (folder / "AGENTS.md").read_text().splitlines()[3:-1]
    assert [
        "- By hand [house]",
        "- Use type hints [kpt_001]",
        "- Write tests [kpt_002]",
        "- Pinned [kpt_004]",
        r"- By a person, see \@src/app.py [kpt_005]",
        "- Seed the database [kpt_009]",
    ] == lines
    assert len((folder / "AGENTS.md").read_text()) <= MAX_CHARS


def test_nothing_to_export_writes_nothing(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an entry of a person's no file is made, and an agent's command writes none."""
    run("retire", "kpt_001", "kpt_002")
    assert (1, "") == run("export", "agents-md")[:2]
    run("restore", "kpt_001")
    monkeypatch.setenv("CLAUDECODE", "1")
    assert "only a person may do this" in run("export", "agents-md").err
    assert not (folder / "AGENTS.md").exists()
    assert 2 == run("export", "json").code


def test_check_says_when_a_block_is_old(folder: Path, run: Run) -> None:
    """A new entry and broken markers are found; another export and a removed block are fine."""
    run("export", "agents-md")
    assert 0 == run("check").code
    run("add", "Name the units")
    done = run("check")
    assert 1 == done.code
    assert "AGENTS.md: its entries are not those of the playbook; `tallybook export agents-md AGENTS.md`" in done.out
    run("export", "agents-md")
    assert 0 == run("check").code
    (folder / "AGENTS.md").write_text(BEGIN)
    says = " ".join(run("check").out.split())
    assert f"AGENTS.md: its markers are no pair: {BEGIN} in line 1; leave one pair, begin before end, or none; " in says
    (folder / "AGENTS.md").unlink()
    assert 0 == run("check").code


def test_a_person_exports_and_a_session_cites(project: Path, run: Run) -> None:
    """From init to a citation: the block's entries are not injected, are recorded as read in the file, and count."""
    assert 0 == run("init").code
    for text in ("Use type hints", "Write tests"):
        assert 0 == run("add", text).code
    assert 0 == run("add", "Seed the database first", "--rater", "agent").code
    (project / "CLAUDE.md").write_text("@AGENTS.md\n")
    assert 0 == run("export", "agents-md").code
    answer = told(call(START))
    assert "Seed the database first" in answer
    assert "Use type hints" not in answer
    call({**START, "source": "resume"})
    made = Project(project)
    given = [(event.file, event.names) for event in events(made, PlaybookInjected)]
    assert [("", ("kpt_003",)), ("AGENTS.md", ("kpt_001", "kpt_002"))] == given
    call({"hook_event_name": "Stop", "last_assistant_message": "I wrote them, as [kpt_002] says; not [kpt_009]."})
    assert ["kpt_002"] == [event.name for event in events(made, PointCited)]
    assert "cited once" in run("why", "kpt_002").out.lower()
    assert "2 entries read in AGENTS.md" in run("log").out


def test_hooks_give_what_a_file_does_not_give_this_agent(here: Project, folder: Path, run: Run) -> None:
    """Claude Code reads no AGENTS.md by itself, a reworded entry is given anew, and broken markers give nothing."""
    run("export", "agents-md")
    assert "Use type hints" in told(call(START, "s1"))
    run("export", "agents-md", "CLAUDE.md")
    assert "" == told(call(START, "s2"))
    assert ["CLAUDE.md"] == [event.file for event in events(here, PlaybookInjected)][1:]
    run("reword", "kpt_001", "Use type hints everywhere")
    answer = told(call(START, "s3"))
    assert "Use type hints everywhere" in answer
    assert "Write tests" not in answer
    (folder / "CLAUDE.md").write_text((folder / "CLAUDE.md").read_text() + BEGIN)
    assert "Write tests" in told(call(START, "s4"))
    subagent = {"hook_event_name": "SubagentStart", "agent_id": "a1"}
    assert "" == call(subagent, "s4")


def test_lift_and_a_block_exclude_each_other(here: Project, run: Run) -> None:
    """`lift ask` refuses an exported entry, and an export is refused while a question withholds one of its entries."""
    users = Path(settings.users_file())
    users.parent.mkdir(parents=True, exist_ok=True)
    users.write_text("[lift]\nhold = 0.2\n")
    for text in ("Three", "Four", "Five", "Six"):
        commands.add(here, text, HUMAN)
    assert 0 == run("lift", "ask", "kpt_003").code
    assert "an open question of lift withholds kpt_003" in run("export", "agents-md").err
    assert not Path(here.root, "AGENTS.md").exists()
    run("lift", "stop")
    assert 0 == run("export", "agents-md").code
    assert "kpt_003: is in AGENTS.md, which every session reads" in run("lift", "ask", "kpt_003").err
    assert "has only entries that are pinned or exported" in run("lift", "ask", "playbook").err


TEXTS = ("Run the tests before each commit.", "Quote ids as strings in JSON.", "Name the units of numbers.")
TASK = "commit these tests"


@pytest.fixture
def three_entries(project: Path) -> Project:
    """Return a project with three entries, of which the second is rated."""
    made = Project(project)
    for text in TEXTS:
        commands.add(made, text, HUMAN)
    commands.rate(made, "kpt_002", "helpful", HUMAN)
    return made


def test_a_task_is_shown_what_a_prompt_would_be_given(three_entries: Project, run: Run) -> None:
    """The text is the hook's to the character, and nothing is recorded where a person asks (rule 22)."""
    before = [*list_events(three_entries)]
    shown = run("show", "--as-agent", "--for", TASK)
    assert (0, before) == (shown.code, [*list_events(three_entries)])
    set_to(three_entries, "[playbook]\nby_task = true\n")
    assert told(call({"hook_event_name": "UserPromptSubmit", "prompt": TASK})) == shown.out.removesuffix("\n")


def test_without_a_task_the_start_of_a_session_is_shown(three_entries: Project, run: Run) -> None:
    """It is what the hook of a start gives."""
    start = told(call({"hook_event_name": "SessionStart", "source": "startup"}))
    assert start == run("show", "--as-agent").out.removesuffix("\n")
    found = json.loads(run("show", "--as-agent", "--json").out)
    assert ["kpt_001", "kpt_002", "kpt_003"] == [entry["name"] for entry in found["entries"]]
    assert len(start) == found["chars"]
    assert 1 == len(events(three_entries, PlaybookInjected))


@pytest.mark.usefixtures("three_entries")
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


def test_what_an_agent_asks_for_is_recorded(three_entries: Project, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The injection is in the agent's session, or in none where it does not say which (rules 10 and 22)."""
    monkeypatch.setenv("CLAUDECODE", "1")
    run("show", "--as-agent", "--for", TASK)
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s7")
    run("show", "--as-agent", "--for", TASK)
    rows = [row for row in list_events(three_entries) if row["kind"] == "playbook.injected"]
    assert [None, "s7"] == [row["by"].get("session") for row in rows]
    assert [("kpt_001", "kpt_002")] * 2 == [event.names for event in events(three_entries, PlaybookInjected)]
