"""The project of a folder in a repository: real worktrees and submodules, and files that imitate them."""

from __future__ import annotations

from collections.abc import Callable
import json
import os
from pathlib import Path
import shutil

import pytest

from helpers.doctor import findings_of
from helpers.events import HUMAN
from helpers.git_repositories import git
from helpers.transcripts import run
from tallybook.ledger.errors import BadInputError
from tallybook.projections.surfaces.workspace import project as workspace
from tallybook.projections.surfaces.workspace.project import NoProjectError, Project, find_project
from tallybook.projections.surfaces.writing import commands

Finder = Callable[[Path], Path]

OWN = "[ledger]\nown = true\n"

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed, and makes what is tested")


@pytest.fixture(autouse=True)
def base(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder outside of every repository, with no variable that names a project."""
    (project / ".claude").rmdir()
    monkeypatch.delenv("CLAUDE_PROJECT_DIR")
    return tmp_path


@pytest.fixture
def main(base: Path) -> Path:
    """Return the main worktree of a repository with one commit."""
    made = base / "main"
    made.mkdir()
    git(made, "init", "--quiet")
    git(made, "commit", "--quiet", "--allow-empty", "--message", "first")
    return made


@pytest.fixture
def linked(base: Path, main: Path) -> Path:
    """Return a linked worktree of it."""
    git(main, "worktree", "add", "--quiet", str(base / "linked"))
    return base / "linked"


@pytest.fixture
def finder(monkeypatch: pytest.MonkeyPatch) -> Finder:
    """Return a function that finds the project of a folder."""

    def find(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(folder)
        return find_project().root

    return find


def set_own(folder: Path, text: str | bytes = OWN) -> Path:
    """Write the settings of a folder."""
    path = folder / ".claude" / "config" / "tallybook.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# Sharing


def test_worktrees_and_subfolders_record_in_the_main_worktree(main: Path, linked: Path) -> None:
    """In any folder of a repository the command uses the same ledger, and no other folder gets one."""
    within = main / ".claude" / "worktrees" / "within"
    git(main, "worktree", "add", "--quiet", str(within))
    assert 0 == run(["add", "Use type hints"], cwd=main).returncode
    for folder in (linked, linked / "a" / "b", main / "a", within, within / ".claude"):
        folder.mkdir(parents=True, exist_ok=True)
        assert 0 == run(["rate", "kpt_001", "helpful"], cwd=folder).returncode
    assert 5 == json.loads(run(["show", "--json"], cwd=linked).stdout)["key_points"][0]["helpful"]
    assert [main / ".claude" / "ledger"] == [path.parent for path in main.parent.rglob("events.jsonl")]


# A project of its own


def test_a_folder_with_a_ledger_of_its_own_is_a_project(main: Path, linked: Path, finder: Finder) -> None:
    """This holds in a linked worktree as in a subfolder, even if only the head of the ledger is left."""
    commands.add(Project(main), "the main one's", HUMAN)
    for folder in (linked, main / "sub"):
        commands.add(Project(folder), "its own", HUMAN)
        assert folder == finder(folder / "deeper")
        (folder / ".claude" / "ledger" / "events.jsonl").unlink()
        assert folder == finder(folder / "deeper")


def test_a_playbook_alone_makes_a_project_except_in_a_linked_worktree(main: Path, linked: Path, finder: Finder) -> None:
    """If git tracks the file, each worktree has it, so that it means nothing there."""
    for folder, project in ((main / "sub", main / "sub"), (linked, main), (linked / "sub", main)):
        (folder / ".claude").mkdir(parents=True)
        (folder / ".claude" / "playbook.json").write_text('{"key_points": []}')
        assert project == finder(folder)


OWN_FORMS = [
    "[ledger]\nown = true",
    "# mine\r\n[ledger] # here\r\n  own=true # yes\r\n",
    b"\xef\xbb\xbf[ledger]\nown = true\n",
    "ledger.own = true",
    "[playbook]\nbudget_chars = many, many\n[ledger]\nown = true",
]
NOT_OWN_FORMS = [
    '[ledger]\nown = "true"',
    "[ledger]\n# own = true",
    "[playbook]\nown = true",
    "ledger = [own = true",
    b"own\xff\x00",
    "#" * 70_000 + OWN,
]


@pytest.mark.parametrize("text", OWN_FORMS)
def test_a_setting_gives_a_folder_a_ledger_of_its_own(
    main: Path, linked: Path, finder: Finder, text: str | bytes
) -> None:
    """Any form of TOML is accepted, whatever else is wrong in the file; it holds for subfolders, too."""
    commands.add(Project(main), "the main one's", HUMAN)
    set_own(linked, text)
    assert linked == finder(linked / "sub")
    assert main == finder(main / "sub")


@pytest.mark.parametrize("text", NOT_OWN_FORMS)
def test_nothing_else_gives_a_folder_a_ledger_of_its_own(
    main: Path, linked: Path, finder: Finder, text: str | bytes
) -> None:
    """No other content of a settings file, or of its place, does."""
    set_own(linked, text)
    assert main == finder(linked)


# Other repositories


def test_a_submodule_and_worktrees_of_a_bare_repository_are_their_own(main: Path, base: Path, finder: Finder) -> None:
    """They have no main worktree; a bare repository in a folder ``.git`` makes the folder around it one."""
    git(main, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(main), "module")
    assert main / "module" == finder(main / "module" / "sub")
    for name, project in (("bare.git", base / "of-bare"), ("around/.git", base / "around")):
        git(base, "clone", "--quiet", "--bare", str(main), name)
        tree = base / "of-bare" if name == "bare.git" else base / "around" / "tree"
        git(base / name, "worktree", "add", "--quiet", str(tree))
        assert project == finder(tree / "sub")


def test_a_worktree_of_a_moved_repository_is_its_own_until_it_is_repaired(
    main: Path, linked: Path, finder: Finder
) -> None:
    """If the pointer leads nowhere the main worktree is unknown; the doctor says so."""
    moved = main.rename(main.with_name("moved"))
    assert linked == finder(linked / "sub")
    says = f"{linked} is a linked worktree that no repository lists, so it shares no ledger"
    assert ("note", says) in findings_of(Project(linked), "git")
    git(moved, "worktree", "repair", str(linked))
    assert moved == finder(linked / "sub")


def test_outside_of_a_repository_the_old_rules_apply(
    base: Path, finder: Finder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CLAUDE_PROJECT_DIR is that folder; else the nearest parent with ``.claude`` counts, and else the folder."""
    inner = base / "outer" / "inner"
    assert inner == finder(inner)
    (base / "outer" / ".claude").mkdir()
    assert base / "outer" == finder(inner)
    assert inner == find_project().start
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(inner))
    assert inner == find_project().root


