"""Moments as the ledger writes them, a clock that runs back, and ids that sort by time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import RFC_4122, UUID

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from tallybook.ledger import clock
from tallybook.ledger.clock import clamp_time, moment, to_unix_us

# From 1970 to the end of 9999, the last year of four digits.
MOMENTS = st.integers(0, 253_402_300_799_999_999)
HOUR_US = 3600 * 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(MOMENTS)
def test_a_moment_is_written_in_utc_with_microseconds(us: int) -> None:
    """The text is the UTC time, always of the same length, and is read as the same moment."""
    now = moment(us)
    assert (EPOCH + timedelta(microseconds=us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0") == now.at
    assert (us, us) == (now.unix_us, to_unix_us(now.at))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-21",
        "2026-11-21T20:17:03Z",
        "2026-11-21T20:17:03.123Z",
        "2026-11-21T20:17:03.12345Z",
        "2026-11-21T20:17:03.123456",
        "2026-11-21T20:17:03 123456Z",
        "2026-11-21T20:17:03.123456+02:00",
        "2026-11-21T20:17:03.1_3456Z",
        "2026-11-21T20:17:03.+12345Z",
        "2026-11-21 20:17:03.123456Z",
        "2026-13-21T20:17:03.123456Z",
        "2026-1-021T20:17:03.123456Z",
    ],
)
def test_a_moment_in_another_form_is_refused(text: str) -> None:
    """Only the ledger's own form is read; nothing is guessed."""
    with pytest.raises(ValueError, match=r"\btime\b"):
        to_unix_us(text)


@given(MOMENTS, st.integers(-3 * HOUR_US, 3 * HOUR_US))
@example(0, HOUR_US)
@example(0, HOUR_US + 1)
def test_a_clock_that_ran_back_is_raised_within_an_hour(us: int, drift: int) -> None:
    """Up to an hour back, the last event's time is used; further back, or ahead, the clock's."""
    before = min(max(us + drift, 0), 253_402_300_799_999_999)
    behind = before - us
    expected = before if 0 < behind <= HOUR_US else us
    assert moment(expected).at == clamp_time(moment(us).at, moment(before).at)


@given(MOMENTS)
def test_an_id_is_a_uuid_of_version_7(us: int) -> None:
    """RFC 9562: milliseconds in the first 48 bits, version 7, the RFC's variant, canonical text."""
    text = clock.new_id(us)
    uuid = UUID(text)
    assert text == str(uuid)
    assert (7, RFC_4122, us // 1000) == (uuid.version, uuid.variant, uuid.int >> 80)


def test_every_random_bit_of_an_id_is_random() -> None:
    """No id repeats, and each of the 74 random bits is sometimes set and sometimes not."""
    ids = [UUID(clock.new_id(0)).int for _ in range(1000)]
    assert 1000 == len(set(ids))
    ever, always = 0, ~0
    for number in ids:
        ever |= number
        always &= number
    assert 74 == (ever & ~always & (1 << 128) - 1).bit_count()
