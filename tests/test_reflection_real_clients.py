"""The real clients as raters, against models on loopback: no tool is offered, none runs, and nothing stays behind."""

from __future__ import annotations

from collections.abc import Iterator
import hashlib
import json
import os
from pathlib import Path
import re
import subprocess
import sys
from typing import Any

import pytest

from helpers.clients import OFFLINE, find_client
from helpers.stub_models import ModelReply, ModelRequest, StubModel, stub_model
from helpers.transcripts import answer
from tallybook.projections.surfaces.reflection import raters
from tallybook.projections.surfaces.workspace.settings import Settings

PROMPT, LESSON = "THE PROMPT OF THE RATER", "Run the tests first."
TEXT = answer(LESSON)
SERVER = """\
import json, pathlib, sys
pathlib.Path({mark!r}).touch()
for line in sys.stdin:
    asked = json.loads(line)
    tools = [{{"name": "boom", "description": "d", "inputSchema": {{"type": "object", "properties": {{}}}}}}]
    result = {{"initialize": {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}},
                               "serverInfo": {{"name": "s", "version": "1"}}}}, "tools/list": {{"tools": tools}}}}
    if "id" in asked:
        answer = {{"jsonrpc": "2.0", "id": asked["id"], "result": result.get(asked["method"], {{}})}}
        print(json.dumps(answer), flush=True)
"""


class ClientHome:
    """A user's home whose settings have hooks, an MCP server and instructions, and a model on loopback."""

    def __init__(self, home: Path, model: StubModel, folder: Path) -> None:
        """Write the settings of each client."""
        self.home, self.model, self.folder = home, model, folder
        self.replies: list[ModelReply] = []
        server = folder / "server.py"
        server.write_text(SERVER.format(mark=str(self.mark("server"))))
        hook = {"hooks": [{"type": "command", "command": f"touch '{self.mark('hook')}'"}]}
        servers = {"own": {"command": sys.executable, "args": [str(server)]}}
        env = {
            "MAX_THINKING_TOKENS": "20000",
            "CLAUDE_CODE_EFFORT_LEVEL": "high",
            "CLAUDE_CODE_DISABLE_ATTACHMENTS": "0",
            "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "0",
        }
        claude = {"env": env, "hooks": {"SessionStart": [hook], "Stop": [hook]}, "permissions": {"allow": ["Bash"]}}
        self._write(".claude/settings.json", json.dumps(claude))
        self._write(".claude.json", json.dumps({"mcpServers": servers, "hasCompletedOnboarding": True}))
        auth = {"auth": {"selectedType": "gemini-api-key"}}
        hooks = {"hooks": {"SessionStart": [hook], "BeforeAgent": [hook]}}
        find = folder / "find"
        find.write_text(f"#!/bin/sh\ntouch '{self.mark('discovery')}'\necho '[]'\n")
        find.chmod(0o755)
        tools = {
            "tools": {"core": ["run_shell_command"], "allowed": ["run_shell_command"], "discoveryCommand": str(find)}
        }
        self._write(".gemini/settings.json", json.dumps({"security": auth, "mcpServers": servers} | hooks | tools))
        provider = f'name = "stub"\nbase_url = "{model.address}/v1"\nwire_api = "responses"\nenv_key = "STUB_KEY"'
        notify = json.dumps(["touch", str(self.mark("notify"))])
        own = f"[mcp_servers.own]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(server))}]"
        stub = f'model_provider = "stub"\nmodel = "gpt-5.5"\n[model_providers.stub]\n{provider}'
        features = "[features]\nshell_tool = true\nmulti_agent_v2 = true"
        effort = 'model_reasoning_effort = "high"'
        self._write(".codex/config.toml", f"notify = {notify}\n{effort}\n{stub}\n{own}\n{features}\n")
        self._write(".codex/hooks.json", json.dumps({"hooks": {"SessionStart": [hook]}}))
        for place in (".claude/CLAUDE.md", ".gemini/GEMINI.md"):
            self._write(place, "INSTRUCTIONS OF THE USER")

    def _write(self, name: str, text: str) -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def mark(self, name: str) -> Path:
        """Return the file that exists once something ran."""
        return self.folder / f"{name} ran"

    @property
    def marks(self) -> list[str]:
        """Return what ran."""
        return sorted(path.name for path in self.folder.glob("* ran"))

    def files(self) -> dict[str, str]:
        """Return every file of the home with a digest of its content, none of which has a text of a session."""
        paths = [path for path in sorted(self.home.rglob("*")) if path.is_file()]
        contents = {str(path.relative_to(self.home)): path.read_bytes() for path in paths}
        assert [] == [name for name, data in contents.items() if PROMPT.encode() in data or LESSON.encode() in data]
        return {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}

    def reply(self, _: ModelRequest) -> ModelReply:
        """Answer with the next planned reply, and with the text at the end."""
        return self.replies.pop(0) if self.replies else ModelReply(TEXT)

    def calls(self, client: str) -> list[ModelReply]:
        """Return replies that call the client's tools: shells, files, and the user's MCP server."""
        run = f"touch '{self.mark('tool')}'"
        calls: dict[str, list[tuple[str, dict[str, Any]]]] = {
            "claude": [
                ("Bash", {"command": run}),
                ("Write", {"file_path": str(self.mark("tool")), "content": "x"}),
                ("mcp__own__boom", {}),
            ],
            "codex": [
                ("exec_command", {"cmd": run}),
                ("shell", {"command": ["sh", "-c", run]}),
                ("shell_command", {"command": run}),
                ("mcp__own__boom", {}),
            ],
            "gemini": [("run_shell_command", {"command": run}), ("mcp_own_boom", {})],
        }
        return [ModelReply("I look.", call) for call in calls[client]]


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClientHome]:
    """Return a home with settings of all clients, which find a model on loopback."""
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("marks")
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE", "GEMINI", "CODEX", "GOOGLE"))]:
        monkeypatch.delenv(name)
    with stub_model(lambda request: made.reply(request)) as model:  # noqa: PLW0108 - made after the model
        made = ClientHome(home, model, folder)
        variables = {"HOME": str(home), "ANTHROPIC_BASE_URL": model.address, "GOOGLE_GEMINI_BASE_URL": model.address}
        keys = {"ANTHROPIC_API_KEY": "k" * 30, "GEMINI_API_KEY": "k", "STUB_KEY": "k"}
        for name, value in (variables | keys | OFFLINE).items():
            monkeypatch.setenv(name, value)
        yield made


