"""The rater `openai`, against an address on loopback that speaks chat completions, or does not."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json
import subprocess
import sys
from threading import Event, Thread
import time
from typing import TYPE_CHECKING, Any, Self

import pytest

from helpers.example_secrets import GITHUB
from helpers.transcripts import Script, answer, asked_for, kept
from tallybook.ledger.encoding.codec import decode
from tallybook.projections.event_rows import row
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.reflection import chat_completions, raters
from tallybook.projections.surfaces.reflection.replies import Question, RaterError
from tallybook.projections.surfaces.reflection.schedule import Plan
from tallybook.projections.surfaces.reflection.worker import DONE, Result, work

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = answer("Run the tests first.", kpt_001="helpful")
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
    class Handler(BaseHTTPRequestHandler):
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

    return Handler


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[Address]:
    """Return an address on loopback, with a key for it in the environment."""
    monkeypatch.setenv("KEY_OF_A_TEST", KEY)
    with Address() as made:
        yield made


def completion(text: str | None, stop: str = "stop", usage: Any = None, **message: Any) -> Step:
    """Return what an address answers where its model says this."""
    choice = {"index": 0, "finish_reason": stop, "message": {"role": "assistant", "content": text} | message}
    told = {"prompt_tokens": 1200, "completion_tokens": 50, "total_tokens": 1250} if usage is None else usage
    return {"body": {"object": "chat.completion", "model": "m-1-exact", "choices": [choice], "usage": told}}


def ask(address: str, model: str = "m-1", key_variable: str = "KEY_OF_A_TEST") -> Any:
    """Return what the rater replies."""
    return raters.ask_rater(
        "openai", Question(model=model, prompt="the prompt", address=address, key_variable=key_variable)
    )[0]


def refusal(address: str, model: str = "m-1", key_variable: str = "KEY_OF_A_TEST") -> RaterError:
    """Return the error of the rater."""
    with pytest.raises(RaterError) as error:
        ask(address, model, key_variable)
    return error.value


def test_an_address_is_asked_for_one_completion(address: Address) -> None:
    """The prompt alone, no tool, not streamed, with a bounded answer; the key is in one header."""
    address.steps = [completion(TEXT)]
    reply = ask(address.url + "/")
    assert (TEXT, "m-1-exact", 1200, 50) == (reply.text, reply.model, reply.input_tokens, reply.output_tokens)
    (asked,) = address.asked
    assert ("/v1/chat/completions", f"Bearer {KEY}") == (asked["path"], asked["headers"]["authorization"])
    body = asked["body"]
    assert {"max_tokens", "messages", "model", "stream"} == body.keys()
    assert ("m-1", False) == (body["model"], body["stream"])
    assert ["system", "user"] == [message["role"] for message in body["messages"]]
    assert "the prompt" == body["messages"][1]["content"]
    more = len(json.dumps(body).encode()) - len(json.dumps("the prompt").encode())
    assert 0 < more < chat_completions.CHAT_BYTES < more + 200


def test_an_address_that_needs_no_key_gets_none(address: Address) -> None:
    """Whatever keys the environment has."""
    address.steps = [completion(TEXT)]
    ask(address.url, key_variable="")
    assert "authorization" not in address.asked[0]["headers"]


def test_a_session_is_rated_by_an_address(address: Address, project: Path) -> None:
    """The worker records the same events as for any rater, with the model that answered and its cost."""
    address.steps = [completion(TEXT)]
    script = Script(kept(project) / "s1.jsonl").user("Fix it").agent("Done as [kpt_001] says.")
    results: list[Result] = []
    here = asked_for(project, script)
    assert DONE == work(here, Plan("openai", "m-1", address=address.url, key_variable="KEY_OF_A_TEST"), results.append)
    assert [("", 1250, 1, ("kpt_002",))] == [(one.failed, one.tokens, one.rated, one.added) for one in results]
    rows = [row(record) for batch in decode(open_log(here).read()) for record in batch.records]
    completed = next(one for one in rows if one["kind"] == "reflection.completed")
    assert ("openai", "m-1-exact") == (completed["body"]["rater"], completed["by"]["model"])
    assert KEY not in here.ledger.joinpath("events.jsonl").read_text()


def test_a_server_that_wants_another_limit_is_asked_again(address: Address) -> None:
    """Newer models of OpenAI refuse the field that every other server knows; what is refused costs nothing."""
    error = {"error": {"message": "Unsupported parameter: use 'max_completion_tokens' instead"}}
    address.steps = [{"status": 400, "body": error}, completion(TEXT)]
    assert TEXT == ask(address.url).text
    limits = ["max_completion_tokens" in asked["body"] for asked in address.asked]
    assert [False, True] == limits
    assert "max_tokens" not in address.asked[1]["body"]


def failed(status: int, body: Any) -> Step:
    """Return an answer with a status of an error."""
    return {"status": status, "body": body}


BIG = b" " * (chat_completions.MAX_ANSWER_BYTES + 1)
CALL = [{"id": "c1", "type": "function", "function": {"name": "sh", "arguments": "{}"}}]
FAILURES: dict[str, tuple[Step, str, str, int]] = {
    "401": (failed(401, {"error": {"message": f"wrong key {KEY}"}}), "unavailable", "answered 401: wrong key …", 0),
    "404": (failed(404, b"<html>no</html>"), "unavailable", "answered 404: <html>no</html>", 0),
    "429": (failed(429, {"error": {"message": "slow down"}}), "unavailable", "answered 429: slow down", 0),
    "500": (failed(500, {"error": "it broke"}), "unavailable", "answered 500: it broke", 0),
    "an error of another shape": (failed(503, [1]), "unavailable", "answered 503: [1]", 0),
    "no JSON": ({"body": b"<html>hello</html>"}, "unavailable", "not a chat completion", 0),
    "another JSON": ({"body": {"choices": [7]}}, "unavailable", "not a chat completion", 0),
    "too long": ({"body": BIG}, "unavailable", "the answer has more than 4,194,304 bytes", 0),
    "cut connection": ({"body": b"{}", "headers": {"content-length": "9"}}, "unavailable", "", 0),
    "cut off": (completion(TEXT[:30], "length"), "unusable", "the answer was cut off", 1200),
    "filtered": (completion("", "content_filter"), "refused", "it refused", 1200),
    "refusal": (completion(None, refusal="I cannot."), "refused", "I cannot.", 1200),
    "a tool": (completion(None, "tool_calls", tool_calls=CALL), "unusable", "it called a tool", 1200),
    "prose": (completion("I cannot help."), "unusable", "holds no whole JSON object", 1200),
    "parts": (completion(None), "unusable", "holds no whole JSON object", 1200),
    "no usage": (completion("no", usage=()), "unusable", "holds no whole JSON object", -1),
    "odd usage": (completion("no", usage={"prompt_tokens": "x"}), "unusable", "holds no whole JSON object", -1),
}
"""What the address answers → cause, reason, tokens; -1 for what was expected."""


@pytest.mark.parametrize("name", FAILURES)
def test_what_comes_to_nothing_is_a_failure(address: Address, name: str) -> None:
    """With its cause, its reason and its cost, and never with the key."""
    step, cause, reason, tokens = FAILURES[name]
    address.steps = [step]
    error = refusal(address.url)
    expected = raters.estimate_tokens("openai", "the prompt") if tokens < 0 else tokens
    assert (cause, expected) == (error.cause, error.input_tokens)
    assert reason in error.reason
    assert KEY not in str(error)
    assert 1 == len(address.asked)


def test_an_answer_without_a_cost_costs_what_was_expected(address: Address) -> None:
    """Local servers may not tell; the day's tokens are counted all the same."""
    address.steps = [completion(TEXT, usage={})]
    reply = ask(address.url)
    assert (raters.estimate_tokens("openai", "the prompt"), 0) == (reply.input_tokens, reply.output_tokens)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
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
    monkeypatch.delenv("KEY_OF_A_TEST")
    assert "the environment variable KEY_OF_A_TEST is not set" == refusal(address.url).reason
    for key in ("two\nlines", "schlüssel"):
        monkeypatch.setenv("KEY_OF_A_TEST", key)
        error = refusal(address.url)
        assert "the environment variable KEY_OF_A_TEST holds no key: it has characters that no key has" == error.reason
    assert [] == address.asked


