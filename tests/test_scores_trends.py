"""Trends, forecasts, regressions and gates of scores."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.score_histories import config
from tallybook.projections.scores.scoring import Level, number, trend
from tallybook.projections.scores.trends import Gate, GateQuery, ScoreHistory, forecast, gate, regressions
from tallybook.projections.scores.view import Baseline

KEYS = ("direction", "delta", "delta_percent", "current_avg", "previous_avg")


def compared(*values: Any) -> dict[str, Any]:
    """Return a trend of these values."""
    return dict(zip(KEYS, values, strict=True))


WEEK = [82, 84, 83, 85, 87, 86, 88]
"""The data of the document's example: 595 in all, 85 on average."""


def test_the_figures_of_the_document() -> None:
    """Averages of 82.8 and 86.3 differ by 3.5, 4.2 % of the first: 3.5 / 82.8 is 0.04227.

    Ten days of 828 points in all, then ten of 863.
    """
    series = [82] * 2 + [83] * 8 + [86] * 7 + [87] * 3
    assert compared("improving", 3.5, 4.2, 86.3, 82.8) == trend(series, 10)


@pytest.mark.parametrize(
    ("series", "days", "expected"),
    [
        pytest.param([80, 80], 1, compared("stable", 0.0, 0.0, 80.0, 80.0), id="stable"),
        pytest.param([1, 99, 40, 60, 55, 45], 2, compared("stable", 0.0, 0.0, 50.0, 50.0), id="two days count"),
        pytest.param([70, 80, 90, *WEEK], 7, compared("improving", 5.0, 6.3, 85.0, 80.0), id="three days before"),
        pytest.param([82, 82, 82, 83] + [80] * 4, 4, compared("declining", -2.3, -2.7, 80.0, 82.3), id="2.25 down"),
        pytest.param([1, 1.15], 1, compared("improving", 0.2, 15.0, 1.2, 1.0), id="a float has its shown value"),
        pytest.param([80] * 59 + [81], 30, compared("improving", 0.0, 0.0, 80.0, 80.0), id="less than a tenth"),
    ],
)
def test_a_trend(series: list[float], days: int, expected: dict[str, Any]) -> None:
    """The last days are compared with as many before them, or with the existing ones; halves round away from zero.

    8 / 88 is 9.09 %, 5 / 80 is 6.25 % and shows as 6.3, 2.25 / 80 is 2.81 %, 2.25 / 82.25 is
    2.74 %; 1.15 - 1 is 0.15 and shows as 0.2, though as floats it is a little less; a thirtieth of a point is a rise
    that shows as 0.0.
    """
    assert expected == trend(series, days)


BEGIN = date(2026, 1, 5)
Series = list[Level]


def daily(*scores: int, every: int = 1, begin: date = BEGIN) -> Series:
    """Return a series with a score each ``every`` days."""
    return [Level(str(begin + timedelta(number * every)), score) for number, score in enumerate(scores)]


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


DAY = date(2026, 1, 5)
CONFIG = config(regressions={"points": 10, "least_sessions": 5, "turn": 6}, trends={"short_term_days": 2})


def scored_history(score_id: str, *values: int, baseline: Baseline | None = None) -> ScoreHistory:
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
    (reason,) = regressions(scored_history("ac06", *before, below), CONFIG)
    assert ("z-score", "ac06", below, bound) == reason[:4]
    assert f"ac06 is {below} on 2026-01-05: below {number(bound)} (z-score)" == reason.text
    assert [] == list(regressions(scored_history("ac06", *before, below + 1), CONFIG))


@pytest.mark.parametrize("values", [(70, 70, 80, 80, 74, 74), (80, 80, 80, 80, 74, 74)])
def test_a_trend_that_turned(values: tuple[int, ...]) -> None:
    """By windows of two days: 80 was no less than the days before, and 74 is 6 less than 80; 75 is only 5 less."""
    turned = scored_history("ac06", 74)
    turned = turned._replace(days=daily(*values))
    (reason,) = regressions(turned, CONFIG)
    assert ("trend", "ac06", 74.0, 80.0) == reason[:4]
    assert "ac06 is 74 on 2026-01-05: below 80 (trend)" == reason.text
    assert [] == list(regressions(turned._replace(days=daily(*values[:-2], 75, 75)), CONFIG))


CONFIG_GATES = config(regressions={"points": 10, "least_sessions": 5, "turn": 1})
ANY = GateQuery()


def texts(answer: Gate) -> list[str]:
    """Return the sentences of an answer."""
    return [reason.text for reason in answer.reasons]


def partial(known: ScoreHistory, measured: int, value: int = 90) -> ScoreHistory:
    """Return a history with a later session that measured too little of the score, so many percent."""
    return known._replace(partial=Level("", value, measured, 1000))


@pytest.mark.parametrize(
    ("known", "query", "rule"),
    [
        (scored_history("ac05", 49), ANY, "critical"),
        (scored_history("ac05", 89), GateQuery(minimum=90), "min"),
        (scored_history("ac05", 90, 80), GateQuery(greatest_drop=5), "no-drop"),
        (scored_history("ac05", 90, 80, baseline=Baseline(95, 15, DAY)), ANY, "baseline"),
    ],
)
def test_a_session_measured_too_little_opens_no_closed_gate(known: ScoreHistory, query: GateQuery, rule: str) -> None:
    """What the session before it closed stays closed, and the score is named."""
    for condition in (query, query._replace(allow_no_data=True)):
        answer = gate([scored_history("ac06", 90), partial(known, 5, 100)], CONFIG_GATES, condition)
        assert (False, [rule]) == (answer.open, [reason.rule for reason in answer.reasons if reason.closes])
        assert "ac05: not enough measured (5 %)" in texts(answer)


@st.composite
def histories(draw: st.DrawFn, score_id: str) -> ScoreHistory:
    """Return any history of a score."""
    values = draw(st.lists(st.integers(0, 100), max_size=12))
    days = draw(st.lists(st.integers(0, 100), max_size=30))
    told = scored_history(score_id, *values)
    seq = draw(st.none() | st.integers(1, 130))
    baseline = None if seq is None else Baseline(draw(st.floats(0, 100)), seq, DAY + timedelta(seq // 10))
    return told._replace(days=daily(*days), baseline=baseline)


@given(
    histories("ac05"),
    histories("ac06"),
    st.sampled_from([None, "ac05", "ac06", "ac07"]),
    st.none() | st.integers(0, 100),
    st.none() | st.integers(0, 100),
)
def test_a_further_condition_never_opens_a_gate(
    one: ScoreHistory, other: ScoreHistory, name: str | None, minimum: int | None, drop: int | None
) -> None:
    """A gate is open exactly if no reason closes it, and a closed one stays closed under any further condition."""
    plain = gate([one, other], CONFIG_GATES, GateQuery(name))
    query = gate([one, other], CONFIG_GATES, GateQuery(name, minimum, drop))
    assert query.open == (not any(reason.closes for reason in query.reasons))
    assert plain.open or not query.open
    assert set(plain.reasons) <= set(query.reasons)
