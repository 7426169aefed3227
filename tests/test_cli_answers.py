"""Answers of verbs: stable shapes in JSON, exit codes, what words find, streams and encodings."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from helpers.command_line import Answer, verbs
from helpers.events import list_events
from helpers.reference_model import book, extraction
from helpers.repository import ROOT
from tallybook.ledger.decisions.curation import Curation
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.history.moments import find
from tallybook.projections.surfaces.history.stories import WITH_EDIT, AmbiguousEntryError
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import curation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.command_line import Run


MAIN = "from tallybook.projections.surfaces.entry_point import main; main()"
THRICE_HARMFUL = json.dumps(extraction(*[("kpt_001", "harmful")] * 3)).encode()


@pytest.fixture
def ask(run: Run) -> Callable[..., Any]:
    """Return a function that runs a command and returns its JSON answer, which must be all of standard output."""

    def ask_(*arguments: str, stdin: bytes = b"", code: int = 0) -> Any:
        answer = run(*arguments, "--json", stdin=stdin)
        assert (code, "") == (answer.code, answer.err)
        assert 1 == answer.out.count("\n")
        return json.loads(answer.out)

    return ask_


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with one entry."""
    place = Project(project)
    commands.add(place, "use types", {"rater": "human"})
    return place


# The stable shapes


@pytest.mark.usefixtures("here")
def test_record_names_each_unknown_key_as_ignored(ask: Callable[..., Any]) -> None:
    """Keys of other formats, and key points without a text, are listed in `ignored`; the rest is recorded."""
    later = {"citations": [], "new_key_points": [{"section": "OTHERS"}]}
    answer = ask("record", stdin=json.dumps(later | {"evaluations": [], "analysis": "", "x" * 1000: 1}).encode())
    reasons = {part["item"]: part["reason"] for part in answer["ignored"]}
    unknown = dict.fromkeys(["citations", "analysis", "x" * 200], "is not a key of an extraction result")
    assert {"new_key_points[0]": "expected a text, got NoneType"} | unknown == reasons
    assert [] == answer["added"]


# Exit codes


def test_replay_writes_to_the_given_output(here: Project, run: Run, tmp_path: Path) -> None:
    """`replay` rebuilds playbook.json, or with `--output` a file or standard output, now or at a moment."""
    good = here.playbook.read_bytes()
    here.playbook.unlink()
    assert good.decode() == run("replay", "--output", "-").out
    assert not here.playbook.exists()
    assert 0 == run("replay", "--output", str(tmp_path / "now.json")).code
    assert 0 == run("replay", "--at", "1", "--output", str(tmp_path / "before.json")).code
    assert (good, []) == (
        (tmp_path / "now.json").read_bytes(),
        json.loads((tmp_path / "before.json").read_bytes())["key_points"],
    )
    assert 0 == run("replay").code
    (tmp_path / "link.json").symlink_to(here.playbook)
    for path in (here.playbook, here.claude / ".." / ".claude" / "playbook.json", tmp_path / "link.json"):
        assert "is the project's own playbook" in run("replay", "--at", "1", "--output", str(path)).err
    assert good == here.playbook.read_bytes()


# Help, and the command as it is installed


@pytest.mark.parametrize("verb", verbs())
def test_help_shows_an_example(run: Run, verb: str) -> None:
    """The help of every verb describes it and shows an example."""
    answer = run(*verb.split(), "--help")
    assert (0, "") == (answer.code, answer.err)
    assert f"tallybook {verb}" in answer.out.partition("Example: ")[2].replace("\n  ", " ")


