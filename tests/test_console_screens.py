"""Output for people: tables and stories that fit 40 columns, without colour and without UTF-8."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import json
import os
from pathlib import Path
import re
import subprocess
import sys
import time
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from helpers.commands import ROOT, Run
from helpers.events import HUMAN
from helpers.git_repositories import git
from helpers.screens import AT, BRIEF, KEPT, NOTE, PRUNED, RELATIVE, WIDTHS, render_screen
from helpers.shared_clones import Machine, make_clones
from helpers.transcripts import Script
from tallybook.ledger import clock
from tallybook.ledger.line import Draft
from tallybook.ledger.log import JsonlLog
from tallybook.projections.surfaces.console import output, story_text, terminal
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

POINTS: list[dict[str, Any]] = [
    {"name": "kpt_001", "text": "Use type hints " * 8, "helpful": 9, "harmful": 1},
    {"name": "kpt_002", "text": "Prefer pathlib", "helpful": 0, "harmful": 0},
    {"name": "kpt_003", "text": "Mock — everything…", "helpful": 1, "harmful": 3},
]

GRAVE = {"status": "merged", "rule": None, "reason": "both say it", "into": "kpt_001", "event": BRIEF}

CHANGES = [
    ("+", "kpt_004  0 helpful and 0 harmful"),
    ("-", "kpt_003  pruned at event 812"),
    ("", f"Write tests… {'x' * 90}"),
]

SCREENS: dict[str, Callable[[Console], object]] = {
    "playbook": lambda console: terminal.print_playbook(console, POINTS, AT),
    "story": lambda console: story_text.print_story(console, PRUNED | {"lineage": [RELATIVE], "notes": [NOTE]}),
    "blame": lambda console: terminal.print_blame(console, [POINTS[2] | {"event": BRIEF}]),
    "graveyard": lambda console: terminal.print_graveyard(console, [POINTS[2] | GRAVE]),
    "answer": lambda console: terminal.print_rows(console, ["name", "…"], [["kpt_001", None], ["—", 3.5]] * 3),
    "log": lambda console: terminal.print_log_rows(console, [BRIEF]),
    "changes": lambda console: terminal.print_changes(console, "From 3", "to 9", CHANGES, "1 gone"),
    "line": lambda console: terminal.print_line(console, "line 3, seq 3: was changed…"),
}
screens = pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS)


@WIDTHS
@pytest.mark.parametrize("name", ["playbook", "story", "changes", "graveyard", "answer"])
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    """Tables and stories wrap, even at 40 columns."""
    assert max(map(cell_len, render_screen(SCREENS[name], width).splitlines())) <= width


def test_a_width_of_nothing_counts_as_none(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where COLUMNS is 0, as in some jobs of CI, the playbook is printed all the same."""
    commands.add(Project(project), "Use type hints", HUMAN)
    monkeypatch.setenv("COLUMNS", "0")
    assert "Use type hints" in run("show").out


def test_an_own_event_is_shown_when_it_was_recorded() -> None:
    """A row of the log has when a shared event happened; of an own event that came late, when it was recorded."""
    row = {"at": "2026-01-02T00:00:00.000000Z", "when": "2026-01-01T00:00:00.000000Z"}
    own, shared = row | {"by": {"rater": "human"}}, row | {"by": {"rater": "human", "writer": "anna-1f2e3d4c"}}
    assert [row["at"], row["when"]] == [output.read_event_time(own), output.read_event_time(shared)]


@WIDTHS
@screens
def test_a_terminal_without_utf_8_gets_ascii(screen: Callable[[Console], object], width: int) -> None:
    """Boxes, bars and texts use the characters of the encoding, and nothing fails."""
    text = render_screen(screen, width, "ascii")
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
    assert expected in render_screen(lambda console: terminal.print_playbook(console, [point], None), width)
    assert expected in render_screen(lambda console: story_text.print_story(console, KEPT | {"text": text}), width)


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


# Commands on a terminal: progress that is cleared before the answer, a pager, and Ctrl-C without a traceback.


