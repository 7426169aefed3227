"""Scores of components and sessions by "Scoring Algorithms" of the specification, by hand.

`tests/tape/stories/scores.txt` has how events of the playbook measure it as a component.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta
from fractions import Fraction
from itertools import accumulate
from math import floor
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from helpers.score_histories import (
    LINEAR,
    batches,
    config,
    config_of,
    fold_records,
    fold_sessions,
    line,
    metrics,
    noon,
    session_of,
    value_of,
)
from helpers.sweep import slice_of
from tallybook.ledger import events as kinds
from tallybook.ledger.records import Author, EventRecord
from tallybook.projections.playbook.fold import UNDOABLE, fold, fold_history
from tallybook.projections.scores.config import Config
from tallybook.projections.scores.scoring import Level, component_score, composites, number, score_session, trend
from tallybook.projections.scores.summary import changes
from tallybook.projections.scores.trends import GateQuery, ScoreHistory, forecast, gate, regressions
from tallybook.projections.scores.view import KINDS, Baseline, Scores, day_of, scores_view

EXAMPLE = dict(zip([f"ac0{n}" for n in range(1, 10)], (92, 88, 85, 95, 78, 82, 75, 90, 94), strict=True))


@pytest.mark.parametrize(
    ("component", "values", "expected"),
    [
        # 10,000 ms are 80, 25 % are 50: 80 * 0.3 + 50 * 0.2 + 90 * 0.2 + 100 * 0.3 = 24 + 10 + 18 + 30.
        ("ac01", {"startup_ms": 10_000, "context_percent": 25, "greeting_score": 90, "orientation_done": True}, 82),
        # 80 * 0.35 + 70 * 0.25 + 75 * 0.2 + 90 * 0.2 = 28 + 17.5 + 15 + 18 = 78.5, rounded up.
        (
            "ac02",
            {"completed": 8, "total": 10, "avg_iterations": 3.7, "drift_events": 4, "drift_corrected": 3}
            | {"review_score": 90},
            79,
        ),
        # 75 * 0.4 + 90 * 0.25 + (100 - 25) * 0.2 + 60 * 0.15 = 30 + 22.5 + 15 + 9 = 76.5, rounded up.
        (
            "ac06",
            {"implemented": 4, "successful": 3, "validated": 9, "total": 10, "rollbacks": 1}
            | {"processed": 3, "target": 5},
            77,
        ),
    ],
)
def test_a_component_by_its_formula(component: str, values: dict[str, float], expected: int) -> None:
    """The three formulas of the specification, worked out by hand."""
    assert expected == value_of(component, **values)


@pytest.mark.parametrize("component", LINEAR)
def test_the_six_others_weigh_their_three_measures_equally(component: str) -> None:
    """(60 + 70 + 81) / 3 = 70.33, and with a pair of counts for one of them (60 + 70 + 75) / 3 = 68.33."""
    first, second, third = LINEAR[component]
    assert 70 == value_of(component, **{first: 60, second: 70, third: 81})
    assert 68 == value_of(component, **{first: 60, second: 70, f"{third}_count": 3, f"{third}_total": 4})


@pytest.mark.parametrize(
    ("component", "values"),
    [
        *((f"ac0{n}", {}) for n in range(1, 10)),
        ("ac02", {"total": 0, "completed": 0}),
        ("ac06", {"total": 0, "validated": 0}),
        ("ac06", {"target": 0, "processed": 3}),
        ("ac06", {"rollbacks": 1}),
        ("ac06", {"total": 10, "validated_count": 3, "validated_total": 4}),
        ("ac03", {"thoroughness_count": 0, "thoroughness_total": 0}),
        ("ac03", {"speed": 99}),
    ],
)
def test_no_data_is_no_score(component: str, values: dict[str, float]) -> None:
    """Without a measurement, or with a whole of 0, there is no score: not 0, not 75, and no error."""
    assert value_of(component, **values) is None


def test_a_user_describes_components_and_composites_of_their_own() -> None:
    """2 ms of 1 to 5 are 75, weighed 3; 1 of 4 failed and the rest counts, 75 too; with 1 ms (300 + 75) / 4 = 93.75.

    (60 + 81) / 2 = 70.5, cut, and 90: 70 * 0.75 + 90 * 0.25 = 75.
    """
    own = """
    components:
      speed:
        counters: [failed, calls]
        metrics:
          latency: {form: inverse, of: ms, best: 1, worst: 5, weight: 3}
          errors: {form: ratio, of: failed, per: calls, rest: true}
    session_weights: {efficiency: false, effectiveness: false, improvement: false, handoff: 0.25, work: 0.75}
    sessions: {efficiency: false, effectiveness: false, improvement: false, work: [ac01, ac02]}
    """
    assert [75, 94] == [value_of("speed", own, ms=ms, failed=1, calls=4) for ms in (2, 1)]
    found = composites({"ac01": 60, "ac02": 81, "ac09": 90}, config_of(own))
    assert {"session.handoff": 90, "session.work": 70, "session.overall": 75} == found


ALL_80 = metrics("ac03", thoroughness=80, accuracy=80, actionability=80)
ONE_80 = metrics("ac03", thoroughness=80)
RUN = kinds.BenchmarkRecorded("AC-03", "reviews", 9, 10)
SAID = kinds.FeedbackRecorded("ac03", 60, "", "")
THIRD = pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("events", "own", "expected"),
    [
        # (80 * 1 + 90 * 0.25) / 1.25 = 82, (80 + 22.5 + 60 * 0.25) / 1.5 = 78.3.
        ([ALL_80, RUN], "", (82, 1)),
        ([ALL_80, RUN, SAID], "", (78, 1)),
        # One of three metrics weighs 1/3: (80 / 3 + 90 / 4) / (1 / 3 + 1 / 4) = 84.3, and 7/12 of 5/4 was measured.
        ([ONE_80, RUN], "", (84, pytest.approx(7 / 15))),
        # Feedback weighs a quarter of what was measured: 80 and 60 are 76 however little that is.
        ([ONE_80, SAID], "", (76, THIRD)),
        # A benchmark alone is the score, and feedback alone is none.
        ([RUN], "", (90, 0.2)),
        ([SAID], "", None),
        # Runs add up, 9 of 10 and 1 of 10; so do people, 60 and 61 to 60.5.
        ([RUN, kinds.BenchmarkRecorded("ac03", "", 1, 10)], "", (50, 0.2)),
        ([ALL_80, SAID, kinds.FeedbackRecorded("ac03", 61, "", "")], "", (76, 1)),
        # A weight of 1 is as much as all metrics: half of 80 + 90.
        ([ALL_80, RUN], "benchmarks: {weight: 1}", (85, 1)),
        ([RUN, SAID], "{benchmarks: {weight: 0}, feedback: {weight: 0}}", None),
        ([kinds.BenchmarkRecorded("ac03", "", 0, 0)], "", None),
        ([ALL_80, kinds.BenchmarkRecorded("ac03", "", 0, 10)], "", (64, 1)),
        # Of another component, and of the session itself.
        ([ALL_80, kinds.BenchmarkRecorded("ac04", "", 0, 9), kinds.FeedbackRecorded("", 0, "", "")], "", (80, 1)),
    ],
)
def test_benchmarks_and_feedback_join_with_weights_of_their_own(
    events: list[Any], own: str, expected: tuple[int, float] | None
) -> None:
    """Benchmarks and feedback have their configured weights, next to metrics that together weigh 1."""
    config = config_of(own)
    found = component_score(config.components["ac03"], session_of(*events), config)
    assert expected == (None if found.value is None else (found.value, found.coverage))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # The worked example: (92 + 95) / 2 = 93.5, 86.5, 81.25 and 94 are cut.
        # 18.6 + 30.1 + 20.25 + 18.8 = 87.75 is cut, too.
        (EXAMPLE, [93, 86, 81, 94, 87]),
        ({}, [None, None, None, None, None]),
        ({"ac01": 92}, [92, None, None, None, 92]),
        # (93 * 0.2 + 86 * 0.35) / 0.55 = 88.5.
        ({"ac01": 92, "ac04": 95, "ac02": 88, "ac03": 85}, [93, 86, None, None, 88]),
        # 75 and 90 to 82.5; (82 * 0.25 + 94 * 0.2) / 0.45 = 87.3.
        ({"ac07": 75, "ac08": 90, "ac09": 94}, [None, None, 82, 94, 87]),
        (dict.fromkeys(EXAMPLE, 100), [100] * 5),
    ],
)
def test_composites_leave_out_missing_parts(values: dict[str, int], expected: list[int | None]) -> None:
    """A missing component weighs nothing in its composite, a missing composite nothing in the overall score."""
    found = composites(values, config_of(), None)
    names = ("efficiency", "effectiveness", "improvement", "handoff", "overall")
    assert expected == [found.get(f"session.{name}") for name in names]


def test_a_session_with_feedback_alone_has_no_score() -> None:
    """Feedback alone makes no score, and so closes no gate; next to 80, 25 weighs a quarter of what was measured."""
    judged = (kinds.FeedbackRecorded("", 0, "harmful", ""), kinds.FeedbackRecorded("", 50, "", ""))
    assert {} == score_session(session_of(*judged), config_of())[0]
    # (80 * 0.20 + 25 * 0.05) / 0.25 = 69, handoff weighing 0.20.
    measured = session_of(*judged, metrics("ac09", handoff_quality=80))
    assert {"ac09": 80, "session.handoff": 80, "session.overall": 69} == score_session(measured, config_of())[0]


DIRECTIONS = {
    "ac01": {"startup_ms": -1, "context_percent": -1, "greeting_score": 1, "orientation_done": 1},
    "ac02": dict.fromkeys(("completed", "drift_corrected", "review_score"), 1)
    | dict.fromkeys(("total", "avg_iterations", "iterations", "drift_events"), -1),
    "ac06": {"successful": 1, "validated": 1, "total": -1, "rollbacks": -1, "processed": 1, "target": -1},
    **{component: dict.fromkeys(names, 1) for component, names in LINEAR.items()},
}
"""Component → value → 1 where more of it is better, -1 where less is."""
ROWS = [(component, name, sign) for component, names in DIRECTIONS.items() for name, sign in names.items()]
VALUES = st.integers(1, 40_000) | st.integers(1, 12) | st.floats(0.5, 120) | st.booleans().map(lambda flag: flag + 1)
ANY = st.integers(-(2**53), 2**53) | st.floats(-(2.0**53), 2.0**53) | st.integers(-3, 120) | st.booleans()
OTHERS = {"ac06": {"implemented": VALUES}}
BOTH_WAYS = {"total": ("iterations",), "iterations": ("total",)}
"""More tasks with the same iterations are less completed, and less effort for each."""


@pytest.fixture(scope="module")
def default() -> Config:
    """Return the default configuration, which is read once for all examples."""
    return config_of()


def worth(config: Config, component: str, values: dict[str, float]) -> int | None:
    """Return the score of a component with these measurements."""
    return component_score(config.components[component], session_of(metrics(component, **values)), config).value


@pytest.mark.parametrize(("component", "name", "sign"), ROWS)
@settings(max_examples=slice_of(60, 15))
@given(data=st.data())
def test_a_score_is_monotone_in_each_metric(
    default: Config, component: str, name: str, sign: int, data: st.DataObject
) -> None:
    """With any other measurements, more of a good metric never lowers a score, more of a bad one never raises it."""
    others = {other: VALUES for other in DIRECTIONS[component] if other not in {name, *BOTH_WAYS.get(name, ())}}
    beside = data.draw(st.fixed_dictionaries({}, optional=others | OTHERS.get(component, {})))
    less, more = sorted((data.draw(VALUES), data.draw(VALUES)))
    low, high = (worth(default, component, beside | {name: value}) for value in (less, more))
    assert (low is None) == (high is None)
    assert (low or 0) * sign <= (high or 0) * sign


@given(
    st.lists(
        st.sampled_from([*DIRECTIONS, "ac99"]).flatmap(
            lambda component: st.dictionaries(
                st.sampled_from([*DIRECTIONS.get(component, {}), "implemented", "coverage_count", "coverage_total"]),
                ANY,
            ).map(lambda values: metrics(component, **values))
        )
        | st.builds(kinds.FeedbackRecorded, st.sampled_from(["", "ac02"]), st.floats(0, 100), st.just(""), st.just(""))
        | st.builds(
            kinds.BenchmarkRecorded, st.sampled_from(["ac02", ""]), st.just(""), st.integers(0, 5), st.integers(5, 9)
        ),
        max_size=6,
    )
)
def test_scores_are_whole_and_stay_within_0_and_100(events: list[Any]) -> None:
    """For any measurement, however absurd, a score is a whole number from 0 to 100."""
    found = score_session(session_of(*events), config_of())[0]
    assert [] == [(name, value) for name, value in found.items() if type(value) is not int or not 0 <= value <= 100]
    assert found.keys() <= config_of().scores.keys()


PERCENTS = st.integers(0, 100) | st.none()


@given(st.lists(st.tuples(st.integers(1, 28), PERCENTS, PERCENTS, PERCENTS), max_size=20), st.integers(1, 5))
def test_changes_add_up(days: list[tuple[int, float | None, float | None, float | None]], span: int) -> None:
    """The parts' changes sum to the change of the whole, whatever was not measured."""
    names = ("state_preservation", "handoff_quality", "completeness")
    measured = [(day, {k: v for k, v in zip(names, values, strict=True) if v is not None}) for day, *values in days]
    sessions = [(f"s{n}", noon(f"2026-01-{day:02}"), {"ac09": parts}, "") for n, (day, parts) in enumerate(measured)]
    state = fold_sessions(config(), *sessions)
    found = changes(state, state.config.components["ac09"], span)
    assert (found is not None) == (len({day for day, parts in measured if parts}) > span)
    if found is not None:
        total = sum(part["delta"] for part in found["parts"])
        assert abs(total - (found["now"] - found["before"])) < 0.05


