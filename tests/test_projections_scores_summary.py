"""The present value of every score, the focus areas, and the feed of a dashboard."""

from __future__ import annotations

import pytest

from helpers.score_examples import AT, MEASURED, config, example, folded, noon, plain
from tallybook.projections.scores.summary import Focus, current_scores, feed, focus


def test_a_score_is_that_of_its_latest_day() -> None:
    """Two sessions of 60 and 91 on the last day: 75.5, rounded up; a score without data is null."""
    sessions = [("a", noon("2026-01-01"), 10), ("b", noon("2026-01-02"), 60), ("c", noon("2026-01-02"), 91)]
    found = current_scores(folded(config(), *((id_, at, plain(value), "") for id_, at, value in sessions)))
    assert (76, "2026-01-02") == (found["ac09"].value, found["ac09"].day)
    assert (None, "", None) == (found["ac01"].value, found["ac01"].day, found["ac01"].trend)
    assert ("AC-09 Session Completion", "Overall") == (found["ac09"].name, found["session.overall"].name)


@pytest.mark.parametrize(("last", "value"), [("2026-01-30", 80), ("2026-01-31", None)])
def test_a_score_is_current_for_the_time_of_a_long_trend(last: str, value: int | None) -> None:
    """Measured on the first of January it is current on the thirtieth day, and on the next one has no data."""
    sessions = (("a", noon("2026-01-01"), plain(80), ""), ("b", noon(last), plain(70, "ac08"), ""))
    assert value == current_scores(folded(config(), *sessions))["ac09"].value


def test_the_documents_example_has_two_focus_areas() -> None:
    """AC-07 with 75 and AC-05 with 78 are below 80, where B begins; the worst is first."""
    own = config()
    found = focus(current_scores(example(own)).values(), own)
    assert [
        Focus("ac07", "AC-07 R&D Cycles", 75, below=True, drop=None, action="Review needed"),
        Focus("ac05", "AC-05 Self-Reflection", 78, below=True, drop=None, action="Review needed"),
    ] == found


def test_the_feed_has_the_documents_shape() -> None:
    """``{current, trend, alerts}``: a component of 55 has an alert, and the composites that it lowers have others."""
    state = folded(config(), ("s1", AT, MEASURED | plain(55), "2.0.0"))
    found = feed(state)
    assert ["current", "trend", "alerts"] == list(found)
    assert ("2026-01-16", 55, "C") == (
        found["current"]["date"],
        found["current"]["component_scores"]["ac09"],
        found["current"]["grade"],
    )
    assert {
        "metric": "score.session.overall",
        "period": "7_days",
        "data": [79],
        "trend": None,
        "forecast": None,
    } == found["trend"]
    both = {"level": "alert", "value": 55, "day": "2026-01-16", "below": 60, "notify": ["log", "dashboard", "user"]}
    assert [{"score": "ac09"} | both, {"score": "session.handoff"} | both] == found["alerts"]
