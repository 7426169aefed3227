"""A ledger in memory, the model that tests compare the log file with, and a table of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from tallybook.ledger import clock
from tallybook.ledger.clock import Now
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.line import FORMAT, START, Draft, Position, RawBatch, Stamp, frame, join_key, normalize_key
from tallybook.ledger.log import SYSTEM, JsonlLog
from tallybook.ledger.search import Delivery


class MemoryLog:
    """A log that keeps the promises of the file, except durability, in the plainest way."""

    def __init__(self, now: Callable[[], Now] = clock.utc_now) -> None:
        """Begin without a single event."""
        self.now = now
        self.batches: list[RawBatch] = []
        self.deliveries: dict[str, Delivery] = {}

    def head(self) -> Position:
        """Return the position after the last batch."""
        return self.batches[-1].position if self.batches else START

    def exists(self) -> bool:
        """Return whether anything was ever appended."""
        return bool(self.batches)

    def close(self) -> None:
        """Nothing is open."""

    def read(self, after: Position = START) -> Iterator[RawBatch]:
        """Yield the batches after a position."""
        return iter([batch for batch in self.batches if batch.first > after.seq])

    def may_contain(self, needle: bytes) -> bool:
        """Return whether bytes occur anywhere in the log."""
        return any(needle in batch.data for batch in self.batches)

    def transaction(self) -> MemoryTransaction:
        """Return a transaction."""
        return MemoryTransaction(self)


class MemoryTransaction:
    """Appended batches are kept if the context is left without an exception."""

    def __init__(self, log: MemoryLog) -> None:
        """Begin after the last batch."""
        self._log = log
        self._pending: list[RawBatch] = []
        self._deliveries: dict[str, Delivery] = {}
        self.position = log.head()

    def __enter__(self) -> Self:
        """Open the ledger if this is its first transaction."""
        if self.position.seq == 0:
            opened = {"ledger": clock.new_id(self._log.now().unix_us), "format": FORMAT}
            self.append([Draft("ledger.opened", 1, opened)], SYSTEM)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Keep the appended batches, or, after an exception, none."""
        if kind is None:
            self._log.batches += self._pending
            self._log.deliveries |= self._deliveries

    def read(self, after: Position = START) -> Iterator[RawBatch]:
        """Yield the batches that the ledger had before this transaction."""
        return self._log.read(after)

    def look_up(self, wanted: Iterable[str]) -> None:
        """Do nothing: every key is in memory."""

    def find_delivery(self, key: str, payload: str = "") -> Delivery | None:
        """Return the batch that has an idempotency key; None where none has."""
        del payload
        plain = normalize_key(key)
        return self._deliveries.get(plain) or self._log.deliveries.get(plain)

    def append(
        self, drafts: Sequence[Draft], by: Mapping[str, str], key: str | None = None, payload: str = ""
    ) -> RawBatch | None:
        """Add a batch, or return None if the ledger has its key already."""
        if not drafts:
            raise BadInputError("batch", "has no event")
        if key is not None and self.find_delivery(key) is not None:
            return None
        joined = None if key is None else join_key(normalize_key(key), payload)
        now = self._log.now()
        at = clock.clamp_time(now.at, self.position.at)
        stamp = Stamp(self.position, at, by, lambda: clock.new_id(now.unix_us), clock.new_salt, joined)
        batch = frame(drafts, stamp)
        if key is not None:
            self._deliveries[normalize_key(key)] = Delivery(batch.first, batch.last, payload)
        self._pending.append(batch)
        self.position = batch.position
        return batch


AnyLog = JsonlLog | MemoryLog
