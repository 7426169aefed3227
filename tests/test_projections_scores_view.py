"""The view of scores: the session of an event, the day of a session, and revision by late events."""

from __future__ import annotations

from copy import deepcopy
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from helpers.score_histories import batches, config_of, folded, line, metrics
from tallybook.ledger.events import (
    BaselineSet,
    BenchmarkRecorded,
    EventRedacted,
    EventsVoided,
    FeedbackRecorded,
    MetricsRecorded,
    Numbers,
    PointAdded,
    SessionEnded,
    TelemetryKept,
)
from tallybook.ledger.records import make_batch
from tallybook.projections.fold import fold, fold_history
from tallybook.projections.scores import view as module
from tallybook.projections.scores.periods import Range, Tally
from tallybook.projections.scores.view import Baseline, Scores, Sessions, day_of, scores_view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.ledger.records import EventRecord
    from tallybook.projections.scores.session_inputs import Session

BERLIN = "timezone: Europe/Berlin"
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


def test_a_session_is_on_the_day_of_its_zone() -> None:
    """Half past eleven at night in Greenwich is the next day in Berlin."""
    records = [line(1, greeting(80), at="2026-01-16T23:30:00")]
    assert {"2026-01-16": {80: 1}} == overall(folded(records))
    assert {"2026-01-17": {80: 1}} == overall(folded(records, config_of(BERLIN)))


def test_the_time_of_happening_counts_before_that_of_recording() -> None:
    """Metrics that are recorded days later belong to the day that they measured."""
    late = line(1, greeting(80), at="2026-01-20T12:00:00", when="2026-01-16T12:00:00")
    assert {"2026-01-16": {80: 1}} == overall(folded([late]))


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


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([], []),
        ([("", "12")], []),
        ([("2.0.0", "12")], ["2.0.0"]),
        ([("1.0.0", "12"), ("2.0.0", "13")], ["2.0.0"]),
        ([("2.0.0", "13"), ("1.0.0", "12")], ["2.0.0"]),
        # An end that names none, as an agent's own hook gives it, does not hide one that does.
        ([("2.0.0", "12"), ("", "13")], ["2.0.0"]),
        ([("", "13"), ("2.0.0", "12")], ["2.0.0"]),
    ],
)
def test_a_session_has_the_version_that_it_ended_with(ends: list[tuple[str, str]], expected: list[str]) -> None:
    """Of several ends the last one with a version counts; without any the session is in no version."""
    told = [line(seq, SessionEnded(version), at=f"2026-01-16T{hour}:00:00") for seq, (version, hour) in enumerate(ends)]
    state = folded([line(9, greeting(80)), *told])
    assert expected == list(state.versions)
    assert 1 == state.days["2026-01-16"].sessions


def test_versions_are_counted_like_days() -> None:
    """Two sessions of one version are averaged: (80 + 91) / 2 = 85.5 is 86."""
    records = [line(1, greeting(80)), line(2, greeting(91), "s2"), line(3, greeting(10), "s3")]
    ends = [line(4, SessionEnded("2.0"), "s1"), line(5, SessionEnded("2.0"), "s2"), line(6, SessionEnded("1.0"), "s3")]
    state = folded([*records, *ends])
    assert Range(86, 80, 91) == state.versions["2.0"].range("ac01")
    assert Range(10, 10, 10) == state.versions["1.0"].range("session.overall")


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


def test_a_second_count_changes_nothing() -> None:
    """A recomputed period is the same."""
    state = folded([line(1, greeting(80)), line(2, greeting(60), "s2")])
    before = deepcopy((state.days, state.versions, state.sessions))
    state.count().count()
    assert before == (state.days, state.versions, state.sessions)


