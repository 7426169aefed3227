"""The batches of a log that hold some bytes, found by a search of the log and verified by the chain value before each.

Batches without the bytes are not verified: ``verify`` finds damage in them. Standard library only.
"""

from __future__ import annotations

from itertools import chain
import os

from tallybook.ledger.errors import DamagedLedgerError, Problem
from tallybook.ledger.line import (
    CHAIN_END,
    CHAIN_MARK,
    CHAIN_TAIL_BYTES,
    FRAME_BYTES,
    GENESIS,
    MAX_BATCH_BYTES,
    Position,
    RawBatch,
    first_seq,
)
from tallybook.ledger.reading.deliveries import WINDOW_BYTES, sealed_ranges
from tallybook.ledger.reading.scan import choose_digest, verify_run
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage.disk import read_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallybook.ledger.log import JsonlLog

# Most batches are shorter; for a longer one the read is doubled until both its ends are found.
_FIRST_BYTES = 4096


def find_batches(log: JsonlLog, needles: Collection[bytes]) -> Iterator[RawBatch]:
    """Yield every batch of a log that holds one of these byte strings, in order.

    Raises:
        DamagedLedgerError: One of them does not verify, or lacks a text that no redaction explains.
        NewerLedgerError: The ledger's format is from the future.
    """
    redacted: set[str] | None = None
    for batch in _find(log, needles):
        if missing := redaction.find_erased(batch):
            # Mostly no text is missing, so the redactions are looked for only once one is.
            if redacted is None:
                redactions = _find(log, [redaction.REDACTED])
                redacted = {
                    *redaction.pending_ids(log.ledger_folder),
                    *chain.from_iterable(map(redaction.redacted_ids, redactions)),
                }
            if problems := redaction.find_unexplained(missing, redacted, os.path.basename(log.log_file)):
                raise DamagedLedgerError(problems)
        yield batch


def read_batch_at(log: JsonlLog, offset: int) -> RawBatch | None:
    """Return the batch of a log around an offset; None where none verifies by the chain value before it."""
    fd = disk.open_file(log.log_file, write=False)
    try:
        return _read_batch(fd, offset, redaction.pending_ids(log.ledger_folder))
    finally:
        os.close(fd)


def _find(log: JsonlLog, needles: Collection[bytes]) -> Iterator[RawBatch]:
    head = log.head()
    if head.offset:
        yield from _find_acknowledged(log, needles, head.offset)
    # Other processes may have appended since; only a full read tells their batches from a torn tail.
    yield from (batch for batch in log.read(head) if any(needle in batch.data for needle in needles))


def _find_acknowledged(log: JsonlLog, needles: Collection[bytes], end: int) -> Iterator[RawBatch]:
    fd = disk.open_file(log.log_file, write=False)
    try:
        pending = redaction.pending_ids(log.ledger_folder)
        sealed = list(sealed_ranges(fd, 0, end))
        read_up_to = 0
        for place in _places(fd, needles, end):
            if place >= read_up_to and not any(begin <= place < until for begin, until in sealed):
                batch = _read_batch(fd, place, pending)
                if batch is None:
                    source = f"{os.path.basename(log.log_file)}: byte {place}"
                    raise DamagedLedgerError([Problem(source, "no batch around it verifies")])
                read_up_to = batch.end
                yield batch
    finally:
        os.close(fd)


def _places(fd: int, needles: Collection[bytes], end: int) -> Iterator[int]:
    """Yield the offset of each occurrence of these byte strings in the log, a few of them twice."""
    # An occurrence may lie across two windows.
    more = max(map(len, needles), default=0)
    for begin in range(0, end, WINDOW_BYTES):
        window = read_at(fd, min(WINDOW_BYTES + more, end - begin), begin)
        places = []
        for needle in needles:
            place = window.find(needle)
            while place >= 0:
                places.append(begin + place)
                place = window.find(needle, place + 1)
        yield from sorted(places)


def _read_batch(fd: int, place: int, pending: Collection[str]) -> RawBatch | None:
    """Return the batch around a place; None where none verifies by the chain value before it."""
    size = _FIRST_BYTES
    while True:
        start = max(place - size, 0)
        window = read_at(fd, place - start + size, start)
        is_cut = len(window) == place - start + size
        # The line break at the end of the log may be missing.
        window += b"" if is_cut or window.endswith(b"\n") else b"\n"
        # No text holds a mark: a tab in it would be escaped.
        mark, end = window.rfind(CHAIN_MARK, 0, place - start), window.find(CHAIN_MARK, place - start) + FRAME_BYTES
        has_begin, has_end = mark >= 0 or not start, FRAME_BYTES <= end <= len(window)
        if has_begin and (has_end or not is_cut):
            break
        if size > 2 * MAX_BATCH_BYTES:
            return None
        size *= 2
    begin = mark + FRAME_BYTES if mark >= 0 else 0
    proof = window[begin - CHAIN_TAIL_BYTES : begin - len(CHAIN_END)].decode("latin-1") if begin else GENESIS
    data = window[begin:end]
    before = Position(first_seq(data) - 1, proof, start + begin)
    return next(iter(verify_run(data, before, pending, choose_digest(len(data))).batches), None)
