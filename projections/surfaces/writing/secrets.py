"""Secrets in texts of models and transcripts, masked before they are written; nothing is looked up or sent.

``[masked: GitHub Token]`` replaces a secret, in the event and in everything rendered from it. Masking a text again
changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.errors import BadInputError, Problem
from tallybook.ledger.events import PointNoted, PointProposed, ProposalDecided
from tallybook.projections.surfaces.writing.requests import Answer, PlainEvents, Undo, Update
from tallybook.projections.surfaces.writing.secret_formats import KEY_BLOCK, NAMES, find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.projections.surfaces.writing.requests import Decide

_WORDS: Final[dict[type, tuple[str, ...]]] = {
    Curation: ("text", "reason"),
    Undo: ("reason",),
    PointNoted: ("note",),
    PointProposed: ("text", "reason"),
    ProposalDecided: ("reason",),
}
"""Class → its fields with words of its sender."""
_LABEL = re.compile(rf"\[masked: (?:{'|'.join(map(re.escape, sorted(NAMES)))})\]")
_RUN = re.compile(r"[A-Za-z0-9_-]*+")
_KEY_END = re.compile(r"END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?(?: ?-{2,5})?|Private-MAC: ?[0-9a-fA-F]+")
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=]{40,}+")


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
class _Span:
    """The place of a secret: from ``begin`` up to ``end``, in characters."""

    begin: int
    end: int
    name: str


def list_formats(text: str) -> tuple[str, ...]:
    """Return the format of each secret in a text, in its order, and nothing of the secret itself."""
    return tuple(span.name for span in _spans(text))


def mask(text: str) -> MaskedText:
    """Return a text with a mask in the place of each secret; masking what comes of it again changes nothing."""
    masked: list[str] = []
    # One mask can uncover a match next to it. Each leaves less to search.
    while spans := _spans(text):
        text = _replace(text, spans)
        masked += [span.name for span in spans]
    return MaskedText(text, tuple(masked))


def mask_request(decide: Decide) -> tuple[Decide, tuple[Problem, ...]]:
    """Return what is recorded with the secrets of models and transcripts masked, and a problem for each masked item.

    Texts that files held, or that a program saved in a dict, stay as they are.

    Raises:
        BadInputError: It is nested too deeply to look through.
    """
    problems: list[Problem] = []
    if isinstance(decide, Update):
        payload, more = mask_payload(decide.payload)
        problems += more
        names: dict[str, str] = {}
        for text, name in decide.names.items():
            # Two texts that differ only in their secrets become one, under the first one's name.
            names.setdefault(mask(text).text, name)
        events = tuple(_mask_words(event, problems) for event in decide.plain_events)
        decide = attrs.evolve(decide, payload=payload, names=names, plain_events=events)
    elif isinstance(decide, PlainEvents):
        decide = PlainEvents(tuple(_mask_words(event, problems) for event in decide.events))
    elif isinstance(decide, Answer):
        decide = attrs.evolve(decide, event=_mask_words(decide.event, problems))
    else:
        decide = _mask_words(decide, problems)
    return decide, tuple(problems)


def _mask_words(value: Any, problems: list[Problem]) -> Any:
    """Return an event, a curation or an undo with its free words masked.

    Other events hold only paths and reasons of Tallybook.
    """
    words = {field: getattr(value, field) or "" for field in _WORDS.get(type(value), ())}
    if not words:
        return value
    places = {"note": f"note on {value.name}"} if "note" in words else {}
    return attrs.evolve(
        value, **{field: _mask_item(places.get(field, field), text, problems) for field, text in words.items()}
    )


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
    # A label's own words ("Access Key]") must not count as the keyword of what follows. Brackets belong to no token, no
    # password and no name.
    text = _LABEL.sub(lambda label: "[" * len(label[0]), text)
    spans = _with_blocks(text, [_Span(*place) for place in find(text)])
    # Of formats that begin at one place the first is named.
    return _join(text, sorted(spans, key=lambda span: span.begin))


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


def _with_blocks(text: str, spans: list[_Span]) -> list[_Span]:
    """Return spans with each private key's extended to its end line; without one, to the last line of a key."""
    if all(span.name != KEY_BLOCK for span in spans):
        return spans
    ends = [match.end() for match in _KEY_END.finditer(text)]
    last = max((match.end() for match in _KEY_BODY.finditer(text)), default=0)

    def block_end(span: _Span) -> int:
        index = bisect_left(ends, span.end)
        return ends[index] if index < len(ends) else max(span.end, last)

    return [attrs.evolve(span, end=block_end(span)) if span.name == KEY_BLOCK else span for span in spans]
