"""The command's JSON answers have stable shapes, its exit codes are right, and every help shows an example."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from helpers.command_line import Answer, verbs
from helpers.reference_model import book, extraction
from helpers.repository import ROOT
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

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
    reasons = {one["item"]: one["reason"] for one in answer["ignored"]}
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
    assert (1 if code else 4) == len(list(commands.list_events(here, "kpt_001")))