@pytest.mark.parametrize("step", [{"hangs_s": 30}, {"drips_s": 0.1}], ids=["hangs", "drips"])
def test_an_answer_that_does_not_end_is_not_waited_for(
    address: Address, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    """A server that sends a byte now and then has no more time than one that sends nothing."""
    monkeypatch.setenv("TALLYBOOK_TIMEOUT_S", "1")
    address.steps = [completion(TEXT) | step]
    begin = time.monotonic()
    error = refusal(address.url)
    assert ("unavailable", "no answer in time") == (error.cause, error.reason)
    assert raters.estimate_tokens("openai", "the prompt") == error.input_tokens
    assert time.monotonic() - begin < 10


def test_an_address_that_is_not_there_is_a_failure(address: Address) -> None:
    """The reason says which address it was."""
    address.server.shutdown()
    address.server.server_close()
    assert refusal(address.url).reason.startswith(f"{address.url}: ")


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


def test_no_other_rater_loads_what_this_one_needs() -> None:
    """The modules for addresses are loaded once one is asked."""
    code = (
        "import sys; from tallybook.projections.surfaces.reflection import raters; "
        "print([name for name in ('urllib.request', 'http.client', 'ssl', 'anthropic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]\n" == done.stdout


def test_a_secret_in_a_reason_is_masked(address: Address) -> None:
    """An error of a server may quote anything, and the reason is recorded."""
    secret = GITHUB.secret
    address.steps = [failed(400, {"error": {"message": f"bad input: {secret}"}})]
    assert secret not in refusal(address.url).reason
