"""`score --blame`: where a score dropped, and what changed in the playbook before that."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from hypothesis import given
import pytest

from helpers.injections import injected
from helpers.view_histories import HISTORIES, history
from tallybook.ledger import events as kinds
from tallybook.ledger.records import Author, Batch, EventRecord, make_batch
from tallybook.projections.fold import fold_history
from tallybook.projections.scores.drops import lead_json, leads_view

CLOSE = kinds.PlaybookUpdated(0, 0, 0)
A, B = kinds.PointAdded("kpt_001", "Use types."), kinds.PointAdded("kpt_002", "Mock time.")
HARMED = [*[kinds.PointRated("kpt_001", "harmful")] * 3, CLOSE]


def measured(score: int) -> kinds.MetricsRecorded:
    """Return an event that gives ac03 a score."""
    return kinds.MetricsRecorded("ac03", kinds.Numbers({"accuracy": score}), "")


def timed_batches(*rows: tuple[str, str, Any]) -> list[Batch]:
    """Return batches of ``(day and hour, session, event or events)``."""
    events = [row[2] if isinstance(row[2], list) else [row[2]] for row in rows]
    lasts = accumulate(map(len, events))
    return [
        make_batch(
            *(
                EventRecord(
                    seq, f"2026-01-{at[:2]}T{at[3:]}:00:00.000000Z", event, f"id-{seq}", Author("agent", session)
                )
                for seq, event in enumerate(batch, last - len(batch) + 1)
            )
        )
        for (at, session, _), batch, last in zip(rows, events, lasts, strict=True)
    ]


def leads(*rows: tuple[str, str, Any], until: int | None = None) -> list[tuple[Any, ...]]:
    """Return the changes after the fifth at ten, up to the seventh at ten: seq, kind, and entries."""
    view = leads_view("2026-01-05T10:00:00.000000Z", "2026-01-07T10:00:00.000000Z")
    state = fold_history(view, lambda: timed_batches(*rows), until)
    rows_ = [lead_json(lead) for lead in state.leads]
    return [(row["seq"], row["change"], row["came"], row["went"], row["changed"]) for row in rows_]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([kinds.PointAdded("kpt_003", "Quote ids.")], [(4, "added", ["kpt_003"], [], [])]),
        ([kinds.PointAdded("kpt_001", "Quote ids.")], []),
        ([kinds.PointSeeded("kpt_003", 1, 0, "canonical", "x", "")], [(4, "added", ["kpt_003"], [], [])]),
        ([kinds.PointEdited("kpt_001", 5, 5, "Use types.")], []),
        ([kinds.PointEdited("kpt_001", 0, 0, "Type it.")], [(4, "edited", [], [], ["kpt_001"])]),
        ([kinds.PointReworded("kpt_001", "", "Type it.")], [(4, "reworded", [], [], ["kpt_001"])]),
        ([kinds.PointRemoved("kpt_001")], [(4, "removed", [], ["kpt_001"], [])]),
        ([kinds.PointRetired("kpt_001", "")], [(4, "retired", [], ["kpt_001"], [])]),
        ([kinds.PointRetired("kpt_009", "")], []),
        ([kinds.PointMerged("kpt_001", ("kpt_002",), "")], [(4, "merged", [], ["kpt_002"], [])]),
        (HARMED, [(7, "pruned", [], ["kpt_001"], [])]),
        ([CLOSE], []),
        ([kinds.PointRated("kpt_001", "helpful"), kinds.PointPinned("kpt_001", ""), measured(3)], []),
        ([kinds.EventsVoided(("id-2",), None, "")], [(4, "undone", [], [], ["kpt_002"])]),
    ],
)
def test_each_change_is_listed_with_its_entries(events: list[Any], expected: list[Any]) -> None:
    """An event that adds, rewords or removes an entry is a lead; one that only counts is none."""
    assert expected == leads(("05 09", "s", [A, B, CLOSE]), ("06 00", "s", events))


def test_an_injection_of_other_entries_is_a_lead() -> None:
    """However many sessions get the same; those before the range are known as well."""
    one, both = injected(("kpt_001",), 0), injected(("kpt_001", "kpt_002"), 0)
    rows = ("05 08", "s", [A, B, CLOSE]), ("05 09", "s", one), ("06 01", "s", one), ("06 02", "t", both)
    rest = ("06 03", "u", both), ("06 04", "v", injected(("kpt_002",), 1)), ("06 05", "w", both)
    expected: list[tuple[Any, ...]] = [
        (6, "told", ["kpt_002"], [], []),
        (8, "told", [], ["kpt_001"], []),
        (9, "told", ["kpt_001"], [], []),
    ]
    assert expected == leads(*rows, *rest)


@given(HISTORIES)
def test_leads_explain_every_added_or_removed_entry(stretches: list[list[Any]]) -> None:
    """Without undos, the additions and removals from the beginning give exactly the present entries."""
    batches = [batch for batch in history(stretches) if kinds.EventsVoided not in map(type, batch.events)]
    state = fold_history(leads_view("", "2"), lambda: batches)
    standing: set[str] = set()
    for change in (lead for lead in state.leads if type(lead.record.event) is not kinds.PlaybookInjected):
        assert standing.isdisjoint(change.added)
        assert standing >= {*change.removed, *change.changed}
        standing = (standing | set(change.added)) - set(change.removed)
    assert set(state.book.entries) == standing
