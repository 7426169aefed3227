"""A manual edit of ``playbook.json``: what a file changes of the playbook that it was rendered from, as events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
import json
from typing import Any

import attrs

from tallybook.ledger import names as entry_names
from tallybook.ledger.codec import decode
from tallybook.ledger.decisions.legacy_import import MAX_SECTION_BYTES, LegacyFile, LegacyItem
from tallybook.ledger.decisions.update import Edit, RefusedText, decide_edit, rename_in_top
from tallybook.ledger.events import Entry, Event, ItemSkipped, PointMerged, PointRated
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import RawBatch
from tallybook.ledger.playbook_constants import REDACTED, SECTIONED
from tallybook.projections.fold import fold, history
from tallybook.projections.playbook.render import entries_by_section
from tallybook.projections.playbook.view import PLAYBOOK, VERSION, Playbook
from tallybook.projections.surfaces.history.reading import Opened, has_book

_WITHOUT_COUNTS = ("bare_string", "dict_no_score")
_PLAIN_HEADINGS = frozenset(dumps({heading: []}) for heading in entry_names.SECTIONS)
"""The headings of a rendering in the later format, as a file's skipped items."""


def find_edit(
    opened: Opened, legacy: LegacyFile, state: Playbook, base: Playbook, read: Callable[[], Iterator[RawBatch]]
) -> tuple[tuple[Event, ...], list[tuple[str, str]]]:
    """Return the manual edit in a file as events, none where nothing was changed, and what is odd in it.

    Args:
        opened: The project.
        legacy: The file.
        state: The playbook at the head of the ledger.
        base: The playbook that was edited; it is folded further.
        read: Reads the ledger from its beginning.

    Returns:
        Of what is odd, a name or a heading, and what became of it.
    """
    log, redacted, form = opened.log, opened.redactions, opened.settings.format
    by_section = is_by_section(legacy, form)
    by_index = _named_entries(legacy, base)
    if base.rewrites < state.rewrites:
        # A file that is older than a redaction has a text that was redacted since.
        gone = {name for name, entry in base.entries.items() if entry.text == REDACTED}
        redacted_entries = {index: entry for index, entry in by_index.items() if entry.name in gone}
        by_index |= {index: attrs.evolve(entry, text=REDACTED) for index, entry in redacted_entries.items()}
    pairs = ((item.entry.name, by_index[item.index].name) for item in legacy.items)
    new_names = {name: new_name for name, new_name in pairs if name != new_name}
    kept = {index: base.entries[name] for name, index in legacy.without_text.items() if name in base.entries}
    notes = [(entry.name, "has no text there, and stays as it was") for entry in kept.values()]
    by_index |= kept
    entries = tuple(by_index[index] for index in sorted(by_index))
    if by_section:
        unknown = [heading for heading in legacy.sections or () if not entry_names.find_section(heading)]
        notes += [(heading, "is no section of this format; its entries are in OTHERS") for heading in unknown]
    top, placed = (_sectioned_top if by_section else _flat_top)(legacy, state, base, new_names)
    if redacted.refusal_in_json(top) is not None:
        top = ""
    # A rendering drops the parts of the file that are no entries; the ledger keeps them.
    evidence = [item for item in legacy.skipped if not (by_section and item.original in _PLAIN_HEADINGS)]
    evidence += [
        ItemSkipped(item.index, f"{item.entry.name} was read from it", item.original)
        for item in legacy.items
        if item.original
    ]
    odd = tuple(item for item in evidence if redacted.refusal_in_json(item.original or "") is None)
    base_entries = shown_entries(base, by_section=by_section)
    until = _changed_days(legacy, base, new_names)
    if entries == base_entries and not (top or odd or placed or until):
        return (), notes
    seq, names = base.stamp[0], log.names_since(base.seq) if has_book(log) and base is not state else None
    # A count is meant as of the file's rendering: ratings since then are added, so that none is lost.
    drift = _drift_of(base, state, names, read) if base is not state else {}
    edit = Edit(base_entries, entries, top, seq, legacy.sha256, placed, until)
    decision = decide_edit(edit, state, drift, names, redacted.refusal)
    refusals = [refusal for refusal in decision.ignored if isinstance(refusal, RefusedText)]
    notes += [(refusal.name or refusal.item, refusal.reason) for refusal in refusals]
    # Of an edit of refused texts alone only its closing event is left.
    is_empty = bool(refusals) and len(decision.events) == 1 and not top and not odd
    return () if is_empty else (*odd, *decision.events), notes


def is_by_section(legacy: LegacyFile, form: str) -> bool:
    """Return whether a file is a rendering in the later format, or is to be one; else its sections are keys."""
    return legacy.sections is not None and (form == SECTIONED or legacy.stamp is not None)


def shown_entries(playbook: Playbook, *, by_section: bool) -> tuple[Entry, ...]:
    """Return the entries in the order of a rendering."""
    if not by_section:
        return tuple(playbook.entries.values())
    return tuple(entry for entries in entries_by_section(playbook).values() for entry in entries)


