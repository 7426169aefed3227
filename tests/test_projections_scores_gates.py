"""Gates: each rule alone, in its sentence; missing data; and that further conditions never open one."""

from __future__ import annotations

from datetime import date, timedelta

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.score_examples import config
from tallybook.projections.scores.trends.gates import Gate, GateQuery, Reason, gate
from tallybook.projections.scores.trends.regressions import History, Scored
from tallybook.projections.scores.view import Baseline

DAY = date(2026, 1, 5)
CONFIG = config(regressions={"points": 10, "least_sessions": 5, "turn": 1})
AC06 = GateQuery("ac06")
ANY = GateQuery()


def history(score_id: str, *values: int, baseline: Baseline | None = None) -> History:
    """Return the history of a score, of sessions with the events 10, 20 and so on."""
    sessions = (Scored(f"s{place}", value, place * 10) for place, value in enumerate(values, 1))
    return History(score_id, tuple(sessions), (), baseline)


def texts(answer: Gate) -> list[str]:
    """Return the sentences of an answer."""
    return [reason.text for reason in answer.reasons]


def test_an_open_gate_has_no_sentence() -> None:
    """A score at the bound may evolve."""
    assert Gate(open=True, reasons=()) == gate([history("ac06", 70)], CONFIG, AC06)


def test_a_low_score_blocks_its_own_evolution() -> None:
    """With 69 a component may not evolve, and that does not block others ("With Evolution Gates")."""
    histories = [history("ac05", 85), history("ac06", 69)]
    text = "ac06 is 69, below 70, the least with which it may evolve"
    assert Gate(open=False, reasons=(Reason("own score", "ac06", 69, 70, text),)) == gate(histories, CONFIG, AC06)
    assert gate(histories, CONFIG, GateQuery("ac05")).open
    assert gate(histories, CONFIG, ANY).open


@pytest.mark.parametrize("query", [ANY, GateQuery("ac05")])
def test_a_critical_score_blocks_all(query: GateQuery) -> None:
    """With 49 a component blocks every evolution, named or not; with 50 it does not."""
    text = "ac06 is 49, below 50: critical, which blocks all"
    closed = gate([history("ac05", 85), history("ac06", 49)], CONFIG, query)
    assert Gate(open=False, reasons=(Reason("critical", "ac06", 49, 50, text),)) == closed
    assert gate([history("ac05", 85), history("ac06", 50)], CONFIG, query).open


def test_a_critical_score_of_its_own_is_reported_twice() -> None:
    """Both rules hold then, the one that blocks all first."""
    answer = gate([history("ac06", 49)], CONFIG, AC06)
    assert ["critical", "own score"] == [reason.rule for reason in answer.reasons]


def test_a_regression_blocks_until_acknowledged() -> None:
    """74 is more than 10 below 85; a later baseline opens the gate, an earlier one does not."""
    dropped = history("ac06", 86, 74, baseline=Baseline(85, 15, DAY))
    text = "ac06 is 74, more than 10 points below its baseline of 85; not acknowledged"
    expected = Gate(open=False, reasons=(Reason("baseline", "ac06", 74, 75, text),))
    assert [expected, expected] == [gate([dropped], CONFIG, AC06), gate([dropped], CONFIG, ANY)]
    assert gate([attrs.evolve(dropped, baseline=Baseline(74, 25, DAY))], CONFIG, AC06).open
    assert gate([dropped, history("ac05", 80)], CONFIG, GateQuery("ac05")).open


def test_a_gate_uses_the_latest_session() -> None:
    """An earlier critical score does not matter once a later session scores high."""
    assert gate([history("ac06", 10, 90)], CONFIG, AC06).open


def test_a_minimum_closes_each_lower_score() -> None:
    """With a minimum of 90 each requested score that is lower closes the gate; without a name that is every one."""
    histories = [history("ac05", 85), history("ac06", 90), history("session.overall", 89)]
    answer = gate(histories, CONFIG, GateQuery(minimum=90))
    assert not answer.open
    assert [
        "ac05 is 85, below 90, the minimum that was asked for",
        "session.overall is 89, below 90, the minimum that was asked for",
    ] == texts(answer)
    assert gate(histories, CONFIG, GateQuery("ac06", minimum=90)).open
    assert not gate(histories, CONFIG, GateQuery("session.overall", minimum=90)).open


def test_a_minimum_does_not_lower_the_bound() -> None:
    """With a minimum of 50, a component of 65 still may not evolve."""
    assert ["own score"] == [
        one.rule for one in gate([history("ac06", 65)], CONFIG, GateQuery("ac06", minimum=50)).reasons
    ]


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (
            history("ac06", 70, 82, baseline=Baseline(87.5, 5, DAY)),
            "ac06 is 82, 5.5 points below its baseline, 87.5, and no more than 5 are allowed",
        ),
        (
            history("ac06", 88, 82),
            "ac06 is 82, 6 points below the session before, 88, and no more than 5 are allowed",
        ),
    ],
)
def test_a_drop_that_is_too_great(told: History, text: str) -> None:
    """No more than 5 below the baseline, and only without one below the session before."""
    answer = gate([told], CONFIG, GateQuery("ac06", greatest_drop=5))
    assert (False, [text]) == (answer.open, texts(answer))
    assert gate([told], CONFIG, GateQuery("ac06", greatest_drop=6)).open


def test_a_first_score_has_no_drop() -> None:
    """Without a baseline and an earlier session the gate is open, and reports that nothing was compared."""
    answer = gate([history("ac05", 75), history("ac06", 75)], CONFIG, GateQuery(greatest_drop=0))
    text = "ac05, ac06: a first score, with nothing that it could have dropped from"
    assert Gate(open=True, reasons=(Reason("no-drop", "", None, None, text, closes=False),)) == answer


