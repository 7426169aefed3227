"""Folders and disks that refuse, and ledgers that are removed: one clear line, and no acknowledged event lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import json
from pathlib import Path
import shutil
import subprocess

import pytest

from helpers.commands import BY_HAND, Run, assert_refused, run
from helpers.doctor import findings_of
from helpers.events import HUMAN
from helpers.git_repositories import git
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands


def read_protected(project: Project) -> dict[str, bytes]:
    """Return the bytes that no failing command may change."""
    files = (project.ledger / "events.jsonl", project.playbook)
    return {path.name: path.read_bytes() for path in files if path.is_file()}


@contextmanager
def mount_at(folder: Path, options: str) -> Iterator[None]:
    """Mount a separate file system at a folder."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a file system, and not everywhere")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def small_disk(project: Path) -> Iterator[Project]:
    """Return a project on a disk of 64 KiB."""
    with mount_at(project / ".claude", "size=64k"):
        yield Project(project)


@pytest.fixture
def ledger_volume(project: Path) -> Iterator[Project]:
    """Return a project whose ledger folder is a file system of its own, like a container's volume."""
    made = Project(project)
    made.ledger.mkdir(mode=0o700)
    with mount_at(made.ledger, "size=1m,mode=700"):
        yield made


@pytest.fixture
def read_only_mount(small_disk: Project) -> Iterator[Project]:
    """Return a project with an entry whose `.claude` is mounted read-only."""
    commands.add(small_disk, BY_HAND, HUMAN)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk.claude)], check=True, capture_output=True)
    yield small_disk
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk.claude)], check=True, capture_output=True)


@pytest.mark.parametrize("words", ["add new", "undo", "score record --component ac01 startup_ms=1"])
def test_on_a_read_only_mount_no_advice_is_to_try_again(read_only_mount: Project, words: str) -> None:
    """A command that writes says to mount the file system for writing, with exit code 4; nothing changes."""
    before = read_protected(read_only_mount)
    done = run(read_only_mount, *words.split())
    assert_refused(done, 4, "Read-only file system")
    assert (True, False) == (
        "it is mounted read-only, so mount it for writing first" in done.err,
        "try again" in done.err,
    )
    assert before == read_protected(read_only_mount)


def test_a_ledger_on_a_file_system_of_its_own_is_rendered(ledger_volume: Project) -> None:
    """Each verb that writes renders playbook.json, which is on another file system."""
    assert ledger_volume.claude.stat().st_dev != ledger_volume.ledger.stat().st_dev
    assert (0, "") == run(ledger_volume, "add", "first")[::2]
    assert (0, "") == run(ledger_volume, "add", "second")[::2]
    ledger_volume.playbook.unlink()
    assert (0, "") == run(ledger_volume, "replay")[::2]
    assert ["first", "second"] == [
        point["text"] for point in json.loads(ledger_volume.playbook.read_bytes())["key_points"]
    ]
    ledger_volume.playbook.write_bytes(b"no playbook")
    assert 0 == run(ledger_volume, "replay").code
    assert 0 == run(ledger_volume, "replay", "--check").code
    assert 0 == run(ledger_volume, "redact", "2", "--reason", "a name").code
    assert 0 == run(ledger_volume, "verify").code


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
    ("make", "says", "is_linked"),
    [
        (make_bare, REMOVE, True),
        (make_separate, CLEAN, True),
        (make_linked, REMOVE, True),
        (make_ordinary, CLEAN, False),
    ],
)
def test_init_and_doctor_say_what_a_removal_takes_along(  # noqa: PLR0913 - three of them are the case
    base: Path, run: Run, monkeypatch: pytest.MonkeyPatch, *, make: Callable[[Path], Path], says: str, is_linked: bool
) -> None:
    """`init` names the commands of git that delete the ledger of this working tree, `doctor` those for a linked one."""
    root = make(base)
    monkeypatch.chdir(root)
    expected = f"git does not track the ledger, and {says} {root / '.claude/ledger'} without asking"
    answer = run("init")
    assert 0 == answer.code
    assert f"note: {expected}\n" in answer.err
    assert is_linked == (("note", expected) in findings_of(Project(root), "git"))
    git(root, "add", "--force", ".claude/ledger/events.jsonl", ".claude/ledger/head")
    assert "without asking" not in run("init").err


@pytest.mark.parametrize(
    ("make", "remove"),
    [
        (make_bare, lambda root: git(root.parent / "bare.git", "worktree", "remove", str(root))),
        (make_linked, lambda root: git(root.parent / "work", "worktree", "remove", str(root))),
        (make_ordinary, lambda root: git(root, "clean", "-fdX", "--quiet")),
    ],
    ids=["bare", "linked", "ordinary"],
)
@pytest.mark.parametrize("words", [["add", "Name units."], ["init"]])
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
