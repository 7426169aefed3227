"""What a rater is asked and what it replies, and the rater `openai`: any address that speaks chat completions."""

from __future__ import annotations

import json
import os
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.errors import TallybookError
from tallybook.projections.surfaces.reflection import prompt as prompts
from tallybook.projections.surfaces.reflection.transcript import load_object
from tallybook.projections.surfaces.workspace.settings import is_encrypted_or_local, is_local
from tallybook.projections.surfaces.writing import secrets

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

    from tallybook.projections.surfaces.workspace.settings import Settings


TIMEOUT_S: Final = 300
"""Seconds that a model has for its answer, unless the variable TALLYBOOK_TIMEOUT_S names another number."""
MAX_TIMEOUT_S: Final = 86_400
_REASON_CHARS: Final = 300
_MAX_TOKENS: Final = 10**12

SYSTEM: Final = "You review what a coding agent did in a session. Answer with one JSON object and nothing else."
"""Replaces a client's own system prompt, which is twenty times as long."""

UNAVAILABLE: Final = "unavailable"
REFUSED: Final = "refused"
UNUSABLE: Final = "unusable"


@attrs.frozen
class Question:
    """What a rater is asked.

    Attributes:
        prompt: The prompt.
        options: The settings that say who is asked, by which model and where.
        tokens: About what it costs, the answer included; counts where the rater does not tell.
    """

    prompt: str
    options: Settings
    tokens: int = 0

    @property
    def model(self) -> str:
        """Return the model's name, empty for the rater's usual one."""
        return self.options.model


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


def accept_reply(question: Question, text: str, stop: object, model: object, spent: tuple[int, int]) -> Reply:
    """Return an answer, unless the model refused or was cut off; without a cost, it cost what was expected."""
    named = _clean(model)
    spent = spent if any(spent) else (question.tokens, 0)
    if stop in {"refusal", "content_filter"}:
        raise RaterError(REFUSED, text or "it refused", *spent, model=named)
    if stop in {"max_tokens", "length"}:
        raise RaterError(UNUSABLE, "the answer was cut off", *spent, model=named)
    return Reply(_clean(text), named, *spent)


def count_tokens(usage: object, sent: tuple[str, ...], answered: tuple[str, ...]) -> tuple[int, int]:
    """Return input and output tokens, the sums of these fields of what a provider tells."""
    fields: dict[str, Any] = usage if isinstance(usage, dict) else {}

    def count(names: tuple[str, ...]) -> int:
        numbers = [value for name in names if type(value := fields.get(name)) is int]
        return min(max(sum(numbers), 0), _MAX_TOKENS)

    return count(sent), count(answered)


def find_timeout_s() -> float:
    """Return how long a model has, 1 s to a day."""
    try:
        timeout_s = float(os.environ.get("TALLYBOOK_TIMEOUT_S") or TIMEOUT_S)
    except ValueError:
        return TIMEOUT_S
    # False for a NaN.
    return timeout_s if 1 <= timeout_s <= MAX_TIMEOUT_S else TIMEOUT_S


CHAT_BYTES: Final = 300
"""What is sent with the prompt: the system prompt, and the fields of the request."""
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
_CHUNK_BYTES: Final = 64 * 1024
_BAD_REQUEST: Final = 400
_LIMITS: Final = ("max_tokens", "max_completion_tokens")
"""The field that bounds the answer: most servers know the first one, OpenAI's newer models demand the second."""


def ask_chat(question: Question) -> Reply:
    """Ask an address for a chat completion: the prompt alone, and no tool."""
    address = question.options.address
    if not is_encrypted_or_local(address):
        what = "the `address` is not https, nor on this machine" if address else "no `address` is set"
        raise RaterError(UNAVAILABLE, f"{what}; set it in the section [reflection] of your own tallybook.toml")
    if not question.model:
        raise RaterError(UNAVAILABLE, "no `model` is set, and an address has no usual one; give --model, or set it")
    key = _key(question)
    for limit in _LIMITS:
        status, data = _post(question, key, limit)
        if status != _BAD_REQUEST or _LIMITS[-1].encode() not in data:
            break
    return _read_answer(question, key, status, data)


