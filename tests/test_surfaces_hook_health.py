"""The doctor on hooks: settings and trust as an agent leaves them, what hooks recorded, and what is said of each."""

from __future__ import annotations

import json
import os
from pathlib import Path
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tallybook.ledger import clock
from tallybook.projections.reflections import Session
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.doctor import hooks
from tallybook.projections.surfaces.doctor.finding import Patient
from tallybook.projections.surfaces.install import hook_entries
from tallybook.projections.surfaces.install.hook_command import hook_command
from tallybook.projections.surfaces.reflection import backfill
from tallybook.projections.surfaces.workspace.project import Project
from test_surfaces_bad_disk import run
from test_surfaces_doctor import HUMAN, posix, seen, traces
from test_surfaces_hook import START, call
from transcripts import Script

if TYPE_CHECKING:
    from collections.abc import Mapping

NOW = clock.moment(clock.unix_us("2026-11-21T12:00:00.000000Z"))
EVERYWHERE = hook_entries.install(None, "tallybook hook", "settings")
LONG_AGO_S = 1_700_000_000


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with one entry."""
    here = Project(project)
    commands.add(here, "Use type hints", HUMAN)
    return here


@pytest.fixture(autouse=True)
def on_path(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a command of that name on PATH, and nothing else."""
    program = tmp_path_factory.mktemp("bin") / "tallybook"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return program


def install(folder: Path, data: bytes | Mapping[str, Any] = EVERYWHERE, name: str = "settings.json") -> Path:
    """Write settings into an agent's folder, long ago."""
    path = folder / ".claude" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    return path


def trust(folder: Path, *, accepted: bool = True) -> None:
    """Note in the agent's own file that a folder is trusted, or not."""
    note = {"projects": {str(folder): {"hasTrustDialogAccepted": accepted}}}
    (Path.home() / ".claude.json").write_text(json.dumps(note))


def session(folder: Path, name: str = "s1") -> Script:
    """Return the transcript of a session that was started in a folder."""
    munged = re.sub("[^a-zA-Z0-9]", "-", str(folder))
    script = Script(Path.home() / ".claude" / "projects" / munged / f"{name}.jsonl", name)
    return script.user("Hello")


def ran(script: Script, event: str, kind: str = "hook_success", at: str = "11:00:00", **fields: Any) -> Script:
    """Append what the agent writes of a hook of ours."""
    told = {"type": kind, "hookName": f"{event}:x", "hookEvent": event, "command": "tallybook hook", **fields}
    timestamp = f"2026-11-21T{at}.250Z"
    return script.line("attachment", attachment={key: one for key, one in told.items() if one}, timestamp=timestamp)


def found(here: Project) -> list[tuple[str, str, str]]:
    """Return level, message and hint of what the check finds at NOW."""
    return [(one.level, one.message, one.hint) for one in hooks.hooks(Patient(here, NOW))]


def said(here: Project) -> list[tuple[str, str]]:
    """Return the same without hints."""
    return [(level, message) for level, message, _ in found(here)]


# Installed


def test_who_has_no_agent_is_not_asked_to_install_anything(here: Project) -> None:
    """Where there is no agent and no hook it is one line, and nothing to mend."""
    line = "no settings of an agent's call Tallybook here, so none is told the playbook"
    assert [("ok", line)] == said(here)


@pytest.mark.parametrize("name", [".claude.json", ".claude/projects/x", ".claude/settings.json"])
def test_who_has_an_agent_is_told_what_installs(here: Project, name: str) -> None:
    """Where the agent is there it is one note, with the command."""
    path = Path.home() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    ((level, _, hint),) = found(here)
    assert ("note", "`tallybook init` lets Claude Code use it") == (level, hint)


def test_what_is_installed_and_trusted_is_fine(here: Project) -> None:
    """Nothing is noted where every event calls us and the folder is trusted."""
    path = install(here.root)
    trust(here.root)
    assert [("ok", f"installed in {path}"), ("ok", "none has been called yet")] == said(here)


def test_events_that_are_missing_are_named(here: Project) -> None:
    """Settings for some events only are named with the others, and with what adds them."""
    path = install(here.root, {"hooks": {"Stop": [hook_entries.group("tallybook hook")]}})
    trust(here.root)
    missing = "SessionStart, UserPromptSubmit, PostToolUse, SubagentStop, PreCompact, SessionEnd"
    first = ("note", f"{path}: nothing is called at {missing}", "`tallybook init` adds what is missing")
    assert first == found(here)[0]


def test_an_installation_for_the_user_counts(here: Project) -> None:
    """The user's own settings hold in every project; what is missing there is added there."""
    path = install(Path.home(), {"hooks": {"Stop": [hook_entries.group("tallybook hook")]}})
    level, message, hint = found(here)[0]
    assert ("note", True) == (level, message.startswith(f"{path}: nothing is called at SessionStart, "))
    assert "`tallybook init --user` adds what is missing" == hint


