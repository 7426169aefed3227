"""Leads: where a score dropped, between which sessions, and the changes of the playbook before that."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.injections import injected, injected_by_task
from helpers.view_histories import HISTORIES, history
from tallybook.ledger.events import (
    EventsVoided,
    MetricsRecorded,
    Numbers,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointMerged,
    PointPinned,
    PointRated,
    PointRemoved,
    PointRetired,
    PointReworded,
    PointSeeded,
)
from tallybook.ledger.records import Author, Batch, EventRecord, make_batch
from tallybook.projections.fold import fold_history
from tallybook.projections.scores.config_file import read_config
from tallybook.projections.scores.drops import (
    Drop,
    PeriodScore,
    find_drop,
    find_interval,
    lead_json,
    leads_view,
    score_levels,
)
from tallybook.projections.scores.view import Scores, scores_view
from tallybook.projections.surfaces.scores import configuration

if TYPE_CHECKING:
    from collections.abc import Sequence

CLOSE = PlaybookUpdated(0, 0, 0)
A, B = PointAdded("kpt_001", "Use types."), PointAdded("kpt_002", "Mock time.")
HARMED = [*[PointRated("kpt_001", "harmful")] * 3, CLOSE]
VOID_A = EventsVoided(("id-1",), None, "")


def measured(score: int) -> MetricsRecorded:
    """Return an event that gives ac03 a score."""
    return MetricsRecorded("ac03", Numbers({"accuracy": score}), "")


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


def scored(*rows: tuple[str, str, Any]) -> Scores:
    """Return the scores of a history, counted."""
    view = scores_view(read_config(configuration.default()))
    return fold_history(view, lambda: timed_batches(*rows)).count()


# Where it dropped


def found(*scores: int) -> list[PeriodScore]:
    """Return levels of consecutive days."""
    return [PeriodScore(f"2026-01-{day:02}", score) for day, score in enumerate(scores, 1)]


@pytest.mark.parametrize(
    ("scores", "name", "days"),
    [
        ((), None, None),
        ((80,), None, None),
        ((80, 80, 85), None, None),
        ((90, 80, 85, 70), None, (3, 4)),
        ((90, 80, 90, 80), None, (3, 4)),
        ((90, 60, 65, 70), None, (1, 2)),
        ((90, 80, 85, 70), "2026-01-02", (1, 2)),
        ((90, 80, 85, 70), "2026-01-03", None),
        ((90, 80, 85, 70), "2026-01-01", None),
    ],
)
def test_the_greatest_or_the_requested_drop_is_found(
    scores: tuple[int, ...], name: str | None, days: tuple[int, int] | None
) -> None:
    """It is between consecutive periods; of several equal ones the last; a rise is none."""
    drop = find_drop(found(*scores), name)
    assert days == (None if drop is None else (int(drop.before.period[-2:]), int(drop.after.period[-2:])))


@given(st.lists(st.integers(0, 100), max_size=12))
def test_no_two_days_are_further_apart_than_those_of_the_drop(scores: list[int]) -> None:
    """If no day is below the one before it, there is no drop."""
    drop = find_drop(found(*scores))
    assert max([0, *(before - after for before, after in pairwise(scores))]) == (0 if drop is None else drop.points)


SESSIONS = (
    ("05 10", "a", measured(90)),
    ("05 12", "b", measured(80)),
    ("05 14", "c", measured(88)),
    ("07 09", "d", measured(86)),
    ("07 10", "e", measured(40)),
    ("07 11", "f", measured(40)),
    ("07 12", "g", measured(95)),
    ("20 08", "h", measured(70)),
)
"""The fifth averages 86 of three sessions, the seventh 65.25 of four; the twentieth lies in another week, at 70."""


@pytest.mark.parametrize(
    ("rows", "period", "sessions"),
    [
        # As good as the day before, 86, was last the session on the same day; the first of the two worst counts.
        (SESSIONS, "daily", ("d", "e")),
        # Without it, the last of the day before.
        ([row for row in SESSIONS if row[1] != "d"], "daily", ("c", "e")),
        # Against the week's 74, the last session of that week.
        (SESSIONS, "weekly", ("g", "h")),
    ],
)
def test_the_range_is_from_the_last_good_session_to_the_worst(
    rows: Sequence[Any], period: str, sessions: tuple[str, str]
) -> None:
    """Other sessions may be between them."""
    state = scored(*rows)
    drop = find_drop(score_levels(state.days, "ac03", period))
    assert drop is not None
    good, bad = find_interval(state, "ac03", period, drop)
    assert sessions == (good.session, bad.session)


def test_sessions_after_the_drop_do_not_count() -> None:
    """Those of later days are skipped, and so are those without the score."""
    rows = [
        *SESSIONS,
        ("21 08", "i", measured(5)),
        ("05 15", "x", MetricsRecorded("ac04", Numbers({"efficiency": 5}), "")),
    ]
    state = scored(*rows)
    drop = Drop(PeriodScore("2026-01-05", 86), PeriodScore("2026-01-07", 65))
    assert ("d", "e") == tuple(one.session for one in find_interval(state, "ac03", "daily", drop))


# What changed


def leads(*rows: tuple[str, str, Any], until: int | None = None) -> list[tuple[Any, ...]]:
    """Return the changes after the fifth at ten, up to the seventh at ten: seq, kind, and entries."""
    view = leads_view("2026-01-05T10:00:00.000000Z", "2026-01-07T10:00:00.000000Z")
    state = fold_history(view, lambda: timed_batches(*rows), until)
    rows_ = [lead_json(lead) for lead in state.leads]
    return [(row["seq"], row["change"], row["came"], row["went"], row["changed"]) for row in rows_]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([PointAdded("kpt_003", "Quote ids.")], [(4, "added", ["kpt_003"], [], [])]),
        ([PointAdded("kpt_001", "Quote ids.")], []),
        ([PointSeeded("kpt_003", 1, 0, "canonical", "x", "")], [(4, "added", ["kpt_003"], [], [])]),
        ([PointEdited("kpt_001", 5, 5, "Use types.")], []),
        ([PointEdited("kpt_001", 0, 0, "Type it.")], [(4, "edited", [], [], ["kpt_001"])]),
        ([PointReworded("kpt_001", "", "Type it.")], [(4, "reworded", [], [], ["kpt_001"])]),
        ([PointRemoved("kpt_001")], [(4, "removed", [], ["kpt_001"], [])]),
        ([PointRetired("kpt_001", "")], [(4, "retired", [], ["kpt_001"], [])]),
        ([PointRetired("kpt_009", "")], []),
        ([PointMerged("kpt_001", ("kpt_002",), "")], [(4, "merged", [], ["kpt_002"], [])]),
        (HARMED, [(7, "pruned", [], ["kpt_001"], [])]),
        ([CLOSE], []),
        ([PointRated("kpt_001", "helpful"), PointPinned("kpt_001", ""), measured(3)], []),
        ([EventsVoided(("id-2",), None, "")], [(4, "undone", [], [], ["kpt_002"])]),
    ],
)
def test_each_change_is_listed_with_its_entries(events: list[Any], expected: list[Any]) -> None:
    """An event that adds, rewords or removes an entry is a lead; one that only counts is none."""
    assert expected == leads(("05 09", "s", [A, B, CLOSE]), ("06 00", "s", events))


@pytest.mark.parametrize(
    ("at", "seqs"), [("05 09", []), ("05 10", []), ("05 11", [1]), ("07 10", [1]), ("07 11", []), ("20 00", [])]
)
def test_a_change_with_the_good_session_is_no_lead_and_with_the_bad_one_is(at: str, seqs: list[int]) -> None:
    """The range begins after the one time, and includes the other."""
    assert seqs == [lead[0] for lead in leads((at, "s", A))]


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


def test_what_a_prompt_was_given_is_no_lead() -> None:
    """It follows from the prompt, and the next whole injection is compared with the last one (rule 22)."""
    one, by_task = injected(("kpt_001",), 0), injected_by_task(("kpt_002",), 1.5, told=1)
    assert [] == leads(("05 09", "s", one), ("06 01", "s", by_task), ("06 02", "t", by_task), ("06 03", "u", one))


def test_an_undone_change_is_listed_only_as_its_undo() -> None:
    """Before the undo the addition is a lead; an undo of an event outside the scores is none."""
    rows = (
        ("06 01", "s", A),
        ("06 02", "s", VOID_A),
        ("06 03", "s", measured(9)),
        ("06 04", "s", EventsVoided(("id-3",), None, "")),
    )
    assert [(1, "added", ["kpt_001"], [], [])] == leads(*rows, until=1)
    assert [(2, "undone", [], [], ["kpt_001"])] == leads(*rows)


@given(HISTORIES)
def test_leads_explain_every_added_or_removed_entry(stretches: list[list[Any]]) -> None:
    """Without undos, the additions and removals from the beginning give exactly the present entries."""
    batches = [batch for batch in history(stretches) if EventsVoided not in map(type, batch.events)]
    state = fold_history(leads_view("", "2"), lambda: batches)
    standing: set[str] = set()
    for change in (change for _, change in state.leads if change.how != "told"):
        assert standing.isdisjoint(change.added)
        assert standing >= {*change.removed, *change.changed}
        standing = (standing | set(change.added)) - set(change.removed)
    assert set(state.book.entries) == standing
