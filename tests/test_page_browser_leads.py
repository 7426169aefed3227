"""The page in a browser: the leads between two days, and where days are drawn."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.browser import Tab, chromium, write_page
from helpers.real_command import run
from helpers.score_days import DAYS, record_days
from helpers.score_examples import events, noon, plain, record_events
from tallybook.projections.surfaces.page import scores
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

FIRST, LAST = "2026-01-10", f"2026-01-{9 + DAYS}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return Chromium."""
    with chromium() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a project with eight days of scores."""
    (tmp_path / ".claude").mkdir()
    record_days(Project(tmp_path))
    return tmp_path


def blame(folder: Path, since: str, until: str) -> dict[str, Any]:
    """Return what the command says of the drop of the component between two days."""
    words = ("score", "--component", "ac03", "--blame", f"{since}..{until}", "--json")
    answer: dict[str, Any] = json.loads(run(Project(folder), *words).out)
    return answer


def drops(folder: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each two days between which the component dropped, with the answer of the command."""
    days = [f"2026-01-{10 + day}" for day in range(DAYS)]
    for until in range(1, DAYS):
        for since in range(until):
            answer = blame(folder, days[since], days[until])
            if answer["drop"]:
                yield days[since], days[until], answer


def shown(page: Any) -> list[str]:
    """Return the leads that are shown first: all scores drop together here, as one component alone is measured."""
    rows: list[str] = page.locator("#leads ul").first.locator("li").all_inner_texts()
    return rows


def test_two_days_list_the_leads_of_blame(browser: Browser, folder: Path) -> None:
    """Of two chosen days the page lists the events that the command lists, with their entries, and links to them."""
    tab = Tab(browser, write_page(folder))
    for since, until, answer in [*drops(folder)][:6]:
        tab.open(f"tab=scores&from={since}&to={until}")
        rows = shown(tab.page)
        assert [str(lead["seq"]) for lead in answer["leads"]] == [row.split()[0] for row in rows]
        assert all(lead["came"][0] in row for lead, row in zip(answer["leads"], rows, strict=True) if lead["came"])
        assert (
            f"tallybook score --component ac03 --blame {since}..{until}"
            in tab.page.locator("#charts code").all_inner_texts()
        )
    seq = answer["leads"][0]["seq"]
    tab.page.click(f'#leads [aria-label="Go to event {seq}"] >> nth=0')
    tab.settle()
    assert int(tab.page.locator("body").get_attribute("data-event") or 0) >= seq
    tab.page.context.close()


def test_two_clicked_points_choose_the_days(browser: Browser, folder: Path) -> None:
    """A click in a chart goes to its day, and the second one has the first as the other end; the address keeps both."""
    tab = Tab(browser, write_page(folder))
    tab.open("tab=scores")
    chart = tab.page.locator("#charts svg.chart").last
    points = chart.locator("circle")
    for at in (0, DAYS - 1):
        points.nth(at).click(force=True)
        tab.settle()
    assert f"Leads from {FIRST} to {LAST}" == tab.text("#leads-title")
    tab.page.wait_for_timeout(300)
    assert f"from={FIRST}&to={LAST}" in tab.page.url
    tab.page.select_option("#leads-to", "2026-01-11")
    tab.settle()
    assert f"Leads from {FIRST} to 2026-01-11" == tab.text("#leads-title")
    tab.page.context.close()


def test_days_too_far_apart_have_the_commands(browser: Browser, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not computed is said, and the commands for these very days can be copied."""
    monkeypatch.setattr(scores, "MAX_LOOKS", DAYS * 20 * 200)
    tab = Tab(browser, write_page(folder))
    tab.open(f"tab=scores&from={FIRST}&to={LAST}")
    assert "at most 1 apart" in tab.text("#leads")
    assert f"tallybook score --blame {FIRST}..{LAST}" in tab.page.locator("#charts code").all_inner_texts()
    tab.page.context.close()


PLACES = "all => all.map((one) => Number(one.getAttribute('cx')))"


def test_days_without_events_of_their_own_are_drawn_by_time(browser: Browser, tmp_path: Path) -> None:
    """Measurements that were recorded long after their days are at their days, apart from each other."""
    (tmp_path / ".claude").mkdir()
    days = ["2026-01-12", "2026-01-13", "2026-01-16"]
    for day in days:
        record_events(tmp_path, f"s-{day}", events(plain(80)), noon(day))
    tab = Tab(browser, write_page(tmp_path))
    tab.open("tab=scores")
    assert "the charts go by time" in tab.text("#panel-note")
    chart = tab.page.locator("#charts svg.chart").last
    first, second, third = chart.locator("circle").evaluate_all(
        "all => all.map((one) => Number(one.getAttribute('cx')))"
    )
    assert third - second == pytest.approx(3 * (second - first), rel=0.01)
    assert second > first
    tab.page.context.close()
