"""The doctor's checks of what the ledger stands on: modes, links, locks, file systems and git, each as it really is."""

from __future__ import annotations

from contextlib import contextmanager
import os
from pathlib import Path
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.doctor import file_states, findings_of, levels, posix
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.doctor import checks, system
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator

HOLD = """
import fcntl, sys
with open(sys.argv[1], "r+b") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""
linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project whose ledger holds one key point and one rating."""
    here = Project(project)
    commands.add(here, "Use type hints", HUMAN)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    return here


@contextmanager
def held(path: Path) -> Iterator[int]:
    """Let another process hold a lock; gives its id."""
    command = [sys.executable, "-c", HOLD, str(path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert b"held\n" == holder.stdout.readline()
    try:
        yield holder.pid
    finally:
        if os.name == "posix":
            holder.send_signal(signal.SIGCONT)
        holder.communicate()


# Locks


@linux
@pytest.mark.parametrize("name", ["lock", "render.lock", "head"])
def test_a_held_lock_is_told_with_its_holder(here: Project, name: str) -> None:
    """A lock that is held for longer than a writer waits is told with the id and name of the process that has it."""
    with held(here.ledger / name) as pid:
        assert pid == system.holder(here.ledger / name)
        ((level, message),) = findings_of(here, "lock")
    assert "note" == level
    assert message.startswith(f"process {pid} (")
    assert f" holds ledger/{name} for more than 250 ms" in message
    assert {} == levels(here)


@linux
def test_a_stopped_holder_is_bad(here: Project) -> None:
    """A holder that was stopped never lets go by itself: the hint says how it goes on."""
    with held(here.ledger / "lock") as pid:
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        found = [one for one in checks.run_checks(here) if one.check == "lock"]
    assert [("bad", f"run `kill -CONT {pid}` to let it go on")] == [(one.level, one.fix) for one in found]


# Files, disks and git


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
def test_a_link_in_place_of_a_file_is_bad(here: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A link within the ledger's folder is never followed, and named; so is a pipe."""
    (here.ledger / "spool").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    os.mkfifo(here.ledger / "pipe", 0o600)
    assert [
        ("bad", "a symbolic link is in the place of ledger/spool"),
        ("bad", "neither a file nor a folder: ledger/pipe"),
    ] == findings_of(here, "files")


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


@linux
def test_marks_of_chattr_are_told(here: Project) -> None:
    """A log that may only be appended to is worth a note; a head that cannot be written is bad."""
    if subprocess.run(["chattr", "+a", str(here.ledger / "events.jsonl")], capture_output=True, check=False).returncode:
        pytest.skip("only root may set such marks, and not on every file system")
    try:
        assert [("note", "events.jsonl may only be appended to (chattr +a)")] == findings_of(here, "marks")
        subprocess.run(["chattr", "+i", str(here.ledger / "head")], check=True)
        assert ("bad", "head cannot be changed (chattr +i)") == findings_of(here, "marks")[0]
    finally:
        subprocess.run(["chattr", "-i", "-a", *map(str, here.ledger.iterdir())], capture_output=True, check=False)


@pytest.mark.parametrize(("free", "level"), [(1 << 40, "ok"), (1 << 25, "note"), (1 << 10, "bad")])
def test_little_room_is_told(here: Project, monkeypatch: pytest.MonkeyPatch, free: int, level: str) -> None:
    """Room for less than the largest batch is noted, and hardly any is bad."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": free}))
    assert [level] == [found for found, _ in findings_of(here, "disk")]


MOUNTS = """\
22 27 0:21 / / rw,relatime - ext4 /dev/vda rw
23 22 0:22 / /home rw - nfs4 server:/home rw
24 23 0:23 / /home/a\\040b rw shared:1 - fuse.sshfs far:/ rw
25 22 0:24 / /run rw - tmpfs tmpfs rw
26 22 0:24 / /run rw - ramfs none rw
"""


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/srv/x", ("ext4", "/")),
        ("/home/x", ("nfs4", "/home")),
        ("/homes/x", ("ext4", "/")),
        ("/home/a b/x", ("fuse.sshfs", "/home/a b")),
        ("/run", ("ramfs", "/run")),
    ],
)
@posix
def test_the_file_system_is_the_one_mounted_nearest(path: str, found: tuple[str, str]) -> None:
    """The nearest mount above a path counts, of two at one place the later."""
    assert found == system.file_system(Path(path), MOUNTS)


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", "tmpfs"])
def test_a_file_system_that_keeps_less_is_named(here: Project, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Where locks and flushes may not hold, or nothing outlives a restart, the file system is named."""
    monkeypatch.setattr(system, "file_system", lambda _: (kind, "/mnt"))
    ((level, message),) = findings_of(here, "file system")
    assert ("note", True) == (level, message.startswith(f"{kind} at /mnt: "))


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
