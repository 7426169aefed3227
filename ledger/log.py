"""What a ledger can do, whichever back end holds it; ``backends/table.py`` lists the back ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tallybook.ledger.line import START

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from tallybook.ledger.line import Draft, Position, RawBatch


class Transaction(Protocol):
    """The right to append: nobody else does until it ends. Leaving it acknowledges what was appended."""

    position: Position

    def read(self, after: Position = START) -> Iterator[RawBatch]:
        """Yield what stood in the log before this transaction, behind a place."""
        ...

    def look_up(self, keys: Iterable[str]) -> None:
        """Ask for many keys at once; it only makes appending under them cheap."""
        ...

    def append(self, drafts: Sequence[Draft], by: Mapping[str, str], key: str | None = None) -> RawBatch | None:
        """Add a batch; None where its key has been here before."""
        ...


class Log(Protocol):
    """An append-only sequence of batches."""

    def exists(self) -> bool:
        """Say whether there is a ledger yet."""
        ...

    def head(self) -> Position:
        """Return the place behind the last acknowledged batch."""
        ...

    def read(self, after: Position = START) -> Iterator[RawBatch]:
        """Yield every batch behind a place, verified."""
        ...

    def may_contain(self, needle: bytes) -> bool:
        """Say whether bytes may stand in some line: where they do not, no event that is read has them."""
        ...

    def transaction(self, wait_ms: int = ...) -> AbstractContextManager[Transaction]:
        """Return a context in which batches can be appended."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...
