"""Commands on a terminal: progress that is cleared before the answer, a pager, and Ctrl-C without a traceback."""

from __future__ import annotations

import os
from pathlib import Path
import re
import subprocess
import sys

import pytest

from helpers.authors import HUMAN
from helpers.command_line import Run
from helpers.repository import ROOT
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console import output
from tallybook.projections.surfaces.workspace.project import Project

AT_ONCE = """
from tallybook.projections.surfaces.console import output
output.DELAY_S = 0.0
from tallybook.projections.surfaces.entry_point import main
main()
"""
CLEARED = "\x1b[2K"
ANSI = re.compile(r"\x1b\[[0-9;]*m")
"""What a terminal is sent to clear a line."""


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with a legacy file, three entries and a measurement."""
    place = Project(project)
    for text in ("Quote ids.", "Name the unit.", "Test first."):
        commands.add(place, text, HUMAN)
    commands.rate(place, "kpt_001", "harmful", HUMAN)
    (project / "old.json").write_text('{"key_points": ["Keep it short."]}', encoding="utf-8")
    return place


def read_all(terminal: int) -> str:
    """Return what was written to a terminal until its other end was closed."""
    pieces = b""
    try:
        while piece := os.read(terminal, 4096):
            pieces += piece
    except OSError:
        # Linux says so where the other end is closed.
        pass
    os.close(terminal)
    return pieces.decode()


def with_errors_on_terminal(project: Project, words: list[str], program: str = AT_ONCE) -> tuple[int, str, str]:
    """Run a command whose error output is a terminal; return its exit code, its output, and what the terminal got."""
    ours, theirs = os.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "CLAUDE_PROJECT_DIR": str(project.root)}
    command = [sys.executable, "-c", program, *words]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment
    ) as process:
        os.close(theirs)
        out, _ = process.communicate(timeout=60)
    return process.returncode, out, read_all(ours)


def on_terminal(project: Project, words: list[str], pager: str) -> str:
    """Run a command whose output is a terminal, with a pager; return what the terminal got."""
    ours, theirs = os.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "CLAUDE_PROJECT_DIR": str(project.root)}
    # A busy machine must not make the command slow enough to show its progress.
    command = [sys.executable, "-c", AT_ONCE.replace("0.0", "600.0"), *words]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment | {"PAGER": pager}
    ) as process:
        os.close(theirs)
        shown = read_all(ours)
        process.wait(timeout=60)
    return shown


@pytest.mark.parametrize(
    "words",
    [
        ["replay"],
        ["why", "kpt_001"],
        ["log"],
    ],
    ids=lambda words: words[0],
)
def test_a_long_read_shows_progress_and_clears_it(here: Project, words: list[str]) -> None:
    """A command that reads for longer than the delay shows its progress, and its answer is the same."""
    words = [word.format(here.root) for word in words]
    code, out, terminal = with_errors_on_terminal(here, words)
    assert (0, True) == (code, "%" in terminal), terminal
    # The last that the terminal got about it is that the line is cleared.
    assert "%" not in terminal.rpartition(CLEARED)[2]
    assert CLEARED in terminal
    assert "\x1b" not in out
    assert "%" not in out or words[0] == "score"


@pytest.mark.parametrize("verb", ["log", "show"])
def test_log_and_show_on_a_terminal_are_paged(here: Project, run: Run, tmp_path: Path, verb: str) -> None:
    """If the output is a terminal, `log` and `show` go through PAGER; with --json they do not."""
    page = tmp_path / "page"
    pager = f"tee {page}"
    shown = on_terminal(here, [verb], pager)
    written = page.read_text(encoding="utf-8")
    assert written == shown.replace("\r\n", "\n")
    # A terminal's lines end at its width, and a pipe's where the text does.
    assert run(verb).out.split() == ANSI.sub("", written).split()
    page.unlink()
    assert run(verb, "--json").out == on_terminal(here, [verb, "--json"], pager).replace("\r\n", "\n")
    assert not page.exists()


# Sends the signal at the moment at which a module is looked for.
WATCHED = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)

_, wanted, *words = sys.argv
sys.meta_path.insert(0, Finder())
sys.argv = ["tallybook", *words]
from tallybook.projections.surfaces.entry_point import main
main()
"""


def interrupted_at(module: str, *words: str) -> tuple[int, str, str]:
    """Run a command that gets Ctrl-C when it loads a module; return its exit code and its output."""
    command = [sys.executable, "-c", WATCHED, module, *words]
    done = subprocess.run(command, input="{}", capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("tallybook.projections.surfaces.cli.everyday", ["show"]),
        ("click", ["log"]),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_command_interrupted_while_it_loads_reports_that(module: str, words: list[str]) -> None:
    """Whichever module is being loaded, the command prints one line and exits with 130."""
    assert (130, "", "tallybook: interrupted\n") == interrupted_at(module, *words)


@pytest.mark.usefixtures("project")
def test_a_hook_interrupted_while_it_loads_ends_with_0() -> None:
    """An interrupted hook exits with 0 and prints nothing."""
    assert (0, "", "") == interrupted_at("tallybook.hook", "hook")


@pytest.mark.usefixtures("project")
def test_a_hook_interrupted_while_it_works_ends_with_0() -> None:
    """A hook that already handles its payload exits with 0 as well."""
    program = "import os\nfrom tallybook.projections.surfaces.hooks import handler\n"
    program += "handler.handle = lambda _: os.kill(os.getpid(), 2)\nhandler.main(['claude'])"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input="{}", capture_output=True, text=True, check=False)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


def test_a_command_interrupted_after_it_recorded_reports_that(project: Path) -> None:
    """The message says that the events are recorded and must not be sent again."""
    # It is loaded for what the new entry resembles.
    code, _, said = interrupted_at("tallybook.projections.history.review", "add", "Quote ids.")
    assert (130, f"tallybook: interrupted; {output.RECORDED}\n") == (code, said)
    assert ["Quote ids."] == [point["text"] for point in commands.show(Project(project))["key_points"]]