AT_ONCE = """
from tallybook.projections.surfaces.console import output
output.DELAY_S = 0.0
from tallybook.__main__ import main
main()
"""
CLEARED = "\x1b[2K"
ANSI = re.compile(r"\x1b\[[0-9;]*m")
"""What a terminal is sent to clear a line."""


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with three entries, of which one has a rating."""
    place = Project(project)
    for text in ("Quote ids.", "Name the unit.", "Test first."):
        commands.add(place, text, HUMAN)
    commands.rate(place, "kpt_001", "harmful", HUMAN)
    return place


def read_all(terminal: int) -> str:
    """Return what was written to a terminal until its other end was closed."""
    pieces = b""
    try:
        while piece := os.read(terminal, 4096):
            pieces += piece
    except OSError:
        # Linux says so where the other end is closed.
        pass
    os.close(terminal)
    return pieces.decode()


def run_with_error_terminal(project: Project, words: list[str]) -> tuple[int, str, str]:
    """Run a command whose error output is a terminal; return its exit code, its output, and what the terminal got."""
    ours, theirs = os.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "CLAUDE_PROJECT_DIR": str(project.root)}
    command = [sys.executable, "-c", AT_ONCE, *words]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, text=True, env=environment
    ) as process:
        os.close(theirs)
        out, _ = process.communicate(timeout=60)
    return process.returncode, out, read_all(ours)


def run_on_terminal(project: Project, words: list[str], pager: str, delay_s: str = "600.0") -> str:
    """Run a command whose output is a terminal, with a pager; return what the terminal got."""
    ours, theirs = os.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "CLAUDE_PROJECT_DIR": str(project.root)}
    # A busy machine must not make the command slow enough to show its progress.
    command = [sys.executable, "-c", AT_ONCE.replace("0.0", delay_s), *words]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment | {"PAGER": pager}
    ) as process:
        os.close(theirs)
        shown = read_all(ours)
        process.wait(timeout=60)
    return shown


@pytest.mark.parametrize("words", [["replay"], ["why", "kpt_001"], ["log"]], ids=lambda words: words[0])
def test_a_long_read_shows_progress_and_clears_it(here: Project, words: list[str]) -> None:
    """A command that reads for longer than the delay shows its progress, and its answer is the same."""
    for _ in range(3):
        commands.record(here, {"evaluations": [{"name": "kpt_002", "rating": "neutral"}] * 2000}, HUMAN)
    code, out, terminal = run_with_error_terminal(here, words)
    assert (0, True) == (code, "%" in terminal), terminal
    # The last that the terminal got about it is that the line is cleared.
    assert "%" not in terminal.rpartition(CLEARED)[2]
    assert CLEARED in terminal
    assert "\x1b" not in out
    assert "%" not in out


@pytest.mark.parametrize("verb", ["log", "show"])
def test_log_and_show_on_a_terminal_are_paged(here: Project, run: Run, tmp_path: Path, verb: str) -> None:
    """If the output is a terminal, `log` and `show` go through PAGER; with --json they do not."""
    page = tmp_path / "page"
    pager = f"tee {page}"
    shown = run_on_terminal(here, [verb], pager)
    written = page.read_text(encoding="utf-8")
    assert written == shown.replace("\r\n", "\n")
    # A terminal's lines end at its width, and a pipe's where the text does.
    assert run(verb).out.split() == ANSI.sub("", written).split()
    page.unlink()
    assert run(verb, "--json").out == run_on_terminal(here, [verb, "--json"], pager).replace("\r\n", "\n")
    assert not page.exists()


def test_no_progress_is_shown_between_the_lines_of_an_answer(here: Project) -> None:
    """Of a log as JSON on a terminal, progress is gone once the first line is there."""
    for _ in range(3):
        commands.record(here, {"evaluations": [{"name": "kpt_002", "rating": "neutral"}] * 2000}, HUMAN)
    _, _, lines = run_on_terminal(here, ["log", "--json"], "cat", "0.0").partition('{"seq"')
    assert 6000 < lines.count("\n")
    assert "\x1b" not in lines


# Sends the signal at the moment at which a module is looked for.
WATCHED = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)

_, wanted, *words = sys.argv
sys.meta_path.insert(0, Finder())
sys.argv = ["tallybook", *words]
from tallybook.__main__ import main
main()
"""


