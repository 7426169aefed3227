"""``init`` and ``uninstall`` in real clones: what git ignores in this clone alone, and a tracked ``playbook.json``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.authors import HUMAN
from helpers.command_line import Answer
from helpers.git_repositories import git
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

pytestmark = pytest.mark.usefixtures("_installed")
COMMENT = "# Tallybook: each machine has its own\n"
LINE = "/.claude/playbook.json\n"


@pytest.fixture
def clone(project: Path) -> Path:
    """Return the project as a repository with one commit."""
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "commit", "--quiet", "--allow-empty", "--message", "first")
    return project


def status(folder: Path) -> list[str]:
    """Return what git shows as new or changed."""
    return [line for line in git(folder, "status", "--porcelain", "-uall").split("\n") if "playbook.json" in line]


def test_a_linked_worktree_uses_the_file_of_its_repository(clone: Path, run: Callable[..., Answer]) -> None:
    """Git reads it from there in every working tree."""
    git(clone, "worktree", "add", "--quiet", "../side", "-b", "side")
    side = clone.parent / "side"
    (side / ".claude").mkdir()
    assert 0 == run("--project", str(side), "init").code
    assert LINE in (clone / ".git" / "info" / "exclude").read_text()
    commands.add(Project(side), "one", HUMAN)
    assert [] == status(side)


def test_a_project_below_the_top_is_named_from_the_top(clone: Path, run: Callable[..., Answer]) -> None:
    """Characters that have a meaning in the file are escaped."""
    below = clone / "a[b]* c"
    (below / ".claude").mkdir(parents=True)
    assert 0 == run("--project", str(below), "init").code
    assert "/a\\[b]\\*\\ c/.claude/playbook.json\n" in (clone / ".git" / "info" / "exclude").read_text()
    commands.add(Project(below), "one", HUMAN)
    assert [] == status(clone)


@pytest.mark.parametrize("place", ["info/exclude", "info", ""])
def test_a_link_is_not_followed(clone: Path, tmp_path: Path, run: Callable[..., Answer], place: str) -> None:
    """What it leads to may be another's file."""
    path = (clone / ".git" / place) if place else clone / ".git"
    moved = tmp_path / "elsewhere"
    path.rename(moved)
    path.symlink_to(moved)
    exclude = clone / ".git" / "info" / "exclude"
    before = exclude.read_text()
    answer = run("init")
    assert (0, before) == (answer.code, exclude.read_text())
    assert str(exclude) not in answer.out


def test_a_pointer_to_a_foreign_repository_is_not_followed(
    clone: Path, tmp_path: Path, run: Callable[..., Answer]
) -> None:
    """An archive can bring a ``.git`` file that leads to any repository of this machine."""
    planted = tmp_path / "planted"
    (planted / ".claude").mkdir(parents=True)
    (planted / ".git").write_text(f"gitdir: {clone / '.git'}\n")
    before = (clone / ".git" / "info" / "exclude").read_text()
    assert 0 == run("--project", str(planted), "init").code
    assert before == (clone / ".git" / "info" / "exclude").read_text()
