"""The difference of two playbooks: applied to the first it gives the second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import json
from typing import Any

from hypothesis import given

from helpers.view_histories import FUTURES, history
from tallybook.ledger.events import Entry
from tallybook.ledger.records import Batch
from tallybook.projections.history.comparisons import diff
from tallybook.projections.history.entry_history import ENTRIES, EntryStatuses
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.playbook.render import playbook_dict

A, B, C = (Entry(f"kpt_{number:03d}", text) for number, text in enumerate("abc", 1))


def at(batches: Sequence[Batch], seq: int | None = None) -> EntryStatuses:
    """Return the playbook at a moment of a history, and the removals from it."""
    return fold_history(ENTRIES, lambda: batches, seq)


def top_keys(playbook: Mapping[str, Any]) -> dict[str, Any]:
    """Return the top-level keys of a playbook other than its entries."""
    return {key: value for key, value in playbook.items() if key != "key_points"}


def apply(difference: Mapping[str, Any], playbook: Mapping[str, Any]) -> dict[str, Any]:
    """Return the second playbook from the first and their difference, both in the specification's format."""
    gone = {row["name"] for row in difference["gone"]}
    changed = {row["name"]: row["after"] for row in difference["changed"]}
    points = {point["name"]: changed.get(point["name"], point) for point in playbook["key_points"]}
    points = {name: point for name, point in points.items() if name not in gone}
    points |= {row["name"]: {key: row[key] for key in row if key != "was"} for row in difference["added"]}
    order = points if difference["order"] is None else difference["order"]
    top = top_keys(playbook) if difference["top"] is None else difference["top"]
    return {**top, "key_points": [points[name] for name in order]}


def document(state: EntryStatuses) -> str:
    """Return a playbook as JSON, in which the order of keys and entries counts."""
    return json.dumps(playbook_dict(state.book))


@given(stretches=FUTURES)
def test_the_difference_leads_from_any_moment_to_any_other(stretches: list[list[Any]]) -> None:
    """For all pairs of moments, forwards and back, the difference applied to one playbook is the other."""
    batches = history(stretches)
    states = [at(batches, seq) for seq in [0, *(batch.last for batch in batches)]]
    for first in states:
        for second in states:
            assert document(second) == json.dumps(apply(diff(first, second), playbook_dict(first.book)))
