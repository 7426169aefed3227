"""A person's own playbook: who makes it, what moves between it and a project, and results for both (rules 23 to 25)."""

from __future__ import annotations

import json
import os
from pathlib import Path
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from helpers.git_repositories import git
from helpers.hook_calls import START, call, events, told
from helpers.injections import give, injected
from helpers.repository import ROOT
from helpers.shared_clones import make_clones
from helpers.transcripts import Script, answer, asked_for, kept
from tallybook.ledger.codec import decode
from tallybook.ledger.events import PlaybookInjected, PointCited, PointNoted, PointRated
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.mcp.protocol import Server
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import pair

if TYPE_CHECKING:
    from helpers.command_line import Run
    from helpers.transcripts import Client


PRIVATE = "Only I may read this"
# A hook ends with 0, whatever its words are.


def own_folder() -> Path:
    """Return where the playbook is, without CLAUDE_CONFIG_DIR."""
    return Path.home() / ".claude" / "my-playbook"


def names(run: Run, *words: str) -> list[str]:
    """Return the names of the entries that `show` prints."""
    return [point["name"] for point in json.loads(run("show", "--json", *words).out)["key_points"]]


@pytest.fixture
def mine_folder(project: Path, run: Run) -> Path:
    """Make a project with an entry and a playbook of one's own with one; return the latter's folder."""
    del project
    run("add", "Write tests")
    run("init", "--mine")
    run("add", "--mine", PRIVATE)
    return own_folder()


@pytest.mark.usefixtures("project")
def test_only_init_mine_makes_it(run: Run) -> None:
    """No other command makes it, a dry run does not, and a second run changes nothing (rule 23)."""
    for words in (("show", "--mine"), ("add", "--mine", "One"), ("--mine", "rate", "my_001", "helpful")):
        assert (2, "tallybook: --mine: you have no playbook of your own; make one: tallybook init --mine\n") == (
            run(*words)[0],
            run(*words).err,
        )
    run("add", "One")
    run("init", "--user")
    run("init", "--mine", "--dry-run")
    assert not own_folder().exists()
    assert "created" == json.loads(run("init", "--mine", "--json").out)["changed"][0]["what"]
    before = (own_folder() / "ledger" / "events.jsonl").read_bytes()
    assert "left" == json.loads(run("--mine", "init", "--json").out)["left"][0]["what"]
    assert before == (own_folder() / "ledger" / "events.jsonl").read_bytes()


@pytest.mark.usefixtures("project")
def test_claude_config_dir_is_honoured(run: Run, tmp_path_factory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the variable names another folder for Claude's own files, the playbook is there (rule 23)."""
    folder = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder))
    run("init", "--mine")
    run("add", "--mine", "One")
    assert ["my_001"] == names(run, "--mine")
    assert (folder / "my-playbook" / "ledger" / "events.jsonl").exists()
    assert not own_folder().exists()


@pytest.mark.usefixtures("mine_folder")
def test_its_entries_are_named_my(run: Run, mine_folder: Path, tmp_path: Path) -> None:
    """Added, imported and written by hand, its entries are `my_NNN`, and no name is used twice (rule 23)."""
    run("retire", "my_001", "--mine")
    run("--mine", "add", "Two")
    legacy = tmp_path / "legacy.json"
    legacy.write_text(json.dumps({"key_points": [{"name": "kpt_001", "text": "Three"}, "Four"]}), encoding="utf-8")
    run("import", str(legacy), "--mine")
    playbook = json.loads((mine_folder / "playbook.json").read_text(encoding="utf-8"))
    playbook["key_points"].append({"name": "kpt_001", "text": "Five", "helpful": 0, "harmful": 0})
    (mine_folder / "playbook.json").write_text(json.dumps(playbook), encoding="utf-8")
    run("record", "--mine", stdin=b'{"new_key_points": ["Six"], "evaluations": []}')
    assert [f"my_{number:03d}" for number in range(2, 7)] == names(run, "--mine")
    assert 0 == run("rate", "MY_2", "helpful", "--mine").code
    assert ["kpt_001"] == names(run)


