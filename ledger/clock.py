"""The current time and new ids: the only module that reads the time of day or draws random bytes.

Standard library only, without its slow modules: importing ``datetime`` or ``uuid`` would cost a hook more than the
append itself.
"""

from __future__ import annotations

import os
import time

from tallybook.ledger.fast_stdlib import NamedTuple

MICROSECONDS = 1_000_000
_RANDOM_BYTES = 10
CLOCK_SLACK_US = 3600 * MICROSECONDS


class Now(NamedTuple):
    """A point in time.

    Attributes:
        at: UTC with microseconds, ``2026-11-21T20:17:03.123456Z``, as on disk; sorts by time.
        unix_us: Microseconds since 1970.
    """

    at: str
    unix_us: int


def moment(unix_us: int) -> Now:
    """Return the moment that lies ``unix_us`` microseconds after 1970 began."""
    seconds, micros = divmod(unix_us, MICROSECONDS)
    # Not strftime, which writes years before 1000 with fewer digits.
    year, month, day, hour, minute, second = time.gmtime(seconds)[:6]
    at = f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}.{micros:06d}Z"
    return Now(at, unix_us)


def utc_now() -> Now:
    """Return the present moment."""
    return moment(time.time_ns() // 1000)


def to_unix_us(at: str) -> int:
    """Return the microseconds since 1970 of a time in the ledger's format.

    Raises:
        ValueError: The text has another format.
    """
    from calendar import timegm  # noqa: PLC0415 - slow to load, and seldom needed

    if len(at) != len("2026-11-21T20:17:03.123456Z") or at[19] + at[26] != ".Z" or not at[20:26].isdecimal():
        raise ValueError(f"{at!r} is not a time as the ledger writes it")
    return timegm(time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S")) * MICROSECONDS + int(at[20:26])


def clamp_time(at: str, previous: str) -> str:
    """Return ``at``, or ``previous`` where the clock fell behind it by up to an hour, so that times do not run back.

    A time that is further behind is recorded as read, and reported by ``verify``.
    """
    try:
        return at if at >= previous or to_unix_us(previous) - to_unix_us(at) > CLOCK_SLACK_US else previous
    except ValueError:
        # Tallybook did not write that time: `verify` reports it, and nothing can be compared with it.
        return at


def new_id(unix_us: int) -> str:
    """Return a fresh UUIDv7 (RFC 9562): 48 bits of milliseconds, then 74 random bits."""
    noise = os.urandom(_RANDOM_BYTES).hex()
    # Before 1970 there is no time that an id could hold.
    time_hex = f"{max(unix_us, 0) // 1000:012x}"
    # The upper two bits of this digit are the variant of RFC 9562, always binary 10.
    variant = "89ab"[int(noise[3], 16) & 3]
    return f"{time_hex[:8]}-{time_hex[8:]}-7{noise[:3]}-{variant}{noise[4:7]}-{noise[7:19]}"


def new_secret(size: int) -> bytes:
    """Return random bytes for a key."""
    return os.urandom(size)


def new_salt() -> str:
    """Return 64 random bits in hex, so that a short text cannot be guessed from its digest."""
    return os.urandom(8).hex()


def elapsed_s() -> float:
    """Return seconds of a clock that never runs back, for time limits."""
    return time.monotonic()


def wait_up_to(seconds: float) -> None:
    """Wait for a random time up to so many seconds, which keeps machines that wait for the same thing apart."""
    time.sleep(seconds * int.from_bytes(os.urandom(4), "big") / 2**32)
