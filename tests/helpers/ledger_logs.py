"""Logs for tests: a clock, appends, lines, and what breaks them."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
import json
from typing import Any, NamedTuple

from helpers.ledger_lines import batches_of, raw, stamp
from helpers.memory_log import AnyLog
from tallybook.ledger.clock import MICROSECONDS, Now, moment
from tallybook.ledger.codec import encode
from tallybook.ledger.events import LedgerOpened, PlaybookEdited, PlaybookUpdated, PointAdded, PointEdited, PointRated
from tallybook.ledger.line import Draft, Position, RawBatch, frame

BY = {"rater": "test"}
BEGIN_US = 1_795_000_000 * MICROSECONDS


class Clock:
    """A clock that only ``move`` moves."""

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


def make_ratings(*names: str) -> list[Draft]:
    """Return one rating for each name."""
    return [Draft("point.rated", 1, {"name": name, "rating": "helpful"}) for name in names]


def append(log: AnyLog, *names: str, key: str | None = None) -> RawBatch | None:
    """Append one batch of ratings in a transaction of its own."""
    with log.transaction() as tx:
        return tx.append(make_ratings(*names), BY, key)


def lines(log: AnyLog) -> list[dict[str, Any]]:
    """Return every readable event, as JSON."""
    return [json.loads(line) for batch in log.read() for line in batch.lines]


def names(log: AnyLog) -> list[str]:
    """Return the names of all readable ratings, in order."""
    return [line["body"]["name"] for line in lines(log) if line["kind"] == "point.rated"]


def break_off(log: AnyLog) -> None:
    """Append one batch with the key ``k``, and one that is refused, in a transaction that ends with the refusal."""
    with log.transaction() as tx:
        tx.append(make_ratings("lost"), BY, "k")
        tx.append([Draft("x.y", 1, {}, {"text": "\udc00"})], BY)


# Helpers of tests: a log with all shapes of batches, and ways to damage it.


def make_opening(ledger: str) -> list[Draft]:
    """Return the drafts of a ledger's first batch."""
    return [encode(LedgerOpened(ledger, 1))]


# Texts with J and *: a single bit makes a line feed of them. Free text inside a batch and at its end.
GROUPS = [
    [
        encode(PointAdded("kpt_001", "Just *one*")),
        encode(PointRated("kpt_001", "helpful")),
        encode(PlaybookUpdated(1, 1, 0)),
    ],
    [encode(PointRated("kpt_002", "harmful"))],
    [encode(PointEdited("kpt_001", 1, 0, "J*")), encode(PlaybookEdited(None, None, '{"version":"J"}'))],
]
BATCHES = batches_of(make_opening("ledger-1"), *GROUPS)
LOG = raw(BATCHES)
LINES = LOG.splitlines(keepends=True)


def flips(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield offset, bit and the changed bytes for every single bit of a range."""
    for offset in range(begin, end):
        for bit in range(8):
            yield offset, bit, data[:offset] + bytes([data[offset] ^ 1 << bit]) + data[offset + 1 :]


class Sealed(NamedTuple):
    """A log with a torn range that a ``log.recovered`` line seals, and what can be read of it."""

    data: bytes
    batches: list[RawBatch]
    range: tuple[int, int]


def seal_of(mark: Position, torn: bytes, **changed: object) -> RawBatch:
    """Return the line that seals ``torn`` after a position, or one with other fields."""
    begin, end = mark.offset, mark.offset + len(torn)
    body = {"begin": begin, "end": end, "digest": sha256(torn).hexdigest()[:32]} | changed
    return frame([Draft("log.recovered", 1, body)], stamp(mark._replace(offset=end)))


def make_sealed_log(torn: bytes, **changed: object) -> Sealed:
    """Return a log of two batches, a torn range on lines of its own, its seal, and two more batches."""
    torn += b"" if torn.endswith(b"\n") else b"\n"
    before = BATCHES[:2]
    seal = seal_of(before[-1].position, torn, **changed)
    after = batches_of(GROUPS[1], GROUPS[2], mark=seal.position)
    data = raw(before) + torn + seal.raw + raw(after)
    return Sealed(data, [*before, seal, *after], (before[-1].end, seal.offset))
