"""The page in a browser: scores, quotes, pages without texts, and pages that a server keeps up to date."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from helpers.browser import Tab, append, chromium, opened, write_page
from helpers.real_command import run
from helpers.score_examples import record_example
from tallybook.ledger.events import PlaybookUpdated, PointAdded, PointRetired
from tallybook.projections.surfaces.page.server import REFUSED
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

SERVE = [sys.executable, "-m", "tallybook", "page", "--serve", "--json"]


class Served(NamedTuple):
    """A server of a page, and its address."""

    process: subprocess.Popen[str]
    address: str


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return Chromium."""
    with chromium() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a project with a retired entry and a reason."""
    made = tmp_path / "project"
    log = opened(made)
    append(log, [PointAdded("kpt_001", "A text of an entry."), PlaybookUpdated(1, 0, 0)], "secret-session")
    append(log, [PointRetired("kpt_001", "A reason in words.")], "secret-session", "human")
    return made


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    """Return a running server of the page of that project."""
    process = subprocess.Popen(SERVE, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield Served(process, json.loads(process.stdout.readline())["address"])
    process.kill()
    process.communicate()


def test_scores_lie_under_the_axis_with_the_values_of_the_command(browser: Browser, tmp_path: Path) -> None:
    """Each score of the latest day is in a chart and in a table, as `score` prints it."""
    (tmp_path / ".claude").mkdir()
    record_example(tmp_path)
    tab = Tab(browser, write_page(tmp_path))
    tab.open("tab=scores")
    answer = json.loads(run(Project(tmp_path), "score", "--json").out)
    rows = tab.page.locator("#charts tbody tr").evaluate_all(CELLS)
    values = {float(row[1]) for row in rows if row[1] != "no data"}
    assert {*map(float, answer["component_scores"].values())} <= {float(round(value)) for value in values}
    assert {answer["date"]} == {row[2] for row in rows if row[2]}
    charts = tab.page.locator("#charts svg.chart")
    assert 3 == charts.count()
    box = charts.first.bounding_box()
    assert box is not None
    charts.first.click(position={"x": 20, "y": box["height"] / 2})
    # The example is of a day long before its events were recorded.
    tab.at(0)
    tab.page.context.close()


CELLS = "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"


def test_quotes_are_shown_where_the_page_has_them(browser: Browser, folder: Path) -> None:
    """A reason is next to its event with --with-quotes, and nowhere without."""
    for with_quotes in (True, False):
        tab = Tab(browser, write_page(folder, with_quotes=with_quotes))
        assert with_quotes == ("A reason in words." in tab.text("#change"))
        tab.page.context.close()


def test_a_page_without_texts_says_so(browser: Browser, folder: Path) -> None:
    """Without texts the page shows names and counts, says that texts are missing, and has no command of a session."""
    tab = Tab(browser, write_page(folder, with_texts=False))
    tab.open("entry=kpt_001&tab=sessions&session=1")
    assert "made without texts" in tab.text("#why")
    assert "no command, because the page was made without texts" in tab.text("#session")
    content = tab.page.content()
    assert [] == [words for words in ("secret-session", "A text of an entry") if words in content]
    tab.page.context.close()


def test_a_served_page_follows_its_ledger_and_says_when_the_server_ends(
    browser: Browser, folder: Path, served: Served
) -> None:
    """The address loses its token; a new event appears without a hand; after the server's end the page says so."""
    page = browser.new_context().new_page()
    noise: list[str] = []
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.goto(served.address)
    page.locator('body[data-event="4"]').wait_for(state="attached")
    assert served.address.partition("?")[2] not in page.url
    run(Project(folder), "add", "A later text.")
    page.locator("#entries", has_text="A later text.").wait_for()
    served.process.kill()
    page.locator("#warning", has_text="The server of this page has ended").wait_for()
    assert [] == noise
    page.context.close()


def test_a_reload_works_and_a_second_browser_is_told_how_to_get_in(browser: Browser, served: Served) -> None:
    """With its cookie a browser loads the page again; one with the used address is told to use the next one."""
    first, second = browser.new_context().new_page(), browser.new_context().new_page()
    first.goto(served.address)
    first.reload()
    first.locator('body[data-event="4"]').wait_for(state="attached")
    second.goto(served.address)
    assert REFUSED == second.locator("body").inner_text().strip()
    assert served.process.stdout is not None
    second.goto(json.loads(served.process.stdout.readline())["address"])
    second.locator('body[data-event="4"]').wait_for(state="attached")
    for page in (first, second):
        page.context.close()


def test_a_text_that_is_redacted_leaves_a_served_page(browser: Browser, folder: Path, served: Served) -> None:
    """After a redaction the page warns and shows the text no longer, also while a dialog is open."""
    page = browser.new_context().new_page()
    page.goto(served.address)
    page.locator('body[data-event="4"]').wait_for(state="attached")
    page.keyboard.press("1")
    page.keyboard.press("g")
    words = ("--text", "A text of an entry.", "--reason", "a name", "--yes", "--expect", "1")
    assert 0 == run(Project(folder), "redact", *words).code
    page.locator("#warning", has_text="the texts of 1 event are redacted").wait_for()
    page.locator('body[data-event="5"]').wait_for(state="attached")
    assert "A text of an entry" not in page.content()
    page.context.close()
