"""`doctor` on hooks: each agent that is there, what its settings call, and what hooks left to be said."""

from __future__ import annotations

import json
from pathlib import Path
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest

from helpers.agent_settings import CLAUDE
from helpers.authors import HUMAN
from helpers.doctor import file_states
from helpers.hook_calls import call
from helpers.real_command import run
from helpers.repository import ROOT
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.doctor import check_hooks
from tallybook.projections.surfaces.install import hook_entries, places
from tallybook.projections.surfaces.install.hook_entries import hook_command, tool_command
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Mapping

OTHERS = {name: places.FILES[name] for name in table.AGENTS if name != table.CLAUDE}
LINE = "tallybook hook || :"
ALL_EVENTS = hook_entries.install(None, CLAUDE, "tallybook hook", "settings")
NESTED = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": LINE}]}]}}


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


def write(path: Path, value: Mapping[str, Any] | bytes | str) -> Path:
    """Write settings, as bytes, as a text or as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str | bytes) else json.dumps(value)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def install(folder: Path, value: Mapping[str, Any] | bytes = ALL_EVENTS, name: str = "settings.json") -> Path:
    """Write settings of Claude Code."""
    return write(folder / ".claude" / name, value)


def install_other(here: Project, name: str, *, user: bool = False) -> Path:
    """Write what `init` writes for another agent."""
    files = OTHERS[name]
    path = (Path.home() / table.AGENTS[files.name].home[1] if user else here.root / files.folder) / files.file
    return write(path, hook_entries.install(None, files, LINE, "x"))


def trust(path: Path, *events: str, features: str = "") -> None:
    """Record trust in hooks as Codex does."""
    keys = [re.sub("(?<!^)(?=[A-Z])", "_", event).lower() for event in events]
    text = "".join(f'[hooks.state."{path}:{key}:0:0"]\ntrusted_hash = "sha256:0"\n' for key in keys)
    write(Path.home() / ".codex" / "config.toml", text + features)


def findings(here: Project) -> list[tuple[str, str, str]]:
    """Return level, message and fix of the findings."""
    return [(finding.level, finding.message, finding.fix) for finding in check_hooks(here)]


def messages(here: Project) -> list[tuple[str, str]]:
    """Return level and message of the findings."""
    return [(level, message) for level, message, _ in findings(here)]


# Claude Code


def test_a_missing_program_is_bad(here: Project, on_path: Path) -> None:
    """What the command line names must be found as a shell finds it; for a shared file `init` mends nothing."""
    path = install(here.root)
    on_path.unlink()
    (bad,) = [finding for finding in findings(here) if finding[0] == "bad"]
    assert f"{path}: the hooks call `tallybook`, which is not on PATH" == bad[1]
    assert f"run `{tool_command()}`, or run `tallybook init` to write a working command" == bad[2]
    # Only `tallybook` was on this PATH; where git cannot tell, it tracks the file.
    (here.root / ".git").mkdir()
    assert [f"run `{tool_command()}`"] == [fix for level, _, fix in findings(here) if level == "bad"]


@pytest.mark.skipif(sys.platform == "win32", reason="there the installed command is the hook")
@pytest.mark.parametrize("gone", ["python3", "tallybook/hook.py"])
@pytest.mark.usefixtures("_installed")
def test_a_missing_python_is_named(here: Project, on_path: Path, tmp_path: Path, installed_in: Path, gone: str) -> None:
    """With what is called in its place; where that is gone as well, hooks do nothing."""
    python, start = tmp_path / "python3", tmp_path / "tallybook" / "hook.py"
    for path in (python, start):
        write(path, b"")
    line = hook_command().replace(sys.executable, str(python)).replace(str(installed_in), str(tmp_path))
    path = install(here.root, hook_entries.install(None, CLAUDE, line, "settings"))
    assert ["ok"] == [level for level, _ in messages(here)]
    (tmp_path / gone).unlink()
    note = f"{path}: the hooks start {tmp_path / gone}, which is gone; they fall back on the slower `tallybook`"
    assert ("note", note, "run `tallybook init` to write a working command") in findings(here)
    on_path.unlink()
    bad = f"{path}: the hooks name {tmp_path / gone} and tallybook, and neither exists, so they do nothing"
    assert ("bad", bad, "run `tallybook init` to write a working command") in findings(here)


# Other agents


@pytest.mark.parametrize(
    ("shipped", "installed"),
    [("plugin", ".codex/plugins/cache/market/tallybook/0.1.0"), ("extension", ".gemini/extensions/tallybook")],
)
def test_the_plugin_of_another_agent_is_known(here: Project, shipped: str, installed: str) -> None:
    """Codex names its file in the record of trust as `NAME@MARKETPLACE`."""
    path = Path.home() / installed / "hooks" / "hooks.json"
    shutil.copytree(ROOT / "prompts" / shipped / "hooks", path.parent)
    if shipped == "plugin":
        assert any("they are not trusted" in message for _, message in messages(here))
        trust(Path("tallybook@market:hooks/hooks.json"), *json.loads(path.read_bytes())["hooks"])
    title = OTHERS["codex" if shipped == "plugin" else "gemini"].title
    assert [("ok", f"installed in {path}, for {title}")] == messages(here)


# What hooks left


def test_the_last_error_of_a_hook_is_named_until_it_is_removed(here: Project) -> None:
    """With the command that removes the note, and without what steers a terminal; no file changes."""
    call(b"{")
    path = here.ledger / "hook-error"
    ((level, message, fix),) = [found for found in findings(here) if "the last hook error" in found[1]]
    assert ("note", True) == (level, message.endswith("ValueError: not JSON"))
    assert f"run `rm {path}` once that is fixed" == fix
    path.write_bytes("\ud800 \x1b[31mred".encode("utf-8", "surrogatepass"))
    before = file_states(here.root) | file_states(Path.home())
    assert (False, 0) == ("\x1b" in (answer := run(here, "doctor")).out, answer.code)
    assert before == file_states(here.root) | file_states(Path.home())
    path.unlink()
    assert "the last hook error" not in str(findings(here))
