"""Answers of verbs: stable shapes in JSON, exit codes, what words find, streams and encodings."""

from __future__ import annotations

import json
import os
from pathlib import Path
import shlex
import subprocess
import sys

import pytest

from helpers.command_line import Answer, Run, verbs
from helpers.events import list_events
from helpers.real_command import assert_refused
from helpers.reference_model import book, extraction
from helpers.repository import ROOT
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

MAIN = "from tallybook.projections.surfaces.entry_point import main; main()"
THRICE_HARMFUL = json.dumps(extraction(*[("kpt_001", "harmful")] * 3)).encode()


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with one entry."""
    place = Project(project)
    commands.add(place, "use types", {"rater": "human"})
    return place


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


ARGUMENTS: list[tuple[str, list[str], int, str]] = [
    ("half of a surrogate pair", ["add", "\udce9"], 2, "surrogate pair"),
    ("a reason with such a half", ["redact", "2", "--reason", "half \udcff"], 2, "surrogate"),
    ("a text with such a half", ["redact", "--text", "use \udcff", "--reason", "private", "--dry-run"], 2, "surrogate"),
    ("a rater that steers a terminal", ["add", "new", "--rater", "\x1b[2J"], 2, "printable characters"),
    ("a session of 1,000 characters", ["add", "new", "--session", "x" * 1000], 2, "needs 1 to 200"),
    ("an export without a format", ["export"], 2, "Missing argument 'FORMAT'"),
    ("a search of 100,000 characters", ["bisect", "(" * 100_000], 2, "100,000 characters, more than 1,000"),
    ("a search that steers a terminal", ["bisect", "\udce9\x1b[31m"], 2, "has no meaning here"),
]


@pytest.mark.parametrize(("arguments", "code", "says"), [pytest.param(*row[1:], id=row[0]) for row in ARGUMENTS])
def test_bad_arguments_are_refused(here: Project, run: Run, arguments: list[str], code: int, says: str) -> None:
    """A command with a bad argument answers with one line and the right exit code, and changes nothing."""
    before = (here.ledger / "events.jsonl").read_bytes()
    assert_refused(run(*arguments), code, says)
    assert before == (here.ledger / "events.jsonl").read_bytes()