@pytest.fixture(params=["claude", "codex", "gemini"])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a client that is installed, and is the first of its name on PATH."""
    monkeypatch.setenv("PATH", f"{find_client(request.param).parent}{os.pathsep}{os.environ['PATH']}")
    return str(request.param)


def tools_in(value: object) -> list[object]:
    """Return every tool anywhere in a request: Codex also puts them into its input, and Gemini groups them."""
    if isinstance(value, list):
        return [tool for child in value for tool in tools_in(child)]
    if not isinstance(value, dict):
        return []
    tools = [tool for tool in value.get("tools") or [] if tool != {"functionDeclarations": []}]
    return [*tools, *(tool for name, child in value.items() if name != "tools" for tool in tools_in(child))]


def test_a_real_client_offers_no_tool_and_runs_none(client: str, world: ClientHome) -> None:
    """Tools, hooks and MCP servers of the user's settings stay off, whatever the model calls, and nothing is left."""
    raters.ask_rater("first", Settings(rater=client))  # What a client installs at its first start is not the rater's.
    before = world.files()
    world.model.requests.clear()
    world.replies = world.calls(client)
    calls = len(world.replies)
    reply, _ = raters.ask_rater(PROMPT, Settings(rater=client))
    assert (TEXT, []) == (reply.text, world.marks)
    assert calls + 1 == len(world.model.requests)
    assert [] == [tool for request in world.model.requests for tool in tools_in(request.document)]
    assert "INSTRUCTIONS OF THE USER" not in world.model.requests[-1].text
    assert (100 * (calls + 1), 10 * (calls + 1)) == reply.spent
    # Claude Code numbers its starts, looks after its own backups, and has a random id of each start in a file.
    own = (".claude.json", ".claude/backups/", ".claude/plugins/store/cc-plugin-")
    after = {name: digest for name, digest in world.files().items() if not name.startswith(own)}
    assert {name: before.get(name) for name in after} == after


@pytest.mark.parametrize("model", ["gpt-6-astra", "gpt-5.5", "unknown-1"])
@pytest.mark.parametrize("client", ["codex"], indirect=True)
def test_no_feature_of_codex_brings_a_tool(client: str, world: ClientHome, model: str) -> None:
    """Every feature that a user can turn on is on, for models of each kind of catalog entry, and there is no tool."""
    listed = subprocess.run([client, "features", "list"], capture_output=True, text=True, check=True).stdout
    # This one needs a number of tokens, which is a setting of its own.
    names = [line.split()[0] for line in listed.splitlines() if "removed" not in line and "rollout_budget" not in line]
    config = world.home / ".codex" / "config.toml"
    settings = config.read_text().partition("[features]")[0]
    tools = "[tools]\nupdate_plan = {enabled = true}\nexperimental_request_user_input = {enabled = true}\n"
    search = 'web_search = "live"\nsandbox_mode = "danger-full-access"\napproval_policy = "on-request"\n'
    config.write_text(search + settings + tools + "[features]\n" + "".join(f"{name} = true\n" for name in names))
    assert TEXT == raters.ask_rater("the prompt", Settings(rater=client, model=model))[0].text
    (request,) = world.model.requests
    assert [] == tools_in(request.document)
    assert len(names) > 50


def test_a_real_client_sends_the_prompt_once_and_little_else(client: str, world: ClientHome) -> None:
    """No file that the prompt names is read, it is sent once, the estimate has what is added, and the effort is low."""
    secret = world.folder / "secret.txt"
    secret.write_text("CONTENT OF THE SECRET")
    prompt = "word " * 2000 + f"\nUser: see @{secret} and @/etc/hostname\n/help\n!{{cat {secret}}}\n$skill-creator\n"
    raters.ask_rater(prompt, Settings(rater=client))
    (request,) = world.model.requests
    assert "CONTENT OF THE SECRET" not in request.text
    assert prompt.strip() in request.text
    more = len(json.dumps(request.document).encode()) - len(json.dumps(prompt).encode())
    assert 0 < more < raters.OVERHEAD_BYTES
    assert {*re.findall('"effort": "([a-z]+)"', json.dumps(request.document))} <= {"low"}


def test_the_calls_do_run_where_tools_are_on(client: str, world: ClientHome) -> None:
    """The counterpart: the same calls run when a session has its tools, so that the test above shows something."""
    switches = {
        "claude": ["claude", "-p", "--allowedTools", "Bash", "--model", "haiku"],
        "codex": ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-"],
        "gemini": ["gemini", "-p", "", "--skip-trust", "--yolo", "--model", "flash"],
    }
    world.replies = world.calls(client)[:1]
    subprocess.run(switches[client], input=b"go", cwd=world.folder, capture_output=True, timeout=120, check=False)
    assert "tool ran" in world.marks
    assert [] != tools_in(world.model.requests[0].document)
