"""Reading single batches by their offsets, each verified by the chain value before it. Standard library only."""

from __future__ import annotations

import os

from tallybook.ledger.errors import DamagedLedgerError, Problem
from tallybook.ledger.line import (
    CHAIN_CHARS,
    CHAIN_END,
    CHAIN_MARK,
    CHAIN_TAIL_BYTES,
    GENESIS,
    MAX_BATCH_BYTES,
    RawBatch,
    complete_lines,
    compute_chain,
    first_seq,
    sum_fault,
)
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.disk import read_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tallybook.ledger.fast_stdlib import StrPath

_FIRST_BYTES = 4096
"""Most batches are shorter; for a longer one the read is doubled until its end is found."""


def read_batches_at(path: StrPath, offsets: Iterable[int]) -> Iterator[RawBatch]:
    """Yield the batches of a log that begin at these offsets.

    Raises:
        DamagedLedgerError: At one of them no batch begins that verifies.
    """
    fd = disk.open_file(path, write=False)
    try:
        for offset in offsets:
            batch = _read_batch(fd, offset)
            if batch is None:
                source = f"{os.path.basename(path)}: byte {offset}"
                raise DamagedLedgerError([Problem(source, "no batch begins here that verifies")])
            yield batch
    finally:
        os.close(fd)


def _read_batch(fd: int, offset: int) -> RawBatch | None:
    begin = min(offset, CHAIN_TAIL_BYTES)
    size, end = _FIRST_BYTES, -1
    while end < 0:
        window = read_at(fd, size, offset - begin)
        # At the end of the log its last line break may be missing.
        window += b"\n" if len(window) < size and not window.endswith(b"\n") else b""
        end = window.find(CHAIN_MARK, begin)
        if end + len(CHAIN_MARK) + CHAIN_TAIL_BYTES > len(window):
            end = -1
        if end < 0 and (len(window) < size or size > 2 * MAX_BATCH_BYTES):
            return None
        size *= 2
    previous = window[: begin - len(CHAIN_END)].decode("latin-1") if begin else GENESIS
    data, tail = window[begin:end], window[end + len(CHAIN_MARK) :][:CHAIN_TAIL_BYTES]
    chain = tail[:CHAIN_CHARS].decode("latin-1")
    if compute_chain(previous, data) != chain or not tail.endswith(CHAIN_END) or sum_fault(data) is not None:
        return None
    first = first_seq(data)
    return RawBatch(first, first + data.count(b"\n"), chain, offset, complete_lines(data))
