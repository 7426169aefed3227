"""The time of a hot path by function: ``python -m tests.benchmarks.profiles PATH [--events N]``."""

from __future__ import annotations

import argparse
from contextlib import closing
import cProfile
import json
import os
from pathlib import Path
import pstats
import shlex
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from benchmarks import data
from benchmarks.append import appended
from benchmarks.commands import environment, installed
from benchmarks.crowd import RATING
from tallybook.ledger.codec import decode
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import caches
from tallybook.projections.fold import fold
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.install.hook_entries import hook_command
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LINES = 25
APPENDS = 2_000
HOOK = {"hook_event_name": "SessionStart", "source": "startup", "session_id": "profiled"}


def _profiled(job: Callable[[], object]) -> None:
    """Print the functions that take the time of a job."""
    profile = cProfile.Profile()
    profile.runcall(job)
    pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(LINES)


def _replay(kind: str) -> Callable[[Project, int], None]:
    def replay(project: Project, events: int) -> None:
        data.build(project.ledger, kind, events)
        _profiled(lambda: fold(PLAYBOOK, decode(JsonlLog(project.ledger).read())))

    return replay


def _append(project: Project, _events: int) -> None:
    with closing(JsonlLog(project.ledger)) as log:
        appended(log, [RATING])
        _profiled(lambda: [appended(log, [RATING]) for _ in range(APPENDS)])


def _show(project: Project, events: int) -> None:
    data.build(project.ledger, "wide", events)
    commands.playbook(project)
    log = JsonlLog(project.ledger)
    _profiled(lambda: [reading.current(log, events * part // 10) for part in range(1, 10)])


def _start(project: Project, events: int) -> None:
    data.build(project.ledger, "alike", events)
    commands.replay(project)
    _traced(project, [sys.executable, str(installed()), "--project", str(project.root), "show", "--json"], "")


def _hook(project: Project, events: int) -> None:
    data.build(project.ledger, "alike", events)
    commands.replay(project)
    # As an agent starts it, but for the shell and for what is done where this fails.
    line = shlex.split(hook_command().partition(" || ")[0])
    _traced(project, line if len(line) > 2 else [sys.executable, *line], json.dumps(HOOK))


def _traced(project: Project, command: list[str], given: str) -> None:
    """Print the imports of a command, slowest last, and its system calls if there is strace.

    Args:
        project: Where it runs.
        command: The interpreter, and what it is given.
        given: What is sent on its standard input.
    """
    here = dict(environment()) | {"CLAUDE_PROJECT_DIR": str(project.root), "CLAUDE_CONFIG_DIR": str(project.claude)}
    told = subprocess.run(
        [command[0], "-X", "importtime", *command[1:]],
        input=given,
        env=here,
        capture_output=True,
        text=True,
        check=True,
    )
    imports = [line for line in told.stderr.splitlines() if line.startswith("import time:")]
    print(*sorted(imports, key=lambda line: line.partition("|")[2].rjust(20))[-LINES:], sep="\n")
    if strace := shutil.which("strace"):
        counted = subprocess.run(
            [strace, "-c", *command], input=given, env=here, capture_output=True, text=True, check=True
        )
        print(counted.stderr)


PATHS: dict[str, Callable[[Project, int], None]] = {
    "append": _append,
    "hook": _hook,
    "replay": _replay("alike"),
    "replay-different": _replay("different"),
    "show-at": _show,
    "start": _start,
}
"""Name of a hot path → what profiles it."""


def main(words: Sequence[str]) -> None:
    """Profile the path that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.profiles", description=__doc__)
    parser.add_argument("path", choices=PATHS)
    parser.add_argument("--events", type=int, default=100_000)
    asked = parser.parse_args(words)
    # The process that a hook leaves behind may still be at work there when the folder is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ[caches.VARIABLE] = str(Path(folder) / "caches")
        project = Path(folder) / "project"
        project.mkdir()
        PATHS[asked.path](Project(project), asked.events)


if __name__ == "__main__":
    main(sys.argv[1:])
