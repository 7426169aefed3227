"""Batches as a scan reads them: many at once, already split into lines for the codec. Standard library only."""

from __future__ import annotations

from io import BytesIO
from itertools import chain

from tallybook.ledger.fast_stdlib import NamedTuple
from tallybook.ledger.line import CHAIN_MARK, CHAIN_TAIL_BYTES, RawBatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from tallybook.ledger.line import Position

LINE_END = b"}\n"


class LineBatch(NamedTuple):
    """A `RawBatch` split into lines.

    Attributes:
        first: Event number of its first line.
        last: Event number of its last line.
        chain: Its chain value.
        offset: Where it begins in the file.
        lines: Its lines, each a complete JSON object and a line feed; the last one without its chain section.
        erased: As in `RawBatch`.
    """

    first: int
    last: int
    chain: str
    offset: int
    lines: list[bytes]
    erased: bool = False

    @property
    def data(self) -> bytes:
        """Return its lines as the data of a `RawBatch`."""
        return b"".join(self.lines)[: -len(LINE_END)]

    @property
    def end(self) -> int:
        """Return the offset after its last byte."""
        return self.offset + sum(map(len, self.lines)) - len(LINE_END) + len(CHAIN_MARK) + CHAIN_TAIL_BYTES

    @property
    def batch(self) -> RawBatch:
        """Return it as a `RawBatch`."""
        return RawBatch(self.first, self.last, self.chain, self.offset, self.data, self.erased)

    @property
    def position(self) -> Position:
        """Return the position after it."""
        return self.batch.position


def split_lines_with_ends(data: bytes) -> list[bytes]:
    """Return the lines of a batch's data as `LineBatch` has them."""
    return list(BytesIO(data + LINE_END))


def to_line_batch(raw: RawBatch) -> LineBatch:
    """Return a batch split into lines."""
    return LineBatch(raw.first, raw.last, raw.chain, raw.offset, split_lines_with_ends(raw.data), raw.erased)


class Run(NamedTuple):
    """Consecutive batches that were read at once.

    Attributes:
        batches: The batches, in order.
        lacks_text: Whether a text in them may be erased.
    """

    batches: list[LineBatch]
    lacks_text: bool = False


class Batches:
    """An iterator over batches, one by one or run by run.

    Attributes:
        runs: The batches as they were read.
    """

    def __init__(self, runs: Iterator[Run]) -> None:
        """Iterate over the batches of these runs."""
        self.runs = runs
        self._each = (found.batch for found in chain.from_iterable(run.batches for run in runs))

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> RawBatch:
        """Return the next one."""
        return next(self._each)