# Laws of the view of scores: order, late events, undoing and regrouping change nothing; and the day of a session.


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


def number_records(records: list[EventRecord]) -> list[EventRecord]:
    """Return records as from a ledger: each with its position and an id, recorded one after another."""
    times = accumulate((record.at for record in records), max)
    return [
        attrs.evolve(record, seq=seq, at=at, id=f"id-{seq * 7 % 31:02}-{seq}")
        for seq, (record, at) in enumerate(zip(records, times, strict=True), 1)
    ]


HISTORIES = st.lists(RECORDS, max_size=15).map(number_records)


def list_document(state: Scores) -> tuple[Any, ...]:
    """Return the document of a state, however it was folded."""
    days = {day: {score: sorted(levels) for score, levels in tally.levels.items()} for day, tally in state.days.items()}
    measured = {id_: state.session(id_) for id_ in state.sessions}
    return measured, state.latest_sessions(), days, state.unscored, state.last_at


@given(records=HISTORIES, data=st.data())
def test_the_order_of_events_changes_nothing(records: list[EventRecord], data: st.DataObject) -> None:
    """In any order of the events of a history, each with its own times, scores are the same."""
    heard = data.draw(st.permutations(records))
    assert list_document(fold_records(records)) == list_document(fold_records(heard))


@given(records=HISTORIES, zone=ZONES)
def test_late_events_give_what_a_fold_in_time_order_gives(records: list[EventRecord], zone: str) -> None:
    """A count after every event, however late, equals one count of all events in order of time."""
    config = config_of(zone)
    state = scores_view(config).start()
    for record in records:
        fold(scores_view(config), batches(record), state).seal()
    in_time = sorted(records, key=lambda record: (record.when or record.at, record.at, record.seq))
    assert list_document(fold_records(in_time, config)) == list_document(state)


