"""Gates: each rule alone, in its sentence; missing data; and that further conditions never open one."""

from __future__ import annotations

from datetime import date, timedelta

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.score_examples import config
from tallybook.projections.scores.trends import Gate, GateQuery, History, Scored, gate
from tallybook.projections.scores.view import Baseline

DAY = date(2026, 1, 5)
CONFIG = config(regressions={"points": 10, "least_sessions": 5, "turn": 1})
ANY = GateQuery()


def history(score_id: str, *values: int, baseline: Baseline | None = None) -> History:
    """Return the history of a score, of sessions with the events 10, 20 and so on."""
    sessions = (Scored(f"s{place}", value, place * 10) for place, value in enumerate(values, 1))
    return History(score_id, tuple(sessions), (), baseline)


def texts(answer: Gate) -> list[str]:
    """Return the sentences of an answer."""
    return [reason.text for reason in answer.reasons]


def partial(known: History, measured: int, value: int = 90) -> History:
    """Return a history with a later session that measured too little of the score, so many percent."""
    return attrs.evolve(known, partial=Scored("last", value, 1000, measured))


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
