"""Where ``init`` installs: which folder, through which links, and what it refuses to touch."""

from __future__ import annotations

import json
import os
from pathlib import Path
import shutil
import stat
from typing import TYPE_CHECKING

import pytest

from helpers.agent_settings import BACKUP, CLAUDE, OURS, THEIRS, claude, on_path, tree
from tallybook.projections.surfaces.install import hook_entries, plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.command_line import Answer

__all__ = ["claude", "on_path"]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="this system has other links")


@pytest.fixture
def home(project: Path) -> Path:
    """Return the home folder, which is empty."""
    del project
    return Path.home()


def assert_refused(answer: Answer, code: int, says: str) -> None:
    """Check that an answer is one line on standard error, and an exit code."""
    assert (code, "", 1) == (answer.code, answer.out, len(answer.err.splitlines()))
    assert says in answer.err


@pytest.mark.parametrize(
    ("git", "agents", "here", "expected"),
    [
        (None, None, "a/b", "a/b"),
        (None, "a", "a/b", "a"),
        ("", "a", "a/b", ""),
        ("a", "", "a/b", "a"),
        ("a", "", "c", ""),
    ],
    ids=["nothing", "an agent's folder", "git above it", "git below it", "git beside it"],
)
def test_the_folder_is_where_the_agent_is_started(  # noqa: PLR0913 - the folders are the case
    project: Path,
    run: Callable[..., Answer],
    monkeypatch: pytest.MonkeyPatch,
    *,
    git: str | None,
    agents: str | None,
    here: str,
    expected: str,
) -> None:
    """The top of the git repository, else the nearest folder with a ``.claude``, else the current one."""
    (project / ".claude").rmdir()
    for folder in ("a/b", "c"):
        (project / folder).mkdir(parents=True)
    if git is not None:
        (project / git / ".git").write_text("gitdir: elsewhere")
    if agents is not None:
        (project / agents / ".claude").mkdir()
    monkeypatch.delenv("CLAUDE_PROJECT_DIR")
    monkeypatch.chdir(project / here)
    assert 0 == run("init").code
    assert ["settings.json"] == [path.name for path in project.rglob("settings.json")]
    claude = project / expected / ".claude"
    assert {*OURS, "ledger/events.jsonl"} <= {
        path.relative_to(claude).as_posix() for path in claude.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("words", [["--project", "~"], []], ids=["named", "found"])
def test_the_home_folder_is_no_project(
    home: Path, run: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Though its files be kept with git: one line says that --user is what is meant."""
    (home / ".git").mkdir()
    monkeypatch.delenv("CLAUDE_PROJECT_DIR")
    monkeypatch.chdir(home)
    assert_refused(run(*[word.replace("~", str(home)) for word in words], "init"), 2, "--user")
    assert [".git"] == [path.name for path in home.iterdir()]


def test_a_folder_that_is_not_there_is_refused(
    project: Path, run: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody mistypes a project into being."""
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(project / "mistyped"))
    assert_refused(run("init"), 2, "mistyped: is not a folder")
    assert not (project / "mistyped").exists()


@pytest.mark.parametrize("moved", [False, True], ids=["home", "CLAUDE_CONFIG_DIR"])
def test_the_users_own_settings_have_no_ledger(
    home: Path, claude: Path, run: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch, *, moved: bool
) -> None:
    """With --user all of it is in the user's folder, the project is as it was, and uninstall takes it out again."""
    own = home / ("moved" if moved else ".claude")
    if moved:
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(own))
    answer = run("init", "--user")
    assert (0, "") == (answer.code, answer.err)
    assert OURS == sorted(path.relative_to(own).as_posix() for path in own.rglob("*") if path.is_file())
    assert [] == list(claude.iterdir())
    assert 0 == run("uninstall", "--user").code
    assert [] == list(own.iterdir())


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (lambda path, away: path.symlink_to(away / "settings.json"), "out of your home and the project"),
        (lambda path, _: path.symlink_to("nowhere.json"), "is not a regular file"),
        (lambda path, _: path.symlink_to(path), "settings.json"),
        (lambda path, _: path.mkdir(), "is not a regular file"),
        (lambda path, _: os.mkfifo(path), "is not a regular file"),
        (lambda path, _: path.with_name(BACKUP).mkdir(), "is not a regular file"),
        (lambda path, away: path.with_name(BACKUP).symlink_to(away / "x"), "is not a regular file"),
    ],
    ids=["away", "nowhere", "itself", "folder", "pipe", "backup folder", "backup link"],
)
def test_what_is_no_file_of_the_users_is_refused(
    claude: Path,
    run: Callable[..., Answer],
    tmp_path_factory: pytest.TempPathFactory,
    plant: Callable[..., None],
    says: str,
) -> None:
    """One line, exit code 4, and nothing is changed: not there, not here, and no ledger begun."""
    away = tmp_path_factory.mktemp("away")
    (away / "settings.json").write_bytes(THEIRS)
    plant(claude / "settings.json", away)
    if not os.path.lexists(claude / "settings.json"):
        (claude / "settings.json").write_bytes(THEIRS)
    before = sorted(path.name for path in claude.iterdir())
    assert_refused(run("init"), 4, says)
    assert before == sorted(path.name for path in claude.iterdir())
    assert {"settings.json": THEIRS} == tree(away)


