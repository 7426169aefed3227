"""Laws of the view of scores: order, late events, undoing and regrouping change nothing; and the day of a session."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import accumulate
from math import floor
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.score_histories import batches, config_of, fold_records, line, metrics
from tallybook.ledger import events as kinds
from tallybook.ledger.records import Author, EventRecord
from tallybook.projections.fold import UNDOABLE, fold, fold_history
from tallybook.projections.scores.view import KINDS, Scores, day_of, scores_view

SESSIONS = st.sampled_from(["s1", "s2", "s3", None])
COMPONENTS = st.sampled_from(["ac01", "AC-02", "score.ac06", "", "ac99"])
NAMES = st.sampled_from(
    ["greeting_score", "completed", "total", "review_score", "implemented", "successful", "x_count", "x_total"]
)
# Floats that no order of adding up gives the same sum of: 0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1.
NUMBERS = st.sampled_from([0.1, 0.2, 0.3, 1e-9, 1e9, True, False]) | st.integers(-3, 100) | st.floats(-1e3, 1e3)
EMPTY = st.just("")
EVENTS = st.one_of(
    st.builds(kinds.MetricsRecorded, COMPONENTS, st.dictionaries(NAMES, NUMBERS, max_size=4).map(kinds.Numbers), EMPTY),
    st.builds(kinds.MetricsRecorded, COMPONENTS, st.dictionaries(NAMES, NUMBERS, max_size=4).map(kinds.Numbers), EMPTY),
    st.builds(kinds.BenchmarkRecorded, COMPONENTS, EMPTY, st.integers(0, 5), st.integers(5, 9)),
    st.builds(
        kinds.FeedbackRecorded, COMPONENTS, st.sampled_from([0.1, 33.3, 100]) | st.integers(0, 100), EMPTY, EMPTY
    ),
    st.builds(kinds.SessionEnded, st.sampled_from(["", "1.0", "2.0"])),
)
TIMES = st.builds(
    "2026-{}T{}:00.000000Z".format,
    st.sampled_from(["03-28", "03-29", "03-30", "12-31"]),
    st.sampled_from(["00:30", "12:00", "21:30", "22:30", "23:30"]),
)
RECORDS = st.builds(
    EventRecord, st.just(0), TIMES, EVENTS, EMPTY, st.builds(Author, st.just("test"), SESSIONS), when=TIMES | st.none()
)
ZONES = st.sampled_from(["timezone: UTC", "timezone: Europe/Berlin"])


def numbered(records: list[EventRecord]) -> list[EventRecord]:
    """Return records as from a ledger: each with its position and an id, recorded one after another."""
    times = accumulate((record.at for record in records), max)
    return [
        attrs.evolve(record, seq=seq, at=at, id=f"id-{seq * 7 % 31:02}-{seq}")
        for seq, (record, at) in enumerate(zip(records, times, strict=True), 1)
    ]


HISTORIES = st.lists(RECORDS, max_size=15).map(numbered)


def shown(state: Scores) -> tuple[Any, ...]:
    """Return the document of a state, however it was fold_records."""
    return list(state.latest_sessions()), state.days, state.versions, state.unscored, state.last_at


@given(records=HISTORIES, data=st.data())
def test_the_order_of_events_changes_nothing(records: list[EventRecord], data: st.DataObject) -> None:
    """In any order of the events of a history, each with its own times, scores are the same."""
    heard = data.draw(st.permutations(records))
    assert shown(fold_records(records)) == shown(fold_records(heard))


@given(records=HISTORIES, zone=ZONES)
def test_late_events_give_what_a_fold_in_time_order_gives(records: list[EventRecord], zone: str) -> None:
    """A count after every event, however late, equals one count of all events in order of time."""
    config = config_of(zone)
    state = scores_view(config).start()
    for record in records:
        fold(scores_view(config), batches(record), state).seal()
    in_time = sorted(records, key=lambda record: (record.when or record.at, record.at, record.seq))
    assert shown(fold_records(in_time, config)) == shown(state)


@given(records=HISTORIES, zone=ZONES)
def test_a_day_is_made_of_its_sessions(records: list[EventRecord], zone: str) -> None:
    """Average, least, greatest, number and coverage of a day are those of its sessions."""
    config = config_of(zone)
    state = fold_records(records, config)
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    lacking: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    count: dict[str, int] = defaultdict(int)
    for session in state.latest_sessions():
        if session.scores:
            count[day_of(session.at, config.timezone)] += 1
            for score, value in session.contribution.scores.items():
                found[day_of(session.at, config.timezone), score].append(value)
            for score, percent in session.contribution.unmeasured.items():
                lacking[day_of(session.at, config.timezone)][score] += percent
    assert count == {day: tally.sessions for day, tally in state.days.items()}
    assert lacking == {day: tally.unmeasured for day, tally in state.days.items() if tally.unmeasured}
    assert {
        key: (floor(Fraction(sum(values), len(values)) + Fraction(1, 2)), min(values), max(values))
        for key, values in found.items()
    } == {
        (day, score): tuple(tally.range(score).values())
        for day, tally in state.days.items()
        for score in config.scores
        if score in tally.scores
    }


@given(records=HISTORIES, data=st.data())
def test_undone_events_change_nothing(records: list[EventRecord], data: st.DataObject) -> None:
    """With some events and a session undone, scores are as if those had never been recorded."""
    ids = data.draw(st.sets(st.sampled_from([record.id for record in records] or ["id-none"])))
    session = data.draw(st.sampled_from([None, "s1"]))
    undoing = EventRecord(99, "2026-12-31T23:59:00.000000Z", kinds.EventsVoided(tuple(ids), session, ""), "id-undo")
    state = fold_history(scores_view(config_of()), lambda: batches(*records, undoing))
    state.seal()
    left = [record for record in records if record.id not in ids and (session is None or record.by.session != session)]
    assert shown(fold_records(left)) == shown(state)


@given(records=HISTORIES, cut=st.integers(0, 15))
def test_reading_on_equals_reading_at_once(records: list[EventRecord], cut: int) -> None:
    """A state that was counted in the middle and continued is the whole."""
    state = fold_records(records[:cut])
    fold(scores_view(state.config), batches(*records[cut:]), state).seal()
    assert shown(fold_records(records)) == shown(state)


def test_every_scored_kind_can_be_undone() -> None:
    """Every kind that concerns a session can be undone."""
    assert set(KINDS) <= UNDOABLE


def greeting(score: float) -> Any:
    """Return an event that gives ac01, efficiency and the overall score of its session this many points."""
    return metrics("ac01", greeting_score=score)


@pytest.mark.parametrize(
    ("zone", "at", "expected"),
    [
        ("Europe/Berlin", "2026-01-16T22:59:59.999999Z", "2026-01-16"),
        ("Europe/Berlin", "2026-01-16T23:00:00.000000Z", "2026-01-17"),
        # The day on which summer time begins has 23 hours.
        ("Europe/Berlin", "2026-03-29T21:59:59.999999Z", "2026-03-29"),
        ("Europe/Berlin", "2026-03-29T22:00:00.000000Z", "2026-03-30"),
        # The day on which it ends has 25.
        ("Europe/Berlin", "2026-10-25T22:59:59.999999Z", "2026-10-25"),
        ("Europe/Berlin", "2026-10-25T23:00:00.000000Z", "2026-10-26"),
        # West of Greenwich, and by three quarters of an hour.
        ("America/New_York", "2026-01-01T05:00:00.000000Z", "2026-01-01"),
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
        ([(greeting(80), "16"), (kinds.BenchmarkRecorded("ac02", "", 1, 1), "18")], "18"),
        # With one, that; with several, as of a session that was resumed, the last.
        ([(greeting(80), "16"), (kinds.SessionEnded(""), "17"), (greeting(80), "18")], "17"),
        ([(greeting(80), "16"), (kinds.SessionEnded(""), "19"), (kinds.SessionEnded(""), "17")], "19"),
        # People judge later, and move nothing but what has no other time.
        ([(greeting(80), "16"), (kinds.FeedbackRecorded("ac01", 80, "", ""), "20")], "16"),
        ([(kinds.FeedbackRecorded("", 80, "", ""), "20"), (greeting(80), "16")], "16"),
    ],
)
def test_a_session_has_the_time_of_its_end(told: list[tuple[Any, str]], expected: str) -> None:
    """The end of a session, else its last measurement, gives its day."""
    state = fold_records(line(seq, event, at=f"2026-01-{day}T12:00:00") for seq, (event, day) in enumerate(told, 1))
    assert [f"2026-01-{expected}"] == list(state.days)
