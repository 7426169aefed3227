"""The lanes of a shared project's page: what they say, and how a browser shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from helpers.browser import Tab, chromium, write_page
from helpers.shared_machines import HUMAN, make_machines, make_pair
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.page.lanes import read_lanes
from tallybook.projections.surfaces.sharing.shared_log import SharedLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WIDTHS = (360, 2560)


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """Return the page of a machine that shares with another one and has a pending rating."""
    anna, _ = make_pair(tmp_path_factory.mktemp("machines"))
    with chromium() as browser:
        yield Tab(browser, write_page(anna.project.root))


def test_each_lane_is_named_for_a_screen_reader(tab: Tab) -> None:
    """The section, each machine and each drawing have a name that says what the drawing shows."""
    assert "Machines" == tab.text("#lanes h2")
    assert ["anna-0a1b2c3d", "ben-0a1b2c3d", "pending"] == tab.page.locator("#lanes h3").all_inner_texts()
    images: Any = tab.page.get_by_role("img", name="came in here")
    assert 2 == images.count()
    assert 1 == tab.page.get_by_role("img", name="pending: 2 events, done from ").count()
    assert [] == tab.noise


def test_the_latest_events_of_a_lane_are_text(tab: Tab) -> None:
    """A lane lists its latest events by `book:N`: what each did, when it was done, and when it came in here."""
    rows = tab.page.locator("#lanes ul").nth(1).locator("li").all_inner_texts()
    assert 5 == len(rows)
    assert rows[1].startswith("book:16 kpt_003 rated helpful: done ")
    assert rows[1].endswith(" by event 9")
    assert tab.page.locator("#lanes ul").nth(2).locator("li").first.inner_text().endswith(", pending")


@pytest.mark.parametrize("width", WIDTHS)
def test_lanes_fit_every_width(tab: Tab, width: int) -> None:
    """Nothing scrolls sideways."""
    tab.page.set_viewport_size({"width": width, "height": 900})
    tab.settle()
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert 0 == tab.page.evaluate(wide)


def test_the_page_has_a_lane_for_each_writer(tmp_path: Path) -> None:
    """The page says of each machine when it did things and by which own event they came in here, and what is pending.

    Without texts it has no labels of machines.
    """
    anna, _ = make_pair(tmp_path)
    lanes = read_lanes(SharedLog(anna.project.ledger))
    assert ["anna-0a1b2c3d", "ben-0a1b2c3d", "pending"] == [*lanes]
    rated = next(one for one in lanes["ben-0a1b2c3d"] if one.name == "book:16")
    rows = {row.get("book") or row["seq"]: row for row in anna.lines("log")}
    taken = {row["seq"]: row["at"] for row in anna.lines("log", "--kind", "book.taken")}
    assert ("kpt_003 rated helpful", 9, taken[9]) == (rated.words, rated.by, rated.came)
    assert rated.when == (rows[16].get("when") or rows[16]["at"])
    assert [("10", ""), ("11", "")] == [(one.name, one.came) for one in lanes["pending"]]
    file = tmp_path / "page.html"
    anna.json("page", "--output", str(file))
    text = file.read_text(encoding="utf-8")
    assert [1, 1] == [
        text.count('<section id="lanes" aria-labelledby="lanes-title">'),
        text.count("<bdi>pending</bdi>"),
    ]
    assert "<bdi>ben-0a1b2c3d</bdi>" in text
    anna.json("page", "--output", str(file), "--force", "--without-texts")
    text = file.read_text(encoding="utf-8")
    assert ["<bdi>machine 2</bdi>" in text, "ben-0a1b2c3d" in text] == [True, False]


def test_the_page_without_sharing_has_no_lanes(tmp_path: Path) -> None:
    """A page without sharing is joined from template, data, style and script alone, as before."""
    (anna,) = make_machines(tmp_path, "anna")
    commands.add(anna.project, "Always test", HUMAN)
    anna.json("page", "--output", str(tmp_path / "page.html"))
    assert "lanes" not in (tmp_path / "page.html").read_text(encoding="utf-8").partition("<footer>")[2][:400]
