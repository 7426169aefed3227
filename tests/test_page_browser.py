"""The page in a browser: what it shows is what the commands show, and its keys, links and commands lead there."""

from __future__ import annotations

from datetime import UTC, datetime
import json
from random import Random
import shlex
import shutil
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import attrs
import pytest

from helpers.browser import Tab, append, opened, write_history, write_page
from helpers.injections import injected
from helpers.page_example import write_example
from helpers.real_command import run
from tallybook.ledger.codec import decode
from tallybook.ledger.events import (
    EventsVoided,
    PlaybookUpdated,
    PointAdded,
    PointCited,
    PointPinned,
    PointRated,
    PointRetired,
)
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import moments, reading
from tallybook.projections.surfaces.page.document import ALTERNATIVES
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

    from tallybook.ledger.records import Batch, EventRecord


# A long history

EVENTS = 600
CLIPBOARD = ["clipboard-read", "clipboard-write"]


@pytest.fixture(scope="module")
def long(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tab, Project]:
    """Return the page of a long history, and its project."""
    folder = tmp_path_factory.mktemp("page") / "project"
    write_history(folder, EVENTS)
    tab = Tab(browser, write_page(folder))
    # The list has the rows in sight alone.
    tab.page.set_viewport_size({"width": 1440, "height": 2400})
    return tab, Project(folder)


def saved(tab: Tab, event: int, fragment: str = "") -> list[dict[str, Any]]:
    """Return what the page saves as JSON at an event."""
    tab.open(f"event={event}{fragment}")
    tab.at(event)
    with tab.page.expect_download() as download:
        tab.page.click("#save-json")
    answer = json.loads(download.value.path().read_bytes())
    assert event == answer["event"]
    rows: list[dict[str, Any]] = answer["rows"]
    return rows


def test_a_sample_of_moments_shows_what_show_at_prints(long: tuple[Tab, Project]) -> None:
    """Names, texts, counts and order at moments equal those of `show --at`."""
    tab, project = long
    lasts = [batch.last for batch in reading.batches(project)]
    for event in Random(3).sample(lasts, 4):  # noqa: S311 - the same moments in every run
        answer = json.loads(run(project, "show", "--at", str(event), "--json").out)
        keys = ("name", "text", "helpful", "harmful")
        expected = [{key: point[key] for key in keys} for point in answer["key_points"]]
        assert expected == [{key: row[key] for key in keys} for row in saved(tab, event)]


@pytest.mark.parametrize("stream", ["--policy final", "--half-life 30d"])
def test_a_policy_shows_its_own_playbook_and_marks_the_differences(
    long: tuple[Tab, Project], stream: str, tmp_path: Path
) -> None:
    """Under another policy the entries are those of the command that is shown, and each difference is marked."""
    tab, project = long
    book = commands.playbook(project).state
    rows = saved(tab, book.seq, f"&policy={stream}")
    command = tab.text("#command")
    assert 0 == run(project, *command.split()[1:], "--output", str(tmp_path / "a.json")).code
    other = json.loads((tmp_path / "a.json").read_bytes())["key_points"]
    keys = ("name", "text", "helpful", "harmful")
    assert [{key: point[key] for key in keys} for point in other] == [{key: row[key] for key in keys} for row in rows]
    marks = tab.page.locator("#entries .tag", has_text="only").all_inner_texts()
    assert bool({row["name"] for row in rows} ^ set(book.entries)) == bool(marks)
    # The page says what was computed, and the list of policies has each once.
    assert "What if: " in tab.text("#panel-note")
    names = tab.page.locator("#policy option").all_inner_texts()
    assert len(names) == len(set(names)) == len(ALTERNATIVES) + 1


# Moments that are typed


@pytest.fixture(scope="module")
def short(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tab, Project]:
    """Return a page of 8 events in 4 moments, a minute apart, with three sessions, and its project."""
    folder = tmp_path_factory.mktemp("page") / "project"
    log = opened(folder)
    append(log, [PointAdded("kpt_001", "Read the error first.")], "s2")
    for session in ("s3", "s4-a", "s3"):
        append(log, [PointRated("kpt_001", "helpful"), PlaybookUpdated(0, 1, 0)], session)
    return Tab(browser, write_page(folder), permissions=CLIPBOARD, timezone_id="UTC"), Project(folder)


def go(tab: Tab, words: str) -> None:
    """Type a moment into the dialog of g."""
    # A dialog that is closed gives the focus back in the next frame.
    tab.settle()
    tab.page.keyboard.press("g")
    tab.page.fill("#go-where", words)
    tab.page.keyboard.press("Enter")


