"""The command line, in this process and as it is installed, and the folder of the repository."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Sequence
import ctypes
from functools import cache
import json
import os
from pathlib import Path
import shutil
import subprocess
import sys
import tempfile
import tomllib
from typing import Final, NamedTuple

import click
import pytest

from tallybook.projections.playbook.render import playbook_bytes
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.cli.main import tallybook
from tallybook.projections.surfaces.history.reading import Opened
from tallybook.projections.surfaces.hooks import handler
from tallybook.projections.surfaces.workspace.project import Project

MAIN = "from tallybook.__main__ import main; main()"
BY_HAND = "learned by hand"


def run(project: Project, *arguments: str, before: Callable[[], None] | None = None) -> CommandResult:
    """Run the real command; ``before`` is called in its process."""
    command = [sys.executable, "-c", MAIN, "--project", str(project.root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, preexec_fn=before)
    return CommandResult(done.returncode, done.stdout, done.stderr)


def start_together(commands: Iterable[Sequence[str]]) -> list[subprocess.Popen[str]]:
    """Start processes that say "ready" and wait for a line; let all go once each is ready."""
    pipe = subprocess.PIPE
    workers = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT) for command in commands
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert "ready\n" == worker.stdout.readline()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    return workers


def replay_bytes(project: Project) -> bytes:
    """Return the bytes that ``playbook.json`` has by the ledger alone."""
    opened = Opened(project)
    return playbook_bytes(opened.playbook(cold=True), opened.settings.format)


def texts(project: Project) -> list[str]:
    """Return the texts of the ledger alone, whatever playbook.json has."""
    return [kp["text"] for kp in json.loads(replay_bytes(project))["key_points"]]


def assert_refused(answer: CommandResult, code: int, says: str) -> None:
    """Check that an answer is one line of error on standard error, with this exit code."""
    assert (code, "") == (answer.code, answer.out)
    assert answer.err.startswith("tallybook: ")
    assert "\n" == answer.err[-1]
    assert 1 == len(answer.err.splitlines())
    assert says in answer.err


def bind_root() -> None:
    """Make permissions bind this process even if it is root's: drop its capabilities from the next exec on."""
    for capability in (1, 2):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)


def run_unprivileged(project: Project, *arguments: str) -> CommandResult:
    """Run the real command as a user whom permissions bind."""
    is_root = os.geteuid() == 0
    if is_root and sys.platform != "linux":
        pytest.skip("permissions bind root nowhere but on Linux")
    return run(project, *arguments, before=bind_root if is_root else None)


# The result of a command that a test ran in its own process; conftest.py has the fixture that does.


class CommandResult(NamedTuple):
    """The result of a command: its exit code and its output."""

    code: int
    out: str
    err: str


Run = Callable[..., CommandResult]
"""Takes the words of a command line, and ``stdin`` as bytes."""


def run_here(arguments: Sequence[str]) -> int:
    """Return the exit code of a command line in this process, where a hook runs without Click as well."""
    is_hook = arguments[:1] == ["hook"] and not {"-h", "--help"}.intersection(arguments)
    return handler.run(arguments[1:]) if is_hook else main.run(arguments)


def verbs() -> dict[str, click.Command]:
    """Return every verb by its name, at any depth."""
    context = click.Context(tallybook)
    found = {name: tallybook.get_command(context, name) for name in tallybook.list_commands(context)}
    return {name: verb for name, verb in found.items() if verb is not None}


# The package as it is installed: the folders of the repository under the names that they have in the wheel.


def package_folders() -> dict[str, Path]:
    """Return package → folder in the repository, as in pyproject.toml, without subpackages."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {name: ROOT / folder for name, folder in settings["tool"]["setuptools"]["package-dir"].items()}


def lay_out(target: Path) -> Path:
    """Copy the package into a folder, like an installer, in place of an earlier copy, and return the folder."""
    for package, folder in package_folders().items():
        place = target.joinpath(*package.split("."))
        ignored = shutil.ignore_patterns("__pycache__", *(["library"] if package == "tallybook.projections" else []))
        shutil.copytree(folder, place, ignore=ignored, dirs_exist_ok=True)
    return target


@cache
def installed() -> str:
    """Return a folder with such a copy, for processes that import only from it; this process deletes it at its end."""
    folder = tempfile.mkdtemp(prefix="tallybook-installed-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(lay_out(Path(folder)))


# The path of the repository.


ROOT: Final = Path(__file__).resolve().parents[2]
