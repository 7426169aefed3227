"""The doctor on how hooks ran: transcripts in the agent's own shape and in odd ones, and what is said of them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from helpers.doctor_hooks import LONG_AGO_S, NOW, findings, here, install, messages, on_path, record_run, session
from helpers.real_command import run
from tallybook.projections.surfaces.agents import claude
from tallybook.projections.surfaces.doctor import checks, hook_runs, hooks
from tallybook.projections.surfaces.doctor.finding import Context

if TYPE_CHECKING:
    from tallybook.projections.surfaces.workspace.project import Project

__all__ = ["here", "on_path"]


def test_how_often_and_how_long_hooks_ran_is_told(here: Project) -> None:
    """By event, in the order of a session: how often, the last time, median and longest; a person sees it, too."""
    install(here.root)
    script = session(here.root)
    for time_ms, at in ((30, "10:00:00"), (50, "10:30:00"), (41.4, "11:00:00"), (100, "10:10:00")):
        record_run(script, "Stop", at=at, durationMs=time_ms)
    record_run(session(here.root, "s2"), "SessionStart", at="11:59:30", durationMs=9)
    told = [
        ("ok", "SessionStart: called once, 29 s ago, median 9 ms, longest 9 ms"),
        ("ok", "Stop: called 4 times, last 59 min ago, median 46 ms, longest 100 ms"),
    ]
    assert told == messages(here)[2:]
    assert 2 == sum(": called " in line for line in checks.format_findings(list(hooks.check_hooks(Context(here, NOW)))))


def test_a_line_that_stands_in_two_transcripts_counts_once(here: Project) -> None:
    """A resumed session begins with a copy of another."""
    script = record_run(session(here.root), "Stop", durationMs=5)
    script.path.with_name("s2.jsonl").write_bytes(script.path.read_bytes())
    assert ("ok", "Stop: called once, 59 min ago, median 5 ms, longest 5 ms") == messages(here)[-1]


def test_hooks_of_others_are_nobodys_business(here: Project) -> None:
    """Only what calls us at its end is ours, and what merely quotes such a line is no hook."""
    script = session(here.root)
    record_run(script, "Stop", command="prettier --write", exitCode=1)
    record_run(script, "Stop", command="prettier --write", kind="hook_cancelled")
    script.user(json.dumps({"type": "attachment", "attachment": {"type": "hook_success", "command": "tallybook hook"}}))
    assert ["note"] == [level for level, _ in messages(here)]


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"attachment","attachment":{"type":"hook_succ',
        b'["hook_success", "attachment"]',
        b'{"type":"attachment","attachment":"hook_success","hook_":1}',
        b'{"type":"attachment","attachment":{"type":["hook_success"]}}',
        b'{"type":"hook_success","attachment":{"type":"hook_success","command":"tallybook hook"}}',
        b'{"attachment":{"type":"hook_success","command":"tallybook hook"},"type":"user"}',
        b'{"type":"attachment","attachment":{"type":"hook_cancelled","command":"tallybook \'hook"}}',
        b'{"type":"attachment","attachment":{"type":"hook_success"},"x":"' + b"x" * (1 << 20) + b'"}',
        b"\xff\x00" + b'"hook_"attachment"',
        b'{"a":' * 100_000 + b'"hook_ "attachment"',
    ],
)
def test_odd_lines_are_passed_over(here: Project, line: bytes) -> None:
    """Whatever stands in a transcript, the lines around it count."""
    install(here.root)
    script = record_run(session(here.root), "Stop", durationMs=5)
    script.path.write_bytes(script.path.read_bytes() + line + b"\n" + line)
    assert ("ok", "Stop: called once, 59 min ago, median 5 ms, longest 5 ms") == messages(here)[-1]


@pytest.mark.parametrize("field", ["hookEvent", "durationMs", "exitCode", "stderr", "uuid", "timestamp"])
@pytest.mark.parametrize("value", [None, [], {}, "2026-99-99", "\ud800", -1, True, 1e300, "0001-01-01T00:00:00+23:00"])
def test_odd_fields_are_not_told(here: Project, field: str, value: object) -> None:
    """A hook counts as called although the agent says odd things of it."""
    told = {"type": "hook_success", "hookEvent": "Stop", "command": "tallybook hook"}
    fields = {"timestamp": "2026-11-21T11:00:00Z", "uuid": "u1"} | (
        {field: value} if field in {"timestamp", "uuid"} else {}
    )
    session(here.root).line("attachment", attachment=told | {field: value}, **fields)
    told_of = [message for level, message in messages(here) if ": called once" in message]
    assert [True] == [message.startswith(("Stop", "another event")) for message in told_of]


def test_what_no_stream_can_carry_is_printed_all_the_same(here: Project) -> None:
    """Half a character and what steers a terminal are shown as escapes, or sent as JSON."""
    record_run(session(here.root), "Stop", "hook_non_blocking_error", exitCode=1, stderr="\ud800 \x1b[31mred")
    answer = run(here, "doctor")
    assert (1, "") == (answer.code, answer.err)
    assert r": \ud800 \x1b[31mred; " in answer.out
    answer = run(here, "doctor", "--json")
    assert (1, "", False) == (answer.code, answer.err, json.loads(answer.out)["ok"])


def test_only_the_newest_transcripts_are_read_and_of_a_large_one_the_end(
    here: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the bound whole lines count; what lies before them, or in older files, is not looked at."""
    newest = session(here.root, "new")
    for number in range(3):
        record_run(newest, "Stop", durationMs=number + 1)
    old = record_run(session(here.root, "old"), "SessionEnd", durationMs=9)
    os.utime(old.path, (LONG_AGO_S, LONG_AGO_S))
    last = newest.path.read_bytes().splitlines(keepends=True)[-1]
    monkeypatch.setattr(hook_runs, "MAX_BYTES", 2 * len(last) - 1)
    assert ("ok", "Stop: called once, 59 min ago, median 3 ms, longest 3 ms") == messages(here)[-1]
    monkeypatch.undo()


