"""What git takes along when it removes a worktree or cleans one: said before by `init` and `doctor`, and afterwards."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from helpers.doctor import findings_of
from helpers.git_repositories import git
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.command_line import Run

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

WHERE = (
    "a copy can be in other worktrees and clones, in git's history if it was tracked, in a shared book, or in a backup"
)
GONE = f"the ledger that was here is gone, and a new one begins; {WHERE}"
REMOVE = "`git worktree remove` and `git clean -fdX` delete"
CLEAN = "`git clean -fdX` deletes"


def make_ordinary(base: Path) -> Path:
    """Make a repository, and return its working tree."""
    git(base, "init", "--quiet", "main")
    git(base / "main", "commit", "--quiet", "--allow-empty", "--message", "first")
    return base / "main"


def make_bare(base: Path) -> Path:
    """Make a worktree of a bare repository."""
    make_ordinary(base)
    git(base, "clone", "--quiet", "--bare", "main", "bare.git")
    git(base / "bare.git", "worktree", "add", "--quiet", "../work")
    return base / "work"


def make_separate(base: Path) -> Path:
    """Make a repository whose own files lie elsewhere."""
    git(base, "init", "--quiet", "--separate-git-dir", str(base / "elsewhere.git"), "work")
    git(base / "work", "commit", "--quiet", "--allow-empty", "--message", "first")
    return base / "work"


def make_linked(base: Path) -> Path:
    """Make a linked worktree of a repository whose own files lie elsewhere."""
    git(make_separate(base), "worktree", "add", "--quiet", "../linked")
    return base / "linked"


@pytest.fixture
def base(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for repositories; no variable names a project."""
    monkeypatch.delenv("CLAUDE_PROJECT_DIR")
    (project / ".claude").rmdir()
    return project


@pytest.mark.parametrize(
    ("make", "says", "level"),
    [
        (make_bare, REMOVE, "note"),
        (make_separate, CLEAN, "note"),
        (make_linked, REMOVE, "note"),
        (make_ordinary, CLEAN, "ok"),
    ],
)
def test_init_and_doctor_say_what_a_removal_takes_along(  # noqa: PLR0913 - three of them are the case
    base: Path, run: Run, monkeypatch: pytest.MonkeyPatch, *, make: Callable[[Path], Path], says: str, level: str
) -> None:
    """`init` and `doctor` name the commands of git that delete the ledger of this working tree without asking."""
    root = make(base)
    monkeypatch.chdir(root)
    expected = f"git does not track the ledger, and {says} {root / '.claude/ledger'} without asking"
    answer = run("init")
    assert 0 == answer.code
    assert f"note: {expected}\n" in answer.err
    assert (level, expected) in findings_of(Project(root), "git")
    git(root, "add", "--force", ".claude/ledger/events.jsonl", ".claude/ledger/head")
    assert "without asking" not in run("init").err


@pytest.mark.parametrize(
    ("make", "remove"),
    [
        (make_bare, lambda root: git(root.parent / "bare.git", "worktree", "remove", str(root))),
        (make_linked, lambda root: git(root.parent / "work", "worktree", "remove", str(root))),
        (make_separate, lambda root: git(root, "clean", "-fdX", "--quiet")),
        (make_ordinary, lambda root: git(root, "clean", "-fdX", "--quiet")),
    ],
    ids=["bare", "linked", "separate", "ordinary"],
)
@pytest.mark.parametrize("words", [["add", "Name units."], ["score", "record", "startup_ms=8"], ["init"]])
def test_a_new_ledger_in_the_place_of_another_is_announced(  # noqa: PLR0913 - three of them are the case
    base: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    *,
    make: Callable[[Path], Path],
    remove: Callable[[Path], str],
    words: list[str],
) -> None:
    """After git removed a ledger, the first command that begins a new one says so, once, and where copies can be."""
    root = make(base)
    monkeypatch.chdir(root)
    assert 0 == run("init").code
    # What is tracked is not removed without asking; what `init` installs is the team's.
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "install")
    assert 0 == run("add", "Quote ids.").code
    monkeypatch.chdir(base)
    remove(root)
    assert not (root / ".claude/ledger").exists()
    root.mkdir(exist_ok=True)
    if not (root / ".git").exists():
        (root / ".claude").mkdir()
    monkeypatch.chdir(root)
    answer = run(*words)
    assert 0 == answer.code, answer
    assert 1 == answer.err.count(f"{root / '.claude/ledger'}: {GONE}: `tallybook import --ledger COPY` brings it in")
    assert GONE not in run(*words).err
