"""`score --blame`: where a score dropped, and what changed in the playbook before that."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from hypothesis import given
import pytest

from helpers.injections import injected
from helpers.view_histories import HISTORIES, history
from tallybook.ledger import clock
from tallybook.ledger import events as kinds
from tallybook.ledger.encoding.codec import encode
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.records import Author, Batch, EventRecord, make_batch
from tallybook.projections.fold import fold_history
from tallybook.projections.scores.drops import lead_json, leads_view
from tallybook.projections.scores.view import scores_view
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import moments
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.scores.blame import DropQuery, blame, drop_lines
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

CLOSE = kinds.PlaybookUpdated(0, 0, 0)
A, B = kinds.PointAdded("kpt_001", "Use types."), kinds.PointAdded("kpt_002", "Mock time.")
HARMED = [*[kinds.PointRated("kpt_001", "harmful")] * 3, CLOSE]
VOID_A = kinds.EventsVoided(("id-1",), None, "")


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


def test_an_undone_change_is_listed_only_as_its_undo() -> None:
    """Before the undo the addition is a lead; an undo of an event outside the scores is none."""
    rows = (
        ("06 01", "s", A),
        ("06 02", "s", VOID_A),
        ("06 03", "s", measured(9)),
        ("06 04", "s", kinds.EventsVoided(("id-3",), None, "")),
    )
    assert [(1, "added", ["kpt_001"], [], [])] == leads(*rows, until=1)
    assert [(2, "undone", [], [], ["kpt_001"])] == leads(*rows)


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


CLOSE_CAUSES = kinds.PlaybookUpdated(0, 0, 0)
ADVICE = kinds.PointAdded("kpt_001", "Delete the build cache.")
HOUR_US = 3600 * clock.MICROSECONDS
START = clock.to_unix_us("2026-01-15T00:00:00.000000Z")


def measured_causes(score: int) -> list[Any]:
    """Return an event that gives ac03 and its composites a score."""
    return [kinds.MetricsRecorded("ac03", kinds.Numbers({"accuracy": score}), "")]


STORY: list[tuple[int, str, list[Any]]] = [
    (1, "s0", [kinds.PointAdded("kpt_000", "Run the tests."), CLOSE_CAUSES]),
    (10, "s1", measured_causes(90)),
    (20, "s2", [ADVICE, CLOSE_CAUSES]),
    (30, "s3", measured_causes(60)),
    (40, "s4", [*[kinds.PointRated("kpt_001", "harmful")] * 3, CLOSE_CAUSES]),
    (50, "s5", measured_causes(80)),
    (80, "s6", measured_causes(70)),
]
"""Hours since the fifteenth began, the session, and what it recorded: days of 90, 60, 80 and 70."""


def project_of(folder: Path, story: list[tuple[int, str, list[Any]]]) -> Project:
    """Return a project with these events."""
    project = Project(folder)
    for hours, session, events in story:
        log = JsonlLog(project.ledger, lambda hours=hours: clock.moment(START + hours * HOUR_US))  # type: ignore[misc]
        with log.transaction() as tx:
            tx.append([encode(event) for event in events], {"rater": "reflector", "session": session})
        log.close()
    return project


def blamed(project: Project, asked: DropQuery | None = None, when: str | None = None) -> dict[str, Any]:
    """Return the answer, now or at a moment."""
    moment = None if when is None else moments.find(project, when)
    state = fold_history(scores_view(configuration.load(project)), commands.history_at(project, moment)).count()
    return blame(project, state, asked or DropQuery(), moment)


def test_a_change_undone_after_the_drop_is_still_a_lead(project: Path) -> None:
    """It counted when the score dropped; at a moment before the drop there is no drop."""
    place = project_of(project, STORY)
    lead = blamed(place)["leads"][0]
    undone = project_of(project, [(90, "s7", [kinds.EventsVoided((lead["id"],), None, "")])])
    assert [lead] == blamed(undone)["leads"]
    told = blamed(undone, when="2026-01-15T12:00")
    assert (None, None, None, []) == (told["drop"], told["between"], told["moment"], told["leads"])
    assert ["session.overall did not drop: only one day has data of it"] == list(drop_lines(told))


def test_a_clock_that_ran_ahead_hides_nothing(project: Path) -> None:
    """An event recorded after one of a later year is still found by its own time."""
    ahead = [(9000, "odd", [kinds.PointAdded("kpt_900", "From the future."), CLOSE_CAUSES])]
    told = blamed(project_of(project, [*STORY[:2], *ahead, *STORY[2:]]))
    assert [["kpt_001"]] == [lead["came"] for lead in told["leads"]]
