"""The present moment and fresh ids: the only place that asks the clock or the random source.

Standard library only, and none of its slow modules: ``datetime`` and ``uuid`` would each cost a hook more than
the append itself.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

MICROSECONDS = 1_000_000
CLOCK_SLACK_US = 3600 * MICROSECONDS


class Now(NamedTuple):
    """A moment, twice: as the ledger writes it and as the clock gave it.

    Attributes:
        at: UTC with microseconds, ``2026-11-21T20:17:03.123456Z``; texts sort as the moments do.
        unix_us: Microseconds since 1970, for ids and for arithmetic.
    """

    at: str
    unix_us: int


def moment(unix_us: int) -> Now:
    """Return the moment that lies ``unix_us`` microseconds after 1970 began."""
    seconds, micros = divmod(unix_us, MICROSECONDS)
    year, month, day, hour, minute, second = time.gmtime(seconds)[:6]
    return Now(f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}.{micros:06d}Z", unix_us)


def utc_now() -> Now:
    """Return the present moment."""
    return moment(time.time_ns() // 1000)


def unix_us(at: str) -> int:
    """Return the microseconds since 1970 of a moment as the ledger writes it.

    Raises:
        ValueError: It is not written that way.
    """
    from calendar import timegm  # noqa: PLC0415 - slow to load, and asked for only when a clock ran back

    return timegm(time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S")) * MICROSECONDS + int(at[20:26])


def raised(at: str, before: str) -> str:
    """Return ``at``, or ``before`` where the clock has fallen behind it by up to an hour.

    A clock that is further behind than that is written as read, and noted by ``verify``.
    """
    if at >= before or unix_us(before) - unix_us(at) > CLOCK_SLACK_US:
        return at
    return before


def new_id(unix_us: int) -> str:
    """Return a fresh UUIDv7 (RFC 9562): 48 bits of milliseconds, then 74 random bits."""
    noise = int.from_bytes(os.urandom(10), "big")
    high = (unix_us // 1000) << 16 | 0x7000 | noise >> 68
    low = 0x8000_0000_0000_0000 | noise & 0x3FFF_FFFF_FFFF_FFFF
    text = f"{high:016x}{low:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def new_salt() -> str:
    """Return 64 random bits in hex, so that a short text cannot be guessed from its digest."""
    return os.urandom(8).hex()
