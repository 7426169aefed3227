"""The answer of `score` if events are recorded and nothing is scored yet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run


@pytest.fixture
def lines(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `score --session` and other commands in a project without scores."""
    del project
    monkeypatch.delenv("CLAUDE_SESSION_ID", raising=False)
    return run


def test_nothing_recorded_is_answered_with_the_command_that_records(lines: Run) -> None:
    """Without any recording the answer names `score record`."""
    assert ["No scores yet: `tallybook score record` records what they are made of."] == (
        lines("score", "--session").out.splitlines()[1:]
    )


def test_unscored_telemetry_is_counted_by_its_type(lines: Run) -> None:
    """103 events of telemetry without a row are reported as recorded, and as no measurement."""
    moments = (f"2026-01-16T00:{number // 60:02}:{number % 60:02}Z" for number in range(103))
    sent = [{"event_type": "coffee_made", "component": "ac02", "session_id": "s1", "at": at} for at in moments]
    lines("score", "record", stdin="".join(f"{json.dumps(one)}\n" for one in sent).encode())
    assert [
        "No scores yet: what was recorded is in no score.",
        "Recorded, and no measurement: telemetry of type coffee_made (103).",
    ] == lines("score", "--session").out.splitlines()[1:]


def test_metrics_without_a_session_are_counted(lines: Run) -> None:
    """The answer names the option that sets a session."""
    lines("score", "record", "--component", "ac01", "startup_ms=8000")
    assert [
        "No scores yet: what was recorded is in no score.",
        "Measured, and in no score: no session (1).",
        "For no session: `tallybook score record --session ID` names the session.",
    ] == lines("score", "--session").out.splitlines()[1:]


def test_a_session_without_a_score_names_what_is_missing(lines: Run) -> None:
    """A value that makes no metric by itself is named with the missing one; an end measures nothing."""
    lines("score", "record", "--component", "ac06", "--session", "s1", "successful=3")
    lines("score", "record", stdin=b'{"session_id": "s2", "session_ended": true, "at": "2026-01-16T00:00:00Z"}')
    text = " ".join(lines("score", "--session").out.split())
    needs = "successful and implemented; or validated and total; or rollbacks and implemented; or processed and target"
    assert f"Session s1 has successful of ac06, whose score needs {needs}." in text
    assert "Session s2 has nothing measured of a component." in text
