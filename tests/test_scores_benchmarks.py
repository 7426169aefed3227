"""Benchmarks without a session, as in CI: `tallybook score record` with a result, then `tallybook score gate`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.score_examples import MEASURED, events, noon, record_events
from tallybook.projections.surfaces.scores.configuration import load
from tallybook.projections.surfaces.scores.state import state_of
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

ASK = ("score", "gate", "--component", "ac06")


def benchmark(run: Run, passed: int, **named: Any) -> None:
    """Record the result of a benchmark of fifty cases, by default of ac06 and without a session."""
    said = {"component": "AC-06", "benchmark": "small", "passed": passed, "total": 50} | named
    done = run("score", "record", stdin=json.dumps(said).encode())
    assert (0, "") == (done.code, done.err)


@pytest.fixture
def measured(project: Path) -> Path:
    """Return a project with a session of all nine components: ac06 has 82, and the overall score is 87."""
    record_events(project, "s1", events(MEASURED), noon("2026-01-16"))
    return project


@pytest.mark.usefixtures("measured")
def test_the_gate_uses_the_latest_run(run: Run) -> None:
    """30 of 50 is a score of 60, whatever earlier sessions scored; 45 of 50 is 90, and opens the gate again."""
    assert 0 == run(*ASK).code
    benchmark(run, 30)
    assert (1, True) == ((done := run(*ASK)).code, "ac06 is 60, below 70" in done.out)
    benchmark(run, 45)
    assert 0 == run(*ASK).code


def test_a_late_older_run_is_not_the_latest(measured: Path, run: Run) -> None:
    """It counts for the day on which it was run."""
    benchmark(run, 45, at="2026-01-18T12:00:00Z")
    benchmark(run, 30, at="2026-01-17T12:00:00Z")
    assert 0 == run(*ASK).code
    days = state_of(Project(measured), load(Project(measured))).days
    assert {"2026-01-16": {82: 1}, "2026-01-17": {60: 1}, "2026-01-18": {90: 1}} == {
        day: tally.scores["ac06"] for day, tally in days.items()
    }


def test_a_run_has_no_composites(measured: Path, run: Run) -> None:
    """One bad component is no bad session, and a run is never the current session."""
    benchmark(run, 30, at="2026-01-17T12:00:00Z")
    state = state_of(Project(measured), load(Project(measured)))
    (own,) = (one for one in state.sessions.latest() if one.id != "s1")
    assert own.id.startswith("benchmark-")
    assert {"ac06": 60} == (own.contribution and own.contribution.scores)
    assert "s1" == json.loads(run("score", "--session", "--json").out)["session_id"]
    assert 87 == json.loads(run("score", "--json").out)["session_scores"]["overall"]


@pytest.mark.usefixtures("measured")
def test_an_undone_run_does_not_count(run: Run) -> None:
    """The gate uses the run before it again."""
    benchmark(run, 30)
    assert 1 == run(*ASK).code
    assert 0 == run("undo").code
    assert 0 == run(*ASK).code
