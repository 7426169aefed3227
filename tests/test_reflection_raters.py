"""The raters: clients of agents, a command, and an address that speaks chat completions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json
import os
from pathlib import Path
import signal
import subprocess
import sys
from threading import Event, Thread
import time
import tomllib
from typing import Any, Self

import pytest

from helpers.transcripts import Script, ScriptedClient, answer, asked_for, client_in, find_transcripts, say
from tallybook.ledger.codec import decode
from tallybook.projections.history.event_rows import row
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.reflection import raters
from tallybook.projections.surfaces.reflection.raters import RaterError
from tallybook.projections.surfaces.reflection.worker import DONE, Plan, Result, work
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.workspace.settings import Settings

TEXT = answer("Run the tests first.", kpt_001="helpful")


@pytest.fixture
def owed(project: Path) -> Project:
    """Return a project in which a session that cited an entry is to be reflected on."""
    script = Script(find_transcripts(project) / "s1.jsonl").user("Fix it").agent("Done as [kpt_001] says.")
    return asked_for(project, script)


def reflect_once(project: Project, rater: str, model: str = "") -> tuple[Result, list[dict[str, Any]]]:
    """Reflect once; return what came of it, and the events of it without who recorded which when."""
    came: list[Result] = []
    assert DONE == work(project, Plan(Settings(rater=rater, model=model)), came.append)
    rows = [row(record) for batch in decode(open_log(project).read()) for record in batch.records]
    told = [row for row in rows if row["by"]["rater"] == "reflector"]
    return came[0], [{"kind": row["kind"], "body": row["body"], "by": row["by"]} for row in told]


def test_the_client_is_asked_with_nothing_of_a_session(
    owed: Project, client: ScriptedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No tools, no hooks, no instructions or memory of the user's, no system prompt of its own and no thinking."""
    monkeypatch.setenv("MAX_THINKING_TOKENS", "31999")
    inherited = ("CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION")
    for name in inherited:
        monkeypatch.setenv(name, "1")
    client.plans(TEXT)
    came, events = reflect_once(owed, "claude", "opus")
    assert "" == came.failed
    (asked,) = client.asked
    words, environment = asked["words"], asked["environment"]
    assert ["-p", "--output-format", "json", "--model", "opus", "--tools", ""] == words[:7]
    settings = json.loads(words[words.index("--settings") + 1])
    assert (True, "1") == (settings["disableAllHooks"], settings["env"]["CLAUDE_CODE_DISABLE_ATTACHMENTS"])
    assert ("1", []) == (asked["inside"], asked["beside"])
    assert str(owed.root) not in asked["cwd"]
    assert "User: Fix it" in asked["prompt"]
    assert 0 < len(words[words.index("--system-prompt") + 1]) < 200
    switches = ("MAX_THINKING_TOKENS", "CLAUDE_CODE_DISABLE_CLAUDE_MDS", "CLAUDE_CODE_DISABLE_AUTO_MEMORY")
    assert ["0", "1", "1"] == [environment[name] for name in switches]
    assert environment.keys().isdisjoint(inherited)
    # Measured: 2.0 kB besides the prompt, which an estimate of 3.5 bytes a token counts as well.
    sent_bytes = len(asked["prompt"].encode()) + 2_000
    assert sent_bytes / 3.5 + raters.ANSWER_TOKENS <= events[0]["body"]["tokens"]
    assert events[0]["body"]["tokens"] < sent_bytes / 3.5 + raters.ANSWER_TOKENS + 700


MODELS = {"models": [{"slug": "m-1", "shell_type": "unified_exec", "apply_patch_tool_type": "freeform", "other": 1}]}
SERVERS: list[dict[str, Any]] = [{"name": 'od"d.1', "enabled": True}, {"name": "two", "enabled": False}]


@pytest.fixture
def stand_in(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], ScriptedClient]:
    """Return a function that puts a stand-in of a name before every other command."""

    def make(name: str) -> ScriptedClient:
        made = client_in(tmp_path_factory.mktemp("bin"), name)
        monkeypatch.setenv("PATH", f"{made.folder}{os.pathsep}{os.environ['PATH']}")
        return made

    return make


def events(*items: dict[str, Any], **usage: int) -> dict[str, str]:
    """Return what Codex prints for these items and this usage."""
    made = [{"type": "thread.started"}, *({"type": "item.completed", "item": item} for item in items)]
    made.append({"type": "turn.completed", "usage": usage})
    return {"stdout": "\n".join(map(json.dumps, made))}


def as_step(value: Any) -> dict[str, str]:
    """Return a step that prints a value as JSON."""
    return {"stdout": json.dumps(value)}


