"""The doctor's checks of what the ledger stands on: modes, links, locks, file systems and git, each as it really is."""

from __future__ import annotations

from contextlib import contextmanager
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.doctor import file_states, findings_of, levels, posix
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.doctor import checks
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD = """
import fcntl, sys
with open(sys.argv[1], "r+b") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project whose ledger holds one key point and one rating."""
    here = Project(project)
    commands.add(here, "Use type hints", HUMAN)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    return here


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Let another process hold a lock."""
    command = [sys.executable, "-c", HOLD, str(path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert b"held\n" == holder.stdout.readline()
    try:
        yield
    finally:
        holder.communicate()


# Locks


@posix
@pytest.mark.parametrize("name", ["lock", "render.lock", "head"])
def test_a_held_lock_is_told_with_the_command_that_names_its_holder(here: Project, name: str) -> None:
    """A lock that is held for longer than a writer waits is told with the commands that name and end its holder."""
    with held(here.ledger / name):
        (found,) = [finding for finding in checks.run_checks(here) if finding.check == "lock"]
    assert ("note", f"another process holds ledger/{name} for more than 250 ms") == (found.level, found.message)
    assert found.fix.startswith(f"`fuser {here.ledger / name}` gives its id; ")
    assert {} == levels(here)


# Files and git


@posix
def test_loose_modes_are_told(here: Project) -> None:
    """What others may read is noted, and what they may write is bad, unless the project's folder is shared."""
    (here.ledger / "events.jsonl").chmod(0o644)
    assert [("note", "others may read ledger/events.jsonl")] == findings_of(here, "modes")
    (here.ledger / "events.jsonl").chmod(0o660)
    here.playbook.chmod(0o666)
    assert [
        ("bad", "others may write ledger/events.jsonl"),
        ("bad", "others may write playbook.json, which agents obey"),
    ] == findings_of(here, "modes")
    here.playbook.chmod(0o664)
    here.claude.chmod(0o770)
    assert {} == levels(here)


@posix
def test_a_file_system_without_modes_is_not_told_of_them(here: Project) -> None:
    """Where every file is executable the file system keeps no modes, and no command would change one."""
    for path in here.ledger.rglob("*"):
        path.chmod(0o777)
    assert {} == levels(here)


@posix
def test_a_link_in_place_of_a_file_is_bad(here: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A link within the ledger's folder is never followed, and named; so is a pipe."""
    (here.ledger / "spool").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    os.mkfifo(here.ledger / "pipe", 0o600)
    assert [("bad", "neither a file nor a folder: ledger/pipe, ledger/spool")] == findings_of(here, "files")


@posix
def test_a_ledger_that_leads_elsewhere_is_told_once(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where the ledger's folder itself is a link, that is all that is said."""
    (project / ".claude" / "ledger").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    (found,) = checks.run_checks(Project(project))
    assert ("project", "bad") == (found.check, found.level)


@pytest.mark.parametrize("place", [".claude", ".claude/ledger"])
def test_a_file_in_place_of_a_folder_is_told_once(tmp_path: Path, place: str) -> None:
    """Where a file stands in place of a folder that holds everything, that is all that is said."""
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_bytes(b"")
    (found,) = checks.run_checks(Project(tmp_path))
    assert ("project", f"{tmp_path / place} is not a folder") == (found.check, found.message)


def git(here: Project, *arguments: str) -> None:
    """Run git in the project."""
    try:
        subprocess.run(["git", "-C", str(here.root), *arguments], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no git")


def test_a_ledger_that_git_tracks_is_noted(here: Project) -> None:
    """What the ledger's own .gitignore leaves out and somebody added by force is named; so is an ignored playbook."""
    git(here, "init", "-q")
    git(here, "add", ".")
    ((level, message),) = findings_of(here, "git")
    assert ("ok", True) == (level, message.startswith("git does not track the ledger, and "))
    git(here, "add", "-f", ".claude/ledger/events.jsonl", ".claude/playbook.json")
    (here.root / ".gitignore").write_text("playbook.json\n", encoding="utf-8")
    before = file_states(here.root)
    assert [
        ("note", "git tracks .claude/ledger/events.jsonl: a checkout or a merge changes it, which is damage"),
        ("note", "git tracks .claude/playbook.json although it is ignored: git stops at each change of it"),
    ] == findings_of(here, "git")
    assert before == file_states(here.root)


def test_a_repository_that_git_refuses_is_a_note(here: Project) -> None:
    """Where git does not answer, its own words are told, and nothing else fails for it."""
    git(here, "init", "-q")
    (here.root / ".git" / "HEAD").unlink()
    ((level, message),) = findings_of(here, "git")
    assert ("note", True) == (level, message.startswith("git could not be run: not a git repository"))


# The cache


@posix
def test_a_cache_folder_that_is_not_used_is_named(
    here: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint says how it is used again."""
    assert [("ok", "the cache folder is yours alone")] == findings_of(here, "cache")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    monkeypatch.setenv("TALLYBOOK_CACHE_DIR", str(tmp_path / "open"))
    ((level, message),) = findings_of(here, "cache")
    assert ("note", "is in the project") == (level, message.rpartition("open ")[2])
    monkeypatch.setenv("TALLYBOOK_CACHE_DIR", "open")
    assert [("note", "no cache is used: open is not an absolute path")] == findings_of(here, "cache")
