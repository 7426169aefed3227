"""What a rater is asked, and what its reply says."""

from __future__ import annotations

import json
import os
import re
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import event_json
from tallybook.ledger.decisions.operations import OPERATIONS
from tallybook.ledger.decisions.update import FIELDS, UNKNOWN_KEY, shorten_key
from tallybook.ledger.errors import BadInputError, TallybookError
from tallybook.ledger.events import RATINGS, PointNoted
from tallybook.projections.playbook import inject
from tallybook.projections.surfaces.reflection.transcript import load_object, shorten
from tallybook.projections.surfaces.workspace.settings import is_encrypted_or_local, is_local
from tallybook.projections.surfaces.writing import secrets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from urllib.request import OpenerDirector

    from tallybook.projections.surfaces.workspace.settings import Settings


TEMPLATE: Final = "reflection.txt"
PLAYBOOK_CHARS: Final = 40_000
"""Most characters of the playbook in a prompt; of a longer one, the entries that an agent would be given."""
PRUNED_SHOWN: Final = 50
"""Most entries that left the playbook in a prompt: the last to leave, which the model must not bring back."""
PRUNED_CHARS: Final = 300
# Claude Code and Gemini delete transcripts after 30 days: the quote is the evidence that stays.
QUOTE_CHARS: Final = 200
MAX_NEW: Final = 20
"""Most new key points in an answer; the prompt asks for five."""
MAX_OPERATIONS: Final = 5
"""Most changes of the playbook in an answer; the prompt asks for three."""
ANSWER_TOKENS: Final = 4_000
"""Most tokens of an answer."""

_PLACES: Final = re.compile(r"\{(playbook|pruned|transcript)\}")
_ENDS: Final = re.compile(r"<\s*/\s*(playbook|pruned|transcript)", re.IGNORECASE)
_NOTHING: Final = "(nothing)"
_BYTES_PER_TOKEN: Final = 3.5


@attrs.frozen
class Answer:
    """What an answer says.

    Attributes:
        payload: ``{"new_key_points": [...], "evaluations": [{"name", "rating"}]}``, as ``record`` takes it.
        notes: The quotes of the evaluations that came with one.
        ignored: The other parts of the answer, and why they count nothing.
        operations: Changes of the playbook, as ``record`` takes them.
    """

    payload: dict[str, Any]
    notes: tuple[PointNoted, ...] = ()
    ignored: tuple[str, ...] = ()
    operations: tuple[Any, ...] = ()

    @property
    def result(self) -> dict[str, Any]:
        """Return the answer as an extraction result; with operations, its new key points are operations as well."""
        if not self.operations:
            return self.payload
        added = [{"type": "ADD", "text": text} for text in self.payload["new_key_points"]]
        return {"operations": [*self.operations, *added], "evaluations": self.payload["evaluations"]}

    def without_texts(self, texts: Collection[str]) -> Answer:
        """Return the answer without these new key points: those that the prompt said not to bring back."""
        new = [text for text in self.payload["new_key_points"] if text not in texts]
        return attrs.evolve(self, payload=self.payload | {"new_key_points": new})

    def about(self, names: Collection[str]) -> Answer:
        """Return the answer with the evaluations of these names only; the others are ignored.

        A model rates what its prompt showed. Any other name is invented, and can be the one that a new entry gets.
        """
        evaluations = self.payload["evaluations"]
        ratings = [evaluation for evaluation in evaluations if evaluation["name"] in names]
        notes = tuple(note for note in self.notes if note.name in names)
        others = [evaluation["name"] for evaluation in evaluations if evaluation["name"] not in names]
        ignored = (*self.ignored, *(f"the rating of {name}: the prompt did not show it" for name in others))
        return Answer(self.payload | {"evaluations": ratings}, notes, ignored, self.operations)


class UnusableError(BadInputError):
    """An answer says nothing that can be recorded."""

    def __init__(self, what: str) -> None:
        """Take what is wrong with it."""
        super().__init__("the answer", what)
        self.what = what


def render_prompt(
    template: str,
    entries: Sequence[Mapping[str, Any]],
    pruned: Sequence[str],
    session: str,
    withheld: Sequence[str] = (),
) -> str:
    """Return the prompt for a session.

    Args:
        template: Text with ``{playbook}``, ``{pruned}`` and ``{transcript}``; other braces stay as they are.
        entries: The playbook's entries, each ``{name, text, helpful, harmful}``.
        pruned: Texts of entries that left the playbook, the last to leave at the end.
        session: The turns of the session.
        withheld: Texts of entries that the session was not given, so that they are not learned anew.

    Raises:
        BadInputError: The template has no place for the transcript.
    """
    # A template of the user's that forgot it would ask about nothing, and cost all the same.
    if "{transcript}" not in template:
        raise BadInputError(TEMPLATE, "has no {transcript}", "put it in the place of the session's text")
    contents = {
        "playbook": "\n".join(inject.choose(entries, PLAYBOOK_CHARS).lines),
        "pruned": "\n".join(
            f"- {shorten(inject.one_line(text), PRUNED_CHARS)}" for text in (*pruned[-PRUNED_SHOWN:], *withheld)
        ),
        "transcript": session,
    }
    # Data must not close the tag that marks it as data.
    return _PLACES.sub(lambda place: _ENDS.sub(r"< /\1", contents[place[1]]) or _NOTHING, template)


