"""WHEN on the command line: a sequence number, an ISO date or time, or an age."""

from __future__ import annotations

from datetime import UTC, datetime
import re
from typing import TYPE_CHECKING

from ledger import clock
from ledger.errors import BadInputError
from ledger.line import START

if TYPE_CHECKING:
    from ledger.log import Log

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_AGE = re.compile(r"([0-9]{1,9})([smhdw])")
_SEQ_DIGITS = 18


def resolve(log: Log, when: str, now: clock.Now) -> int:
    """Return the sequence number that a WHEN names: as-of a time is the largest one recorded at or before it.

    Args:
        log: The ledger.
        when: ``812``, ``2026-11-21`` (its first moment), ``2026-11-21T20:17``, or an age such as ``2d``; a time
            without a zone is UTC.
        now: What an age is counted back from.

    Raises:
        BadInputError: It is none of these, or lies behind the ledger's end.
    """
    if when.isascii() and when.isdigit():
        seq, head = int(when[: _SEQ_DIGITS + 1]), log.head().seq
        if seq > head:
            # The head may lag behind the log, or be missing.
            head = max([head, *(batch.last for batch in log.read())])
        if seq > head:
            raise BadInputError(f"--at {when}", f"the ledger ends at seq {head}")
        return seq
    at = clock.moment(_unix_us(when, now)).at
    found = START.seq
    for batch in log.read():
        if batch.mark.at <= at:
            found = batch.last
    return found


def _unix_us(when: str, now: clock.Now) -> int:
    age = _AGE.fullmatch(when)
    if age:
        return max(now.unix_us - int(age[1]) * _UNITS_S[age[2]] * clock.MICROSECONDS, 0)
    try:
        moment = datetime.fromisoformat(when)
        utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        return round((utc - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * clock.MICROSECONDS)
    except (ValueError, OverflowError) as error:
        hint = "give a sequence number, an ISO date or time, or an age such as 2d"
        raise BadInputError(f"--at {when}", "is no moment", hint) from error
