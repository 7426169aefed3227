"""How the values of a session are combined, and laws of every score, for any measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from helpers.score_histories import LINEAR, config_of, line, metrics, session_of
from helpers.sweep import slice_of
from tallybook.ledger.events import BenchmarkRecorded, FeedbackRecorded
from tallybook.projections.scores.scoring import component_score, scores

if TYPE_CHECKING:
    from tallybook.projections.scores.config import Config

# Counters and gauges


def test_of_values_of_one_time_the_one_recorded_last_counts() -> None:
    """Two values of one moment in a batch, whose ids are in no order, are read in their order; so are batches."""
    session = session_of()
    for place, greeting in ((2, 20), (1, 10)):
        record = line(9 - place, metrics("ac01", greeting_score=greeting))
        session.add_event(attrs.evolve(record, part=(place, 2)))
    assert 20 == scores(session, config_of())["ac01"]
    session.add_event(line(1, metrics("ac01", greeting_score=30), at="2026-01-16T13:00:00", when="2026-01-16T12:00:00"))
    assert 30 == scores(session, config_of())["ac01"]


# Properties

DIRECTIONS = {
    "ac01": {"startup_ms": -1, "context_percent": -1, "greeting_score": 1, "orientation_done": 1},
    "ac02": dict.fromkeys(("completed", "drift_corrected", "review_score"), 1)
    | dict.fromkeys(("total", "avg_iterations", "iterations", "drift_events"), -1),
    "ac06": {"successful": 1, "validated": 1, "total": -1, "rollbacks": -1, "processed": 1, "target": -1},
    **{component: dict.fromkeys(names, 1) for component, names in LINEAR.items()},
}
"""Component → value → 1 where more of it is better, -1 where less is."""
ROWS = [(component, name, sign) for component, names in DIRECTIONS.items() for name, sign in names.items()]
VALUES = st.integers(1, 40_000) | st.integers(1, 12) | st.floats(0.5, 120) | st.booleans().map(lambda one: one + 1)
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
    found = component_score(config.components[component], session_of(metrics(component, **values)), config)
    return None if found is None else found.value


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
    low, high = (worth(default, component, beside | {name: one}) for one in (less, more))
    assert (low is None) == (high is None)
    assert (low or 0) * sign <= (high or 0) * sign


@given(
    st.lists(
        st.sampled_from([*DIRECTIONS, "ac99"]).flatmap(
            lambda one: st.dictionaries(
                st.sampled_from([*DIRECTIONS.get(one, {}), "implemented", "coverage_count", "coverage_total"]), ANY
            ).map(lambda values: metrics(one, **values))
        )
        | st.builds(FeedbackRecorded, st.sampled_from(["", "ac02"]), st.floats(0, 100), st.just(""), st.just(""))
        | st.builds(
            BenchmarkRecorded, st.sampled_from(["ac02", ""]), st.just(""), st.integers(0, 5), st.integers(5, 9)
        ),
        max_size=6,
    )
)
def test_scores_are_whole_and_stay_within_0_and_100(events: list[Any]) -> None:
    """For any measurement, however absurd, a score is a whole number from 0 to 100."""
    found = scores(session_of(*events), config_of())
    assert [] == [(name, value) for name, value in found.items() if type(value) is not int or not 0 <= value <= 100]
    assert found.keys() <= set(config_of().score_ids)