def shown_names(template: str, entries: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the names of the entries that the prompt shows."""
    return frozenset(inject.choose(entries, PLAYBOOK_CHARS).names() if "{playbook}" in template else ())


def estimate_tokens(prompt: str, more_bytes: int = 0) -> int:
    """Return about how many tokens a prompt, what is sent with it and the answer cost, rather too many than too few."""
    return int((len(prompt.encode("utf-8", "replace")) + more_bytes) / _BYTES_PER_TOKEN) + ANSWER_TOKENS


def read_answer(text: str) -> Answer:
    """Return what an answer says: the one JSON object in it; prose around it does not matter.

    Raises:
        UnusableError: It has none, or more than one, or one of another shape.
    """
    value = _parse(text)
    texts, evaluations = (_list(value, field) for field in ("new_key_points", "evaluations"))
    if len(texts) > MAX_NEW:
        raise UnusableError(f"has {len(texts)} new key points; the limit is {MAX_NEW}")
    for index, new in enumerate(texts):
        if not isinstance(new, str) or not new.strip():
            raise UnusableError(f"has no text as new_key_points[{index}]")
    ratings: dict[str, str] = {}
    notes = []
    for index, evaluation in enumerate(evaluations):
        name, rating, quote = _evaluation(evaluation, f"evaluations[{index}]")
        # An answer in doubt is not recorded.
        if name in ratings:
            raise UnusableError(f"rates {name} twice")
        ratings[name] = rating
        if quote.strip():
            words = shorten(secrets.mask(inject.one_line(quote)).text, QUOTE_CHARS)
            notes.append(PointNoted(name, f"{rating}: “{words}”"))
    known = (*FIELDS, OPERATIONS)
    unknown = tuple(f"{secrets.mask(shorten_key(key)).text}: {UNKNOWN_KEY}" for key in value if key not in known)
    rated = [{"name": name, "rating": rating} for name, rating in ratings.items()]
    operations = _list(value, OPERATIONS) if OPERATIONS in value else []
    payload = {"new_key_points": texts, "evaluations": rated}
    return Answer(payload, tuple(notes), unknown, tuple(operations[:MAX_OPERATIONS]))


def _parse(text: str) -> Any:
    """Return the one JSON object of an answer."""
    # Prose can have braces, too.
    objects = [part for part in _find_braced(text) if '"new_key_points"' in part or '"evaluations"' in part]
    if len(objects) != 1:
        raise UnusableError(f"holds {len(objects)} JSON objects" if objects else "holds no whole JSON object")
    try:
        return event_json.loads(objects[0].encode("utf-8", "surrogatepass"), "the answer")
    except BadInputError as error:
        raise UnusableError(f"is not JSON: {error}") from error


def _find_braced(text: str) -> Iterable[str]:
    """Yield the parts of a text in outermost braces; braces within a JSON string do not count."""
    depth = begin = 0
    is_quoted = is_escaped = False
    for index, char in enumerate(text):
        if is_quoted:
            is_quoted, is_escaped = is_escaped or char != '"', char == "\\" and not is_escaped
        elif char == '"' and depth:
            is_quoted = True
        elif char == "{":
            begin = begin if depth else index
            depth += 1
        elif char == "}" and depth:
            depth -= 1
            if not depth:
                yield text[begin : index + 1]


def _list(value: Any, field: str) -> list[Any]:
    items = value.get(field) if isinstance(value, dict) else None
    if not isinstance(items, list):
        raise UnusableError(f"has no list as {field}")
    return items


def _evaluation(value: Any, place: str) -> tuple[str, str, str]:
    """Return name, rating and quote of an evaluation."""
    fields = value if isinstance(value, dict) else {}
    name, rating, quote = fields.get("name"), fields.get("rating"), fields.get("quote") or ""
    if not (isinstance(name, str) and name and isinstance(quote, str)):
        raise UnusableError(f"has no name and rating as {place}")
    if not isinstance(rating, str) or rating not in RATINGS:
        raise UnusableError(f"rates {name} {rating!r}, which is not a rating")
    return name, rating, quote


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
    body = {"model": question.model, "messages": messages, "stream": False, limit: ANSWER_TOKENS}
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
