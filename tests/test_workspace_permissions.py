"""The rights on created files: for the user alone, or for those who share the project's folder."""

from __future__ import annotations

from collections.abc import Iterator
import json
import os
from pathlib import Path
import shutil
import stat
import subprocess
import sys
import tempfile
from typing import NamedTuple

import pytest

from helpers.commands import ROOT
from helpers.events import HUMAN
from helpers.ledger_files import IS_ROOT, hold_ledger_lock
from tallybook.projections.surfaces.workspace.project import Project, find_project
from tallybook.projections.surfaces.writing import commands

GROUP = 54_321

FOLDERS = ("ledger", "ledger/quarantine", "ledger/spool")
FILES = (
    *("playbook.json", "playbook.json.unreadable-T", "ledger/quarantine/-.bin", "ledger/spool/"),
    *(f"ledger/{name}" for name in ("events.jsonl", "head", "lock", "render.lock", "rendered", ".gitignore")),
)


def modes(folder: Path) -> dict[str, int]:
    """Return the mode of everything in a folder, by its path, digits left out."""
    found = {}
    for path in folder.rglob("*"):
        name = "".join("" if letter.isdigit() else letter for letter in path.relative_to(folder).as_posix())
        name = "ledger/spool/" if name.startswith("ledger/spool/") else name
        found[name] = stat.S_IMODE(path.lstat().st_mode)
    return found


@pytest.fixture
def masked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a test with a umask of its own."""
    before = os.umask(request.param)
    yield
    os.umask(before)


def live(project: Project) -> None:
    """Make commands create every kind of file and folder."""
    commands.add(project, "one", HUMAN)
    with (project.ledger / "events.jsonl").open("ab") as file:
        file.write(b"torn")
    commands.add(project, "two", HUMAN)
    project.playbook.write_bytes(b"{")
    for key in ("k1", "k2"):
        commands.add(project, key, HUMAN, key)
    with hold_ledger_lock(project):
        assert commands.add(project, "waits", HUMAN).spooled


def assert_all_have(project: Project, file_mode: int, folder_mode: int) -> None:
    """Check that every kind of file was created, and each with its mode."""
    found = modes(project.claude)
    assert folder_mode == stat.S_IMODE(project.claude.stat().st_mode)
    assert dict.fromkeys(FOLDERS, folder_mode) == {name: found.pop(name) for name in FOLDERS}
    assert dict.fromkeys(FILES, file_mode) == found


@pytest.fixture
def bare(tmp_path: Path) -> Project:
    """Return a project without a ``.claude`` folder."""
    root = tmp_path / "bare"
    root.mkdir()
    return Project(root)


@pytest.mark.usefixtures("masked")
@pytest.mark.parametrize("masked", [0o000, 0o077], ids=oct, indirect=True)
@pytest.mark.parametrize("root_mode", [0o700, 0o755, 0o1777], ids=oct)
def test_what_is_created_is_the_users_alone(bare: Project, root_mode: int) -> None:
    """Whatever the umask, files are 0600 and folders 0700, even in a sticky world-writable folder."""
    bare.root.chmod(root_mode)
    live(bare)
    assert_all_have(bare, 0o600, 0o700)


@pytest.mark.usefixtures("masked")
@pytest.mark.parametrize("masked", [0o000, 0o077], ids=oct, indirect=True)
@pytest.mark.parametrize(
    ("root_mode", "file_mode", "folder_mode"),
    [(0o770, 0o660, 0o770), (0o775, 0o660, 0o770), (0o2770, 0o660, 0o2770), (0o777, 0o666, 0o777)],
    ids=["group", "group-and-readers", "set-group", "everybody"],
)
def test_a_shared_project_has_a_shared_ledger(bare: Project, root_mode: int, file_mode: int, folder_mode: int) -> None:
    """If the group, or everyone, may write to the project's folder, they may use the ledger, whatever the umask."""
    bare.root.chmod(root_mode)
    live(bare)
    assert_all_have(bare, file_mode, folder_mode)


class User(NamedTuple):
    """A user of the system: the number, which is also the own group's, and another group; 0 for none."""

    uid: int
    group: int = 0