MESSAGE = {"type": "agent_message", "text": TEXT}
COMPLETED = events(MESSAGE, input_tokens=1200, cached_input_tokens=200, output_tokens=50)


def stats(**tools: int) -> dict[str, Any]:
    """Return the statistics that Gemini prints: two models, of which the last one answered."""
    first = {"tokens": {"prompt": 100, "candidates": 5, "thoughts": 0, "total": 105}}
    second = {"tokens": {"input": 900, "prompt": 1000, "candidates": 30, "thoughts": 20, "cached": 100}}
    return {"models": {"router": first, "flash-1": second}, "tools": tools}


def config_of(words: list[str]) -> dict[str, Any]:
    """Return the settings in the words of a Codex command."""
    values = [words[index + 1] for index, word in enumerate(words) if word == "--config"]
    return {name: tomllib.loads(f"x = {value}")["x"] for name, _, value in (value.partition("=") for value in values)}


def test_codex_is_asked_without_tools_hooks_or_a_session(stand_in: Callable[[str], ScriptedClient]) -> None:
    """Its models lose their tools, each MCP server is turned off by name, and the folder is an empty one."""
    codex = stand_in("codex")
    turned_off = [server | {"enabled": False} for server in SERVERS]
    codex.plans(as_step(MODELS), as_step(SERVERS), as_step(turned_off), COMPLETED)
    reply, _ = raters.ask_rater("the prompt", Settings(rater="codex", model="m-1"))
    assert (TEXT, "m-1", 1200, 50) == (reply.text, reply.model, *reply.spent)
    words = [call["words"] for call in codex.asked]
    assert [["debug", "models"], ["mcp", "list"], ["mcp", "list"], ["exec", "--json"]] == [word[:2] for word in words]
    last = codex.asked[-1]
    assert ["--ephemeral", "--skip-git-repo-check", "--sandbox", "read-only", "--model", "m-1"] == last["words"][2:8]
    assert ("the prompt", "1", []) == (last["prompt"], last["inside"], last["beside"])
    config = config_of(last["words"])
    assert {'od"d.1': {"enabled": False}} == config["mcp_servers"]
    off = ("features.hooks", "features.shell_tool", "features.plugins", "features.multi_agent_v2")
    assert [False] * 4 == [config[name] for name in off]
    assert ("disabled", [], "never") == (config["web_search"], config["notify"], config["approval_policy"])
    assert str(Path(config["model_catalog_json"]).parent) == last["environment"]["CODEX_SQLITE_HOME"]
    assert not Path(last["cwd"]).exists()