def test_as_many_transcripts_as_there_may_be_are_read(here: Project) -> None:
    """Older ones than the newest twenty are left out."""
    for number in range(hook_runs.MAX_FILES + 5):
        record_run(session(here.root, f"s{number}"), "Stop")
    assert ("ok", "Stop: called 20 times, last 59 min ago") == messages(here)[-1]


@pytest.mark.parametrize(
    ("path", "name"), [("/home/me/my_shop.v2", "-home-me-my-shop-v2"), ("/é𝄞x", "----x"), ("C:\\a b", "C--a-b")]
)
def test_a_folder_is_named_as_the_agent_does(path: str, name: str) -> None:
    """Whatever is no ASCII letter and no digit becomes a hyphen, counted in UTF-16."""
    assert name == claude.folder_name(path)


# Cancelled and failed


def test_cancelled_hooks_are_told_by_event(here: Project) -> None:
    """How often, the last time and why; what gives them more time is said, by file."""
    path = install(here.root)
    script = record_run(session(here.root), "Stop", "hook_cancelled", at="10:00:00", timedOut=True)
    record_run(script, "Stop", "hook_cancelled", at="11:00:00")
    record_run(script, "SessionEnd", "hook_cancelled", at="11:30:00", timedOut=True)
    stop, end = findings(here)[-2:]
    assert ("note", "Stop: a hook was cancelled 2 times, last 59 min ago, 1 of them for taking too long") == stop[:2]
    assert f'`"timeout": 10` next to its command in {path} gives it 10 seconds; ' in stop[2]
    assert ("note", "SessionEnd: a hook was cancelled once, 29 min ago, for taking too long") == end[:2]
    assert end[2].endswith(" instead of a share of 1.5")


def test_a_cancelled_hook_that_has_no_name_may_be_ours(here: Project) -> None:
    """It is said that nobody knows, and only of events at which we are called."""
    install(here.root)
    script = session(here.root)
    for event in ("SessionEnd", "PreToolUse", "Notification"):
        record_run(script, event, "hook_cancelled", command="", hookEvent="")
    told = [message for _, message in messages(here) if "was cancelled" in message]
    assert ["SessionEnd: a hook was cancelled once, 59 min ago; the agent does not say whose hook"] == told


BLOCKED = {"blockingError": "sh: no", "command": "/x/tallybook hook"}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kind": "hook_non_blocking_error", "exitCode": 127, "stderr": "\nsh: no\nx"}, "ended with 127"),
        ({"kind": "hook_blocking_error", "command": "", "blockingError": BLOCKED}, "failed"),
        ({"kind": "hook_error_during_execution", "content": "sh: no"}, "failed"),
        ({"exitCode": 1, "stderr": "sh: no"}, "ended with 1"),
    ],
)
def test_a_hook_that_failed_is_bad_until_one_runs(here: Project, fields: dict[str, Any], says: str) -> None:
    """With the first line of what it said; once any of ours has run since, it is counted and no more."""
    path = install(here.root)
    script = record_run(session(here.root), "SessionStart", at="09:00:00")
    record_run(script, "Stop", at="10:00:00", **fields)
    level, message, hint = findings(here)[-1]
    assert ("bad", f"Stop: a hook {says}, once, 1 h ago: sh: no") == (level, message)
    assert f"write the command in {path} with its full path; this is shown until a hook runs" == hint
    record_run(script, "PostToolUse", at="10:30:00")
    assert ("ok", "Stop: called once, 1 h ago, failed") == messages(here)[-1]


def test_a_secret_in_what_failed_is_not_shown(here: Project) -> None:
    """What a shell says may hold the command line."""
    token = "ghp" + "_" + "aB3dE6gH9" * 4
    record_run(session(here.root), "Stop", "hook_non_blocking_error", exitCode=1, stderr=f"no {token}")
    assert "Stop: a hook ended with 1, once, 59 min ago: no [masked: GitHub Token]" == messages(here)[-1][1]
