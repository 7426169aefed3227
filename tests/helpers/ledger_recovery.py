"""Helpers of tests: logs with torn tails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.ledger_logs import BEGIN_US, BY, append, rated
from tallybook.ledger.clock import moment
from tallybook.ledger.line import Stamp, frame
from tallybook.ledger.log import JsonlLog

if TYPE_CHECKING:
    from pathlib import Path

    from tallybook.ledger.line import Position, RawBatch


def batch_at(mark: Position, *some: str) -> RawBatch:
    """Return a batch that fits after a position, always of the same bytes."""
    ids = iter(range(100))
    stamp = Stamp(mark, moment(BEGIN_US).at, BY, lambda: f"00000000-0000-7000-8000-{next(ids):012d}", lambda: "0" * 16)
    return frame(rated(*some), stamp)


def acknowledged_log(folder: Path, *some: str) -> JsonlLog:
    """Return a ledger in which a process that has ended acknowledged each of some ratings."""
    log = JsonlLog(folder, lambda: moment(BEGIN_US))
    for name in some:
        append(log, name)
    log.close()
    return log


def add(log: JsonlLog, tail: bytes) -> int:
    """Add unacknowledged bytes, and return where they begin."""
    begin = log.path.stat().st_size
    with log.path.open("ab") as file:
        file.write(tail)
    return begin


def quarantined(log: JsonlLog) -> dict[str, bytes]:
    """Return the files in quarantine."""
    folder = log.folder / "quarantine"
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}
