"""Histories with undone events, and the playbooks that follow from them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import attrs

from helpers.view_histories import KNOWN, history, plain
from tallybook.ledger.clock import moment
from tallybook.ledger.events import (
    EventsVoided,
    PlaybookUpdated,
    PointAdded,
)
from tallybook.ledger.records import Author, Batch, EventRecord, make_batch
from tallybook.projections.fold import UNDOABLE, fold_history
from tallybook.projections.playbook.view import PLAYBOOK, Playbook

SAID = KNOWN.filter(lambda event: not isinstance(event, EventsVoided))
CLOSE = PlaybookUpdated(0, 0, 0)
A, B, C = (PointAdded(f"kpt_{number:03d}", text) for number, text in enumerate("abc", 1))
# When it changed, where it was adopted, which names were used and how often the past was rewritten stay as they were.
TIMES = {"seq", "chain", "latest_batch", "latest", "stamp", "adoption"}
KEPT = {"used", "high_water", "rewrites", "last_redaction"}


def shown(state: Playbook) -> dict[str, Any]:
    """Return all of a playbook's state, except for event times and used names."""
    fields = attrs.fields_dict(Playbook).keys() - TIMES - KEPT
    return {field: plain(getattr(state, field)) for field in sorted(fields)}


def folded(batches: Sequence[Batch], until: int | None = None) -> Playbook:
    """Return the playbook of a history, without its undone events."""
    return fold_history(PLAYBOOK, lambda: batches, until)


def playbook(*stretches: list[Any]) -> Playbook:
    """Return the playbook after these batches."""
    return folded(history(stretches))


def without(batches: Sequence[Batch], ids: Collection[str]) -> list[Batch]:
    """Return a history without some events, of kinds that can be undone."""
    left = [
        [record for record in batch.records if not (record.id in ids and type(record.event) in UNDOABLE)]
        for batch in batches
    ]
    return [make_batch(*records) for records in left if records]


def followed_by(batches: Sequence[Batch], *stretches: Sequence[Any], session: str | None = None) -> list[Batch]:
    """Return a history with these further batches, by a session of their own."""
    told = list(batches)
    for events in stretches:
        seq = told[-1].last if told else 0
        records = [
            EventRecord(number, moment(number * 1_000_000).at, event, f"id-{number}", Author("human", session))
            for number, event in enumerate(events, seq + 1)
        ]
        told.append(make_batch(*records))
    return told


def ids_of(batches: Sequence[Batch]) -> list[str]:
    """Return the ids of all events."""
    return [record.id for batch in batches for record in batch.records]
