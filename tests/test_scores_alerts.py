"""The channels that each alert level notifies, by the configuration: a log, a dashboard, the user, and every gate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.score_examples import MEASURED, config, events, folded, noon, plain, record_events
from tallybook.projections.scores.summary import current_scores
from tallybook.projections.surfaces.scores.pages import alert_lines

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

LOGGED = "note: low scores: "


def channels(run: Run) -> tuple[bool, bool, bool, bool]:
    """Return whether ac09 is in the log, in the feed, at the top of the summary, and closes another's gate."""
    summary, gate = run("score"), run("score", "gate", "--component", "ac01")
    feed = json.loads(run("score", "--feed").out)
    top = summary.out.partition("Overall")[0]
    assert (LOGGED in gate.err) == (LOGGED in summary.err)
    return (
        LOGGED in gate.err,
        "ac09" in {one["score"] for one in feed["alerts"]},
        "! AC-09" in top,
        "closed" in gate.out,
    )


@pytest.mark.parametrize(
    ("value", "own", "expected"),
    [
        (70, "", (False, False, False, False)),
        (69, "", (True, True, False, False)),
        (59, "", (True, True, True, False)),
        (49, "", (True, True, True, True)),
        (49, "notifications: {warning: [], alert: [], critical: []}", (False, False, False, False)),
        (69, "notifications: {warning: [user]}", (False, False, True, False)),
        (69, "notifications: {warning: [dashboard]}", (False, True, False, False)),
        (69, "notifications: {warning: [log]}", (True, False, False, False)),
        (69, "notifications: {warning: [block evolution]}", (False, False, False, True)),
        (49, "notifications: {alert: []}", (True, True, False, True)),
    ],
)
def test_each_level_notifies_its_channels(
    value: int, own: str, expected: tuple[bool, bool, bool, bool], project: Path, run: Run
) -> None:
    """A warning goes to log and dashboard, an alert also to the user, a critical score also to every gate."""
    if own:
        file = project / ".claude/config/scoring-config.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(f"scoring: {{{own}}}\n", encoding="utf-8")
    measured: dict[str, Any] = {**MEASURED, **plain(value)}
    record_events(project, "s1", events(measured), noon("2026-01-16"))
    assert expected == channels(run)


def test_the_user_sees_the_worst_first() -> None:
    """The summary has five of them, and the number of others; a mere warning is none of them."""
    low = folded(config(), ("s1", noon("2026-01-16"), plain(69) | plain(59, "ac03") | plain(49, "ac05"), ""))
    assert [
        "AC-05 Self-Reflection is 49 on 2026-01-16, below 50 (critical).",
        "Improvement is 49 on 2026-01-16, below 50 (critical).",
        "Overall is 58 on 2026-01-16, below 60 (alert).",
        "AC-03 Milestone Review is 59 on 2026-01-16, below 60 (alert).",
        "Effectiveness is 59 on 2026-01-16, below 60 (alert).",
    ] == list(alert_lines(current_scores(low), low.config))
    all_low = {f"ac0{n}": plain(10, f"ac0{n}")[f"ac0{n}"] for n in (3, 4, 5, 7, 8, 9)}
    state = folded(config(), ("s1", noon("2026-01-16"), all_low, ""))
    assert "and 6 more." == list(alert_lines(current_scores(state), state.config))[-1]


def test_an_alert_of_the_past_is_not_logged_again(project: Path, run: Run) -> None:
    """A moment of the past is shown with its alerts for the user, and logs nothing."""
    record_events(project, "s1", events(plain(40)), noon("2026-01-16"))
    done = run("score", "--at", "3")
    assert "! AC-09" in done.out
    assert LOGGED not in done.err + run("score", "gate", "--at", "3").err
