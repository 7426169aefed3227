"""Scores over days, weeks, months and versions; values worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.score_histories import config_of, folded, line, metrics
from tallybook.ledger.events import SessionEnded
from tallybook.projections.scores.view import (
    PERIODS,
    Tally,
    aggregate,
    grouped,
    week_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def tally_of(*sessions: dict[str, int]) -> Tally:
    """Return the tally of sessions with these scores."""
    tally = Tally()
    for session in sessions:
        tally.add(session, {})
    return tally


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ("2026-01-16", "2026-W03"),
        # The week of the first Thursday is the first of its year.
        ("2025-12-28", "2025-W52"),
        ("2025-12-29", "2026-W01"),
        ("2026-01-01", "2026-W01"),
        ("2026-01-04", "2026-W01"),
        ("2026-01-05", "2026-W02"),
        # A year of 53 weeks ends within the next one.
        ("2026-12-31", "2026-W53"),
        ("2027-01-03", "2026-W53"),
        ("2027-01-04", "2027-W01"),
        ("2021-01-01", "2020-W53"),
        ("2024-12-30", "2025-W01"),
        ("0001-01-01", "0001-W01"),
    ],
)
def test_weeks_are_those_of_iso(day: str, expected: str) -> None:
    """A week begins on Monday, and belongs to the year that has most of its days."""
    assert expected == week_of(day)


def test_an_aggregate_has_the_shape_of_the_specification() -> None:
    """By "Daily Aggregates": ac01 91 of 88 to 94, ac02 85 of 80 to 90; composites have averages, components ranges."""
    tally = tally_of(
        {"ac01": 88, "ac02": 80, "session.efficiency": 88, "session.overall": 84},
        {"ac01": 94, "ac02": 90, "session.efficiency": 94, "session.overall": 91},
        {"ac01": 91, "ac02": 85, "session.efficiency": 91},
    )
    assert {
        "sessions_count": 3,
        "component_averages": {
            "ac01": {"avg": 91, "min": 88, "max": 94},
            "ac02": {"avg": 85, "min": 80, "max": 90},
        },
        "session_averages": {"efficiency": 91, "overall": 88},
        "session_ranges": {"efficiency": {"min": 88, "max": 94}, "overall": {"min": 84, "max": 91}},
    } == aggregate(tally, config_of())


def test_a_history_is_averaged_by_day_week_month_and_version() -> None:
    """New Year's Eve and New Year's Day are two days, months and versions, and one week: (71 + 90) / 2 = 80.5."""
    state = folded(
        [
            line(1, metrics("ac01", greeting_score=71), "s1", "2026-12-31T12:00:00"),
            line(2, SessionEnded("1.0"), "s1", "2026-12-31T13:00:00"),
            line(3, metrics("ac01", greeting_score=90), "s2", "2027-01-01T12:00:00"),
            line(4, SessionEnded("2.0"), "s2", "2027-01-01T13:00:00"),
        ]
    )
    tables = {folder: grouped(state.days, name_of) for folder, (_, name_of) in PERIODS.items()}
    assert {"2026-12-31": 71, "2027-01-01": 90} == averages(tables["daily"])
    assert {"2026-W53": 81} == averages(tables["weekly"])
    assert {"2026-12": 71, "2027-01": 90} == averages(tables["monthly"])
    assert {"1.0": 71, "2.0": 90} == averages(state.versions)


def averages(periods: Mapping[str, Tally]) -> dict[str, int]:
    """Return the average overall score of each period."""
    return {name: found.avg for name, tally in periods.items() if (found := tally.range("session.overall"))}
