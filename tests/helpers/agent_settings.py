"""Agents' settings files, before and after `init`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

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
