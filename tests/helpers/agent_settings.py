"""Agents' settings files, before and after `init`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.install import hook_entries, places
from tallybook.projections.surfaces.install.places import Installation

AGENTS = {name: places.FILES[name] for name in table.AGENTS}
_ENTRY = {"type": "command", "command": "theirs"}
_NESTED = {"hooks": {"Stop": [{"matcher": "x", "hooks": [_ENTRY]}], "SessionStart": []}, "theirs": 1}
_FLAT = {"version": 1, "hooks": {"stop": [{"command": "theirs", "bash": "theirs"}], "SessionStart": []}}
LINE = "tallybook hook || :"
CLAUDE = AGENTS[table.CLAUDE]
THEIRS = b'{\r\n\t"model": "opus",\r\n\t"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}\r\n}'
OURS = ["commands/playbook.md", "commands/score.md", "config/tallybook.toml", "settings.json"]


@pytest.fixture(autouse=True)
def on_path(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a command of that name on PATH, and nothing else."""
    program = tmp_path_factory.mktemp("bin") / "tallybook"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return program


@pytest.fixture
def claude(project: Path) -> Path:
    """Return the project's ``.claude``."""
    return project / ".claude"


def tree(folder: Path) -> dict[str, bytes]:
    """Return the files below an agent's folder, without the ledger's."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in sorted(found.items()) if not name.startswith(("ledger", "playb"))}


def settings_of(files: Installation, root: Path, *, user: bool = False) -> Path:
    """Return the file with an agent's hooks in a project, or the user's."""
    return (Path.home() / table.AGENTS[files.name].home[1] if user else root / files.folder) / files.file


def make_foreign_settings(files: Installation, **layout: Any) -> str:
    """Return settings with hooks of somebody else."""
    return json.dumps(_NESTED if files.is_nested else _FLAT, **layout)


def contents(root: Path) -> dict[str, bytes | None]:
    """Return the files and folders below a folder with their bytes, without Claude Code's, where the ledger is."""
    found = {path.relative_to(root).as_posix(): path for path in root.rglob("*")}
    return {
        name: path.read_bytes() if path.is_file() else None
        for name, path in sorted(found.items())
        if not name.startswith((".claude", ".git/")) and name != ".git"
    }


def lines_of(files: Installation, path: Path) -> list[tuple[str, str]]:
    """Return event and command line of each hook of ours."""
    return list(hook_entries.own_calls(json.loads(path.read_bytes().decode("utf-8-sig")), files))
