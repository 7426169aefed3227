"""Helpers of tests: the state of a playbook for decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallybook.ledger.names import parse_number
from tallybook.projections.playbook.view import Playbook

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallybook.ledger.events import Entry


def by_name(*points: Entry) -> dict[str, Entry]:
    """Return entries under their names."""
    return {point.name: point for point in points}


def known(*points: Entry, high_water: int | None = None, used: Iterable[str] = ()) -> Playbook:
    """Return a playbook of these entries, with further used names, and the resulting high-water mark."""
    stood = {*by_name(*points), *used}
    mark = max((parse_number(name) or 0 for name in stood), default=0)
    return Playbook(entries=by_name(*points), high_water=mark if high_water is None else high_water, used=stood)
