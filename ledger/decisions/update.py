"""Decisions about updates and manual edits: pure functions from a payload or an edit and the playbook to events.

New names are assigned here, from the highest number so far, so a decision must be made under the ledger's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger import events
from tallybook.ledger.errors import NOT_UNICODE, BadInputError
from tallybook.ledger.events import Entry, Event, is_day
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.names import MAX_NAME_CHARS, OTHERS, PREFIX, find_section, rename_in_sections
from tallybook.ledger.playbook_constants import GONE_REASONS, UNTIL

if TYPE_CHECKING:
    from tallybook.projections.playbook.view import Playbook

# Far above any useful entry; a text from a legacy file may be longer still.
MAX_TEXT_CHARS = 100_000
MAX_RATING_CHARS = 100
_SURROGATE = re.compile("[\ud800-\udfff]")
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


def find_equal(text: str, entries: Mapping[str, Entry]) -> str:
    """Return the name of the entry that has a text but for case, white space and final punctuation; empty for none."""
    form = equal_form(text)
    return next((name for name, entry in entries.items() if equal_form(entry.text) == form), "")


def equal_form(text: str) -> str:
    """Return a text without what two texts that say the same may differ in: case, white space, final punctuation."""
    words = " ".join(text.casefold().split())
    return words.rstrip(_FINAL_PUNCTUATION) or words


def text_fault(text: object, field: str = "text") -> str | None:
    """Return why the value of a field cannot be the text of an entry; None where it can."""
    if text is None:
        return f"{field} is missing"
    if not isinstance(text, str):
        return f"expected a text, got {type(text).__name__}"
    if not text.strip():
        return "the text is empty"
    if len(text) > MAX_TEXT_CHARS:
        return f"the text has {len(text):,} characters, at most {MAX_TEXT_CHARS:,} are taken"
    return NOT_UNICODE if _SURROGATE.search(text) else None


def day_fault(day: object) -> str | None:
    """Return why a value cannot be the last day of an entry; None where it can, or is empty for no end."""
    return None if day == "" or is_day(day) else "until is not a day such as 2026-12-31"


def find_rating_fault(evaluation: object) -> str | None:
    """Return why a value cannot be a rating with its entry's name; None where it can."""
    if not isinstance(evaluation, dict):
        return f"expected an object with name and rating, got {type(evaluation).__name__}"
    for field, most in (("name", MAX_NAME_CHARS), ("rating", MAX_RATING_CHARS)):
        value = evaluation.get(field)
        if not isinstance(value, str) or not value:
            return f"expected a text as {field}"
        if len(value) > most:
            return f"the {field} has {len(value):,} characters, at most {most} are taken"
        if _SURROGATE.search(value):
            return f"the {field} {NOT_UNICODE}"
    return None


def shorten_key(key: object) -> str:
    """Return an unknown key of a payload as messages show it: no longer than a name."""
    return str(key)[:MAX_NAME_CHARS]


