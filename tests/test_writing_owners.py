"""The owner of files that a run as root leaves in another user's project."""

from __future__ import annotations

import json
import os
from pathlib import Path
import shutil
import subprocess
import sys

import pytest

from helpers.commands import ROOT
from helpers.events import HUMAN
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root has such rights")

USER, GROUP = 54_321, 54_322
COMMAND = [sys.executable, "-c", "from tallybook.__main__ import main; main()"]
RATING = ("rate", "kpt_001", "helpful")
TELLING = {"hook_event_name": "SessionStart", "source": "startup", "session_id": "s1"}


def give(folder: Path) -> None:
    """Give a folder and everything in it to the user."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, USER, GROUP, follow_symlinks=False)


@pytest.fixture
def users(tmp_path: Path) -> Project:
    """Return a project of another user's, without a ledger."""
    project = Project(tmp_path / "project")
    project.root.mkdir()
    give(project.root)
    return project


def run(project: Project, *words: str, given: str = "", wrapper: tuple[str, ...] = ()) -> int:
    """Run a command as root, and return its exit code."""
    environment = os.environ | {"CLAUDE_PROJECT_DIR": str(project.root)}
    command = [*wrapper, *COMMAND, *words]
    return subprocess.run(command, input=given, text=True, check=False, cwd=ROOT, env=environment).returncode


def owners(project: Project) -> dict[str, tuple[int, int]]:
    """Return owner and group of everything in a project."""
    found = {path.relative_to(project.root).as_posix(): path.lstat() for path in project.root.rglob("*")}
    return {name: (status.st_uid, status.st_gid) for name, status in found.items()}


def test_files_by_root_belong_to_the_owner_of_the_project(users: Project) -> None:
    """They are the ledger, the playbook, markers, the spool, settings and score files, and all their folders."""
    assert [0, 0, 0] == [run(users, "add", "Use type hints"), run(users, *RATING), run(users, "init")]
    assert 0 == run(users, "hook", given=json.dumps(TELLING))
    metrics = json.dumps({"component": "ac02", "metrics": {"completed": 1, "total": 1}})
    assert 0 == run(users, "score", "record", "-", given=metrics)
    found = owners(users)
    assert {".claude/playbook.json", ".claude/ledger/events.jsonl", ".claude/ledger/marks"} <= found.keys()
    assert dict.fromkeys(found, (USER, GROUP)) == found


def test_the_user_can_continue_after_root(users: Project) -> None:
    """Every file that root replaced can be read and written by the user, playbook.json among them."""
    commands.add(users, "Use type hints", HUMAN)
    give(users.root)
    assert 0 == run(users, *RATING)
    assert (USER, GROUP) == owners(users)[".claude/playbook.json"]
    opens = f"import os, sys; os.setgid({GROUP}); os.setuid({USER}); open(sys.argv[1], 'r+b').read()"
    for name in ("playbook.json", "ledger/events.jsonl", "ledger/head", "ledger/lock"):
        # The folders above are the test run's own: the process enters this one while it is root.
        words = [sys.executable, "-S", "-c", opens, f".claude/{name}"]
        assert 0 == subprocess.run(words, check=False, cwd=users.root).returncode, name


def test_existing_files_keep_their_owner(users: Project, tmp_path: Path) -> None:
    """Files that root owned before, and a link's target, stay root's."""
    commands.add(users, "Use type hints", HUMAN)
    give(users.root)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (users.claude / "link").symlink_to(victim)
    for name in ("head", "lock"):
        os.chown(users.ledger / name, 0, 0)
    assert 0 == run(users, *RATING)
    found = owners(users)
    kept = [found[f".claude/{name}"] for name in ("ledger/head", "ledger/lock", "link")]
    assert ([(0, 0)] * 3, 0) == (kept, victim.stat().st_uid)


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_an_owner_that_cannot_be_changed_is_no_error(users: Project) -> None:
    """In a container root may lack that right: created files are root's then, and the rating counts."""
    wrapper = ("setpriv", "--bounding-set", "-chown", "--inh-caps", "-chown")
    assert 0 == run(users, "add", "Use type hints", wrapper=wrapper)
    assert 0 == run(users, *RATING, wrapper=wrapper)
    assert [1] == [point["helpful"] for point in commands.show(users)["key_points"]]
    assert {(0, 0)} == set(owners(users).values())
