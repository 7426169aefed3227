"""How sure the counts of an entry are, and which entries want ratings most. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallybook.projections.playbook.inject import lower_bound
from tallybook.projections.playbook.render import entry

if TYPE_CHECKING:
    from tallybook.projections.playbook.view import Playbook


def interval(helpful: int, harmful: int) -> tuple[float, float]:
    """Return the 95 % interval in which an entry's share of helpful ratings lies (Wilson): 0 to 1 where unrated."""
    # The share of harmful ratings is what is left of one, so its lower end is how far the upper end is from one.
    return lower_bound(helpful, harmful), 1 - lower_bound(harmful, helpful)


def needs_ratings(playbook: Playbook) -> list[dict[str, Any]]:
    """Return the entries of a playbook, those of which the ratings say least first, the older first of equals.

    Returns:
        ``{name, text, helpful, harmful, low, high, width}``, the last three shares from 0 to 1.
    """
    rows = []
    for point in playbook.points.values():
        low, high = interval(point.helpful, point.harmful)
        rows.append(entry(point) | {"low": low, "high": high, "width": high - low})
    return sorted(rows, key=lambda row: -float(row["width"]))
