"""The doctor on hooks: settings and trust as an agent leaves them, what hooks recorded, and what is said of each."""

from __future__ import annotations

import json
import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any

import pytest

from helpers.agent_settings import CLAUDE
from helpers.doctor import file_states, posix
from helpers.doctor_hooks import (
    EVERYWHERE,
    findings,
    here,
    install,
    messages,
    on_path,
    trust,
)
from helpers.hook_calls import START, call
from helpers.real_command import run
from tallybook.projections.reflections import Session
from tallybook.projections.surfaces.install import hook_entries
from tallybook.projections.surfaces.install.hook_command import hook_command
from tallybook.projections.surfaces.reflection import cli
from tallybook.projections.surfaces.workspace.installation import tool_command
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["here", "on_path"]


# Installed


def test_who_has_no_agent_is_not_asked_to_install_anything(here: Project) -> None:
    """Where there is not an agent and no hook there is nothing to fix."""
    assert [] == messages(here)


@pytest.mark.parametrize("name", [".claude.json", ".claude/projects/x", ".claude/settings.json"])
def test_who_has_an_agent_is_told_what_installs(here: Project, name: str) -> None:
    """Where the agent is there it is one note, with the command."""
    path = Path.home() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    ((level, _, hint),) = findings(here)
    assert ("note", "run `tallybook init` to install the hooks") == (level, hint)


def test_what_is_installed_and_trusted_is_fine(here: Project) -> None:
    """Nothing is noted where every event calls us and the folder is trusted."""
    path = install(here.root)
    trust(here.root)
    assert [("ok", f"installed in {path}, for Claude Code")] == messages(here)


def test_events_that_are_missing_are_named(here: Project) -> None:
    """Settings for some events only are named with the others, and with what adds them."""
    path = install(here.root, {"hooks": {"Stop": [CLAUDE.group("tallybook hook", 10)]}})
    trust(here.root)
    missing = "SessionStart, UserPromptSubmit, PostToolUse, SubagentStart, SubagentStop, PreCompact, SessionEnd"
    assert ("note", f"{path}: no hook for {missing}", "run `tallybook init` to add them") in findings(here)


def test_an_installation_for_the_user_counts(here: Project) -> None:
    """The user's own settings hold in every project; what is missing there is added there."""
    path = install(Path.home(), {"hooks": {"Stop": [CLAUDE.group("tallybook hook", 10)]}})
    (hint,) = [fix for _, message, fix in findings(here) if message.startswith(f"{path}: no hook for SessionStart, ")]
    assert "run `tallybook init --user` to add them" == hint


