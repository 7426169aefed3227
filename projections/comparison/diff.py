"""The difference of two playbooks as a value, from which the second can be made of the first. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.projections.entry_history.answers import name_event
from tallybook.projections.playbook.render import playbook_dict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallybook.ledger.events import Entry
    from tallybook.projections.entry_history.view import EntryStatuses

LEAVING_KINDS: Final = {
    "playbook.updated": "pruned",
    "point.removed": "removed",
    "point.retired": "retired",
    "point.merged": "merged",
}
"""Kind of an event that takes an entry out of the playbook → how the entry left."""


@attrs.frozen
class Departure:
    """How an entry left the playbook.

    Attributes:
        how: pruned, removed (by a manual edit), retired or merged.
        seq: Number of the event that took it out; None for a manual edit that is not in the ledger yet.
        helpful: Its helpful count at that time.
        harmful: Its harmful count at that time.
        into: The entry that it was merged into, None for other departures.
    """

    how: str
    seq: int | None
    helpful: int
    harmful: int
    into: str | None = None


@attrs.frozen
class ChangedEntry:
    """An entry that both playbooks have and that differs.

    Attributes:
        before: The entry in the first.
        after: The entry in the second.
    """

    before: Entry
    after: Entry


@attrs.frozen
class LoneEntry:
    """An entry that only one of the playbooks has.

    Attributes:
        entry: The entry.
        left: How it left before the playbook that does not have it; None where no event took it out, because the
            event that added it was undone, or comes later.
    """

    entry: Entry
    left: Departure | None = None


@attrs.frozen
class Diff:
    """The changes that turn the first playbook into the second.

    Attributes:
        added: Entries of the second only, in its order.
        gone: Entries of the first only, in its order.
        changed: Entries with another text or other counts, in the order of the second.
        order: Names in the order of the second; None where entries that stay keep their order and added ones follow.
        top: The second's other top-level keys, in order; None where they equal the first's.
    """

    added: tuple[LoneEntry, ...] = ()
    gone: tuple[LoneEntry, ...] = ()
    changed: tuple[ChangedEntry, ...] = ()
    order: tuple[str, ...] | None = None
    top: Mapping[str, Any] | None = None


def diff(first: EntryStatuses, second: EntryStatuses, second_end: int | None = None) -> Diff:
    """Return the changes that turn one playbook into another.

    Args:
        first: The first playbook, with the last event of each entry.
        second: The second.
        second_end: Number of the last event in the ledger, if the second has a manual edit after it.
    """
    old, new = first.book.entries, second.book.entries
    added = tuple(LoneEntry(entry, _departure(first, name)) for name, entry in new.items() if name not in old)
    order = [name for name in old if name in new] + [addition.entry.name for addition in added]
    old_top, new_top = _top(playbook_dict(first.book)), _top(playbook_dict(second.book))
    return Diff(
        added,
        tuple(LoneEntry(entry, _departure(second, name, second_end)) for name, entry in old.items() if name not in new),
        tuple(ChangedEntry(old[name], entry) for name, entry in new.items() if name in old and old[name] != entry),
        None if order == list(new) else tuple(new),
        # Compared in order, which a comparison of dicts ignores: the file has its keys in an order.
        None if list(old_top.items()) == list(new_top.items()) else new_top,
    )


def _departure(state: EntryStatuses, name: str, end: int | None = None) -> Departure | None:
    """Return how an entry left that is not in the playbook, None where it never was in it."""
    entry = state.book.gone.get(name)
    if entry is None:
        return None
    event = name_event(state.last_changes[name])
    # A manual edit that is not recorded yet has a number that another event may get.
    seq = event.row["seq"] if end is None or event.row["seq"] <= end else None
    return Departure(LEAVING_KINDS[event.kind], seq, entry.helpful, entry.harmful, event.into)


def _top(playbook: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in playbook.items() if key != "key_points"}