@given(records=HISTORIES, zone=ZONES)
def test_a_day_is_made_of_its_sessions(records: list[EventRecord], zone: str) -> None:
    """Average, least, greatest, number and coverage of a day are those of its sessions."""
    config = config_of(zone)
    state = fold_records(records, config)
    found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    count: dict[str, int] = defaultdict(int)
    for session in state.latest_sessions():
        count[day_of(session.at, config.timezone)] += 1
        for score, level in session.levels.items():
            found[day_of(session.at, config.timezone), score].append(level)
    assert count == {day: tally.sessions for day, tally in state.days.items()}
    assert {key: sorted(levels) for key, levels in found.items()} == {
        (day, score): sorted(levels) for day, tally in state.days.items() for score, levels in tally.levels.items()
    }
    for (day, score), levels in found.items():
        values = [value for value, _ in levels]
        average = floor(Fraction(sum(values), len(values)) + Fraction(1, 2))
        assert {"avg": average, "min": min(values), "max": max(values)} == state.days[day].range(score)


@given(records=HISTORIES, data=st.data())
def test_undone_events_change_nothing(records: list[EventRecord], data: st.DataObject) -> None:
    """With some events and a session undone, scores are as if those had never been recorded."""
    ids = data.draw(st.sets(st.sampled_from([record.id for record in records] or ["id-none"])))
    session = data.draw(st.sampled_from([None, "s1"]))
    undoing = EventRecord(99, "2026-12-31T23:59:00.000000Z", kinds.EventsVoided(tuple(ids), session, ""), "id-undo")
    state = fold_history(scores_view(config_of()), lambda: batches(*records, undoing))
    state.seal()
    left = [record for record in records if record.id not in ids and (session is None or record.by.session != session)]
    assert list_document(fold_records(left)) == list_document(state)


