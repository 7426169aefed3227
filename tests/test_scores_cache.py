"""Reading scores: whatever the state of the cache, the answer is that of a plain fold."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.long_ledgers import make_long
from helpers.reference_model import NAMES, TEXTS
from helpers.score_states import CONFIG, DEFAULT, cache_of, comparable, folded, project_in, record_events
from helpers.sweep import slice_of
from tallybook.ledger.clock import moment
from tallybook.ledger.events import (
    BaselineSet,
    BenchmarkRecorded,
    EventRedacted,
    EventsVoided,
    FeedbackRecorded,
    MetricsRecorded,
    Numbers,
    PlaybookUpdated,
    PointAdded,
    PointRated,
    SessionEnded,
    TelemetryKept,
)
from tallybook.projections.scores import view
from tallybook.projections.scores.config_file import overlaid, read_config
from tallybook.projections.scores.inputs import Session
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.scores.state import state_of

if TYPE_CHECKING:
    from pathlib import Path

    from tallybook.ledger.records import EventRecord
    from tallybook.projections.surfaces.workspace.project import Project

SESSIONS = st.sampled_from(["s1", "s2", "s3", "Sitzung ü", "s'4\"", "s5"])
COMPONENTS = st.sampled_from(["ac01", "AC-02", "ac06", "", "ac99"])
NUMBERS = st.dictionaries(
    st.sampled_from(["completed", "total", "avg_iterations", "startup_ms", "implemented", "drift_events"]),
    st.integers(-3, 2**53) | st.floats(-3, 2**53) | st.booleans(),
    max_size=3,
).map(Numbers)
EVENTS = st.one_of(
    st.builds(MetricsRecorded, COMPONENTS, NUMBERS, st.just("")),
    st.builds(MetricsRecorded, COMPONENTS, NUMBERS, st.just("")),
    st.builds(BenchmarkRecorded, COMPONENTS, st.just(""), st.integers(0, 5), st.integers(5, 2**53)),
    st.builds(FeedbackRecorded, COMPONENTS, st.integers(0, 100) | st.floats(0, 100), st.just(""), st.just("why")),
    st.builds(SessionEnded, st.sampled_from(["", "1.0", "2.0 ü"])),
    st.builds(BaselineSet, st.sampled_from(["ac02", "session.overall"]), st.floats(0, 100), st.just("")),
    st.builds(PointAdded, NAMES, TEXTS),
    st.builds(PointRated, NAMES, st.sampled_from(["helpful", "harmful", "harmful", "neutral"])),
    st.builds(PlaybookUpdated, st.just(0), st.just(1), st.just(0)),
    st.builds(TelemetryKept, COMPONENTS, st.sampled_from(["", "coffee"]), st.just(""), st.just("{}")),
)
REWRITES = st.one_of(
    st.builds(EventsVoided, st.just(()), SESSIONS, st.just("")),
    st.builds(EventRedacted, st.just("no such event"), st.just("")),
)
WHENS = st.none() | st.integers(0, 40).map(lambda days: moment((20_000 + days) * 86_400 * 10**6).at)
SAYINGS = st.tuples(
    st.just("say"),
    SESSIONS | st.none(),
    st.lists(EVENTS, min_size=1, max_size=4) | REWRITES.map(lambda one: [one]),
    WHENS,
)

WITH_PLAYBOOK = read_config(
    overlaid(
        DEFAULT, {"scoring": {"components": {"playbook": {"enabled": True}}, "sessions": {"improvement": ["playbook"]}}}
    )
)
OTHER = read_config(overlaid(DEFAULT, {"scoring": {"timezone": "Asia/Tokyo", "feedback": {"weight": 0.5}}}))


PLACES = st.floats(0, 1, exclude_max=True)
ASKS = st.tuples(
    st.just("ask"), st.sampled_from([CONFIG, CONFIG, WITH_PLAYBOOK, WITH_PLAYBOOK, OTHER]), st.none() | PLACES
)
LOSSES = st.tuples(st.just("lose"), st.none(), st.none())
STEPS = st.lists(SAYINGS | SAYINGS | ASKS | ASKS | LOSSES, max_size=20)


@pytest.fixture(autouse=True)
def _store_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store the scores of a ledger however short it is, and after every event."""
    make_long(monkeypatch)
    monkeypatch.setattr(reading, "_TAIL_PART", 1 << 40)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move sessions out of memory as soon as there are a few."""
    monkeypatch.setattr(view, "MOST_UNCOUNTED", 2)


@pytest.mark.usefixtures("small_batches")
@settings(max_examples=slice_of(150, 40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_at_any_time_the_answer_is_that_of_a_plain_fold(tmp_path: Path, steps: list[Any]) -> None:
    """Late events, undoing, other configurations, moments of the past, a lost cache: the answer never depends on it."""
    project = project_in(tmp_path)
    for step in [*steps, ("ask", CONFIG, None)]:
        match step:
            case ("say", session, events, when):
                record_events(project, session, events, when)
            case ("lose", _, _):
                if open_log(project).exists():
                    cache_of(project).unlink(missing_ok=True)
            case ("ask", config, place):
                seq = open_log(project).head().seq
                until = None if place is None else int(place * (seq + 1))
                expected = comparable(folded(project, config, until))
                assert expected == comparable(state_of(project, config, None if until is None else str(until)))
    shutil.rmtree(project.root)


@pytest.fixture
def project_(tmp_path: Path) -> Project:
    """Return a project with two measured sessions, whose scores were read."""
    project = project_in(tmp_path)
    for session in ("s1", "s2"):
        record_events(project, session, [MetricsRecorded("ac02", Numbers({"completed": 8, "total": 10}), "")])
    state_of(project, CONFIG)
    return project


def count_sessions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by one for every session that is folded anew."""
    heard: list[int] = []
    hear = Session.add_event

    def listen(session: Session, record: EventRecord) -> None:
        heard.append(record.seq)
        hear(session, record)

    monkeypatch.setattr(Session, "add_event", listen)
    return heard


def test_a_folded_event_is_not_folded_again(project_: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second question folds the events since the first, and a third folds none."""
    record_events(project_, "s1", [SessionEnded("1.0")])
    heard = count_sessions(monkeypatch)
    for _ in range(2):
        assert ["s1", "s2"] == [one.id for one in state_of(project_, CONFIG).sessions.latest()]
    assert [4] == heard
