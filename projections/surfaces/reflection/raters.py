"""The raters, a row each: none, the agent's own client, and the provider's SDK."""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.errors import TallybookError
from tallybook.projections.reflections import NO_RATER
from tallybook.projections.surfaces.hooks.handler import REFLECTING_VARIABLE
from tallybook.projections.surfaces.reflection import prompt as prompts
from tallybook.projections.surfaces.reflection.transcript import load_object
from tallybook.projections.surfaces.workspace.installation import install_command
from tallybook.projections.surfaces.writing import secrets

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.projections.surfaces.reflection.prompt import Answer

TIMEOUT_S: Final = 300
"""Seconds that a model has for its answer, unless the variable TALLYBOOK_TIMEOUT_S names another number."""
MAX_TIMEOUT_S: Final = 86_400
_REASON_CHARS: Final = 300
_MAX_TOKENS: Final = 10**12

_SYSTEM: Final = "You review what a coding agent did in a session. Answer with one JSON object and nothing else."
"""Replaces the client's own system prompt, which is twenty times as long."""
_SWITCHES: Final = {
    REFLECTING_VARIABLE: "1",
    "MAX_THINKING_TOKENS": "0",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
}
"""Variables by which the client sends no instructions of the user, does not think, and keeps no memory folder."""
_SESSION_VARIABLES: Final = frozenset((
    *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_PROJECT_DIR"),
    *("CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_ENV_FILE", "CLAUDE_EFFORT"),
))  # fmt: skip
"""Variables that the client sets for the processes of a session."""
_CLAUDE_BYTES: Final = 1_300
"""What the client sends with the prompt: its system prompt, the date, and the fields of the request."""

UNAVAILABLE: Final = "unavailable"
REFUSED: Final = "refused"
UNUSABLE: Final = "unusable"


@attrs.frozen
class Reply:
    """The answer of a model.

    Attributes:
        text: The answer, word for word.
        model: The model's name as the provider gives it.
        input_tokens: Tokens sent, those from a cache included.
        output_tokens: Tokens of the answer.
    """

    text: str
    model: str
    input_tokens: int
    output_tokens: int


class RaterError(TallybookError):
    """The rater gave no usable answer."""

    def __init__(self, cause: str, reason: str, input_tokens: int = 0, output_tokens: int = 0, model: str = "") -> None:
        """Take the fields of ``reflection.failed``; the reason comes from a provider and may hold anything."""
        self.cause, self.model = cause, _clean(model)
        # Masked before it is cut, as half of a secret is not recognised.
        self.reason = " ".join(secrets.mask(_clean(reason)).text.split())[:_REASON_CHARS]
        self.input_tokens, self.output_tokens = input_tokens, output_tokens
        super().__init__(f"the rater: {self.reason}; `tallybook reflect` tries again")


def _clean(text: object) -> str:
    """Return a text that UTF-8 can encode, empty for another value."""
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else ""


@attrs.frozen
class Rater:
    """A rater.

    Attributes:
        ask: Sends a model (its name, empty for the usual one) a prompt; None where nothing is sent.
        more_bytes: What is sent with the prompt, in bytes.
    """

    ask: Callable[[str, str], Reply] | None
    more_bytes: int = 0


