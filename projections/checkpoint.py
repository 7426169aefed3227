"""A state of the playbook as plain JSON values and back: what a checkpoint holds, and nothing of where it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ledger.events import KeyPoint
from projections.playbook import Past, Playbook

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PLAIN: Final = (
    "seq",
    "chain",
    "high_water",
    "adopted_at",
    "source",
    "adoption",
    "rewrites",
    "redacted",
    "voided",
    "begun",
)
"""Fields that are JSON as they are."""
BUILT: Final = {"points", "gone", "used", "due", "pruned", "pinned", "pardoned", "merged", "top", "stamp", "latest"}
"""Fields that are told in another form."""
APART: Final = {"policy", "latest_batch", "order"}
"""Fields that no checkpoint has: the policy is the specification's, the batch is read again, no order is being told
behind a batch."""


def packed(state: Playbook) -> dict[str, Any]:
    """Return a state behind a batch, under the specification's policy, as JSON values."""
    told = {name: getattr(state, name) for name in PLAIN}
    return told | {
        "points": _rows(state.points.values()),
        "gone": _rows(state.gone.values()),
        "used": sorted(state.used - state.points.keys() - state.gone.keys()),
        "due": list(state.due),
        "pruned": list(state.pruned),
        "pinned": sorted(state.pinned),
        "pardoned": state.pardoned,
        "merged": state.merged,
        "top": state.top,
        "stamp": state.stamp,
        "latest": None if state.latest is None else (state.latest.last, state.latest.at),
    }


def unpacked(told: Mapping[str, Any]) -> Playbook:
    """Return the state that was packed, but for the batch folded last.

    Raises:
        ValueError, TypeError, KeyError: It is none.
    """
    state = Playbook(**{name: told[name] for name in PLAIN})
    state.points, state.gone = _points(told["points"]), _points(told["gone"])
    state.used = {*told["used"], *state.points, *state.gone}
    state.due, state.pruned = dict.fromkeys(told["due"]), dict.fromkeys(told["pruned"])
    state.pinned = set(told["pinned"])
    state.pardoned, state.merged, state.top = dict(told["pardoned"]), dict(told["merged"]), dict(told["top"])
    seq, chain = told["stamp"]
    state.stamp = (seq, chain)
    if told["latest"] is not None:
        state.latest = Past(*told["latest"])
    return state


def _rows(points: Iterable[KeyPoint]) -> list[tuple[str, str, int, int]]:
    return [(point.name, point.text, point.helpful, point.harmful) for point in points]


def _points(rows: Iterable[tuple[str, str, int, int]]) -> dict[str, KeyPoint]:
    return {row[0]: KeyPoint(*row) for row in rows}
