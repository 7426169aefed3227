"""What a model is asked about a session, and what its answer says: pure but for the template's file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.decisions.update import FIELDS, UNKNOWN_KEY, shorten_key
from tallybook.ledger.encoding import strict_json
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import RATINGS, PointNoted
from tallybook.projections.playbook import inject
from tallybook.projections.surfaces.reflection.transcript import shortened
from tallybook.projections.surfaces.writing import secrets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

TEMPLATE: Final = "reflection.txt"
PLAYBOOK_CHARS: Final = 40_000
"""Characters of the playbook that a model is shown; of a longer one what an agent would be told first."""
PRUNED_SHOWN: Final = 50
"""Entries that are gone, the latest, that a model is told not to bring back."""
PRUNED_CHARS: Final = 300
QUOTE_CHARS: Final = 200
MAX_NEW: Final = 20
"""New key points that an answer may bring; it is asked for five."""
ANSWER_TOKENS: Final = 4_000
"""What an answer may have."""

_PLACES: Final = re.compile(r"\{(playbook|pruned|transcript)\}")
_ENDS: Final = re.compile(r"<\s*/\s*(playbook|pruned|transcript)", re.IGNORECASE)
_NOTHING: Final = "(nothing)"
_BYTES_A_TOKEN: Final = 3.5


@attrs.frozen
class Judged:
    """What an answer says.

    Attributes:
        payload: ``{"new_key_points": [...], "evaluations": [{"name", "rating"}]}``, as ``record`` takes it.
        notes: The words that show an evaluation, for those that came with any.
        ignored: What else it brought, which counts nothing, and why.
    """

    payload: dict[str, Any]
    notes: tuple[PointNoted, ...] = ()
    ignored: tuple[str, ...] = ()


class UnusableError(BadInputError):
    """An answer says nothing that could be recorded."""

    def __init__(self, what: str) -> None:
        """Say what is wrong with it."""
        super().__init__("the answer", what)
        self.what = what


def ask(template: str, entries: Sequence[Mapping[str, Any]], pruned: Sequence[str], said: str) -> str:
    """Return what a model is asked.

    Args:
        template: Text with ``{playbook}``, ``{pruned}`` and ``{transcript}``; braces elsewhere mean nothing.
        entries: The playbook's entries, each ``{name, text, helpful, harmful}``.
        pruned: Texts of entries that are gone, the latest last.
        said: What was said in the session.

    Raises:
        BadInputError: The template has no place for the transcript.
    """
    if "{transcript}" not in template:
        raise BadInputError(TEMPLATE, "has no {transcript}", "put it in the place of the session's text")
    gone = [f"- {shortened(inject.one_line(text), PRUNED_CHARS)}" for text in pruned[-PRUNED_SHOWN:]]
    told = {
        "playbook": "\n".join(inject.choose(entries, PLAYBOOK_CHARS).lines),
        "pruned": "\n".join(gone),
        "transcript": said,
    }
    # What is data must not end the place that says so.
    return _PLACES.sub(lambda place: _ENDS.sub(r"< /\1", told[place[1]]) or _NOTHING, template)


def shown_names(template: str, entries: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the names of the entries that `ask` shows of a playbook."""
    return frozenset(inject.choose(entries, PLAYBOOK_CHARS).names if "{playbook}" in template else ())


def tokens(prompt: str, more_bytes: int = 0) -> int:
    """Return about how many tokens a prompt, what is sent besides and the answer cost: rather too many than too few."""
    return int((len(prompt.encode("utf-8", "replace")) + more_bytes) / _BYTES_A_TOKEN) + ANSWER_TOKENS


def read(text: str) -> Judged:
    """Return what an answer says: the one JSON object in it; prose around it is passed over.

    Raises:
        UnusableError: There is none, or more than one, or it is not of the shape that was asked for.
    """
    return judged(_object(text))


