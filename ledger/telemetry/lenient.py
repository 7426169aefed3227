"""Lenient reading of numbers, names and times in their common spellings. Pure functions.

They do not raise: a value that cannot be read gives None, or an empty text.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
import re
from typing import TYPE_CHECKING, Final

from tallybook.ledger import clock
from tallybook.ledger.kinds.limits import MAX_INT
from tallybook.ledger.line import digest

if TYPE_CHECKING:
    from datetime import tzinfo

MAX_NAME_CHARS: Final = 200
DIGEST_PREFIX: Final = "digest:"
"""Prefix of a name that was replaced by its digest, because it is too long or cannot be printed."""

_MOST_WORD_CHARS = 100
_MOST_TIME_CHARS = 60
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})(?:[eE][-+]?[0-9]{1,3})?")
_WORDS = {"true": True, "false": False}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_WORD = re.compile(r"[^a-z0-9]+")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# From March 1973 to the year 5138: a smaller number is more likely a duration, a larger one milliseconds.
_LEAST_SECONDS = 10**8
_MOST_SECONDS = 10**11
_END_US = 253_402_300_800 * clock.MICROSECONDS
_DAY_DIGITS = 8
_ZONE = re.compile(r" (?:UTC|GMT|Z)$| (?=[-+][0-9]{2}:?[0-9]{2}$)")


def read_number(value: object) -> float | None:
    """Return a number within 2^53, or true or false, from a value or a text, with or without a percent sign.

    Returns:
        The number with its type: 3, 3.0 and true differ. None for any other value.
    """
    if isinstance(value, str):
        value = _parse_text(value.strip().removesuffix("%").rstrip())
    return value if isinstance(value, int | float) and abs(value) <= MAX_INT else None


def _parse_text(text: str) -> object:
    """Return the number in a text; the text itself where it is not a number."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def read_name(value: object, most: int = MAX_NAME_CHARS) -> str:
    """Return a name; empty without one.

    Args:
        value: A text or a number; anything else is not a name.
        most: The greatest length, in characters.

    Returns:
        The name without surrounding blanks. A longer one, or one that cannot be printed, is replaced by its digest, so
        that different names stay different.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return ""
    text = value.strip()
    if len(text) <= most and text.isprintable():
        return text
    return DIGEST_PREFIX + digest(text.encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=4096)
def to_snake_case(word: str) -> str:
    """Return a word in snake case: ``driftDetected`` and ``Drift.detected`` become ``drift_detected``."""
    if len(word) > _MOST_WORD_CHARS:
        return ""
    return _NO_WORD.sub("_", _CAMEL.sub("_", word).casefold()).strip("_")


def read_time(value: object, zone: tzinfo = UTC) -> str | None:
    """Return a time in the ledger's format; None where it is not one between 1970 and 9999.

    Args:
        value: An ISO date or time; or seconds or milliseconds since 1970, from 1973 on.
        zone: The zone of a date or time that names none.
    """
    text = value.strip() if isinstance(value, str) else ""
    since_1970 = read_number(value)
    if len(text) > _MOST_TIME_CHARS:
        return None
    try:
        if since_1970 is None or len(text) == _DAY_DIGITS:
            unix_us = _iso_us(text, zone)
        elif isinstance(since_1970, bool) or since_1970 < _LEAST_SECONDS:
            return None
        else:
            unix_us = round(since_1970 * (clock.MICROSECONDS if since_1970 <= _MOST_SECONDS else 1000))
    except (ValueError, OverflowError):
        return None
    return clock.moment(unix_us).at if 0 <= unix_us < _END_US else None


def _iso_us(text: str, zone: tzinfo) -> int:
    """Return the microseconds since 1970 of an ISO date or time.

    Raises:
        ValueError: The text has another format.
    """
    time = datetime.fromisoformat(_ZONE.sub("", text.upper()))
    return ((time if time.tzinfo else time.replace(tzinfo=zone)) - _EPOCH) // timedelta(microseconds=1)