def interrupt_at(module: str, *words: str) -> tuple[int, str, str]:
    """Run a command that gets Ctrl-C when it loads a module; return its exit code and its output."""
    command = [sys.executable, "-c", WATCHED, module, *words]
    done = subprocess.run(command, input="{}", capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("module", "verb", "code", "said"),
    [
        ("tallybook.projections.surfaces.cli.everyday", "show", 130, "tallybook: interrupted\n"),
        ("click", "log", 130, "tallybook: interrupted\n"),
        ("tallybook.hook", "hook", 0, ""),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_command_interrupted_while_it_loads_reports_that(module: str, verb: str, code: int, said: str) -> None:
    """Whichever module is loaded, a command prints one line and exits with 130; a hook prints none and exits with 0."""
    assert (code, "", said) == interrupt_at(module, verb)


@pytest.mark.usefixtures("project")
def test_a_hook_interrupted_while_it_works_ends_with_0() -> None:
    """A hook that already handles its payload exits with 0 as well."""
    program = "import os\nfrom tallybook.projections.surfaces.hooks import handler\n"
    program += "handler.handle = lambda _: os.kill(os.getpid(), 2)\nhandler.main(['claude'])"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input="{}", capture_output=True, text=True, check=False)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


def test_a_command_interrupted_after_it_recorded_reports_that(project: Path) -> None:
    """The message says that the events are recorded and must not be sent again."""
    # It is loaded for what the new entry resembles.
    code, _, said = interrupt_at("tallybook.projections.history.review", "add", "Quote ids.")
    assert (130, f"tallybook: interrupted; {output.RECORDED}\n") == (code, said)
    assert ["Quote ids."] == [point["text"] for point in commands.show(Project(project))["key_points"]]


# A person's consent: what publishes or destroys asks on a terminal, needs `--yes` off one, and is no agent's.


INSIDE = {"CLAUDECODE": "1"}


def refs(remote: Path) -> str:
    """Return the refs of a repository, each with its commit."""
    return str(git(remote, "for-each-ref"))


@pytest.fixture
def clone(tmp_path: Path) -> tuple[Path, Machine]:
    """Return a remote and a machine with a clone of it, whose playbook has an entry."""
    remote, (machine,) = make_clones(tmp_path, "anna")
    machine.do("add", "Use type hints")
    return remote, machine


@pytest.mark.parametrize(("typed", "is_shared"), [("\n", False), ("n\n", False), ("y\n", True)])
def test_sharing_on_a_terminal_asks_and_takes_return_for_no(
    clone: tuple[Path, Machine], typed: str, *, is_shared: bool
) -> None:
    """`share git` on a terminal asks; only a yes publishes, and return alone is a no."""
    remote, machine = clone
    before = refs(remote)
    lines = "\n".join(machine.at_terminal("share", "git", typed=typed))
    assert "Share it? [y/N]" in lines
    assert is_shared == (before != refs(remote))
    assert is_shared != ("share git: not confirmed; nothing was changed" in lines)


def test_the_terminal_of_an_agent_is_no_place_to_ask(clone: tuple[Path, Machine]) -> None:
    """Inside an agent that gives its commands a terminal, `share git` and `init` ask nothing and publish nothing."""
    remote, machine = clone
    before = refs(remote)
    machine.environment |= INSIDE
    said = "\n".join([*machine.at_terminal("share", "git", typed="y\n"), *machine.at_terminal("init", typed="y\n" * 3)])
    assert "only a person may do this" in said
    assert "[y/N]" not in said
    assert before == refs(remote)


def test_an_agent_may_see_what_a_rater_would_be_sent(clone: tuple[Path, Machine], tmp_path: Path) -> None:
    """Inside an agent `reflect --dry-run` prints the prompts for a folder of transcripts, and sends nothing."""
    _, machine = clone
    old = tmp_path / "old"
    old.mkdir()
    Script(old / "a.jsonl", "a").user("Hello", timestamp="2026-11-20T10:00:00.000Z")
    machine.environment |= INSIDE
    assert 0 == machine.run("reflect", "--from", str(old), "--rater", "claude", "--dry-run").code
