"""WHEN: a sequence number, an ISO date or time, or an age, each as the last line recorded by then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
import pytest

from ledger.backends.memory import MemoryLog
from ledger.clock import Now, moment, unix_us
from ledger.errors import BadInputError
from ledger.line import Draft
from projections.surfaces.when import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

MINUTE_US = 60_000_000
BEGIN = unix_us("2026-11-20T00:00:00.000000Z")
NOW = moment(BEGIN + 10 * MINUTE_US)
ADDED = Draft("point.removed", 1, {"name": "kpt_001"})


def log_at(minutes: Sequence[int]) -> MemoryLog:
    """Return a log whose batches of two events each were recorded so many minutes after BEGIN."""
    read = [BEGIN, BEGIN]
    log = MemoryLog(lambda: moment(read[0]))
    for minute in minutes:
        read[0] = BEGIN + minute * MINUTE_US
        with log.transaction() as tx:
            tx.append([ADDED, ADDED], {"rater": "test"})
    return log


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
def test_a_moment_is_the_last_line_recorded_by_then(when: str, seq: int) -> None:
    """A date is its first moment in UTC, an age counts back from now, and a sequence number is itself."""
    assert seq == resolve(LOG, when, NOW)


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
def test_what_is_no_moment_is_refused(when: str) -> None:
    """Anything else is refused, and the line says what would be understood."""
    with pytest.raises(BadInputError, match="is no moment; give a sequence number, an ISO date or time, or an age"):
        resolve(LOG, when, NOW)


@pytest.mark.parametrize("when", ["10", "1" * 18, "1" * 19, "9" * 5000], ids=len)
def test_a_number_behind_the_end_is_refused(when: str) -> None:
    """A sequence number that nobody has yet, of any length, is a mistake, and the line says where the ledger ends."""
    with pytest.raises(BadInputError, match=f"^--at {when}: the ledger ends at seq 9$"):
        resolve(LOG, when, NOW)


@given(minutes=st.lists(st.integers(0, 9), max_size=6).map(sorted), minute=st.integers(0, 10))
def test_an_age_is_the_moment_it_names(minutes: list[int], minute: int) -> None:
    """An age and the time it leads back to name the same moment, and no batch behind it belongs to it."""
    log = log_at(minutes)
    then: Now = moment(BEGIN + minute * MINUTE_US)
    seq = resolve(log, f"{10 - minute}m", NOW)
    assert seq == resolve(log, then.at, NOW)
    recorded = sum(1 for one in minutes if one <= minute)
    assert (2 * recorded + 1 if recorded else 0) == seq


def test_an_empty_ledger_has_one_moment() -> None:
    """Where nothing was recorded, every time is the beginning."""
    log = MemoryLog()
    assert [0, 0, 0] == [resolve(log, when, NOW) for when in ("0", "1d", "2026-11-20")]


def test_a_clock_that_ran_back_a_little_hides_nothing() -> None:
    """As-of a time is the largest line recorded at or before it, even where the clock was set back by hours."""
    log = log_at([500, 7])
    assert 5 == resolve(log, "2026-11-20T00:07", NOW)
    assert 0 == resolve(log, "2026-11-20T00:06", NOW)
