"""The difference of two playbooks as a value, from which the second can be made of the first. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallybook.projections.entry_history.answers import name_event
from tallybook.projections.playbook.render import entry_json, playbook_dict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallybook.projections.entry_history.view import EntryStatuses

LEAVING_KINDS: Final = {
    "playbook.updated": "pruned",
    "point.removed": "removed",
    "point.retired": "retired",
    "point.merged": "merged",
}
"""Kind of an event that takes an entry out of the playbook → how the entry left."""


def diff(first: EntryStatuses, second: EntryStatuses, second_end: int | None = None) -> dict[str, Any]:
    """Return the changes that turn one playbook into another, in the stable shape.

    Args:
        first: The first playbook, with the last event of each entry.
        second: The second.
        second_end: Number of the last event in the ledger, if the second has a manual edit after it.

    Returns:
        ``{added, gone, changed, order, top}``: entries of the second only, in its order, each with ``was``; entries of
        the first only, in its order, each with ``left``; entries with another text or other counts as ``{name, before,
        after}``; the names in the order of the second, None where entries that stay keep their order and added ones
        follow; and the second's other top-level keys, None where they equal the first's. ``was`` and ``left`` say how
        an entry left the playbook that does not have it: ``{how, seq, helpful, harmful, into}``, ``seq`` None for a
        manual edit that is not recorded yet; None where no event took it out, because the event that added it was
        undone, or comes later.
    """
    old, new = first.book.entries, second.book.entries
    added = [entry_json(entry) | {"was": _departure(first, name)} for name, entry in new.items() if name not in old]
    order = [name for name in old if name in new] + [row["name"] for row in added]
    old_top, new_top = _top(playbook_dict(first.book)), _top(playbook_dict(second.book))
    return {
        "added": added,
        "gone": [
            entry_json(entry) | {"left": _departure(second, name, second_end)}
            for name, entry in old.items()
            if name not in new
        ],
        "changed": [
            {"name": name, "before": entry_json(old[name]), "after": entry_json(entry)}
            for name, entry in new.items()
            if name in old and old[name] != entry
        ],
        "order": None if order == list(new) else list(new),
        # Compared in order, which a comparison of dicts ignores: the file has its keys in an order.
        "top": None if list(old_top.items()) == list(new_top.items()) else new_top,
    }


def _departure(state: EntryStatuses, name: str, end: int | None = None) -> dict[str, Any] | None:
    """Return how an entry left that is not in the playbook, None where it never was in it."""
    entry = state.book.gone.get(name)
    if entry is None:
        return None
    event = name_event(state.last_changes[name])
    # A manual edit that is not recorded yet has a number that another event may get.
    seq = event.row["seq"] if end is None or event.row["seq"] <= end else None
    counts = {"helpful": entry.helpful, "harmful": entry.harmful}
    return {"how": LEAVING_KINDS[event.kind], "seq": seq} | counts | {"into": event.into}


def _top(playbook: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in playbook.items() if key != "key_points"}