@pytest.mark.usefixtures("mine_folder")
def test_verbs_on_it_leave_the_project_alone(run: Run, project: Path) -> None:
    """Every verb with `--mine`, before or after the verb, works on it and changes no file of the project (rule 23)."""
    before = {path: path.read_bytes() for path in (project / ".claude").rglob("*") if path.is_file()}
    lines = """
    show; add Two; rate my_001 helpful; why my_001; review --list needs-ratings; log; show --last-change; show --gone
    diff 1; bisect count>1; what-if --policy final; pin my_001; pin --off my_001; reword my_001 Newer
    merge my_001 my_002; retire my_001
    restore my_001; undo; proposals; verify; replay --check; redact --text Newer --reason typo --yes --dry-run
    """
    for words in filter(None, (line.split() for line in lines.replace("\n", ";").split(";"))):
        assert 0 == run("--mine", *words).code, words
    assert before == {path: path.read_bytes() for path in (project / ".claude").rglob("*") if path.is_file()}


@pytest.mark.usefixtures("mine_folder")
def test_a_name_of_the_project_hides_an_own_entry(run: Run, project: Path) -> None:
    """A name that the project has means its entry; the own one is not told there, and `doctor` says so (rule 23)."""
    (project / "legacy.json").write_text(
        json.dumps({"key_points": [{"name": "my_001", "text": "The project's", "helpful": 0, "harmful": 0}]}),
        encoding="utf-8",
    )
    run("import", str(project / "legacy.json"))
    context = told(call(START))
    assert (True, False) == ("[my_001] helpful=0 harmful=0 :: The project's" in context, PRIVATE in context)
    assert "your own playbook" not in run("rate", "my_001", "helpful").out
    assert "The project's" == json.loads(run("why", "my_001", "--json").out)["text"]
    assert "which hide your own my_001" in run("doctor").out


def test_damage_of_it_is_named_and_leaves_the_project_alone(run: Run, mine_folder: Path) -> None:
    """The project's entries are told, rated and explained; what needs the own ledger names it: exit code 3."""
    path = mine_folder / "ledger" / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(PRIVATE.encode(), PRIVATE.upper().encode()))
    run("add", "Another")
    assert "[kpt_002] helpful=0 harmful=0 :: Another" in told(call(START))
    assert 0 == run("rate", "kpt_001", "helpful", "--session", "s1").code
    assert (0, 0) == (run("why", "kpt_001").code, run("why", "Write").code)
    for words in (("rate", "my_001", "helpful"), ("undo", "--of", "s1"), ("record",)):
        answer = run(*words, stdin=b'{"evaluations": [{"name": "my_001", "rating": "helpful"}]}')
        assert 3 == answer.code
        assert f"your own playbook, {mine_folder}: events.jsonl:" in answer.err
    assert "bad   own playbook" in run("doctor").out
    assert {"kpt_001": 1, "kpt_002": 0} == {
        point["name"]: point["helpful"] for point in json.loads(run("show", "--json").out)["key_points"]
    }


# What a project ships


