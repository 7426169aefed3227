"""The doctor on each agent that is there, on callers that were given nothing, and on sessions without a playbook."""

from __future__ import annotations

import json
from pathlib import Path
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from helpers.agent_settings import CLAUDE
from helpers.doctor_hooks import EVERYWHERE, findings, here, install, messages, on_path
from helpers.hook_calls import call
from helpers.repository import ROOT
from tallybook.projections.surfaces.agents import installation, table
from tallybook.projections.surfaces.install import hook_entries

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.command_line import Answer
    from tallybook.projections.surfaces.workspace.project import Project

__all__ = ["here", "on_path"]

OTHERS = {name: installation.load(name) for name in table.AGENTS if name != table.CLAUDE}
LINE = "tallybook hook || :"


def put(here: Project, name: str, *, user: bool = False, **changes: Any) -> Path:
    """Write what `init` writes for an agent, with other timeouts or events."""
    files = OTHERS[name]._replace(**changes)
    path = (Path.home() / files.home[1] if user else here.root / files.folder) / files.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(hook_entries.install(None, files, LINE, "x"))
    return path


def trust(path: Path, *events: str) -> None:
    """Record trust in hooks as Codex does."""
    keys = [re.sub("(?<!^)(?=[A-Z])", "_", event).lower() for event in events]
    text = "".join(f'[hooks.state."{path}:{key}:0:0"]\ntrusted_hash = "sha256:0"\n' for key in keys)
    (Path.home() / ".codex").mkdir(exist_ok=True)
    (Path.home() / ".codex" / "config.toml").write_text(text)


PLUGINS = {
    "codex": ("plugin", ".codex/plugins/cache/market/tallybook/0.1.0"),
    "gemini": ("extension", ".gemini/extensions/tallybook"),
}
"""Agent → the folder of its plugin in `prompts`, and the one below the home folder where the agent copies it."""


@pytest.mark.parametrize("name", PLUGINS)
def test_the_plugin_of_another_agent_is_known(here: Project, on_path: Path, name: str) -> None:
    """Its file is named; without Codex's trust, or without the command, so is what has to be done."""
    shipped, installed = PLUGINS[name]
    path = Path.home() / installed / "hooks" / "hooks.json"
    shutil.copytree(ROOT / "prompts" / shipped / "hooks", path.parent)
    events = json.loads(path.read_bytes())["hooks"]
    if name == "codex":
        taken = ", ".join(event for event in OTHERS[name].events if event in events)
        message = f"Codex CLI has no record of trust in the hooks for {taken}, and does not run them"
        assert ("note", message) in messages(here)
        trust(Path("tallybook@market:hooks/hooks.json"), *events)
    fine = [("ok", f"installed in {path}, for {OTHERS[name].title}")]
    assert fine == messages(here)
    on_path.unlink()
    missing = f"{path}: the hooks call `tallybook`, which is not on PATH"
    assert [*fine, ("bad", missing)] == messages(here)


@pytest.mark.parametrize("user", [False, True], ids=["project", "user"])
@pytest.mark.parametrize("name", OTHERS)
def test_a_complete_installation_is_fine(here: Project, name: str, *, user: bool) -> None:
    """It is one line that names the file; Codex must have recorded trust as well."""
    path = put(here, name, user=user)
    trust(path, *OTHERS[name].events)
    rest = [] if name == "codex" else [("ok", "Codex CLI is here, and none of its settings call Tallybook")]
    assert sorted([("ok", f"installed in {path}, for {OTHERS[name].title}"), *rest]) == sorted(messages(here))


@pytest.mark.parametrize(
    ("text", "off"),
    [
        ('[hooks.state."{path}:stop:0:0"]\ntrusted_hash = "sha256:0"\nenabled = false\n', "Stop"),
        (
            "[features]\nhooks = false\n",
            "SessionStart, UserPromptSubmit, PostToolUse, Stop, SubagentStop, PreCompact, SessionEnd",
        ),
    ],
    ids=["one hook", "all hooks"],
)
def test_a_hook_of_codex_that_is_switched_off_is_named(here: Project, text: str, off: str) -> None:
    """A hook that a person switched off in Codex's interface is not run, though it is installed and trusted."""
    path = put(here, "codex")
    trust(path, *(event for event in OTHERS["codex"].events if event != off))
    record = Path.home() / ".codex" / "config.toml"
    record.write_text(record.read_text() + text.format(path=path))
    fix = f"switch them on in its interface, or {record}, if that was not meant"
    message = f"Codex CLI has the hooks for {off} switched off, and does not run them"
    assert [("note", message, fix)] == [one for one in findings(here) if "Codex" in one[1] and one[0] != "ok"]
    record.write_text(record.read_text().replace("false", "true"))
    assert [] == [one for one in findings(here) if "Codex" in one[1] and one[0] != "ok"]


def test_claude_code_is_named_where_only_another_agent_is_installed(here: Project) -> None:
    """Its folder at home shows that it is there."""
    (Path.home() / ".claude" / "projects").mkdir(parents=True)
    put(here, "gemini")
    message = "Claude Code is here, and none of its settings call Tallybook"
    assert ("ok", message, "run `tallybook init` to install the hooks") in findings(here)


