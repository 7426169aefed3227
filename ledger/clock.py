"""The present moment and fresh ids: the only place that asks the clock or the random source.

Standard library only, and none of its slow modules: ``datetime`` and ``uuid`` would each cost a hook more than
the append itself.
"""

from __future__ import annotations

import os
import time

from tallybook.ledger.fast_stdlib import NamedTuple

MICROSECONDS = 1_000_000
_POOL_IDS = 64
CLOCK_SLACK_US = 3600 * MICROSECONDS


class Now(NamedTuple):
    """A moment, twice: as the ledger writes it and as the clock gave it.

    Attributes:
        at: UTC with microseconds, ``2026-11-21T20:17:03.123456Z``; texts sort as the moments do.
        unix_us: Microseconds since 1970, for ids and for arithmetic.
    """

    at: str
    unix_us: int


# The last second that was written out, and its text: within a second only the microseconds change.
_second: tuple[int, str] = (-1, "")


def moment(unix_us: int) -> Now:
    """Return the moment that lies ``unix_us`` microseconds after 1970 began."""
    global _second  # noqa: PLW0603 - a memo of one entry, replaced whole
    seconds, micros = divmod(unix_us, MICROSECONDS)
    known, text = _second
    if known != seconds:
        year, month, day, hour, minute, second = time.gmtime(seconds)[:6]
        text = f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}."
        _second = (seconds, text)
    return Now(f"{text}{micros:06d}Z", unix_us)


def utc_now() -> Now:
    """Return the present moment."""
    return moment(time.time_ns() // 1000)


def to_unix_us(at: str) -> int:
    """Return the microseconds since 1970 of a moment as the ledger writes it.

    Raises:
        ValueError: It is not written that way.
    """
    from calendar import timegm  # noqa: PLC0415 - slow to load, and asked for only when a clock ran back

    if len(at) != len("2026-11-21T20:17:03.123456Z") or at[19] + at[26] != ".Z" or not at[20:26].isdecimal():
        raise ValueError(f"{at!r} is not a time as the ledger writes it")
    return timegm(time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S")) * MICROSECONDS + int(at[20:26])


def clamp_time(at: str, previous: str) -> str:
    """Return ``at``, or ``before`` where the clock has fallen behind it by up to an hour.

    A clock that is further behind than that is written as read, and noted by ``verify``.
    """
    try:
        return at if at >= previous or to_unix_us(previous) - to_unix_us(at) > CLOCK_SLACK_US else previous
    except ValueError:
        # No writer of ours wrote that; `verify` says so, and nothing is measured by it.
        return at


# Random bytes are drawn for many ids at once; a forked child must not go on with its parent's.
_random_pool: list[bytes] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random_pool.clear)


def new_id(unix_us: int) -> str:
    """Return a fresh UUIDv7 (RFC 9562): 48 bits of milliseconds, then 74 random bits."""
    try:
        # Not after a look at whether there are any: another thread could take the last ones meanwhile.
        noise = _random_pool.pop().hex()
    except IndexError:
        drawn = os.urandom(10 * _POOL_IDS)
        _random_pool.extend(drawn[begin : begin + 10] for begin in range(10, len(drawn), 10))
        noise = drawn[:10].hex()
    # Before 1970 there is no time that an id could hold.
    time_hex = f"{max(unix_us, 0) // 1000:012x}"
    # The variant takes the upper two bits of its digit.
    variant = "89ab"[int(noise[3], 16) & 3]
    return f"{time_hex[:8]}-{time_hex[8:]}-7{noise[:3]}-{variant}{noise[4:7]}-{noise[7:19]}"


def new_secret(size: int) -> bytes:
    """Return random bytes for a key."""
    return os.urandom(size)


def new_salt() -> str:
    """Return 64 random bits in hex, so that a short text cannot be guessed from its digest."""
    return os.urandom(8).hex()
