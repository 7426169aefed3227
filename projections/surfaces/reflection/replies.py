"""What a rater is asked and what it replies, and the errors of one that gives no usable answer."""

from __future__ import annotations

import os
from typing import Any, Final

import attrs

from tallybook.ledger.errors import TallybookError
from tallybook.projections.surfaces.writing import secrets

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


@attrs.frozen(kw_only=True)
class Question:
    """What a rater is asked.

    Attributes:
        prompt: The prompt.
        model: The model's name, empty for the rater's usual one.
        tokens: About what it costs, the answer included; counts where the rater does not tell.
        address: Where the rater `openai` sends it.
        key_variable: The environment variable that holds the key of that address; empty where it needs none.
        command: The words of the rater `command`.
        answer_key: The key of what that command prints as a JSON object; empty where it prints the answer alone.
    """

    prompt: str
    model: str = ""
    tokens: int = 0
    address: str = ""
    key_variable: str = ""
    command: tuple[str, ...] = ()
    answer_key: str = ""


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