def check_extraction(
    payload: Any, source: str = "payload", places: Collection[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the new entries and the ratings of an extraction result, each by its place in it.

    Args:
        payload: The extraction result.
        source: What an error calls it.
        places: The places in it that count; None for all.

    Raises:
        BadInputError: It is not an extraction result.
    """
    if not isinstance(payload, dict):
        raise BadInputError(source, f"expected an object, got {type(payload).__name__}", "nothing was recorded")
    if not any(field in payload for field in FIELDS):
        raise BadInputError(source, "has neither new_key_points nor evaluations", "nothing was recorded")
    lists = {field: payload.get(field, []) for field in FIELDS}
    for field, value in lists.items():
        if not isinstance(value, list):
            raise BadInputError(f"{source}: {field}", f"expected a list, got {type(value).__name__}")
    return {field: number_items(field, values, places) for field, values in lists.items()}


def number_items(field: str, values: Sequence[Any], places: Collection[str] | None = None) -> dict[str, Any]:
    """Return place → item of a list in an extraction result; of these ``places`` alone, None for all."""
    items = {f"{field}[{index}]": value for index, value in enumerate(values)}
    return items if places is None else {place: value for place, value in items.items() if place in places}


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


def decide_extraction(  # noqa: PLR0913 - parts of the result, and what is known of names and texts
    payload: Any,
    state: Playbook,
    source: str = "payload",
    *,
    places: Collection[str] | None = None,
    texts: Mapping[str, Any] = _NONE,
    tags: Mapping[str, Any] = _NONE,
    wishes: Mapping[str, str] = _NONE,
    renamed_before: Mapping[str, str] = _NONE,
    refusal: Callable[[str], str | None] = lambda _: None,
) -> Decision:
    """Decide an extraction result part by part: new entries first, then ratings, then the close that prunes.

    Args:
        payload: The extraction result.
        state: The playbook.
        source: What an error calls the payload.
        places: The places in the payload that count; None for all.
        texts: Place in a result of the later format → a new entry, in addition to those of the payload.
        tags: Place in a result of the later format → a rating, in the same way.
        wishes: Text → the name that a program has given it already; used if its number is above the highest so far,
            so that no other entry can have it.
        renamed_before: Name that the program uses → the entry's name in the ledger, from its earlier requests.
        refusal: Returns why a new text is refused because it was redacted; None where it may be recorded.

    Returns:
        The decision; first among its ignored parts are those that cannot be used.

    Raises:
        BadInputError: It is not an extraction result.
    """
    points, evaluations = check_extraction(payload, source, places).values()
    unusable: list[IgnoredItem] = []
    ignored: list[IgnoredItem] = []
    changes: list[Event] = []
    renamed = dict(renamed_before)
    added = rated = 0
    name_of_text = {entry.text: name for name, entry in state.entries.items()} if points or texts else {}
    names_given = state.name_giver()
    # Additions come first, so that a rating in the same payload can mean a new entry.
    for item, point in {**points, **texts}.items():
        fields = point if isinstance(point, dict) else {"text": point}
        text: Any = fields.get("text")
        day, section = fields.get(UNTIL, ""), section_of(fields)
        if fault := text_fault(text) or day_fault(day):
            unusable.append(IgnoredItem(item, fault))
            continue
        wish, name = wishes.get(text, ""), name_of_text.get(text, "")
        if name:
            ignored.append(IgnoredItem(item, f"already in the playbook as {name}", name))
        elif (why := refusal(text)) is not None:
            # No entry ever has this name, so the sender's ratings of the refused text count for no other entry.
            name = f"{wish}-refused" if wish else ""
            ignored.append(RefusedText(item, why, name or None))
        else:
            name_of_text[text] = name = names_given.next(section, wish)
            added += 1
            changes.append(events.PointAdded(name, text))
            changes += [events.PointPlaced(name, "", section)] if section else []
            changes += [events.PointLimited(name, "", day)] if day else []
        if wish and wish != name:
            renamed[wish] = name
    into = {name for name, stays in state.merged.items() if stays in state.entries}
    names = state.entries.keys() | name_of_text.values() | into
    idle = []
    for item, evaluation in {**evaluations, **tags}.items():
        if fault := find_rating_fault(evaluation):
            unusable.append(IgnoredItem(item, fault))
            continue
        name, rating = renamed.get(evaluation["name"], evaluation["name"]), evaluation["rating"]
        changes.append(events.PointRated(name, rating))
        # Recorded all the same: a rating of an unknown name is evidence, and has no effect.
        if name not in names:
            reason = GONE_REASONS.get(state.status_of(name), "no such entry in the playbook")
            idle.append(IgnoredItem(item, reason, name))
        elif rating not in events.RATINGS:
            idle.append(IgnoredItem(item, f"the rating {rating!r} has no effect", name))
        else:
            rated += 1
    unusable += [IgnoredItem(shorten_key(key), UNKNOWN_KEY) for key in payload if key not in FIELDS]
    # This event alone prunes, so it follows every rating of its update.
    changes.append(events.PlaybookUpdated(added, rated, len(unusable) + len(idle)))
    return Decision(tuple(changes), (*unusable, *ignored, *idle), renamed)


# ---- Manual edits ----

# A line holds at least this many names: of 200 characters with four bytes each.
_NAMES_A_LINE = 60
# In place of an entry that is not there: of a new name, and of a name whose addition was undone.
_UNKNOWN_ENTRY = Entry("", "")


@attrs.frozen
class Edit:
    """A manual edit: the playbook before and after it.

    Attributes:
        base_entries: The entries before the edit, in order.
        entries: The entries after it, in order.
        top: The other top-level keys as a JSON object where they were changed; empty where not.
        placed: Name → heading of the section that the edit puts the entry into, where that changed.
        until: Name → the last day that the edit gives the entry, empty for no end, where that changed.
        seq: The event number of the playbook that was edited; None where unknown.
        source: SHA-256 of the edited file; None where there is none.
    """

    base_entries: tuple[Entry, ...]
    entries: tuple[Entry, ...]
    top: str = ""
    seq: int | None = None
    source: str | None = None
    placed: Mapping[str, str] = attrs.field(factory=dict)
    until: Mapping[str, str] = attrs.field(factory=dict)


def decide_edit(
    edit: Edit,
    state: Playbook,
    renamed_before: Mapping[str, str] | None = None,
    refusal: Callable[[str], str | None] = lambda _: None,
    edited: Mapping[str, tuple[int, int]] = _NONE,
) -> Decision:
    """Decide a manual edit, merged with the events that were recorded since its base.

    Args:
        edit: The edit, with the names that its sender uses.
        state: The playbook now.
        renamed_before: Name that the sender uses → the entry's name in the ledger, from its earlier requests.
        refusal: Returns why a new text is refused because it was redacted; None where it may be recorded.
        edited: Name → what edits since the base added to its counts, (helpful, harmful): a file that is saved again
            has it already.

    Returns:
        One event per changed entry, the order if it changed, and ``playbook.edited``. It prunes nothing.
    """
    entries = state.entries
    edit, refused = _drop_redacted(edit, state, refusal, renamed_before or {})
    renamed = _names_in_ledger(edit, state, renamed_before or {})
    base = {entry.name: entry for entry in edit.base_entries}
    base_names = [renamed.get(name, name) for name in base]
    edited_names = [renamed.get(entry.name, entry.name) for entry in edit.entries]
    removed = set(base_names) - set(edited_names)
    changes: list[Event] = [events.PointRemoved(name) for name in base_names if name in removed and name in entries]
    after = dict.fromkeys(name for name in entries if name not in removed)
    texts = {entry.text for entry in entries.values()}
    for name, entry in zip(edited_names, edit.entries, strict=True):
        old, now = base.get(entry.name), entries.get(name)
        if old == entry:
            continue
        counted = now or state.gone.get(name)
        target = attrs.evolve(_merge_entry(entry, old, now, counted, edited.get(name, (0, 0))), name=name)
        if target != now:
            changes.append(_make_edit(target, now, texts))
        after.setdefault(name)
    wanted = _decide_order(edited_names, base_names, list(after))
    # Event lines hold at most 64 KiB, so a long order takes several.
    if wanted != list(after):
        changes.extend(
            events.PlaybookOrdered(tuple(wanted[begin : begin + _NAMES_A_LINE]))
            for begin in range(0, len(wanted), _NAMES_A_LINE)
        )
    for kind, values in ((events.PointPlaced, edit.placed), (events.PointLimited, edit.until)):
        by_name = {renamed.get(name, name): value for name, value in values.items()}
        changes.extend(kind(name, "", value) for name, value in by_name.items() if name in after)
    # Not an update: a save alone prunes nothing, so that load, save and load give the same entries (INV-SCORE-005).
    changes.append(events.PlaybookEdited(edit.seq, edit.source, rename_in_top(edit.top, renamed)))
    return Decision(tuple(changes), refused, new_names=renamed)


def _make_edit(target: Entry, now: Entry | None, texts: Collection[str]) -> events.PointEdited:
    """Return the event that gives an entry its values, with what its writer saw; ``texts`` are those of all entries."""
    seen = now or _UNKNOWN_ENTRY
    change = "copied" if target.text in texts else "new"
    if now is not None:
        change = "kept" if target.text == now.text else "changed"
    return events.PointEdited(
        name=target.name,
        helpful=target.helpful,
        harmful=target.harmful,
        change=change,
        helpful_before=seen.helpful,
        harmful_before=seen.harmful,
        text=target.text,
    )


def _drop_redacted(
    edit: Edit, state: Playbook, refusal: Callable[[str], str | None], renamed: Mapping[str, str]
) -> tuple[Edit, tuple[RefusedText, ...]]:
    """Return an edit without redacted texts: an existing entry keeps its old text, a new one is left out."""
    base = {entry.name: entry for entry in edit.base_entries}
    allowed: list[Entry] = []
    refused: list[RefusedText] = []
    for index, entry in enumerate(edit.entries):
        old, now = base.get(entry.name), state.entries.get(renamed.get(entry.name, entry.name))
        texts = {known.text for known in (old, now) if known is not None}
        stays = old == entry or (now is not None and entry.text in texts)
        why = None if stays else refusal(entry.text)
        if why is None:
            allowed.append(entry)
            continue
        refused.append(RefusedText(f"key_points[{index}]", why, entry.name))
        if old is not None and now is not None:
            allowed.append(attrs.evolve(entry, text=old.text))
    return attrs.evolve(edit, entries=tuple(allowed)), tuple(refused)


def _names_in_ledger(edit: Edit, state: Playbook, renamed_before: Mapping[str, str]) -> dict[str, str]:
    """Return name in the edit → name in the ledger, with a new name for each new entry whose name is taken."""
    renamed = dict(renamed_before)
    base = {entry.name for entry in edit.base_entries}
    claimed = {renamed.get(entry.name, entry.name) for entry in edit.entries if entry.name in base}
    taken = {*state.used, *state.entries, *(renamed.get(entry.name, entry.name) for entry in edit.entries)}
    names = state.name_giver(taken)
    for entry in edit.entries:
        if entry.name in base:
            continue
        name = renamed.get(entry.name, entry.name)
        former = state.entries.get(name)
        if edit.source is None and name in state.used:
            # A file says itself how its entries are named. A program's dict can give a name again that left it, and
            # other programs still mean the former entry by it.
            former = former or state.gone.get(name, _UNKNOWN_ENTRY)
        # Of a person's own playbook no name can be taken for a project's.
        is_foreign = state.prefix != PREFIX and not name.startswith(state.prefix)
        if is_foreign or name in claimed or (former is not None and former.text != entry.text):
            renamed[entry.name] = name = names.next(edit.placed.get(entry.name, ""))
        claimed.add(name)
    return renamed


def rename_in_top(top: str, renamed: Mapping[str, str]) -> str:
    """Return top-level keys, a JSON object or empty, with the entries of sections renamed."""
    return dumps(rename_in_sections(json.loads(top), renamed)) if top and renamed else top


def _merge_entry(
    entry: Entry, old: Entry | None, now: Entry | None, counted: Entry | None, edited: tuple[int, int]
) -> Entry:
    """Return an entry with its text from the side that changed it, and with the changes of both to its counts.

    A count is meant as of the edit's base: what came in since then is added, so that an edit loses no rating.
    """
    text = entry.text if old is None or now is None or old.text != entry.text else now.text
    if old is None or counted is None:
        return attrs.evolve(entry, text=text)
    helpful, harmful = counted.helpful, counted.harmful
    if entry.helpful != old.helpful:
        helpful += entry.helpful - old.helpful - edited[0]
    if entry.harmful != old.harmful:
        harmful += entry.harmful - old.harmful - edited[1]
    return Entry(entry.name, text, max(helpful, 0), max(harmful, 0))


def _decide_order(edited: Sequence[str], base: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return the order of the entries after an edit: that of the edit where it changed the base's order."""
    in_base, in_edit, in_result = set(base), set(edited), set(after)
    old = [name for name in edited if name in in_base]
    new = [name for name in edited if name not in in_base]
    if old == [name for name in base if name in in_edit] and list(edited) == old + new:
        return list(after)
    return [name for name in edited if name in in_result] + [name for name in after if name not in in_edit]
