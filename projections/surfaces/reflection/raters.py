"""The raters, a row each: none, clients of agents, the provider's SDK, and any address."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.projections.reflections import NO_RATER
from tallybook.projections.surfaces.reflection import prompt as prompts
from tallybook.projections.surfaces.reflection.chat_completions import CHAT_BYTES, ask_chat
from tallybook.projections.surfaces.reflection.clients import CLAUDE_BYTES, ask_claude, count_anthropic_tokens
from tallybook.projections.surfaces.reflection.codex import CODEX_BYTES, ask_codex
from tallybook.projections.surfaces.reflection.gemini import GEMINI_BYTES, ask_gemini
from tallybook.projections.surfaces.reflection.replies import (
    UNAVAILABLE,
    UNUSABLE,
    Question,
    RaterError,
    Reply,
    accept_reply,
    find_timeout_s,
)
from tallybook.projections.surfaces.reflection.transcript import load_object
from tallybook.projections.surfaces.workspace.installation import install_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.projections.surfaces.reflection.prompt import Answer


@attrs.frozen
class Rater:
    """A rater.

    Attributes:
        ask: Sends a question; None where nothing is sent.
        more_bytes: What is sent with the prompt, in bytes.
        command: The command that it runs, empty for none.
    """

    ask: Callable[[Question], Reply] | None
    more_bytes: int = 0
    command: str = ""


def _ask_anthropic(question: Question) -> Reply:
    """Ask through the provider's SDK."""
    try:
        import anthropic
    except ImportError as error:
        what = f"the package anthropic is not installed; run: {install_command('anthropic')}"
        raise RaterError(UNAVAILABLE, what) from error
    get = os.environ.get
    wanted = (
        get("AGENTIC_CONTEXT_MODEL") or question.model or get("ANTHROPIC_MODEL") or get("ANTHROPIC_DEFAULT_HAIKU_MODEL")
    )
    wanted = wanted or "claude-haiku-4-5"
    try:
        # For None the SDK reads its own variables: ANTHROPIC_API_KEY, _AUTH_TOKEN, _BASE_URL.
        client = anthropic.Anthropic(
            api_key=get("AGENTIC_CONTEXT_API_KEY") or None,
            base_url=get("AGENTIC_CONTEXT_BASE_URL") or None,
            timeout=find_timeout_s(),
            # The worker tries again later, and counts what each call may have cost.
            max_retries=0,
        )
        with client:
            # Raw: a server at a wrong address need not answer with a message.
            answer = client.messages.with_raw_response.create(
                model=wanted,
                max_tokens=prompts.ANSWER_TOKENS,
                messages=[{"role": "user", "content": question.prompt}],
            )
    except anthropic.APITimeoutError as error:
        raise RaterError(UNAVAILABLE, "no answer in time", question.tokens, model=wanted) from error
    except (anthropic.AnthropicError, TypeError, ValueError) as error:
        # The SDK raises TypeError where there is no key at all.
        raise RaterError(UNAVAILABLE, f"{type(error).__name__}: {error}", model=wanted) from error
    return _read_message(question, answer.http_response.content, wanted)


def _read_message(question: Question, data: bytes, wanted: str) -> Reply:
    """Return the answer in the data that a provider sent."""
    fields = load_object(data)
    blocks = fields.get("content")
    if not isinstance(blocks, list):
        raise RaterError(UNAVAILABLE, "the answer is not a message of the provider's", model=wanted)
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    answer = "".join(text for text in texts if isinstance(text, str))
    spent = count_anthropic_tokens(fields.get("usage"))
    return accept_reply(question, answer, fields.get("stop_reason"), fields.get("model") or wanted, spent)


def ask_rater(rater: str, model: str, prompt: str, address: str = "", key_variable: str = "") -> tuple[Reply, Answer]:
    """Send a rater other than NO_RATER a prompt, and return its reply and what that says.

    Raises:
        RaterError: It gave no answer, or one that cannot be used.
    """
    ask = RATERS[rater].ask
    if ask is None:
        raise RaterError(UNAVAILABLE, "no rater is chosen")
    try:
        reply = ask(Question(model, prompt, estimate_tokens(rater, prompt), address, key_variable))
    except OSError as error:
        raise RaterError(UNAVAILABLE, f"{rater} cannot be asked: {error}") from error
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
    # Clients of agents, headless, with the user's login.
    "claude": Rater(ask_claude, CLAUDE_BYTES, "claude"),
    "codex": Rater(ask_codex, CODEX_BYTES, "codex"),
    "gemini": Rater(ask_gemini, GEMINI_BYTES, "gemini"),
    # The provider's SDK (the extra `anthropic`), with a key of its own.
    "anthropic": Rater(_ask_anthropic),
    # Any address that speaks OpenAI's chat completions.
    "openai": Rater(ask_chat, CHAT_BYTES),
}
"""Name in the settings → the rater."""
