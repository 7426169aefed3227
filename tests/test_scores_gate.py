"""The verbs `score gate` and `score baseline`: exit 0 if the agent may evolve, else 1; acknowledged drops."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.score_examples import events, noon, plain, record_events
from tallybook.ledger.errors import EXIT_BAD_INPUT, EXIT_NO

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.command_line import Run

DAYS = [f"2026-01-{day:02}" for day in range(1, 11)]


@pytest.fixture
def score(project: Path) -> Callable[..., None]:
    """Return a function that records a session of a day in which one component has a score."""

    def record_one(day: str, value: float, component: str = "ac09", name: str = "") -> None:
        record_events(project, name or f"s-{day}-{component}", events(plain(value, component)), noon(day))

    return record_one


def ask_gate(run: Run, *options: str) -> tuple[int, list[str]]:
    """Return the exit code of a gate, and rule and score of the reasons that close it."""
    done = run("score", "gate", *options, "--json")
    told: dict[str, Any] = json.loads(done.out)
    assert told["open"] is (done.code == 0)
    return done.code, [f"{one['rule']} {one['score_id']}".strip() for one in told["reasons"] if one["closes"]]


def test_a_component_below_70_blocks_its_own_evolution(score: Callable[..., None], run: Run) -> None:
    """69 closes the gate of that component alone, in one sentence with score and bound; 70 opens it."""
    score(DAYS[0], 69)
    done = run("score", "gate", "--component", "ac09")
    assert EXIT_NO == done.code
    low = "- ac09 is 69, below 70, the least with which it may evolve (2026-01-01)\n"
    assert f"closed\n{low}  the latest score is of 2026-01-01\n" == done.out
    assert (0, []) == ask_gate(run)
    score(DAYS[1], 70)
    assert (0, []) == ask_gate(run, "--component", "ac09")


def test_a_critical_score_blocks_all(score: Callable[..., None], run: Run) -> None:
    """49 of one component closes every gate, its own for being below 70 as well."""
    score(DAYS[0], 49)
    score(DAYS[1], 95, "ac03")
    low = ["critical ac09", "critical session.handoff", "critical session.overall"]
    assert (EXIT_NO, low) == ask_gate(run, "--component", "ac03")
    assert (EXIT_NO, [*low, "own score ac09"]) == ask_gate(run, "--component", "ac09")


@pytest.mark.parametrize("named", [(), ("--component", "ac06"), ("--component", "overall")])
def test_a_gate_without_data_is_closed_and_names_the_remedy(project: Path, run: Run, named: tuple[str, ...]) -> None:
    """In an empty folder it exits with 1 and names `score record`; --allow-no-data opens it; nothing is created."""
    done = run("score", "gate", *named)
    assert (EXIT_NO, "") == (done.code, done.err)
    feed = (
        "no score to judge has enough data: run `tallybook score record FILE` to record some, or pass --allow-no-data"
    )
    assert ["closed", f"- {feed}"] == done.out.splitlines()[:2]
    assert (0, []) == ask_gate(run, *named, "--allow-no-data")
    assert [] == list((project / ".claude").iterdir())


def test_a_regression_blocks_until_it_is_acknowledged(score: Callable[..., None], run: Run) -> None:
    """84 is more than 5 below the baseline of 90; a baseline of 84 acknowledges that, and 78 is a drop again."""
    score(DAYS[0], 90)
    assert "baseline of ac09 set to 90\n" == run("score", "baseline", "AC-09").out
    score(DAYS[1], 85)
    assert (0, []) == ask_gate(run, "--component", "ac09")
    score(DAYS[2], 84)
    assert (EXIT_NO, ["baseline ac09"]) == ask_gate(run, "--component", "ac09")
    assert "not acknowledged" in run("score", "gate", "--component", "ac09").out
    assert {"score": "ac09", "value": 84} == {
        key: value
        for key, value in json.loads(
            run("score", "baseline", "ac09", "--reason", "a harder task", "--json").out
        ).items()
        if key != "seq"
    }
    assert (0, []) == ask_gate(run, "--component", "ac09")
    score(DAYS[3], 78)
    assert (EXIT_NO, ["baseline ac09"]) == ask_gate(run, "--component", "ac09")


def test_a_baseline_that_an_agent_types_is_recorded_as_the_agents(
    score: Callable[..., None], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside an agent the rater is that agent with its session, secrets in the reason are masked, no one is human."""
    score(DAYS[0], 90)
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s7")
    assert 0 == run("score", "baseline", "ac09", "--reason", f"token {'ghp_' + 'a1B2' * 9}").code
    row = json.loads(run("log", "--json").out.splitlines()[-1])
    assert {"rater": "agent", "agent": "claude", "session": "s7"} == row["by"]
    assert "token [masked: GitHub Token]" == row["free"]["reason"]
    assert EXIT_BAD_INPUT == run("score", "baseline", "ac09", "--rater", "human").code