def test_a_deleted_current_folder_is_reported(base: Path, finder: Finder) -> None:
    """The error appears only if the folder matters."""
    finder(base / "gone")
    (base / "gone").rmdir()
    with pytest.raises(BadInputError, match="the current folder: does not exist any more; go to another"):
        find_project()
    assert base == find_project(base).root


def test_the_home_folder_is_no_project(base: Path, finder: Finder) -> None:
    """This holds even if it is a repository, as for dotfiles, and for its worktrees."""
    home = Path.home()
    git(home, "init", "--quiet")
    git(home, "commit", "--quiet", "--allow-empty", "--message", "first")
    (home / ".claude").mkdir()
    (home / ".claude" / "playbook.json").write_text("{}")
    git(home, "worktree", "add", "--quiet", str(base / "linked"))
    assert home / "code" == finder(home / "code")
    with pytest.raises(NoProjectError, match="the home folder is not a project"):
        finder(home)
    assert base / "linked" == finder(base / "linked")


PLANTED: dict[str, Callable[[Path, Path], object]] = {
    "another's pointer": lambda path, linked: shutil.copy(linked / ".git", path),
    "a link to another's": lambda path, linked: path.symlink_to(linked / ".git"),
    "a repository": lambda path, linked: path.write_text(f"gitdir: {linked.parent}/main/.git\n"),
    "a link to itself": lambda path, _: path.symlink_to(path),
    "binary": lambda path, _: path.write_bytes(b"gitdir: \xff\x00/x\n"),
    "huge": lambda path, linked: path.write_text(f"gitdir: {linked.parent}/main/.git/worktrees/linked" + "\n" * 10**7),
    "a pipe": lambda path, _: os.mkfifo(path),
}


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_a_git_file_unknown_to_its_repository_leads_nowhere(
    linked: Path, base: Path, finder: Finder, plant: Callable[[Path, Path], object]
) -> None:
    """An unpacked archive with one is the top of a working tree of its own, and no more."""
    folder = base / "unpacked"
    folder.mkdir()
    plant(folder / ".git", linked)
    assert folder == finder(folder / "sub")
    assert "" == workspace.repository_of(str(folder))


@pytest.mark.parametrize("field", ["gitdir", "commondir"])
@pytest.mark.parametrize("text", [b"", b"\xff\x00", b"../../..\n"])
def test_a_repository_that_contradicts_its_worktree_leads_nowhere(
    main: Path, linked: Path, finder: Finder, field: str, text: bytes
) -> None:
    """Each must name the other."""
    (main / ".git" / "worktrees" / "linked" / field).write_bytes(text)
    assert linked == finder(linked)


def test_a_folder_of_worktrees_elsewhere_leads_nowhere(main: Path, base: Path, finder: Finder) -> None:
    """An archive may have both halves of a pointer, but the repository that it names knows neither."""
    folder, half = base / "unpacked", base / "unpacked" / "half"
    half.mkdir(parents=True)
    (folder / ".git").write_text("gitdir: half\n")
    (half / "gitdir").write_text("../.git\n")
    (half / "commondir").write_text(f"{main}/.git\n")
    assert folder == finder(folder)