ANN, BEN, STRANGER = User(54_001, GROUP), User(54_002, GROUP), User(54_003)
# Others may not reach this interpreter's files: all that is needed is loaded before root becomes one of them.
AS_USER = """
import os, sys
from tallybook.projections.history import review
from tallybook.projections.surfaces.cli import everyday, main as cli, upkeep
from tallybook.projections.surfaces.writing import commands
from tallybook.projections.surfaces.console import terminal
from tallybook.projections.surfaces.scores import files
uid, group = int(sys.argv[1]), int(sys.argv[2])
os.setgroups([group] if group else [])
os.setgid(uid)
os.setuid(uid)
sys.exit(max(cli.run(["--project", sys.argv[3], *line.split()]) for line in sys.argv[4:]))
"""


def run_as(user: User, project: Project, *lines: str) -> tuple[int, str]:
    """Run commands as a user, and return the worst exit code and the standard error."""
    command = [sys.executable, "-c", AS_USER, *map(str, user), str(project.root), *lines]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return done.returncode, done.stderr


@pytest.fixture
def open_place() -> Iterator[Project]:
    """Return a project that every user can reach, owned by one of them."""
    if not IS_ROOT:
        pytest.skip("only root can be several users")
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        project = Path(name) / "project"
        project.mkdir()
        os.chown(project, ANN.uid, GROUP)
        yield Project(project)


def test_two_users_of_a_group_share_a_ledger(open_place: Project) -> None:
    """Each adds, rates and replays after the other; a stranger reads nothing."""
    open_place.root.chmod(0o2770)
    for number, user in enumerate((ANN, BEN, ANN)):
        rates = [f"rate kpt_001 helpful --key {key}" for key in ("same", f"own-{number}")]
        lines = [f"add text-{number}", *rates, "replay", "replay --check"]
        assert (0, "") == run_as(user, open_place, *lines)
    entries = json.loads(open_place.playbook.read_bytes())["key_points"]
    assert (3, 4) == (len(entries), entries[0]["helpful"])
    assert {GROUP} == {path.stat().st_gid for path in open_place.claude.rglob("*")}
    code, err = run_as(STRANGER, open_place, "show")
    assert (4, 1) == (code, err.count("Permission denied"))


@pytest.mark.skipif(not IS_ROOT, reason="only root can give files to others")
@pytest.mark.parametrize("planted", [".claude", ".git"])
def test_someone_elses_project_above_the_work_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    """In a world-writable folder such as /tmp, another user's project is not the current one."""
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    (tmp_path / planted).mkdir()
    mine = tmp_path / "mine"
    mine.mkdir()
    monkeypatch.chdir(mine)
    found = [find_project().root]
    tmp_path.chmod(0o1777)
    found.append(find_project().root)
    os.chown(tmp_path / planted, 65534, 65534)
    found.append(find_project().root)
    monkeypatch.chdir(tmp_path)
    assert [tmp_path, tmp_path, mine, tmp_path] == [*found, find_project().root]


# The owner of files that a run as root leaves in another user's project.


pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root has such rights")

USER, PROJECT_GROUP = 54_321, 54_322
COMMAND = [sys.executable, "-c", "from tallybook.__main__ import main; main()"]
RATING = ("rate", "kpt_001", "helpful")
TELLING = {"hook_event_name": "SessionStart", "source": "startup", "session_id": "s1"}


def give(folder: Path) -> None:
    """Give a folder and everything in it to the user."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, USER, PROJECT_GROUP, follow_symlinks=False)


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
    assert dict.fromkeys(found, (USER, PROJECT_GROUP)) == found


def test_the_user_can_continue_after_root(users: Project) -> None:
    """Every file that root replaced can be read and written by the user, playbook.json among them."""
    commands.add(users, "Use type hints", HUMAN)
    give(users.root)
    assert 0 == run(users, *RATING)
    assert (USER, PROJECT_GROUP) == owners(users)[".claude/playbook.json"]
    opens = f"import os, sys; os.setgid({PROJECT_GROUP}); os.setuid({USER}); open(sys.argv[1], 'r+b').read()"
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
