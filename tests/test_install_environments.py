"""``init`` and ``doctor`` where only an active virtual environment has the command: what a new shell then runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
import shlex
import subprocess
import sys

import attrs
import pytest

from helpers.agent_settings import AGENTS, lines_of, settings_of
from helpers.git_repositories import git
from helpers.installation import installed

SYSTEM_PATH = "/usr/bin:/bin"
SESSION_START = json.dumps({"hook_event_name": "SessionStart", "source": "startup", "session_id": "s1", "cwd": "."})


@attrs.frozen
class Environment:
    """A virtual environment that has the command, and a project in a repository.

    Attributes:
        folder: The environment.
        root: The project.
    """

    folder: Path
    root: Path

    @property
    def program(self) -> Path:
        """The command in the environment."""
        return self.folder / "bin" / "tallybook"

    def run(self, *words: str, active: bool = True, command: str = "", given: str = "") -> tuple[int, str, str]:
        """Run the command, or another of a shell, in the project; return exit code, output and errors."""
        path = f"{self.folder / 'bin'}:{SYSTEM_PATH}" if active else SYSTEM_PATH
        environment = {"PATH": path, "HOME": os.environ["HOME"]} | ({"VIRTUAL_ENV": str(self.folder)} if active else {})
        line = command or shlex.join(["tallybook", *words])
        done = subprocess.run(
            ["sh", "-c", line], cwd=self.root, env=environment, capture_output=True, text=True, check=False, input=given
        )
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the package as an installer leaves it."""
    folder = tmp_path_factory.mktemp("venv") / "my env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    places = [installed(), *(path for path in sys.path if path.endswith("site-packages"))]
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "places.pth").write_text("".join(f"{place}\n" for place in places), encoding="utf-8")
    program = folder / "bin" / "tallybook"
    start = "from tallybook.projections.surfaces.entry_point import main; main()"
    # The path of the interpreter has a space, which a line that begins with #! cannot have.
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(str(folder / "bin" / "python"))} -c "{start}" "$@"\n')
    program.chmod(0o755)
    return folder


@pytest.fixture
def inside(project: Path, environment: Path) -> Environment:
    """Return that environment, and a project with an entry."""
    git(project, "init", "--quiet")
    made = Environment(environment, project)
    assert 0 == made.run("add", "Quote ids as strings.")[0]
    return made


@pytest.mark.parametrize("name", ["claude", "codex", "copilot"])
def test_a_file_that_git_does_not_track_names_the_program_by_its_path(inside: Environment, name: str) -> None:
    """`init` in an environment writes lines that run in a shell without it."""
    assert 0 == inside.run("init", name)[0]
    files = AGENTS[name]
    lines = {line for _, line in lines_of(files, settings_of(files, inside.root))}
    (line,) = lines
    assert str(inside.folder) in line
    code, out, err = inside.run(active=False, command=line, given=SESSION_START)
    assert (0, "") == (code, err)
    assert "Quote ids as strings." in out


def test_for_a_tracked_file_init_and_doctor_name_the_cause(inside: Environment) -> None:
    """A tracked file has the bare command: `init` and `doctor` name the environment and `uv tool install`."""
    settings = settings_of(AGENTS["claude"], inside.root)
    settings.write_text("{}", encoding="utf-8")
    git(inside.root, "add", "--force", str(settings))
    code, _, err = inside.run("init")
    assert 0 == code
    assert {"tallybook hook || :"} == {line for _, line in lines_of(AGENTS["claude"], settings)}
    assert f"note: `tallybook` is on PATH only in the environment {inside.folder}: hooks and slash commands work" in err
    assert "uv tool install" in err
    out = inside.run("doctor")[1]
    cause = (
        f"the hooks call `tallybook`, which is on PATH only in the environment {inside.folder}; run `uv tool install"
    )
    assert cause in out
    assert "trust" not in out
    assert (
        "the hooks call `tallybook`, which is not on PATH"
        in (inside.run(active=False, command=f"{shlex.quote(str(inside.program))} doctor")[1])
    )
