"""WHEN: numbers, times, ages and sessions, each as the last event recorded by then, with the notes about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from hypothesis import given
from hypothesis import strategies as st

from helpers.memory_log import MemoryLog
from tallybook.ledger.clock import moment, to_unix_us
from tallybook.ledger.codec import decode
from tallybook.ledger.line import Draft
from tallybook.projections.surfaces.history.moments import Moment, find

if TYPE_CHECKING:
    from collections.abc import Sequence

MINUTE_US = 60_000_000
BEGIN = to_unix_us("2026-11-20T00:00:00.000000Z")
NOW_US = BEGIN + 10 * MINUTE_US
ADDED = Draft("point.removed", 1, {"name": "kpt_001"})


def log_at(minutes: Sequence[int]) -> MemoryLog:
    """Return a log whose batches of two events each were recorded so many minutes after BEGIN; it is NOW_US there."""
    read = [BEGIN, BEGIN]
    log = MemoryLog(lambda: moment(read[0]))
    for minute in minutes:
        read[0] = BEGIN + minute * MINUTE_US
        with log.transaction() as tx:
            tx.append([ADDED, ADDED], {"rater": "test"})
    read[0] = NOW_US
    return log


def of(log: MemoryLog, when: str) -> Moment:
    """Return the moment of a log."""
    return find(cast("Any", None), when, "--at", cast("Any", log))


# Times


def test_a_clock_that_ran_back_hides_no_event_and_is_reported() -> None:
    """As of a time is the largest event recorded at or before it; later times among those are counted."""
    log = log_at([500, 7])
    assert 5 == of(log, "2026-11-20T00:07").seq
    assert 0 == of(log, "2026-11-20T00:06").seq
    moment_ = of(log, "2026-11-20T00:07")
    assert ("the clock ran back: 3 events up to event 5 have a later time than 2026-11-20 00:07 UTC",) == moment_.notes


@given(minutes=st.lists(st.integers(0, 300), max_size=8), minute=st.integers(0, 300))
def test_as_of_is_the_largest_number_recorded_by_then(minutes: list[int], minute: int) -> None:
    """For any clock the result equals the definition, applied event by event."""
    log = log_at(minutes)
    at = moment(BEGIN + minute * MINUTE_US).at
    recorded = [record for batch in decode(log.read()) for record in batch.records]
    assert max((record.seq for record in recorded if record.at <= at), default=0) == of(log, at).seq
