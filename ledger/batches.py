"""Batches as bytes of a log are cut into them: many at once, verified, split into lines for the codec.

Standard library only.
"""

from __future__ import annotations

from io import BytesIO
from itertools import chain, islice

from tallybook.ledger.fast_stdlib import NamedTuple, sha256
from tallybook.ledger.line import (
    CHAIN_CHARS,
    CHAIN_END,
    CHAIN_MARK,
    CHAIN_TAIL_BYTES,
    CRC_BYTES,
    FRAME_BYTES,
    FREE_MARK,
    LINE_END,
    MAX_BATCH_BYTES,
    RawBatch,
    chained_bytes,
    complete_lines,
    free_spans,
    sum_fault,
)
from tallybook.ledger.storage import redaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from hashlib import _Hash
    from typing import Self

    from tallybook.ledger.line import Position

    Digest = Callable[[bytes], _Hash]

_FIRST_PART = b'"part":[1,'
# More digits than the size of the longest batch has.
_SIZE_DIGITS = 9
_LONG_BYTES = 2 * 1024 * 1024
# Faster than calling the class, whose __new__ is written in Python.
_new = tuple.__new__


class Run(NamedTuple):
    """Consecutive batches that were read at once.

    Attributes:
        batches: The batches, in order.
        lacks_text: Whether a text in them may be erased.
        has_text: Whether a line of them may have free text.
    """

    batches: list[RawBatch]
    lacks_text: bool = False
    has_text: bool = True


class Batches:
    """An iterator over batches, one by one or run by run.

    Attributes:
        runs: The batches as they were read.
    """

    def __init__(self, runs: Iterator[Run]) -> None:
        """Iterate over the batches of these runs."""
        self.runs = runs
        self._each = chain.from_iterable(run.batches for run in runs)

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> RawBatch:
        """Return the next one."""
        return next(self._each)


# ---- From bytes to verified batches ----


def choose_digest(size: int) -> Digest:
    """Return the faster SHA-256 for so many bytes: OpenSSL is five times as fast, but takes milliseconds to load."""
    if size < _LONG_BYTES:
        return sha256
    import hashlib  # noqa: PLC0415 - see above

    return hashlib.sha256


def verify_run(buffer: bytes, after: Position, pending: Collection[str], digest: Digest | None) -> Run:
    """Return the batches at the beginning of ``buffer``, up to the first that is incomplete or does not verify.

    ``digest`` verifies the chain; None skips that. The loop repeats compute_chain() inline, with a short path for
    batches without free text, because a call per batch would slow a replay down.
    """
    # No line holds a NUL byte: they are what a power loss leaves. So a batch with one never verifies, however the
    # chunks are cut.
    hole = buffer.find(b"\0")
    cut, end = _split_batches(buffer if hole < 0 else buffer[:hole], after)
    if digest is None and not pending:
        return Run(cut)
    verified, proof, lacks_text = [], after.chain, False
    has_no_text = buffer.rfind(FREE_MARK) < 0
    ends = [*(batch.offset for batch in cut), end][1:]
    for batch, batch_end in zip(cut, ends, strict=True):
        data = buffer[batch.offset - after.offset : batch_end - after.offset - FRAME_BYTES]
        values = () if has_no_text else free_spans(data)
        if digest is not None:
            proof = digest(proof.encode() + (chained_bytes(data, values) if values else data)).hexdigest()[:CHAIN_CHARS]
            if proof != batch.chain:
                break
        if not values:
            verified.append(batch)
            continue
        # A text whose redaction is in progress may be overwritten in part.
        data = redaction.mask(data, pending) if pending else data
        if digest is not None and sum_fault(data, values, digest) is not None:
            break
        lacks_text = lacks_text or any(data.startswith(redaction.NULL, begin) for begin, _ in values)
        verified.append(batch._replace(lines=complete_lines(data)) if pending else batch)
    return Run(verified, lacks_text, not has_no_text)


def is_conclusive(buffer: bytes) -> bool:
    """Return whether more bytes cannot complete this batch: it has its chain, is too long, or contains NUL bytes."""
    tail = buffer.partition(CHAIN_MARK)[2]
    return len(tail) >= CHAIN_TAIL_BYTES or len(buffer) >= MAX_BATCH_BYTES + FRAME_BYTES or b"\0" in buffer


def _split_batches(buffer: bytes, after: Position) -> tuple[list[RawBatch], int]:
    """Return the batches at the beginning of ``buffer`` that have the expected form, and the offset after them.

    Each has as many lines as it says, the expected event number, and a chain value, which is not verified here. A
    replay spends most of its time in this loop.
    """
    seq, begin = after.seq, after.offset
    part, place, size = b"\n\n", 0, 0
    cut: list[RawBatch] = []
    rest = BytesIO(buffer)
    for line in rest:
        # Most batches have as many lines as the one before.
        if not line.startswith(part, place):
            place, size = _find_size(line)
            part = b"%b%d]," % (_FIRST_PART, size)
            if not size:
                break
        lines = [line]
        lines += islice(rest, size - 1)
        last = lines[-1]
        if not (last.endswith(CHAIN_END) and last.startswith(CHAIN_MARK, -FRAME_BYTES) and len(lines) == size):
            break
        end = after.offset + rest.tell()
        if not line.startswith(b'"seq":%d,' % (seq + 1), CRC_BYTES) or end - begin > MAX_BATCH_BYTES + FRAME_BYTES:
            break
        chain_value = last[-CHAIN_TAIL_BYTES : -len(CHAIN_END)].decode("latin-1")
        lines[-1] = last[:-FRAME_BYTES] + LINE_END
        cut.append(_new(RawBatch, (seq + 1, seq + size, chain_value, begin, lines, False)))
        seq += size
        begin = end
    return cut, begin


def _find_size(line: bytes) -> tuple[int, int]:
    """Return where a batch's first line states the size of the batch, and the size; 0 where it does not."""
    place = line.find(_FIRST_PART)
    begin = place + len(_FIRST_PART)
    digits = line[begin : line.find(b"],", begin, begin + _SIZE_DIGITS + 2)]
    return place, int(digits) if place >= 0 and digits.isdigit() else 0
