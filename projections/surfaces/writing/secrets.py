"""Secrets in texts of models and transcripts: found by the exact formats of tokens, masked before they are written.

The formats are the regular expressions of detect-secrets' plugins: nothing is looked up, verified or sent. Its plugins
that guess (high entropy, a keyword followed by a value) and public IP addresses are left out: they are not formats of
tokens, and a masked text is lost for ever.

``[masked: GitHub Token]`` replaces a secret, in the event and in everything rendered from it. Masking a text again
changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache
import re
from typing import TYPE_CHECKING, Any
import warnings

import attrs

from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.errors import BadInputError, Problem
from tallybook.ledger.events import PointNoted, PointProposed
from tallybook.projections.surfaces.writing.requests import (
    UNSCREENED,
    PlainEvents,
    ProposalAnswer,
    Request,
    Undo,
    Update,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallybook.ledger.events import Event

_LEFT_OUT = frozenset({"Public IP (ipv4)"})
_KEY_BLOCK = "Private Key"
_JWT = "JSON Web Token"
_WHOLE = "whole text"

# Where a match holds more than the secret, its first group is the secret; elsewhere a group is a prefix or nothing.
_IN_CONTEXT = frozenset({
    "AWS Access Key",
    "Basic Auth Credentials",
    "Cloudant Credentials",
    "IBM Cloud IAM Key",
    "IBM COS HMAC Credentials",
    "SoftLayer Credentials",
})  # fmt: skip
# Formats so wide that names in code fit: a class that begins with APC, a function of 44 letters after the word "key".
# A token has digits.
_NEEDS_A_DIGIT = frozenset({"Artifactory Credentials", "Discord Bot Token", "IBM Cloud IAM Key"})

# ``(?<!C)(?>C*?(?=x))`` goes to the first x of a run of token characters, once for each run: to begin at every x
# of a long run takes time that is quadratic in its length.
_OURS = (
    # Tokens of the providers of coding agents, which detect-secrets does not know.
    ("Anthropic API Key", r"sk-ant-(?:api|admin|oat|ort|sid)[0-9]{2}-[A-Za-z0-9_-]{20,}"),
    ("GitHub Token", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    ("Google API Key", r"AIza[A-Za-z0-9_-]{35}"),
    ("NPM tokens", r"npm_[A-Za-z0-9]{36}"),
    ("OpenRouter API Key", r"sk-or-v1-[0-9a-f]{64}"),
    # Square issues 43 characters of URL-safe base64; the expression of detect-secrets wrongly accepts backslashes.
    ("Square OAuth Secret", r"sq0csp-[0-9A-Za-z_-]{43}"),
    # These replace plugins whose expressions take quadratic time; each finds whatever theirs does. The first is wider
    # too: keys of projects and service accounts are longer, with other characters in them.
    (
        "OpenAI Token",
        r"(?a)(?<![\w-])(?>[\w-]*?(?=sk-))(sk-[\w-]*T3BlbkFJ[\w-]{20,})",
    ),
    (
        _JWT,
        r"(?a)(?<![\w-])(?>[\w-]*?(?=eyJ))(?=(eyJ[\w-]*+=*+\.[\w-]++=*+(?:\.[\w=+/-]*+)?))",
    ),
    ("NPM tokens", r"""_authToken=\s*+(npm_[^\s"']++|[A-Fa-f0-9-]{36})"""),
)
_REPLACED = frozenset({"NPM tokens", "OpenAI Token", "Square OAuth Secret", _JWT})
# Three runs of spaces in a row, which match in many ways; and the same in one way.
_SPACED = r"(?: *)(?:=|:|:=|=>| +|::)(?: *)"
_SPACED_ONCE = r"(?> *(?:=>|:=|::|[=:]) *| +)"

# Wider than every format, as a test shows for each, so that most texts do not need the import of detect-secrets.
_HINT = re.compile(
    r"[\w-]{20}|[\w/+=]{40}|://[^/\s@]*+@|AKC|AP[\dA-F]|eyJ|_authToken=|(?i:hooks\.slack|xox[a-z]-)"
    r"|PRIVATE KEY|PuTTY-User-Key"
)
_RUN = re.compile(r"[A-Za-z0-9_-]*+")
# Some expressions match what is before and after a token as well.
_WITHIN = re.compile(r'[^\s=:"](?:.*[^\s"])?', re.DOTALL)
_KEY_END = re.compile(r"END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?(?: ?-{2,5})?|Private-MAC: ?[0-9a-fA-F]+")
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=]{40,}+")
# One mask can uncover a match next to it; only a text made for it needs more rounds.
_ROUNDS = 8


@attrs.frozen
class MaskedText:
    """A text without its secrets.

    Attributes:
        text: The text; the very object that was given if it has no secret.
        names: The format of each masked secret, in the order of the text.
    """

    text: str
    names: tuple[str, ...] = ()


