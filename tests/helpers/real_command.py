"""The real command, in its own process, also as a user whom permissions bind."""

from __future__ import annotations

from collections.abc import Callable
import ctypes
import json
import os
import subprocess
import sys

import pytest

from helpers.command_line import Answer
from helpers.repository import ROOT
from tallybook.projections.playbook.render import playbook_bytes
from tallybook.projections.surfaces.history.reading import Opened
from tallybook.projections.surfaces.workspace.project import Project

MAIN = "from tallybook.projections.surfaces.entry_point import main; main()"
BY_HAND = "learned by hand"


def run(project: Project, *arguments: str, before: Callable[[], None] | None = None) -> Answer:
    """Run the real command; ``before`` is called in its process."""
    command = [sys.executable, "-c", MAIN, "--project", str(project.root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, preexec_fn=before)
    return Answer(done.returncode, done.stdout, done.stderr)


def replay_bytes(project: Project) -> bytes:
    """Return the bytes that ``playbook.json`` has by the ledger alone."""
    opened = Opened(project)
    return playbook_bytes(opened.playbook(cold=True), opened.settings.format)


def texts(project: Project) -> list[str]:
    """Return the texts of the ledger alone, whatever playbook.json has."""
    return [kp["text"] for kp in json.loads(replay_bytes(project))["key_points"]]


def assert_refused(answer: Answer, code: int, says: str) -> None:
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


def run_unprivileged(project: Project, *arguments: str) -> Answer:
    """Run the real command as a user whom permissions bind."""
    is_root = os.geteuid() == 0
    if is_root and sys.platform != "linux":
        pytest.skip("permissions bind root nowhere but on Linux")
    return run(project, *arguments, before=bind_root if is_root else None)