@pytest.mark.parametrize("name", ["commands", "config", "commands/playbook.md"])
def test_a_link_in_place_of_a_file_of_ours_is_left(
    claude: Path, run: Callable[..., Answer], tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """Nothing is written through it or taken away behind it; the rest is installed, and a line says so."""
    away = tmp_path_factory.mktemp("away")
    (claude / name).parent.mkdir(exist_ok=True)
    (claude / name).symlink_to(away)
    assert "a link or something else than a file is in its place" in run("init").out
    assert "settings.json" in tree(claude)
    assert 0 == run("uninstall").code
    assert [] == list(away.iterdir())


def test_where_no_ledger_can_begin_nothing_is_installed(claude: Path, run: Callable[..., Answer]) -> None:
    """A file in place of its folder: one line names it, and the agent is given no hook that would fail."""
    (claude / "ledger").write_text("mine")
    answer = run("init")
    assert 4 == answer.code
    assert answer.err.startswith(f"tallybook: {claude / 'ledger'}")
    assert ["ledger"] == [path.name for path in claude.iterdir()]


def test_a_file_that_changes_under_way_is_not_written_over(
    claude: Path, run: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that writes its settings between our look and our write: its bytes stay, one line says so."""
    (claude / "settings.json").write_bytes(THEIRS)
    begin = plan.begin

    def meanwhile(project: object) -> tuple[str, ...]:
        (claude / "settings.json").write_bytes(b"{}")
        return begin(project)  # type: ignore[arg-type]

    monkeypatch.setattr(plan, "begin", meanwhile)
    answer = run("init")
    assert (4, b"{}") == (answer.code, (claude / "settings.json").read_bytes())
    assert "settings.json: was changed by another program" in answer.err
    assert 0 == run("init").code
    assert hook_entries.own_commands((claude / "settings.json").read_bytes(), CLAUDE, "")


def test_files_are_as_private_as_the_folder(claude: Path, run: Callable[..., Answer]) -> None:
    """For the user alone, in a shared folder for those who share it."""
    run("init")
    modes = {stat.S_IMODE((claude / name).stat().st_mode) for name in OURS}
    assert {0o600} == modes
    run("uninstall")
    shutil.rmtree(claude)
    claude.mkdir()
    claude.chmod(0o770)
    run("init")
    assert {0o660} == {stat.S_IMODE((claude / name).stat().st_mode) for name in OURS}
    assert json.loads((claude / "settings.json").read_bytes())
