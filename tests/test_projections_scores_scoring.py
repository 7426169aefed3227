"""Scores of components and sessions, by "Scoring Algorithms" of the specification; values worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.score_histories import LINEAR, config_of, metrics, scored, session_of, value_of
from tallybook.ledger.events import BenchmarkRecorded, FeedbackRecorded
from tallybook.projections.scores.scoring import component_score, composites, scores

EXAMPLE = dict(zip([f"ac0{n}" for n in range(1, 10)], (92, 88, 85, 95, 78, 82, 75, 90, 94), strict=True))


def made(values: dict[str, int], own: str = "", feedback: float | None = None) -> list[int | None]:
    """Return efficiency, effectiveness, improvement, handoff and overall of components' scores."""
    found = composites(values, config_of(own), feedback)
    names = ("efficiency", "effectiveness", "improvement", "handoff", "overall")
    return [found.get(f"session.{name}") for name in names]


# The three formulas


def test_ac01_by_its_formula() -> None:
    """10,000 ms are 80, 25 % are 50: 80 * 0.3 + 50 * 0.2 + 90 * 0.2 + 100 * 0.3 = 24 + 10 + 18 + 30 = 82."""
    assert 82 == value_of("ac01", startup_ms=10_000, context_percent=25, greeting_score=90, orientation_done=True)


def test_ac02_by_its_formula() -> None:
    """80 * 0.35 + 70 * 0.25 + 75 * 0.2 + 90 * 0.2 = 28 + 17.5 + 15 + 18 = 78.5, rounded up to 79."""
    values = {"completed": 8, "total": 10, "avg_iterations": 3.7, "drift_events": 4, "drift_corrected": 3}
    assert 79 == value_of("ac02", **values, review_score=90)


def test_ac06_by_its_formula() -> None:
    """75 * 0.4 + 90 * 0.25 + (100 - 25) * 0.2 + 60 * 0.15 = 30 + 22.5 + 15 + 9 = 76.5, rounded up to 77."""
    values = {"implemented": 4, "successful": 3, "validated": 9, "total": 10, "rollbacks": 1}
    assert 77 == value_of("ac06", **values, processed=3, target=5)


@pytest.mark.parametrize("component", LINEAR)
def test_the_six_others_weigh_their_three_measures_equally(component: str) -> None:
    """(60 + 70 + 81) / 3 = 70.33, and with a pair of counts for one of them (60 + 70 + 75) / 3 = 68.33."""
    one, two, three = LINEAR[component]
    assert 70 == value_of(component, **{one: 60, two: 70, three: 81})
    assert 68 == value_of(component, **{one: 60, two: 70, f"{three}_count": 3, f"{three}_total": 4})


@pytest.mark.parametrize(
    ("component", "values", "expected", "coverage"),
    [
        ("ac01", {"startup_ms": 17_500}, 50, 0.3),
        ("ac01", {"context_percent": 19}, 70, 0.2),
        ("ac01", {"greeting_score": 33}, 33, 0.2),
        ("ac01", {"orientation_done": True}, 100, 0.3),
        # Quality, not measured, stands in with 80: (50 * 0.35 + 80 * 0.2) / 0.55 = 60.9, and so on.
        ("ac02", {"completed": 5, "total": 10}, 61, 0.35),
        ("ac02", {"avg_iterations": 10}, 36, 0.25),
        ("ac02", {"iterations": 20, "total": 2, "completed": 2}, 64, 0.6),
        ("ac02", {"drift_events": 2, "drift_corrected": 1}, 65, 0.2),
        ("ac02", {"review_score": 55}, 55, 0.2),
        ("ac06", {"implemented": 0}, 100, 0.4),
        ("ac06", {"validated": 3, "total": 4}, 75, 0.25),
        ("ac06", {"processed": 2, "target": 8}, 25, 0.15),
        # (50 * 0.4 + 75 * 0.2) / 0.6 = 58.3.
        ("ac06", {"implemented": 4, "successful": 2, "rollbacks": 1}, 58, 0.6),
        *((component, {names[0]: 41}, 41, 1 / 3) for component, names in LINEAR.items()),
        *((component, {names[1]: 42}, 42, 1 / 3) for component, names in LINEAR.items()),
        *((component, {names[2]: 43}, 43, 1 / 3) for component, names in LINEAR.items()),
    ],
)
def test_unmeasured_metrics_are_left_out(
    component: str, values: dict[str, float], expected: int, coverage: float
) -> None:
    """Weights are normalised over the measured metrics, and the coverage is their share of the weight."""
    found = scored(component, **values)
    assert found is not None
    assert expected == found.value
    assert pytest.approx(coverage) == found.coverage


