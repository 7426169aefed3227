"""`python -m tests.agents`, where there is no client: it says so and ends."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from agents.clients import CLIENTS
from helpers.repository import ROOT
from tallybook.projections.surfaces.agents import table

if TYPE_CHECKING:
    from pathlib import Path


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as its own process."""
    command = [sys.executable, "-m", "tests.agents", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def test_a_client_that_is_not_there_is_named_with_the_reason(tmp_path: Path) -> None:
    """One line for each, and the exit code says that nothing was checked."""
    done = run("codex", "copilot", "--clients", str(tmp_path))
    assert [1, ""] == [done.returncode, done.stderr]
    [codex, copilot] = done.stdout.splitlines()
    assert codex.startswith("codex: not run: ")
    assert copilot.startswith("copilot: not run: ")


def test_a_name_that_is_no_client_is_refused() -> None:
    """Cursor is an agent, but its client is not on npm."""
    done = run("cursor")
    assert 2 == done.returncode
    assert "no such agent: cursor" in done.stderr
    assert {"cursor"} == table.AGENTS.keys() - CLIENTS.keys()
