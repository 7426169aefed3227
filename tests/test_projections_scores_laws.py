"""The laws of scores, over random histories: order, lateness, repetition and recounting change no score."""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy
from fractions import Fraction
from itertools import accumulate
from math import floor
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from helpers.score_histories import batches, config_of, folded
from tallybook.ledger.events import (
    BenchmarkRecorded,
    EventsVoided,
    FeedbackRecorded,
    MetricsRecorded,
    Numbers,
    SessionEnded,
)
from tallybook.ledger.records import Author, EventRecord
from tallybook.projections.fold import UNDOABLE, fold, fold_history
from tallybook.projections.scores.inputs import KINDS
from tallybook.projections.scores.view import PERIODS, Scores, day_of, grouped, scores_view

SESSIONS = st.sampled_from(["s1", "s2", "s3", None])
COMPONENTS = st.sampled_from(["ac01", "AC-02", "score.ac06", "", "ac99"])
NAMES = st.sampled_from(
    ["greeting_score", "completed", "total", "review_score", "implemented", "successful", "x_count", "x_total"]
)
# Floats that no order of adding up gives the same sum of: 0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1.
NUMBERS = st.sampled_from([0.1, 0.2, 0.3, 1e-9, 1e9, True, False]) | st.integers(-3, 100) | st.floats(-1e3, 1e3)
EMPTY = st.just("")
EVENTS = st.one_of(
    st.builds(MetricsRecorded, COMPONENTS, st.dictionaries(NAMES, NUMBERS, max_size=4).map(Numbers), EMPTY),
    st.builds(MetricsRecorded, COMPONENTS, st.dictionaries(NAMES, NUMBERS, max_size=4).map(Numbers), EMPTY),
    st.builds(BenchmarkRecorded, COMPONENTS, EMPTY, st.integers(0, 5), st.integers(5, 9)),
    st.builds(FeedbackRecorded, COMPONENTS, st.sampled_from([0.1, 33.3, 100]) | st.integers(0, 100), EMPTY, EMPTY),
    st.builds(SessionEnded, st.sampled_from(["", "1.0", "2.0"])),
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
    times = accumulate((one.at for one in records), max)
    return [
        attrs.evolve(one, seq=seq, at=at, id=f"id-{seq * 7 % 31:02}-{seq}")
        for seq, (one, at) in enumerate(zip(records, times, strict=True), 1)
    ]


HISTORIES = st.lists(RECORDS, max_size=15).map(numbered)


def shown(state: Scores) -> tuple[Any, ...]:
    """Return the document of a state, however it was folded."""
    return state.sessions, state.days, state.versions, state.unscored, state.last_at


@given(records=HISTORIES, data=st.data())
def test_the_order_of_events_changes_nothing(records: list[EventRecord], data: st.DataObject) -> None:
    """In any order of the events of a history, each with its own times, scores are the same."""
    heard = data.draw(st.permutations(records))
    assert shown(folded(records)) == shown(folded(heard))


@given(records=HISTORIES, zone=ZONES)
def test_late_events_give_what_a_fold_in_time_order_gives(records: list[EventRecord], zone: str) -> None:
    """A count after every event, however late, equals one count of all events in order of time."""
    config = config_of(zone)
    state = scores_view(config).start()
    for record in records:
        fold(scores_view(config), batches(record), state).count()
    in_time = sorted(records, key=lambda one: (one.when or one.at, one.at, one.seq))
    assert shown(folded(in_time, config)) == shown(state)


@given(records=HISTORIES)
def test_recomputing_a_period_changes_nothing(records: list[EventRecord]) -> None:
    """A second count, or grouping of days, is the same to the last number."""
    state = folded(records)
    before = deepcopy(shown(state))
    weeks = [grouped(state.days, name_of) for _, name_of in PERIODS.values()]
    assert before == shown(state.count())
    assert weeks == [grouped(state.days, name_of) for _, name_of in PERIODS.values()]


@given(records=HISTORIES, zone=ZONES)
def test_a_day_is_made_of_its_sessions(records: list[EventRecord], zone: str) -> None:
    """Average, least, greatest, number and coverage of a day are those of its sessions."""
    config = config_of(zone)
    state = folded(records, config)
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    lacking: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    count: dict[str, int] = defaultdict(int)
    for session in state.sessions.values():
        if session.contribution is not None:
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
        (day, score): (one.avg, one.min, one.max)
        for day, tally in state.days.items()
        for score in config.score_ids
        if (one := tally.range(score)) is not None
    }


@given(records=HISTORIES, data=st.data())
def test_undone_events_change_nothing(records: list[EventRecord], data: st.DataObject) -> None:
    """With some events and a session undone, scores are as if those had never been recorded."""
    ids = data.draw(st.sets(st.sampled_from([one.id for one in records] or ["id-none"])))
    session = data.draw(st.sampled_from([None, "s1"]))
    undoing = EventRecord(99, "2026-12-31T23:59:00.000000Z", EventsVoided(tuple(ids), session, ""), "id-undo")
    state = fold_history(scores_view(config_of()), lambda: batches(*records, undoing)).count()
    left = [one for one in records if one.id not in ids and (session is None or one.by.session != session)]
    assert shown(folded(left)) == shown(state)


@given(records=HISTORIES, cut=st.integers(0, 15))
def test_reading_on_equals_reading_at_once(records: list[EventRecord], cut: int) -> None:
    """A state that was counted in the middle and continued is the whole."""
    state = folded(records[:cut])
    assert shown(folded(records)) == shown(fold(scores_view(state.config), batches(*records[cut:]), state).count())


def test_every_scored_kind_can_be_undone() -> None:
    """Every kind that concerns a session can be undone."""
    assert set(KINDS) <= UNDOABLE
