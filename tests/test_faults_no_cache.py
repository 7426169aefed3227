"""A long ledger where no cache folder can be used: every command and hook works without one."""

from __future__ import annotations

import json
import os
from pathlib import Path
import subprocess
import sys

import pytest

from faults.scenes import ROOT, here, three_entries
from helpers.authors import HUMAN
from helpers.events import list_events
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.hooks.handler import SETTLED
from tallybook.projections.surfaces.workspace.project import MARKS, Project

pytestmark = pytest.mark.skipif(os.name != "posix", reason="plants what only POSIX has")
TEXT = "Test the edges"
READING = (("show",), ("why", "kpt_003"), ("log",), ("score",), ("doctor",))
WRITING = (("rate", "kpt_001", "helpful"), ("replay",), ("show",))
CACHE = "cache"
"""Where an archive can have a cache: in the ledger's folder, which no command reads for one."""


def write_long(root: Path) -> Project:
    """Make a project whose ledger is long enough for a checkpoint, with settings of its own."""
    project = three_entries(root)
    # No process is left behind that would reflect while the test looks.
    (project.ledger / MARKS).mkdir()
    (project.ledger / MARKS / SETTLED).write_text("none", encoding="utf-8")
    (project.claude / "config").mkdir()
    (project.claude / "config" / "tallybook.toml").write_text("[playbook]\nbudget_chars = 7000\n", encoding="utf-8")
    commands.record(project, {"new_key_points": [f"{number} " + "x" * 9_000 for number in range(8)]}, HUMAN)
    commands.show(project)
    return project


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project with a long ledger, where no cache folder can be used."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    monkeypatch.setenv("TALLYBOOK_CACHE_DIR", str(tmp_path / "open"))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "project"))
    return write_long(tmp_path / "project")


def start_hook(event: str, text: str = "") -> str:
    """Return the answer of a hook that gets its cache folder from the environment."""
    said = {"hook_event_name": event, "source": "startup", "session_id": "s1", "last_assistant_message": text}
    words = [sys.executable, "-c", "from tallybook.projections.surfaces.entry_point import main; main()", "hook"]
    done = subprocess.run(words, input=json.dumps(said), capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def test_without_a_cache_folder_every_command_and_hook_works(closed: Project, tmp_path: Path) -> None:
    """Their answers are those with a cache folder, and they write nothing to the folder."""
    assert TEXT in start_hook("SessionStart")
    assert ["", "", ""] == [start_hook("SessionStart"), start_hook("UserPromptSubmit"), start_hook("Stop", "[kpt_003]")]
    assert "" == start_hook("Stop", "[kpt_003]")
    for words in (*READING, *WRITING):
        assert (words, 0) == (words, here(closed, *words).code)
    kinds = [row["kind"] for row in list_events(closed)]
    assert (1, 1) == (kinds.count("playbook.injected"), kinds.count("point.cited"))
    assert [] == list((tmp_path / "open").iterdir())
    assert not (closed.ledger / CACHE).exists()
