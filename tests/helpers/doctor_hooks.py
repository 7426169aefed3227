"""What the tests of the doctor's check of hooks share: an agent's settings, trust and transcripts, and the findings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers.agent_settings import CLAUDE
from helpers.authors import HUMAN
from tallybook.ledger import clock
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.doctor import hooks
from tallybook.projections.surfaces.doctor.finding import Context
from tallybook.projections.surfaces.install import hook_entries
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Mapping

NOW = clock.moment(clock.to_unix_us("2026-11-21T12:00:00.000000Z"))
EVERYWHERE = hook_entries.install(None, CLAUDE, "tallybook hook", "settings")
LONG_AGO_S = 1_700_000_000


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with one entry."""
    here = Project(project)
    commands.add(here, "Use type hints", HUMAN)
    return here


@pytest.fixture(autouse=True)
def on_path(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program called `tallybook` on PATH, and nothing else."""
    program = tmp_path_factory.mktemp("bin") / "tallybook"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return program


def install(folder: Path, data: bytes | Mapping[str, Any] = EVERYWHERE, name: str = "settings.json") -> Path:
    """Write an agent's settings with an old time of change."""
    path = folder / ".claude" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    return path


def trust(folder: Path, *, accepted: bool = True) -> None:
    """Record in the agent's state file whether a folder is trusted."""
    note = {"projects": {str(folder): {"hasTrustDialogAccepted": accepted}}}
    (Path.home() / ".claude.json").write_text(json.dumps(note))


def findings(here: Project) -> list[tuple[str, str, str]]:
    """Return level, message and fix of the findings at NOW."""
    return [(finding.level, finding.message, finding.fix) for finding in hooks.check_hooks(Context(here, NOW))]


def messages(here: Project) -> list[tuple[str, str]]:
    """Return level and message of the findings at NOW."""
    return [(level, message) for level, message, _ in findings(here)]
