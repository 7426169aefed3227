"""The answer of `score --blame`: the drop, the two sessions, and the leads, for programs and for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallybook.ledger import clock
from tallybook.ledger.encoding.codec import encode
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import (
    EventsVoided,
    MetricsRecorded,
    Numbers,
    PlaybookUpdated,
    PointAdded,
    PointRated,
)
from tallybook.ledger.log import JsonlLog
from tallybook.projections.fold import fold_history
from tallybook.projections.scores.view import scores_view
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import moments
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.scores.answers import CAUTION, LAST, DropQuery, blame, drop_lines
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

CLOSE = PlaybookUpdated(0, 0, 0)
A = PointAdded("kpt_001", "Delete the build cache.")
HOUR_US = 3600 * clock.MICROSECONDS
START = clock.to_unix_us("2026-01-15T00:00:00.000000Z")


def measured(score: int) -> list[Any]:
    """Return an event that gives ac03 and its composites a score."""
    return [MetricsRecorded("ac03", Numbers({"accuracy": score}), "")]


STORY: list[tuple[int, str, list[Any]]] = [
    (1, "s0", [PointAdded("kpt_000", "Run the tests."), CLOSE]),
    (10, "s1", measured(90)),
    (20, "s2", [A, CLOSE]),
    (30, "s3", measured(60)),
    (40, "s4", [*[PointRated("kpt_001", "harmful")] * 3, CLOSE]),
    (50, "s5", measured(80)),
    (80, "s6", measured(70)),
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
    history, until = commands.up_to(project, moment)
    state = fold_history(scores_view(configuration.load(project)), history, until).count()
    return blame(project, state, asked or DropQuery(), moment)


def test_the_answer_has_the_drop_the_sessions_and_the_leads(project: Path) -> None:
    """By default it is of the overall score: from 90 to 60, with the entries added in between."""
    told = blamed(project_of(project, STORY))
    before, after = {"period": "2026-01-15", "score": 90}, {"period": "2026-01-16", "score": 60}
    good = {"session": "s1", "at": "2026-01-15T10:00:00.000000Z", "score": 90}
    bad = {"session": "s3", "at": "2026-01-16T06:00:00.000000Z", "score": 60}
    (lead,) = told.pop("leads")
    assert {
        "score": "session.overall",
        "period": "daily",
        "name": None,
        "periods": 4,
        "drop": {"before": before, "after": after, "points": 30},
        "coverage": 0.06,
        "between": {"good": good, "bad": bad},
        "moment": told["moment"],
        "caution": CAUTION,
    } == told
    assert ("added", ["kpt_001"], "s2") == (lead["change"], lead["came"], lead["by"]["session"])
    assert lead["seq"] < told["moment"]


def test_people_read_that_a_lead_is_no_proof(project: Path) -> None:
    """There is a line for the drop, one for each session, one for each lead, and the next commands."""
    told = blamed(project_of(project, STORY))
    lead = told["leads"][0]["seq"]
    assert [
        "session.overall dropped by 30 points: 90 on 2026-01-15, 60 on 2026-01-16",
        "  last as good as before in session s1, 2026-01-15 10:00 UTC, with 90",
        "  then worst in session s3, 2026-01-16 06:00 UTC, with 60",
        f"Between these the playbook had 1 change, the newest first. {CAUTION}",
        f'{lead:>6}  2026-01-15 20:00 UTC  reflector in session s2: learned kpt_001 "Delete the build cache."',
        f"`tallybook show --at {told['moment']}` shows the playbook as of then",
    ] == list(drop_lines(told))


def test_two_periods_name_the_drop_from_one_to_the_other(project: Path) -> None:
    """Days that do not follow on each other are compared; they go forward, and both have data."""
    place = project_of(project, STORY)
    told = blamed(place, DropQuery("AC-03", name="2026-01-15..2026-01-18"))
    assert ("2026-01-15..2026-01-18", 20, ["s1", "s6"]) == (
        told["name"],
        told["drop"]["points"],
        [told["between"][side]["session"] for side in ("good", "bad")],
    )
    for name, why in [
        ("2026-01-18..2026-01-15", "does not go forward"),
        ("2026-01-15..2026-01-15", "does not go forward"),
        ("2026-01-10..2026-01-15", "has no data on 2026-01-10"),
        ("..2026-01-15", "has no data on ;"),
    ]:
        with pytest.raises(BadInputError, match=why):
            blamed(place, DropQuery("AC-03", name=name))


def test_a_change_undone_after_the_drop_is_still_a_lead(project: Path) -> None:
    """It counted when the score dropped; at a moment before the drop there is no drop."""
    place = project_of(project, STORY)
    lead = blamed(place)["leads"][0]
    undone = project_of(project, [(90, "s7", [EventsVoided((lead["id"],), None, "")])])
    assert [lead] == blamed(undone)["leads"]
    told = blamed(undone, when="2026-01-15T12:00")
    assert (None, None, None, []) == (told["drop"], told["between"], told["moment"], told["leads"])
    assert ["session.overall did not drop: only one day has data of it"] == list(drop_lines(told))


def test_a_clock_that_ran_ahead_hides_nothing(project: Path) -> None:
    """An event recorded after one of a later year is still found by its own time."""
    ahead = [(9000, "odd", [PointAdded("kpt_900", "From the future."), CLOSE])]
    told = blamed(project_of(project, [*STORY[:2], *ahead, *STORY[2:]]))
    assert [["kpt_001"]] == [lead["came"] for lead in told["leads"]]


@pytest.mark.parametrize(
    ("story", "asked", "line"),
    [
        ([], DropQuery(), "session.overall did not drop: no day has data of it"),
        (STORY[:2], DropQuery(period="weekly"), "session.overall did not drop: only one week has data of it"),
        ([STORY[3], STORY[5]], DropQuery(), "session.overall never dropped from one day with data to the next"),
        (
            STORY,
            DropQuery(name="2026-01-17"),
            "session.overall did not drop on 2026-01-17, against the day with data before it",
        ),
        (STORY, DropQuery("ac01", name=LAST), "ac01 did not drop: no day has data of it"),
    ],
)
def test_without_a_drop_the_answer_is_one_line(project: Path, story: list[Any], asked: DropQuery, line: str) -> None:
    """It gives the reason, and is no error."""
    assert [line] == list(drop_lines(blamed(project_of(project, story), asked)))
