"""Helpers of tests: logs of each back end, and their content."""

from __future__ import annotations

import json
from typing import Any

from helpers.memory_log import AnyLog
from tallybook.ledger.clock import MICROSECONDS, Now, moment
from tallybook.ledger.line import Draft, RawBatch

BY = {"rater": "test"}
BEGIN_US = 1_795_000_000 * MICROSECONDS


class Clock:
    """A clock that only ``move`` moves.

    Attributes:
        unix_us: Microseconds since 1970.
    """

    def __init__(self) -> None:
        """Begin at a moment in November 2026."""
        self.unix_us = BEGIN_US

    def __call__(self) -> Now:
        """Return the present moment."""
        return moment(self.unix_us)

    def move(self, seconds: float) -> str:
        """Move on, or back, and return the new moment as the ledger writes it."""
        self.unix_us += round(seconds * MICROSECONDS)
        return self().at


def rated(*names: str) -> list[Draft]:
    """Return one rating for each name."""
    return [Draft("point.rated", 1, {"name": name, "rating": "helpful"}) for name in names]


def append(log: AnyLog, *names: str, key: str | None = None) -> RawBatch | None:
    """Append one batch of ratings in a transaction of its own."""
    with log.transaction() as tx:
        return tx.append(rated(*names), BY, key)


def lines(log: AnyLog) -> list[dict[str, Any]]:
    """Return every readable event, as JSON."""
    return [json.loads(line) for batch in log.read() for line in batch.lines]


def names(log: AnyLog) -> list[str]:
    """Return the names of all readable ratings, in order."""
    return [line["body"]["name"] for line in lines(log) if line["kind"] == "point.rated"]


def break_off(log: AnyLog) -> None:
    """Append one batch with the key ``k``, and one that is refused, in a transaction that ends with the refusal."""
    with log.transaction() as tx:
        tx.append(rated("lost"), BY, "k")
        tx.append([Draft("x.y", 1, {}, {"text": "\udc00"})], BY)
