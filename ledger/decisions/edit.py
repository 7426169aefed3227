"""Decisions about manual edits: a pure function from an edited playbook and the present one to events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
import json
from typing import TYPE_CHECKING

import attrs

from tallybook.ledger import events
from tallybook.ledger.decisions.update import Decision, RefusedText
from tallybook.ledger.events import Entry, Event
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.names import PREFIX, rename_in_sections

if TYPE_CHECKING:
    from tallybook.projections.playbook.view import Playbook

# A line holds at least this many names: of 200 characters with four bytes each.
_NAMES_A_LINE = 60
# The former entry of a name whose addition was undone.
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
    drift: Mapping[str, tuple[int, int]],
    renamed_before: Mapping[str, str] | None = None,
    refusal: Callable[[str], str | None] = lambda _: None,
) -> Decision:
    """Decide a manual edit, merged with the events that were recorded since its base.

    Args:
        edit: The edit, with the names that its sender uses.
        state: The playbook now.
        drift: Name in the ledger → ratings counted since the base, as (helpful, harmful). They are added to a changed
            count, so that the edit does not discard ratings recorded in between.
        renamed_before: Name that the sender uses → the entry's name in the ledger, from its earlier requests.
        refusal: Returns why a new text is refused because it was redacted; None where it may be recorded.

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
        # Ratings that came in since the file was written are added to its counts, so that an edit loses none.
        target = attrs.evolve(_merge_entry(entry, old, now, drift.get(name, (0, 0))), name=name)
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
    placed = {renamed.get(name, name): section for name, section in edit.placed.items()}
    changes.extend(events.PointPlaced(name, "", section) for name, section in placed.items() if name in after)
    until = {renamed.get(name, name): day for name, day in edit.until.items()}
    changes.extend(events.PointLimited(name, "", day) for name, day in until.items() if name in after)
    # Not an update: a save alone prunes nothing, so that load, save and load give the same entries (INV-SCORE-005).
    changes.append(events.PlaybookEdited(edit.seq, edit.source, rename_in_top(edit.top, renamed)))
    return Decision(tuple(changes), refused, new_names=renamed)


def _make_edit(target: Entry, now: Entry | None, texts: Collection[str]) -> events.PointEdited:
    """Return the event that gives an entry its values, with what its writer saw; ``texts`` are those of all entries."""
    change = "copied" if target.text in texts else "new"
    if now is not None:
        change = "kept" if target.text == now.text else "changed"
    before = (0, 0) if now is None else (now.helpful, now.harmful)
    return events.PointEdited(
        name=target.name,
        helpful=target.helpful,
        harmful=target.harmful,
        change=change,
        helpful_before=before[0],
        harmful_before=before[1],
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
