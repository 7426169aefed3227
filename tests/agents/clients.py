"""The clients: their packages, how each is set up to ask a model on loopback, and how it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import json
import os
from pathlib import Path
import shutil
import subprocess
from typing import Any, Protocol

import attrs


class Ask(Protocol):
    """Return a client's options for a prompt, and whether it goes on with the latest session."""

    def __call__(self, prompt: str, *, goes_on: bool) -> list[str]:
        """Return them."""


KEY = "stub"


@attrs.frozen
class InstalledClient:
    """One client.

    Attributes:
        agent: Its name in the table of agents.
        package: Its npm package.
        program: Its command in that package.
        set_up: Writes its own settings, from home folder, project and the model's address; returns its environment.
        ask: Returns its options for a prompt, and whether it goes on with the latest session.
        tool: Name and input of the tool call that cites ``kpt_002`` in a shell.
        settings: The file in a project that holds its hooks.
        events: Every event that it has, for ``--record``.
        hooks: Returns a settings file that runs a command line at these events.
        own_settings: What that file holds before; empty if it is Tallybook's alone.
        subagent: Name and input of the tool call that starts a subagent; None if it cannot be asked for one.
        compact: Its options for a run that compacts the latest session; none if it announces no compaction.
        fork: Its options for a run that forks the latest session; none if it cannot be asked for one.
    """

    agent: str
    package: str
    program: str
    set_up: Callable[[Path, Path, str], dict[str, str]]
    ask: Ask
    tool: tuple[str, dict[str, Any]]
    settings: str
    events: Sequence[str]
    hooks: Callable[[Sequence[str], str], object]
    own_settings: str = ""
    subagent: tuple[str, dict[str, Any]] | None = None
    compact: Sequence[str] = ()
    fork: Sequence[str] = ()


def _nested(events: Sequence[str], command: str, timeout: int) -> dict[str, Any]:
    hook = {"type": "command", "command": command, "timeout": timeout}
    return {"hooks": {event: [{"hooks": [hook]}] for event in events}}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


# Claude Code