def _claude(model: str, prompt: str) -> Reply:
    """Ask through Claude Code's headless client: the prompt alone, no tools, no hooks, and no saved session."""
    command = ["claude", "-p", "--output-format", "json"]
    command += ["--model", model or "haiku", "--tools", "", "--strict-mcp-config", "--no-session-persistence"]
    command += ["--settings", '{"disableAllHooks": true}', "--system-prompt", _SYSTEM]
    try:
        # An empty folder has no project's instructions.
        with tempfile.TemporaryDirectory(prefix="tallybook-") as folder:
            done = subprocess.run(  # noqa: S603 - the agent's own client, with words of ours and of the settings
                command,
                input=prompt.encode("utf-8", "replace"),
                capture_output=True,
                cwd=folder,
                env={name: value for name, value in os.environ.items() if name not in _SESSION_VARIABLES} | _SWITCHES,
                timeout=_timeout_s(),
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        spent = estimate_tokens("claude", prompt)
        raise RaterError(UNAVAILABLE, f"claude gave no answer within {_timeout_s():g} s", spent, model=model) from error
    except OSError as error:
        raise RaterError(UNAVAILABLE, f"claude cannot be run: {error}") from error
    return _claude_reply(done, model)


def _claude_reply(done: subprocess.CompletedProcess[bytes], model: str) -> Reply:
    """Return the answer that the client printed: one JSON object with ``result`` and ``usage``."""
    fields = load_object(done.stdout)
    if not fields:
        output = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        what = f"claude ended with {done.returncode}: {output or 'and said nothing'}"
        raise RaterError(UNAVAILABLE, what, model=model)
    spent = _spent(fields.get("usage"))
    used = fields.get("modelUsage")
    model = next(iter(used), model) if isinstance(used, dict) else model
    text = fields.get("result")
    if done.returncode or fields.get("is_error") or not isinstance(text, str):
        what = text if isinstance(text, str) else str(fields.get("subtype"))
        raise RaterError(UNAVAILABLE, f"claude ended with {done.returncode}: {what}", *spent, model=model)
    return _reply(text, fields.get("stop_reason"), model, spent)


def _reply(text: str, stop: object, model: object, spent: tuple[int, int]) -> Reply:
    """Return an answer, unless the model refused or was cut off."""
    named = _clean(model)
    if stop == "refusal":
        raise RaterError(REFUSED, text or "it refused", *spent, model=named)
    if stop == "max_tokens":
        raise RaterError(UNUSABLE, "the answer was cut off", *spent, model=named)
    return Reply(_clean(text), named, *spent)


def _spent(usage: object) -> tuple[int, int]:
    """Return input and output tokens as a provider counts them; those from a cache count as input."""
    fields: dict[str, Any] = usage if isinstance(usage, dict) else {}

    def count(*names: str) -> int:
        numbers = [value for name in names if type(value := fields.get(name)) is int]
        return min(max(sum(numbers), 0), _MAX_TOKENS)

    sent = count("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sent, count("output_tokens")


def _anthropic(model: str, prompt: str) -> Reply:
    """Ask through the provider's SDK."""
    try:
        import anthropic
    except ImportError as error:
        what = f"the package anthropic is not installed; run: {install_command('anthropic')}"
        raise RaterError(UNAVAILABLE, what) from error
    get = os.environ.get
    wanted = get("AGENTIC_CONTEXT_MODEL") or model or get("ANTHROPIC_MODEL") or get("ANTHROPIC_DEFAULT_HAIKU_MODEL")
    wanted = wanted or "claude-haiku-4-5"
    try:
        # For None the SDK reads its own variables: ANTHROPIC_API_KEY, _AUTH_TOKEN, _BASE_URL.
        client = anthropic.Anthropic(
            api_key=get("AGENTIC_CONTEXT_API_KEY") or None,
            base_url=get("AGENTIC_CONTEXT_BASE_URL") or None,
            timeout=_timeout_s(),
            # The worker tries again later, and counts what each call may have cost.
            max_retries=0,
        )
        with client:
            # Raw: a server at a wrong address need not answer with a message.
            answer = client.messages.with_raw_response.create(
                model=wanted,
                max_tokens=prompts.ANSWER_TOKENS,
                messages=[{"role": "user", "content": prompt}],
            )
    except anthropic.APITimeoutError as error:
        raise RaterError(UNAVAILABLE, "no answer in time", prompts.estimate_tokens(prompt), model=wanted) from error
    except (anthropic.AnthropicError, TypeError, ValueError) as error:
        # The SDK raises TypeError where there is no key at all.
        raise RaterError(UNAVAILABLE, f"{type(error).__name__}: {error}", model=wanted) from error
    return _message(answer.http_response.content, wanted)


def _message(data: bytes, wanted: str) -> Reply:
    """Return the answer in the data that a provider sent."""
    fields = load_object(data)
    blocks = fields.get("content")
    if not isinstance(blocks, list):
        raise RaterError(UNAVAILABLE, "the answer is not a message of the provider's", model=wanted)
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    answer = "".join(text for text in texts if isinstance(text, str))
    return _reply(answer, fields.get("stop_reason"), fields.get("model") or wanted, _spent(fields.get("usage")))


def _timeout_s() -> float:
    """Return how long a model has, 1 s to a day."""
    try:
        timeout_s = float(os.environ.get("TALLYBOOK_TIMEOUT_S") or TIMEOUT_S)
    except ValueError:
        return TIMEOUT_S
    # False for a NaN.
    return timeout_s if 1 <= timeout_s <= MAX_TIMEOUT_S else TIMEOUT_S


def ask_rater(rater: str, model: str, prompt: str) -> tuple[Reply, Answer]:
    """Send a rater other than NO_RATER a prompt, and return its reply and what that says.

    Raises:
        RaterError: It gave no answer, or one that cannot be used.
    """
    ask = RATERS[rater].ask
    if ask is None:
        raise RaterError(UNAVAILABLE, "no rater is chosen")
    reply = ask(model, prompt)
    try:
        return reply, prompts.read_answer(reply.text)
    except prompts.UnusableError as error:
        spent = (reply.input_tokens, reply.output_tokens)
        raise RaterError(UNUSABLE, f"the answer {error.what}", *spent, model=reply.model) from error


def estimate_tokens(rater: str, prompt: str) -> int:
    """Return about how many tokens a prompt costs with a rater, the answer included."""
    return prompts.estimate_tokens(prompt, RATERS[rater].more_bytes)


RATERS: Final[dict[str, Rater]] = {
    # No model, no key, no cost; citations are still recorded with a quote.
    NO_RATER: Rater(None),
    # Claude Code's own client, headless, with the user's login.
    "claude": Rater(_claude, _CLAUDE_BYTES),
    # The provider's SDK (the extra `anthropic`), with a key of its own.
    "anthropic": Rater(_anthropic),
}
"""Name in the settings → the rater."""
