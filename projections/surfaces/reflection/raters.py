"""Who can be asked about a session, a row each: nobody, the agent's own client, or the provider's SDK."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.errors import TallybookError
from tallybook.projections.reflections import NO_RATER
from tallybook.projections.surfaces.hooks.handler import REFLECTING_VARIABLE
from tallybook.projections.surfaces.reflection import prompt as prompts
from tallybook.projections.surfaces.workspace.installation import install_command
from tallybook.projections.surfaces.writing import secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallybook.projections.surfaces.reflection.prompt import Judged

TIMEOUT_S: Final = 300
"""Seconds that a model has for its answer; the variable TALLYBOOK_TIMEOUT_S says otherwise."""
MAX_TIMEOUT_S: Final = 86_400
_REASON_CHARS: Final = 300
_MAX_TOKENS: Final = 10**12

_SYSTEM: Final = "You review what a coding agent did in a session. Answer with one JSON object and nothing else."
"""What takes the place of the client's own system prompt, which is twenty times as long."""
_SWITCHES: Final = {
    REFLECTING_VARIABLE: "1",
    "MAX_THINKING_TOKENS": "0",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
}
"""Variables with which the client sends no instructions of the user's, does not think, and keeps no memory folder."""
_OF_A_SESSION: Final = frozenset((
    *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_PROJECT_DIR"),
    *("CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_ENV_FILE", "CLAUDE_EFFORT"),
))  # fmt: skip
"""Variables that the client sets for what runs in a session."""
_CLAUDE_BYTES: Final = 1_300
"""What the client sends besides the prompt: its system prompt, the date, and the request's own fields."""

UNAVAILABLE: Final = "unavailable"
REFUSED: Final = "refused"
UNUSABLE: Final = "unusable"


@attrs.frozen
class Reply:
    """What a model answered.

    Attributes:
        text: Its answer, word for word.
        model: Which model it was, as it says itself.
        input_tokens: What it was sent, in tokens, what it had in a cache included.
        output_tokens: What it answered.
    """

    text: str
    model: str
    input_tokens: int
    output_tokens: int


class RaterError(TallybookError):
    """Nothing came of asking."""

    def __init__(self, cause: str, reason: str, input_tokens: int = 0, output_tokens: int = 0, model: str = "") -> None:
        """Keep what ``reflection.failed`` says of it; what a provider says may hold anything."""
        self.cause, self.model = cause, _clean(model)
        # Masked before it is cut: half of a secret is not known for one.
        self.reason = " ".join(secrets.mask(_clean(reason)).text.split())[:_REASON_CHARS]
        self.input_tokens, self.output_tokens = input_tokens, output_tokens
        super().__init__(f"the rater: {self.reason}; `tallybook reflect` tries again")


def _clean(text: object) -> str:
    """Return a text as the ledger can carry it, empty where it is none."""
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else ""


@attrs.frozen
class Rater:
    """Who can be asked.

    Attributes:
        about: What it is and takes, in one line.
        ask: Asks a model (its name, empty for the usual one) a prompt; None where nobody is asked.
        more_bytes: What is sent besides the prompt, in bytes.
    """

    about: str
    ask: Callable[[str, str], Reply] | None
    more_bytes: int = 0


