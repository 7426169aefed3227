"""What a ledger can do, whichever back end holds it; ``backends/table.py`` lists the back ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tallybook.ledger.line import START

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from tallybook.ledger.line import Draft, Position, RawBatch
    from tallybook.ledger.reading.deliveries import Delivery


class Transaction(Protocol):
    """Exclusive right to append. Leaving the context acknowledges the appended batches."""

    position: Position

    def read(self, after: Position = START) -> Iterator[RawBatch]:
        """Yield the batches after a position that were in the log before this transaction."""
        ...

    def look_up(self, keys: Iterable[str]) -> None:
        """Look up many idempotency keys at once, an optimisation for the appends that follow."""
        ...

    def find_delivery(self, key: str, payload: str = "") -> Delivery | None:
        """Return the batch that has this idempotency key; None where none has."""
        ...

    def append(
        self, drafts: Sequence[Draft], by: Mapping[str, str], key: str | None = None, payload: str = ""
    ) -> RawBatch | None:
        """Append a batch; return None if the ledger already has a batch with this idempotency key."""
        ...


class Log(Protocol):
    """An append-only sequence of batches."""

    def exists(self) -> bool:
        """Say whether there is a ledger yet."""
        ...

    def head(self) -> Position:
        """Return the position after the last acknowledged batch."""
        ...

    def read(self, after: Position = START) -> Iterator[RawBatch]:
        """Yield every batch after a position, verified."""
        ...

    def may_contain(self, needle: bytes) -> bool:
        """Return whether some line may contain these bytes; False is certain."""
        ...

    def transaction(self, wait_ms: int = ...) -> AbstractContextManager[Transaction]:
        """Return a context in which batches can be appended."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...
