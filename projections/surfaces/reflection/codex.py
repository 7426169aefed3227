"""Codex's headless client as a rater, with every tool that it has turned off."""

from __future__ import annotations

import json
from pathlib import Path
import tempfile
from typing import TYPE_CHECKING, Any, Final

from tallybook.projections.surfaces.reflection.clients import FOLDER_PREFIX, failure, run_client
from tallybook.projections.surfaces.reflection.replies import (
    SYSTEM,
    UNAVAILABLE,
    UNUSABLE,
    Question,
    RaterError,
    Reply,
    accept_reply,
    count_tokens,
)
from tallybook.projections.surfaces.reflection.transcript import load_object

if TYPE_CHECKING:
    from collections.abc import Iterable
    import subprocess

CODEX_BYTES: Final = 2_400
"""What Codex sends with the prompt: its instructions twice, and the fields of the request."""

_FEATURES: Final = (
    *("agent_message_board", "agent_message_board_mcp", "apps", "artifact", "browser_use", "browser_use_external"),
    *("code_mode", "code_mode_only", "computer_use", "current_time_reminder", "default_mode_request_user_input"),
    *("deferred_executor", "enable_mcp_apps", "executor_capability_discovery_v2", "goals", "hooks"),
    *("image_generation", "in_app_browser", "memories", "multi_agent", "multi_agent_v2", "multi_env_copy_file"),
    *("plugins", "request_permissions_tool", "send_message_to_user_async", "shell_snapshot", "shell_tool"),
    *("skill_search", "sleep_tool", "standalone_web_search", "token_budget", "tool_suggest", "unified_exec"),
    "view_image",
)
"""Features that bring tools, start programs or run hooks."""
_OFF: Final = (
    *(f"features.{name}=false" for name in _FEATURES),
    *('web_search="disabled"', "tools.experimental_request_user_input.enabled=false", "notify=[]"),
    "tools.update_plan.enabled=false",
    *("include_permissions_instructions=false", "include_apps_instructions=false"),
    *("include_collaboration_mode_instructions=false", "include_environment_context=false"),
    *("skills.include_instructions=false", "skills.bundled.enabled=false", 'developer_instructions=""'),
    *("project_doc_max_bytes=0", 'approval_policy="never"', 'model_reasoning_effort="low"'),
    "check_for_update_on_startup=false",
)
"""Settings that go over the user's own, which stay for the rest: they say whom Codex asks, and as whom."""
_TOOLS_OF_MODELS: Final[dict[str, Any]] = {
    "apply_patch_tool_type": None,
    "experimental_supported_tools": [],
    "multi_agent_version": None,
    "shell_type": "disabled",
    "supports_search_tool": False,
    "tool_mode": None,
}
"""What a model of Codex's catalog has instead of the tools that it brings."""
_HARMLESS: Final = frozenset({"agent_message", "reasoning", "error"})
"""Items of a turn that are not the call of a tool."""


def ask_codex(question: Question) -> Reply:
    """Ask through Codex's headless client: the prompt alone, no tools, no hooks, and no saved session."""
    # Neither the settings of a project nor a trace in the user's folder: not even its databases are written to.
    with tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX, ignore_cleanup_errors=True) as name:
        work, databases = Path(name, "work"), Path(name, "databases")
        work.mkdir()
        databases.mkdir()
        client = _Client(question, work, databases)
        (databases / "system.md").write_text(SYSTEM, encoding="utf-8")
        (databases / "models.json").write_text(json.dumps(client.models_without_tools()), encoding="utf-8")
        files = {"model_catalog_json": "models.json", "model_instructions_file": "system.md"}
        paths = [f"{setting}={json.dumps(str(databases / file))}" for setting, file in files.items()]
        command = ["exec", "--json", "--ephemeral", "--skip-git-repo-check", "--sandbox", "read-only"]
        command += ["--model", question.model] if question.model else []
        done = client.run([*command, *_options((*client.servers_off(), *paths)), "-"], question.prompt)
    return _read_events(question, done)


def _options(values: Iterable[str]) -> list[str]:
    return [word for value in (*_OFF, *values) for word in ("--config", value)]


class _Client:
    """Codex, asked about itself before it is asked to rate."""

    def __init__(self, question: Question, work: Path, databases: Path) -> None:
        self.question, self.work = question, work
        self.variables = {"CODEX_SQLITE_HOME": str(databases)}

    def run(self, words: list[str], text: str = "") -> subprocess.CompletedProcess[bytes]:
        return run_client(self.question, ["codex", *words], str(self.work), self.variables, text)

    def _json(self, words: list[str]) -> Any:
        """Return what a command prints as JSON; without it, what Codex has is not known and nothing is sent."""
        done = self.run(words)
        try:
            value = json.loads(done.stdout)
        except (ValueError, RecursionError):
            value = None
        if done.returncode or value is None:
            raise failure(done, "", self.question.model)
        return value

    def models_without_tools(self) -> dict[str, Any]:
        """Return Codex's catalog of models, each without the tools that it brings."""
        catalog = self._json(["debug", "models", *_options(())])
        models = catalog.get("models") if isinstance(catalog, dict) else None
        if not isinstance(models, list) or not all(isinstance(model, dict) for model in models):
            raise RaterError(UNAVAILABLE, "codex has no list of models that Tallybook can read")
        return {**catalog, "models": [model | _TOOLS_OF_MODELS for model in models]}

    def servers_off(self) -> list[str]:
        """Return the settings that turn off the user's MCP servers; an empty table of them would change nothing."""
        names = self._servers([])
        if not names:
            return []
        table = ", ".join(f"{json.dumps(name)} = {{enabled = false}}" for name in names)
        off = [f"mcp_servers={{{table}}}"]
        if still := self._servers(off):
            raise RaterError(UNAVAILABLE, f"codex does not turn off the MCP server {still[0]}, so it is not asked")
        return off

    def _servers(self, values: list[str]) -> list[str]:
        servers = self._json(["mcp", "list", "--json", *_options(values)])
        if not isinstance(servers, list) or not all(isinstance(server, dict) for server in servers):
            raise RaterError(UNAVAILABLE, "codex has no list of MCP servers that Tallybook can read")
        return [str(server.get("name")) for server in servers if server.get("enabled") is not False]


def _read_events(question: Question, done: subprocess.CompletedProcess[bytes]) -> Reply:
    """Return the answer in the events that Codex printed, one JSON object a line."""
    text, reason, usage = "", "", None
    for event in map(load_object, done.stdout.splitlines()):
        item = event.get("item")
        item = item if isinstance(item, dict) else {}
        kind = item.get("type")
        if kind is not None and kind not in _HARMLESS:
            what = f"codex ran a tool, {kind}, although it has none"
            raise RaterError(UNUSABLE, what, question.tokens, model=question.model)
        if kind == "agent_message":
            text = str(item.get("text") or "")
        elif event.get("type") == "turn.completed":
            usage = event.get("usage") or {}
        elif event.get("type") in {"turn.failed", "error"}:
            error = event.get("error")
            reason = str(error.get("message") if isinstance(error, dict) else event.get("message"))
    if usage is None or done.returncode:
        raise failure(done, reason, question.model)
    spent = count_tokens(usage, ("input_tokens",), ("output_tokens",))
    # Codex does not say which model answered.
    return accept_reply(question, text, None, question.model, spent)
