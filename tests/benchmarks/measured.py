"""Ledgers of measurements of sessions: made by a script, the same figures every time, framed by the library."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from benchmarks.data import WRITE_BYTES
from tallybook.ledger import clock
from tallybook.ledger.codec import encode
from tallybook.ledger.events import LedgerOpened, MetricsRecorded, Numbers, SessionEnded
from tallybook.ledger.line import FORMAT, LOG_NAME, START, Draft, Stamp, frame
from tallybook.ledger.log import JsonlLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallybook.ledger.line import RawBatch

A_DAY: Final = 1_000
LINES: Final = 3
"""Lines of a session: what was measured as it began, what was measured as it ended, and that it did."""

BEGIN_US: Final = 1_672_531_200_000_000
DAY_US: Final = 86_400_000_000
SESSIONS_TO_A_VERSION: Final = 30 * A_DAY


def _percent(chance: Random) -> int:
    return chance.randint(55, 100)


def _last(chance: Random, number: int) -> tuple[str, dict[str, Any]]:
    """Return the measurements at a session's end, of another component each time."""
    total = chance.randint(1, 12)
    kinds: tuple[tuple[str, dict[str, Any]], ...] = (
        (
            "AC-02",
            {"completed": chance.randint(0, total), "total": total, "avg_iterations": chance.randint(10, 90) / 10},
        ),
        ("AC-03", {"thoroughness": _percent(chance), "accuracy": _percent(chance), "actionability": _percent(chance)}),
        ("AC-04", {"checkpoint_reliability": _percent(chance), "resume_success": _percent(chance)}),
        ("AC-06", {"implemented": total, "successful": chance.randint(0, total), "validated": total, "total": total}),
        ("AC-09", {"state_preservation": _percent(chance), "handoff_quality": _percent(chance)}),
    )
    return kinds[number % len(kinds)]


def sessions() -> Iterator[tuple[list[Draft], list[Draft]]]:
    """Yield sessions without end: the batch with which each begins, and the one with which it ends."""
    chance = Random(5)  # noqa: S311 - the same ledger in every run, and no secret
    for number in count():
        begun: dict[str, float] = {
            "startup_ms": chance.randint(3_000, 30_000),
            "context_percent": chance.randint(5, 45),
            "greeting_score": _percent(chance),
            "orientation_done": chance.random() < 0.9,
        }
        component, metrics = _last(chance, number)
        ended = SessionEnded(f"1.{number // SESSIONS_TO_A_VERSION}.0")
        yield (
            [encode(MetricsRecorded("AC-01", Numbers(begun), ""))],
            [encode(MetricsRecorded(component, Numbers(metrics), "")), encode(ended)],
        )


def batches(number: int) -> Iterator[RawBatch]:
    """Yield a ledger of so many sessions, a thousand a day, one after the other."""
    chance = Random(7)  # noqa: S311 - as above
    told = sessions()
    yield (batch := frame([encode(LedgerOpened(str(UUID(int=9)), FORMAT))], _stamp(BEGIN_US, {"rater": "tallybook"})))
    for index in range(number):
        begin_us = BEGIN_US + DAY_US * index // A_DAY
        by = {"rater": "agent", "session": str(UUID(int=chance.getrandbits(128), version=4))}
        for drafts, unix_us in zip(next(told), (begin_us, begin_us + DAY_US // A_DAY // 2), strict=True):
            yield (batch := frame(drafts, _stamp(unix_us, by)._replace(position=batch.position)))


def _stamp(unix_us: int, by: dict[str, str]) -> Stamp:
    return Stamp(START, clock.moment(unix_us).at, by, partial(clock.new_id, unix_us), clock.new_salt)


def build(folder: Path, sessions_: int) -> None:
    """Make a ledger of so many sessions in a folder, if there is none yet; one more is appended, for its head."""
    path = folder / LOG_NAME
    if path.exists():
        return
    folder.mkdir(parents=True)
    with path.open("wb", buffering=WRITE_BYTES) as file:
        file.writelines(batch.raw for batch in batches(sessions_))
    record_begin(folder, "the last one")


def record_begin(folder: Path, session: str) -> None:
    """Append the beginning of a session, at this moment."""
    with closing(JsonlLog(folder)) as log, log.transaction() as tx:
        tx.append(next(sessions())[0], {"rater": "agent", "session": session})
