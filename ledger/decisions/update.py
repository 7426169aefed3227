"""From what somebody sends to what happened: pure functions of the payload and the known facts.

Names are given here, by the high-water mark, so a decision holds only as long as nobody else appends: it is made
under the ledger's lock.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeGuard

import attrs

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import (
    MAX_INT,
    RATINGS,
    KeyPoint,
    PlaybookEdited,
    PlaybookOrdered,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointRated,
    PointRemoved,
)
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.names import MAX_NAME_CHARS, format_name, next_free_number, parse_number, rename_in_sections

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tallybook.ledger.events import Event

# Far above any advice worth reading; a text from a legacy file may be longer still.
MAX_TEXT_CHARS = 100_000
MAX_RATING_CHARS = 100
FIELDS = ("new_key_points", "evaluations")
"""The keys of an extraction result."""
UNKNOWN_KEY = "is not a key of an extraction result"
# So many names of the longest kind, in four-byte characters, fit a line.
_NAMES_A_LINE = 60
# What a name stood for whose adding was undone.
_UNKNOWN_ENTRY = KeyPoint("", "")


@attrs.frozen
class IgnoredItem:
    """A part of a payload that counts nothing, and why.

    Attributes:
        item: Where it stands: ``new_key_points[0]``, ``evaluations[2]``, or an unknown key of the payload.
        reason: Why it counts nothing.
        name: The entry it meant, None where it names none.
    """

    item: str
    reason: str
    name: str | None = None


@attrs.frozen
class RefusedText(IgnoredItem):
    """A new text that was redacted and must not come back."""


@attrs.frozen
class Extraction:
    """An extraction result (ExtractionResult of the contract), read.

    Attributes:
        texts: New key points, by their place in the payload.
        ratings: (name, rating), by their place in the payload.
        ignored: What could not be used at all.
    """

    texts: tuple[tuple[str, str], ...] = ()
    ratings: tuple[tuple[str, str, str], ...] = ()
    ignored: tuple[IgnoredItem, ...] = ()


def text_fault(text: object) -> str | None:
    """Say why something cannot be the text of a new key point, None where it can."""
    if not isinstance(text, str):
        return f"expected a text, got {type(text).__name__}"
    if not text.strip():
        return "the text is empty"
    if len(text) > MAX_TEXT_CHARS:
        return f"the text has {len(text):,} characters, at most {MAX_TEXT_CHARS:,} are taken"
    return _unicode_fault(text)


def _unicode_fault(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains half of a surrogate pair, which is not Unicode text"
    return None


def rating_fault(evaluation: object) -> str | None:
    """Say why something cannot be an evaluation, None where it can."""
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


def read_extraction(payload: object, source: str = "payload") -> Extraction:
    """Read an extraction result, keeping what can be used and naming the rest.

    Raises:
        BadInputError: It is no extraction result at all.
    """
    if not isinstance(payload, dict):
        raise BadInputError(source, f"expected an object, got {type(payload).__name__}", "nothing was recorded")
    lists = {field: payload.get(field, []) for field in FIELDS}
    if not any(field in payload for field in lists):
        raise BadInputError(source, "has neither new_key_points nor evaluations", "nothing was recorded")
    for field, value in lists.items():
        if not isinstance(value, list):
            raise BadInputError(f"{source}: {field}", f"expected a list, got {type(value).__name__}")
    texts, ratings, ignored = [], [], []
    for index, text in enumerate(lists["new_key_points"]):
        item, fault = f"new_key_points[{index}]", text_fault(text)
        if fault is None:
            texts.append((item, text))
        else:
            ignored.append(IgnoredItem(item, fault))
    for index, evaluation in enumerate(lists["evaluations"]):
        item, fault = f"evaluations[{index}]", rating_fault(evaluation)
        if fault is None:
            ratings.append((item, evaluation["name"], evaluation["rating"]))
        else:
            ignored.append(IgnoredItem(item, fault))
    ignored += [IgnoredItem(shorten_key(key), UNKNOWN_KEY) for key in payload if key not in FIELDS]
    return Extraction(tuple(texts), tuple(ratings), tuple(ignored))


@attrs.frozen
class Decision:
    """What a payload comes to.

    Attributes:
        events: What happened, closed by ``playbook.updated`` or ``playbook.edited``.
        ignored: What counts nothing, and why.
        new_names: Name that the sender uses → the entry's name in the ledger, where they differ. A sender's later
            requests are decided with it, so each name is translated once.
    """

    events: tuple[Event, ...]
    ignored: tuple[IgnoredItem, ...] = ()
    new_names: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class PlaybookFacts:
    """What a decision must know of the playbook.

    Attributes:
        points: The entries that stand, by name.
        high_water: Highest number that a name ever had, 0 for none.
        used_names: Every name that ever stood.
        pinned_names: Names that are not pruned.
        merged_into: Name of a merged entry → the one that it went into.
        former_points: Entries that stood and do not, as they stood last.
        refusal: Says why a new text is refused because it was redacted, None where it may be recorded.
    """

    points: Mapping[str, KeyPoint] = attrs.field(factory=dict)
    high_water: int = 0
    used_names: Collection[str] = ()
    pinned_names: Collection[str] = ()
    merged_into: Mapping[str, str] = attrs.field(factory=dict)
    former_points: Mapping[str, KeyPoint] = attrs.field(factory=dict)
    refusal: Callable[[str], str | None] = attrs.field(default=lambda _: None)


def decide_extraction(
    extraction: Extraction,
    known: PlaybookFacts,
    wishes: Mapping[str, str] | None = None,
    renamed_before: Mapping[str, str] | None = None,
) -> Decision:
    """Decide an update: new points first, then ratings, then the close that prunes.

    Args:
        extraction: What was sent.
        known: What stands, and what names were used.
        wishes: Text → the name that a program has given it already; kept if it lies above the high-water mark,
            where no other entry can have it.
        renamed_before: Name that the program uses → the entry's name in the ledger, from its earlier requests.
    """
    standing = {point.text: name for name, point in known.points.items()} if extraction.texts else {}
    high_water = known.high_water
    events: list[Event] = []
    ignored = list(extraction.ignored)
    renamed = dict(renamed_before or {})
    for item, text in extraction.texts:
        wish = (wishes or {}).get(text, "")
        name = standing.get(text, "")
        if name:
            ignored.append(IgnoredItem(item, f"stands already as {name}", name))
        elif (why := known.refusal(text)) is not None:
            # No entry ever has this name: what the sender says of the refused text counts for no other entry.
            name = f"{wish}-refused" if wish else ""
            ignored.append(RefusedText(item, why, name or None))
        else:
            wished = parse_number(wish) or 0
            high_water = wished if wished > high_water else next_free_number(high_water, known.used_names)
            standing[text] = name = format_name(high_water)
            events.append(PointAdded(name, text))
        if wish and wish != name:
            renamed[wish] = name
    added = len(events)
    into = {name for name, stays in known.merged_into.items() if stays in known.points}
    names = known.points.keys() | standing.values() | into
    idle = []
    for item, sent, rating in extraction.ratings:
        name = renamed.get(sent, sent)
        events.append(PointRated(name, rating))
        if name not in names:
            idle.append(IgnoredItem(item, "no such entry in the playbook", name))
        elif rating not in RATINGS:
            idle.append(IgnoredItem(item, f"the rating {rating!r} counts nothing", name))
    rated = len(extraction.ratings) - len(idle)
    events.append(PlaybookUpdated(added, rated, len(extraction.ignored) + len(idle)))
    ignored += idle
    return Decision(tuple(events), tuple(ignored), renamed)


@attrs.frozen
class Edit:
    """A playbook that somebody changed by hand or by an old program, and what it was before.

    Attributes:
        base_entries: The entries before the change, in order.
        entries: The entries after it, in order.
        top: The other top-level keys as a JSON object, where they were changed; empty elsewhere.
        seq: The moment of the base, None where it has none.
        source: SHA-256 of the changed file, None where there is none.
    """

    base_entries: tuple[KeyPoint, ...]
    entries: tuple[KeyPoint, ...]
    top: str = ""
    seq: int | None = None
    source: str | None = None


def decide_edit(
    edit: Edit,
    known: PlaybookFacts,
    drift: Mapping[str, tuple[int, int]],
    renamed_before: Mapping[str, str] | None = None,
) -> Decision:
    """Decide what a changed playbook says on top of what came in since.

    Args:
        edit: The change, in the names that its sender uses.
        known: What stands now, and what names were used.
        drift: Name in the ledger → what was counted since the base (helpful, harmful); it is added to a changed
            count, so that no rating that came in meanwhile is undone.
        renamed_before: Name that the sender uses → the entry's name in the ledger, from its earlier requests.

    Returns:
        One event an entry, then the order if it changed, closed by ``playbook.edited``. It prunes nothing.
    """
    points = known.points
    edit, refused = _drop_redacted(edit, known, renamed_before or {})
    renamed = _names_in_ledger(edit, known, renamed_before or {})
    base = {point.name: point for point in edit.base_entries}
    base_names = [renamed.get(name, name) for name in base]
    found_names = [renamed.get(point.name, point.name) for point in edit.entries]
    removed = set(base_names) - set(found_names)
    events: list[Event] = [PointRemoved(name) for name in base_names if name in removed and name in points]
    after = dict.fromkeys(name for name in points if name not in removed)
    for name, point in zip(found_names, edit.entries, strict=True):
        old, now = base.get(point.name), points.get(name)
        if old == point:
            continue
        target = attrs.evolve(_merge_entry(point, old, now, drift.get(name, (0, 0))), name=name)
        if target != now:
            events.append(PointEdited(name, target.helpful, target.harmful, target.text))
        after.setdefault(name)
    wanted = _decide_order(found_names, base_names, list(after))
    if wanted != list(after):
        events.extend(
            PlaybookOrdered(tuple(wanted[begin : begin + _NAMES_A_LINE]))
            for begin in range(0, len(wanted), _NAMES_A_LINE)
        )
    events.append(PlaybookEdited(edit.seq, edit.source, rename_in_top(edit.top, renamed)))
    return Decision(tuple(events), refused, new_names=renamed)


def _drop_redacted(
    edit: Edit, known: PlaybookFacts, renamed: Mapping[str, str]
) -> tuple[Edit, tuple[RefusedText, ...]]:
    """Return an edit without the new texts that were redacted: an entry keeps its text, a new one is left out."""
    base = {point.name: point for point in edit.base_entries}
    found: list[KeyPoint] = []
    refused: list[RefusedText] = []
    for index, point in enumerate(edit.entries):
        old, now = base.get(point.name), known.points.get(renamed.get(point.name, point.name))
        texts = {one.text for one in (old, now) if one is not None}
        stays = old == point or (now is not None and point.text in texts)
        why = None if stays else known.refusal(point.text)
        if why is None:
            found.append(point)
            continue
        refused.append(RefusedText(f"key_points[{index}]", why, point.name))
        if old is not None and now is not None:
            found.append(attrs.evolve(point, text=old.text))
    return attrs.evolve(edit, entries=tuple(found)), tuple(refused)


def _names_in_ledger(edit: Edit, known: PlaybookFacts, renamed_before: Mapping[str, str]) -> dict[str, str]:
    """Return name in the edit → name in the ledger, with a free one for each new entry whose name is another's."""
    renamed, high_water = dict(renamed_before), known.high_water
    base = {point.name for point in edit.base_entries}
    claimed = {renamed.get(point.name, point.name) for point in edit.entries if point.name in base}
    taken = {*known.used_names, *known.points, *(renamed.get(point.name, point.name) for point in edit.entries)}
    for point in edit.entries:
        if point.name in base:
            continue
        name = renamed.get(point.name, point.name)
        former = known.points.get(name)
        if edit.source is None and name in known.used_names:
            # A file says itself how its entries are named. A program's dict can give a name again that left it, and
            # other programs still mean the former entry by it.
            former = former or known.former_points.get(name, _UNKNOWN_ENTRY)
        if name in claimed or (former is not None and former.text != point.text):
            high_water = next_free_number(high_water, taken)
            renamed[point.name] = name = format_name(high_water)
        claimed.add(name)
    return renamed


