"""The prompt about a session, and what an answer to it says. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
import re
from typing import Any, Final

import attrs

from tallybook.ledger import event_json
from tallybook.ledger.decisions.operations import OPERATIONS
from tallybook.ledger.decisions.update import FIELDS, UNKNOWN_KEY, shorten_key
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import RATINGS, PointNoted
from tallybook.projections.playbook import inject
from tallybook.projections.surfaces.reflection.transcript import shorten
from tallybook.projections.surfaces.writing import secrets

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

_PLACES: Final = re.compile(r"\{(playbook|pruned|transcript)\}")
_ENDS: Final = re.compile(r"<\s*/\s*(playbook|pruned|transcript)", re.IGNORECASE)
_NOTHING: Final = "(nothing)"


@attrs.frozen
class ParsedReply:
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

    def about(self, names: Collection[str], texts: Collection[str] = ()) -> ParsedReply:
        """Return the answer with the evaluations of these names only, and without these new key points.

        A model rates what its prompt showed. Any other name is invented, and can be the one that a new entry gets; the
        texts are those that the prompt said not to bring back.
        """
        new = [text for text in self.payload["new_key_points"] if text not in texts]
        evaluations = self.payload["evaluations"]
        ratings = [evaluation for evaluation in evaluations if evaluation["name"] in names]
        notes = tuple(note for note in self.notes if note.name in names)
        others = [evaluation["name"] for evaluation in evaluations if evaluation["name"] not in names]
        ignored = (*self.ignored, *(f"the rating of {name}: the prompt did not show it" for name in others))
        return ParsedReply({"new_key_points": new, "evaluations": ratings}, notes, ignored, self.operations)


class UnusableError(Exception):
    """An answer says nothing that can be recorded; the message says what is wrong with it."""


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
    return frozenset(inject.names_of(inject.choose(entries, PLAYBOOK_CHARS).chosen) if "{playbook}" in template else ())


def read_answer(text: str) -> ParsedReply:
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
            words = shorten(secrets.mask(inject.one_line(quote)), QUOTE_CHARS)
            notes.append(PointNoted(name, f"{rating}: “{words}”"))
    known = (*FIELDS, OPERATIONS)
    unknown = tuple(f"{secrets.mask(shorten_key(key))}: {UNKNOWN_KEY}" for key in value if key not in known)
    rated = [{"name": name, "rating": rating} for name, rating in ratings.items()]
    operations = _list(value, OPERATIONS) if OPERATIONS in value else []
    payload = {"new_key_points": texts, "evaluations": rated}
    return ParsedReply(payload, tuple(notes), unknown, tuple(operations[:MAX_OPERATIONS]))


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
