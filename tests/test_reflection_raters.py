"""Who is asked: the provider's SDK against a server on loopback, and the agent's client against a stand-in."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json
import os
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

from helpers.transcripts import Script, answer, asked_for, kept, said
from tallybook.ledger.encoding.codec import decode
from tallybook.projections.event_rows import row
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.reflection import prompt as prompts
from tallybook.projections.surfaces.reflection.schedule import Plan
from tallybook.projections.surfaces.reflection.worker import DONE, Result, work

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from helpers.transcripts import Client
    from tallybook.projections.surfaces.workspace.project import Project

TEXT = answer("Run the tests first.", kpt_001="helpful")
Steps = list[dict[str, Any]]


class Provider:
    """A server that speaks the provider's protocol: it answers as planned, the last answer again and again."""

    def __init__(self) -> None:
        """Begin with nothing planned."""
        self.steps: Steps = []
        self.asked: Steps = []
        self.closing = Event()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                """Answer the next call."""
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                provider.asked.append({"path": self.path, "headers": dict(self.headers), "body": body})
                step = provider.steps[min(len(provider.asked), len(provider.steps)) - 1]
                if step.get("hangs"):
                    provider.closing.wait(30)
                    return
                data = json.dumps(step["body"]).encode()
                self.send_response(step.get("status", 200))
                self.send_header("content-type", "application/json")
                # The SDK waits as long as it is told before it asks again.
                self.send_header("retry-after-ms", "1")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data[: step.get("cut", len(data))])

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """Return a provider's server that the SDK is told to use."""
    pytest.importorskip("anthropic", reason="the extra `anthropic` is not installed")
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "AGENTIC_CONTEXT_"))]:
        monkeypatch.delenv(name)
    made = Provider()
    monkeypatch.setenv("AGENTIC_CONTEXT_BASE_URL", made.url)
    monkeypatch.setenv("AGENTIC_CONTEXT_API_KEY", "sk-test")
    yield made
    made.closing.set()
    made.server.shutdown()
    made.server.server_close()


def message(text: str, **fields: Any) -> dict[str, Any]:
    """Return what the provider answers where its model says this."""
    usage = {"input_tokens": 1000, "cache_read_input_tokens": 200, "output_tokens": 50}
    body = {"id": "m1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5", "usage": usage}
    content = [{"type": "text", "text": text}]
    return {"body": body | {"content": content, "stop_reason": "end_turn", "stop_sequence": None} | fields}


def problem(status: int, kind: str) -> dict[str, Any]:
    """Return an error of the provider."""
    return {"status": status, "body": {"type": "error", "error": {"type": kind, "message": f"{kind} it is"}}}


@pytest.fixture
def owed(project: Path) -> Project:
    """Return a project in which a session that cited an entry is to be reflected on."""
    script = Script(kept(project) / "s1.jsonl").user("Fix it").agent("Done as [kpt_001] says.")
    return asked_for(project, script)


def reflected(project: Project, rater: str, model: str = "") -> tuple[Result, list[dict[str, Any]]]:
    """Reflect once; return what came of it, and the events of it without who recorded which when."""
    came: list[Result] = []
    assert DONE == work(project, Plan(rater, model), came.append)
    rows = [row(record) for batch in decode(open_log(project).read()) for record in batch.records]
    told = [one for one in rows if one["by"]["rater"] == "reflector"]
    return came[0], [{"kind": one["kind"], "body": one["body"], "by": one["by"]} for one in told]


def test_both_end_in_the_same_events(owed: Project, project: Path, provider: Provider, client: Client) -> None:
    """Through the SDK or through the client: the same batch, but for who was asked and what the client sends more."""
    provider.steps = [message(TEXT)]
    client.plans(TEXT)
    script = Script(kept(project / "other") / "s1.jsonl").user("Fix it").agent("Done as [kpt_001] says.")
    other = asked_for(project / "other", script)
    first, ours = reflected(owed, "anthropic")
    second, theirs = reflected(other, "claude")
    more = [one[0]["body"].pop("tokens") for one in (theirs, ours)]
    assert 0 < more[0] - more[1] < 1_400 / 3.5
    assert ours == json.loads(json.dumps(theirs).replace('"claude"', '"anthropic"'))
    assert [
        "reflection.started",
        "point.noted",
        "point.noted",
        "transcript.read",
        "reflection.completed",
        "point.added",
        "point.rated",
        "playbook.updated",
    ] == [one["kind"] for one in ours]
    assert (first, second) == (Result("s1", 1250, ("kpt_002",), 1, (), 1), Result("s1", 1250, ("kpt_002",), 1, (), 1))
    assert "claude-haiku-4-5" == ours[-1]["by"]["model"]