def test_an_undone_measurement_does_not_count() -> None:
    """Undone metrics are out of their session; an undone session is out of its day."""
    told = [line(1, greeting(80)), line(2, greeting(60), at="2026-01-16T13:00:00"), line(3, greeting(70), "s2")]
    one = line(4, EventsVoided(("id-002",), None, ""), None)
    whole = line(5, EventsVoided((), "s2", ""), None)
    view = scores_view(config_of())
    assert {"2026-01-16": {80: 1, 70: 1}} == overall(fold_history(view, lambda: batches(*told, one)).count())
    assert {"2026-01-16": {80: 1}} == overall(fold_history(view, lambda: batches(*told, one, whole)).count())
    assert {"2026-01-16": {60: 1, 70: 1}} == overall(
        fold_history(view, lambda: batches(*told, one, whole), until=4 - 1).count()
    )


def test_rewriting_the_past_is_noted() -> None:
    """A fold that continues from a state sees that earlier events may have been undone."""
    told = [EventsVoided((), None, ""), EventRedacted("id-001", ""), greeting(80)]
    assert 2 == folded(line(seq, event) for seq, event in enumerate(told, 1)).rewrites


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


def test_a_metric_of_no_component_is_counted() -> None:
    """A misspelt one is listed by its name; counters, shares as two counts, and telemetry's further values are not."""
    told = [
        line(1, metrics("AC-01", startup_mss=1, startup_ms=1, greeting_score_count=1, greeting_score_total=1)),
        line(2, metrics("ac01", startup_mss=2)),
        line(3, metrics("ac02", iterations=1, total=1, Completed=1)),
        line(4, MetricsRecorded("ac02", Numbers({"errors": 1}), "task_error")),
        line(5, metrics("ac06", processed=1, target=1)),
    ]
    assert {"unknown metric startup_mss of ac01": 2, "unknown metric Completed of ac02": 1} == folded(told).unscored
    mine = config_of("components: {ac01: {metrics: {start: {of: startup_mss}}}}")
    assert {"unknown metric Completed of ac02": 1} == folded(told, mine).unscored


def test_another_configuration_uses_formerly_unknown_components() -> None:
    """A measurement of an unknown component is stored with its session, and scored once it is configured."""
    told = [line(1, metrics("Mine", speed=40))]
    assert {} == folded(told).days
    state = folded(told, config_of("components: {mine: {metrics: {speed: {}}}}"))
    assert {"mine": {40: 1}} == state.days["2026-01-16"].scores
    assert ({"mine": None}, {}) == (state.session("s1").components, state.unscored)  # type: ignore[union-attr]


def test_a_session_without_scores_is_in_no_period() -> None:
    """A session that only ended, or without a scored measurement, makes no day."""
    state = folded([line(1, SessionEnded("1.0")), line(2, metrics("ac01", speed=1), "s2")])
    assert ({}, {}, {"s1", "s2"}) == (state.days, state.versions, set(state.sessions))


def test_a_session_that_loses_its_scores_leaves_its_period() -> None:
    """If the configuration gives benchmarks no weight, a benchmark alone makes no day."""
    told = [line(1, BenchmarkRecorded("ac01", "", 7, 10))]
    assert {"2026-01-16": {70: 1}} == overall(folded(told))
    assert {} == folded(told, config_of("benchmarks: {weight: 0}")).days


def test_feedback_alone_makes_no_day() -> None:
    """A session about which people only gave feedback has no score, however much of it there is."""
    judged = [line(seq, FeedbackRecorded(name, 0, "harmful", "")) for seq, name in enumerate(("ac01", "", "ac09"), 1)]
    assert {} == folded(judged).days


# Baselines, and the last moment


def test_the_baseline_that_was_set_last_counts() -> None:
    """A score has the specification's name or a person's; the day is that of the event, in its zone."""
    told = [
        line(1, BaselineSet("ac06", 80, ""), None),
        line(2, BaselineSet("score.session.overall", 70, ""), None),
        line(3, BaselineSet("AC-06", 75.5, ""), None, when="2026-01-15T23:30:00"),
    ]
    expected = {
        "ac06": Baseline(75.5, 3, date(2026, 1, 16)),
        "session.overall": Baseline(70, 2, date(2026, 1, 16)),
    }
    assert expected == folded(told, config_of(BERLIN)).baselines


