"""The repair of a log: recovery before an append, salvage of what still verifies. Standard library only.

Recovery finds the end of the log, seals a torn tail, and writes again what a failed flush left open. Nothing is ever
truncated: a tail that was never acknowledged and does not verify is copied to quarantine and sealed by a
``log.recovered`` line. Salvage continues after a batch that does not verify at the next one that does: after a chain
value in the file, or after the original value of one that was changed.
"""

from __future__ import annotations

from itertools import islice, pairwise
import os

from tallybook.ledger import line
from tallybook.ledger.damage import ByteRange, DamageIndex, find_chains, head_problem, is_unclean
from tallybook.ledger.errors import CannotWriteError, DamagedLedgerError
from tallybook.ledger.fast_stdlib import NamedTuple
from tallybook.ledger.line import START, Draft, Position, RawBatch, Stamp
from tallybook.ledger.scan import Scan, Stop, VerifiedRun
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage.disk import read_at
from tallybook.ledger.storage.head import NO_HEAD, Head, has_position
from tallybook.ledger.storage.redaction import mask

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from tallybook.ledger.fast_stdlib import StrPath


_BLOCK_BYTES = 4096
_COPY_BYTES = 1024 * 1024


# ---- Recovery: the end of the log, before an append ----


class Tail(NamedTuple):
    """The end of a log.

    Attributes:
        position: The position after the last verified batch.
        stop: What follows it; None where the file ends there.
    """

    position: Position
    stop: Stop | None


def find_tail(fd: int, path: StrPath, size: int, head: Head | None, verified: Position | None = None) -> Tail:
    """Return the end of the log, reading no more than is needed to trust it.

    Args:
        fd: The log, open for reading.
        path: Its path.
        size: Its size.
        head: How far it is acknowledged; None where unknown.
        verified: A position up to which the log is known to be whole, in this boot; None where none is.

    Raises:
        DamagedLedgerError: Acknowledged bytes are missing or changed, or the file is another ledger's.
    """
    known = head or NO_HEAD
    folder, name = os.path.split(path)
    if not has_position(fd, known.position):
        # Another ledger's file, even if intact: nothing in it may be sealed, and nothing appended to it.
        raise DamagedLedgerError([head_problem(name, fd, size, known)])
    if head is not None and head.suspect < 0:
        if size == head.position.offset:
            return Tail(head.position, None)
        if verified is not None and size == verified.offset:
            return Tail(verified, None)
    begin = verified if verified is not None and known.position.offset < verified.offset <= size else known.position
    # After a failed flush the page cache may differ from the disk, so the whole log is verified.
    scan = Scan(fd, begin if known.suspect < 0 else START, size, name, redaction.pending_ids(folder))
    position = begin
    for batch in scan:
        position = batch.position
    position = scan.position._replace(at=position.at)
    if scan.stop is not None and not is_unclean(fd, scan.stop.position, head, size):
        raise DamagedLedgerError([scan.stop.problem])
    return Tail(position, scan.stop)


def quarantine(fd: int, begin: int, end: int, folder: StrPath) -> None:
    """Copy a range of the log to a file of its own; runs of NUL bytes become holes, which take no space.

    Raises:
        CannotWriteError: The copy could not be made.
    """
    disk.make_folder(folder)
    copy = os.path.join(folder, f"{begin}-{end}.bin")
    try:
        with disk.hold_open(copy, write=True, create=True) as out:
            disk.refuse_hard_link(out, copy)
            # An interrupted seal may have left a copy of this name.
            os.ftruncate(out, 0)
            for offset in range(begin, end, _BLOCK_BYTES):
                block = read_at(fd, min(_BLOCK_BYTES, end - offset), offset)
                if block.strip(b"\0"):
                    os.lseek(out, offset - begin, os.SEEK_SET)
                    disk.write_all(out, block, copy)
            os.ftruncate(out, end - begin)
            os.fsync(out)
        disk.flush_folder(folder)
    except OSError as error:
        raise CannotWriteError(copy, disk.reason(error)) from error


def seal(fd: int, path: StrPath, tail: Tail, size: int, stamp: Callable[[Position], Stamp]) -> RawBatch:
    """Seal what follows the last verified batch, durably, and return the batch that seals it.

    Raises:
        CannotWriteError: The copy or the line could not be written.
        OutcomeUnknownError: The line could not be flushed.
    """
    begin, folder = tail.position.offset, os.path.dirname(path)
    # Nothing is sealed without its copy.
    quarantine(fd, begin, size, os.path.join(folder, "quarantine"))
    # The sealing line must begin on a line of its own, so a missing line feed is added to the range. The blank before
    # it keeps a batch that lacks only its line feed from becoming complete.
    feed = b"" if read_at(fd, 1, size - 1) == b"\n" else b" \n"
    if feed:
        disk.write_all(fd, feed, path)
    end = size + len(feed)
    body = {"begin": begin, "end": end, "digest": ByteRange(fd, begin).digest(end)}
    batch = line.frame([Draft("log.recovered", 1, body)], stamp(tail.position._replace(offset=end)))
    disk.write_all(fd, batch.raw, path)
    # A seal in another place than it states seals nothing, so no head may acknowledge what follows it.
    disk.check_place(fd, batch.raw, path, end)
    disk.flush(fd, path)
    return batch


def rewrite(path: StrPath, begin: int, end: int) -> None:
    """Write a range again, in place, after a flush of it failed.

    Raises:
        CannotWriteError: It cannot be written, for example because the file is append-only.
        OutcomeUnknownError: It still cannot be flushed.
    """
    try:
        fd = disk.open_file(path, write=True)
    except CannotWriteError as error:
        hint = "if the file is append-only, run `chattr -a` on it, then repeat the command"
        why = f"an earlier flush of it failed, and it must be written again: {error.reason}"
        raise CannotWriteError(path, why, hint) from error
    try:
        with disk.closing(fd):
            for offset in range(begin, end, _COPY_BYTES):
                data = read_at(fd, min(_COPY_BYTES, end - offset), offset)
                os.lseek(fd, offset, os.SEEK_SET)
                disk.write_all(fd, data, path)
            disk.flush(fd, path)
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error)) from error


# ---- Salvage: all that still verifies ----


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


def survey(
    fd: int, start: Position, size: int, source: str, pending: Collection[str] = ()
) -> Iterator[VerifiedRun | Gap]:
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
            yield VerifiedRun([whole])
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
        seq = line.first_seq(read_at(fd, line.CHAIN_TAIL_BYTES + line.CHAIN_CHARS, offset)) - 1
        position = Position(seq, tail[: line.CHAIN_CHARS].decode("ascii", "replace"), offset)
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
    length = end - bad.offset - len(line.CHAIN_MARK) - line.CHAIN_TAIL_BYTES
    data = mask(read_at(fd, min(length, line.MAX_BATCH_BYTES), bad.offset), pending)
    last = bad.seq + data.count(b"\n") + 1
    if line.sum_fault(data) is not None:
        return None
    batch = RawBatch(bad.seq + 1, last, line.compute_chain(bad.chain, data), bad.offset, line.complete_lines(data))
    proof = next(iter(Scan(fd, Position(last, batch.chain, end), proof_end, pending=pending, index=index)), None)
    return batch if proof is not None else None
