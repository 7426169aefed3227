"""A tracked ``playbook.json`` in real repositories: checkouts, merges, and the end of tracking it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.documentation import examples
from helpers.git_repositories import git
from helpers.real_command import run as real_run
from helpers.repository import ROOT
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
PLAYBOOK = ".claude/playbook.json"
WHO = [(who, field) for who in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")]


def save(here: Project, message: str) -> None:
    """Commit the playbook as it is."""
    git(here.root, "commit", "--quiet", "--all", "--message", message)


def events(here: Project) -> int:
    """Return how many events the ledger has."""
    return reading.open_log(here).head().seq


def follow(here: Project, beginning: str) -> None:
    """Run the documented block of commands that begins so, in the project."""
    [block] = [example.code for example in examples("sh") if example.code.startswith(beginning)]
    code = block.replace("tallybook replay", shlex.join([sys.executable, "-P", "-m", "tallybook", "replay"]))
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | {f"GIT_{who}_{field}": "me@here" for who, field in WHO}
    subprocess.run(["bash", "-euo", "pipefail", "-c", code], cwd=here.root, env=environment, check=True)


def texts(here: Project) -> list[str]:
    """Return the texts of the entries that ``playbook.json`` has after a replay."""
    assert 0 == real_run(here, "replay").code
    commands.check(here)
    return [entry["text"] for entry in commands.show(here)["key_points"]]


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with a tracked playbook, and a branch ``side`` with an older version of it."""
    git(project, "init", "--quiet", "--initial-branch=main")
    here = Project(project)
    commands.add(here, "one", HUMAN)
    git(project, "add", PLAYBOOK)
    save(here, "one")
    git(project, "branch", "other-branch")
    commands.add(here, "two", HUMAN)
    save(here, "two")
    return here


@pytest.fixture
def parted(here: Project) -> Project:
    """Return the project with another version on each branch."""
    git(here.root, "checkout", "--quiet", "other-branch")
    commands.add(here, "three", HUMAN)
    save(here, "three")
    git(here.root, "checkout", "--quiet", "main")
    commands.add(here, "four", HUMAN)
    save(here, "four")
    return here


def test_the_documented_driver_merges_without_a_conflict(parted: Project) -> None:
    """The merge keeps this side, and the next command renders the file anew."""
    follow(parted, "echo '/.claude/playbook.json merge")
    git(parted.root, "add", ".gitattributes")
    save(parted, "attributes")
    before = events(parted)
    git(parted.root, "merge", "--quiet", "--no-edit", "other-branch")
    assert ["one", "two", "three", "four"] == texts(parted)
    assert before == events(parted)


def test_a_conflict_is_set_aside_and_rendered_anew(parted: Project) -> None:
    """Without the driver git writes its markers into the file; a replay and `git add` end the conflict."""
    before = events(parted)
    with pytest.raises(subprocess.CalledProcessError):
        git(parted.root, "merge", "--quiet", "--no-edit", "other-branch")
    assert b"<<<<<<< " in parted.playbook.read_bytes()
    assert ["one", "two", "three", "four"] == texts(parted)
    assert before == events(parted)
    assert 1 == len(list(parted.claude.glob("playbook.json.unreadable-*")))
    git(parted.root, "add", PLAYBOOK)
    save(parted, "merged")
    assert "" == git(parted.root, "ls-files", "--unmerged")


def test_the_end_of_tracking_deletes_no_rating_in_another_clone(here: Project, tmp_path: Path) -> None:
    """Git deletes the file there, and the next command writes it again; both clones then ignore it."""
    other = Project(tmp_path / "other")
    git(tmp_path, "clone", "--quiet", str(here.root), str(other.root))
    commands.rate(other, "kpt_001", "helpful", HUMAN)
    git(other.root, "checkout", "--", PLAYBOOK)
    follow(here, "git rm --cached ")
    git(other.root, "pull", "--quiet")
    assert not other.playbook.exists()
    assert ["one", "two"] == texts(other)
    assert 1 == commands.show(other)["key_points"][0]["helpful"]
    assert here.playbook.exists()
