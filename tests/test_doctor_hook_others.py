"""The doctor on hooks that Claude Code's settings do not hold: those of its plugins, and of other agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers.doctor_hooks import findings, here, install, messages, on_path
from tallybook.projections.surfaces.workspace.installation import tool_command

if TYPE_CHECKING:
    from tallybook.projections.surfaces.workspace.project import Project

__all__ = ["here", "on_path"]

COMMAND = "tallybook hook || :"
NESTED = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": COMMAND}]}]}}
TOML = f'[[hooks.SessionStart]]\n[[hooks.SessionStart.hooks]]\ntype = "command"\ncommand = {json.dumps(COMMAND)}\n'
FAULT = "is not JSON: Expecting property name enclosed in double quotes at line 1, column 2"
OTHERS: dict[str, tuple[str, Any]] = {
    ".codex/hooks.json": ("Codex CLI", NESTED),
    ".codex/config.toml": ("Codex CLI", TOML),
    ".gemini/settings.json": ("Gemini CLI", NESTED),
    ".github/hooks/x.json": ("Copilot CLI", {"version": 1, "hooks": {"sessionStart": [{"bash": COMMAND}]}}),
    ".cursor/hooks.json": ("Cursor", {"version": 1, "hooks": {"sessionStart": [{"command": COMMAND}]}}),
}


def write(path: Path, value: Any) -> Path:
    """Write a value as JSON, or a text as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


@pytest.mark.parametrize("at_home", [False, True], ids=["project", "home"])
@pytest.mark.parametrize("name", OTHERS)
def test_hooks_of_another_agent_are_known(here: Project, name: str, *, at_home: bool) -> None:
    """They are named with their agent, and no problem is that Claude Code has none."""
    agent, value = OTHERS[name]
    path = write((Path.home() if at_home and "github" not in name else here.root) / name, value)
    (Path.home() / ".claude.json").write_text("{}", encoding="utf-8")
    assert ("ok", f"installed in {path}, for {agent}") in messages(here)
    assert ["ok"] == [level for level, _, fix in findings(here) if fix == "run `tallybook init` to install the hooks"]


def test_hooks_of_a_plugin_are_known(here: Project, on_path: Path) -> None:
    """Where the settings switch the plugin on; its command must be there as well."""
    path = write(Path.home() / ".claude/plugins/cache/market/tallybook/0.1.0/hooks/hooks.json", NESTED)
    installed = [("ok", f"installed in {path}, for the plugin tallybook@market")]
    settings = {"enabledPlugins": {"tallybook@market": True, "../x@market": True, "odd": 1}}
    install(here.root, settings)
    assert installed == messages(here)
    on_path.unlink()
    assert [
        *installed,
        ("bad", f"{path}: the hooks call `tallybook`, which is not on PATH"),
    ] == messages(here)
    install(here.root, {"enabledPlugins": {"tallybook@market": False}}, "settings.local.json")
    assert [("note", "Claude Code is here, and none of its settings call Tallybook")] == messages(here)


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("hooks.json", "run `tallybook init codex` to write a working command"),
        ("config.toml", "correct it there"),
    ],
)
def test_a_missing_program_of_another_agent_is_fixed_where_it_is_named(
    here: Project, on_path: Path, name: str, fix: str
) -> None:
    """The fix names `tallybook init` for the file that it writes, and no command for another."""
    on_path.unlink()
    write(here.root / ".codex" / name, NESTED if name == "hooks.json" else TOML)
    assert [f"run `{tool_command()}`, or {fix}"] == [fix for level, _, fix in findings(here) if level == "bad"]


def test_files_of_other_agents_that_do_not_call_are_passed_over(here: Project) -> None:
    """As are those that cannot be read; each agent is named with the command that installs."""
    write(here.root / ".codex/hooks.json", {"hooks": {"Stop": [{"hooks": [{"command": "make"}]}]}})
    write(here.root / ".codex/config.toml", "[")
    write(here.root / ".gemini/settings.json", "{")
    write(here.root / ".cursor/hooks.json", [COMMAND])
    assert [
        ("note", "Codex CLI is here, and none of its settings call Tallybook", "codex"),
        ("note", f"{here.root / '.gemini/settings.json'}: {FAULT}", "correct"),
        ("note", "Gemini CLI is here, and none of its settings call Tallybook", "gemini"),
        ("note", f"{here.root / '.cursor/hooks.json'}: is not a JSON object", "correct"),
        ("note", "Cursor is here, and none of its settings call Tallybook", "cursor"),
    ] == [
        (level, message, fix.removeprefix("run `tallybook init ").split()[0].strip("`"))
        for level, message, fix in findings(here)
    ]
