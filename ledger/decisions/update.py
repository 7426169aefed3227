"""Decisions about updates: pure functions from a payload and the playbook's state to events.

New names are assigned here, from the highest number so far, so a decision must be made under the ledger's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeGuard

import attrs

from tallybook.ledger import events
from tallybook.ledger.errors import NOT_UNICODE, BadInputError
from tallybook.ledger.events import Entry, Event, is_day
from tallybook.ledger.names import MAX_NAME_CHARS, OTHERS, find_section
from tallybook.ledger.playbook_constants import MAX_INT, UNTIL

if TYPE_CHECKING:
    from tallybook.projections.playbook.view import Playbook

# Far above any useful entry; a text from a legacy file may be longer still.
MAX_TEXT_CHARS = 100_000
MAX_RATING_CHARS = 100
_FINAL_PUNCTUATION = " .,;:!?\u2026\u3002"
FIELDS = ("new_key_points", "evaluations")
"""The keys of an extraction result."""
UNKNOWN_KEY = "is not a key of an extraction result"
_NONE: Mapping[str, Any] = MappingProxyType({})


@attrs.frozen
class IgnoredItem:
    """A part of a payload that has no effect, and why.

    Attributes:
        item: Where it is: ``new_key_points[0]``, ``evaluations[2]``, or an unknown key of the payload.
        reason: Why it has no effect.
        name: The entry that it names; None without one.
    """

    item: str
    reason: str
    name: str | None = None


@attrs.frozen
class RefusedText(IgnoredItem):
    """A new text that was redacted and must not come back."""


@attrs.frozen
class Extraction:
    """A checked extraction result (ExtractionResult of the contract).

    Attributes:
        texts: New entries, as (item of the payload, text, heading of a section, last day); both are empty without one.
        ratings: Ratings, as (item of the payload, name, rating).
        ignored: The parts that cannot be used.
    """

    texts: tuple[tuple[str, str, str, str], ...] = ()
    ratings: tuple[tuple[str, str, str], ...] = ()
    ignored: tuple[IgnoredItem, ...] = ()


def find_equal(text: str, entries: Mapping[str, Entry]) -> str:
    """Return the name of the entry that has a text but for case, white space and final punctuation; empty for none."""
    form = equal_form(text)
    return next((name for name, entry in entries.items() if equal_form(entry.text) == form), "")


def equal_form(text: str) -> str:
    """Return a text without what two texts that say the same may differ in: case, white space, final punctuation."""
    words = " ".join(text.casefold().split())
    return words.rstrip(_FINAL_PUNCTUATION) or words


def text_fault(text: object) -> str | None:
    """Return why a value cannot be the text of an entry; None where it can."""
    if not isinstance(text, str):
        return f"expected a text, got {type(text).__name__}"
    if not text.strip():
        return "the text is empty"
    if len(text) > MAX_TEXT_CHARS:
        return f"the text has {len(text):,} characters, at most {MAX_TEXT_CHARS:,} are taken"
    return _unicode_fault(text)


def day_fault(day: object) -> str | None:
    """Return why a value cannot be the last day of an entry; None where it can, or is empty for no end."""
    return None if day == "" or is_day(day) else "until is not a day such as 2026-12-31"


def _unicode_fault(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return NOT_UNICODE
    return None


def rating_fault(evaluation: object) -> str | None:
    """Return why a value cannot be a rating with its entry's name; None where it can."""
    if not isinstance(evaluation, dict):
        return f"expected an object with name and rating, got {type(evaluation).__name__}"
    for field, most in (("name", MAX_NAME_CHARS), ("rating", MAX_RATING_CHARS)):
        value = evaluation.get(field)
        if not isinstance(value, str) or not value:
            return f"expected a text as {field}"
        if len(value) > most:
            return f"the {field} has {len(value):,} characters, at most {most} are taken"
        if _unicode_fault(value) is not None:
            return f"the {field} {_unicode_fault(value)}"
    return None


def shorten_key(key: object) -> str:
    """Return an unknown key of a payload as messages show it: no longer than a name."""
    return str(key)[:MAX_NAME_CHARS]


def read_extraction(
    payload: object, source: str = "payload", texts: Mapping[str, Any] = _NONE, tags: Mapping[str, Any] = _NONE
) -> Extraction:
    """Check an extraction result part by part; parts that cannot be used are listed in ``ignored``.

    Args:
        payload: The extraction result.
        source: What an error calls it.
        texts: Place in a result of the later format → a new entry, in addition to those of the extraction result.
        tags: Place in a result of the later format → a rating, in the same way.

    Raises:
        BadInputError: It is not an extraction result.
    """
    if not isinstance(payload, dict):
        raise BadInputError(source, f"expected an object, got {type(payload).__name__}", "nothing was recorded")
    lists = {field: payload.get(field, []) for field in FIELDS}
    if not any(field in payload for field in lists):
        raise BadInputError(source, "has neither new_key_points nor evaluations", "nothing was recorded")
    for field, value in lists.items():
        if not isinstance(value, list):
            raise BadInputError(f"{source}: {field}", f"expected a list, got {type(value).__name__}")
    points, evaluations = (
        {f"{field}[{index}]": value for index, value in enumerate(values)} for field, values in lists.items()
    )
    new: list[tuple[str, Any, str, str]] = []
    ratings, ignored = [], []
    for item, point in {**points, **texts}.items():
        fields = point if isinstance(point, dict) else {"text": point}
        text, day = fields.get("text"), fields.get(UNTIL, "")
        fault = text_fault(text) or day_fault(day)
        if fault is None:
            new.append((item, text, section_of(fields), day))
        else:
            ignored.append(IgnoredItem(item, fault))
    for item, evaluation in {**evaluations, **tags}.items():
        fault = rating_fault(evaluation)
        if fault is None:
            ratings.append((item, evaluation["name"], evaluation["rating"]))
        else:
            ignored.append(IgnoredItem(item, fault))
    ignored += [IgnoredItem(shorten_key(key), UNKNOWN_KEY) for key in payload if key not in FIELDS]
    return Extraction(tuple(new), tuple(ratings), tuple(ignored))


