"""Decisions about updates and edits: pure functions from a payload and the playbook's state to events.

New names are assigned here, from the highest number so far, so a decision must be made under the ledger's lock.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeGuard

import attrs

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import (
    MAX_INT,
    RATINGS,
    Entry,
    PlaybookEdited,
    PlaybookOrdered,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointRated,
    PointRemoved,
)
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.names import MAX_NAME_CHARS, PREFIX, mint, parse_number, rename_in_sections

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tallybook.ledger.events import Event

# Far above any useful entry; a text from a legacy file may be longer still.
MAX_TEXT_CHARS = 100_000
MAX_RATING_CHARS = 100
FIELDS = ("new_key_points", "evaluations")
"""The keys of an extraction result."""
UNKNOWN_KEY = "is not a key of an extraction result"
# A line holds at least this many names: of 200 characters with four bytes each.
_NAMES_A_LINE = 60
# The former entry of a name whose addition was undone.
_UNKNOWN_ENTRY = Entry("", "")


@attrs.frozen
class IgnoredItem:
    """A part of a payload that counts nothing, and why.

    Attributes:
        item: Where it is: ``new_key_points[0]``, ``evaluations[2]``, or an unknown key of the payload.
        reason: Why it counts nothing.
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
        texts: New entries, as (item of the payload, text).
        ratings: Ratings, as (item of the payload, name, rating).
        ignored: The parts that cannot be used.
    """

    texts: tuple[tuple[str, str], ...] = ()
    ratings: tuple[tuple[str, str, str], ...] = ()
    ignored: tuple[IgnoredItem, ...] = ()


def text_fault(text: object) -> str | None:
    """Return why a value cannot be the text of an entry; None where it can."""
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


def read_extraction(payload: object, source: str = "payload") -> Extraction:
    """Check an extraction result part by part; parts that cannot be used are listed in ``ignored``.

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
    """The result of a decision.

    Attributes:
        events: The events to record; those of an update or edit end with ``playbook.updated`` or ``playbook.edited``.
        ignored: The parts of the payload that count nothing, and why.
        new_names: Name that the sender uses → the entry's name in the ledger, where they differ. A sender's later
            requests are decided with it, so each name is translated once.
    """

    events: tuple[Event, ...]
    ignored: tuple[IgnoredItem, ...] = ()
    new_names: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class KnownPlaybook:
    """What a decision needs to know about the playbook.

    Attributes:
        entries: The present entries, by name.
        high_water: Highest number that a name ever had, 0 for none.
        used_names: Every name that was ever in the playbook.
        pinned_names: Names of entries that are exempt from pruning.
        merged_into: Name of a merged entry → the entry that it was merged into.
        former_entries: Entries that left the playbook, with their last text and counts.
        refusal: Returns why a new text is refused because it was redacted; None where it may be recorded.
        prefix: The beginning of new names.
    """

    entries: Mapping[str, Entry] = attrs.field(factory=dict)
    high_water: int = 0
    used_names: Collection[str] = ()
    pinned_names: Collection[str] = ()
    merged_into: Mapping[str, str] = attrs.field(factory=dict)
    former_entries: Mapping[str, Entry] = attrs.field(factory=dict)
    refusal: Callable[[str], str | None] = attrs.field(default=lambda _: None)
    prefix: str = PREFIX


def decide_extraction(
    extraction: Extraction,
    known: KnownPlaybook,
    wishes: Mapping[str, str] | None = None,
    renamed_before: Mapping[str, str] | None = None,
) -> Decision:
    """Decide an update: new entries first, then ratings, then the close that prunes.

    Args:
        extraction: The extraction result.
        known: The state of the playbook.
        wishes: Text → the name that a program has given it already; used if its number is above the highest so far,
            so that no other entry can have it.
        renamed_before: Name that the program uses → the entry's name in the ledger, from its earlier requests.
    """
    name_of_text = {entry.text: name for name, entry in known.entries.items()} if extraction.texts else {}
    high_water = known.high_water
    events: list[Event] = []
    ignored = list(extraction.ignored)
    renamed = dict(renamed_before or {})
    for item, text in extraction.texts:
        wish = (wishes or {}).get(text, "")
        name = name_of_text.get(text, "")
        if name:
            ignored.append(IgnoredItem(item, f"already in the playbook as {name}", name))
        elif (why := known.refusal(text)) is not None:
            # No entry ever has this name, so the sender's ratings of the refused text count for no other entry.
            name = f"{wish}-refused" if wish else ""
            ignored.append(RefusedText(item, why, name or None))
        else:
            wished = parse_number(wish) or 0
            high_water, name = mint(max(high_water, wished - 1), known.used_names, known.prefix)
            name_of_text[text] = name
            events.append(PointAdded(name, text))
        if wish and wish != name:
            renamed[wish] = name
    added = len(events)
    into = {name for name, stays in known.merged_into.items() if stays in known.entries}
    names = known.entries.keys() | name_of_text.values() | into
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
    """A manual edit: the playbook before and after it.

    Attributes:
        base_entries: The entries before the edit, in order.
        entries: The entries after it, in order.
        top: The other top-level keys as a JSON object where they were changed; empty where not.
        seq: The event number of the playbook that was edited; None where unknown.
        source: SHA-256 of the edited file; None where there is none.
    """

    base_entries: tuple[Entry, ...]
    entries: tuple[Entry, ...]
    top: str = ""
    seq: int | None = None
    source: str | None = None


