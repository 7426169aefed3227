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


def test_a_score_measured_too_little_opens_no_gate(project: Path, run: Run) -> None:
    """Measured to 3 % and 15 % of their weight, two scores close their own gates; the gate of all names both."""
    record_events(project, "s1", events({"ac01": {"startup_ms": 10000}}), noon(DAYS[0]))
    for name in ("overall", "efficiency"):
        assert (EXIT_NO, [f"not enough measured session.{name}"]) == ask_gate(run, "--component", name)
    assert [
        "open",
        "  session.efficiency: not enough measured (15 %) on 2026-01-01",
        "  session.overall: not enough measured (3 %) on 2026-01-01",
        "  none of 1 scores close it, 13 have no data",
        "  the latest score is of 2026-01-01",
    ] == run("score", "gate").out.splitlines()
    assert (EXIT_NO, ["min ac01"]) == ask_gate(run, "--min", "90")


def test_a_gate_names_the_day_of_each_score(score: Callable[..., None], run: Run) -> None:
    """A gate that judges old scores says so: the latest day, and the day of each score that closes it."""
    score(DAYS[0], 40, "ac03")
    score(DAYS[4], 90)
    told = json.loads(run("score", "gate", "--json").out)
    assert ("2026-01-05", {"ac03": "2026-01-01", "session.effectiveness": "2026-01-01"}) == (
        told["day"],
        {one["score_id"]: one["day"] for one in told["reasons"] if one["closes"]},
    )
    assert "- ac03 is 40 on 2026-01-01: below 50 (critical)" in run("score", "gate").out
    assert "the latest score is of 2026-01-05" in run("score", "gate").out
    assert None is json.loads(run("score", "gate", "--component", "ac06", "--json").out)["day"]


def test_where_scoring_is_off_the_gate_is_open_and_says_so(score: Callable[..., None], project: Path, run: Run) -> None:
    """With `enabled: false` a critical score closes no gate, `check` passes, and nothing is logged."""
    score(DAYS[0], 10)
    (project / ".claude" / "config").mkdir()
    (project / ".claude" / "config" / "scoring-config.yaml").write_text("scoring: {enabled: false}", encoding="utf-8")
    off = "scoring is off: scoring-config.yaml has `enabled: false`"
    for words in ((), ("--component", "ac09", "--min", "90"), ("--no-drop", "1")):
        done = run("score", "gate", *words)
        assert (0, f"open\n  {off}\n", "") == (done.code, done.out, done.err)
    (reason,) = json.loads(run("score", "gate", "--json").out)["reasons"]
    assert ("off", off, False) == (reason["rule"], reason["text"], reason["closes"])
    run("replay")
    assert f"note  gate: {off}\n" in run("check").out


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


def test_the_gate_of_all_has_a_line_for_each_score(score: Callable[..., None], run: Run) -> None:
    """Each has all reasons that close it, and one line counts them; a named gate answers in sentences."""
    score(DAYS[0], 90)
    run("score", "baseline", "ac09")
    score(DAYS[1], 40)
    assert [
        "closed",
        "- ac09 is 40 on 2026-01-02: below 50 (critical), below 85 (baseline), below 80 (min)",
        "- session.handoff is 40 on 2026-01-02: below 50 (critical), below 80 (min)",
        "- session.overall is 40 on 2026-01-02: below 50 (critical), below 80 (min)",
        "  3 of 3 scores close it, 11 have no data; `tallybook score baseline SCORE` acknowledges a drop",
        "  the latest score is of 2026-01-02",
    ] == run("score", "gate", "--min", "80").out.splitlines()
    assert (
        "- ac09 is 40, below 50: critical, which blocks all (2026-01-02)"
        in run("score", "gate", "--component", "ac09").out
    )


def test_baselines_are_listed(score: Callable[..., None], run: Run) -> None:
    """Score, value, day and event of each are listed; without one, the command that sets one."""
    assert "no score has a baseline; `tallybook score baseline SCORE` sets one\n" == run("score", "baseline").out
    assert [] == json.loads(run("score", "baseline", "--json").out)
    score(DAYS[0], 90)
    run("score", "baseline", "overall", "--value", "87.5")
    (row,) = json.loads(run("score", "baseline", "--json").out)
    assert ("session.overall", 87.5) == (row["score"], row["value"])
    assert f"session.overall  87.5  since {row['day']}, event {row['seq']}\n" == run("score", "baseline").out


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


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (
            ("score", "gate", "--component", "ac99"),
            EXIT_BAD_INPUT,
            "--component ac99: is not a score; the nearest is ac09",
        ),
        (
            ("score", "gate", "--component", "mood"),
            EXIT_BAD_INPUT,
            "--component mood: is not a score; there are ac01, ac02",
        ),
        (("score", "gate", "--min", "101"), EXIT_BAD_INPUT, "--min"),
        (("score", "baseline", "ac06"), EXIT_NO, "ac06: has no data and so no value for a baseline; give --value N"),
        (("score", "baseline", "ac77"), EXIT_BAD_INPUT, "score baseline ac77: is not a score"),
        (("score", "baseline", "ac06", "--value", "-1"), EXIT_BAD_INPUT, "--value"),
    ],
)
def test_an_invalid_question_is_one_line(
    score: Callable[..., None], run: Run, arguments: tuple[str, ...], code: int, says: str
) -> None:
    """It names the given and the known words, and nothing is recorded."""
    score(DAYS[0], 90)
    before = run("log", "--json").out
    done = run(*arguments)
    assert (code, "") == (done.code, done.out)
    assert says in done.err
    assert 1 == done.err.count("\n")
    assert before == run("log", "--json").out


@pytest.mark.parametrize(
    "words", [("score", "gate", "--min"), ("score", "gate", "--no-drop"), ("score", "baseline", "ac09", "--value")]
)
def test_nan_is_no_bound(words: tuple[str, ...], score: Callable[..., None], run: Run) -> None:
    """NaN is below nothing and above nothing: such a gate would never close."""
    score(DAYS[0], 80)
    done = run(*words, "nan")
    assert (EXIT_BAD_INPUT, "") == (done.code, done.out)
    assert f"tallybook: Invalid value for '{words[-1]}': nan is not a number from 0 to 100; see " in done.err
