"""The playbook view: the effect of each kind of event."""

from __future__ import annotations

from itertools import count
from typing import Any

from tallybook.ledger.events import (
    Entry,
    PlaybookAdopted,
    PlaybookEdited,
    PlaybookOrdered,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointRated,
    PointRemoved,
)
from tallybook.ledger.records import Batch, EventRecord, make_batch
from tallybook.projections.fold import fold
from tallybook.projections.playbook.view import PLAYBOOK, Playbook

CLOSE = PlaybookUpdated(0, 0, 0)
EDIT = PlaybookEdited(None, None, "")
A, B, C = (PointAdded(f"kpt_{number:03d}", text) for number, text in enumerate("abc", 1))


def at(seq: int) -> str:
    """Return the time at which a test's event was recorded."""
    return f"2026-01-01T00:00:{seq:02d}.000000Z"


def history(*stretches: list[Any]) -> list[Batch]:
    """Return events as batches, a second for each event."""
    seq = count(1)
    return [
        make_batch(*(EventRecord(number, at(number), event) for event, number in zip(events, seq, strict=False)))
        for events in stretches
    ]


def playbook(*stretches: list[Any]) -> Playbook:
    """Return the playbook after these batches."""
    return fold(PLAYBOOK, history(*stretches))


def harmful(name: str, times: int = 3) -> list[Any]:
    """Return so many harmful ratings of an entry."""
    return [PointRated(name, "harmful")] * times


def test_an_edit_revives_and_prunes_nothing() -> None:
    """A manual edit returns a pruned entry, with counts to which the rule applies only at the next update."""
    pruned = [A, *harmful("kpt_001"), CLOSE]
    back = [PointEdited("kpt_001", 1, 9, "a again"), EDIT]
    assert Entry("kpt_001", "a again", 1, 9) == playbook(pruned, back).entries["kpt_001"]
    assert {} == playbook(pruned, back, [CLOSE]).entries


def test_an_order_is_applied_when_its_edit_closes() -> None:
    """Partial orders add up; unlisted names follow in their order, and unknown ones are ignored."""
    ordered = [PlaybookOrdered(("kpt_003",)), PlaybookOrdered(("kpt_404", "kpt_002")), EDIT]
    assert ["kpt_003", "kpt_002", "kpt_001"] == list(playbook([A, B, C, CLOSE], ordered).entries)
    assert ["kpt_001", "kpt_002", "kpt_003"] == list(playbook([A, B, C, CLOSE], [EDIT]).entries)


def test_top_level_keys_come_from_the_file() -> None:
    """The first import has version, date and other keys; a later one adds entries alone."""
    first = [PlaybookAdopted("0" * 64, 0, '{"version":"0.9","last_updated":"2025","owner":"me"}')]
    later = [PlaybookAdopted("1" * 64, 0, '{"version":"7","last_updated":"1999","owner":"you"}')]
    assert ({"version": "0.9", "owner": "me"}, "2025") == (playbook(first).top, playbook(first).last_updated)
    assert ({"version": "0.9", "owner": "me"}, at(2)) == (
        playbook(first, later).top,
        playbook(first, later).last_updated,
    )
    edited = [PlaybookEdited(1, None, '{"version":"2.0","last_updated":"x"}')]
    assert {"version": "2.0"} == playbook(first, edited).top


def test_a_returned_entry_is_due_by_its_new_counts() -> None:
    """A removal by a manual edit clears what was due, and an entry set under the same name starts anew."""
    gone = [A, *harmful("kpt_001", 3), PointRemoved("kpt_001"), EDIT]
    assert ["kpt_001"] == list(playbook(gone, [PointEdited("kpt_001", 9, 0, "a"), EDIT], [CLOSE]).entries)