def section_of(point: Mapping[str, Any]) -> str:
    """Return the heading that a new entry names; that of OTHERS for an unknown one, empty where it names none."""
    return (find_section(point["section"]) or OTHERS) if "section" in point else ""


@attrs.frozen
class Decision:
    """The result of a decision.

    Attributes:
        events: The events to record; those of an update or edit end with ``playbook.updated`` or ``playbook.edited``.
        ignored: The parts of the payload that have no effect, and why.
        new_names: Name that the sender uses → the entry's name in the ledger, where they differ. A sender's later
            requests are decided with it, so each name is translated once.
    """

    events: tuple[Event, ...]
    ignored: tuple[IgnoredItem, ...] = ()
    new_names: Mapping[str, str] = attrs.field(factory=dict)


def decide_extraction(
    extraction: Extraction,
    state: Playbook,
    wishes: Mapping[str, str] | None = None,
    renamed_before: Mapping[str, str] | None = None,
    refusal: Callable[[str], str | None] = lambda _: None,
) -> Decision:
    """Decide an update: new entries first, then ratings, then the close that prunes.

    Args:
        extraction: The extraction result.
        state: The playbook.
        wishes: Text → the name that a program has given it already; used if its number is above the highest so far,
            so that no other entry can have it.
        renamed_before: Name that the program uses → the entry's name in the ledger, from its earlier requests.
        refusal: Returns why a new text is refused because it was redacted; None where it may be recorded.
    """
    name_of_text = {entry.text: name for name, entry in state.entries.items()} if extraction.texts else {}
    names_given = state.name_giver()
    changes: list[Event] = []
    ignored = list(extraction.ignored)
    renamed = dict(renamed_before or {})
    # Additions come first, so that a rating in the same payload can mean a new entry.
    for item, text, section, day in extraction.texts:
        wish = (wishes or {}).get(text, "")
        name = name_of_text.get(text, "")
        if name:
            ignored.append(IgnoredItem(item, f"already in the playbook as {name}", name))
        elif (why := refusal(text)) is not None:
            # No entry ever has this name, so the sender's ratings of the refused text count for no other entry.
            name = f"{wish}-refused" if wish else ""
            ignored.append(RefusedText(item, why, name or None))
        else:
            name_of_text[text] = name = names_given.next(section, wish)
            changes.append(events.PointAdded(name, text))
            changes += [events.PointPlaced(name, "", section)] if section else []
            changes += [events.PointLimited(name, "", day)] if day else []
        if wish and wish != name:
            renamed[wish] = name
    added = sum(isinstance(event, events.PointAdded) for event in changes)
    into = {name for name, stays in state.merged.items() if stays in state.entries}
    names = state.entries.keys() | name_of_text.values() | into
    idle = []
    for item, sent, rating in extraction.ratings:
        name = renamed.get(sent, sent)
        changes.append(events.PointRated(name, rating))
        # Recorded all the same: a rating of an unknown name is evidence, and has no effect.
        if name not in names:
            idle.append(IgnoredItem(item, "no such entry in the playbook", name))
        elif rating not in events.RATINGS:
            idle.append(IgnoredItem(item, f"the rating {rating!r} has no effect", name))
    rated = len(extraction.ratings) - len(idle)
    # This event alone prunes, so it follows every rating of its update.
    changes.append(events.PlaybookUpdated(added, rated, len(extraction.ignored) + len(idle)))
    ignored += idle
    return Decision(tuple(changes), tuple(ignored), renamed)


def read_entries(value: object, source: str) -> tuple[Entry, ...]:
    """Return entries from canonical dicts.

    Raises:
        BadInputError: One lacks a field that REQ-SCORE-001 requires, or has one of another type.
    """
    if not isinstance(value, list):
        raise BadInputError(source, f"expected a list of entries, got {type(value).__name__}")
    entries = []
    for index, entry in enumerate(value):
        fields = entry if isinstance(entry, dict) else {}
        name, text = fields.get("name"), fields.get("text")
        helpful, harmful = fields.get("helpful"), fields.get("harmful")
        if not (isinstance(name, str) and name and isinstance(text, str) and _is_count(helpful) and _is_count(harmful)):
            raise BadInputError(f"{source}[{index}]", "expected an entry with name, text, helpful and harmful")
        entries.append(Entry(name, text, helpful, harmful))
    return tuple(entries)


def _is_count(value: object) -> TypeGuard[int]:
    # A bool is an int as well.
    return type(value) is int and 0 <= value <= MAX_INT
