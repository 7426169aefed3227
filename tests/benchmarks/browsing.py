"""Row ``page-browser``: the page in Chromium: how soon it is ready, a jump and a step, against `show --at`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
import shutil
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks import data
from benchmarks.commands import whole_process
from benchmarks.table import NoRivalError, Row, Setting
from helpers.browser import FLAGS
from tallybook.projections.surfaces.page.document import Choices, make
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

PAIRS: Final = 3
JUMPS: Final = 200
FEWEST_JUMPS: Final = 10
READY_MS: Final = 120_000

MOVES = """async (count) => {
  const frame = () => new Promise(requestAnimationFrame), slider = document.getElementById("slider");
  let seed = 7;
  const chance = () => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed / 2147483648; };
  const place = { jump: () => chance() * slider.max, step: () => Number(slider.value) + 1 };
  const taken = {};
  for (const kind of ["jump", "step"]) {
    const times = [];
    for (let i = 0; i < count; i++) {
      slider.value = place[kind]();
      slider.dispatchEvent(new Event("input"));
      await frame();
      await frame();
      times.push(Number(document.body.dataset.took) / 1000);
    }
    times.sort((one, other) => one - other);
    taken[kind] = times[count >> 1];
  }
  return taken;
}"""
"""Jumps to places by chance, then steps; the median time of the script and the layout that it needs, in seconds."""


def rows(setting: Setting) -> Iterator[Row]:
    """Measure the page of a ledger against a cold `show --at` of its middle."""
    chromium = shutil.which("chromium")
    if chromium is None or find_spec("playwright") is None:
        raise NoRivalError("chromium and playwright, of the group browser, are not both installed")
    api = import_module("playwright.sync_api")
    project = Project(setting.folder / "browsing")
    data.build(project.ledger, "wide", setting.events)
    file = Path(setting.folder, "page.html")
    file.write_bytes(make(project, Choices())[0])
    show = whole_process(project, ("show", "--at", str(setting.events // 2), "--json"))
    taken: dict[str, list[tuple[float, float]]] = {"ready": [], "jump": [], "step": []}
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for _ in range(setting.pairs(PAIRS)):
            theirs = show()
            for kind, seconds in _measure(browser, file, max(FEWEST_JUMPS, min(JUMPS, setting.events // 1000))).items():
                taken[kind].append((seconds, theirs))
        browser.close()
    file.unlink()
    for kind, pairs in taken.items():
        ours, theirs = (median(side) for side in zip(*pairs, strict=True))
        ratios = tuple(their / our for our, their in pairs)
        told = f"the page in Chromium, {setting.events:,} events: {kind}"
        yield Row("page-browser", told, "`show --at`, whole process", ratios, ours * 1e3, theirs * 1e3, "ms")


def _measure(browser: Browser, file: Path, jumps: int) -> dict[str, float]:
    """Return the seconds until the film is shown, and the medians of a jump and a step."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(file.as_uri())
    page.locator("body[data-ready]").wait_for(state="attached", timeout=READY_MS)
    moves: dict[str, float] = page.evaluate(MOVES, jumps)
    ready = float(page.locator("body").get_attribute("data-ready") or 0) / 1e3
    page.close()
    return {"ready": ready, **moves}