def test_g_goes_where_at_goes(short: tuple[Tab, Project]) -> None:
    """Numbers, ~N, times, dates, ages and sessions lead to the moment that --at finds."""
    tab, project = short
    batches = list(reading.batches(project))
    tab.open("event=4")
    second = datetime.fromisoformat(batches[1].at)
    age = int((datetime.now(UTC) - second).total_seconds()) - 30
    sessions = ("session:s2", "session:s3", "session:s3+", "session:s4", "session:s4+")
    for when in ("7", "0", "~0", "~2", "2001-01-01", f"{second:%F %H:%M:59}", f"{age}s", "1s", "9999w", *sessions):
        go(tab, when)
        seq = moments.find(project, when).seq
        tab.at(max((batch.last for batch in batches if batch.last <= seq), default=0))
    # The address follows when the keys rest.
    tab.page.wait_for_timeout(300)


# Keys, links, search, and what can be copied and saved

UPDATE = PlaybookUpdated(0, 1, 0)


@pytest.fixture(scope="module")
def tab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Tab:
    """Return a page of 14 events in 9 moments, of which the last undoes the pin before it."""
    folder = tmp_path_factory.mktemp("page") / "project"
    log = opened(folder)
    append(log, [PointAdded("kpt_001", "Read the error first."), PointAdded("kpt_002", "=1+1"), UPDATE])
    append(log, [injected(("kpt_001",), 0)], "s2", "hook")
    append(log, [PointCited("kpt_001", "message")], "s2", "hook")
    for session in ("s2", "s3", "s4"):
        append(log, [PointRated("kpt_001", "harmful"), UPDATE], session)
    append(log, [PointPinned("kpt_002", "")], "s5", "human")
    *_, pinned = decode(log.read())
    append(log, [EventsVoided((pinned.records[0].id,), None, "")], "s5", "human")
    return Tab(browser, write_page(folder), permissions=CLIPBOARD)


def fragment(tab: Tab) -> dict[str, str]:
    """Return what the address says, once the page wrote it there."""
    tab.page.wait_for_timeout(300)
    return {key: values[0] for key, values in parse_qs(tab.page.url.partition("#")[2]).items()}


def test_keys_move_through_moments(tab: Tab) -> None:
    """Home, j, k and End go to the moments that they name."""
    tab.open("event=6")
    for key, event in [("k", 5), ("k", 4), ("j", 5), ("Home", 0), ("k", 0), ("j", 1), ("j", 4), ("End", 14), ("j", 14)]:
        tab.page.keyboard.press(key)
        tab.at(event)


def test_every_state_has_a_link_that_opens_it_again(tab: Tab) -> None:
    """Moment, entry, view, policy, comparison and filters are in the fragment, and a new page opens at them."""
    link = "event=12&entry=kpt_001&tab=former&since=4&policy=--policy+final&q=kpt_001&kind=point.rated"
    tab.open(link)
    tab.page.reload()
    tab.at(12, entry="kpt_001", tab="former", policy="--policy final")
    tab.page.keyboard.press("k")
    expected = {key: values[0] for key, values in parse_qs(link).items()}
    assert expected | {"event": "10"} == fragment(tab)
    assert "kpt_001" == tab.page.input_value("#query")
    assert "3 of 14 events match" in tab.text("#events-note")


def test_a_moment_says_what_its_batch_and_its_update_did(tab: Tab) -> None:
    """A batch is one step with its parts, and the entry that its update pruned is named and struck out."""
    tab.open("event=12")
    assert "One batch: 2 events" in tab.text("#change")
    assert "pruned, harmful 2 → 3" in tab.text("#change")
    assert ["kpt_001"] == tab.page.locator("#entries .left .name").all_inner_texts()
    tab.open("event=14")
    assert "undone by 14" in tab.text("#event-list .undone")
    tab.open("event=13")
    assert "until 14" in tab.text("#event-list")


def test_one_search_finds_names_texts_sessions_raters_and_kinds(tab: Tab) -> None:
    """Words narrow the events and the entries; each may be anywhere, and all must be there."""
    for words, events, entries in [
        ("kpt_002", 3, 1),
        ("error", 6, 1),
        ("s3", 2, 0),
        ("hook", 2, 0),
        ("rated harmful", 3, 0),
        ("s4 update", 1, 0),
        ("nothing", 0, 0),
    ]:
        tab.open("event=10")
        tab.page.fill("#query", words)
        tab.page.locator("#events-note", has_text=f"{events} of 14 events match").wait_for()
        assert entries == tab.page.locator("#entries [role=option]").count(), words


@pytest.mark.parametrize(
    ("link", "command"),
    [
        ("event=10", "tallybook show --at 10"),
        ("event=10&since=4", "tallybook diff 4 10"),
        ("event=10&tab=former", "tallybook show --gone --at 10"),
        ("event=10&tab=lives&entry=kpt_001", "tallybook why --at 10 kpt_001"),
        ("event=10&policy=--policy+final", "tallybook what-if --policy final --at 10"),
        ("event=10&tab=sessions", "tallybook log --since 8 --until 10"),
        ("event=10&tab=sessions&session=s3", "tallybook log --session=s3"),
    ],
)
def test_each_view_has_the_command_that_prints_the_same(tab: Tab, link: str, command: str) -> None:
    """The command line of a view is shown, and its button copies it."""
    tab.open(link)
    assert command == tab.text("#command")
    tab.page.click("#copy-command")
    assert command == tab.page.evaluate("navigator.clipboard.readText()")