def test_gemini_is_asked_without_tools_hooks_or_a_session(
    stand_in: Callable[[str], ScriptedClient], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a home of its own with links to the user's login and settings alone, and no tool is allowed."""
    users = tmp_path_factory.mktemp("users")
    monkeypatch.setenv("GEMINI_CLI_HOME", str(users))
    monkeypatch.setenv("GEMINI_SESSION_ID", "s1")
    (users / ".gemini").mkdir()
    for name in ("settings.json", "oauth_creds.json", "GEMINI.md", "projects.json"):
        (users / ".gemini" / name).write_text(name)
    gemini = stand_in("gemini")
    listing = tmp_path_factory.mktemp("seen") / "listing"
    script = gemini.folder / "gemini"
    script.rename(gemini.folder / "real")
    script.write_text(
        f"#!/bin/sh\n(cd ..; find . ! -type d; cat work/.gemini/settings.json deny.toml) > {listing}\n"
        f'exec {gemini.folder / "real"} "$@"\n'
    )
    script.chmod(0o755)
    gemini.plans(as_step({"response": TEXT, "stats": stats(totalCalls=1, totalSuccess=0)}))
    reply, _ = raters.ask_rater("the prompt", Settings(rater="gemini"))
    assert (TEXT, "flash-1", 1100, 55) == (reply.text, reply.model, *reply.spent)
    (asked,) = gemini.asked
    assert ["-p", "", "--output-format", "json", "--model", "flash", "--admin-policy"] == asked["words"][:7]
    assert ("the prompt", "1", [".gemini"]) == (asked["prompt"], asked["inside"], asked["beside"])
    environment = asked["environment"]
    assert ("true", False) == (environment["GEMINI_CLI_TRUST_WORKSPACE"], "GEMINI_SESSION_ID" in environment)
    assert str(users) != environment["GEMINI_CLI_HOME"]
    seen = listing.read_text()
    files = {"./.env", "./.gemini/settings.json", "./.gemini/oauth_creds.json", "./work/.gemini/settings.json"}
    assert files | {"./deny.toml", "./system.md"} == {line for line in seen.splitlines() if line.startswith("./")}
    assert [True] * 3 == [word in seen for word in ('"core": []', '"enabled": false', 'decision = "deny"')]
    assert "settings.json" == (users / ".gemini" / "settings.json").read_text()
    assert not Path(asked["cwd"]).exists()


LISTED = [as_step(MODELS), as_step([])]
CLIENT_FAILURES: dict[str, tuple[list[dict[str, Any]], str, str, int]] = {
    "claude, no login": ([{"stdout": "Invalid API key", "code": 1}], "unavailable",
                         "claude ended with 1: Invalid API key", 0),
    "claude, error": ([say("Overloaded", is_error=True)], "unavailable", "Overloaded", 1200),
    "claude, refusal": ([say("I cannot.", stop_reason="refusal")], "refused", "I cannot.", 1200),
    "claude, prose": ([say("I cannot help.")], "unusable", "the answer holds no whole JSON object", 1200),
    "codex, no command of that name": ([{"stdout": "", "stderr": "unrecognized subcommand", "code": 2}], "unavailable",
                                       "codex ended with 2: unrecognized subcommand", 0),
    "codex, another catalog": ([as_step([1])], "unavailable", "codex has no list of models that Tallybook can read", 0),
    "codex, a server stays": ([as_step(MODELS), as_step(SERVERS), as_step(SERVERS)], "unavailable",
                              'codex does not turn off the MCP server od"d.1, so it is not asked', 0),
    "codex, a tool": ([*LISTED, events({"type": "command_execution"}, MESSAGE)], "unusable",
                      "codex ran a tool, command_execution, although it has none", -1),
    "codex, failed": ([*LISTED, as_step({"type": "turn.failed", "error": {"message": "no login"}})], "unavailable",
                      "codex ended with 0: no login", 0),
    "codex, prose": ([*LISTED, events({"type": "agent_message", "text": "no"}, input_tokens=7)], "unusable",
                     "the answer holds no whole JSON object", 7),
    "gemini, no login": ([as_step({"error": {"message": "no login", "code": 41}}) | {"code": 41}], "unavailable",
                         "gemini ended with 41: no login", 0),
    "gemini, a tool": ([as_step({"response": TEXT, "stats": stats(totalSuccess=1)})], "unusable",
                       "gemini ran a tool, although it has none", 1100),
    "gemini, prose": ([as_step({"response": "no", "stats": stats()})], "unusable", "holds no whole JSON object", 1100),
}  # fmt: skip
"""Client and case → what it prints, call by call; cause, reason and tokens, -1 for what was expected."""


@pytest.mark.parametrize("name", CLIENT_FAILURES)
def test_what_a_client_comes_to_nothing_with_is_a_failure(stand_in: Callable[[str], ScriptedClient], name: str) -> None:
    """It has its cause, its reason and its cost; Codex is sent nothing of a session before its tools are known."""
    rater = name.partition(",")[0]
    steps, cause, reason, tokens = CLIENT_FAILURES[name]
    client = stand_in(rater)
    client.plans(*steps)
    with pytest.raises(RaterError) as error:
        raters.ask_rater("the prompt", Settings(rater=rater))
    expected = raters.estimate_tokens("the prompt") if tokens < 0 else tokens
    assert (cause, expected) == (error.value.cause, error.value.spent[0])
    assert reason in error.value.reason
    assert len(steps) == len(client.asked)
    is_sent = rater != "codex" or (len(steps) == 3 and "stays" not in name)
    assert is_sent == ("the prompt" in client.asked[-1]["prompt"])


def test_a_client_that_hangs_ends_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that it starts in its turn is ended, too, and the cost is what was expected."""
    script = tmp_path / "gemini"
    child = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"
    script.write_text(
        f"#!{sys.executable}\nimport os, subprocess\nos.chdir({str(tmp_path)!r})\n"
        f"subprocess.run([{sys.executable!r}, '-c', {child!r}])\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(raters, "TIMEOUT_S", 2)
    with pytest.raises(RaterError) as error:
        raters.ask_rater("the prompt", Settings(rater="gemini"))
    assert "gemini gave no answer within 2 s" == error.value.reason
    assert raters.estimate_tokens("the prompt") == error.value.spent[0]
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False).stdout.strip()
        if not state or state.startswith(b"Z"):
            return
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the process that the client started still runs")


KEY = "key-of-a-test"
Step = dict[str, Any]


class Address:
    """A server that does as planned, the last step again and again, and keeps what it was asked."""

    def __init__(self) -> None:
        """Begin with nothing planned."""
        self.steps: list[Step] = []
        self.asked: list[Step] = []
        self.closing = Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def __enter__(self) -> Self:
        """Serve from now on."""
        Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, without waiting for what still hangs."""
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()


def _handler(address: Address) -> type[BaseHTTPRequestHandler]:
    class RaterHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Note that a redirect was followed."""
            self._answer(b"")

        def do_POST(self) -> None:
            """Do the next step."""
            self._answer(self.rfile.read(int(self.headers["content-length"])))

        def _answer(self, data: bytes) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            address.asked.append({"path": self.path, "headers": headers, "body": json.loads(data or b"{}")})
            step = address.steps[min(len(address.asked), len(address.steps)) - 1]
            body = step["body"] if isinstance(step["body"], bytes) else json.dumps(step["body"]).encode()
            self.send_response(step.get("status", 200))
            for name, value in step.get("headers", {"content-length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self._send(body, step)
            except OSError:
                self.close_connection = True

        def _send(self, body: bytes, step: Step) -> None:
            address.closing.wait(step.get("hangs_s", 0))
            parts = [body] if "drips_s" not in step else [body[at : at + 1] for at in range(len(body))]
            for part in parts:
                self.wfile.write(part)
                self.wfile.flush()
                if address.closing.wait(step.get("drips_s", 0)):
                    return

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return RaterHandler


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[Address]:
    """Return an address on loopback, with a key for it in the environment."""
    monkeypatch.setenv("KEY_OF_A_TEST", KEY)
    with Address() as made:
        yield made


def completion(text: str | None, stop: Any = "stop", usage: Any = None, **message: Any) -> Step:
    """Return what an address answers where its model says this."""
    choice = {"index": 0, "finish_reason": stop, "message": {"role": "assistant", "content": text} | message}
    told = {"prompt_tokens": 1200, "completion_tokens": 50, "total_tokens": 1250} if usage is None else usage
    return {"body": {"object": "chat.completion", "model": "m-1-exact", "choices": [choice], "usage": told}}


def ask(address: str, model: str = "m-1", key_variable: str = "KEY_OF_A_TEST") -> Any:
    """Return what the rater replies."""
    return raters.ask_rater(
        "the prompt", Settings(rater="openai", model=model, address=address, key_variable=key_variable)
    )[0]


def refusal(address: str, model: str = "m-1", key_variable: str = "KEY_OF_A_TEST") -> RaterError:
    """Return the error of the rater."""
    with pytest.raises(RaterError) as error:
        ask(address, model, key_variable)
    return error.value


def test_an_odd_cause_of_a_stop_is_passed_over(address: Address) -> None:
    """An answer whose `finish_reason` is no text is an answer, and does not end the worker."""
    address.steps = [completion(TEXT, stop=["length"])]
    assert TEXT == ask(address.url).text


def test_an_address_is_asked_for_one_completion(address: Address) -> None:
    """The prompt alone, no tool, not streamed, with a bounded answer; the key is in one header."""
    address.steps = [completion(TEXT)]
    reply = ask(address.url + "/")
    assert (TEXT, "m-1-exact", 1200, 50) == (reply.text, reply.model, *reply.spent)
    (asked,) = address.asked
    assert ("/v1/chat/completions", f"Bearer {KEY}") == (asked["path"], asked["headers"]["authorization"])
    body = asked["body"]
    assert {"max_tokens", "messages", "model", "stream"} == body.keys()
    assert ("m-1", False) == (body["model"], body["stream"])
    assert ["system", "user"] == [message["role"] for message in body["messages"]]
    assert "the prompt" == body["messages"][1]["content"]
    more = len(json.dumps(body).encode()) - len(json.dumps("the prompt").encode())
    assert 0 < more < raters.OVERHEAD_BYTES


def test_a_server_that_wants_another_limit_is_asked_again(address: Address) -> None:
    """Newer models of OpenAI refuse the field that every other server knows; what is refused costs nothing."""
    error = {"error": {"message": "Unsupported parameter: use 'max_completion_tokens' instead"}}
    address.steps = [{"status": 400, "body": error}, completion(TEXT)]
    assert TEXT == ask(address.url).text
    assert [False, True] == ["max_completion_tokens" in asked["body"] for asked in address.asked]
    assert "max_tokens" not in address.asked[1]["body"]


BIG = b" " * (raters.MAX_ANSWER_BYTES + 1)
CALL = [{"id": "c1", "type": "function", "function": {"name": "sh", "arguments": "{}"}}]
FAILURES: dict[str, tuple[Step, str, str, int]] = {
    "401": ({"status": 401, "body": {"error": {"message": f"wrong key {KEY}"}}}, "unavailable", "401: wrong key …", 0),
    "500": ({"status": 500, "body": {"error": "it broke"}}, "unavailable", "answered 500: it broke", 0),
    "no JSON": ({"body": b"<html>hello</html>"}, "unavailable", "not a chat completion", 0),
    "too long": ({"body": BIG}, "unavailable", "the answer has more than 4,194,304 bytes", 0),
    "cut connection": ({"body": b"{}", "headers": {"content-length": "9"}}, "unavailable", "", 0),
    "cut off": (completion(TEXT[:30], "length"), "unusable", "the answer was cut off", 1200),
    "filtered": (completion("", "content_filter"), "refused", "it refused", 1200),
    "refusal": (completion(None, refusal="I cannot."), "refused", "I cannot.", 1200),
    "a tool": (completion(None, "tool_calls", tool_calls=CALL), "unusable", "it called a tool", 1200),
    "prose": (completion("I cannot help."), "unusable", "holds no whole JSON object", 1200),
    "no usage": (completion("no", usage=()), "unusable", "holds no whole JSON object", -1),
}
"""What the address answers → cause, reason, tokens; -1 for what was expected."""


@pytest.mark.parametrize("name", FAILURES)
def test_what_comes_to_nothing_is_a_failure(address: Address, name: str) -> None:
    """With its cause, its reason and its cost, and never with the key."""
    step, cause, reason, tokens = FAILURES[name]
    address.steps = [step]
    error = refusal(address.url)
    expected = raters.estimate_tokens("the prompt") if tokens < 0 else tokens
    assert (cause, expected) == (error.cause, error.spent[0])
    assert reason in error.reason
    assert KEY not in str(error)
    assert 1 == len(address.asked)


@pytest.mark.parametrize("status", [302, 308])
def test_a_redirect_is_not_followed(address: Address, status: int) -> None:
    """Neither the key nor the session goes where the user's settings do not say."""
    with Address() as other:
        other.steps = [completion(TEXT)]
        headers = {"location": f"{other.url}/chat/completions", "content-length": "0"}
        address.steps = [{"status": status, "body": b"", "headers": headers}]
        error = refusal(address.url)
        assert f"{address.url} answered {status}: is a redirect, which is not followed" == error.reason
        assert (1, []) == (len(address.asked), other.asked)


@pytest.mark.parametrize(
    "url",
    [
        *("http://api.example.com/v1", "http://127.0.0.1.example.com/v1", "http://localhost:1@example.com/v1"),
        *("https://user:word@example.com/v1", "ftp://127.0.0.1/v1", "file:///etc/hostname", "127.0.0.1:1/v1"),
    ],
)
def test_only_https_or_this_machine_is_asked(url: str) -> None:
    """Whoever calls the rater: plain http to another machine would show key and session to everyone between."""
    reason = "the `address` is not https, nor on this machine; set it in the section [reflection] of your own"
    assert refusal(url).reason.startswith(reason)


def test_what_is_missing_is_named(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    """Address, model and key, before anything is sent."""
    assert refusal("").reason.startswith("no `address` is set; ")
    assert refusal(address.url, model="").reason.startswith("no `model` is set")
    for key in ("", "two\nlines", "schlüssel"):
        monkeypatch.setenv("KEY_OF_A_TEST", key)
        assert "KEY_OF_A_TEST is not set, or has characters that no key has" in refusal(address.url).reason
    assert [] == address.asked


@pytest.mark.parametrize("step", [{"hangs_s": 30}, {"drips_s": 0.1}], ids=["hangs", "drips"])
def test_an_answer_that_does_not_end_is_not_waited_for(
    address: Address, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    """A server that sends a byte now and then has no more time than one that sends nothing."""
    monkeypatch.setattr(raters, "TIMEOUT_S", 1)
    address.steps = [completion(TEXT) | step]
    begin = time.monotonic()
    error = refusal(address.url)
    assert ("unavailable", "no answer in time") == (error.cause, error.reason)
    assert raters.estimate_tokens("the prompt") == error.spent[0]
    assert time.monotonic() - begin < 10


def test_a_proxy_gets_nothing_that_is_for_this_machine(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other addresses go through the proxy of the environment; plain http to a proxy would leave this machine."""
    with Address() as proxy:
        for name in ("http_proxy", "https_proxy", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        address.steps = [completion(TEXT)]
        assert TEXT == ask(address.url).text
        assert [] == proxy.asked
        # The proxy is asked for a tunnel, which this one does not have.
        assert "Tunnel connection failed: 501" in refusal("https://api.example.com/v1").reason
