"""An overall score of which too little was measured: its answers for people and programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from helpers.score_examples import events, noon, plain, record_events

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run


@pytest.fixture
def barely_measured(project: Path) -> None:
    """Record a session of which 3 % of the overall score's weight was measured, and which scores 20."""
    record_events(project, "s1", events({"ac01": {"startup_ms": 25000}}), noon("2026-01-16"))


@pytest.mark.usefixtures("barely_measured")
@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "Overall: not enough measured (3 %)"),
        (("--detail",), "Overall: not enough measured (3 %)"),
        (("--session",), "Overall: not enough measured (3 %), 2026-01-16 12:00 UTC"),
        (("--daily",), "1 session, Overall: not enough measured (3 %)"),
        (("--weekly",), "Overall: not enough measured (3 %)"),
        (("--monthly", "--detail"), "Overall: not enough measured (3 %)"),
        (("--export", "-"), "Overall: not enough measured (3 %)"),
    ],
)
def test_an_overall_score_measured_too_little_is_shown_as_such(run: Run, words: tuple[str, ...], line: str) -> None:
    """People see the coverage in place of the number, in every answer; no alert names the number."""
    done = run("score", *words)
    shown_lines = [one.strip("│ ") for one in done.out.splitlines()]
    assert line in shown_lines
    assert [] == [one for one in shown_lines if one.startswith(("Overall", "! Overall")) and " 20 " in one]
    assert "note: low scores: ac01 is 20 on 2026-01-16 (critical)\n" == done.err


@pytest.mark.usefixtures("barely_measured")
def test_a_drop_of_a_barely_measured_score_is_no_answer(project: Path, run: Run) -> None:
    """`--blame` asks people to name a component instead; JSON has the drop and its coverage."""
    record_events(project, "s2", events({"ac01": {"startup_ms": 29000}}), noon("2026-01-17"))
    assert (
        "session.overall: not enough measured (3 %) to explain the drop; `tallybook score --blame COMPONENT` explains "
        "one component, such as ac06\n"
    ) == run("score", "--blame").out
    assert "ac01 dropped by 16 points" in run("score", "--blame", "ac01").out
    told = json.loads(run("score", "--blame", "--json").out)
    assert (0.03, 20) == (told["coverage"], told["drop"]["before"]["score"])


def test_a_component_measured_too_little_is_shown_as_such(project: Path, run: Run) -> None:
    """A component measured to 15 % has no number for people, no alert and no advice; JSON keeps the number."""
    told = {"ac06": {"processed": 69.0, "target": 100.0}}
    record_events(project, "s1", events(told | plain(90, "ac09")), noon("2026-01-16"))
    for words in ((), ("--session",), ("--daily",), ("--component", "ac06"), ("--component", "ac06", "--weekly")):
        done = run("score", *words)
        lines = [one for one in done.out.splitlines() if "AC-06" in one]
        assert lines, words
        assert all("15 %" in one or "AC-06" == one.strip().upper()[:5] for one in lines), lines
        assert " 69 " not in done.out
        assert ("", False) == (done.err, "Focus Areas" in done.out)
    told_feed = json.loads(run("score", "--feed").out)
    assert (69, 0.15) == (told_feed["current"]["component_scores"]["ac06"], told_feed["current"]["coverage"]["ac06"])
    assert [] == told_feed["alerts"]