@given(records=HISTORIES, cut=st.integers(0, 15))
def test_reading_on_equals_reading_at_once(records: list[EventRecord], cut: int) -> None:
    """A state that was counted in the middle and continued is the whole."""
    state = fold_records(records[:cut])
    fold(scores_view(state.config), batches(*records[cut:]), state).seal()
    assert list_document(fold_records(records)) == list_document(state)


def test_every_scored_kind_can_be_undone() -> None:
    """Every kind that concerns a session can be undone."""
    assert set(KINDS) <= UNDOABLE


def make_greeting(score: float) -> Any:
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
        # Before the first day, and after the last, there is none.
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
        ([(make_greeting(80), "16"), (make_greeting(80), "17")], "17"),
        ([(make_greeting(80), "17"), (make_greeting(80), "16")], "17"),
        ([(make_greeting(80), "16"), (kinds.BenchmarkRecorded("ac02", "", 1, 1), "18")], "18"),
        # With one, that; with several, as of a session that was resumed, the last.
        ([(make_greeting(80), "16"), (kinds.SessionEnded(""), "17"), (make_greeting(80), "18")], "17"),
        ([(make_greeting(80), "16"), (kinds.SessionEnded(""), "19"), (kinds.SessionEnded(""), "17")], "19"),
        # People judge later, and move nothing but what has no other time.
        ([(make_greeting(80), "16"), (kinds.FeedbackRecorded("ac01", 80, "", ""), "20")], "16"),
        ([(kinds.FeedbackRecorded("", 80, "", ""), "20"), (make_greeting(80), "16")], "16"),
    ],
)
def test_a_session_has_the_time_of_its_end(told: list[tuple[Any, str]], expected: str) -> None:
    """The end of a session, else its last measurement, gives its day."""
    state = fold_records(line(seq, event, at=f"2026-01-{day}T12:00:00") for seq, (event, day) in enumerate(told, 1))
    assert [f"2026-01-{expected}"] == list(state.days)