def _sectioned_top(
    legacy: LegacyFile, state: Playbook, base: Playbook, new_names: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """Return the changed top-level keys of a file in the later format, and the entries that it puts elsewhere."""
    before = {entry.name: key for key, entries in entries_by_section(base).items() for entry in entries}
    placed: dict[str, str] = {}
    for heading, names in (legacy.sections or {}).items():
        section = entry_names.find_section(heading) or entry_names.OTHERS
        placed |= {new_names.get(name, name): section for name in names}
    placed = {name: section for name, section in placed.items() if section != before.get(name, entry_names.OTHERS)}
    others = {key: value for key, value in _top(legacy).items() if key not in entry_names.SECTION_KEYS}
    if others == {key: value for key, value in base.top.items() if key not in entry_names.SECTION_KEYS}:
        return "", placed
    # The event replaces all keys, so it has the sections of every entry as well.
    everyone = {*state.entries, *state.gone, *placed}
    sections = entry_names.filter_sections(state.top, everyone, state.placed | placed).get(entry_names.SECTION_NAMES)
    # Larger sections do not fit into a line: they are left out, and no entry is lost for them.
    if sections is not None and len(dumps(sections).encode()) <= MAX_SECTION_BYTES:
        others[entry_names.SECTION_NAMES] = sections
    return dumps(others), placed


def _flat_top(
    legacy: LegacyFile, _state: Playbook, base: Playbook, new_names: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """Return the changed top-level keys of a file, and the entries that it puts elsewhere.

    Where nothing but that was changed, no key is: edits of two machines then add up.
    """
    before = entry_names.filter_sections(base.top, base.entries, base.placed)
    after = entry_names.rename_in_sections(_top(legacy), new_names)
    if after == before:
        return "", {}
    # The heading of each entry that has one.
    was, now = (
        {name: heading for heading, names in (entry_names.read_sections(top) or {}).items() for name in names}
        for top in (before, after)
    )
    placed = {name: key for name, key in now.items() if key in entry_names.SECTIONS and was.get(name) != key}
    # A whole set of sections would replace what another machine moved meanwhile.
    if after == entry_names.filter_sections(before, now, placed):
        return "", placed
    return rename_in_top(legacy.top, new_names), {}


def _changed_days(legacy: LegacyFile, base: Playbook, new_names: Mapping[str, str]) -> dict[str, str]:
    """Return the last days that a file gives its entries otherwise; one without that key says nothing about them."""
    if legacy.until is None:
        return {}
    days = {new_names.get(name, name): day for name, day in legacy.until.items()}
    names = {**days, **{name: "" for name in base.until if name in base.entries}}
    return {name: days.get(name, "") for name in names if days.get(name, "") != base.until.get(name, "")}


def _named_entries(legacy: LegacyFile, base: Playbook) -> dict[int, Entry]:
    """Return a file's entries by their index; one without a name gets the name of the entry whose text it has.

    So restoring an old file changes only what it says otherwise, and renames nothing.
    """
    by_text = {entry.text: entry for entry in base.entries.values()}
    taken_names = {item.entry.name for item in legacy.items if not _is_unnamed(item)}.union(legacy.without_text)
    entries = {}
    for item in legacy.items:
        entry = item.entry
        same = by_text.get(entry.text) if _is_unnamed(item) else None
        if same is not None and same.name not in taken_names:
            taken_names.add(same.name)
            # A file without counts says nothing about them.
            entry = same if item.migrated in _WITHOUT_COUNTS else attrs.evolve(entry, name=same.name)
        entries[item.index] = entry
    return entries


def _is_unnamed(item: LegacyItem) -> bool:
    if item.origin == "bare_string" or not item.original:
        return item.origin == "bare_string"
    value = json.loads(item.original)
    return not isinstance(value, dict) or value.get("name") != item.entry.name


def _top(legacy: LegacyFile) -> dict[str, Any]:
    # A file that an older program wrote may lack the version; that is not an edit.
    top = {"version": VERSION} | legacy.top_keys
    # Each rendering takes that time from the events.
    top.pop("last_updated", None)
    return top


def _drift_of(
    base: Playbook, state: Playbook, names: Mapping[str, str] | None, read: Callable[[], Iterator[RawBatch]]
) -> Mapping[str, tuple[int, int]]:
    """Return what was added to the counts of entries since the edited playbook: present name → (helpful, harmful).

    ``names`` are names then → present names in a history with a shared book, None elsewhere. ``base`` is folded
    further.
    """
    if names is not None:
        pairs = ((then, state.entries.get(names.get(name, name))) for name, then in base.entries.items())
        return {now.name: (now.helpful - then.helpful, now.harmful - then.harmful) for then, now in pairs if now}
    counts: dict[str, tuple[int, int]] = {}

    def add(name: str, helpful: int, harmful: int) -> None:
        before = counts.get(name, (0, 0))
        counts[name] = (before[0] + helpful, before[1] + harmful)

    for batch in history(lambda: decode(read())):
        if batch.last <= base.seq:
            continue
        for event in batch.events:
            if isinstance(event, PointRated):
                name = event.name if event.name in base.entries else base.merged.get(event.name, "")
                if name in base.entries:
                    add(name, event.rating == "helpful", event.rating == "harmful")
            elif isinstance(event, PointMerged) and event.name in base.entries:
                for name in set(event.merged) & base.entries.keys() - {event.name}:
                    add(event.name, base.entries[name].helpful, base.entries[name].harmful)
        fold(PLAYBOOK, [batch], base)
    return counts