@attrs.frozen
class _Format:
    """The format of one kind of secret.

    Attributes:
        name: Its name in the mask.
        pattern: Finds it, in time linear in the text's length.
        group: The group of a match that is the secret; 0 for the whole match.
    """

    name: str
    pattern: re.Pattern[str]
    group: int = 0


@attrs.frozen
class _Span:
    """The place of a secret: from ``begin`` up to ``end``, in characters."""

    begin: int
    end: int
    name: str


def list_formats(text: str) -> tuple[str, ...]:
    """Return the format of each secret in a text, in its order, and nothing of the secret itself."""
    return tuple(span.name for span in _spans(text)) if _HINT.search(text) else ()


def mask(text: str) -> MaskedText:
    """Return a text with a mask in the place of each secret; masking what comes of it again changes nothing."""
    if not _HINT.search(text):
        return MaskedText(text)
    masked: list[str] = []
    for _ in range(_ROUNDS):
        spans = _spans(text)
        if not spans:
            return MaskedText(text, tuple(masked))
        text = _replace(text, spans)
        masked += [span.name for span in spans]
    return MaskedText(text, tuple(masked)) if not _spans(text) else MaskedText(_label(_WHOLE), (*masked, _WHOLE))


def mask_requests(requests: Sequence[Request]) -> tuple[tuple[Request, ...], tuple[Problem, ...]]:
    """Return requests with the secrets of models and transcripts masked, and a problem for each masked item.

    Texts that people typed, that files held, or that a program saved in a dict stay as they are.

    Raises:
        BadInputError: One of them is nested too deeply to look through.
    """
    masked: list[Request] = []
    problems: list[Problem] = []
    for request in requests:
        action = request.action
        if request.by.get("rater") in UNSCREENED:
            pass
        elif isinstance(action, Update):
            action = _mask_update(action, problems)
        elif isinstance(action, PlainEvents):
            action = PlainEvents(tuple(_mask_event(event, problems) for event in action.events))
        elif isinstance(action, Curation | Undo | ProposalAnswer):
            words = {field: getattr(action, field) for field in ("text", "reason") if hasattr(action, field)}
            words = {field: _mask_item(field, text, problems) for field, text in words.items()}
            action = attrs.evolve(action, **words)
        masked.append(attrs.evolve(request, action=action))
    return tuple(masked), tuple(problems)


def _mask_update(action: Update, problems: list[Problem]) -> Update:
    payload, more = mask_payload(action.payload)
    problems += more
    events = tuple(_mask_event(event, problems) for event in action.plain_events)
    names: dict[str, str] = {}
    for text, name in action.names.items():
        # Two texts that differ only in their secrets become one, under the first one's name.
        names.setdefault(mask(text).text, name)
    return attrs.evolve(action, payload=payload, names=names, plain_events=events)


def _mask_event(event: Event, problems: list[Problem]) -> Event:
    """Return an event with a note or a proposal masked; other events hold only paths and reasons of Tallybook."""
    if isinstance(event, PointProposed):
        words = {field: _mask_item(field, getattr(event, field) or "", problems) for field in ("text", "reason")}
        return attrs.evolve(event, **words)
    if not isinstance(event, PointNoted) or event.note is None:
        return event
    return attrs.evolve(event, note=_mask_item(f"note on {event.name}", event.note, problems))


def mask_payload(payload: Any) -> tuple[Any, tuple[Problem, ...]]:
    """Return an extraction result with every string in it masked, keys too, and a problem for each masked item.

    Raises:
        BadInputError: It is nested too deeply to look through.
    """
    if not isinstance(payload, dict):
        return payload, ()
    problems: list[Problem] = []
    masked: dict[Any, Any] = {}
    try:
        for field, value in payload.items():
            if field in {"new_key_points", "evaluations"} and isinstance(value, list):
                masked[field] = [_mask_item(f"{field}[{index}]", item, problems) for index, item in enumerate(value)]
            else:
                masked |= _mask_item("payload", {field: value}, problems)
    except RecursionError as error:
        raise BadInputError("payload", "is nested too deeply", "nothing was recorded") from error
    return masked, tuple(problems)


def mask_value(place: str, value: Any) -> tuple[Any, tuple[Problem, ...]]:
    """Return a JSON value with every string in it masked, and a problem if there was one; its depth is bounded."""
    problems: list[Problem] = []
    return _mask_item(place, value, problems), tuple(problems)


def _mask_item(place: str, value: Any, problems: list[Problem]) -> Any:
    """Return a part of an extraction result, masked; add a problem if it held a secret."""
    names: list[str] = []
    masked = _mask_value(value, names)
    if names:
        number = "a secret was" if len(names) == 1 else f"{len(names)} secrets were"
        problems.append(Problem(place, f"{number} masked ({', '.join(dict.fromkeys(names))})"))
    return masked


def _mask_value(value: Any, names: list[str]) -> Any:
    """Return a JSON value with its strings masked; add the format of each secret to ``names``."""
    if isinstance(value, str):
        masked = mask(value)
        names += masked.names
        return masked.text
    if isinstance(value, list):
        return [_mask_value(item, names) for item in value]
    if isinstance(value, dict):
        return {_mask_value(key, names): _mask_value(item, names) for key, item in value.items()}
    return value


