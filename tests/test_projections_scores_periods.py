"""Scores over days, weeks, months and versions; values worked out by hand."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from helpers.score_histories import config_of, folded, line, metrics
from tallybook.ledger.events import SessionEnded
from tallybook.projections.scores.periods import (
    PERIODS,
    Range,
    Tally,
    aggregate,
    grouped,
    month_of,
    series,
    together,
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


def test_months_are_those_of_the_calendar() -> None:
    """The last day of a month is in it."""
    assert ["2026-01", "2026-01", "2026-02"] == [month_of(f"2026-{day}") for day in ("01-01", "01-31", "02-01")]


def test_periods_are_named_as_their_files() -> None:
    """The folders of "Score storage", the key that names a period in its file, and its name."""
    expected = {
        "daily": ("date", "2026-01-16"),
        "weekly": ("week", "2026-W03"),
        "monthly": ("month", "2026-01"),
    }
    assert expected == {folder: (key, name_of("2026-01-16")) for folder, (key, name_of) in PERIODS.items()}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([80], Range(80, 80, 80)),
        ([0], Range(0, 0, 0)),
        # 90.5 is rounded up, and 90.33 down.
        ([88, 93], Range(91, 88, 93)),
        ([88, 93, 90], Range(90, 88, 93)),
        ([100, 100, 99], Range(100, 99, 100)),
        ([0, 1], Range(1, 0, 1)),
        ([70, 70, 70, 72], Range(71, 70, 72)),
    ],
)
def test_a_range_is_average_least_and_greatest(values: list[int], expected: Range | None) -> None:
    """Averages are whole points, halves rounded up; without sessions there is none."""
    assert expected == tally_of(*({"ac01": value} for value in values)).range("ac01")


def test_a_score_is_averaged_over_the_sessions_that_have_it() -> None:
    """A session without ac02 counts as a session, and not as a 0."""
    tally = tally_of({"ac01": 80, "ac02": 60}, {"ac01": 90})
    assert (2, Range(85, 80, 90), Range(60, 60, 60)) == (tally.sessions, tally.range("ac01"), tally.range("ac02"))


def test_tallies_are_merged_without_being_changed() -> None:
    """A week is averaged over its sessions and not over its days: (70 + 90 + 91) / 3 = 83.67 and not 80.25."""
    one, two = tally_of({"ac01": 70}), tally_of({"ac01": 90}, {"ac01": 91})
    both = together([one, two])
    assert (3, Range(84, 70, 91)) == (both.sessions, both.range("ac01"))
    both.add({"ac01": 0}, {"ac01": 1})
    assert (tally_of({"ac01": 70}), tally_of({"ac01": 90}, {"ac01": 91})) == (one, two)
    assert Tally() == together([])
    assert {70: 3} == together([one, tally_of({"ac01": 70}, {"ac01": 70})]).scores["ac01"]


def test_days_are_grouped_in_order() -> None:
    """In any order of the days, periods are in order, each with its days."""
    days = {day: tally_of({"ac01": int(day[-2:])}) for day in ("2027-01-03", "2026-12-31", "2026-01-16", "2027-01-04")}
    weeks = grouped(days, week_of)
    assert ["2026-W03", "2026-W53", "2027-W01"] == list(weeks)
    assert [(1, 16), (2, 17), (1, 4)] == [(week.sessions, week.range("ac01").avg) for week in weeks.values()]  # type: ignore[union-attr]
    assert ["2026-01", "2026-12", "2027-01"] == list(grouped(days, month_of))
    assert {} == grouped({}, week_of)


def test_a_series_holds_the_days_that_have_a_score() -> None:
    """Days are in order, each with its average; a day without the score is left out, and not 0."""
    days = {
        "2026-01-17": tally_of({"ac01": 80}, {"ac01": 81}),
        "2026-01-16": tally_of({"ac01": 70}),
        "2026-01-18": tally_of({"ac02": 60}),
    }
    assert [(date(2026, 1, 16), 70), (date(2026, 1, 17), 81)] == series(days, "ac01")
    assert [] == series(days, "ac03")


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


def test_an_aggregate_of_everything_has_every_key_of_the_specification() -> None:
    """The nine components and the five session scores, in the order of the specification."""
    names = [f"ac0{n}" for n in range(1, 10)]
    sessions = ["efficiency", "effectiveness", "improvement", "handoff", "overall"]
    found = aggregate(tally_of(dict.fromkeys([*names, *(f"session.{name}" for name in sessions)], 50)), config_of())
    assert (names, sessions) == (list(found["component_averages"]), list(found["session_averages"]))


def test_an_aggregate_without_sessions_is_empty() -> None:
    """Without sessions there are no averages."""
    assert {
        "sessions_count": 0,
        "component_averages": {},
        "session_averages": {},
        "session_ranges": {},
    } == aggregate(Tally(), config_of())


def test_an_aggregate_names_no_component_that_is_left_out() -> None:
    """A score of a component outside the configuration is in no aggregate."""
    assert {} == aggregate(tally_of({"ac99": 50, "session.luck": 50}), config_of())["component_averages"]


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
