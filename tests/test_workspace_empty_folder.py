"""A folder without a ledger: a command creates files only to record something, and none in the home folder."""

from __future__ import annotations

import json
from pathlib import Path
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tallybook.projections.surfaces.workspace.project import find_project

if TYPE_CHECKING:
    from helpers.command_line import Run

IN_HOME = "the home folder is not a project; change to a project, or give --project"


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


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["retire", "kpt_001"], 1),
        (["restore", "kpt_001"], 1),
        (["pin", "kpt_001"], 1),
        (["unpin", "kpt_001"], 1),
        (["reword", "kpt_001", "shorter"], 1),
        (["merge", "kpt_001", "kpt_002"], 1),
        (["redact", "--text", "a customer", "--reason", "private", "--rater", "human"], 1),
        (["redact", "7", "--reason", "private"], 2),
        (["undo"], 1),
        (["rate", "kpt_001", "helpful"], 1),
        (["add", " "], 2),
        (["record", "-"], 2),
        (["metrics"], 2),
        (["baseline", "ac01"], 1),
        (["replay"], 0),
        (["reflect"], 0),
    ],
)
def test_a_command_with_nothing_to_record_creates_no_file(empty: Path, run: Run, words: list[str], code: int) -> None:
    """A command that is refused, or has no effect, leaves an empty folder empty."""
    answer = run(*words)
    assert ([], code) == (tree(empty), answer.code), answer


def test_a_first_entry_and_an_installation_create_a_ledger(empty: Path, run: Run) -> None:
    """A command that records, and `init`, create a ledger."""
    assert run("add", "Quote ids.").code == 0
    assert (empty / ".claude/ledger/events.jsonl").is_file()
    other = empty / "other"
    other.mkdir()
    assert run("--project", str(other), "init").code == 0
    assert (other / ".claude/ledger/events.jsonl").is_file()


def test_a_refused_curation_leaves_a_playbook_file_alone(empty: Path, run: Run) -> None:
    """A playbook.json without a ledger is imported only by a command that succeeds."""
    (empty / ".claude").mkdir()
    text = json.dumps({"key_points": ["Quote ids."]})
    (empty / ".claude/playbook.json").write_text(text, encoding="utf-8")
    assert run("retire", "kpt_404").code == 1
    assert (["playbook.json"], text) == (
        tree(empty / ".claude"),
        (empty / ".claude/playbook.json").read_text(encoding="utf-8"),
    )
    assert run("retire", "kpt_001").code == 0


@pytest.mark.parametrize("words", [["add", "Quote ids."], ["metrics", "startup_ms=8"], ["import", "old.json"]])
def test_a_ledger_in_the_home_folder_is_refused(home: Path, run: Run, words: list[str]) -> None:
    """A command that would create a ledger in the home folder exits 2, names the remedy, and creates nothing."""
    (home / "old.json").write_text('{"key_points": ["Quote ids."]}', encoding="utf-8")
    answer = run(*words)
    assert (2, f"tallybook: {home}: {IN_HOME} {home}; nothing was recorded\n") == (answer.code, answer.err)
    assert ["old.json"] == tree(home)


@pytest.mark.parametrize("named", ["option", "variable"])
def test_a_named_home_folder_is_a_project(home: Path, run: Run, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    """`--project` or CLAUDE_PROJECT_DIR creates a ledger in the home folder, which is then used without them."""
    if named == "variable":
        monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(home))
    words = ["--project", str(home)] if named == "option" else []
    assert run(*words, "add", "Quote ids.").code == 0
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    assert find_project().unnamed_home
    assert run("add", "Name the unit.").code == 0


def test_a_hook_creates_no_ledger_in_the_home_folder(home: Path) -> None:
    """A hook in the home folder imports no playbook.json there, and its exit code is 0."""
    (home / ".claude").mkdir()
    (home / ".claude/playbook.json").write_text('{"key_points": ["Quote ids."]}', encoding="utf-8")
    payload = {"hook_event_name": "SessionStart", "session_id": "s1", "cwd": str(home)}
    command = [sys.executable, "-c", "from tallybook.projections.surfaces.entry_point import main; main()", "hook"]
    done = subprocess.run(
        command,
        cwd=Path(__file__).parent.parent,
        input=json.dumps(payload).encode(),
        capture_output=True,
        check=False,
    )
    assert (0, b"", b"") == (done.returncode, done.stdout, done.stderr)
    assert ["playbook.json"] == tree(home / ".claude")