def _object(text: str) -> Any:
    """Return the one JSON object of an answer."""
    found = [text[begin:end] for begin, end in _objects(text)]
    # Braces stand in prose too.
    found = [one for one in found if '"new_key_points"' in one or '"evaluations"' in one]
    if len(found) != 1:
        raise UnusableError("holds no whole JSON object" if not found else f"holds {len(found)} JSON objects")
    try:
        return strict_json.loads(found[0].encode("utf-8", "surrogatepass"), "the answer")
    except BadInputError as error:
        raise UnusableError(f"is no JSON: {error}") from error


def _objects(text: str) -> Iterable[tuple[int, int]]:
    """Yield where the outermost pairs of braces stand; braces within a JSON string count nothing."""
    depth = begin = 0
    quoted = escaped = False
    for at, char in enumerate(text):
        if quoted:
            quoted, escaped = escaped or char != '"', char == "\\" and not escaped
        elif char == '"' and depth:
            quoted = True
        elif char == "{":
            begin = begin if depth else at
            depth += 1
        elif char == "}" and depth:
            depth -= 1
            if not depth:
                yield begin, at + 1


def judged(value: Any) -> Judged:
    """Return what an answer's JSON says.

    Raises:
        UnusableError: It is not of the shape that was asked for.
    """
    texts, evaluations = (_list(value, field) for field in ("new_key_points", "evaluations"))
    if len(texts) > MAX_NEW:
        raise UnusableError(f"brings {len(texts)} new key points, at most {MAX_NEW} are taken")
    for index, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise UnusableError(f"has no text as new_key_points[{index}]")
    seen: set[str] = set()
    notes = []
    for index, one in enumerate(evaluations):
        name, rating, quote = _evaluation(one, f"evaluations[{index}]")
        if name in seen:
            raise UnusableError(f"rates {name} twice")
        seen.add(name)
        if quote.strip():
            words = shortened(secrets.mask(inject.one_line(quote)).text, QUOTE_CHARS)
            notes.append(PointNoted(name, f"{rating}: “{words}”"))
    ratings = [{"name": one["name"], "rating": one["rating"]} for one in evaluations]
    unknown = tuple(f"{secrets.mask(shorten_key(key)).text}: {UNKNOWN_KEY}" for key in value if key not in FIELDS)
    return Judged({"new_key_points": texts, "evaluations": ratings}, tuple(notes), unknown)


def without(judged: Judged, gone: Sequence[str]) -> Judged:
    """Return what an answer says without the texts of entries that are gone: it was told not to bring them back."""
    texts = [text for text in judged.payload["new_key_points"] if text not in set(gone)]
    return attrs.evolve(judged, payload=judged.payload | {"new_key_points": texts})


def of_names(judged: Judged, names: Collection[str]) -> Judged:
    """Return what an answer says without the evaluations, and their quotes, of other names than these.

    A model rates what its prompt showed. Any other name is invented, and can be the one that a new entry gets.
    """
    ratings = [one for one in judged.payload["evaluations"] if one["name"] in names]
    notes = tuple(note for note in judged.notes if note.name in names)
    others = [one["name"] for one in judged.payload["evaluations"] if one["name"] not in names]
    ignored = (*judged.ignored, *(f"the rating of {name}: the prompt did not show it" for name in others))
    return Judged(judged.payload | {"evaluations": ratings}, notes, ignored)


def _list(value: Any, field: str) -> list[Any]:
    found = value.get(field) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise UnusableError(f"has no list as {field}")
    return found


def _evaluation(one: Any, place: str) -> tuple[str, str, str]:
    """Return name, rating and quote of an evaluation."""
    fields = one if isinstance(one, dict) else {}
    name, rating, quote = fields.get("name"), fields.get("rating"), fields.get("quote") or ""
    if not (isinstance(name, str) and name and isinstance(quote, str)):
        raise UnusableError(f"has no name and rating as {place}")
    if not isinstance(rating, str) or rating not in RATINGS:
        raise UnusableError(f"has {rating!r} as the rating of {name}")
    return name, rating, quote
