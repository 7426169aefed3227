"""The rater `openai`: any address that speaks OpenAI's chat completions, a model on this machine as well."""

from __future__ import annotations

import json
import os
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from tallybook.projections.surfaces.reflection import prompt as prompts
from tallybook.projections.surfaces.reflection.replies import (
    REFUSED,
    SYSTEM,
    UNAVAILABLE,
    UNUSABLE,
    Question,
    RaterError,
    Reply,
    accept_reply,
    count_tokens,
    find_timeout_s,
)
from tallybook.projections.surfaces.reflection.transcript import load_object
from tallybook.projections.surfaces.workspace.settings import is_encrypted_or_local, is_local

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

CHAT_BYTES: Final = 300
"""What is sent with the prompt: the system prompt, and the fields of the request."""
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
_CHUNK_BYTES: Final = 64 * 1024
_BAD_REQUEST: Final = 400
_LIMITS: Final = ("max_tokens", "max_completion_tokens")
"""The field that bounds the answer: most servers know the first one, OpenAI's newer models demand the second."""


def ask_chat(question: Question) -> Reply:
    """Ask an address for a chat completion: the prompt alone, and no tool."""
    if not is_encrypted_or_local(question.address):
        what = "no `address` is set" if not question.address else "the `address` is not https, nor on this machine"
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
    if not question.key_variable:
        return ""
    key = os.environ.get(question.key_variable, "").strip()
    # An error about a header that cannot be sent would show it.
    if not key or not key.isascii() or not key.isprintable():
        what = "is not set" if not key else "holds no key: it has characters that no key has"
        raise RaterError(UNAVAILABLE, f"the environment variable {question.key_variable} {what}")
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
    request = Request(question.address.rstrip("/") + "/chat/completions", data, headers)  # noqa: S310 - http or https
    try:
        try:
            answer = _opener(question.address).open(request, timeout=timeout_s)
        except HTTPError as error:
            answer = error
        with answer:
            return answer.status, _read(answer, until)
    except TimeoutError as error:
        raise RaterError(UNAVAILABLE, "no answer in time", question.tokens, model=question.model) from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            raise RaterError(UNAVAILABLE, "no answer in time", question.tokens, model=question.model) from error
        raise RaterError(UNAVAILABLE, f"{question.address}: {reason}", model=question.model) from error


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
        raise RaterError(UNAVAILABLE, f"{question.address} answered {status}: {what}", model=question.model)
    choices = fields.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    if not isinstance(message, dict):
        what = f"{question.address} answered with something that is not a chat completion"
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
