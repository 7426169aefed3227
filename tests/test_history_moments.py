"""WHEN: numbers, times, ages and sessions, each as the last event recorded by then, with the notes about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.memory_log import MemoryLog
from tallybook.ledger.clock import moment, to_unix_us
from tallybook.ledger.codec import decode
from tallybook.ledger.errors import BadInputError
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


# Line 1 opens the ledger, at minute 1.
LOG = log_at([1, 3, 3, 7])


@pytest.mark.parametrize(
    ("when", "seq"),
    [
        ("0", 0),
        ("4", 4),
        ("9", 9),
        ("2026-11-20", 0),
        ("2026-11-19", 0),
        ("2026-11-21", 9),
        ("2026-11-20T00:00:59", 0),
        ("2026-11-20T00:01", 3),
        ("2026-11-20T00:01:00.000000Z", 3),
        ("2026-11-20T00:02:59.999999", 3),
        ("2026-11-20T00:03", 7),
        ("2026-11-20 00:06", 7),
        ("20261120T000700", 9),
        ("2026-11-20T02:03+02:00", 7),
        ("2026-11-19T19:03-05:00", 7),
        ("10m", 0),
        ("9m", 3),
        ("420s", 7),
        ("3m", 9),
        ("0s", 9),
        ("1h", 0),
        ("2d", 0),
        ("999999999w", 0),
    ],
)
def test_a_moment_is_the_last_event_recorded_by_then(when: str, seq: int) -> None:
    """A date is its start in UTC, an age counts back from now, and an event number is itself."""
    assert seq == of(LOG, when).seq


@pytest.mark.parametrize(
    "when",
    [
        "",
        " ",
        "yesterday",
        "-1",
        "1.5",
        "2x",
        "d",
        "2 d",
        "2026-13-01",
        "2026-11-20T25:00",
        "٣",
        "1e3",
        "0x10",
    ],
)
def test_an_invalid_moment_is_refused(when: str) -> None:
    """The error lists what would be accepted."""
    with pytest.raises(BadInputError, match="is not a moment; use an event number, ~N, a date, an age"):
        of(LOG, when)


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


@pytest.mark.parametrize(
    ("when", "notes"),
    [
        ("2026-11-20T00:05", ()),
        ("2026-11-20T00:10", ()),
        ("1d", ("1d is before the ledger's first event, 2026-11-20 00:01 UTC",)),
        ("2027-01-01", ("2027-01-01 has not come yet; the ledger's last event is 9, 2026-11-20 00:07 UTC",)),
    ],
)
def test_a_time_before_the_first_or_after_the_last_event_is_noted(when: str, notes: tuple[str, ...]) -> None:
    """The question is answered, and the note names the nearest event."""
    assert notes == of(LOG, when).notes


# Sessions


def sessions(*ids: str) -> MemoryLog:
    """Return a log with a batch of two events for each session, in order; event 1 opens it."""
    log = MemoryLog(lambda: moment(NOW_US))
    for id_ in ids:
        with log.transaction() as tx:
            tx.append([ADDED, ADDED], {"rater": "test", "session": id_} if id_ else {"rater": "test"})
    return log


BUSY = sessions("abc-1", "", "abd", "abc-1", "ab", 'q"\\ü')


@pytest.mark.parametrize(
    ("when", "seq"),
    [
        ("session:abc-1", 1),
        ("session:abc-1+", 9),
        ("session:abc", 1),
        ("session:abd", 5),
        ("session:abd+", 7),
        ("session:ab", 9),
        ("session:ab+", 11),
        ('session:q"\\', 11),
        ('session:q"\\ü+', 13),
    ],
)
def test_a_session_is_before_its_first_or_after_its_last_event(when: str, seq: int) -> None:
    """A whole id counts before the prefix of another; characters that JSON escapes do not matter."""
    assert seq == of(BUSY, when).seq


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("session:a", "several sessions have an id that begins with it: 'abc-1', 'abd', 'ab'; give more of the id"),
        ("session:abc-2", "no session has an id that begins with it; the nearest is 'abc-1', events 2 to 9"),
        ("session:zzz", "no session has an id that begins with it; the last is 'q\"\\\\ü', events 12 to 13"),
        ("session:", "names no session; the last is 'q\"\\\\ü', events 12 to 13"),
    ],
)
def test_an_unknown_or_ambiguous_session_is_refused(when: str, message: str) -> None:
    """The error lists the candidates, or names the nearest."""
    with pytest.raises(BadInputError) as caught:
        of(BUSY, when)
    assert f"--at {when}: {message}" == str(caught.value)


def test_events_of_others_during_a_session_are_counted() -> None:
    """A note gives the number of events between a session's first and last that are not its own."""
    told = "of events 2 to 9, 4 did not come from session abc-1"
    assert [(told,), (), ()] == [of(BUSY, f"session:{session}").notes for session in ("abc-1+", "abc-1", "abd+")]