@pytest.mark.parametrize(
    ("component", "values"),
    [
        *((f"ac0{n}", {}) for n in range(1, 10)),
        ("ac02", {"total": 0, "completed": 0}),
        ("ac06", {"total": 0, "validated": 0}),
        ("ac06", {"target": 0, "processed": 3}),
        ("ac06", {"rollbacks": 1}),
        ("ac03", {"thoroughness_count": 0, "thoroughness_total": 0}),
        ("ac03", {"speed": 99}),
    ],
)
def test_no_data_is_no_score(component: str, values: dict[str, float]) -> None:
    """Without a measurement, or with a whole of 0, there is no score: not 0, not 75, and no error."""
    assert scored(component, **values) is None


def test_a_review_of_0_stays_0() -> None:
    """35 + 25 + 20 + 0 * 0.2 = 80 for a review of 0; one that is missing counts 80: 35 + 25 + 20 + 16 = 96."""
    values = {"completed": 10, "total": 10, "avg_iterations": 1, "drift_events": 0}
    assert 80 == value_of("ac02", **values, review_score=0)
    assert 96 == value_of("ac02", **values)
    assert 0 == value_of("ac02", review_score=0)


# A user's own


def test_a_user_describes_components_of_their_own() -> None:
    """2 ms of 1 to 5 are 75, weighed 3; 1 of 4 failed and the rest counts, 75 too; with 1 ms (300 + 75) / 4 = 93.75."""
    own = """
    components:
      speed:
        counters: [failed, calls]
        metrics:
          latency: {form: inverse, of: ms, best: 1, worst: 5, weight: 3}
          errors: {form: ratio, of: failed, per: calls, rest: true}
    """
    assert 75 == value_of("speed", own, ms=2, failed=1, calls=4)
    assert 94 == value_of("speed", own, ms=1, failed=1, calls=4)
    assert "speed" in config_of(own).score_ids


# Benchmarks and feedback


def joined(*events: Any, own: str = "", component: str = "ac03") -> tuple[int, float] | None:
    """Return score and coverage of a component whose three metrics may have been measured as 80 each."""
    config = config_of(own)
    found = component_score(config.components[component], session_of(*events), config)
    return None if found is None else (found.value, found.coverage)


