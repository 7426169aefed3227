"""Recovery before an append: find the end of the log, seal a torn tail, rewrite what a failed flush left open.

Nothing is ever truncated. A tail that was never acknowledged and does not verify is copied to quarantine and sealed by
a ``log.recovered`` line. Batches whose flush failed are written again. Standard library only.
"""

from __future__ import annotations

import os

from tallybook.ledger.errors import CannotWriteError, DamagedLedgerError, OutcomeUnknownError
from tallybook.ledger.fast_stdlib import NamedTuple
from tallybook.ledger.line import (
    START,
    Draft,
    Position,
    RawBatch,
    Stamp,
    frame,
)
from tallybook.ledger.reading.damage import ByteRange, head_problem, is_unclean
from tallybook.ledger.reading.scan import Scan, Stop
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage.disk import read_at
from tallybook.ledger.storage.head import NO_HEAD, Head, has_position

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.ledger.fast_stdlib import StrPath

_BLOCK_BYTES = 4096
_COPY_BYTES = 1024 * 1024


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
        out = disk.open_file(copy, write=True, create=True)
        try:
            disk.refuse_hard_link(out, copy)
            os.ftruncate(out, 0)
            for offset in range(begin, end, _BLOCK_BYTES):
                block = read_at(fd, min(_BLOCK_BYTES, end - offset), offset)
                if block.strip(b"\0"):
                    os.lseek(out, offset - begin, os.SEEK_SET)
                    disk.write_all(out, block, copy)
            os.ftruncate(out, end - begin)
            os.fsync(out)
        finally:
            os.close(out)
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
    quarantine(fd, begin, size, os.path.join(folder, "quarantine"))
    # The sealing line must begin on a line of its own, so a missing line feed is added to the range. The blank before
    # it keeps a batch that lacks only its line feed from becoming complete.
    feed = b"" if read_at(fd, 1, size - 1) == b"\n" else b" \n"
    if feed:
        disk.write_all(fd, feed, path)
    end = size + len(feed)
    body = {"begin": begin, "end": end, "digest": ByteRange(fd, begin).digest(end)}
    batch = frame([Draft("log.recovered", 1, body)], stamp(tail.position._replace(offset=end)))
    disk.write_all(fd, batch.raw, path)
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
        for offset in range(begin, end, _COPY_BYTES):
            data = read_at(fd, min(_COPY_BYTES, end - offset), offset)
            os.lseek(fd, offset, os.SEEK_SET)
            disk.write_all(fd, data, path)
        disk.flush(fd, path)
    except OutcomeUnknownError:
        raise
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error)) from error
    finally:
        os.close(fd)
