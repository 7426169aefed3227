"""What a hook does where there is more to read than its time allows: it says so, changes nothing and ends with 0."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.hooks.ledger_access import ERROR_FILE, MAX_PLAYBOOK_BYTES
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

HURRIED = "from tallybook.projections.surfaces.hooks import handler; handler.MAX_CPU_S = 0.01; handler.main(['claude'])"
HOOK = "from tallybook.projections.surfaces.hooks import handler; handler.main(['claude'])"


def called(event: str, program: str = HOOK) -> str:
    """Let a program handle an event of an agent; return what it says on standard error."""
    said = {"source": "startup", "last_assistant_message": "As [kpt_001] says."}
    payload = {"hook_event_name": event, "session_id": "s1", **said}
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(payload), capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stdout)
    return done.stderr


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with one entry."""
    made = Project(project)
    commands.add(made, "Quote ids as strings.", HUMAN)
    return made


def test_a_playbook_too_large_for_a_hook_is_not_read(here: Project) -> None:
    """A playbook.json of 100,000 entries is left alone, which standard error and `doctor` report."""
    entries = [
        {"name": f"kpt_{number:03}", "text": "Quote.", "helpful": 0, "harmful": 0} for number in range(1, 100_001)
    ]
    data = json.dumps({"key_points": entries, "last_updated": None}).encode()
    here.playbook.write_bytes(data)
    says = f"{here.playbook}: has {len(data):,} bytes, and hooks read at most {MAX_PLAYBOOK_BYTES:,}"
    assert called("SessionStart").startswith(f"tallybook: {says}")
    assert says in (here.ledger / ERROR_FILE).read_text()
    assert (data, 3) == (here.playbook.read_bytes(), len(list(commands.list_events(here))))


def test_a_hook_gives_up_once_its_time_is_used_up(here: Project) -> None:
    """A ledger that takes longer to read is reported once for a session, and the next prompt is not delayed."""
    here.playbook.unlink()
    assert called("SessionStart", HURRIED).startswith("tallybook: hook: gave up after 0.01 s")
    assert "gave up after 0.01 s" in (here.ledger / ERROR_FILE).read_text()
    assert "" == called("UserPromptSubmit", HURRIED)
    assert commands.verify(here).ok