def test_the_agents_folder_may_be_another(here: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Settings, trust and transcripts are looked for where CLAUDE_CONFIG_DIR says."""
    config = tmp_path / "config" / ".claude"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(config))
    path = install(config.parent)
    (config / ".claude.json").write_text(json.dumps({"projects": {str(here.root): {"hasTrustDialogAccepted": True}}}))
    assert [("ok", f"installed in {path}"), ("ok", "none has been called yet")] == said(here)


def test_an_installation_twice_is_fine_and_said(here: Project) -> None:
    """Keys turn the second call away, so it is no fault."""
    project, user = install(here.root), install(Path.home())
    trust(here.root)
    twice = f"installed in {project} and {user}, where each is called twice and counts once"
    assert [("ok", twice), ("ok", "none has been called yet")] == said(here)


@pytest.mark.parametrize(("local", "off"), [(None, True), (False, False), (True, True)])
def test_hooks_that_are_turned_off_are_said(here: Project, local: bool | None, off: bool) -> None:
    """The file that does is named; the local settings win."""
    path = install(here.root, json.loads(EVERYWHERE) | {"disableAllHooks": True})
    if local is not None:
        path = install(here.root, {"disableAllHooks": local}, "settings.local.json")
    trust(here.root)
    what = ("note", f'{path}: "disableAllHooks" is true, so the agent calls none')
    assert off == (what in said(here))


def test_a_program_that_is_not_there_is_bad(here: Project, on_path: Path) -> None:
    """What the command line names must be found as a shell finds it."""
    path = install(here.root)
    on_path.unlink()
    (bad,) = [one for one in found(here) if one[0] == "bad"]
    assert f"{path}: tallybook, which the hooks name, is not there or not on PATH" == bad[1]
    assert "put its folder on PATH; or `tallybook init` names one that is" == bad[2]


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
    path = install(here.root, hook_entries.install(None, line, "settings"))
    assert ["ok", "ok"] == [level for level, _ in said(here)]
    (tmp_path / gone).unlink()
    note = f"{path}: {tmp_path / gone}, which the hooks start, is gone; they call `tallybook`, which is slower"
    assert ("note", note, "`tallybook init` names one that is") in found(here)
    on_path.unlink()
    bad = f"{path}: neither {tmp_path / gone} nor tallybook, which the hooks name, is there, so they do nothing"
    assert ("bad", bad, "`tallybook init` names one that is") in found(here)


@pytest.mark.parametrize(
    ("program", "bad"), [("~/tallybook", False), ("$CLAUDE_X/tallybook", False), ("~/no/tallybook", True)]
)
def test_a_program_is_looked_for_as_a_shell_does(here: Project, on_path: Path, program: str, bad: bool) -> None:
    """The home folder counts, and what only the agent's own variables lead to is believed."""
    on_path.rename(Path.home() / "tallybook")
    install(here.root, hook_entries.install(None, f"{program} hook", "settings"))
    assert bad == ("bad" in [level for level, _ in said(here)])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{\n "hooks": {},\n}', "is no JSON: Expecting property name enclosed in double quotes at line 3, column 1"),
        (b'{"a": NaN}', "is no JSON that can be read: it has no NaN"),
        (b"[" * 100_000, "is no JSON that can be read: "),
        (b'"text"', "is no JSON object"),
        (b'{"hooks": null}', '"hooks" in it is no JSON object'),
        (b"\xff\xfe", "is no UTF-8 text, from byte 0 on"),
    ],
)
def test_settings_that_the_agent_ignores_are_bad(here: Project, data: bytes, says: str) -> None:
    """The file is named, with the place; there is no second complaint of a missing installation that it may hold."""
    path = install(here.root, data)
    level, message, hint = found(here)[0]
    assert ("bad", f"{path}: {says}") == (level, message[: len(f"{path}: {says}")])
    assert "mend it: until then the agent ignores the file" == hint


@pytest.mark.parametrize(
    "document",
    [
        {"hooks": {"Stop": "tallybook hook", "X": [1, {"hooks": 3}, {"hooks": [None, {"command": 4}]}]}},
        {"disableAllHooks": "yes"},
        {},
    ],
)
def test_odd_settings_are_no_hooks_of_ours(here: Project, document: Mapping[str, Any]) -> None:
    """What has not the shape of a hook calls nobody."""
    install(here.root, document)
    assert ["note"] == [level for level, _ in said(here)]


