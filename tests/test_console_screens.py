"""Output for people: tables and stories that fit 40 columns, without colour and without UTF-8."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import json
from pathlib import Path
import re
import time
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from helpers.command_line import Run
from helpers.screens import AT, BRIEF, KEPT, NOTE, PRUNED, RELATIVE, WIDTHS, shown
from tallybook.ledger import clock
from tallybook.ledger.line import Draft
from tallybook.ledger.log import JsonlLog
from tallybook.projections.surfaces.console import output, story_text, terminal
from tallybook.projections.surfaces.workspace.project import Project

POINTS: list[dict[str, Any]] = [
    {"name": "kpt_001", "text": "Use type hints " * 8, "helpful": 9, "harmful": 1},
    {"name": "kpt_002", "text": "Prefer pathlib", "helpful": 0, "harmful": 0},
    {"name": "kpt_003", "text": "Mock — everything…", "helpful": 1, "harmful": 3},
]

GRAVE = {"status": "merged", "rule": None, "reason": "both say it", "into": "kpt_001", "event": BRIEF}


def ignore(_: object) -> None:
    """Ignore an answer: only the screen counts."""


CHANGES = [
    ("+", "kpt_004  0 helpful and 0 harmful"),
    ("-", "kpt_003  pruned at event 812"),
    ("", f"Write tests… {'x' * 90}"),
]

SCREENS: dict[str, Callable[[Console], None]] = {
    "playbook": lambda console: terminal.print_playbook(console, POINTS, AT),
    "story": lambda console: story_text.print_story(console, PRUNED | {"lineage": [RELATIVE], "notes": [NOTE]}),
    "blame": lambda console: terminal.print_blame(console, [POINTS[2] | {"event": BRIEF}]),
    "graveyard": lambda console: terminal.print_graveyard(console, [POINTS[2] | GRAVE]),
    "answer": lambda console: ignore(terminal.print_rows(console, ["name", "…"], [["kpt_001", None], ["—", 3.5]] * 3)),
    "log": lambda console: terminal.print_log_rows(console, [BRIEF]),
    "changes": lambda console: terminal.print_changes(console, "From 3", "to 9", CHANGES, "1 gone"),
    "line": lambda console: terminal.print_line(console, "line 3, seq 3: was changed…"),
}
screens = pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS)


@WIDTHS
@pytest.mark.parametrize("name", ["playbook", "story", "changes", "graveyard", "answer"])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    """Tables and stories wrap, even at 40 columns."""
    assert max(map(cell_len, shown(SCREENS[name], width).splitlines())) <= width


@WIDTHS
@screens
def test_a_terminal_without_utf_8_gets_ascii(screen: Callable[[Console], None], width: int) -> None:
    """Boxes, bars and texts use the characters of the encoding, and nothing fails."""
    text = shown(screen, width, "ascii")
    assert text.isascii()
    assert text.strip()


@WIDTHS
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[bold]x[/bold] [link=f]", "[bold]x[/bold] [link=f]"),
        ("[/]", "[/]"),
        (":smile: and :boom:", ":smile: and :boom:"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nkpt_9", r"a\nkpt_9"),
        ("a\rb\tc\x07\x9bd", r"a\rb\tc\x07\x9bd"),
        ("\u202eright to left", r"\u202eright to left"),
        ("\ud800half", r"\ud800half"),
        ("日本語", "日本語"),
    ],
)
def test_a_text_is_shown_literally(text: str, expected: str, width: int) -> None:
    """Markup, emoji names, control characters and reversed text are shown, never interpreted."""
    point = {"name": "kpt_001", "text": text, "helpful": 0, "harmful": 0}
    assert expected in shown(lambda console: terminal.print_playbook(console, [point], None), width)
    assert expected in shown(lambda console: story_text.print_story(console, KEPT | {"text": text}), width)


@pytest.fixture
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a test in the zone that it names."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process is changed on POSIX")
@pytest.mark.parametrize(
    ("zone", "at", "expected"),
    [
        ("Europe/Berlin", "2026-11-21T20:17:03.123456Z", "2026-11-21 21:17+01:00"),
        ("Europe/Berlin", "2026-07-21T22:30:00.000000Z", "2026-07-22 00:30+02:00"),
        ("America/St_Johns", "2026-11-21T20:17:03.123456Z", "2026-11-21 16:47-03:30"),
        ("UTC", "2026-11-21T20:17:03.123456Z", "2026-11-21 20:17 UTC"),
    ],
    indirect=["zone"],
)
@pytest.mark.usefixtures("zone")
def test_people_see_local_time_and_programs_utc(project: Path, run: Run, at: str, expected: str) -> None:
    """People see the local zone with its offset, `--at` accepts what was shown, and JSON has UTC."""
    now = clock.to_unix_us(at)
    log = JsonlLog(Project(project).ledger, lambda: clock.moment(now))
    point = Draft("point.added", 1, {"name": "kpt_001"}, {"text": "Quote ids."})
    with log.transaction() as transaction:
        transaction.append([point], {"rater": "test"})
    log.close()
    assert expected == output.format_time(at)
    assert [expected, expected] == re.findall(r"20\d\d-\S* \S*(?: UTC)?(?=  )", run("log").out)
    assert [at, at] == [json.loads(line)["at"] for line in run("log", "--json").out.splitlines()]
    minute_later = clock.moment(now + 60 * clock.MICROSECONDS).at
    shown = run("log", "--until", output.format_time(minute_later), "--json").out
    assert 2 == len(shown.splitlines())
