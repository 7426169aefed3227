"""Secrets in texts of models and transcripts: found by the exact formats of tokens, masked before they are written.

The formats are those of detect-secrets, found through its own table of plugins and read as expressions alone: nothing
is looked up, verified or sent. Its plugins that guess (high entropy, a keyword followed by a value) and public IP
addresses are left out: they are not formats of tokens, and a masked text is lost for ever.

``[masked: GitHub Token]`` takes the place of a secret, in the event and in all that is rendered from it. Masking a
text again changes nothing.
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
from tallybook.ledger.events import PointNoted
from tallybook.projections.surfaces.writing.requests import UNSCREENED, Facts, Request, Undo, Update

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
# So wide that names in code fit: a class that begins with APC, a function of 44 letters behind the word "key".
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
    # Square gives out 43 signs of URL-safe base64; detect-secrets means to escape a hyphen, and lets backslashes in.
    ("Square OAuth Secret", r"sq0csp-[0-9A-Za-z_-]{43}"),
    # In place of plugins whose expressions are quadratic; each finds whatever theirs does. The first is wider too:
    # keys of projects and service accounts are longer, with other signs in them.
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
# Three runs of spaces behind each other, in any number of ways; and the same, in one way.
_SPACED = r"(?: *)(?:=|:|:=|=>| +|::)(?: *)"
_SPACED_ONCE = r"(?> *(?:=>|:=|::|[=:]) *| +)"

# Wider than every format, so that a text without anything like a token costs no import; a test shows it for each.
_HINT = re.compile(
    r"[\w-]{20}|[\w/+=]{40}|://[^/\s@]*+@|AKC|AP[\dA-F]|eyJ|_authToken=|(?i:hooks\.slack|xox[a-z]-)"
    r"|PRIVATE KEY|PuTTY-User-Key"
)
_RUN = re.compile(r"[A-Za-z0-9_-]*+")
# Some expressions take what stands before and behind a token into the match.
_WITHIN = re.compile(r'[^\s=:"](?:.*[^\s"])?', re.DOTALL)
_KEY_END = re.compile(r"END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?(?: ?-{2,5})?|Private-MAC: ?[0-9a-fA-F]+")
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=]{40,}+")
# One mask can uncover a match next to it; a text that needs more rounds was made to.
_ROUNDS = 8


@attrs.frozen
class MaskedText:
    """A text without its secrets.

    Attributes:
        text: The text; the very object that was given where it held none.
        names: The format of each secret that was masked, in the order of the text; empty for none.
    """

    text: str
    names: tuple[str, ...] = ()


@attrs.frozen
class _Format:
    """What one kind of secret looks like.

    Attributes:
        name: What the mask calls it.
        pattern: Takes time that is linear in the text's length.
        group: Where in a match the secret stands; 0 for the whole of it.
    """

    name: str
    pattern: re.Pattern[str]
    group: int = 0


@attrs.frozen
class _Span:
    """Where a secret stands: from ``begin`` up to ``end``, in characters."""

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
    done: list[Request] = []
    notes: list[Problem] = []
    for request in requests:
        action = request.action
        if request.by.get("rater") in UNSCREENED:
            pass
        elif isinstance(action, Update):
            action = _mask_update(action, notes)
        elif isinstance(action, Facts):
            action = Facts(tuple(_mask_fact(event, notes) for event in action.events))
        elif isinstance(action, Curation | Undo):
            action = _mask_words(action, notes)
        done.append(attrs.evolve(request, action=action))
    return tuple(done), tuple(notes)


def _mask_update(action: Update, notes: list[Problem]) -> Update:
    payload, more = mask_payload(action.payload)
    notes += more
    facts = tuple(_mask_fact(event, notes) for event in action.facts)
    names: dict[str, str] = {}
    for text, name in action.names.items():
        # Two texts that differ in their secrets alone are one from here on, under the first one's name.
        names.setdefault(mask(text).text, name)
    return Update(payload, names, facts)


def _mask_fact(event: Event, notes: list[Problem]) -> Event:
    """Return an event with a note on an entry masked; other events hold only paths and reasons of Tallybook."""
    if not isinstance(event, PointNoted) or event.note is None:
        return event
    return attrs.evolve(event, note=_mask_item(f"note on {event.name}", event.note, notes))


def _mask_words(action: Curation | Undo, notes: list[Problem]) -> Curation | Undo:
    """Return a curation or an undo by a model, with its text and its reason masked."""
    words = {field: getattr(action, field) for field in ("text", "reason") if hasattr(action, field)}
    return attrs.evolve(action, **{field: _mask_item(field, text, notes) for field, text in words.items()})


def mask_payload(payload: Any) -> tuple[Any, tuple[Problem, ...]]:
    """Return an extraction result with every string in it masked, keys too, and a note for each item that held one.

    Raises:
        BadInputError: It is nested too deeply to look through.
    """
    if not isinstance(payload, dict):
        return payload, ()
    notes: list[Problem] = []
    masked: dict[Any, Any] = {}
    try:
        for field, value in payload.items():
            masked |= _field(field, value, notes)
    except RecursionError as error:
        raise BadInputError("payload", "is nested too deeply", "nothing was recorded") from error
    return masked, tuple(notes)


def mask_value(place: str, value: Any) -> tuple[Any, tuple[Problem, ...]]:
    """Return a JSON value, no deeper than JSON at the door may be, with every string in it masked, and a note of it."""
    notes: list[Problem] = []
    return _mask_item(place, value, notes), tuple(notes)


def _field(field: Any, value: Any, notes: list[Problem]) -> dict[Any, Any]:
    """Return one field of an extraction result, masked; its notes go to the list."""
    if field not in {"new_key_points", "evaluations"} or not isinstance(value, list):
        fields: dict[Any, Any] = _mask_item("payload", {field: value}, notes)
        return fields
    return {field: [_mask_item(f"{field}[{index}]", item, notes) for index, item in enumerate(value)]}


def _mask_item(place: str, value: Any, notes: list[Problem]) -> Any:
    """Return a part of an extraction result, masked; where it held a secret, a note goes to the list."""
    names: list[str] = []
    masked = _mask_value(value, names)
    if names:
        number = "a secret was" if len(names) == 1 else f"{len(names)} secrets were"
        notes.append(Problem(place, f"{number} masked ({', '.join(dict.fromkeys(names))})"))
    return masked


def _mask_value(value: Any, names: list[str]) -> Any:
    """Return a JSON value with its strings masked; what was masked goes to the list."""
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
    """Return where the secrets of a text stand, in order, none of them overlapping another."""
    formats, labels = _formats()
    # A label's own words ("Access Key]") must not count as the keyword of what stands behind it. A bracket belongs to
    # no token, no password and no name.
    text = labels.sub(lambda label: "[" * len(label[0]), text)
    spans = [_span(one, match) for one in formats for match in one.pattern.finditer(text) if _is_real(one, match)]
    return _join(text, sorted(_with_blocks(text, spans), key=lambda span: (span.begin, -span.end)))


def _join(text: str, spans: Sequence[_Span]) -> list[_Span]:
    """Return spans drawn out to the end of their runs of token characters, those that then overlap as the first.

    Formats grow, and an expression that knows the first 24 characters of a key would leave the rest to be read.
    """
    joined: list[_Span] = []
    for span in spans:
        if joined and span.end <= joined[-1].end:
            continue
        run = _RUN.match(text, span.end)
        drawn = attrs.evolve(span, end=run.end() if run else span.end)
        if joined and span.begin < joined[-1].end:
            drawn = attrs.evolve(joined.pop(), end=drawn.end)
        joined.append(drawn)
    return joined


def _span(one: _Format, match: re.Match[str]) -> _Span:
    """Return where the secret of a match stands."""
    begin, end = match.span(one.group)
    if not one.group and (within := _WITHIN.search(match.string, begin, end)):
        begin, end = within.span()
    return _Span(begin, end, one.name)


def _is_real(one: _Format, match: re.Match[str]) -> bool:
    """Say whether a match can be a secret."""
    secret = match[one.group]
    if one.name == _JWT:
        return _is_jwt(secret)
    return one.name not in _NEEDS_A_DIGIT or any(map(str.isdigit, secret))


def _is_jwt(token: str) -> bool:
    """Say whether header and payload are JSON; without this, ``keyJson.value`` would match."""
    from detect_secrets.plugins.jwt import JwtTokenDetector

    try:
        return JwtTokenDetector.is_formally_valid(".".join(token.split(".")[:2]))
    except RecursionError:
        # JSON it is, nested more deeply than anybody reads it.
        return True


def _with_blocks(text: str, spans: list[_Span]) -> list[_Span]:
    """Return spans with each private key's drawn out to its end line; without one, to the last line of a key."""
    if all(span.name != _KEY_BLOCK for span in spans):
        return spans
    ends = [match.end() for match in _KEY_END.finditer(text)]
    last = max((match.end() for match in _KEY_BODY.finditer(text)), default=0)
    drawn = []
    for span in spans:
        if span.name == _KEY_BLOCK:
            index = bisect_left(ends, span.end)
            end = ends[index] if index < len(ends) else max(span.end, last)
            drawn.append(attrs.evolve(span, end=end))
        else:
            drawn.append(span)
    return drawn


@cache
def _formats() -> tuple[tuple[_Format, ...], re.Pattern[str]]:
    """Return every format, those that need their context last, and what finds a mask in a text."""
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
        # It turns a process's warnings into log lines when it is loaded; that is for the process to say.
        import logging

        logging.captureWarnings(capture=False)
    plugins: Mapping[str, type[BasePlugin]] = get_mapping_from_secret_type_to_class()
    exact = {name: plugin for name, plugin in plugins.items() if issubclass(plugin, RegexBasedDetector)}
    denylists: dict[str, Any] = {name: plugin.denylist for name, plugin in sorted(exact.items())}
    return [(name, pattern) for name, patterns in denylists.items() for pattern in patterns]