def test_the_agents_folder_may_be_another(here: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Settings, trust and transcripts are looked for where CLAUDE_CONFIG_DIR says."""
    config = tmp_path / "config" / ".claude"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(config))
    path = install(config.parent)
    (config / ".claude.json").write_text(json.dumps({"projects": {str(here.root): {"hasTrustDialogAccepted": True}}}))
    assert [("ok", f"installed in {path}, for Claude Code")] == messages(here)


def test_an_installation_twice_is_fine_and_said(here: Project) -> None:
    """Keys turn the second call away, so it is no fault."""
    paths = install(here.root), install(Path.home())
    trust(here.root)
    assert [("ok", f"installed in {path}, for Claude Code") for path in paths] == messages(here)


@pytest.mark.parametrize(("local", "off"), [(None, True), (False, False), (True, True)])
def test_hooks_that_are_turned_off_are_said(here: Project, local: bool | None, off: bool) -> None:
    """The file that does is named; the local settings win."""
    path = install(here.root, json.loads(EVERYWHERE) | {"disableAllHooks": True})
    if local is not None:
        path = install(here.root, {"disableAllHooks": local}, "settings.local.json")
    trust(here.root)
    what = ("note", f'{path}: "disableAllHooks" is true, so the agent calls no hook')
    assert off == (what in messages(here))


def test_a_program_that_is_not_there_is_bad(here: Project, on_path: Path) -> None:
    """What the command line names must be found as a shell finds it."""
    path = install(here.root)
    on_path.unlink()
    (bad,) = [one for one in findings(here) if one[0] == "bad"]
    assert f"{path}: the hooks call `tallybook`, which is not on PATH" == bad[1]
    assert f"run `{tool_command()}`, or run `tallybook init` to write a working command" == bad[2]


def test_a_shared_file_is_not_to_be_written_again_for_a_missing_program(here: Project, on_path: Path) -> None:
    """In a file that git tracks, `init` writes the very command that is missing."""
    # Only `tallybook` is on this PATH; where git cannot tell, it tracks the file.
    (here.root / ".git").mkdir()
    install(here.root)
    on_path.unlink()
    (bad,) = [one for one in findings(here) if one[0] == "bad"]
    assert f"run `{tool_command()}`" == bad[2]


@pytest.mark.skipif(sys.platform == "win32", reason="there the installed command is the hook")
@pytest.mark.parametrize("gone", ["python3", "tallybook/hook.py"])
@pytest.mark.usefixtures("_installed")
def test_a_python_that_is_not_there_is_named(
    here: Project, on_path: Path, tmp_path: Path, installed_in: Path, gone: str
) -> None:
    """With what is called in its place; where that is gone as well, hooks do nothing."""
    python, start = tmp_path / "python3", tmp_path / "tallybook" / "hook.py"
    start.parent.mkdir()
    for path in (python, start):
        path.write_text("")
    trust(here.root)
    line = hook_command().replace(sys.executable, str(python))
    line = line.replace(str(installed_in), str(tmp_path))
    path = install(here.root, hook_entries.install(None, CLAUDE, line, "settings"))
    assert ["ok"] == [level for level, _ in messages(here)]
    (tmp_path / gone).unlink()
    note = f"{path}: the hooks start {tmp_path / gone}, which is gone; they fall back on the slower `tallybook`"
    assert ("note", note, "run `tallybook init` to write a working command") in findings(here)
    on_path.unlink()
    bad = f"{path}: the hooks name {tmp_path / gone} and tallybook, and neither exists, so they do nothing"
    assert ("bad", bad, "run `tallybook init` to write a working command") in findings(here)


@pytest.mark.parametrize(
    ("program", "bad"), [("~/tallybook", False), ("$CLAUDE_X/tallybook", False), ("~/no/tallybook", True)]
)
def test_a_program_is_looked_for_as_a_shell_does(here: Project, on_path: Path, program: str, bad: bool) -> None:
    """The home folder counts, and what only the agent's own variables lead to is believed."""
    on_path.rename(Path.home() / "tallybook")
    install(here.root, hook_entries.install(None, CLAUDE, f"{program} hook", "settings"))
    assert bad == ("bad" in [level for level, _ in messages(here)])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{\n "hooks": {},\n}', "is not JSON: "),
        (b'{"a": NaN}', "is not readable: NaN is not JSON"),
        (b"[" * 100_000, "is not readable: "),
        (b'"text"', "is not a JSON object"),
        (b'{"hooks": null}', 'its "hooks" is not a JSON object'),
        (b"\xff\xfe", "is not readable: "),
    ],
)
def test_settings_that_the_agent_ignores_are_bad(here: Project, data: bytes, says: str) -> None:
    """The file is named, with the place; there is no second complaint of a missing installation that it may hold."""
    path = install(here.root, data)
    level, message, hint = findings(here)[0]
    assert ("bad", f"{path}: {says}") == (level, message[: len(f"{path}: {says}")])
    assert "correct it; until then the agent ignores the file" == hint


@pytest.mark.parametrize(
    "document",
    [
        {"hooks": {"Stop": "prettier", "X": [1, {"hooks": 3}, {"hooks": [None, {"command": 4}]}]}},
        {"disableAllHooks": "yes"},
        {},
    ],
)
def test_odd_settings_are_no_hooks_of_ours(here: Project, document: Mapping[str, Any]) -> None:
    """What has not the shape of a hook calls nobody."""
    install(here.root, document)
    assert ["note"] == [level for level, _ in messages(here)]


