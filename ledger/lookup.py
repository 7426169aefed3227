"""Batches of a log that are found by their bytes, such as an entry's name. Standard library only.

Batches without the bytes are not verified: ``verify`` finds damage in them.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
import os

from tallybook.ledger import line, scan, search
from tallybook.ledger.errors import DamagedLedgerError, Problem
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import Position
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage.disk import read_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Any

    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.log import JsonlLog

# Most batches are shorter; for a longer one the read is doubled until both its ends are found.
_WINDOW_BYTES = 4096


def find_batches(log: JsonlLog, needles: Collection[bytes]) -> Iterator[RawBatch]:
    """Yield every batch of a log that holds one of these byte strings, in order.

    Raises:
        DamagedLedgerError: One of them does not verify, or lacks a text that no redaction explains.
        NewerLedgerError: The ledger's format is from the future.
    """

    def find_redacted() -> set[str]:
        redactions = _find_raw(log, [redaction.REDACTION])
        pending = redaction.pending_ids(log.ledger_folder)
        return {*pending, *chain.from_iterable(map(redaction.redacted_ids, redactions))}

    redacted: Collection[str] = ()
    for batch in _find_raw(log, needles):
        redacted = redaction.check_erased(batch, redacted, find_redacted, os.path.basename(log.log_file))
        yield batch


def find_or_read(
    log: JsonlLog,
    needles: Collection[bytes],
    find: Callable[[Any, Collection[bytes]], Iterator[RawBatch]] = find_batches,
) -> Iterator[RawBatch]:
    """Yield the batches of a log that hold one of these byte strings, in order, as ``find`` does.

    Other batches are not read. If one that holds them is damaged, the whole log is read: that explains damage better.
    """
    last = 0
    with suppress(DamagedLedgerError):
        for batch in find(log, needles):
            last = batch.last
            yield batch
        return
    # What was found before the damage is not yielded twice.
    yield from (batch for batch in log.read() if batch.last > last and any(needle in batch.data for needle in needles))


def bytes_of(field: str, value: str) -> bytes:
    """Return the bytes of a field in the log: every writer writes it in the same way."""
    return f'"{field}":{dumps(value)}'.encode("utf-8", "replace")


def read_batch_at(log: JsonlLog, offset: int) -> RawBatch | None:
    """Return the batch of a log around an offset; None where none verifies by the chain value before it."""
    with suppress(DamagedLedgerError):
        return next(read_batches_at(log, [offset]))
    return None


def read_batches_at(log: JsonlLog, offsets: Iterable[int]) -> Iterator[RawBatch]:
    """Yield the batches of a log around ascending offsets, each once.

    Raises:
        DamagedLedgerError: There is none that verifies by the chain value before it.
    """
    with disk.hold_open(log.log_file) as fd:
        pending = redaction.pending_ids(log.ledger_folder)
        read_up_to = 0
        for offset in offsets:
            # Several offsets can be in one batch.
            if offset >= read_up_to:
                batch = _read_batch(fd, offset, pending)
                if batch is None:
                    source = f"{os.path.basename(log.log_file)}: byte {offset}"
                    raise DamagedLedgerError([Problem(source, "no batch around it verifies")])
                read_up_to = batch.end
                yield batch


def _find_raw(log: JsonlLog, needles: Collection[bytes]) -> Iterator[RawBatch]:
    head = log.head()
    if head.offset:
        with disk.hold_open(log.log_file) as fd:
            sealed = list(search.find_sealed_ranges(fd, 0, head.offset))
            places = search.find_all(fd, needles, 0, head.offset)
            inside = (place for place in places if not any(begin <= place < until for begin, until in sealed))
            yield from read_batches_at(log, inside)
    # Other processes may have appended since; only a full read tells their batches from a torn tail.
    yield from (batch for batch in log.read(head) if any(needle in batch.data for needle in needles))


def _read_batch(fd: int, place: int, pending: Collection[str]) -> RawBatch | None:
    """Return the batch around a place; None where none verifies by the chain value before it."""
    size = _WINDOW_BYTES
    while True:
        start = max(place - size, 0)
        window = read_at(fd, place - start + size, start)
        is_cut = len(window) == place - start + size
        # The line break at the end of the log may be missing.
        window += b"" if is_cut or window.endswith(b"\n") else b"\n"
        # No text holds a mark: a tab in it would be escaped.
        mark = window.rfind(line.CHAIN_MARK, 0, place - start)
        end = window.find(line.CHAIN_MARK, place - start) + line.FRAME_BYTES
        has_begin, has_end = mark >= 0 or not start, line.FRAME_BYTES <= end <= len(window)
        if has_begin and (has_end or not is_cut):
            break
        if size > 2 * line.MAX_BATCH_BYTES:
            return None
        size *= 2
    begin = mark + line.FRAME_BYTES if mark >= 0 else 0
    proof = (
        window[begin - line.CHAIN_TAIL_BYTES : begin - len(line.CHAIN_END)].decode("latin-1") if begin else line.GENESIS
    )
    data = window[begin:end]
    before = Position(line.first_seq(data) - 1, proof, start + begin)
    return next(iter(scan.verify_run(data, before, pending, scan.choose_digest(len(data))).batches), None)
