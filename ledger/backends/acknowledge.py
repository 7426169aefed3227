"""Behind the write: the flush, and the head that says that it was done. Standard library only.

The lock is free by now, and others write and flush at the same time: the kernel groups their flushes, and whoever
finds the head past himself leaves it there.
"""

from __future__ import annotations

from tallybook.ledger.errors import OutcomeUnknownError
from tallybook.ledger.storage import disk
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.head import HEAD_BYTES, Head
from tallybook.ledger.storage.log_ends import read_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tallybook.ledger.backends.files import Files
    from tallybook.ledger.line import Position

# Pauses of a fifth of a millisecond. A head that could not be moved leaves the outcome unknown; a failure that could
# not be noted would be forgotten, so that is tried for longer.
HEAD_TRIES = 1_000
REPORT_TRIES = 10_000


def lock_head(files: Files, tries: int) -> None:
    """Take the head's own short lock; a holder that was stopped in it delays nobody for ever.

    Raises:
        OutcomeUnknownError: It was held all the while.
    """
    for _ in range(tries):
        if disk.try_lock(files.head):
            return
        disk.pause()
    raise OutcomeUnknownError(files.head_path, "held by another process")


def told(files: Files, mark: Position) -> bytes:
    """Return the head that says that everything up to ``mark`` is acknowledged."""
    return heads.encode(Head(mark, files.boot, -1, files.failures))


def confirm(files: Files, mark: Position, begin: int, opened: Position, noted: bytes) -> None:
    """Make everything up to a place durable, and move the head there.

    Args:
        files: The ledger's files, the lock given back.
        mark: Where the transaction ends.
        begin: The offset of what it wrote, -1 where it wrote nothing.
        opened: Where it began: the log was verified up to there.
        noted: The note that it left of its end; empty where nobody else writes at the same time.

    Raises:
        OutcomeUnknownError: The disk would not confirm it, or not to somebody else meanwhile.
    """
    # Made before the flush: behind it all that runs runs cold.
    fresh = noted or told(files, mark)
    try:
        disk.flush(files.log, files.path)
    except OutcomeUnknownError:
        files.tail = None
        report_failure(files, begin, opened)
        raise
    try:
        if noted and _is_acknowledged(files, mark.seq, heads.decode(read_at(files.head, HEAD_BYTES, 0))):
            return
        lock_head(files, HEAD_TRIES)
        try:
            _move_head(files, mark.seq, fresh, is_first=opened.seq == 0)
        finally:
            disk.unlock(files.head)
    except OSError as error:
        raise OutcomeUnknownError(files.head_path, disk.reason(error)) from error


def _is_acknowledged(files: Files, seq: int, found: Head | None) -> bool:
    """Say whether the head is past a place.

    Raises:
        OutcomeUnknownError: A flush failed since the lock was taken.
    """
    if found is None:
        return False
    if found.failures != files.failures:
        files.tail = None
        raise OutcomeUnknownError(files.path, "another writer's flush failed meanwhile")
    return found.position.seq >= seq


def _move_head(files: Files, seq: int, fresh: bytes, *, is_first: bool) -> None:
    """Write the head, unless it is past ``seq``: it never goes back."""
    seen = read_at(files.head, HEAD_BYTES, 0)
    if seen != files.head_seen:
        found = heads.decode(seen)
        is_first = is_first or found is None
        if _is_acknowledged(files, seq, found):
            return
    heads.write(files.head, fresh)
    if is_first:
        # The first head of a ledger: without it a crash could not be told from damage.
        disk.flush(files.head, files.head_path)
    files.head_seen = fresh


def report_failure(files: Files, begin: int, opened: Position) -> None:
    """Note in the head where the bytes begin that the disk may have lost; arguments as above.

    Raises:
        OutcomeUnknownError: The head takes nothing either.
    """
    lock_head(files, REPORT_TRIES)
    try:
        found = heads.decode(read_at(files.head, HEAD_BYTES, 0)) or Head(opened, files.boot)
        # What lies between the head and this batch was not confirmed either, and its writer may be dead.
        suspect = min(place for place in (begin, found.position.offset, found.suspect) if place >= 0)
        heads.write(files.head, heads.encode(found._replace(suspect=suspect, failures=found.failures + 1)))
    except OSError as error:
        raise OutcomeUnknownError(files.path, disk.reason(error)) from error
    finally:
        disk.unlock(files.head)