def _label(name: str) -> str:
    return f"[masked: {name}]"


def _replace(text: str, spans: Sequence[_Span]) -> str:
    parts = []
    at = 0
    for span in spans:
        parts += [text[at : span.begin], _label(span.name)]
        at = span.end
    return "".join((*parts, text[at:]))


def _spans(text: str) -> list[_Span]:
    """Return the places of the secrets in a text, in order and without overlaps."""
    formats, labels = _formats()
    # A label's own words ("Access Key]") must not count as the keyword of what follows. Brackets belong to no token, no
    # password and no name.
    text = labels.sub(lambda label: "[" * len(label[0]), text)
    spans = [_span(one, match) for one in formats for match in one.pattern.finditer(text) if _is_real(one, match)]
    return _join(text, sorted(_with_blocks(text, spans), key=lambda span: (span.begin, -span.end)))


def _join(text: str, spans: Sequence[_Span]) -> list[_Span]:
    """Return spans extended to the end of their runs of token characters; those that then overlap become the first.

    Formats grow, and an expression that knows the first 24 characters of a key would leave the rest readable.
    """
    joined: list[_Span] = []
    for span in spans:
        if joined and span.end <= joined[-1].end:
            continue
        run = _RUN.match(text, span.end)
        extended = attrs.evolve(span, end=run.end() if run else span.end)
        if joined and span.begin < joined[-1].end:
            extended = attrs.evolve(joined.pop(), end=extended.end)
        joined.append(extended)
    return joined


def _span(one: _Format, match: re.Match[str]) -> _Span:
    """Return the place of the secret in a match."""
    begin, end = match.span(one.group)
    if not one.group and (within := _WITHIN.search(match.string, begin, end)):
        begin, end = within.span()
    return _Span(begin, end, one.name)


def _is_real(one: _Format, match: re.Match[str]) -> bool:
    """Return whether a match can be a secret."""
    secret = match[one.group]
    if one.name == _JWT:
        return _is_jwt(secret)
    return one.name not in _NEEDS_A_DIGIT or any(map(str.isdigit, secret))


def _is_jwt(token: str) -> bool:
    """Return whether header and payload are JSON; without this, ``keyJson.value`` would match."""
    from detect_secrets.plugins.jwt import JwtTokenDetector

    try:
        return JwtTokenDetector.is_formally_valid(".".join(token.split(".")[:2]))
    except RecursionError:
        # It is JSON, nested more deeply than any reader follows.
        return True


def _with_blocks(text: str, spans: list[_Span]) -> list[_Span]:
    """Return spans with each private key's extended to its end line; without one, to the last line of a key."""
    if all(span.name != _KEY_BLOCK for span in spans):
        return spans
    ends = [match.end() for match in _KEY_END.finditer(text)]
    last = max((match.end() for match in _KEY_BODY.finditer(text)), default=0)

    def block_end(span: _Span) -> int:
        index = bisect_left(ends, span.end)
        return ends[index] if index < len(ends) else max(span.end, last)

    return [attrs.evolve(span, end=block_end(span)) if span.name == _KEY_BLOCK else span for span in spans]


@cache
def _formats() -> tuple[tuple[_Format, ...], re.Pattern[str]]:
    """Return every format, those that need their context last, and an expression that finds a mask in a text."""
    formats = [_Format(name, re.compile(pattern), re.compile(pattern).groups) for name, pattern in _OURS]
    for name, pattern in _detectors():
        if name not in _REPLACED | _LEFT_OUT:
            source = pattern.pattern.replace(_SPACED, _SPACED_ONCE)
            if name == _KEY_BLOCK:
                source = f"(?:-{{2,5}} ?)?(?:{source})"
            group = min(pattern.groups, 1) if name in _IN_CONTEXT else 0
            formats.append(_Format(name, re.compile(source, pattern.flags), group))
    formats.sort(key=lambda one: one.name in _IN_CONTEXT)
    labels = "|".join(re.escape(_label(name)) for name in sorted({_WHOLE, *(one.name for one in formats)}))
    return tuple(formats), re.compile(labels)


def _detectors() -> list[tuple[str, re.Pattern[str]]]:
    """Return name and expression of every exact format of detect-secrets; it takes 0.2 s to load."""
    showing = warnings.showwarning
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.plugins.base import BasePlugin, RegexBasedDetector

    if warnings.showwarning is not showing:
        # Loading it turns the process's warnings into log lines, which is not for a library to decide.
        import logging

        logging.captureWarnings(capture=False)
    plugins: Mapping[str, type[BasePlugin]] = get_mapping_from_secret_type_to_class()
    exact = {name: plugin for name, plugin in plugins.items() if issubclass(plugin, RegexBasedDetector)}
    denylists: dict[str, Any] = {name: plugin.denylist for name, plugin in sorted(exact.items())}
    return [(name, pattern) for name, patterns in denylists.items() for pattern in patterns]
