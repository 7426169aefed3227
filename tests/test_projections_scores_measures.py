"""The forms of a metric, and how points are averaged and rounded; values worked out by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from tallybook.projections.scores.config import Metric
from tallybook.projections.scores.scoring import half_up, points, weighted

STARTUP = Metric("startup_time", "inverse", "startup_ms", worst=30_000, best=5_000)
GREETING = Metric("greeting", "linear", "greeting_score", worst=20, best=60)
DONE = Metric("orientation", "boolean", "done")
RATE = Metric("rate", "ratio", "won", per="played")
DRIFT = Metric("drift", "ratio", "won", per="played", empty=100)
REST = Metric("kept", "ratio", "lost", per="played", empty=40, rest=True)
STEPS = Metric("steps", "inverse", "avg_steps", counts=("steps", "tasks"), worst=10, best=1)


@pytest.mark.parametrize(
    ("metric", "measured", "expected"),
    [
        # scoreInverse(startup_ms, 5000, 30000): 25,000 ms between none and all.
        (STARTUP, {"startup_ms": 5_000}, 100),
        (STARTUP, {"startup_ms": 30_000}, 0),
        (STARTUP, {"startup_ms": 10_000}, 80),
        (STARTUP, {"startup_ms": 17_500}, 50),
        (STARTUP, {"startup_ms": 4_999}, 100),
        (STARTUP, {"startup_ms": 0}, 100),
        (STARTUP, {"startup_ms": -7}, 100),
        (STARTUP, {"startup_ms": 30_001}, 0),
        (STARTUP, {}, None),
        (STARTUP, {"startup_time": 5_000}, None),
        # From 20 to 60: 40 between none and all.
        (GREETING, {"greeting_score": 20}, 0),
        (GREETING, {"greeting_score": 30}, 25),
        (GREETING, {"greeting_score": 60}, 100),
        (GREETING, {"greeting_score": 19}, 0),
        (GREETING, {"greeting_score": 61}, 100),
        # As a share: 2 of 5 are 40 percent, half way; 9 of 10 are beyond the best.
        (GREETING, {"greeting_score_count": 2, "greeting_score_total": 5}, 50),
        (GREETING, {"greeting_score_count": 9, "greeting_score_total": 10}, 100),
        (GREETING, {"greeting_score_total": 5}, None),
        (GREETING, {"greeting_score_count": 2, "greeting_score_total": 0}, None),
        (GREETING, {"greeting_score_count": 2}, None),
        (GREETING, {"greeting_score": 30, "greeting_score_count": 5, "greeting_score_total": 5}, 25),
        (DONE, {"done": True}, 100),
        (DONE, {"done": False}, 0),
        (DONE, {"done": 1}, 100),
        (DONE, {"done": 0}, 0),
        (DONE, {"done": 0.5}, 100),
        (DONE, {"done_count": 3, "done_total": 4}, 75),
        (DONE, {"done_count": 5, "done_total": 4}, 100),
        (DONE, {"done_count": -1, "done_total": 4}, 0),
        (DONE, {"done_count": 3, "done_total": 0}, None),
        (DONE, {"done": False, "done_count": 3, "done_total": 4}, 0),
        (DONE, {}, None),
        (RATE, {"won": 8, "played": 10}, 80),
        (RATE, {"won": 0, "played": 10}, 0),
        (RATE, {"won": 12, "played": 10}, 100),
        (RATE, {"won": 1, "played": 1}, 100),
        (RATE, {"won": 0.25, "played": 0.5}, 50),
        (RATE, {"won": -2, "played": 10}, 0),
        (RATE, {"played": 10}, None),
        (RATE, {"won": 8}, None),
        (RATE, {"won": 8, "played": 0}, None),
        (RATE, {"won": 8, "played": -1}, None),
        (RATE, {"won_count": 1, "won_total": 8}, 12.5),
        (RATE, {"won_count": 9, "won_total": 8}, 100),
        (RATE, {"won_count": 0, "won_total": 0}, None),
        (RATE, {"won": 8, "played": 10, "won_count": 1, "won_total": 8}, 80),
        (DRIFT, {"won": 0, "played": 0}, 100),
        (DRIFT, {"played": 0}, 100),
        (DRIFT, {"won_count": 0, "won_total": 0}, 100),
        (DRIFT, {"won": 3, "played": 4}, 75),
        (DRIFT, {"won": 3}, None),
        (DRIFT, {}, None),
        (REST, {"lost": 1, "played": 4}, 75),
        (REST, {"played": 4}, None),
        (REST, {"lost": 5, "played": 4}, 0),
        (REST, {"lost": -1, "played": 4}, 100),
        (REST, {"lost": 0, "played": 0}, 40),
        (REST, {"lost_count": 1, "lost_total": 4}, 75),
        (REST, {"lost_count": 5, "lost_total": 4}, 0),
        (STEPS, {"avg_steps": 1}, 100),
        (STEPS, {"avg_steps": 3.7}, 70),
        (STEPS, {"avg_steps": 5.5}, 50),
        # 11 steps in 2 tasks are 5.5 on average; what was measured itself comes first.
        (STEPS, {"steps": 11, "tasks": 2}, 50),
        (STEPS, {"avg_steps": 10, "steps": 11, "tasks": 2}, 0),
        (STEPS, {"tasks": 2}, None),
        (STEPS, {"steps": 11}, None),
        (STEPS, {"steps": 11, "tasks": 0}, None),
    ],
)
def test_each_form_gives_its_points(metric: Metric, measured: dict[str, float], expected: float) -> None:
    """Every form gives its points between worst and best, clamped beyond, and none without a measurement."""
    assert pytest.approx(expected, abs=1e-9) == points(metric, measured)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(89.5, 90), (89.49, 89), (0.5, 1), (0.49, 0), (99.5, 100), (100, 100), (0, 0), (31.499999999999996, 32), (2.5, 3)],
)
def test_halves_are_rounded_up(value: float, expected: int) -> None:
    """89.5 is 90, also if a sum of floats falls short of the half by its last bit; 2.5 is 3 and not the even 2."""
    assert expected == half_up(value)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.001, 100)), min_size=1))
def test_an_average_is_within_its_parts(parts: list[tuple[float, float]]) -> None:
    """No weights move an average beyond the least or the greatest of its parts."""
    average = weighted(parts)
    assert average is not None
    assert min(one for one, _ in parts) - 1e-9 <= average <= max(one for one, _ in parts) + 1e-9
