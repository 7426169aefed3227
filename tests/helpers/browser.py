"""Chromium, driven by Playwright, on a page of Tallybook; tests are skipped where one of the two is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
import shutil
from typing import Any

from playwright.sync_api import Browser, Page
import pytest

from helpers.injections import injected
from tallybook.ledger import clock
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.events import (
    EventsVoided,
    PlaybookUpdated,
    PointAdded,
    PointCited,
    PointMerged,
    PointPinned,
    PointRated,
    PointRestored,
    PointRetired,
    PointReworded,
)
from tallybook.ledger.log import JsonlLog
from tallybook.projections.surfaces.page.document import Choices, make
from tallybook.projections.surfaces.workspace.project import Project

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TIMEOUT_MS = 10_000
SETTLED = "() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 30))"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium; skip where it or Playwright is missing."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no chromium here, which shows the page")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed, which drives chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Tab:
    """A page of Tallybook that is open in the browser.

    Attributes:
        page: The page, as Playwright has it.
        noise: What it asked of a network or wrote to the console.
    """

    def __init__(self, browser: Browser, file: Path, **options: Any) -> None:
        """Open a file."""
        self.noise: list[str] = []
        self.page: Page = browser.new_context(viewport={"width": 1440, "height": 900}, **options).new_page()
        self.page.set_default_timeout(TIMEOUT_MS)
        self.page.on("console", lambda message: self.noise.append(message.text))
        self.page.on("pageerror", lambda error: self.noise.append(error.stack or str(error)))
        self.page.on("dialog", lambda dialog: self.noise.append(dialog.message))
        self.page.on("request", lambda request: self.noise.append(request.url))
        self.address = file.as_uri()
        self.open("")
        self.noise.remove(self.address)

    def open(self, fragment: str) -> None:
        """Go to a fragment, and wait until the whole page is there."""
        # Of the tabs of one browser only the one in front draws at its full rate.
        self.page.bring_to_front()
        self.page.goto(f"{self.address}#{fragment}" if fragment else self.address)
        self.page.locator("body[data-ready]").wait_for(state="attached")
        self.settle()

    def settle(self) -> None:
        """Wait until what was asked for is drawn."""
        self.page.evaluate(SETTLED)

    def at(self, event: int, **others: str) -> None:
        """Wait until the page shows an event, with other parts of its state, by `data-` name."""
        marks = "".join(f'[data-{name}="{value}"]' for name, value in others.items())
        self.page.locator(f'body[data-event="{event}"]{marks}').wait_for(state="attached")

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        # Without Playwright the checker knows no type of it.
        text: str = self.page.locator(selector).inner_text()
        return text


def opened(folder: Path) -> JsonlLog:
    """Return the ledger of a new project in a folder, a minute a batch."""
    (folder / ".claude").mkdir(parents=True)
    minutes = count(1_763_800_000_000_000, 60_000_000)
    return JsonlLog(Project(folder).ledger, lambda: clock.moment(next(minutes)))


def append(log: JsonlLog, events: Sequence[Any], session: str = "s1", rater: str = "reflector") -> None:
    """Append one batch."""
    author = {"rater": rater, "session": session, "agent": "claude-code", "model": "example"}
    with log.transaction() as tx:
        tx.append([encode(event) for event in events], author)


def write_page(folder: Path, **choices: Any) -> Path:
    """Write the page of a project."""
    file = folder / "page.html"
    file.write_bytes(make(Project(folder), Choices(**choices))[0])
    return file


def write_history(folder: Path, events: int) -> JsonlLog:
    """Write a ledger of about so many events: ratings, injections, citations, merges, pins, undos and more."""
    log, chance = opened(folder), Random(20)  # noqa: S311 - the same ledger in every run, and no secret
    names = [f"kpt_{n:03d}" for n in range(1, 25)]
    written = number = 0
    while written < events:
        session = f"session-{number // 6}"
        batch = [*_batch(chance, names, number)]
        if number % 40 == 39:
            *_, batch_before = decode(log.read())
            batch = [EventsVoided(tuple(record.id for record in batch_before.records), None, "by mistake")]
        append(log, batch, session, chance.choice(["reflector", "human"]))
        written += len(batch)
        number += 1
    return log


def _batch(chance: Random, names: Sequence[str], number: int) -> Iterator[Any]:
    """Yield the events of one batch."""
    if number < len(names):
        yield PointAdded(names[number], f"Guidance number {number}: read the whole output first.")
    name, other = chance.sample(names, 2)
    special: dict[int, list[Any]] = {
        3: [injected(tuple(chance.sample(names, 6)), 0)],
        5: [PointCited(name, "message")],
        11: [PointPinned(name, "")],
        13: [PointReworded(name, "", f"Reworded in batch {number}.")],
        17: [PointRetired(name, "")],
        19: [PointRestored(name, ""), PointRestored(other, "")],
        23: [PointMerged(name, (other,), "")],
    }
    yield from special.get(number % 25, [])
    ratings = chance.randrange(4, 12)
    for _ in range(ratings):
        yield PointRated(chance.choice(names), chance.choice(["helpful", "helpful", "harmful", "neutral"]))
    yield PlaybookUpdated(0, ratings, 0)
