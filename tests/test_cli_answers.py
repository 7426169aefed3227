"""Answers of verbs: stable shapes in JSON, exit codes, what words find, streams and encodings."""

from __future__ import annotations

import json
import os
from pathlib import Path
import re
import shlex
import shutil
import subprocess
import sys
from typing import Any

import pytest

from helpers.commands import MAIN, ROOT, Run, assert_refused, verbs
from helpers.events import HUMAN, list_events
from helpers.reference_model import extraction
from tallybook.projections.surfaces.cli.main import VERBS
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

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


@pytest.mark.parametrize(("encoding", "arguments"), [("cp1252", ["why", "kpt_001", "--json"]), ("ascii", ["log"])])
def test_a_terminal_of_another_encoding_is_answered(project: Path, encoding: str, arguments: list[str]) -> None:
    """An answer is printed whatever the encoding of standard output, even one that lacks its characters."""
    commands.add(Project(project), "Größe prüfen 🎉", {"rater": "human"})
    command = [sys.executable, "-c", MAIN, "--project", str(project), *arguments]
    env = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run(command, capture_output=True, check=False, cwd=ROOT, env=env)
    assert (0, b"") == (done.returncode, done.stderr)
    assert b"Gr" in done.stdout


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


# Help: the screen by groups, and shell completion.


def test_the_first_screen_fits_forty_lines_and_names_every_verb(run: Run) -> None:
    """The screen has at most 40 lines of 80 columns, begins with `init`, and ends with what programs run."""
    lines = run("--help").out.splitlines()
    assert [] == [line for line in lines if len(line) > 80]
    assert len(lines) <= 40
    assert lines[lines.index("Every day:") + 1].startswith("  init ")
    names = re.findall(r"[\w-]+", " ".join(line.partition("  ")[2] for line in lines))
    assert set() == {verb for verb in VERBS if " " not in verb} - set(names)
    assert 39 >= sum(" " not in verb for verb in VERBS)
    assert "  For programs  hook, mcp, record, completion" in lines


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("wh", "what-if why"),
        ("help rev", "review"),
        ("score g", "gate"),
        ("rate --rea", "--reason"),
        ("completion f", "fish"),
    ],
)
def test_bash_completes_verbs_options_and_choices(words: str, expected: str, tmp_path: Path) -> None:
    """With the printed script loaded, bash completes what the command line accepts."""
    program = tmp_path / "tallybook"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{MAIN}' \"$@\"\n", encoding="utf-8")
    program.chmod(0o755)
    script = (
        f'eval "$(tallybook completion bash)"; COMP_WORDS=(tallybook {words}); COMP_CWORD={len(words.split())}; '
        "_tallybook_completion tallybook; echo ${COMPREPLY[@]}"
    )
    env = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env=env)
    assert (expected, "") == (" ".join(sorted(done.stdout.split())), done.stderr)


# The modules that a command loads: a short process spends most of its time on loading them.


RATING = '{"evaluations": [{"name": "kpt_001", "rating": "helpful"}]}'
LOAD = """
import sys
from tallybook.projections.surfaces.cli.main import run
code = run(sys.argv[1:])
print(*sorted(sys.modules))
sys.exit(code)
"""
INSTALLED = ("cattrs", "rich", "yaml")
# Each takes a process about as long to load as a day's ratings to fold, and none of these commands needs it.
SLOW = ("asyncio", "email", "hashlib", "logging", "subprocess", "tempfile", "zoneinfo")
# Of ours, what is for other commands: what writes, what finds a moment, what a legacy file or a redaction takes.
WRITING = (
    "tallybook.ledger.decisions.update",
    *(f"tallybook.projections.surfaces.writing.{name}" for name in ("record", "requests", "secrets")),
)
OTHERS = (
    "tallybook.ledger.decisions.legacy_import",
    "tallybook.projections.surfaces.writing.erasure",
    "tallybook.projections.surfaces.writing.redact",
)


@pytest.fixture
def small(project: Path) -> Project:
    """Return a project whose ledger is long enough for a checkpoint, with a text that needs an escape."""
    made = Project(project)
    commands.add(made, 'Say "no" to quotes\nin ids', HUMAN)
    for number in range(30):
        commands.record(made, {"new_key_points": [f"guidance {number} " * 200], "evaluations": []}, HUMAN)
    commands.playbook(made)
    return made


def list_loaded(project: Project, *words: str, given: str = "") -> tuple[Any, set[str]]:
    """Return the answer of a command in its own process, and the modules that it had loaded at its end."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, "--project", str(project.root), *words],
        input=given.encode(),
        capture_output=True,
        check=True,
    )
    answer, modules = done.stdout.decode().splitlines()
    return json.loads(answer), set(modules.split())


READING = {*INSTALLED, *SLOW, *WRITING, *OTHERS}


@pytest.mark.parametrize(
    ("words", "others"),
    [
        (("show",), READING | {"tallybook.projections.surfaces.history.moments"}),
        (("show", "--at", "10"), READING),
        (("rate", "kpt_001", "helpful"), {*INSTALLED, *SLOW, *OTHERS}),
        (("add", "one more"), {*INSTALLED, *SLOW, *OTHERS}),
        (("record",), {*INSTALLED, *SLOW, *OTHERS}),
        (("verify",), {*INSTALLED, *SLOW, *OTHERS}),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_a_command_loads_what_it_needs(small: Project, words: tuple[str, ...], others: set[str]) -> None:
    """What reads loads nothing that writes, also of a moment, and what writes nothing that explains or erases."""
    answer, modules = list_loaded(small, *words, "--json", given=RATING)
    assert answer.get("ok", True)
    assert set() == modules & others
    # What a model said is searched for secrets, and nothing else.
    assert ("record" in words) == ("tallybook.projections.surfaces.writing.secrets" in modules)