# Trends, forecasts, regressions and gates of scores.


KEYS = ("direction", "delta", "delta_percent", "current_avg", "previous_avg")
WEEK = [82, 84, 83, 85, 87, 86, 88]
"""The data of the document's example: 595 in all, 85 on average."""


@pytest.mark.parametrize(
    ("series", "days", "expected"),
    [
        # The document's figures: ten days of 828 points in all, then ten of 863; 3.5 / 82.8 is 0.04227.
        ([82] * 2 + [83] * 8 + [86] * 7 + [87] * 3, 10, ("improving", 3.5, 4.2, 86.3, 82.8)),
        pytest.param([80, 80], 1, ("stable", 0.0, 0.0, 80.0, 80.0), id="stable"),
        pytest.param([1, 99, 40, 60, 55, 45], 2, ("stable", 0.0, 0.0, 50.0, 50.0), id="two days count"),
        pytest.param([70, 80, 90, *WEEK], 7, ("improving", 5.0, 6.3, 85.0, 80.0), id="three days before"),
        pytest.param([82, 82, 82, 83] + [80] * 4, 4, ("declining", -2.3, -2.7, 80.0, 82.3), id="2.25 down"),
        pytest.param([1, 1.15], 1, ("improving", 0.2, 15.0, 1.2, 1.0), id="a float has its shown value"),
        pytest.param([80] * 59 + [81], 30, ("improving", 0.0, 0.0, 80.0, 80.0), id="less than a tenth"),
    ],
)
def test_a_trend(series: list[float], days: int, expected: tuple[Any, ...]) -> None:
    """The last days are compared with as many before them, or with the existing ones; halves round away from zero.

    8 / 88 is 9.09 %, 5 / 80 is 6.25 % and shows as 6.3, 2.25 / 80 is 2.81 %, 2.25 / 82.25 is
    2.74 %; 1.15 - 1 is 0.15 and shows as 0.2, though as floats it is a little less; a thirtieth of a point is a rise
    that shows as 0.0.
    """
    assert dict(zip(KEYS, expected, strict=True)) == trend(series, days)