def _set_up_claude(home: Path, _project: Path, address: str) -> dict[str, str]:
    _write(home / ".claude.json", json.dumps({"hasCompletedOnboarding": True}))
    switches = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    return {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": KEY, **switches}


def _ask_claude(prompt: str, *, goes_on: bool) -> list[str]:
    return ["-p", prompt, *(["--continue"] if goes_on else []), "--allowedTools", "Bash", "Agent"]


CLAUDE = InstalledClient(
    agent="claude",
    package="@anthropic-ai/claude-code",
    program="claude",
    set_up=_set_up_claude,
    ask=_ask_claude,
    tool=("Bash", {"command": "echo as [kpt_002] says", "description": "cite"}),
    settings=".claude/settings.json",
    events=(
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolBatch",
        "Stop",
        "SubagentStart",
        "SubagentStop",
        "PreCompact",
        "PostCompact",
        "SessionEnd",
    ),
    hooks=lambda events, command: _nested(events, command, 10),
    own_settings='{\n\t"includeCoAuthoredBy": false}',
    subagent=("Agent", {"description": "look", "prompt": "look around", "subagent_type": "general-purpose"}),
    compact=_ask_claude("/compact", goes_on=True),
    fork=("--fork-session", *_ask_claude("in a fork", goes_on=True)),
)

# Codex CLI
_CODEX_SETTINGS = """\
model = "stub"
model_provider = "stub"

[analytics]
enabled = false

[model_providers.stub]
name = "stub"
base_url = "{address}/v1"
wire_api = "responses"
env_key = "STUB_KEY"

[projects.{project}]
trust_level = "trusted"
"""


def _set_up_codex(home: Path, project: Path, address: str) -> dict[str, str]:
    text = _CODEX_SETTINGS.format(address=address, project=json.dumps(str(project)))
    _write(home / ".codex" / "config.toml", text)
    return {"STUB_KEY": KEY}


def _ask_codex(prompt: str, *, goes_on: bool) -> list[str]:
    return ["exec", "--dangerously-bypass-hook-trust", *(["resume", "--last"] if goes_on else []), prompt]


CODEX = InstalledClient(
    agent="codex",
    package="@openai/codex",
    program="codex",
    set_up=_set_up_codex,
    ask=_ask_codex,
    tool=("exec_command", {"cmd": "echo as [kpt_002] says"}),
    settings=".codex/hooks.json",
    events=(
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PreCompact",
        "PostCompact",
        "Stop",
        "SessionEnd",
    ),
    hooks=lambda events, command: _nested(events, command, 3),
    own_settings='{"description": "mine",\n "hooks": {}}\n',
    # The session is longer than this, so the client compacts it before the prompt.
    compact=("-c", "model_auto_compact_token_limit=50", *_ask_codex("go on", goes_on=True)),
)


# Gemini CLI


def _set_up_gemini(home: Path, _project: Path, address: str) -> dict[str, str]:
    switches = {"general": {"enableAutoUpdate": False}, "privacy": {"usageStatisticsEnabled": False}}
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, **switches}
    _write(home / ".gemini" / "settings.json", json.dumps(settings))
    return {"GOOGLE_GEMINI_BASE_URL": address, "GEMINI_API_KEY": KEY, "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _ask_gemini(prompt: str, *, goes_on: bool) -> list[str]:
    # Without a model's name it asks a model which one to ask.
    chosen = ["--model", "gemini-2.5-pro", "--approval-mode", "yolo"]
    return [*chosen, *(["--resume", "latest"] if goes_on else []), "-p", prompt]


GEMINI = InstalledClient(
    agent="gemini",
    package="@google/gemini-cli",
    program="gemini",
    set_up=_set_up_gemini,
    ask=_ask_gemini,
    tool=("run_shell_command", {"command": "echo as [kpt_002] says"}),
    settings=".gemini/settings.json",
    events=("SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "PreCompress", "AfterAgent", "SessionEnd"),
    hooks=lambda events, command: _nested(events, command, 10_000),
    own_settings='{ "ui": {"hideBanner": true} }',
)


# Copilot CLI


def _set_up_copilot(home: Path, project: Path, address: str) -> dict[str, str]:
    _write(home / ".copilot" / "config.json", json.dumps({"trusted_folders": [str(project)]}))
    provider = {"TYPE": "anthropic", "BASE_URL": address, "API_KEY": KEY}
    names = {f"COPILOT_PROVIDER_{name}": value for name, value in provider.items()}
    return {"COPILOT_OFFLINE": "true", "COPILOT_MODEL": "stub", **names}


def _ask_copilot(prompt: str, *, goes_on: bool) -> list[str]:
    return ["--allow-all-tools", *(["--continue"] if goes_on else []), "-p", prompt]


def _copilot_hooks(events: Sequence[str], command: str) -> object:
    hook = {"type": "command", "bash": command, "timeoutSec": 10}
    return {"version": 1, "hooks": {event: [hook] for event in events}}


COPILOT = InstalledClient(
    agent="copilot",
    package="@github/copilot",
    program="copilot",
    set_up=_set_up_copilot,
    ask=_ask_copilot,
    tool=("bash", {"command": "echo as [kpt_002] says", "description": "cite"}),
    settings=".github/hooks/tallybook.json",
    events=(
        "sessionStart",
        "userPromptSubmitted",
        "preToolUse",
        "permissionRequest",
        "postToolUse",
        "agentStop",
        "subagentStart",
        "subagentStop",
        "preCompact",
        "sessionEnd",
    ),
    hooks=_copilot_hooks,
    subagent=("task", {"description": "look", "prompt": "look around", "agent_type": "general-purpose", "name": "a"}),
    compact=_ask_copilot("/compact", goes_on=True),
)

CLIENTS = {client.agent: client for client in (CLAUDE, CODEX, GEMINI, COPILOT)}
"""Name of an agent → its client. Cursor's is not on npm."""


@attrs.frozen
class Installed:
    """A client that is there."""

    client: InstalledClient
    path: Path
    version: str


def install(clients: Sequence[InstalledClient], folder: Path) -> None:
    """Install the packages into a folder, as their registry has them; what fails is said by ``find``."""
    npm = shutil.which("npm")
    if npm is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text("{}", encoding="utf-8")
    for client in clients:
        words = [npm, "install", "--no-audit", "--no-fund", client.package]
        subprocess.run(words, cwd=folder, capture_output=True, check=False)
    # Its own step after the installation, which npm leaves out where scripts are off.
    script = folder / "node_modules" / CLAUDE.package / "install.cjs"
    if script.exists():
        subprocess.run(["node", str(script)], cwd=script.parent, capture_output=True, check=False)


def find(client: InstalledClient, folder: Path, home: Path) -> Installed | str:
    """Return a client in a folder, or why it cannot be run; a home folder keeps what it writes."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "needs node and npm"
    path = folder / "node_modules" / ".bin" / client.program
    if not path.exists():
        return f"npm did not install {client.package}"
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "COPILOT_OFFLINE": "true"}
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        return f"`{client.program} --version` ends with {done.returncode}: {done.stderr.strip()[:80]}"
    words = done.stdout.split()
    return Installed(client, path, next((word.strip(".") for word in words if word[:1].isdigit()), "?"))