def test_the_last_moment_is_that_of_the_last_event() -> None:
    """The age of files counts back from it, and from no clock."""
    told = [line(1, greeting(80), at="2026-01-18T12:00:00"), line(2, greeting(80), when="2026-01-17T12:00:00")]
    assert ["", "2026-01-18T12:00:00.000000Z"] == [folded(told[:n]).last_at for n in (0, 2)]


# Where sessions are kept


class Copies(dict[str, Any]):
    """A shelf that returns and stores copies, like a database."""

    def get(self, id_: str, /) -> Session | None:  # type: ignore[override]
        """Return a copy."""
        return deepcopy(super().get(id_))

    def __setitem__(self, id_: str, session: Session, /) -> None:
        """Store a copy."""
        super().__setitem__(id_, deepcopy(session))

    def latest(self) -> Iterator[Session]:
        """Yield nothing: no test uses it."""
        yield from ()


@pytest.mark.parametrize("fresh", [1, 2, 10_000])
def test_a_shelf_of_copies_counts_the_same(fresh: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often sessions are counted and stored while history is read, they are counted once."""
    monkeypatch.setattr(module, "MOST_UNCOUNTED", fresh)
    told = [line(seq, greeting(seq), f"s{seq % 3}", f"2026-01-{16 + seq % 2}T12:00:{seq:02}") for seq in range(1, 20)]
    shelf, config = Copies(), config_of()
    kept = fold(scores_view(config, lambda: Scores(config=config, sessions=shelf)), batches(*told)).count()
    assert shelf is kept.sessions
    assert folded(told).days == kept.days
    assert dict(folded(told).sessions) == dict(kept.sessions)
    # Odd seconds lie on the 17th: 15 of s0, 19 of s1 and 17 of s2 are the last of each.
    assert {"2026-01-17": {15: 1, 17: 1, 19: 1}} == overall(kept)


def test_sessions_are_stored_once_there_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are stored as soon as the allowed number is in memory, so that memory is bounded."""
    monkeypatch.setattr(module, "MOST_UNCOUNTED", 2)
    view = scores_view(config_of())
    state = fold(view, batches(line(1, greeting(1), "s1")))
    assert (["s1"], []) == (list(state.uncounted), list(state.sessions))
    fold(view, [make_batch(line(2, greeting(2), "s2"), line(3, greeting(3), "s1"))], state)
    assert ([], ["s1", "s2"]) == (list(state.uncounted), sorted(state.sessions))
    assert 3 == state.days["2026-01-16"].range("ac01").max  # type: ignore[union-attr]


def test_the_latest_session_is_first() -> None:
    """They are ordered by time; of two at one time the one with the greater id is first."""
    told: list[EventRecord] = [
        line(1, greeting(1), "old", "2026-01-15T12:00:00"),
        line(2, greeting(1), "b"),
        line(3, greeting(1), "a"),
        line(4, greeting(1), "new", "2026-01-17T12:00:00"),
    ]
    sessions: Sessions = folded(told).sessions
    assert ["new", "b", "a", "old"] == [session.id for session in sessions.latest()]


def test_a_tally_subtracts_what_it_counted() -> None:
    """A session that was counted and subtracted leaves an empty tally."""
    tally = Tally()
    tally.add({"ac01": 80}, {"ac01": 30})
    tally.add({"ac01": 80, "ac02": 0}, {"ac02": 1})
    assert (2, {"ac01": {80: 2}, "ac02": {0: 1}}) == (tally.sessions, tally.scores)
    tally.add({"ac01": 80, "ac02": 0}, {"ac02": 1}, -1)
    assert (1, {"ac01": {80: 1}}) == (tally.sessions, tally.scores)
    tally.add({"ac01": 80}, {"ac01": 30}, -1)
    assert Tally() == tally
