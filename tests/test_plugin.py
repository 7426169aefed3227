"""The plugin of Claude Code in ``prompts/plugin``: it calls the installed command, and never installs one."""

from __future__ import annotations

import json
import os
from pathlib import Path
import subprocess
import tomllib
from typing import Any

import pytest

from tallybook.projections.surfaces.install.hook_entries import INSTALLED_EVENTS

ROOT = Path(__file__).parent.parent
PLUGIN = ROOT / "prompts" / "plugin"
PAYLOAD = b'{"hook_event_name": "SessionStart", "session_id": "s1"}'


def load(*parts: str) -> Any:
    """Return a JSON file of the repository."""
    return json.loads(ROOT.joinpath(*parts).read_text(encoding="utf-8"))


def lines() -> dict[str, str]:
    """Return the command line of each event's hook."""
    hooks = load("prompts", "plugin", "hooks", "hooks.json")["hooks"]
    return {event: entry["command"] for event, (group,) in hooks.items() for entry in group["hooks"]}


def run(line: str, folder: Path) -> tuple[int, str, str]:
    """Run a command line with only one folder and the system's own on PATH: exit code, output, errors."""
    env = os.environ | {"PATH": f"{folder}:/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", line], input=PAYLOAD, capture_output=True, check=False, env=env)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_versions_and_commands_are_those_of_the_package() -> None:
    """The plugin has the package's version, the commands that `init` installs, and the marketplace names its folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == load("prompts", "plugin", ".claude-plugin", "plugin.json")["version"]
    assert {path.name: path.read_bytes() for path in (ROOT / "prompts" / "commands").iterdir()} == {
        path.name: path.read_bytes() for path in (PLUGIN / "commands").iterdir()
    }
    (plugin,) = load(".claude-plugin", "marketplace.json")["plugins"]
    assert PLUGIN == ROOT / plugin["source"]


def test_every_event_that_init_installs_calls_the_command_on_the_path(tmp_path: Path) -> None:
    """Each hook passes its payload to `tallybook hook`, and answers with what that answers."""
    command = tmp_path / "tallybook"
    command.write_text('#!/bin/sh\necho "$@"; cat\n', encoding="utf-8")
    command.chmod(0o755)
    assert [*INSTALLED_EVENTS] == [*lines()]
    for line in lines().values():
        assert (0, "hook\n" + PAYLOAD.decode(), "") == run(line, tmp_path)


@pytest.mark.parametrize("event", INSTALLED_EVENTS)
def test_without_the_command_one_line_says_so_and_nothing_fails(tmp_path: Path, event: str) -> None:
    """A session's start says that Tallybook is missing, as the client shows it; later hooks are silent."""
    code, out, errors = run(lines()[event], tmp_path)
    assert (0, "") == (code, errors)
    if event == "SessionStart":
        assert "Tallybook is not on PATH" in json.loads(out)["systemMessage"]
    else:
        assert "" == out
