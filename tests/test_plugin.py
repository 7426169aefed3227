"""The plugin of Claude Code and Codex, and Gemini's extension: both call the installed command, and install none."""

from __future__ import annotations

import json
import os
from pathlib import Path
import subprocess
import tomllib
from typing import Any

import pytest

from helpers.agent_settings import CLAUDE
from tallybook.projections.surfaces.agents import gemini
from tallybook.projections.surfaces.install.places import as_toml, read_prompt

ROOT = Path(__file__).parent.parent
PLUGIN = ROOT / "prompts" / "plugin"
EXTENSION = ROOT / "prompts" / "extension"
COMMANDS = ROOT / "prompts" / "commands"
PAYLOAD = b'{"hook_event_name": "SessionStart", "session_id": "s1"}'
EVENTS = [(PLUGIN, event) for event in CLAUDE.events] + [(EXTENSION, event) for event in gemini.EVENTS]


def load(*parts: str | Path) -> Any:
    """Return a JSON file of the repository."""
    return json.loads(ROOT.joinpath(*parts).read_text(encoding="utf-8"))


def hooks(folder: Path) -> dict[str, Any]:
    """Return the hook of each event."""
    return {
        event: hook
        for event, (group,) in load(folder, "hooks", "hooks.json")["hooks"].items()
        for hook in group["hooks"]
    }


def run(line: str, folder: Path) -> tuple[int, str, str]:
    """Run a command line with only one folder and the system's own on PATH: exit code, output, errors."""
    env = os.environ | {"PATH": f"{folder}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", line], input=PAYLOAD, capture_output=True, check=False, env=env)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_all_have_the_version_of_the_package() -> None:
    """The plugin, its row in the marketplace, and the extension; the marketplace names the plugin's folder."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    plugin, extension = load(PLUGIN, ".claude-plugin", "plugin.json"), load(EXTENSION, "gemini-extension.json")
    (row,) = load(".claude-plugin", "marketplace.json")["plugins"]
    assert [version] * 3 == [plugin["version"], row["version"], extension["version"]]
    assert 1 == len({plugin["description"], row["description"], extension["description"]})
    assert PLUGIN == ROOT / row["source"]


def test_the_commands_are_those_of_init() -> None:
    """The plugin has the same files; the extension has what `init gemini` writes."""
    files = {path.stem: path.read_text(encoding="utf-8") for path in COMMANDS.iterdir()}
    assert files == {path.stem: path.read_text(encoding="utf-8") for path in (PLUGIN / "commands").iterdir()}
    assert {path.stem: as_toml(read_prompt(path)) for path in COMMANDS.iterdir()} == {
        path.stem: path.read_text(encoding="utf-8") for path in (EXTENSION / "commands").iterdir()
    }


def test_the_skill_is_one_text() -> None:
    """Plugin and extension have the same skill, named after its folder."""
    one, other = ((folder / "skills" / "tallybook" / "SKILL.md").read_bytes() for folder in (PLUGIN, EXTENSION))
    assert one == other
    assert one.startswith(b"---\nname: tallybook\ndescription: ")


def test_hooks_call_every_event_that_tallybook_handles() -> None:
    """The plugin has the events of `init`, the extension those that mean something of Gemini."""
    assert [[*CLAUDE.events], [*gemini.EVENTS]] == [[*hooks(PLUGIN)], [*hooks(EXTENSION)]]


def test_no_hook_waits_longer_than_its_agent_allows() -> None:
    """Claude Code and Codex count seconds, and Codex allows 3 at a session's end; Gemini counts milliseconds."""
    times = {event: hook["timeout"] for event, hook in hooks(PLUGIN).items()}
    assert dict.fromkeys(CLAUDE.events, 10) | {"SessionEnd": 3} == times
    assert {10_000} == {hook["timeout"] for hook in hooks(EXTENSION).values()}


@pytest.mark.parametrize(("folder", "event"), EVENTS)
def test_every_hook_calls_the_command_on_the_path(tmp_path: Path, folder: Path, event: str) -> None:
    """Each passes its payload to `tallybook hook`, and answers with what that answers."""
    command = tmp_path / "tallybook"
    command.write_text('#!/bin/sh\necho "$@"; cat\n', encoding="utf-8")
    command.chmod(0o755)
    assert (0, "hook\n" + PAYLOAD.decode(), "") == run(hooks(folder)[event]["command"], tmp_path)


@pytest.mark.parametrize(("folder", "event"), EVENTS)
def test_without_the_command_one_line_says_so_and_nothing_fails(tmp_path: Path, folder: Path, event: str) -> None:
    """A session's start answers one field, which all three agents show to the user; later hooks are silent."""
    code, out, errors = run(hooks(folder)[event]["command"], tmp_path)
    assert (0, "") == (code, errors)
    if event == "SessionStart":
        (message,) = json.loads(out).values()
        assert {"systemMessage": message} == json.loads(out)
        assert message.startswith("Tallybook is not on PATH, ")
    else:
        assert "" == out