DAY = date(2026, 1, 5)


def daily(*scores: int) -> list[Level]:
    """Return a series with a score each day."""
    return [Level(str(DAY + timedelta(number)), score) for number, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(WEEK, (89, 0.75), id="the document"),
        pytest.param([80] * 21, (80, 0.95), id="constant: 21 / 22"),
        pytest.param(range(50, 80), (80, 0.97), id="linear: 30 / 31"),
        pytest.param([100] * 6 + [99], (99, 0.88), id="7 / 8"),
        pytest.param([0, 20, 40, 60, 80, 100, 100], (100, 0.75), id="never above 100: 6 / 8"),
    ],
)
def test_a_forecast_continues_the_last_days(values: list[int], expected: tuple[int, float]) -> None:
    """The line through the last seven days is continued by one, and tried on each earlier day."""
    assert dict(zip(("next_7_days", "confidence"), expected, strict=True)) == forecast(values)


def test_fewer_than_seven_days_have_no_forecast() -> None:
    """Six days are too few."""
    assert forecast(WEEK[1:]) is None


@given(st.lists(st.integers(0, 100), min_size=7, max_size=100))
def test_a_forecast_is_bounded(values: list[int]) -> None:
    """For any series the forecast is a score, and its confidence below certainty."""
    found = forecast(values) or {}
    assert 0 <= found["next_7_days"] <= 100
    assert 0 < found["confidence"] < 1


CONFIG = config(regressions={"points": 10, "least_sessions": 5, "turn": 6}, trends={"short_term_days": 2})


def make_score_history(score_id: str, *values: int, baseline: Baseline | None = None) -> ScoreHistory:
    """Return the history of a score, of sessions with the events 10, 20 and so on."""
    sessions = (Level(str(DAY), value, 100, place * 10) for place, value in enumerate(values, 1))
    return ScoreHistory(score_id, tuple(sessions), (), baseline)


