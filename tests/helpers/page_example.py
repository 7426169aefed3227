"""An invented project whose history the pictures of the page show: the same in every run but for random ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

from helpers.browser import append
from helpers.injections import injected
from tallybook.ledger import clock
from tallybook.ledger.codec import decode
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
    SessionEnded,
)
from tallybook.ledger.log import JsonlLog
from tallybook.projections.surfaces.workspace.project import Project

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
        yield [injected(tuple(known[-8:]), 0)], "hook"
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