def test_the_sdk_is_asked_as_the_environment_says(
    owed: Project, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AGENTIC_CONTEXT_MODEL goes before the settings' model; key and address are its own."""
    provider.steps = [message(TEXT)]
    monkeypatch.setenv("AGENTIC_CONTEXT_MODEL", "model-of-the-environment")
    reflected(owed, "anthropic", "model-of-the-settings")
    (asked,) = provider.asked
    assert ("/v1/messages", "sk-test") == (asked["path"], key_of(asked))
    assert "model-of-the-environment" == asked["body"]["model"]
    assert "User: Fix it" in asked["body"]["messages"][0]["content"]


def key_of(asked: dict[str, Any]) -> str:
    """Return the key that a call came with; the SDK has put it into one header and into another."""
    headers = {name.lower(): value for name, value in asked["headers"].items()}
    return str(headers.get("x-api-key") or headers["authorization"].removeprefix("Bearer "))


@pytest.mark.parametrize(("setting", "model"), [("of-the-settings", "of-the-settings"), ("", "usual")])
def test_the_usual_names_are_fallbacks(
    owed: Project, provider: Provider, monkeypatch: pytest.MonkeyPatch, setting: str, model: str
) -> None:
    """Without Tallybook's own, key and address are found as the SDK finds them; the settings' model goes before."""
    for name in ("AGENTIC_CONTEXT_API_KEY", "AGENTIC_CONTEXT_BASE_URL"):
        monkeypatch.delenv(name)
    for name, value in (("API_KEY", "sk-usual"), ("BASE_URL", provider.url), ("MODEL", "usual")):
        monkeypatch.setenv(f"ANTHROPIC_{name}", value)
    provider.steps = [message(TEXT)]
    reflected(owed, "anthropic", setting)
    (asked,) = provider.asked
    assert ("sk-usual", model) == (key_of(asked), asked["body"]["model"])


CUT = {**message(TEXT), "cut": 100}
FAILURES: dict[str, tuple[dict[str, Any], str, str, int]] = {
    "429": (problem(429, "rate_limit_error"), "unavailable", "RateLimitError", 0),
    "500": (problem(500, "api_error"), "unavailable", "InternalServerError", 0),
    "529": (problem(529, "overloaded_error"), "unavailable", "overloaded_error it is", 0),
    "401": (problem(401, "authentication_error"), "unavailable", "AuthenticationError", 0),
    "no JSON": (CUT, "unavailable", "", 0),
    "cut off": (message(TEXT[:30], stop_reason="max_tokens"), "unusable", "the answer was cut off", 1250),
    "truncated": (message(TEXT[:30]), "unusable", "the answer holds no whole JSON object", 1250),
    "refusal": (message("I cannot.", stop_reason="refusal"), "refused", "I cannot.", 1250),
    "prose": (message("I cannot help with that."), "unusable", "the answer holds no whole JSON object", 1250),
    "empty": (message("", content=[]), "unusable", "the answer holds no whole JSON object", 1250),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_comes_to_nothing_is_a_failure(owed: Project, provider: Provider, name: str) -> None:
    """Recorded with its cause, its reason and its cost, never as an answer that found nothing."""
    step, cause, reason, tokens = FAILURES[name]
    provider.steps = [step]
    came, events = reflected(owed, "anthropic")
    assert ["reflection.started", "reflection.failed"] == [one["kind"] for one in events]
    assert (cause, tokens) == (events[-1]["body"]["cause"], came.tokens)
    assert reason in came.failed
    assert came.failed


def test_what_failed_is_asked_again(owed: Project, provider: Provider) -> None:
    """A person who asks does not wait, and the answer is recorded once."""
    provider.steps = [message("no"), message(TEXT)]
    assert reflected(owed, "anthropic")[0].failed
    came, events = reflected(owed, "anthropic")
    assert ((), 1) == (tuple(filter(None, [came.failed])), [one["kind"] for one in events].count("point.rated"))


def test_an_answer_that_never_comes_is_not_waited_for(
    owed: Project, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time that a model has, it is a failure that may have cost what was expected."""
    monkeypatch.setenv("TALLYBOOK_TIMEOUT_S", "1")
    provider.steps = [{"hangs": True}]
    came, events = reflected(owed, "anthropic")
    assert ("unavailable", "no answer in time") == (events[-1]["body"]["cause"], came.failed)
    assert came.tokens == events[0]["body"]["tokens"]


def test_a_provider_that_is_not_there_is_a_failure(
    owed: Project, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As is a key that is missing; both say so in one line."""
    provider.server.shutdown()
    provider.server.server_close()
    assert "APIConnectionError" in reflected(owed, "anthropic")[0].failed
    monkeypatch.delenv("AGENTIC_CONTEXT_API_KEY")
    assert "authentication" in reflected(owed, "anthropic")[0].failed


def test_the_client_is_asked_with_nothing_of_a_session(owed: Project, client: Client) -> None:
    """No tools, no hooks, no project's instructions, no session kept; our own hooks know that they mean nothing."""
    client.plans(TEXT)
    reflected(owed, "claude", "opus")
    (asked,) = client.asked
    words = asked["words"]
    assert ["-p", "--output-format", "json", "--model", "opus", "--tools", ""] == words[:7]
    settings = json.loads(words[words.index("--settings") + 1])
    assert (True, "1") == (settings["disableAllHooks"], settings["env"]["CLAUDE_CODE_DISABLE_ATTACHMENTS"])
    assert ("1", []) == (asked["inside"], asked["beside"])
    assert str(owed.root) not in asked["cwd"]
    assert "User: Fix it" in asked["prompt"]


def test_the_client_sends_the_prompt_and_little_else(
    owed: Project, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No system prompt of its own, no thinking, no instructions and no memory of the user's, whatever is set before."""
    monkeypatch.setenv("MAX_THINKING_TOKENS", "31999")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s1")
    client.plans(TEXT)
    came, events = reflected(owed, "claude")
    assert "" == came.failed
    (asked,) = client.asked
    words, environment = asked["words"], asked["environment"]
    system = words[words.index("--system-prompt") + 1]
    assert 0 < len(system) < 200
    switches = ("MAX_THINKING_TOKENS", "CLAUDE_CODE_DISABLE_CLAUDE_MDS", "CLAUDE_CODE_DISABLE_AUTO_MEMORY")
    assert ["0", "1", "1"] == [environment[name] for name in switches]
    assert "CLAUDE_CODE_SESSION_ID" not in environment
    # Measured: 1.2 kB besides the prompt, which an estimate of 3.5 bytes a token counts as well.
    sent_bytes = len(asked["prompt"].encode()) + 1_200
    assert sent_bytes / 3.5 + prompts.ANSWER_TOKENS <= events[0]["body"]["tokens"]
    assert events[0]["body"]["tokens"] < sent_bytes / 3.5 + prompts.ANSWER_TOKENS + 100


CLIENT_FAILURES: dict[str, tuple[dict[str, Any], str, str, int]] = {
    "no login": ({"stdout": "Invalid API key", "code": 1}, "unavailable", "claude ended with 1: Invalid API key", 0),
    "silence": ({"stdout": "", "code": 7}, "unavailable", "claude ended with 7: and said nothing", 0),
    "stderr": ({"stdout": "", "stderr": "unknown option", "code": 1}, "unavailable", "unknown option", 0),
    "error": (said("Overloaded", is_error=True), "unavailable", "Overloaded", 1250),
    "no text": (said("", result=None, subtype="error_max_turns"), "unavailable", "error_max_turns", 1250),
    "odd usage": (said("", result=7, usage={"input_tokens": "x"}), "unavailable", "success", 0),
    "refusal": (said("I cannot.", stop_reason="refusal"), "refused", "I cannot.", 1250),
    "prose": (said("I cannot help with that."), "unusable", "holds no whole JSON object", 1250),
}


@pytest.mark.parametrize("name", CLIENT_FAILURES)
def test_what_the_client_comes_to_nothing_with_is_a_failure(owed: Project, client: Client, name: str) -> None:
    """As through the SDK: with its cause, its reason, and its cost."""
    step, cause, reason, tokens = CLIENT_FAILURES[name]
    client.plans(step)
    came, events = reflected(owed, "claude")
    assert (cause, tokens) == (events[-1]["body"]["cause"], came.tokens)
    assert reason in came.failed


def test_a_client_that_hangs_or_is_not_there_is_a_failure(
    owed: Project, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended after its time."""
    monkeypatch.setenv("TALLYBOOK_TIMEOUT_S", "1")
    client.plans(said(TEXT) | {"sleep_s": 30})
    assert "claude gave no answer within 1 s" == reflected(owed, "claude")[0].failed
    monkeypatch.setenv("PATH", os.devnull)
    assert reflected(owed, "claude")[0].failed.startswith("claude cannot be run: ")
