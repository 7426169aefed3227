"""The present entries: the effect of one event on one, and a mapping with counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tallybook.ledger.events import (
    Entry,
    PointAdded,
    PointEdited,
    PointRated,
    PointRemoved,
    PointReworded,
    PointSeeded,
)
from tallybook.projections.playbook.entry_state import evolve

if TYPE_CHECKING:
    from tallybook.ledger.events import Event

A = Entry("a", "first", 3, 1)


@pytest.mark.parametrize(
    ("event", "anew", "after"),
    [
        (PointAdded("a", "new"), Entry("a", "new"), A),
        (PointSeeded("a", 5, 2, "s", "new", "{}"), Entry("a", "new", 5, 2), A),
        (PointEdited("a", 5, 2, "new"), Entry("a", "new", 5, 2), Entry("a", "new", 5, 2)),
        (PointReworded("a", "why", "new"), None, Entry("a", "new", 3, 1)),
        (PointReworded("a", "why", None), None, Entry("a", "[redacted]", 3, 1)),
        (PointAdded("a", None), Entry("a", "[redacted]"), A),
        (PointRated("a", "helpful"), None, Entry("a", "first", 4, 1)),
        (PointRated("a", "harmful"), None, Entry("a", "first", 3, 2)),
        (PointRated("a", "neutral"), None, A),
        (PointRemoved("a"), None, None),
    ],
)
def test_an_event_makes_or_changes_an_entry(event: Event, anew: Entry | None, after: Entry | None) -> None:
    """Only an addition makes an entry; a present name is not added again, and a redacted text is noted."""
    assert anew == evolve(None, event)
    assert after == evolve(A, event)