@pytest.mark.parametrize("histories", [[history("ac06")], []])
def test_a_name_without_data_closes(histories: list[History]) -> None:
    """A gate for a component without a score is closed, whether the component is known or not."""
    text = "ac06: no data, no session has scored it yet"
    assert Gate(open=False, reasons=(Reason("no data", "ac06", None, None, text),)) == gate(histories, CONFIG, AC06)


def test_other_scores_without_data_are_reported() -> None:
    """Without a name, scores without data close nothing, not even with a minimum; one line names them."""
    histories = [history("ac05"), history("ac06", 90), history("ac07")]
    answer = gate(histories, CONFIG, GateQuery(minimum=80))
    assert (True, ["ac05, ac07: no data, no session has scored it yet"]) == (answer.open, texts(answer))
    assert gate(histories, CONFIG, AC06) == Gate(open=True, reasons=())


def test_a_gate_without_any_data_is_closed() -> None:
    """If no score has data the gate is closed, whatever the conditions, unless the caller allows that."""
    empty = [history("ac06"), history("session.overall")]
    assert [False, False] == [gate(empty, CONFIG, query).open for query in (ANY, GateQuery(minimum=80))]
    allowed = gate(empty, CONFIG, GateQuery(allow_no_data=True))
    assert (True, ["ac06, session.overall: no data, no session has scored it yet"]) == (allowed.open, texts(allowed))
    assert gate(empty, CONFIG, attrs.evolve(AC06, allow_no_data=True)).open


def partial(known: History, measured: int, value: int = 90) -> History:
    """Return a history with a later session that measured too little of the score, so many percent."""
    return attrs.evolve(known, partial=Scored("last", value, 1000, measured))


@pytest.mark.parametrize("score_id", ["ac06", "session.handoff", "session.overall"])
@pytest.mark.parametrize("value", [0, 90])
def test_a_score_measured_too_little_is_named_and_opens_no_gate(score_id: str, value: int) -> None:
    """A score with low coverage counts as no data, whatever its value: its gate is closed unless that is allowed."""
    text = f"{score_id}: not enough measured (19 %)"
    expected = Gate(open=False, reasons=(Reason("not enough measured", score_id, value, None, text),))
    for query in (ANY, GateQuery(score_id), GateQuery(minimum=50), GateQuery(greatest_drop=1)):
        assert expected == gate([partial(history(score_id), 19, value)], CONFIG, query)
        allowed = gate([partial(history(score_id), 19, value)], CONFIG, attrs.evolve(query, allow_no_data=True))
        assert (True, [text]) == (allowed.open, texts(allowed))


def test_a_score_measured_too_little_is_named_next_to_others() -> None:
    """If another score has data, the gate is open and names the one that was measured too little."""
    answer = gate([history("ac06", 90), partial(history("ac05"), 3, 0)], CONFIG, ANY)
    assert (True, ["ac05: not enough measured (3 %)"]) == (answer.open, texts(answer))


@pytest.mark.parametrize(
    ("known", "query", "rule"),
    [
        (history("ac05", 49), ANY, "critical"),
        (history("ac05", 89), GateQuery(minimum=90), "min"),
        (history("ac05", 90, 80), GateQuery(greatest_drop=5), "no-drop"),
        (history("ac05", 90, 80, baseline=Baseline(95, 15, DAY)), ANY, "baseline"),
    ],
)
def test_a_session_measured_too_little_opens_no_closed_gate(known: History, query: GateQuery, rule: str) -> None:
    """What the session before it closed stays closed, and the score is named."""
    for one in (query, attrs.evolve(query, allow_no_data=True)):
        answer = gate([history("ac06", 90), partial(known, 5, 100)], CONFIG, one)
        assert (False, [rule]) == (answer.open, [reason.rule for reason in answer.reasons if reason.closes])
        assert "ac05: not enough measured (5 %)" in texts(answer)


def test_closing_reasons_come_first() -> None:
    """Mere information follows the reasons that close the gate."""
    answer = gate([history("ac05", 75), history("ac06", 90, 80), history("ac07")], CONFIG, GateQuery(greatest_drop=5))
    assert [("no-drop", True), ("no-drop", False), ("no data", False)] == [
        (one.rule, one.closes) for one in answer.reasons
    ]


@st.composite
def histories(draw: st.DrawFn, score_id: str) -> History:
    """Return any history of a score."""
    values = draw(st.lists(st.integers(0, 100), max_size=12))
    days = draw(st.lists(st.integers(0, 100), max_size=30))
    told = history(score_id, *values)
    series = tuple((DAY + timedelta(place), value) for place, value in enumerate(days))
    seq = draw(st.none() | st.integers(1, 130))
    baseline = None if seq is None else Baseline(draw(st.floats(0, 100)), seq, DAY + timedelta(seq // 10))
    return attrs.evolve(told, days=series, baseline=baseline)


@given(
    histories("ac05"),
    histories("ac06"),
    st.sampled_from([None, "ac05", "ac06", "ac07"]),
    st.none() | st.integers(0, 100),
    st.none() | st.integers(0, 100),
)
def test_a_further_condition_never_opens_a_gate(
    one: History, other: History, name: str | None, minimum: int | None, drop: int | None
) -> None:
    """A gate is open exactly if no reason closes it, and a closed one stays closed under any further condition."""
    plain = gate([one, other], CONFIG, GateQuery(name))
    query = gate([one, other], CONFIG, GateQuery(name, minimum, drop))
    assert query.open == (not any(reason.closes for reason in query.reasons))
    assert plain.open or not query.open
    assert set(plain.reasons) <= set(query.reasons)