def _claude(model: str, prompt: str) -> Reply:
    """Ask through Claude Code's headless client: the prompt alone, no tools, no hooks, and nothing kept of it."""
    command = ["claude", "-p", "--output-format", "json"]
    command += ["--model", model or "haiku", "--tools", "", "--strict-mcp-config", "--no-session-persistence"]
    command += ["--settings", '{"disableAllHooks": true}', "--system-prompt", _SYSTEM]
    try:
        # In an empty folder it finds no project's instructions.
        with tempfile.TemporaryDirectory(prefix="tallybook-") as folder:
            done = subprocess.run(  # noqa: S603 - the agent's own client, with words of ours and of the settings
                command,
                input=prompt.encode("utf-8", "replace"),
                capture_output=True,
                cwd=folder,
                env=_outside() | _SWITCHES,
                timeout=_timeout_s(),
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        spent = tokens("claude", prompt)
        raise RaterError(UNAVAILABLE, f"claude gave no answer within {_timeout_s():g} s", spent, model=model) from error
    except OSError as error:
        raise RaterError(UNAVAILABLE, f"claude cannot be run: {error}") from error
    return _claude_reply(done, model)


def _outside() -> dict[str, str]:
    """Return the environment without what says that this is a part of a running session."""
    return {name: value for name, value in os.environ.items() if name not in _OF_A_SESSION}


def _claude_reply(done: subprocess.CompletedProcess[bytes], model: str) -> Reply:
    """Return what the client printed: one JSON object with ``result`` and ``usage``."""
    try:
        found = json.loads(done.stdout)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        raise RaterError(UNAVAILABLE, f"claude ended with {done.returncode}: {said or 'and said nothing'}", model=model)
    spent = _spent(found.get("usage"))
    used = found.get("modelUsage")
    model = next(iter(used), model) if isinstance(used, dict) else model
    text = found.get("result")
    if done.returncode or found.get("is_error") or not isinstance(text, str):
        what = text if isinstance(text, str) else str(found.get("subtype"))
        raise RaterError(UNAVAILABLE, f"claude ended with {done.returncode}: {what}", *spent, model=model)
    return _reply(text, found.get("stop_reason"), model, spent)


def _reply(text: str, stop: object, model: object, spent: tuple[int, int]) -> Reply:
    """Return an answer, unless the model says that it is none."""
    named = _clean(model)
    if stop == "refusal":
        raise RaterError(REFUSED, text or "it refused", *spent, model=named)
    if stop == "max_tokens":
        raise RaterError(UNUSABLE, "the answer was cut off", *spent, model=named)
    return Reply(_clean(text), named, *spent)


def _spent(usage: object) -> tuple[int, int]:
    """Return tokens in and out as a provider counts them; what came from a cache counts as sent."""
    fields: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
    sent = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    numbers = [value if type(value := fields.get(field)) is int else 0 for field in (*sent, "output_tokens")]
    return min(max(sum(numbers[:-1]), 0), _MAX_TOKENS), min(max(numbers[-1], 0), _MAX_TOKENS)


def _anthropic(model: str, prompt: str) -> Reply:
    """Ask through the provider's SDK."""
    try:
        import anthropic
    except ImportError as error:
        what = f"the package anthropic is not installed; run: {install_command('anthropic')}"
        raise RaterError(UNAVAILABLE, what) from error
    wanted = _first("AGENTIC_CONTEXT_MODEL") or model or _first("ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL")
    wanted = wanted or "claude-haiku-4-5"
    try:
        # What is None the SDK looks for under its own names: ANTHROPIC_API_KEY, _AUTH_TOKEN, _BASE_URL.
        client = anthropic.Anthropic(
            api_key=_first("AGENTIC_CONTEXT_API_KEY"),
            base_url=_first("AGENTIC_CONTEXT_BASE_URL"),
            timeout=_timeout_s(),
            # The work has a patience of its own, and counts what each call may have cost.
            max_retries=0,
        )
        with client:
            # As it came: what answers under a wrong address need not be a message.
            answer = client.messages.with_raw_response.create(
                model=wanted,
                max_tokens=prompts.ANSWER_TOKENS,
                messages=[{"role": "user", "content": prompt}],
            )
    except anthropic.APITimeoutError as error:
        raise RaterError(UNAVAILABLE, "no answer in time", prompts.tokens(prompt), model=wanted) from error
    except (anthropic.AnthropicError, TypeError, ValueError) as error:
        # The SDK says TypeError where there is no key at all.
        raise RaterError(UNAVAILABLE, f"{type(error).__name__}: {error}", model=wanted) from error
    return _message(answer.http_response.content, wanted)


def _message(data: bytes, wanted: str) -> Reply:
    """Return the answer in what a provider sent."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    blocks = found.get("content") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(blocks, list):
        raise RaterError(UNAVAILABLE, "the answer is not a message of the provider's", model=wanted)
    said = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    text = "".join(one for one in said if isinstance(one, str))
    return _reply(text, found.get("stop_reason"), found.get("model") or wanted, _spent(found.get("usage")))


def _timeout_s() -> float:
    """Return how long a model has, 1 s to a day."""
    try:
        asked = float(os.environ.get("TALLYBOOK_TIMEOUT_S") or TIMEOUT_S)
    except ValueError:
        return TIMEOUT_S
    # Which is false of what is no number at all.
    return asked if 1 <= asked <= MAX_TIMEOUT_S else TIMEOUT_S


def judge(rater: str, model: str, prompt: str) -> tuple[Reply, Judged]:
    """Ask a rater other than NO_RATER, and return its answer and what it says.

    Raises:
        RaterError: Nothing came of it, or the answer cannot be used.
    """
    ask = RATERS[rater].ask
    if ask is None:
        raise RaterError(UNAVAILABLE, "no rater is chosen")
    reply = ask(model, prompt)
    try:
        return reply, prompts.read(reply.text)
    except prompts.UnusableError as error:
        spent = (reply.input_tokens, reply.output_tokens)
        raise RaterError(UNUSABLE, f"the answer {error.what}", *spent, model=reply.model) from error


def tokens(rater: str, prompt: str) -> int:
    """Return about how many tokens it costs to ask a rater a prompt, with all else that is sent and the answer."""
    return prompts.tokens(prompt, RATERS[rater].more_bytes)


def _first(*names: str) -> str | None:
    """Return the first of these variables that is set to anything."""
    return next((value for name in names if (value := os.environ.get(name))), None)


RATERS: Final[dict[str, Rater]] = {
    NO_RATER: Rater("nobody: no model, no key, no cost; citations are still kept with a quote", None),
    "claude": Rater("Claude Code's own client, headless, with the login that it has", _claude, _CLAUDE_BYTES),
    "anthropic": Rater("the provider's SDK (the extra `anthropic`), with a key of its own", _anthropic),
}
"""Name in the settings → who it is."""
