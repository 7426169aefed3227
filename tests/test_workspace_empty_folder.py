"""A folder without a ledger: a command creates files only to record something, and none in a folder of all projects."""

from __future__ import annotations

import json
from pathlib import Path
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from helpers.command_line import Run


def tree(folder: Path) -> list[str]:
    """Return the paths of everything in a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def empty(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, which is the current one; no variable names it."""
    folder = tmp_path / "empty"
    folder.mkdir()
    (project / ".claude").rmdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("CLAUDE_PROJECT_DIR")
    return folder


@pytest.fixture
def home(empty: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home folder, which is the current one; no variable names it as a project."""
    monkeypatch.setenv("HOME", str(empty))
    monkeypatch.setenv("USERPROFILE", str(empty))
    return empty


@pytest.mark.parametrize("where", ["the root folder", "the home folder"])
@pytest.mark.parametrize("words", ["add Quote", "show", "share git", "score", "doctor"])
def test_the_root_folder_and_the_home_folder_are_no_project(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch, words: str, where: str
) -> None:
    """A verb that works on a project exits 2 in the root folder and in the home folder, and creates nothing there."""
    folder = Path(home.anchor) if where == "the root folder" else home
    monkeypatch.chdir(folder)
    answer = run(*words.split())
    expected = f"tallybook: {folder}: {where} is not a project; change to a project, or give --project {folder}\n"
    assert (2, "", expected) == (answer.code, answer.out, answer.err)
    assert [] == tree(home)


def test_the_home_folder_is_a_project_if_the_option_names_it(home: Path, run: Run) -> None:
    """`--project` begins a ledger in the home folder, and only `--project` finds it again."""
    assert 0 == run("--project", str(home), "add", "Quote ids.").code
    assert "Quote ids." in run("show", "--project", str(home)).out
    assert 2 == run("show").code


def test_a_personal_playbook_and_completion_need_no_project(home: Path, run: Run) -> None:
    """In the home folder, `init --mine`, `--mine` and `completion` work; none of them works on a project."""
    assert 0 == run("init", "--mine").code
    assert 0 == run("add", "--mine", "Quote ids.").code
    assert "Quote ids." in run("--mine", "show").out
    assert 0 == run("completion", "bash").code
    assert [".claude/my-playbook"] == [path for path in tree(home) if path.count("/") == 1 and "claude" in path]


def test_an_mcp_server_that_is_started_in_the_root_folder_does_not_serve(home: Path) -> None:
    """A desktop application starts its servers in the root folder: `mcp` names --project, and begins no ledger."""
    del home
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {"text": "x"}}}
    done = subprocess.run(
        [sys.executable, "-m", "tallybook", "mcp"],
        cwd="/",
        input=json.dumps(request).encode(),
        capture_output=True,
        check=False,
    )
    assert (2, b"") == (done.returncode, done.stdout)
    assert b"/: the root folder is not a project; change to a project, or give --project /\n" in done.stderr
    assert not Path("/.claude/ledger").exists()


def test_a_hook_creates_no_ledger_in_the_home_folder(home: Path, tmp_path: Path) -> None:
    """A hook in the home folder imports no playbook.json there, exits with 0, and leaves no error in a project."""
    (home / ".claude").mkdir()
    (home / ".claude/playbook.json").write_text('{"key_points": ["Quote ids."]}', encoding="utf-8")
    payload = {"hook_event_name": "SessionStart", "session_id": "s1", "cwd": str(home)}
    command = [sys.executable, "-c", "from tallybook.projections.surfaces.entry_point import main; main()", "hook"]
    other = tmp_path / "other"
    (other / ".claude" / "ledger").mkdir(parents=True)
    done = subprocess.run(command, cwd=other, input=json.dumps(payload).encode(), capture_output=True, check=False)
    assert (0, b"", b"") == (done.returncode, done.stdout, done.stderr)
    assert (["playbook.json"], ["ledger"]) == (tree(home / ".claude"), tree(other / ".claude"))
