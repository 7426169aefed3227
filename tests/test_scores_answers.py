"""What the verbs of the scores answer people and programs on fixed ledgers, held against files.

The stories of `tests/tape/stories/scores-of-little.txt` have the same questions about ledgers with few scores or none.

`TAPE=answers` before pytest records the answers anew; a commit that changes one says why.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
import os
from pathlib import Path
import re
import time
from typing import Any

import pytest

from helpers.commands import Run
from helpers.documentation import examples
from helpers.score_histories import MEASURED, events, noon, plain, record_events, record_example
from tallybook.ledger import events as kinds
from tallybook.projections.surfaces.scores import configuration

TAPE = Path(__file__).parent / "tape" / "scores"
NOW_US = 1_785_000_000_000_000
DRAWN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}|(?<=:)[0-9a-f]{32}")


def record_weeks(project: Path) -> None:
    """Record eight weeks of sessions that get worse once, with benchmarks, feedback, and changes of the playbook."""
    for number in range(56):
        day, id_ = date(2026, 1, 1) + timedelta(number), f"s-{number:02}"
        if number in {30, 31}:
            record_events(
                project, id_, (kinds.PointAdded(f"kpt_0{number}", "Skip the review."), kinds.PlaybookUpdated(0, 0, 0))
            )
        worse = 15 if number > 30 else 0
        measured: dict[str, Any] = {
            name: {key: value if key in {"orientation_done", "target"} else value - (number * 7 + worse) % 23}
            for at, (name, values) in enumerate(MEASURED.items())
            for key, value in list(values.items())[: 1 + (number + at) % len(values)]
        }
        extra = (
            kinds.BenchmarkRecorded("AC-06", "small", 9 - number % 4, 10),
            kinds.FeedbackRecorded("ac03", number, "", ""),
        )
        told = (*events(measured)[:-1], *(extra if number % 3 else ()), kinds.SessionEnded(f"2.{number // 7}"))
        record_events(project, id_, told, noon(day.isoformat()))


def record_story(project: Path) -> None:
    """Record drops after an entry was added, pruned and undone, by a clock that once ran ahead; one undo is later."""
    for hours, session, told in (
        (1, "s0", [kinds.PointAdded("kpt_000", "Run the tests.")]),
        (10, "s1", [kinds.MetricsRecorded("ac03", kinds.Numbers({"accuracy": 90}), "")]),
        (20, "s2", [kinds.PointAdded("kpt_001", "Delete the build cache.")]),
        (9000, "ahead", [kinds.PointAdded("kpt_900", "From the future.")]),
        (30, "s3", [kinds.MetricsRecorded("ac03", kinds.Numbers({"accuracy": 60}), "")]),
        (40, "s4", [kinds.PointRated("kpt_001", "harmful")] * 3),
        (45, "s5", [kinds.EventsVoided((), "s0", "")]),
        (50, "s6", [kinds.MetricsRecorded("ac03", kinds.Numbers({"accuracy": 50}), "")]),
        (90, "s7", [kinds.EventsVoided((), "s2", "")]),
    ):
        os.environ["HOURS"] = str(hours)
        end = (kinds.PlaybookUpdated(0, 0, 0),) if session in {"s0", "s2", "s4", "ahead"} else ()
        record_events(project, session, (*told, *end))


def record_days(project: Path) -> None:
    """Record the sessions of the documentation: a week of 80, and the document's session."""
    for day in range(1, 8):
        record_events(project, f"s-{day}", events(plain(80), "1.9"), noon(f"2026-01-{day:02}"))
    record_example(project)


OWN = """scoring: {timezone: Asia/Tokyo, title: "MY *SCORES*", thresholds: {warning: 90, alert: 85, critical: 80},
 display: {show_trends: false, show_grades: false, min_coverage: 0.6}, storage: {path: other, retention_days: 20},
 components: {ac09: {name: "Mine | [x]"}, playbook: {enabled: true}}}"""

LEDGERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "days": (record_days, ""),
    "weeks": (record_weeks, ""),
    "weeks-own": (record_weeks, OWN),
    "story": (record_story, ""),
}
"""Name → what was recorded, and the project's own configuration."""

SHOWN: tuple[str, ...] = (
    "",
    "--detail",
    "--session",
    "--session s-0",
    "--session s-05 --detail",
    "--daily",
    "--daily --component ac06",
)
SHOWN += ("--weekly", "--weekly --detail", "--monthly --component ac03", "--component AC-06", "--component ac03")
SHOWN += ("--component ac06 --detail", "--component playbook --detail", "--at 20", "--session s-3")
GATED: tuple[str, ...] = (
    "",
    "--component ac06",
    "--component effectiveness --min 95 --no-drop 1",
    "--min 99",
    "--no-drop 0",
)
GATED += ("--allow-no-data", "--component ac9", "--component mood", "--min nan", "--no-drop -1", "--at 20")
REFUSED: tuple[str, ...] = ("--daily --weekly", "--session x --config", "--feed --export x.md", "--config --at 1")
REFUSED += ("--component ac99", "--session nobody", "--session s-", "--at never")
COMMANDS = [
    *(f"score {words}" for words in SHOWN),
    *(f"score {words} --json" for words in SHOWN),
    *(f"score {words} --export -" for words in SHOWN[1::4]),
    *(f"score {words}" for words in ("--feed", "--export .claude/playbook.json", *REFUSED)),
    *("score baseline", "score baseline ac09", "score baseline overall --value 87.5 --json", "score baseline ac77"),
    *("score baseline --json", "score baseline ac09 --value nan"),
    *(f"score gate {words}" for words in GATED),
    *(f"score gate {words} --json" for words in GATED[:5]),
    "score --export",
]


def answers(project: Path, run: Run) -> str:
    """Return what each command prints, with standard error and the exit code after it."""
    told = []
    for line in COMMANDS:
        done = run(*line.split())
        error = "".join(f"! {text}\n" for text in done.err.splitlines())
        told.append(f"$ tallybook {line}\n{done.out}{error}" + (f"[exit {done.code}]\n" if done.code else ""))
    return DRAWN.sub("<drawn>", "".join(told).replace(str(project), "PROJECT"))


@pytest.fixture
def still(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project in which it is always the same time, or so many hours after the fifteenth of January began."""

    def now() -> int:
        hours = os.environ.get("HOURS")
        return 1000 * NOW_US if hours is None else (1_768_435_200 + 3600 * int(hours)) * 10**9

    monkeypatch.setattr(time, "time_ns", now)
    for name in ("HOURS", "CLAUDE_SESSION_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(project)
    return project


@pytest.mark.parametrize("name", LEDGERS)
def test_the_answers_are_those_of_the_tape(name: str, still: Path, run: Run) -> None:
    """On a fixed ledger each question prints, answers as JSON and as Markdown, and exits as the file says."""
    fill, own = LEDGERS[name]
    fill(still)
    os.environ.pop("HOURS", None)
    if own:
        (still / configuration.PLACE).parent.mkdir()
        (still / configuration.PLACE).write_text(own, encoding="utf-8")
    tape, told = TAPE / f"{name}.txt", answers(still, run)
    if os.environ.get("TAPE"):
        tape.write_text(told, encoding="utf-8")
    assert tape.read_text(encoding="utf-8") == told


def test_the_documentation_shows_the_summary(still: Path, run: Run) -> None:
    """The printed summary of a week of 80 and the document's session equals the documented one, to the character."""
    record_days(still)
    (answer,) = [block.code for block in examples("text") if block.code.startswith("$ tallybook score\n")]
    assert answer == f"$ tallybook score\n{run('score').out}"
