"""The content of checkpoints: a playbook state as JSON values and back. The surfaces store them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from tallybook.ledger.events import Entry
from tallybook.projections.playbook.entry_state import MutableEntry, Past
from tallybook.projections.playbook.view import Playbook

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

P = TypeVar("P", bound=Playbook)

PLAIN_FIELDS: Final = (
    "seq",
    "chain",
    "high_water",
    "adopted_at",
    "source",
    "adoption",
    "rewrites",
    "last_redaction",
    "has_begun",
)
"""Fields that JSON can hold unchanged."""


# No checkpoint holds six fields: the policy is always the specification's, the last batch is read from the log again,
# no order is pending after a whole batch, `mutable` holds the values of `entries`, a state with a shared book in it is
# never stored, and the prefix is set by who decides.


def pack(state: Playbook) -> dict[str, Any]:
    """Return a state after a batch, under the specification's policy, as JSON values."""
    fields = {name: getattr(state, name) for name in PLAIN_FIELDS}
    return fields | {
        "entries": _rows(state.mutable.values()),
        "by_agents": _rows(state.by_agents.values()),
        "gone": _rows(state.gone.values()),
        "used": sorted(state.used - state.entries.keys() - state.gone.keys()),
        "due": list(state.due),
        "pruned": list(state.pruned),
        "pinned": sorted(state.pinned),
        "pardons": state.pardons,
        "merged": state.merged,
        "top": state.top,
        "placed": state.placed,
        "until": state.until,
        "stamp": state.stamp,
        "latest": None if state.latest is None else (state.latest.last, state.latest.at),
    }


def unpack(values: Mapping[str, Any]) -> Playbook:
    """Return the playbook of packed values.

    Raises:
        ValueError, TypeError, KeyError: The values are not a packed state.
    """
    return unpack_as(Playbook, values)


def unpack_as(kind: type[P], values: Mapping[str, Any]) -> P:
    """Return a playbook, or a state that extends it, of packed values.

    Raises:
        ValueError, TypeError, KeyError: The values are not a packed state.
    """
    state = kind(**{name: values[name] for name in PLAIN_FIELDS})
    state.mutable.update((row[0], MutableEntry(*row)) for row in values["entries"])
    state.by_agents = {row[0]: Entry(*row) for row in values["by_agents"]}
    state.gone = {row[0]: Entry(*row) for row in values["gone"]}
    state.used = {*values["used"], *state.entries, *state.gone}
    state.due, state.pruned = dict.fromkeys(values["due"]), dict.fromkeys(values["pruned"])
    state.pinned = set(values["pinned"])
    state.pardons, state.merged, state.top = dict(values["pardons"]), dict(values["merged"]), dict(values["top"])
    state.placed, state.until = dict(values["placed"]), dict(values["until"])
    seq, chain = values["stamp"]
    state.stamp = (seq, chain)
    if values["latest"] is not None:
        state.latest = Past(*values["latest"])
    return state


def _rows(entries: Iterable[Entry | MutableEntry]) -> list[tuple[str, str, int, int]]:
    return [(entry.name, entry.text, entry.helpful, entry.harmful) for entry in entries]