@pytest.mark.parametrize(
    ("before", "bound"),
    [
        # Squares of 4, 0, 4 … : 8 + 8 of five values, by four: a variance of 4.
        pytest.param((78, 80, 82, 78, 82), 76, id="deviation 2"),
        pytest.param((80, 80, 80, 80, 80), 78, id="no deviation counts as 1"),
        pytest.param((80, 81, 80, 81, 80), 78.4, id="less than 1 does too"),
    ],
)
def test_a_drop_below_the_history(before: tuple[int, ...], bound: float) -> None:
    """Two deviations below the mean are allowed, and a lower score is a regression."""
    below = int(bound) - (bound == int(bound))
    (reason,) = regressions(make_score_history("ac06", *before, below), CONFIG)
    assert ("z-score", "ac06", below, bound) == reason[:4]
    assert f"ac06 is {below} on 2026-01-05: below {number(bound)} (z-score)" == reason.text
    assert [] == list(regressions(make_score_history("ac06", *before, below + 1), CONFIG))


@pytest.mark.parametrize("values", [(70, 70, 80, 80, 74, 74), (80, 80, 80, 80, 74, 74)])
def test_a_trend_that_turned(values: tuple[int, ...]) -> None:
    """By windows of two days: 80 was no less than the days before, and 74 is 6 less than 80; 75 is only 5 less."""
    turned = make_score_history("ac06", 74)._replace(days=daily(*values))
    (reason,) = regressions(turned, CONFIG)
    assert ("trend", "ac06", 74.0, 80.0) == reason[:4]
    assert "ac06 is 74 on 2026-01-05: below 80 (trend)" == reason.text
    assert [] == list(regressions(turned._replace(days=daily(*values[:-2], 75, 75)), CONFIG))


CONFIG_GATES = config(regressions={"points": 10, "least_sessions": 5, "turn": 1})
ANY_GATE = GateQuery()


@pytest.mark.parametrize(
    ("known", "query", "rule"),
    [
        (make_score_history("ac05", 49), ANY_GATE, "critical"),
        (make_score_history("ac05", 89), GateQuery(minimum=90), "min"),
        (make_score_history("ac05", 90, 80), GateQuery(greatest_drop=5), "no-drop"),
        (make_score_history("ac05", 90, 80, baseline=Baseline(95, 15, DAY)), ANY_GATE, "baseline"),
    ],
)
def test_a_session_measured_too_little_opens_no_closed_gate(known: ScoreHistory, query: GateQuery, rule: str) -> None:
    """What the session before it closed stays closed, and the score is named."""
    later = known._replace(partial=Level("", 100, 5, 1000))
    for condition in (query, query._replace(allow_no_data=True)):
        answer = gate([make_score_history("ac06", 90), later], CONFIG_GATES, condition)
        assert (False, [rule]) == (answer.open, [reason.rule for reason in answer.reasons if reason.closes])
        assert "ac05: not enough measured (5 %)" in [reason.text for reason in answer.reasons]


@st.composite
def histories(draw: st.DrawFn, score_id: str) -> ScoreHistory:
    """Return any history of a score."""
    values = draw(st.lists(st.integers(0, 100), max_size=12))
    days = draw(st.lists(st.integers(0, 100), max_size=30))
    told = make_score_history(score_id, *values)
    seq = draw(st.none() | st.integers(1, 130))
    baseline = None if seq is None else Baseline(draw(st.floats(0, 100)), seq, DAY + timedelta(seq // 10))
    return told._replace(days=daily(*days), baseline=baseline)


@given(histories("ac05"), histories("ac06"), st.sampled_from([None, "ac05", "ac06", "ac07"]), PERCENTS, PERCENTS)
def test_a_further_condition_never_opens_a_gate(
    history: ScoreHistory, other: ScoreHistory, name: str | None, minimum: int | None, drop: int | None
) -> None:
    """A gate is open exactly if no reason closes it, and a closed one stays closed under any further condition."""
    plain = gate([history, other], CONFIG_GATES, GateQuery(name))
    query = gate([history, other], CONFIG_GATES, GateQuery(name, minimum, drop))
    assert query.open == (not any(reason.closes for reason in query.reasons))
    assert plain.open or not query.open
    assert set(plain.reasons) <= set(query.reasons)
