"""Batches as a scan finds them: many at once, each by its lines, so that whoever folds them need not divide it again.

Standard library only.
"""

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
    """A batch by its lines: what else is asked of it is what a `RawBatch` tells.

    Attributes:
        first: Sequence number of its first line.
        last: Sequence number of its last line.
        chain: Its chain value.
        offset: Where it begins in the file.
        lines: Its lines, each a whole JSON object and a line feed; the last one's chain section is left out.
        erased: Whether it seals a range that was blotted out since, and so proves it no more.
    """

    first: int
    last: int
    chain: str
    offset: int
    lines: list[bytes]
    erased: bool = False

    @property
    def data(self) -> bytes:
        """Return its lines as one."""
        return b"".join(self.lines)[: -len(LINE_END)]

    @property
    def end(self) -> int:
        """Return the offset of the byte behind it."""
        return self.offset + sum(map(len, self.lines)) - len(LINE_END) + len(CHAIN_MARK) + CHAIN_TAIL_BYTES

    @property
    def batch(self) -> RawBatch:
        """Return it as the batch that it is."""
        return RawBatch(self.first, self.last, self.chain, self.offset, self.data, self.erased)

    @property
    def position(self) -> Position:
        """Return the place behind it."""
        return self.batch.position


def split_lines_with_ends(data: bytes) -> list[bytes]:
    """Return the lines of a batch's data as `Found` has them."""
    return list(BytesIO(data + LINE_END))


def to_line_batch(raw: RawBatch) -> LineBatch:
    """Return a batch by its lines."""
    return LineBatch(raw.first, raw.last, raw.chain, raw.offset, split_lines_with_ends(raw.data), raw.erased)


class Run(NamedTuple):
    """Batches that follow one another, and were read at once.

    Attributes:
        batches: They, in order.
        lacks_text: Whether a text of them may be gone.
    """

    batches: list[LineBatch]
    lacks_text: bool = False


class Batches:
    """Batches to be gone through once, one by one or as they were read.

    Attributes:
        runs: The second.
    """

    def __init__(self, runs: Iterator[Run]) -> None:
        """Go through what comes in these runs."""
        self.runs = runs
        self._each = (found.batch for found in chain.from_iterable(run.batches for run in runs))

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> RawBatch:
        """Return the next one."""
        return next(self._each)
