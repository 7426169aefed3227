"""The page in a browser: g goes to the moments that --at names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pytest

from helpers.browser import Tab, append, chromium, opened, write_page
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.events import PlaybookUpdated, PointAdded, PointRated
from tallybook.projections.surfaces.history import moments
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tallybook.ledger.records import Batch

EVENTS = 8


class Opened(NamedTuple):
    """A page, and the project that it is of."""

    tab: Tab
    browser: Browser
    project: Project
    batches: list[Batch]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """Return a page of 8 events in 4 moments, a minute apart, with three sessions."""
    folder = tmp_path_factory.mktemp("page") / "project"
    log = opened(folder)
    append(log, [PointAdded("kpt_001", "Read the error first.")], "s2")
    for session in ("s3", "s4-a", "s3"):
        append(log, [PointRated("kpt_001", "helpful"), PlaybookUpdated(0, 1, 0)], session)
    with chromium() as browser:
        tab = Tab(browser, write_page(folder), permissions=["clipboard-read", "clipboard-write"], timezone_id="UTC")
        yield Opened(tab, browser, Project(folder), [*decode(log.read())])


def go(tab: Tab, words: str) -> None:
    """Type a moment into the dialog of g."""
    # A dialog that is closed gives the focus back in the next frame.
    tab.settle()
    tab.page.keyboard.press("g")
    tab.page.fill("#go-where", words)
    tab.page.keyboard.press("Enter")


def test_g_goes_where_at_goes(shown: Opened) -> None:
    """Numbers, ~N, times, dates, ages and sessions lead to the moment that --at finds."""
    tab, _, project, batches = shown
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


def test_g_says_why_there_is_no_such_moment(shown: Opened) -> None:
    """Other words, numbers outside the history and unknown or several sessions are refused."""
    tab = shown.tab
    tab.open("event=4")
    for words, reason in [
        ("soon", "That is not a moment: give"),
        ("99", f"The history has {EVENTS} events."),
        ("~15", f"The history has {EVENTS} events."),
        ("session:nobody", "No session has an id that begins with it."),
        ("session:s", "Several sessions have an id that begins with it."),
        ("session:", "No session has an id that begins with it."),
        ("git:$(touch x)", "The page has no commits"),
        ("git:it's", "The page has no commits"),
    ]:
        go(tab, words)
        assert tab.text("#go-error").startswith(reason), words
        assert 0 == tab.page.locator("#go-command code").count()
        tab.page.keyboard.press("Escape")
    tab.at(4)


def test_g_has_the_command_that_opens_a_commit(shown: Opened) -> None:
    """The page has no commits; the command for one is quoted, can be copied, and leaves the dialog open."""
    tab = shown.tab
    tab.open("event=4")
    for words, line in [
        ("git:v1.0", "tallybook page --at git:v1.0"),
        ("git:HEAD~2", "tallybook page --at 'git:HEAD~2'"),
    ]:
        go(tab, words)
        assert line == tab.text("#go-command code")
        tab.page.click("#go-command button")
        assert line == tab.page.evaluate("navigator.clipboard.readText()")
        assert tab.page.locator("#go-dialog").is_visible()
        tab.page.keyboard.press("Escape")
