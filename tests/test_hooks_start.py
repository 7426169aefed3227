"""How settings start a hook: from the installed package alone, and for no longer than its time allows."""

from __future__ import annotations

from collections.abc import Mapping
import json
import os
from pathlib import Path
import shutil
import subprocess
import sys

import pytest

from helpers.authors import HUMAN
from helpers.events import list_events
from helpers.hook_calls import START, told
from helpers.installation import lay_out
import tallybook
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.hooks.ledger_access import ERROR_FILE, MAX_PLAYBOOK_BYTES
from tallybook.projections.surfaces.install import hook_entries
from tallybook.projections.surfaces.workspace.project import MARKS, Project

CITED = {"hook_event_name": "Stop", "last_assistant_message": "[kpt_001]"}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of our packages that a hook has been started from once."""
    root = lay_out(tmp_path_factory.mktemp("installed"))
    folder = tmp_path_factory.mktemp("work")
    (folder / ".claude").mkdir()
    commands.add(Project(folder), "Write tests", HUMAN)
    for payload in (START, CITED):
        start(root, payload, folder=folder)
    return root


@pytest.fixture
def installed(original: Path, tmp_path: Path) -> Path:
    """Return such a copy of one's own."""
    return Path(shutil.copytree(original, tmp_path / "my installed", copy_function=shutil.copy2))


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with an entry, of which two sessions know."""
    made = Project(project)
    commands.add(made, "Use type hints", HUMAN)
    (made.ledger / MARKS).mkdir(exist_ok=True)
    (made.ledger / MARKS / "settled").write_text("none", encoding="utf-8")
    return made


def start(
    root: Path, payload: Mapping[str, str] = START, code: str = hook_entries._CODE, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Start a hook as the settings do, in a session of its own."""
    said = json.dumps({"session_id": os.urandom(4).hex(), **payload})
    words = [sys.executable, *hook_entries._OPTIONS, code, str(root)]
    done = subprocess.run(words, input=said, capture_output=True, text=True, check=False, cwd=folder)
    assert 0 == done.returncode, done.stderr
    return done


def answered(root: Path) -> str:
    """Return what a session is told at its start; nothing is complained of."""
    done = start(root)
    assert "" == done.stderr
    return told(done.stdout)


def test_an_upgrade_counts_at_once(here: Project, installed: Path) -> None:
    """What was compiled of another source is not taken."""
    assert "Use type hints" in answered(installed)
    source = installed / "tallybook" / "projections" / "playbook" / "inject.py"
    source.write_text(source.read_text().replace(":: {", ":: new {"))
    assert ":: new Use type hints" in answered(installed)
    assert ":: new Use type hints" in answered(installed)
    assert 3 == len([row for row in list_events(here) if row["kind"] == "playbook.injected"])


def test_a_folder_that_the_agent_works_in_is_no_place_for_modules(
    here: Project, installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is one that a variable names: whoever wrote there runs nothing."""
    planted = tmp_path / "planted"
    planted.mkdir()
    for name in ("ledger", "tallybook", "gc", "posix", "errno", "fcntl", "_json", "sitecustomize"):
        (planted / f"{name}.py").write_text("print('planted')")
    monkeypatch.setenv("PYTHONPATH", str(planted))
    done = start(installed, folder=planted)
    assert ("", False, True) == (done.stderr, "planted" in done.stdout, "Use type hints" in told(done.stdout))
    assert here.ledger.exists()


def test_a_file_that_is_not_current_is_brought_up_to_date(here: Project, installed: Path) -> None:
    """That takes what is installed, which such a start does not know of at first."""
    document = json.loads(here.playbook.read_bytes())
    document["key_points"][0]["text"] = "Use type hints, always"
    here.playbook.write_text(json.dumps(document))
    assert ":: Use type hints, always" in answered(installed)
    assert not (here.ledger / "hook-error").exists()


@pytest.mark.parametrize("gone", ["python", "folder"])
def test_without_it_the_installed_command_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    """It gets the payload whole; and where there is none either the hook ends with 0 and no answer."""
    for name in ("bin/tallybook", "bin/python3", "lib/tallybook/hook.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('#!/bin/sh\necho "$1 $(cat)"\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "lib" / "tallybook" / "ledger").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(tallybook, "__file__", str(tmp_path / "lib" / "tallybook" / "__init__.py"))
    if gone == "python":
        monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python3"))
    line = hook_entries.hook_command()
    shutil.rmtree(tmp_path / "lib")
    (tmp_path / "bin" / "python3").unlink()
    for expected in ("hook {}\n", ""):
        done = subprocess.run(["sh", "-c", line], input="{}", capture_output=True, text=True, check=False)
        assert (0, expected) == (done.returncode, done.stdout)
        (tmp_path / "bin" / "tallybook").unlink(missing_ok=True)


HURRIED = "from tallybook.projections.surfaces.hooks import handler; handler.MAX_CPU_S = 0.01; handler.main(['claude'])"
HOOK = "from tallybook.projections.surfaces.hooks import handler; handler.main(['claude'])"


def called(event: str, program: str = HOOK) -> str:
    """Let a program handle an event of an agent; return what it says on standard error."""
    said = {"source": "startup", "last_assistant_message": "As [kpt_001] says."}
    payload = {"hook_event_name": event, "session_id": "s1", **said}
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(payload), capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stdout)
    return done.stderr


@pytest.fixture
def one_entry(project: Path) -> Project:
    """Return a project with one entry."""
    made = Project(project)
    commands.add(made, "Quote ids as strings.", HUMAN)
    return made


def test_a_playbook_too_large_for_a_hook_is_not_read(one_entry: Project) -> None:
    """A playbook.json of 100,000 entries is left alone, which standard error and `doctor` report."""
    entries = [
        {"name": f"kpt_{number:03}", "text": "Quote.", "helpful": 0, "harmful": 0} for number in range(1, 100_001)
    ]
    data = json.dumps({"key_points": entries, "last_updated": None}).encode()
    one_entry.playbook.write_bytes(data)
    says = f"{one_entry.playbook}: has {len(data):,} bytes, and hooks read at most {MAX_PLAYBOOK_BYTES:,}"
    assert called("SessionStart").startswith(f"tallybook: {says}")
    assert says in (one_entry.ledger / ERROR_FILE).read_text()
    assert (data, 3) == (one_entry.playbook.read_bytes(), len(list(list_events(one_entry))))


def test_a_hook_gives_up_once_its_time_is_used_up(one_entry: Project) -> None:
    """A ledger that takes longer to read is reported once for a session, and the next prompt is not delayed."""
    one_entry.playbook.unlink()
    assert called("SessionStart", HURRIED).startswith("tallybook: hook: gave up after 0.01 s")
    assert "gave up after 0.01 s" in (one_entry.ledger / ERROR_FILE).read_text()
    assert "" == called("UserPromptSubmit", HURRIED)
    assert commands.verify_and_fold(one_entry)[0].ok