def _key(question: Question) -> str:
    """Return the key, empty where none is needed."""
    if not question.options.key_variable:
        return ""
    key = os.environ.get(question.options.key_variable, "").strip()
    # An error about a header that cannot be sent would show it.
    if not key or not key.isascii() or not key.isprintable():
        what = "is not set" if not key else "holds no key: it has characters that no key has"
        raise RaterError(UNAVAILABLE, f"the environment variable {question.options.key_variable} {what}")
    return key


def _opener(address: str) -> OpenerDirector:
    from urllib.request import HTTPRedirectHandler, ProxyHandler, build_opener

    class NoRedirect(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            """Follow none: the key and the session would go to an address that nobody chose."""

    # A proxy is not this machine, and what goes there is not encrypted.
    return build_opener(NoRedirect, *([ProxyHandler({})] if is_local(address) else []))


def _post(question: Question, key: str, limit: str) -> tuple[int, bytes]:
    """Return the status and the body that the address answers with."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request

    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question.prompt}]
    body = {"model": question.model, "messages": messages, "stream": False, limit: prompts.ANSWER_TOKENS}
    headers = {"Content-Type": "application/json", "User-Agent": "tallybook"}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    data = json.dumps(body).encode("utf-8", "replace")
    timeout_s = find_timeout_s()
    until = monotonic() + timeout_s
    request = Request(question.options.address.rstrip("/") + "/chat/completions", data, headers)  # noqa: S310 - http or https
    try:
        try:
            answer = _opener(question.options.address).open(request, timeout=timeout_s)
        except HTTPError as error:
            answer = error
        with answer:
            return answer.status, _read(answer, until)
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            raise RaterError(UNAVAILABLE, "no answer in time", question.tokens, model=question.model) from error
        raise RaterError(UNAVAILABLE, f"{question.options.address}: {reason}", model=question.model) from error


def _read(answer: Any, until: float) -> bytes:
    """Read a body, within its time: a server that sends a byte now and then would never end."""
    data = b""
    while chunk := answer.read1(_CHUNK_BYTES):
        data += chunk
        if len(data) > MAX_ANSWER_BYTES:
            raise ValueError(f"the answer has more than {MAX_ANSWER_BYTES:,} bytes")
        if monotonic() > until:
            raise TimeoutError
    return data


def _read_answer(question: Question, key: str, status: int, data: bytes) -> Reply:
    fields = load_object(data)
    if status != 200:  # noqa: PLR2004 - the status of success
        error = fields.get("error", fields)
        said = error.get("message") if isinstance(error, dict) else error
        what = "is a redirect, which is not followed" if 300 <= status < 400 else ""  # noqa: PLR2004 - redirects
        what = what or (said if isinstance(said, str) else data[:_CHUNK_BYTES].decode("utf-8", "replace"))
        # Servers quote the key that they refuse.
        what = what.replace(key, "…") if key else what
        raise RaterError(UNAVAILABLE, f"{question.options.address} answered {status}: {what}", model=question.model)
    choices = fields.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        what = f"{question.options.address} answered with something that is not a chat completion"
        raise RaterError(UNAVAILABLE, what, model=question.model)
    content, refusal = message.get("content"), message.get("refusal")
    text = content if isinstance(content, str) else ""
    spent = count_tokens(fields.get("usage"), ("prompt_tokens",), ("completion_tokens",))
    reply = accept_reply(question, text, choice.get("finish_reason"), fields.get("model") or question.model, spent)
    cost = (reply.input_tokens, reply.output_tokens)
    if isinstance(refusal, str) and refusal:
        raise RaterError(REFUSED, refusal, *cost, model=reply.model)
    if message.get("tool_calls"):
        raise RaterError(UNUSABLE, "it called a tool, although it has none", *cost, model=reply.model)
    return reply