ALL_80 = metrics("ac03", thoroughness=80, accuracy=80, actionability=80)
ONE_80 = metrics("ac03", thoroughness=80)
RUN = BenchmarkRecorded("AC-03", "reviews", 9, 10)
SAID = FeedbackRecorded("ac03", 60, "", "")
THIRD = pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("events", "own", "expected"),
    [
        # (80 * 1 + 90 * 0.25) / 1.25 = 82, (80 + 22.5 + 60 * 0.25) / 1.5 = 78.3.
        ([ALL_80, RUN], "", (82, 1)),
        ([ALL_80, RUN, SAID], "", (78, 1)),
        ([ALL_80, SAID], "", (76, 1)),
        # One of three metrics weighs 1/3: (80 / 3 + 90 / 4) / (1 / 3 + 1 / 4) = 84.3, and 7/12 of 5/4 was measured.
        ([ONE_80, RUN], "", (84, pytest.approx(7 / 15))),
        # Feedback weighs a quarter of what was measured: 80 and 60 are 76 however little that is.
        ([ONE_80, SAID], "", (76, THIRD)),
        ([RUN, SAID], "", (84, 0.2)),
        # A benchmark alone is the score, and feedback alone is none.
        ([RUN], "", (90, 0.2)),
        ([SAID], "", None),
        # Runs add up, 9 of 10 and 1 of 10; so do people, 60 and 61 to 60.5.
        ([RUN, BenchmarkRecorded("ac03", "", 1, 10)], "", (50, 0.2)),
        ([ALL_80, SAID, FeedbackRecorded("ac03", 61, "", "")], "", (76, 1)),
        # A weight of 1 is as much as all metrics: half of 80 + 90.
        ([ALL_80, RUN], "benchmarks: {weight: 1}", (85, 1)),
        ([ALL_80, SAID], "feedback: {weight: 1}", (70, 1)),
        ([ALL_80, RUN, SAID], "{benchmarks: {weight: 0}, feedback: {weight: 0}}", (80, 1)),
        ([RUN, SAID], "{benchmarks: {weight: 0}, feedback: {weight: 0}}", None),
        ([BenchmarkRecorded("ac03", "", 0, 0)], "", None),
        ([ALL_80, BenchmarkRecorded("ac03", "", 0, 0)], "", (80, 1)),
        ([ALL_80, BenchmarkRecorded("ac03", "", 0, 10)], "", (64, 1)),
        ([ALL_80, FeedbackRecorded("ac03", 0, "", "")], "", (64, 1)),
        # Of another component, and of the session itself.
        ([ALL_80, BenchmarkRecorded("ac04", "", 0, 9), FeedbackRecorded("", 0, "", "")], "", (80, 1)),
    ],
)
def test_benchmarks_and_feedback_join_with_weights_of_their_own(
    events: list[Any], own: str, expected: tuple[int, float] | None
) -> None:
    """Each has its configured weight, next to metrics that together weigh 1."""
    assert expected == joined(*events, own=own)


# Sessions


def test_the_worked_example() -> None:
    """(92 + 95) / 2 = 93.5, 86.5, 81.25 and 94 are cut; 18.6 + 30.1 + 20.25 + 18.8 = 87.75 is cut, too."""
    assert [93, 86, 81, 94, 87] == made(EXAMPLE)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, [None, None, None, None, None]),
        ({"ac01": 92}, [92, None, None, None, 92]),
        # (93 * 0.2 + 86 * 0.35) / 0.55 = 88.5.
        ({"ac01": 92, "ac04": 95, "ac02": 88, "ac03": 85}, [93, 86, None, None, 88]),
        # 75 and 90 to 82.5; (82 * 0.25 + 94 * 0.2) / 0.45 = 87.3.
        ({"ac07": 75, "ac08": 90, "ac09": 94}, [None, None, 82, 94, 87]),
        ({"ac09": 0}, [None, None, None, 0, 0]),
        (dict.fromkeys(EXAMPLE, 100), [100] * 5),
        (dict.fromkeys(EXAMPLE, 0), [0] * 5),
        ({"ac99": 50}, [None, None, None, None, None]),
    ],
)
def test_composites_leave_out_missing_parts(values: dict[str, int], expected: list[int | None]) -> None:
    """A missing component weighs nothing in its composite, a missing composite nothing in the overall score."""
    assert expected == made(values)


def test_a_session_with_feedback_alone_has_no_score() -> None:
    """Feedback alone makes no score, and so closes no gate; next to 80, 25 weighs a quarter of what was measured."""
    judged = (FeedbackRecorded("", 0, "harmful", ""), FeedbackRecorded("", 50, "", ""))
    assert {} == scores(session_of(*judged), config_of())
    # (80 * 0.20 + 25 * 0.05) / 0.25 = 69, handoff weighing 0.20.
    measured = session_of(*judged, metrics("ac09", handoff_quality=80))
    assert {"ac09": 80, "session.handoff": 80, "session.overall": 69} == scores(measured, config_of())


def test_a_user_describes_composites_of_their_own() -> None:
    """(60 + 81) / 2 = 70.5, cut, and 90: 70 * 0.75 + 90 * 0.25 = 75."""
    own = """
    session_weights: {efficiency: false, effectiveness: false, improvement: false, handoff: 0.25, work: 0.75}
    sessions: {efficiency: false, effectiveness: false, improvement: false, work: [ac01, ac02]}
    """
    found = composites({"ac01": 60, "ac02": 81, "ac09": 90}, config_of(own))
    assert {"session.handoff": 90, "session.work": 70, "session.overall": 75} == found
