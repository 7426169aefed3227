"""The view of scores: the session of an event, the day of a session, and revision by late events."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.score_histories import batches, config_of, folded, line, metrics
from tallybook.ledger.events import (
    BenchmarkRecorded,
    FeedbackRecorded,
    PointAdded,
    SessionEnded,
    TelemetryKept,
)
from tallybook.projections.fold import fold
from tallybook.projections.scores.view import Scores, day_of, scores_view

DAYS_LATER = "2026-01-18T09:00:00"


def greeting(score: float) -> Any:
    """Return an event that gives ac01, efficiency and the overall score of its session this many points."""
    return metrics("ac01", greeting_score=score)


def overall(state: Scores) -> dict[str, dict[int, int]]:
    """Return day → overall score → number of sessions."""
    return {day: tally.scores["session.overall"] for day, tally in state.days.items()}


# Days


@pytest.mark.parametrize(
    ("zone", "at", "expected"),
    [
        ("UTC", "2026-01-16T00:00:00.000000Z", "2026-01-16"),
        ("UTC", "2026-01-16T23:59:59.999999Z", "2026-01-16"),
        # Winter time, an hour ahead.
        ("Europe/Berlin", "2026-01-16T22:59:59.999999Z", "2026-01-16"),
        ("Europe/Berlin", "2026-01-16T23:00:00.000000Z", "2026-01-17"),
        # The day on which summer time begins has 23 hours.
        ("Europe/Berlin", "2026-03-28T22:59:59.999999Z", "2026-03-28"),
        ("Europe/Berlin", "2026-03-28T23:00:00.000000Z", "2026-03-29"),
        ("Europe/Berlin", "2026-03-29T21:59:59.999999Z", "2026-03-29"),
        ("Europe/Berlin", "2026-03-29T22:00:00.000000Z", "2026-03-30"),
        # The day on which it ends has 25.
        ("Europe/Berlin", "2026-10-24T21:59:59.999999Z", "2026-10-24"),
        ("Europe/Berlin", "2026-10-24T22:00:00.000000Z", "2026-10-25"),
        ("Europe/Berlin", "2026-10-25T22:59:59.999999Z", "2026-10-25"),
        ("Europe/Berlin", "2026-10-25T23:00:00.000000Z", "2026-10-26"),
        # West of Greenwich, and by three quarters of an hour.
        ("America/New_York", "2026-01-01T04:59:59.999999Z", "2025-12-31"),
        ("America/New_York", "2026-01-01T05:00:00.000000Z", "2026-01-01"),
        ("Asia/Kathmandu", "2026-01-16T18:14:59.999999Z", "2026-01-16"),
        ("Asia/Kathmandu", "2026-01-16T18:15:00.000000Z", "2026-01-17"),
        # Before the first day, and behind the last, there is none.
        ("America/New_York", "0001-01-01T00:00:00.000000Z", "0001-01-01"),
        ("Europe/Berlin", "9999-12-31T23:59:59.999999Z", "9999-12-31"),
    ],
)
def test_days_begin_in_the_configured_zone(zone: str, at: str, expected: str) -> None:
    """Midnight is the zone's own, even if a day is shorter or longer than others."""
    assert expected == day_of(at, config_of(f"timezone: {zone}").timezone)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        # Without an end, the last thing that was measured says when it was.
        ([(greeting(80), "16"), (greeting(80), "17")], "17"),
        ([(greeting(80), "17"), (greeting(80), "16")], "17"),
        ([(greeting(80), "16"), (BenchmarkRecorded("ac02", "", 1, 1), "18")], "18"),
        # With one, that; with several, as of a session that was resumed, the last.
        ([(greeting(80), "16"), (SessionEnded(""), "17"), (greeting(80), "18")], "17"),
        ([(greeting(80), "16"), (SessionEnded(""), "19"), (SessionEnded(""), "17")], "19"),
        # People judge later, and move nothing but what has no other time.
        ([(greeting(80), "16"), (FeedbackRecorded("ac01", 80, "", ""), "20")], "16"),
        ([(FeedbackRecorded("", 80, "", ""), "20"), (greeting(80), "16")], "16"),
    ],
)
def test_a_session_has_the_time_of_its_end(told: list[tuple[Any, str]], expected: str) -> None:
    """The end of a session, else its last measurement, gives its day."""
    state = folded(line(seq, event, at=f"2026-01-{day}T12:00:00") for seq, (event, day) in enumerate(told, 1))
    assert [f"2026-01-{expected}"] == list(state.days)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        # An end that is sent on the 20th and names no time does not move what was measured on the 16th.
        ([(greeting(80), "16"), (SessionEnded(""), None)], "16"),
        ([(SessionEnded(""), None), (greeting(80), "16")], "16"),
        ([(greeting(80), None), (SessionEnded(""), "17")], "17"),
        ([(greeting(80), None), (greeting(60), "16"), (SessionEnded(""), None)], "16"),
        ([(greeting(80), None), (SessionEnded(""), "17"), (SessionEnded(""), None)], "17"),
        # A judgement that names its time says nothing of when the session was.
        ([(FeedbackRecorded("ac01", 80, "", ""), "16"), (greeting(80), None)], "20"),
        # Where nothing names a time, that is when it was recorded.
        ([(greeting(80), None), (SessionEnded(""), None)], "20"),
    ],
)
def test_a_given_time_counts_before_the_time_of_recording(told: list[tuple[Any, str | None]], expected: str) -> None:
    """All is recorded on the 20th; a session has the day that its events give."""
    state = folded(
        line(seq, event, at="2026-01-20T12:00:00", when=day and f"2026-01-{day}T12:00:00")
        for seq, (event, day) in enumerate(told, 1)
    )
    assert [f"2026-01-{expected}"] == list(state.days)