@pytest.mark.usefixtures("mine_folder")
@pytest.mark.parametrize("planted", ["config folder", "relative folder", "settings", "link"])
def test_a_project_cannot_redirect_it(
    run: Run, project: Path, mine_folder: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    """No settings, no variable and no folder of a project make another playbook the person's own (rule 23)."""
    fake = project / ".claude" / "my-playbook"
    (fake / "ledger").mkdir(parents=True)
    for path in (
        mine_folder / "ledger" / "events.jsonl",
        mine_folder / "ledger" / "head",
        mine_folder / "playbook.json",
    ):
        text = path.read_bytes().replace(PRIVATE.encode(), b"Planted")
        (fake / path.relative_to(mine_folder)).write_bytes(text)
    if planted == "config folder":
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(project / ".claude"))
    elif planted == "relative folder":
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", ".claude")
        monkeypatch.chdir(project)
    elif planted == "link":
        (project / "link").symlink_to(project / ".claude")
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(project / "link"))
    else:
        (project / ".claude" / "config").mkdir()
        (project / ".claude" / "config" / "tallybook.toml").write_text(
            f'[mine]\nfolder = "{fake}"\n[playbook]\nmine = true\n', encoding="utf-8"
        )
    before = {path: path.read_bytes() for path in fake.rglob("*") if path.is_file()}
    context = told(call(START))
    assert (True, False) == ("Write tests" in context, "Planted" in context)
    assert (PRIVATE in context) == (planted == "settings")
    code = run("add", "--mine", "Three").code
    assert (0 if planted == "settings" else 2) == code
    assert before == {path: path.read_bytes() for path in fake.rglob("*") if path.is_file()}


OWN = "Commit small steps"


@pytest.fixture
def mine_rated(project: Path, run: Run) -> Path:
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
    return [(entry["name"], entry["text"], entry["helpful"], entry["harmful"]) for entry in found]


@pytest.mark.usefixtures("mine_rated")
def test_promote_adds_the_entry_at_zero_and_keeps_its_origin(run: Run) -> None:
    """It shows the text, the project's entry has no ratings, the own one stays, and both stories link (rule 25)."""
    answer = run("promote", "my_1")
    assert (0, f"my_001  +1 -0  {OWN}") == (answer.code, answer.out.splitlines()[0])
    assert [("kpt_001", "Write tests", 0, 0), ("kpt_002", OWN, 0, 0)] == entries(run)
    assert [("my_001", OWN, 1, 0)] == entries(run, "--mine")
    rows = [("kpt_002", "my_001", "In your own playbook:"), ("my_001", "kpt_002", "In the project's playbook:")]
    for name, other, heading in rows:
        story = json.loads(run("why", name, "--json").out)
        assert (name, [other]) == (story["name"], [entry["name"] for entry in story["linked"]])
        assert f"{heading}\n{other}  kept" in run("why", name).out
    assert '"promoted from my_001" (human' in run("why", "kpt_002").out
    assert (1, True) == (run("promote", "my_001").code, "has this text as kpt_002" in run("promote", "my_001").err)
    run("undo")
    assert [("kpt_001", "Write tests", 0, 0)] == entries(run)
    assert "linked" not in json.loads(run("why", "my_001", "--json").out)


@pytest.mark.usefixtures("mine_rated")
def test_demote_takes_the_entry_out_of_the_project(run: Run) -> None:
    """It leaves the project, starts in the own playbook at 0/0, and both stories link (rule 25)."""
    run("rate", "kpt_001", "helpful")
    answer = run("demote", "kpt_001", "--reason", "only mine", "--json")
    made = json.loads(answer.out)
    assert ['kpt_001 retired: "only mine"'] == [event["summary"] for event in made["events"]]
    assert ([], [("my_001", OWN, 1, 0), ("my_002", "Write tests", 0, 0)]) == (entries(run), entries(run, "--mine"))
    assert ["my_002"] == [entry["name"] for entry in json.loads(run("why", "kpt_001", "--json").out)["linked"]]
    assert ["kpt_001"] == [entry["name"] for entry in json.loads(run("why", "my_002", "--json").out)["linked"]]
    assert (1, 1) == (run("demote", "kpt_001").code, run("demote", "kpt_009").code)


