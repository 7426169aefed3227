"""Where ``init`` installs: which folder, through which links, what it refuses to touch, and commands for packages."""

from __future__ import annotations

from collections.abc import Callable
import json
import os
from pathlib import Path
import shlex
import shutil
import stat
import subprocess
import sys
from typing import Any

import pytest

from helpers.agent_settings import BACKUP, CLAUDE, OURS, THEIRS, claude, on_path, tree
from helpers.commands import Answer
from tallybook.projections.surfaces.install import hook_entries, plan
from tallybook.projections.surfaces.install.hook_entries import install_command, tool_command

__all__ = ["claude", "on_path"]


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


def test_the_folder_of_an_agent_is_not_removed_through_a_link(
    run: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person's own agent folder, which is empty and lies elsewhere, stays: the link to it would lead nowhere."""
    monkeypatch.setenv("HOME", str(tmp_path))
    elsewhere = tmp_path / "dotfiles"
    for name in ("claude", "gemini"):
        (elsewhere / name).mkdir(parents=True)
        (Path.home() / f".{name}").symlink_to(elsewhere / name)
    assert 0 == run("init", "claude", "gemini", "--user").code
    assert 0 == run("uninstall", "--user").code
    assert {"claude", "gemini"} == {folder.name for folder in elsewhere.iterdir()}


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


def test_pip_adds_it_to_this_environment() -> None:
    """By this interpreter, whatever `pip` on PATH belongs to; it is one that pip takes."""
    words = shlex.split(install_command("duckdb"))
    assert [sys.executable, "-m", "pip", "install", "duckdb"] == words
    tried = [*words[:-1], "--dry-run", "--no-index", "attrs"]
    assert 0 == subprocess.run(tried, capture_output=True, check=False).returncode


def test_uv_adds_it_where_there_is_no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an environment that uv made."""
    monkeypatch.setattr(hook_entries, "find_spec", lambda _: None)
    assert f"uv pip install --python {shlex.quote(sys.executable)} duckdb" == install_command("duckdb")


def test_pipx_injects_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into its environment of this name, which a suffix may have made another."""
    (tmp_path / "tallybook-2").mkdir()
    (tmp_path / "tallybook-2" / "pipx_metadata.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "tallybook-2"))
    assert "pipx inject tallybook-2 duckdb" == install_command("duckdb")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (None, "uv tool install tallybook"),
        ({"url": "file:///a%20b/tallybook", "dir_info": {"editable": True}}, "uv tool install '/a b/tallybook'"),
        ({"url": "https://h.example/t.whl", "archive_info": {}}, "uv tool install https://h.example/t.whl"),
        ({"url": "https://h.example/t", "vcs_info": {"vcs": "git"}}, "uv tool install git+https://h.example/t"),
    ],
    ids=["an index", "a folder", "an address", "git"],
)
def test_the_tool_is_installed_from_where_this_one_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, Any] | None, expected: str
) -> None:
    """The command that puts Tallybook on PATH names the folder, address or index that this Tallybook came from."""
    folder = tmp_path / "tallybook-0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: tallybook\nVersion: 0.1\n", encoding="utf-8")
    if source is not None:
        (folder / "direct_url.json").write_text(json.dumps(source), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert expected == tool_command()