# Versions


# Late, again, and taken back


def test_late_events_revise_the_day_of_their_session() -> None:
    """A session is removed from its old day, and counted once on its new one."""
    state = folded([line(1, greeting(80)), line(2, greeting(60), "s2")])
    assert {"2026-01-16": {80: 1, 60: 1}} == overall(state)
    fold(scores_view(state.config), batches(line(3, greeting(90), when="2026-01-16T13:00:00")), state).count()
    assert {"2026-01-16": {90: 1, 60: 1}} == overall(state)
    fold(
        scores_view(state.config), batches(line(4, SessionEnded("3.0"), at=DAYS_LATER, when=DAYS_LATER)), state
    ).count()
    assert {"2026-01-16": {60: 1}, "2026-01-18": {90: 1}} == overall(state)
    assert {"3.0": {90: 1}} == {name: tally.scores["ac01"] for name, tally in state.versions.items()}
    fold(scores_view(state.config), batches(line(5, SessionEnded(""), "s2", at="2026-01-18T09:00:00")), state).count()
    assert {"2026-01-18": {90: 1, 60: 1}} == overall(state)


def test_an_older_value_does_not_replace_a_newer_one() -> None:
    """A late gauge of an earlier time is not the last; a counter adds up all the same."""
    later = line(1, metrics("ac02", review_score=90, completed=1, total=1), when="2026-01-16T12:00:00")
    older = line(2, metrics("ac02", review_score=10, completed=0, total=3), when="2026-01-16T11:00:00")
    session = folded([later, older]).session("s1")
    assert session is not None
    measured = session.measured(config_of().components["ac02"])
    assert {"review_score": 90, "completed": 1, "total": 4} == measured
    assert "2026-01-16T11:00:00.000000Z" == session.first_at


# What counts nothing


def test_ignored_events_are_counted() -> None:
    """No session, no component, an unknown one, and telemetry without a measure are counted apart.

    A benchmark that names no session lacks none.
    """
    told = [
        line(1, greeting(80), None),
        line(2, SessionEnded(""), None),
        line(3, metrics("", greeting_score=1)),
        line(4, BenchmarkRecorded("", "", 1, 1)),
        line(5, metrics("AC-99", speed=1)),
        line(6, FeedbackRecorded("ac99", 1, "", "")),
        line(7, metrics("--", speed=1)),
        line(8, FeedbackRecorded("--", 1, "", "")),
        line(9, TelemetryKept("ac01", "coffee", "", "")),
        line(10, TelemetryKept("ac01", "", "", "")),
        line(11, FeedbackRecorded("", 1, "", ""), None),
        line(12, PointAdded("kpt_001", "text")),
        line(13, FeedbackRecorded("ac01", 1, "", ""), None),
        line(14, BenchmarkRecorded("", "", 1, 1), None),
        line(15, BenchmarkRecorded("ac99", "", 1, 1), None),
    ]
    state = folded(told)
    assert {
        "no session": 4,
        "no component": 3,
        "unknown component ac99": 3,
        "unknown component --": 2,
        "telemetry of type coffee": 1,
        "telemetry of type unknown": 1,
    } == state.unscored
    assert ({}, {}) == (state.days, state.versions)


# Baselines, and the last moment


# Where sessions are kept