def test_cells_that_a_spreadsheet_would_run_are_escaped(tab: Tab) -> None:
    """CSV has what is shown; a cell that begins as a formula does begins with an apostrophe."""
    tab.open("event=4")
    with tab.page.expect_download() as download:
        tab.page.click("#save-csv")
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert "name,status,helpful,harmful,pinned,text" == lines[0]
    assert "kpt_002,kept,0,0,false,'=1+1" == lines[2]
    with tab.page.expect_download() as download:
        tab.page.click("#save-json")
    answer = json.loads(download.value.path().read_bytes())
    assert (4, "own", "playbook") == (answer["event"], answer["policy"], answer["view"])


# What a moment says that it did, and the commands that undo it


@attrs.frozen
class Example:
    """The page of the invented project, and its history."""

    browser: Browser
    tab: Tab
    folder: Path
    batches: list[Batch]

    @property
    def records(self) -> list[EventRecord]:
        """Return the events."""
        return [record for batch in self.batches for record in batch.records]

    @property
    def lasts(self) -> list[int]:
        """Return the last event of each moment."""
        return [batch.last for batch in self.batches]

    def end_of(self, event: int) -> int:
        """Return the last event of the moment that has an event."""
        return next(last for last in self.lasts if last >= event)

    def first(self, kind: type) -> EventRecord:
        """Return the first event of a kind."""
        return next(record for record in self.records if isinstance(record.event, kind))


@pytest.fixture(scope="module")
def example(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Example:
    """Return the page of the invented project."""
    folder = tmp_path_factory.mktemp("page") / "parser"
    batches = list(decode(write_example(folder).read()))
    return Example(browser, Tab(browser, write_page(folder)), folder, batches)


def undo_commands(example: Example, event: int) -> list[str]:
    """Return the commands that a moment offers."""
    example.tab.open(f"event={event}")
    return [*example.tab.page.locator("#change .copy code").all_inner_texts()]


def test_the_command_that_a_moment_offers_undoes_it(example: Example, tmp_path: Path) -> None:
    """A moment whose batch ends with an update has one command, and the undo of that command is of all its events."""
    retired, undo = example.first(PointRetired).seq, example.first(EventsVoided)
    assert [f"tallybook undo {retired}"] == undo_commands(example, retired)
    # A moment that is undone already is brought back by the number of that undo, as is the undo's own moment.
    for event in (undo.seq - 1, undo.seq):
        assert [f"tallybook undo {undo.seq}"] == undo_commands(example, event)
    rated = example.end_of(example.first(PointRated).seq)
    (command,) = undo_commands(example, rated)
    copy = tmp_path / "copy"
    shutil.copytree(example.folder, copy)
    done = run(Project(copy), *shlex.split(command)[1:])
    assert 0 == done.code
    size = rated - max(last for last in [0, *example.lasts] if last < rated)
    assert size == len([line for line in done.out.splitlines() if line.startswith("undone: ")])


def test_every_session_has_a_command_that_undo_takes(example: Example, tmp_path: Path) -> None:
    """A session with something to undo has the command; that of an undone session brings it back."""
    copy = tmp_path / "copy"
    shutil.copytree(example.folder, copy)
    assert 0 == run(Project(copy), "undo", "--of=session-01").code
    tab = Tab(example.browser, write_page(copy))
    last = example.lasts[-1] + 1
    for session, command in [("session-01", f"undo {last}"), ("session-02", "undo --of=session-02")]:
        tab.open(f"tab=sessions&session={session}")
        assert f"tallybook {command}" == tab.page.locator("#session .copy code").first.inner_text()
        assert 0 == run(Project(copy), *shlex.split(command), "--reason", "a test").code
    tab.page.context.close()


# What a person sees on opening, and on a narrow screen


def test_a_tap_on_a_narrow_screen_goes_to_the_story(example: Example) -> None:
    """At 400 pixels the story is far below the list, and a tap on an entry brings it into sight."""
    example.tab.page.set_viewport_size({"width": 400, "height": 860})
    example.tab.open("")
    assert 0 == example.tab.page.evaluate("scrollY")
    example.tab.page.locator("#entries [role=option]").nth(1).click()
    example.tab.page.wait_for_function("document.getElementById('why').getBoundingClientRect().top < innerHeight / 3")
    box, bar = example.tab.page.locator("#why h2").bounding_box(), example.tab.page.locator("#film").bounding_box()
    assert box is not None
    assert bar is not None
    assert box["y"] >= bar["y"] + bar["height"]
    example.tab.page.set_viewport_size({"width": 1440, "height": 900})