def real(project: Path, *arguments: str, stdin: str = "", **environment: str) -> Answer:
    """Run the command in a process of its own."""
    command = [sys.executable, "-c", MAIN, "--project", str(project), *arguments]
    env = os.environ | environment
    done = subprocess.run(
        command, input=stdin.encode(), capture_output=True, check=False, cwd=ROOT, env=env | {"PYTHONUTF8": "0"}
    )
    return Answer(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def test_a_day_with_the_real_command(project: Path, tmp_path: Path) -> None:
    """Import, add, rate, record, replay, show, why, log and verify work in turn, each in its own process."""
    (tmp_path / "old.json").write_text(json.dumps(book("learned long ago")), encoding="utf-8")
    steps = [
        (["import", str(tmp_path / "old.json")], "1 entry imported"),
        (["add", "use types"], "added kpt_002"),
        (["rate", "kpt_002", "helpful"], "recorded as events"),
        (["record"], "pruned kpt_001"),
        (["replay"], "written"),
        (["show"], "use types"),
        (["why", "kpt_001"], "pruned"),
        (["log"], "learned long ago"),
        (["verify"], "events verified; head "),
        (["replay", "--check"], "is what the ledger says"),
    ]
    for arguments, says in steps:
        answer = real(project, *arguments, stdin=THRICE_HARMFUL.decode())
        assert (0, "") == (answer.code, answer.err)
        assert says in answer.out


@pytest.mark.parametrize(
    ("encoding", "arguments"),
    [
        ("cp1252", ["why", "kpt_001", "--json"]),
        ("ascii", ["log"]),
    ],
)
def test_a_terminal_of_another_encoding_is_answered(project: Path, encoding: str, arguments: list[str]) -> None:
    """An answer is printed whatever the encoding of standard output, even one that lacks its characters."""
    commands.add(Project(project), "Größe prüfen 🎉", {"rater": "human"})
    answer = real(project, *arguments, PYTHONIOENCODING=encoding)
    assert (0, "") == (answer.code, answer.err)
    assert "Gr" in answer.out


@pytest.mark.parametrize("words", [["log", "--json"], ["show"]], ids=" ".join)
def test_a_reader_that_closes_the_pipe_is_no_error(here: Project, words: list[str]) -> None:
    """If the reader of a pipe closes it, the command ends in silence, whatever it prints."""
    for letter in "xyz":
        commands.add(here, letter * 90_000, {"rater": "human"})
    command = [sys.executable, "-c", MAIN, "--project", str(here.root), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert b"" == process.stderr.read()
    assert 0 == process.returncode


@pytest.mark.skipif(os.name != "posix", reason="there is no shell that closes a stream")
@pytest.mark.parametrize(
    ("closed", "code", "out", "err"),
    [
        (">&-", 0, "", ""),
        ("2>&-", 0, "pruned kpt_001; recorded as events 4 to 7\n", ""),
        (">&- 2>&-", 0, "", ""),
        ("<&-", 2, "", "standard input: is empty"),
    ],
)
def test_a_closed_stream_counts_as_an_empty_one(here: Project, closed: str, code: int, out: str, err: str) -> None:
    """Without standard output or error the command does its work; without an input there is nothing to record."""
    words = shlex.join([sys.executable, "-c", MAIN, "--project", str(here.root), "record"])
    shell = ["sh", "-c", f"{words} {closed}"]
    done = subprocess.run(shell, input=THRICE_HARMFUL, capture_output=True, check=False, cwd=ROOT)
    assert (code, out) == (done.returncode, done.stdout.decode())
    assert err in done.stderr.decode()
    assert done.stderr.count(b"\n") == bool(err)
    assert (1 if code else 4) == len(list(list_events(here, "kpt_001")))


HUMAN = {"rater": "human", "session": "s1"}
EVENT = ["seq", "id", "at", "by", "summary"]


@pytest.fixture
def learned_again(project: Path) -> Project:
    """Return a project in which kpt_001 was pruned and learned again as kpt_003, and kpt_002 was retired."""
    place = Project(project)
    commands.record(place, extraction(new=["Use type hints", "Mock the clock"]), HUMAN)
    commands.record(place, extraction(*[("kpt_001", "harmful")] * 3), HUMAN)
    commands.add(place, "use TYPE hints!", HUMAN)
    curation.curate(place, Curation("retire", "kpt_002", "stale"), HUMAN)
    return place


def read_out(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Return what the command prints, and check its exit code."""
    capsys.readouterr()
    assert code == main.run(list(words))
    return capsys.readouterr().out


def test_an_entry_is_found_by_words_of_its_text(learned_again: Project) -> None:
    """A name comes first, then words that fit one entry alone, active or not."""
    assert ["kpt_001", "kpt_002", "kpt_002"] == [
        commands.why(learned_again, words)[0]["name"] for words in ("kpt_001", "clock", "MOCK the")
    ]
    assert ("unknown", "zebra") == tuple(commands.why(learned_again, "zebra")[0][key] for key in ("status", "name"))


def test_words_that_fit_several_entries_select_none(learned_again: Project) -> None:
    """The error lists all that fit; at a moment when one was active alone, it is selected."""
    with pytest.raises(AmbiguousEntryError) as several:
        commands.why(learned_again, "type hints")
    assert ["kpt_001", "kpt_003"] == [match["name"] for match in several.value.matches]
    assert "kpt_001" == commands.why(learned_again, "type hints", find(learned_again, "8"))[0]["name"]


@pytest.mark.usefixtures("learned_again")
def test_why_lists_the_matches_of_words(capsys: pytest.CaptureFixture[str]) -> None:
    """Name, status and text go to standard output, and one line says how to go on; quoted or not."""
    for words in (["type hints"], ["type", "hints"]):
        assert 1 == main.run(["why", *words])
        printed = capsys.readouterr()
        assert "kpt_001  pruned  Use type hints\nkpt_003  kept  use TYPE hints!\n" == printed.out
        hint = "2 entries have these words; give the name of one, or more words"
        assert f"tallybook: 'type hints': {hint}\n" == printed.err


@pytest.mark.usefixtures("learned_again")
def test_why_answers_matches_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON answer has the entries to choose from instead of a story."""
    answer = json.loads(read_out(capsys, "why", "hints", "--json", code=1))
    assert ["matches"] == list(answer)
    assert [["name", "status", "text"]] * 2 == [list(match) for match in answer["matches"]]


def test_a_manual_edit_that_is_not_recorded_is_included(
    learned_again: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in `show`, the answer names added and removed entries as a manual edit, without number or id."""
    changed = json.loads(learned_again.playbook.read_bytes())
    changed["key_points"] = [{"name": "kpt_009", "text": "by hand", "helpful": 2, "harmful": 0}]
    learned_again.playbook.write_text(json.dumps(changed), encoding="utf-8")
    (row,) = json.loads(read_out(capsys, "show", "--last-change", "--json"))
    assert ("kpt_009", 2, EVENT) == (row["name"], row["helpful"], list(row["event"]))
    assert (None, None, {"rater": "human"}) == tuple(row["event"][key] for key in ("seq", "id", "by"))
    grave = json.loads(read_out(capsys, "show", "--gone", "--json"))[-1]
    assert ("kpt_003", "retired", None) == (grave["name"], grave["status"], grave["event"]["seq"])
    assert 0 == main.run(["show", "--last-change"])
    printed = capsys.readouterr()
    assert printed.out.startswith("kpt_009  +2 -0          -  ")
    told = f"this is {WITH_EDIT}"
    assert f"note: {told}\n" == printed.err
    assert "kpt_003  retired  +0 -0  in playbook.json, " in read_out(capsys, "show", "--gone")
    assert "kpt_009" not in read_out(capsys, "show", "--last-change", "--at", "~0")


def notes(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what the command prints on standard error."""
    capsys.readouterr()
    main.run(list(words))
    return capsys.readouterr().err


def test_an_answer_names_manual_edits_that_it_leaves_out(
    learned_again: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """A note names the manual edit of the requested entry, and for a list the entries with manual edits."""
    commands.add(learned_again, "Keep functions short", HUMAN)
    quiet = [("why", "kpt_001"), ("why", "kpt_002"), ("show", "--gone"), ("show", "--last-change"), ("what-if",)]
    assert [""] * 5 == [notes(capsys, *words) for words in quiet]
    document = json.loads(learned_again.playbook.read_bytes())
    _, kept = document["key_points"]
    kept["helpful"] = 7
    back = {"name": "kpt_001", "text": "Use type hints", "helpful": 0, "harmful": 0}
    learned_again.playbook.write_text(json.dumps(document | {"key_points": [kept, back]}), encoding="utf-8")
    said = {
        "kpt_001": "a manual edit added it in playbook.json",
        "kpt_002": None,
        "kpt_003": "a manual edit removed it from playbook.json",
        "kpt_004": "a manual edit changed it in playbook.json",
    }
    hint = "; the next command that writes records it\n"
    for name, told in said.items():
        assert (f"note: {told}{hint}" if told else "") == notes(capsys, "why", name)
    told = "note: playbook.json has manual edits of kpt_003, kpt_004, kpt_001"
    assert told + hint == notes(capsys, "what-if")
    assert "manual edits" not in notes(capsys, "what-if", "--at", "3")