def rename_in_top(top: str, renamed: Mapping[str, str]) -> str:
    """Return top-level keys, a JSON object or empty, whose sections name entries by their new names."""
    return dumps(rename_in_sections(json.loads(top), renamed)) if top and renamed else top


def _merge_entry(point: KeyPoint, old: KeyPoint | None, now: KeyPoint | None, drift: tuple[int, int]) -> KeyPoint:
    """Return an entry with each field from the side that changed it."""
    text = point.text if old is None or now is None or old.text != point.text else now.text
    helpful, harmful = point.helpful + drift[0], point.harmful + drift[1]
    if old is not None and now is not None:
        helpful = now.helpful if old.helpful == point.helpful else helpful
        harmful = now.harmful if old.harmful == point.harmful else harmful
    return KeyPoint(point.name, text, max(helpful, 0), max(harmful, 0))


def _decide_order(found: Sequence[str], base: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return the order that entries have after an edit: the found one where it differs from the base's."""
    stood, here = set(base), set(found)
    kept = [name for name in found if name in stood]
    new_last = [name for name in found if name not in stood]
    if kept == [name for name in base if name in here] and list(found) == kept + new_last:
        return list(after)
    standing = set(after)
    return [name for name in found if name in standing] + [name for name in after if name not in here]


def read_points(value: object, source: str) -> tuple[KeyPoint, ...]:
    """Return canonical dicts of entries as values.

    Raises:
        BadInputError: They are not what REQ-SCORE-001 asks of an entry.
    """
    if not isinstance(value, list):
        raise BadInputError(source, f"expected a list of entries, got {type(value).__name__}")
    points = []
    for index, entry in enumerate(value):
        fields = entry if isinstance(entry, dict) else {}
        name, text = fields.get("name"), fields.get("text")
        helpful, harmful = fields.get("helpful"), fields.get("harmful")
        if not (isinstance(name, str) and name and isinstance(text, str) and _is_count(helpful) and _is_count(harmful)):
            raise BadInputError(f"{source}[{index}]", "expected an entry with name, text, helpful and harmful")
        points.append(KeyPoint(name, text, helpful, harmful))
    return tuple(points)


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= MAX_INT
