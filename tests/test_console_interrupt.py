"""Ctrl-C while a command is loaded or works: one line on standard error and exit code 130, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console import output
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

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

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a process cannot send itself Ctrl-C here")


def interrupted_at(module: str, *words: str) -> tuple[int, str, str]:
    """Run a command that gets Ctrl-C when it loads a module; return its exit code and its output."""
    command = [sys.executable, "-c", WATCHED, module, *words]
    done = subprocess.run(command, input="{}", capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("tallybook.projections.surfaces.cli.show", ["show"]),
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
    file = project / "legacy.json"
    file.write_text('{"key_points": ["Quote ids.", 5]}', encoding="utf-8")
    code, _, said = interrupted_at("tallybook.projections.surfaces.console.terminal", "import", str(file))
    assert (130, f"tallybook: interrupted; {output.RECORDED}\n") == (code, said)
    assert ["Quote ids."] == [point["text"] for point in commands.show(Project(project))["key_points"]]