@posix
def test_a_pipe_in_place_of_settings_or_transcripts_is_not_waited_for(here: Project) -> None:
    """What is no regular file is named, or passed over where anybody may have put it."""
    os.mkfifo(here.claude / "settings.json")
    os.mkfifo(Path.home() / ".claude.json")
    os.mkfifo(session(here.root).path.with_name("s2.jsonl"))
    assert ("bad", f"{here.claude / 'settings.json'}: cannot be read: is no regular file") == said(here)[0]


def test_what_is_read_is_that_of_where_the_agent_is_started(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a subfolder of a repository the settings at its top count, unless the subfolder has hooks of its own."""
    monkeypatch.delenv("CLAUDE_PROJECT_DIR")
    (project / ".git").mkdir()
    below = project / "src"
    below.mkdir()
    trust(project)
    path = install(project)
    assert ("ok", f"installed in {path}") == said(Project(project, below))[0]
    own = install(below)
    assert ("ok", f"installed in {own}") == said(Project(project, below))[0]
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(project))
    assert ("ok", f"installed in {path}") == said(Project(project, project))[0]


# Trusted


@pytest.mark.parametrize("note", ["none", "no", "odd", "list"])
def test_a_folder_that_may_not_be_trusted_is_said(here: Project, note: str) -> None:
    """Without the agent's word, and before any hook was seen, somebody may have to accept something."""
    install(here.root)
    notes = {"no": {str(here.root): {"hasTrustDialogAccepted": False}}, "odd": {str(here.root): 3}, "list": []}
    if note != "none":
        (Path.home() / ".claude.json").write_text(json.dumps({"projects": notes[note]}))
    level, message, hint = found(here)[1]
    assert ("note", "none has been called yet; the agent may not trust this folder yet") == (level, message)
    assert hint.startswith(f"start the agent in {here.root} and accept what it asks; ")


def test_trust_in_a_folder_above_counts(here: Project) -> None:
    """The agent hands trust down."""
    install(here.root)
    trust(here.root.parent)
    assert ("ok", "none has been called yet") == said(here)[1]


def test_a_hook_that_was_seen_is_trusted_whatever_the_agent_notes(here: Project) -> None:
    """The note is known to be wrong at times."""
    install(here.root)
    trust(here.root, accepted=False)
    ran(session(here.root), "SessionStart", durationMs=41)
    assert ("ok", "the agent runs them") == said(here)[1]


@pytest.mark.parametrize(("trusted", "more"), [(True, ""), (False, "; the agent may not trust this folder yet")])
def test_sessions_without_a_trace_are_said(here: Project, trusted: bool, more: str) -> None:
    """Sessions that were held since the installation, and no hook in them, ask for a new start."""
    install(here.root)
    trust(here.root, accepted=trusted)
    session(here.root, "s1")
    session(here.root, "s2")
    os.utime(session(here.root, "s3").path, (LONG_AGO_S - 1, LONG_AGO_S - 1))
    assert ("note", f"none was seen in the 2 sessions held since{more}") == said(here)[1]


# The ledger's word


def test_what_hooks_recorded_is_told(here: Project) -> None:
    """By what was done at an event; what a person asked for is no hook's."""
    script = session(here.root)
    backfill.request(here, {"old": Session(str(script.path), script.path.stat().st_size)})
    assert ["note"] == [level for level, _ in seen(here, "hooks")]
    call(START)
    call({"hook_event_name": "Stop", "last_assistant_message": "[kpt_001]"})
    call({"hook_event_name": "PreCompact", "transcript_path": str(script.path)})
    fired = "a session was told the playbook T ago; an entry was cited T ago; PreCompact asked for a reflection T ago"
    assert fired in [re.sub(r"\d+ s", "T", message) for _, message in seen(here, "hooks")]


def test_an_installation_that_is_gone_is_said(here: Project) -> None:
    """Hooks that fired once and stand in no settings any more are noted."""
    ran(session(here.root), "Stop")
    gone = f"hooks were called, and none stands in the settings that the agent reads in {here.root}"
    assert ("note", gone) == said(here)[0]


def test_what_a_hook_could_not_do_is_told_until_it_is_mended(here: Project) -> None:
    """With the command that takes the note away."""
    call(b"{")
    path = here.ledger / "hook-error"
    (told,) = [one for one in found(here) if "could not do" in one[1]]
    assert ("note", True) == (told[0], told[1].endswith("ValueError: no JSON"))
    assert f"`rm {path}` once that is mended" == told[2]
    path.unlink()
    assert "could not do" not in str(found(here))


def test_looking_changes_nothing(here: Project) -> None:
    """Neither in the project nor in the agent's folder."""
    install(here.root)
    trust(here.root)
    ran(session(here.root), "Stop")
    before = traces(here.root) | traces(Path.home())
    assert 0 == run(here, "doctor").code
    assert before == traces(here.root) | traces(Path.home())
