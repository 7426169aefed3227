"""The page in a browser: the film shows what the commands show, at every moment."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from helpers.browser import Tab, chromium, write_history, write_page
from helpers.real_command import run
from tallybook.ledger.encoding.codec import decode
from tallybook.projections.fold import fold_history
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.page.make import ALTERNATIVES
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallybook.ledger.log import JsonlLog

EVENTS = 2_000

READ_EVERY_MOMENT = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const slider = document.getElementById("slider"), rows = [];
  for (let at = 1; at <= Number(slider.max); at++) {
    slider.value = at;
    slider.dispatchEvent(new Event("input"));
    await frame();
    await frame();
    rows.push([Number(document.body.dataset.event), document.getElementById("moment").textContent]);
  }
  return rows;
}"""


@attrs.frozen
class Opened:
    """A page and the ledger that it is of."""

    tab: Tab
    log: JsonlLog
    project: Project


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """Return the page of a history of 2,000 events."""
    with chromium() as browser:
        folder = tmp_path_factory.mktemp("page") / "project"
        log = write_history(folder, EVENTS)
        yield Opened(Tab(browser, write_page(folder)), log, Project(folder))


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


def test_a_sample_of_moments_shows_what_show_at_prints(opened: Opened) -> None:
    """Names, texts, counts and order at moments equal those of `show --at`."""
    lasts = [batch.last for batch in decode(opened.log.read())]
    for event in Random(3).sample(lasts, 4):  # noqa: S311 - the same moments in every run
        answer = json.loads(run(opened.project, "show", "--at", str(event), "--json").out)
        keys = ("name", "text", "helpful", "harmful")
        expected = [{key: point[key] for key in keys} for point in answer["key_points"]]
        assert expected == [{key: row[key] for key in keys} for row in saved(opened.tab, event)]


@pytest.mark.parametrize("stream", ALTERNATIVES)
def test_a_policy_shows_its_own_playbook_and_marks_the_differences(opened: Opened, stream: str, tmp_path: Path) -> None:
    """Under another policy the entries are those of the command that is shown, and each difference is marked."""
    batches = list(decode(opened.log.read()))
    event = batches[-1].last
    rows = saved(opened.tab, event, f"&policy={stream}")
    command = opened.tab.text("#command")
    assert 0 == run(opened.project, *command.split()[1:], "--output", str(tmp_path / "a.json")).code
    other = json.loads((tmp_path / "a.json").read_bytes())["key_points"]
    keys = ("name", "text", "helpful", "harmful")
    assert [{key: point[key] for key in keys} for point in other] == [{key: row[key] for key in keys} for row in rows]
    real = fold_history(PLAYBOOK, lambda: batches, event).entries
    marks = opened.tab.page.locator("#entries .tag", has_text="only").all_inner_texts()
    assert bool({row["name"] for row in rows} ^ set(real)) == bool(marks)
    # The page says what was computed, and the list of policies has each once.
    assert "What if: " in opened.tab.text("#panel-note")
    names = opened.tab.page.locator("#policy option").all_inner_texts()
    assert len(names) == len(set(names)) == len(ALTERNATIVES) + 1