@pytest.mark.parametrize("user", [False, True], ids=["project", "user"])
@pytest.mark.parametrize("name", OTHERS)
def test_events_that_an_agent_lacks_are_named(here: Project, name: str, *, user: bool) -> None:
    """With the command that adds them, to the same file."""
    first, *rest = OTHERS[name].events
    path = put(here, name, user=user, events={first: 10})
    scope = "--user " if user else ""
    fix = f"run `tallybook init {scope}{name}` to add them"
    assert ("note", f"{path}: no hook for {', '.join(rest)}", fix) in findings(here)


@pytest.mark.parametrize(
    ("name", "timeout", "expected", "unit"),
    [("gemini", 10, 10_000, "milliseconds"), ("codex", 10_000, 10, "seconds"), ("copilot", 10_000, 10, "seconds")],
)
def test_a_timeout_in_another_unit_is_noted(here: Project, name: str, timeout: int, expected: int, unit: str) -> None:
    """Ten milliseconds end every hook, and ten thousand seconds none that hangs."""
    event, *_ = OTHERS[name].events
    path = put(here, name, events={**OTHERS[name].events, event: timeout})
    message = f"{path}: the timeout of {event} is {timeout}, and {OTHERS[name].title} counts in {unit}"
    assert ("note", message, f"write {expected} there") in findings(here)
    put(here, name, events=dict.fromkeys(OTHERS[name].events, expected // 2))
    assert not [message for _, message in messages(here) if "the timeout" in message]


def test_a_timeout_of_claude_code_in_another_unit_is_noted(here: Project) -> None:
    """Its hooks count in seconds."""
    data = hook_entries.install(None, CLAUDE._replace(events={**CLAUDE.events, "Stop": 10_000}), LINE, "x")
    path = install(here.root, data)
    assert ("note", f"{path}: the timeout of Stop is 10000, and Claude Code counts in seconds") in messages(here)


def test_hooks_that_codex_does_not_trust_are_named(here: Project) -> None:
    """It skips them without a word; the events without a record are named, and where to trust them."""
    path = put(here, "codex")
    first, *rest = OTHERS["codex"].events
    trust(path, first)
    message = f"Codex CLI has no record of trust in the hooks for {', '.join(rest)}, and does not run them"
    assert ("note", message, f"start codex in {here.root} and trust the hooks") in findings(here)


@pytest.mark.parametrize("damage", ["[", "hooks = 1", '[hooks]\nstate = "x"', '[hooks.state."x"]\n', "\ud800"])
def test_a_record_of_trust_that_cannot_be_read_records_none(here: Project, damage: str) -> None:
    """Codex's own settings may be in any state."""
    put(here, "codex")
    (Path.home() / ".codex").mkdir()
    (Path.home() / ".codex" / "config.toml").write_bytes(damage.encode("utf-8", "surrogatepass"))
    assert any("has no record of trust" in message for _, message in messages(here))


def test_copilot_runs_the_file_of_claude_code(here: Project) -> None:
    """Where Copilot runs the project's hooks of Claude Code, nothing is missing; it does not run those of the user."""
    absent = ("ok", "Copilot CLI is here, and none of its settings call Tallybook")
    path = install(here.root)
    (Path.home() / ".copilot").mkdir()
    assert absent not in messages(here)
    install(Path.home(), EVERYWHERE)
    path.unlink()
    assert absent in messages(here)


# Callers and sessions


def test_who_was_given_nothing_is_named(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks that disagree are named one by one, with what to do; an agent that takes no answer is no finding."""
    call({"hook_event_name": "sessionStart", "conversation_id": "c"})
    assert [] == [message for _, message in messages(here) if "given nothing" in message]
    monkeypatch.setenv("COPILOT_CLI", "1")
    call({"hook_event_name": "SessionStart", "source": "startup"})
    ((level, message, fix),) = [one for one in findings(here) if "given nothing" in one[1]]
    assert ("note", "at SessionStart, was given nothing; its marks disagree: COPILOT_CLI") == (
        level,
        message[message.index("at SessionStart") :],
    )
    path = here.ledger / "marks" / "unanswered"
    assert f"start it without COPILOT_CLI in its environment; run `rm {path}` once that is fixed" == fix
    monkeypatch.delenv("COPILOT_CLI")
    call({"hook_event_name": "SessionStart", "timestamp": "2026-11-23T10:00:00Z"})
    ((_, message, fix),) = [one for one in findings(here) if "given nothing" in one[1]]
    assert message.endswith("nothing in it or its environment names an agent")
    assert fix.startswith("`tallybook show` and `tallybook mcp` give it the playbook; run `rm ")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"at": 7}', b"\xff"])
def test_a_damaged_note_of_a_caller_says_nothing(here: Project, data: bytes) -> None:
    """It only saves what doctor says."""
    (here.ledger / "marks").mkdir(exist_ok=True)
    (here.ledger / "marks" / "unanswered").write_bytes(data)
    assert [] == messages(here)


def test_findings_in_json_have_the_same_keys(here: Project, run: Callable[..., Answer]) -> None:
    """An agent's finding is one like the others."""
    put(here, "gemini")
    rows = json.loads(run("doctor", "--json").out)["findings"]
    assert {("check", "level", "message", "hint")} == {tuple(row) for row in rows}
    assert any(row["message"].endswith("for Gemini CLI") for row in rows)
