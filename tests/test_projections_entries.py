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
from tallybook.projections.playbook.entry_state import Entries, evolve

if TYPE_CHECKING:
    from tallybook.ledger.events import Event

A = Entry("a", "first", 3, 1)
B = Entry("b", "second")


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


def test_entries_read_like_a_dict() -> None:
    """They are in order, by name, with the same answers and the same representation."""
    points, plain = Entries({"a": A}), {"a": A, "b": B}
    points["b"] = B
    assert plain == points
    assert repr(plain) == repr(points)
    assert [*plain] == [*points]
    assert (len(plain), plain.get("a"), plain.get("c"), plain.get("c", B)) == (
        *(len(points), points.get("a"), points.get("c"), points.get("c", B)),
    )
    del points["a"]
    assert {"b": B} == points
    assert ("a" in points, "b" in points) == (False, True)
    assert {} == Entries()


def test_a_count_does_not_change_an_earlier_entry() -> None:
    """A stored entry stays as it was, and is the same object until its next count."""
    points = Entries({"a": A})
    assert points["a"] is A
    entry = points.mutable["a"]
    entry.helpful, entry.snapshot = 4, None
    seen = points["a"]
    assert (Entry("a", "first", 3, 1), Entry("a", "first", 4, 1)) == (A, seen)
    assert points["a"] is seen
    assert points.get("a") is seen
