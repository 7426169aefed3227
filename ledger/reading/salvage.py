"""Reading what still verifies in a damaged ledger: every batch that fits a chain value. Standard library only.

After a batch that does not verify, reading continues at the next one that does: after a chain value in the file, or
after the original value of one that was changed.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from tallybook.ledger.batches import Run
from tallybook.ledger.line import (
    CHAIN_CHARS,
    CHAIN_MARK,
    CHAIN_TAIL_BYTES,
    MAX_BATCH_BYTES,
    Position,
    RawBatch,
    complete_lines,
    compute_chain,
    first_seq,
    sum_fault,
)
from tallybook.ledger.reading.damage import DamageIndex, find_chains
from tallybook.ledger.reading.scan import Scan, Stop
from tallybook.ledger.storage.disk import read_at
from tallybook.ledger.storage.redaction import mask

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


class Gap(NamedTuple):
    """A range of the file that does not verify.

    Attributes:
        stop: Where it begins, and what is wrong there.
        after: The position after it; None where nothing after it verifies.
    """

    stop: Stop
    after: Position | None

    @property
    def missing(self) -> tuple[int, int | None]:
        """Return the first and the last missing event number; None where the last is unknown.

        The last is one less than the first where only a chain value was changed and no event is missing.
        """
        return self.stop.position.seq + 1, None if self.after is None else self.after.seq


def survey(fd: int, start: Position, size: int, source: str, pending: Collection[str] = ()) -> Iterator[RawBatch | Gap]:
    """Yield every batch from ``start`` on that verifies, and a gap for every range that does not; as `survey_runs`."""
    for part in survey_runs(fd, start, size, source, pending):
        yield from (part,) if isinstance(part, Gap) else part.batches


def survey_runs(fd: int, start: Position, size: int, source: str, pending: Collection[str] = ()) -> Iterator[Run | Gap]:
    """Yield the batches of each chunk from ``start`` on that verify, and a gap for every range that does not.

    Args:
        fd: The log, open for reading.
        start: Where to begin.
        size: Where to end.
        source: Name of the file in problems.
        pending: Events whose redaction is pending: their texts are treated as erased.
    """
    index = DamageIndex(fd, size)
    while True:
        scan = Scan(fd, start, size, source, pending, index=index)
        yield from scan.runs()
        if scan.stop is None:
            return
        whole, after = _find_next_verified(fd, scan.stop.position, size, pending, index)
        yield Gap(scan.stop, after if whole is None else scan.stop.position)
        if whole is not None:
            yield Run([whole])
        if after is None:
            return
        start = after


def _find_next_verified(
    fd: int, bad: Position, size: int, pending: Collection[str], index: DamageIndex
) -> tuple[RawBatch | None, Position | None]:
    """Return the batch at ``bad`` if only its chain value was changed, and the position where reading continues."""
    whole = _batch_with_changed_chain(fd, bad, size, pending, index)
    if whole is not None:
        return whole, Position(whole.last, whole.chain, whole.end)
    for (tail, offset), (_, end) in pairwise(find_chains(fd, bad.offset, size)):
        seq = first_seq(read_at(fd, CHAIN_TAIL_BYTES + CHAIN_CHARS, offset)) - 1
        position = Position(seq, tail[:CHAIN_CHARS].decode("ascii", "replace"), offset)
        # A position with a lower event number would repeat a part of the ledger.
        if seq >= bad.seq and next(iter(Scan(fd, position, end, pending=pending, index=index)), None) is not None:
            return None, position
    return None, None


def _batch_with_changed_chain(
    fd: int, bad: Position, size: int, pending: Collection[str], index: DamageIndex
) -> RawBatch | None:
    """Return the batch at ``bad`` if the next one verifies with its computed chain value instead of the one on disk."""
    ends = [end for _, end in islice(find_chains(fd, bad.offset, size), 2)]
    if len(ends) < 2:  # noqa: PLR2004 - its own, and that of the batch that proves it
        return None
    end, proof_end = ends
    length = end - bad.offset - len(CHAIN_MARK) - CHAIN_TAIL_BYTES
    data = mask(read_at(fd, min(length, MAX_BATCH_BYTES), bad.offset), pending)
    last = bad.seq + data.count(b"\n") + 1
    if sum_fault(data) is not None:
        return None
    batch = RawBatch(bad.seq + 1, last, compute_chain(bad.chain, data), bad.offset, complete_lines(data))
    proof = next(iter(Scan(fd, Position(last, batch.chain, end), proof_end, pending=pending, index=index)), None)
    return batch if proof is not None else None
