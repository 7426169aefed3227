"""Commands as a user runs them: a whole process of the one installed with this Python."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess
import sys
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.table import NoRivalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallybook.projections.surfaces.workspace.project import Project


def installed() -> Path:
    """Return the command.

    Raises:
        NoRivalError: It is not installed.
    """
    found = Path(sys.executable).with_name("tallybook")
    if not found.exists():
        raise NoRivalError("the command is not installed beside this Python")
    return found


def environment() -> Mapping[str, str]:
    """Return the variables of a user: Python may cache its compiled files."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def whole_process(project: Project, words: tuple[str, ...]) -> Callable[[], float]:
    """Return a function that runs a command in a project and returns its seconds, start-up included."""
    command = [str(installed()), "--project", str(project.root), *words]

    def run() -> float:
        begin = perf_counter()
        done = subprocess.run(command, capture_output=True, check=False, env=environment())
        if done.returncode not in {0, 1}:
            raise NoRivalError(f"{command}: {done.stderr.decode()}")
        return perf_counter() - begin

    return run