@pytest.mark.parametrize("words", [("promote", "my_001"), ("demote", "kpt_001"), ("promote", "my_001", "--rater", "x")])
def test_an_agent_can_do_neither(
    run: Run, mine_rated: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Inside an agent, and for another rater than a person, nothing is recorded: exit code 1 (rules 2, 25)."""
    before = (mine_rated / "ledger" / "events.jsonl").read_bytes(), entries(run)
    if "--rater" not in words:
        monkeypatch.setenv("CLAUDECODE", "1")
    answer = run(*words)
    assert (1, True) == (answer.code, "only a person may do this" in answer.err)
    assert before == ((mine_rated / "ledger" / "events.jsonl").read_bytes(), entries(run))


# Where both are shown, and where only names may be


def test_mcp_answers_with_both(run: Run, project: Path, mine_rated: Path) -> None:
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
    assert mine_rated.exists()


def test_a_project_holds_no_text_or_rating_of_an_own_entry(run: Run, project: Path, mine_rated: Path) -> None:
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
    assert mine_rated.exists()


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
    mine_rated = anna.home / ".claude" / "my-playbook"
    assert not (mine_rated / "ledger" / "book").exists()
    assert {"kpt_001": ("Write tests", 1, 0)} == anna.entries()
    assert 1 == json.loads(anna.do("show", "--mine", "--json"))["key_points"][0]["helpful"]


# Ends the process as `kill -9` would, before the n-th write of a result.
KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.writing import pair

write, left = pair.recording.write, int(sys.argv[2])


def count(*arguments, **options):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return write(*arguments, **options)


pair.recording.write = count
sys.exit(main.run(sys.argv[3:]))
"""
BOTH = {"evaluations": [{"name": name, "rating": "helpful"} for name in ("kpt_001", "my_001", "kpt_009")]}


@pytest.fixture
def mine(project: Path, run: Run) -> Project:
    """Make a project and a playbook of one's own with an entry each; return the latter."""
    run("add", "Write tests")
    run("init", "--mine")
    run("add", "--mine", OWN)
    found = personal.find(Project(project))
    assert found is not None
    return found


def counts(run: Run, *words: str) -> dict[str, tuple[int, int]]:
    """Return the counts of the entries that `show` prints."""
    found = json.loads(run("show", "--json", *words).out)["key_points"]
    return {entry["name"]: (entry["helpful"], entry["harmful"]) for entry in found}


def keys_of(project: Project, kind: type[Any]) -> list[str | None]:
    """Return the keys of the batches that hold an event of a kind."""
    batches = decode(open_log(project).read())
    return [batch.records[0].key for batch in batches if any(isinstance(event, kind) for event in batch.events)]


def test_a_rating_goes_to_the_ledger_of_its_entry(run: Run, project: Path, mine: Project) -> None:
    """One command that rates entries of both appends one batch to each, under one key (rule 24)."""
    made = json.loads(run("rate", "my_1", "kpt_001", "harmful", "--reason", "slow", "--json").out)
    assert (["kpt_001"], ["my_001"]) == ([rating["name"] for rating in made["rated"]], [
        rating["name"] for rating in made["mine"]["rated"]
    ])  # fmt: skip
    assert ({"kpt_001": (0, 1)}, {"my_001": (0, 1)}) == (counts(run), counts(run, "--mine"))
    (key,), (own,) = keys_of(Project(project), PointRated), keys_of(mine, PointRated)
    assert key == own
    assert [] == list((mine.ledger / pair.PENDING).iterdir())


def test_a_result_is_divided_once_under_its_key(run: Run, project: Path, mine: Project) -> None:
    """A record with a key counts once in both ledgers, and says of each part what it came to (rule 24)."""
    for _ in range(2):
        made = json.loads(run("record", "--key", "k1", "--json", stdin=json.dumps(BOTH).encode()).out)
    assert ({"kpt_001": (1, 0)}, {"my_001": (1, 0)}) == (counts(run), counts(run, "--mine"))
    assert (["k1"], ["k1"]) == (keys_of(Project(project), PointRated), keys_of(mine, PointRated))
    assert (True, True) == (made["repeated"], made["mine"]["repeated"])
    again = json.loads(run("record", "--json", stdin=json.dumps(BOTH).encode()).out)
    assert [("evaluations[2]", "kpt_009")] == [(part["item"], part["name"]) for part in again["ignored"]]


def test_operations_and_tags_go_to_the_ledger_of_their_entry(run: Run, mine: Project) -> None:
    """What names own entries alone is the own playbook's; a new point is the project's (rule 24)."""
    result = {
        "operations": [
            {"type": "ADD", "text": "New"},
            {"type": "DELETE", "target_id": "my_001", "reason": "old"},
            {"type": "MERGE", "source_ids": ["my_001", "kpt_001"], "merged_text": "Both"},
        ],
        "bullet_tags": [{"name": "my_001", "tag": "helpful", "rationale": "it helped"}],
    }
    made = json.loads(run("record", "--json", stdin=json.dumps(result).encode()).out)
    assert (["kpt_002"], ["operations[2]"]) == (made["added"], [part["item"] for part in made["ignored"]])
    assert [("my_001", "delete")] == [
        (load["name"], load["verb"]) for load in json.loads(run("proposals", "--mine", "--json").out)
    ]
    assert ([PointNoted("my_001", "helpful: it helped")], []) == (
        events(mine, PointNoted),
        json.loads(run("proposals", "--json").out),
    )


@pytest.mark.parametrize("writes", [0, 1])
@pytest.mark.parametrize("key", [(), ("--key", "k1")], ids=["without a key", "with a key"])
def test_a_crash_between_the_two_batches_loses_and_doubles_nothing(
    run: Run, project: Path, mine: Project, writes: int, key: tuple[str, ...]
) -> None:
    """The next command appends the second batch under the same key, and drops what the first never began (rule 24)."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CLAUDE_PROJECT_DIR": str(project)}
    words = [sys.executable, "-c", KILLED, str(ROOT), str(writes), "rate", "kpt_001", "my_001", "helpful", *key]
    assert -9 == subprocess.run(words, env=environment, capture_output=True, check=False).returncode
    assert ({"kpt_001": (writes, 0)}, {"my_001": (0, 0)}) == (counts(run), counts(run, "--mine"))
    run("rate", "kpt_001", "neutral")
    assert ({"kpt_001": (writes, 0)}, {"my_001": (writes, 0)}) == (counts(run), counts(run, "--mine"))
    assert [] == list((mine.ledger / pair.PENDING).iterdir())
    if key:
        run("rate", "kpt_001", "my_001", "helpful", *key)
        assert [key[1]] == keys_of(mine, PointRated)
        assert ({"kpt_001": (1, 0)}, {"my_001": (1, 0)}) == (counts(run), counts(run, "--mine"))
    assert set(keys_of(mine, PointRated)) <= set(keys_of(Project(project), PointRated))


@pytest.mark.usefixtures("mine")
def test_undo_of_a_session_covers_both(run: Run) -> None:
    """`undo --of` takes a session out of both ledgers, the command that it prints brings both back (rule 24)."""
    run("rate", "my_001", "kpt_001", "helpful", "--session", "abc-1")
    done = json.loads(run("undo", "--of", "abc", "--json").out)
    assert (2, 2) == (len(done["events"]), len(done["mine"]["events"]))
    assert ({"kpt_001": (0, 0)}, {"my_001": (0, 0)}) == (counts(run), counts(run, "--mine"))
    assert 1 == run("undo", "--of", "abc").code
    for command in done["redo"].split(" && "):
        run(*command.split()[1:])
    assert ({"kpt_001": (1, 0)}, {"my_001": (1, 0)}) == (counts(run), counts(run, "--mine"))
    run("rate", "my_001", "harmful", "--session", "own-2")
    assert [] == json.loads(run("undo", "--of", "own-2", "--json").out)["events"]
    assert {"my_001": (1, 0)} == counts(run, "--mine")


@pytest.mark.usefixtures("mine")
def test_a_session_is_told_both_apart(run: Run, project: Path, mine: Project) -> None:
    """Own entries have a heading, once and after a compaction; each ledger records its own entries (rule 24)."""
    run("add", "--mine", "Write tests")
    context = told(call(START))
    project_line = "[kpt_001] helpful=0 harmful=0 :: Write tests"
    own_line = f"[my_001] helpful=0 harmful=0 :: {OWN}"
    assert f"{project_line}\n\nFrom the user's own playbook, for all projects:\n{own_line}\n" in context
    assert "" == call({"hook_event_name": "UserPromptSubmit"})
    assert context == told(call({**START, "source": "compact"}))
    here = Project(project)
    assert [injected(("kpt_001",), 0)] * 2 == events(here, PlaybookInjected)
    assert [("my_001",)] * 2 == [event.names for event in events(mine, PlaybookInjected)]
    assert keys_of(here, PlaybookInjected) == keys_of(mine, PlaybookInjected)
    call({"hook_event_name": "Stop", "last_assistant_message": "As [my_001] and [kpt_001] say [no]."})
    assert ([PointCited("kpt_001", "message")], [PointCited("my_001", "message")]) == (
        events(here, PointCited),
        events(mine, PointCited),
    )
    assert keys_of(here, PointCited) == keys_of(mine, PointCited)


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize("by_task", [False, True], ids=["at the start", "by task"])
def test_both_share_one_budget(run: Run, project: Path, mine: Project, *, by_task: bool) -> None:
    """However many there are of both, the text has at most `budget_chars`; each ledger counts its own (rule 24)."""
    (project / "many.json").write_text(
        json.dumps({"key_points": [f"Deploy rule {number} {'x' * 80}" for number in range(60)]}), encoding="utf-8"
    )
    run("import", str(project / "many.json"))
    (project / "own.json").write_text(
        json.dumps({"key_points": [f"Deploy habit {number} {'y' * 80}" for number in range(60)]}), encoding="utf-8"
    )
    run("import", str(project / "own.json"), "--mine")
    settings = project / ".claude" / "config" / "tallybook.toml"
    settings.parent.mkdir()
    settings.write_text(f"[playbook]\nbudget_chars = 4000\nby_task = {str(by_task).lower()}\n", encoding="utf-8")
    call(START)
    context = told(call({"hook_event_name": "UserPromptSubmit", "prompt": "deploy"}, "s2"))
    (theirs,), (own,) = (
        [event for event in events(of, PlaybookInjected) if event.names][-1:] for of in (Project(project), mine)
    )
    assert 0 < len(context) <= 4_000
    for group, total, prefix in ((theirs, 61, "kpt_"), (own, 61, "my_")):
        assert all(name.startswith(prefix) for name in group.names)
        assert total == len(group.names) + sum(group.left_out.values())
        assert all(f"[{name}]" in context for name in group.names)
    assert context.count("] helpful=") == len(theirs.names) + len(own.names)


@pytest.mark.usefixtures("mine")
def test_a_reflection_rates_both_and_learns_nothing_anew(
    run: Run, project: Path, mine: Project, client: Client
) -> None:
    """The rater is shown own entries by name, rates each where it is, and cannot add an own text (rule 24)."""
    script = Script(kept(project) / "s1.jsonl").user("Fix it").agent("Done as [kpt_001] and [my_001] say.")
    here = asked_for(project, script)
    give(mine, "s1", "my_001")
    client.plans(answer(OWN, kpt_001="helpful", my_001="harmful"))
    assert 0 == run("reflect", "--rater", "claude").code
    assert f"[my_001] helpful=0 harmful=0 :: {OWN}" in client.asked[0]["prompt"]
    assert ({"kpt_001": (1, 0)}, {"my_001": (0, 1)}) == (counts(run), counts(run, "--mine"))
    assert keys_of(here, PointRated) == keys_of(mine, PointRated)
    assert [{"kpt_001"}, {"my_001"}] == [
        {note.name for note in events(playbook, PointNoted)} for playbook in (here, mine)
    ]
    assert [["kpt_001"], ["my_001"]] == [[event.name for event in events(of, PointCited)] for of in (here, mine)]
    run("undo", "--of", "s1")
    assert ({"kpt_001": (0, 0)}, {"my_001": (0, 0)}) == (counts(run), counts(run, "--mine"))