def decide_edit(
    edit: Edit,
    known: KnownPlaybook,
    drift: Mapping[str, tuple[int, int]],
    renamed_before: Mapping[str, str] | None = None,
) -> Decision:
    """Decide a manual edit, merged with the events that were recorded since its base.

    Args:
        edit: The edit, with the names that its sender uses.
        known: The state of the playbook now.
        drift: Name in the ledger → ratings counted since the base, as (helpful, harmful). They are added to a changed
            count, so that the edit does not discard ratings recorded in between.
        renamed_before: Name that the sender uses → the entry's name in the ledger, from its earlier requests.

    Returns:
        One event per changed entry, the order if it changed, and ``playbook.edited``. It prunes nothing.
    """
    entries = known.entries
    edit, refused = _drop_redacted(edit, known, renamed_before or {})
    renamed = _names_in_ledger(edit, known, renamed_before or {})
    base = {entry.name: entry for entry in edit.base_entries}
    base_names = [renamed.get(name, name) for name in base]
    edited_names = [renamed.get(entry.name, entry.name) for entry in edit.entries]
    removed = set(base_names) - set(edited_names)
    events: list[Event] = [PointRemoved(name) for name in base_names if name in removed and name in entries]
    after = dict.fromkeys(name for name in entries if name not in removed)
    for name, entry in zip(edited_names, edit.entries, strict=True):
        old, now = base.get(entry.name), entries.get(name)
        if old == entry:
            continue
        target = attrs.evolve(_merge_entry(entry, old, now, drift.get(name, (0, 0))), name=name)
        if target != now:
            events.append(PointEdited(name, target.helpful, target.harmful, target.text))
        after.setdefault(name)
    wanted = _decide_order(edited_names, base_names, list(after))
    if wanted != list(after):
        events.extend(
            PlaybookOrdered(tuple(wanted[begin : begin + _NAMES_A_LINE]))
            for begin in range(0, len(wanted), _NAMES_A_LINE)
        )
    events.append(PlaybookEdited(edit.seq, edit.source, rename_in_top(edit.top, renamed)))
    return Decision(tuple(events), refused, new_names=renamed)


def _drop_redacted(
    edit: Edit, known: KnownPlaybook, renamed: Mapping[str, str]
) -> tuple[Edit, tuple[RefusedText, ...]]:
    """Return an edit without redacted texts: an existing entry keeps its old text, a new one is left out."""
    base = {entry.name: entry for entry in edit.base_entries}
    allowed: list[Entry] = []
    refused: list[RefusedText] = []
    for index, entry in enumerate(edit.entries):
        old, now = base.get(entry.name), known.entries.get(renamed.get(entry.name, entry.name))
        texts = {one.text for one in (old, now) if one is not None}
        stays = old == entry or (now is not None and entry.text in texts)
        why = None if stays else known.refusal(entry.text)
        if why is None:
            allowed.append(entry)
            continue
        refused.append(RefusedText(f"key_points[{index}]", why, entry.name))
        if old is not None and now is not None:
            allowed.append(attrs.evolve(entry, text=old.text))
    return attrs.evolve(edit, entries=tuple(allowed)), tuple(refused)


def _names_in_ledger(edit: Edit, known: KnownPlaybook, renamed_before: Mapping[str, str]) -> dict[str, str]:
    """Return name in the edit → name in the ledger, with a new name for each new entry whose name is taken."""
    renamed, high_water = dict(renamed_before), known.high_water
    base = {entry.name for entry in edit.base_entries}
    claimed = {renamed.get(entry.name, entry.name) for entry in edit.entries if entry.name in base}
    taken = {*known.used_names, *known.entries, *(renamed.get(entry.name, entry.name) for entry in edit.entries)}
    for entry in edit.entries:
        if entry.name in base:
            continue
        name = renamed.get(entry.name, entry.name)
        former = known.entries.get(name)
        if edit.source is None and name in known.used_names:
            # A file says itself how its entries are named. A program's dict can give a name again that left it, and
            # other programs still mean the former entry by it.
            former = former or known.former_entries.get(name, _UNKNOWN_ENTRY)
        # Of a person's own playbook no name can be taken for a project's.
        is_foreign = known.prefix != PREFIX and not name.startswith(known.prefix)
        if is_foreign or name in claimed or (former is not None and former.text != entry.text):
            high_water, name = mint(high_water, taken, known.prefix)
            renamed[entry.name] = name
        claimed.add(name)
    return renamed


def rename_in_top(top: str, renamed: Mapping[str, str]) -> str:
    """Return top-level keys, a JSON object or empty, with the entries of sections renamed."""
    return dumps(rename_in_sections(json.loads(top), renamed)) if top and renamed else top


def _merge_entry(entry: Entry, old: Entry | None, now: Entry | None, drift: tuple[int, int]) -> Entry:
    """Return an entry with each field taken from the side that changed it."""
    text = entry.text if old is None or now is None or old.text != entry.text else now.text
    helpful, harmful = entry.helpful + drift[0], entry.harmful + drift[1]
    if old is not None and now is not None:
        helpful = now.helpful if old.helpful == entry.helpful else helpful
        harmful = now.harmful if old.harmful == entry.harmful else harmful
    return Entry(entry.name, text, max(helpful, 0), max(harmful, 0))


def _decide_order(edited: Sequence[str], base: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return the order of the entries after an edit: that of the edit where it changed the base's order."""
    in_base, in_edit, in_result = set(base), set(edited), set(after)
    old = [name for name in edited if name in in_base]
    new = [name for name in edited if name not in in_base]
    if old == [name for name in base if name in in_edit] and list(edited) == old + new:
        return list(after)
    return [name for name in edited if name in in_result] + [name for name in after if name not in in_edit]


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
    return type(value) is int and 0 <= value <= MAX_INT
