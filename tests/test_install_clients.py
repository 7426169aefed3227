"""The files that ``init`` writes, as the real clients read them.

The commands are found on PATH, or in the folder that TALLYBOOK_CLIENTS names, such as a `node_modules/.bin`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from helpers.agent_settings import AGENTS, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from helpers.command_line import Answer

pytestmark = pytest.mark.usefixtures("_installed")


def find(name: str) -> str:
    """Return a client's command, and skip the test where it is not there."""
    folders = os.pathsep.join([os.environ.get("TALLYBOOK_CLIENTS", ""), os.environ["PATH"]])
    program = shutil.which(name, path=folders)
    if program is None:
        pytest.skip(f"{name} is neither on PATH nor in the folder that TALLYBOOK_CLIENTS names")
    return str(Path(program).absolute())


class Codex:
    """A server of Codex CLI, asked over standard input."""

    def __init__(self, program: str, project: Path) -> None:
        """Start the server, in its folder below the home folder."""
        words = [program, "app-server"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd=project)
        self.project = str(project)
        self.ask("initialize", {"clientInfo": {"name": "tests", "version": "0"}})

    def ask(self, method: str, params: Any) -> Any:
        """Return the answer to a request."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"id": method, "method": method, "params": params}).encode() + b"\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if (answer := json.loads(line)).get("id") == method:
                return answer["result"]
        raise AssertionError(f"{method}: the server ended")

    def listed(self, method: str) -> Any:
        """Return what it lists for the project."""
        (entry,) = self.ask(method, {"cwds": [self.project]})["data"]
        return entry


@pytest.fixture
def start_codex(project: Path) -> Iterator[Callable[[], Codex]]:
    """Return what starts a server of Codex CLI that trusts the project; each is ended after the test."""
    program = find("codex")
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    config = Path.home() / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text(f'[projects."{project}"]\ntrust_level = "trusted"\n')
    started: list[Codex] = []

    def start() -> Codex:
        started.append(Codex(program, project))
        return started[-1]

    yield start
    for server in started:
        server.process.terminate()
        server.process.communicate()


def test_codex_takes_the_hooks_and_skills(run: Callable[..., Answer], start_codex: Callable[[], Codex]) -> None:
    """It lists each event with its timeout, the skills, and neither a warning nor an error."""
    run("init", "codex")
    server = start_codex()
    entry = server.listed("hooks/list")
    hooks = {hook["key"].split(":")[1]: hook["timeoutSec"] for hook in entry["hooks"]}
    assert ([], []) == (entry["warnings"], entry["errors"])
    assert sorted(AGENTS["codex"].events.values()) == sorted(hooks.values())
    assert {"tallybook hook || :"} == {hook["command"] for hook in entry["hooks"]}
    skills = server.listed("skills/list")
    assert [] == skills["errors"]
    assert {"playbook", "score"} <= {skill["name"] for skill in skills["skills"] if skill["scope"] == "repo"}


@pytest.mark.parametrize("words", [["codex"], ["--user", "codex"]], ids=["project", "user"])
def test_codex_trusts_the_hooks_after_an_upgrade(
    run: Callable[..., Answer], start_codex: Callable[[], Codex], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """What it trusted once it still trusts when Tallybook's Python is another one; doctor reads the same record."""
    run("init", *words)
    assert "Codex CLI has no record of trust" in run("doctor").out
    hooks = start_codex().listed("hooks/list")["hooks"]
    assert {"untrusted"} == {hook["trustStatus"] for hook in hooks}
    with (Path.home() / ".codex" / "config.toml").open("a") as config:
        config.writelines(f'[hooks.state."{hook["key"]}"]\ntrusted_hash = "{hook["currentHash"]}"\n' for hook in hooks)
    monkeypatch.setattr("sys.executable", "/elsewhere/python3")
    assert "has the hooks already" in run("init", *words).out
    assert {"trusted"} == {hook["trustStatus"] for hook in start_codex().listed("hooks/list")["hooks"]}
    assert "Codex CLI has no record of trust" not in run("doctor").out


def test_gemini_calls_the_hooks(project: Path, run: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts with the file, and the playbook is injected before it asks a model, which does not answer here."""
    program = find("gemini")
    monkeypatch.setenv("GEMINI_API_KEY", "none")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("GEMINI_CLI_TRUST_WORKSPACE", "true")
    own = settings_of(AGENTS["gemini"], project, user=True)
    own.parent.mkdir()
    own.write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    run("init", "gemini")
    run("add", "Use type hints")
    process = subprocess.Popen(
        [program, "-p", "hello"],
        cwd=project,
        env={**os.environ, "CLAUDE_PROJECT_DIR": ""},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    shown = b""
    for line in process.stdout:
        shown += line
        if b"Attempt 1 failed" in line:
            break
    # It has started itself anew, as another process.
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert b"Attempt 1 failed" in shown
    assert b"nvalid" not in shown
    assert "1 entry injected" in run("log").out
