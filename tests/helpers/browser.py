"""Chromium, driven by Playwright, on a page of Tallybook; tests are skipped where one of the two is missing."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
import json
from pathlib import Path
from random import Random
import re
import shutil
from typing import TYPE_CHECKING, Any, Final
import zlib

import pytest

from helpers.events import make_injection
from tallybook.ledger import clock
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.events import (
    EventsVoided,
    MetricsRecorded,
    Numbers,
    PlaybookUpdated,
    PointAdded,
    PointCited,
    PointMerged,
    PointPinned,
    PointRated,
    PointRestored,
    PointRetired,
    PointReworded,
    SessionEnded,
)
from tallybook.ledger.log import JsonlLog
from tallybook.projections.surfaces.page.document import Choices, make
from tallybook.projections.surfaces.workspace.project import Project

# A suite without this library skips what needs a browser.
if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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
    """A page of Tallybook that is open in the browser, and what it asked of a network or wrote to the console."""

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


def open_dated_ledger(folder: Path) -> JsonlLog:
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
    log, chance = open_dated_ledger(folder), Random(20)  # noqa: S311 - the same ledger in every run, and no secret
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
        3: [make_injection(tuple(chance.sample(names, 6)), 0)],
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


# A second reader of the page's document, plain and slow: what the README says a browser does.


FIELDS = ("status", "helpful", "harmful", "flags", "place")


def read_page(page: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the meta of a page, and its document."""
    (meta,) = re.findall(r'<script type="application/json" id="meta">(.*?)</script>', page, re.DOTALL)
    (packed,) = re.findall(r'<script type="application/octet-stream" id="document">([^<]*)</script>', page)
    return json.loads(meta), json.loads(zlib.decompress(b64decode(packed)))


def bytes_of(document: Mapping[str, Any]) -> bytes:
    """Return all that a document says, to search in."""
    return json.dumps(document, ensure_ascii=False).encode()


def play(film: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, dict[str, Any]]]]:
    """Yield the snapshot, if there is one, and each moment, as its last event number and the rows by name."""
    rows: dict[str, dict[str, Any]] = {}
    last = film["base"]
    for number, size in enumerate([0, *film["m_size"]]):
        last += size
        moment = range(last - size + 1, last + 1) if number else (last,)
        rows |= _rows(film, moment)
        if number or film["base"]:
            yield last, {**rows}


def _rows(film: Mapping[str, Any], moment: Collection[int]) -> dict[str, dict[str, Any]]:
    """Return the rows of a moment by name."""
    names, texts, rows = film["names"], film.get("texts"), {}
    for index, seq in enumerate(film["c_event"]):
        if seq in moment:
            text, into = film["c_text"][index], film["c_into"][index]
            rows[names[film["c_entry"][index]]] = {
                **{field: film[f"c_{field}"][index] for field in FIELDS},
                "text": texts[text - 1] if text and texts else None,
                "into": names[into - 1] if into else None,
            }
    return rows


# An invented project whose history the pictures of the page show: the same in every run but for random ids.


MINUTE_US: Final = 60_000_000
DAY_US: Final = 24 * 60 * MINUTE_US
START_US: Final = 1_790_000_000_000_000
SESSIONS: Final = 36

GUIDANCE: Final = (
    "Run the whole test file before you call a change done, and not only the test that you wrote.",
    "Read the last lines of a traceback first: they name the cause.",
    "Ask before you add a dependency.",
    "Delete the build cache whenever a test fails.",
    "Take `git bisect run` when a test began to fail at an unknown commit.",
    "Write the failing test before the fix.",
    "Retry a failed download three times.",
    "Pin the time zone in tests that compare dates.",
    "Prefer `pathlib` to string joins for paths.",
    "Mock the database in every test.",
    "Check the exit status of every command in a pipeline.",
    "Say which file and line a claim is about.",
    "Before a rename, search the documentation for the old name as well.",
    "Sleep for two seconds when a test is flaky.",
    "Close files with a context manager.",
    "Run the linters before the commit.",
    "Read the whole error output, also what scrolled by.",
    "Keep a migration reversible.",
)
"""Texts of entries, in the order of their birth; some are bad advice."""

BAD: Final = {3, 6, 9, 13}


def write_example(folder: Path) -> JsonlLog:
    """Write the ledger of a project: six weeks, in which guidance comes, is rated, and goes."""
    (folder / ".claude").mkdir(parents=True)
    now = [START_US]
    log = JsonlLog(Project(folder).ledger, lambda: clock.moment(now[0]))
    chance = Random(11)  # noqa: S311 - the same project in every run, and no secret
    for number in range(SESSIONS):
        session = f"session-{number + 1:02d}"
        for events, rater in _session(chance, number, log):
            append(log, events, session, rater)
            now[0] += chance.randrange(2, 20) * MINUTE_US
        now[0] += int(DAY_US * chance.choice([0.7, 1, 1, 1.4]))
    return log


def _session(chance: Random, number: int, log: JsonlLog) -> Iterator[tuple[list[Any], str]]:
    """Yield the batches of one session, each with who rates."""
    known = [f"kpt_{n + 1:03d}" for n in range(min(2 * (number + 1), len(GUIDANCE)))]
    if number:
        yield [make_injection(tuple(known[-8:]), 0)], "hook"
        yield [PointCited(name, "message") for name in chance.sample(known[-8:], 2)], "hook"
    extracted: list[Any] = [
        PointAdded(name, GUIDANCE[int(name[4:]) - 1]) for name in known[2 * number :] if number < len(GUIDANCE) / 2
    ]
    for name in chance.sample(known, min(len(known), 4)):
        is_bad = int(name[4:]) - 1 in BAD
        extracted.append(PointRated(name, chance.choice(["harmful"] * 3 if is_bad else ["helpful"] * 5 + ["harmful"])))
    yield [*extracted, PlaybookUpdated(0, len(extracted), 0)], "reflector"
    special: dict[int, list[Any]] = {
        6: [PointPinned("kpt_003", "the team agreed on it")],
        14: [PointMerged("kpt_002", ("kpt_017",), "the same guidance")],
        20: [PointRetired("kpt_009", "a matter of taste")],
        24: [PointRestored("kpt_009", "asked for again")],
    }
    if number in special:
        yield special[number], "human"
    if number == 17:
        *_, batch = decode(log.read())
        yield [EventsVoided(tuple(record.id for record in batch.records), None, "rated the wrong run")], "human"
    quality = 62 + number * 0.7 + chance.uniform(-9, 9) - (18 if 15 < number < 20 else 0)
    measured = {"ac02": {"completed": 4, "total": 5, "avg_iterations": 1, "drift_events": 0, "review_score": quality}}
    measured["ac05"] = dict.fromkeys(("pattern_detection", "insight_quality", "coverage"), quality + 6)
    if number % 3:
        measured["ac09"] = dict.fromkeys(("state_preservation", "handoff_quality", "completeness"), quality + 12)
    rows: list[Any] = [MetricsRecorded(name, Numbers(values), "") for name, values in measured.items()]
    yield [*rows, SessionEnded("")], "hook"
