"""How much of a score's weight was measured: of components, composites and days."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.score_examples import config, folded, noon, plain
from helpers.score_histories import config_of, metrics, session_of
from tallybook.ledger.events import BenchmarkRecorded, FeedbackRecorded
from tallybook.projections.scores.measures import percent
from tallybook.projections.scores.reports.summary import current_scores, summary
from tallybook.projections.scores.scoring import covered

if TYPE_CHECKING:
    from typing import Any

ALL = {"thoroughness": 80, "accuracy": 80, "actionability": 80}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        # AC-03 is all there is: half of effectiveness, which weighs 0.35.
        ([metrics("ac03", **ALL)], {"ac03": 1, "session.effectiveness": 0.5, "session.overall": 0.175}),
        # AC-01 without its context and its greeting, which weigh 0.2 each: 0.3 of efficiency, which weighs 0.20.
        (
            [metrics("ac01", startup_ms=5000, orientation_done=True)],
            {"ac01": 0.6, "session.efficiency": 0.3, "session.overall": 0.06},
        ),
        # What stands in for a review that nobody made, 0.20 of AC-02, was not measured.
        (
            [metrics("ac02", completed=1, total=1, avg_iterations=1, drift_events=0)],
            {"ac02": 0.8, "session.effectiveness": 0.4, "session.overall": 0.14},
        ),
        # A benchmark weighs a quarter of all metrics: 0.25 of 1.25.
        (
            [BenchmarkRecorded("ac09", "", 1, 1)],
            {"ac09": 0.2, "session.handoff": 0.2, "session.overall": 0.04},
        ),
        # Feedback measures nothing.
        (
            [
                metrics("ac09", completeness=80),
                FeedbackRecorded("ac09", 0, "", ""),
                FeedbackRecorded("ac03", 0, "", ""),
            ],
            {"ac09": 1 / 3, "session.handoff": 1 / 3, "session.overall": 1 / 15},
        ),
    ],
)
def test_the_share_of_the_weight_that_was_measured(events: list[Any], expected: dict[str, float]) -> None:
    """For a component it uses the metrics' weights, for a composite its components', overall the composites'."""
    scores, shares = covered(session_of(*events), config_of())
    assert list(scores) == list(shares)
    assert pytest.approx(expected) == shares


def test_a_composite_without_its_components_is_none() -> None:
    """Without AC-09 there is no handoff: all of AC-03 is half of 0.35 of 0.80."""
    shares = covered(session_of(metrics("ac03", **ALL)), config_of("components: {ac09: false}"))[1]
    assert pytest.approx({"ac03": 1, "session.effectiveness": 0.5, "session.overall": 0.175 / 0.8}) == shares


@pytest.mark.parametrize(
    ("share", "expected"), [(0, 0), (0.0001, 1), (0.004, 1), (0.175, 18), (0.85, 85), (0.9999, 99), (1, 100)]
)
def test_only_a_full_share_is_a_hundred_percent(share: float, expected: int) -> None:
    """And only an empty one is 0."""
    assert expected == percent(share)


@given(st.floats(0, 1))
def test_a_share_is_a_percentage_within_a_point(share: float) -> None:
    """It is from 0 to 100, for any share."""
    assert abs(percent(share) - share * 100) <= 1


def test_the_coverage_of_a_day_is_its_sessions_average() -> None:
    """One session with all three metrics and one with one of them, 33 %: 66.5, which is 67."""
    one = {"ac03": {"thoroughness": 80}}
    sessions = (("a", noon("2026-01-16"), plain(80, "ac03"), ""), ("b", noon("2026-01-16"), one, ""))
    state = folded(config(), *sessions)
    assert 67 == current_scores(state)["ac03"].measured
    assert 0.67 == summary(state)["coverage"]["ac03"]
    assert 0 == current_scores(state)["ac01"].measured
    assert "ac01" not in summary(state)["coverage"]