@posix
def test_a_pipe_in_place_of_settings_is_not_waited_for(here: Project) -> None:
    """What is not a regular file is named, or passed over where anybody may have put it."""
    os.mkfifo(here.claude / "settings.json")
    os.mkfifo(Path.home() / ".claude.json")
    assert ("bad", f"{here.claude / 'settings.json'}: cannot be read: is not a regular file") == messages(here)[0]


def test_what_is_read_is_that_of_where_the_agent_is_started(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a subfolder of a repository the settings at its top count, unless the subfolder has hooks of its own."""
    monkeypatch.delenv("CLAUDE_PROJECT_DIR")
    (project / ".git").mkdir()
    below = project / "src"
    below.mkdir()
    trust(project)
    path = install(project)
    assert ("ok", f"installed in {path}, for Claude Code") == messages(Project(project, below))[0]
    own = install(below)
    assert ("ok", f"installed in {own}, for Claude Code") == messages(Project(project, below))[0]
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(project))
    assert ("ok", f"installed in {path}, for Claude Code") == messages(Project(project, project))[0]


# Trusted


@pytest.mark.parametrize("note", ["none", "no", "odd", "list"])
def test_a_folder_that_may_not_be_trusted_is_said(here: Project, note: str) -> None:
    """Without the agent's word, and before any hook was seen, somebody may have to accept something."""
    install(here.root)
    notes = {"no": {str(here.root): {"hasTrustDialogAccepted": False}}, "odd": {str(here.root): 3}, "list": []}
    if note != "none":
        (Path.home() / ".claude.json").write_text(json.dumps({"projects": notes[note]}))
    level, message, hint = findings(here)[1]
    assert ("note", "no hook has run yet; the agent may not trust this folder yet") == (level, message)
    assert hint.startswith(f"start the agent in {here.root} and accept the question about trust; ")


def test_trust_in_a_folder_above_counts(here: Project) -> None:
    """The agent hands trust down."""
    path = install(here.root)
    trust(here.root.parent)
    assert [("ok", f"installed in {path}, for Claude Code")] == messages(here)


def test_an_agent_whose_hook_recorded_something_trusts_the_folder(here: Project, tmp_path: Path) -> None:
    """The agent's note is known to be wrong at times; a reflection that a person requested shows nothing."""
    path = install(here.root)
    trust(here.root, accepted=False)
    cli.request(here, {"old": Session(str(tmp_path / "old.jsonl"), 1)})
    assert ["ok", "note"] == [level for level, _ in messages(here)]
    call({"hook_event_name": "Stop", "last_assistant_message": "[kpt_001]"})
    call(START)
    assert [("ok", f"installed in {path}, for Claude Code")] == messages(here)


# What went wrong


def test_what_a_hook_could_not_do_is_told_until_it_is_mended(here: Project) -> None:
    """With the command that takes the note away."""
    call(b"{")
    path = here.ledger / "hook-error"
    (told,) = [one for one in findings(here) if "the last hook error" in one[1]]
    assert ("note", True) == (told[0], told[1].endswith("ValueError: not JSON"))
    assert f"run `rm {path}` once that is fixed" == told[2]
    path.write_bytes("\ud800 \x1b[31mred".encode("utf-8", "surrogatepass"))
    assert (False, 0) == ("\x1b" in (answer := run(here, "doctor")).out, answer.code)
    path.unlink()
    assert "the last hook error" not in str(findings(here))


def test_the_check_changes_no_file(here: Project) -> None:
    """Neither in the project nor in the agent's folder."""
    install(here.root)
    trust(here.root)
    before = file_states(here.root) | file_states(Path.home())
    assert 0 == run(here, "doctor").code
    assert before == file_states(here.root) | file_states(Path.home())
