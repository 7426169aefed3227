"""The files of a ledger, which a writer holds open from one transaction to the next. Standard library only.

After a write the lock is free, and others write and flush at the same time: the kernel groups their flushes. A writer
that finds the head already past its own batch leaves it there.
"""

from __future__ import annotations

from contextlib import suppress
import os

from tallybook.ledger.errors import DamagedLedgerError, NewerLedgerError, OutcomeUnknownError
from tallybook.ledger.fast_stdlib import import_lazily
from tallybook.ledger.line import LOG_NAME, first_seq
from tallybook.ledger.storage import disk
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.disk import read_at
from tallybook.ledger.storage.head import HEAD_BYTES, Head, has_position

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.line import Position
    from tallybook.ledger.reading import damage
else:
    [damage] = import_lazily("tallybook.ledger.reading.damage")

# Pauses of a fifth of a millisecond. A head that could not be moved leaves the outcome unknown; a failure that could
# not be noted would be forgotten, so that is tried for longer.
HEAD_TRIES = 1_000
REPORT_TRIES = 10_000


class Files:
    """The files of a ledger, open for writing, with the end of the log as the last transaction here left it.

    Attributes:
        boot: This boot of the machine.
        inode: Which file the log is: another may be moved into its place.
        tail: Where the last transaction left the end of the log; None where that is not known.
        failures: How many flushes had failed by then.
        shared: Whether the ledger has taken in a shared book.
        busy: Whether a transaction is open.
        can_note: Whether the lock's file may be written to: it has no second name, under which it could be another's.
        path: The log's path.
        lock_path: The lock's.
        head_path: The head's.
        log: The log, open for appending.
        lock: The lock.
        head: The head.
    """

    def __init__(self, folder: StrPath) -> None:
        """Open them, creating what a new ledger lacks.

        Raises:
            DamagedLedgerError: The log is gone, although bytes of it were acknowledged.
            CannotWriteError: They cannot be opened for writing.
        """
        disk.make_folder(folder)
        self.boot = disk.boot_id()
        self.inode = 0
        self.tail: Position | None = None
        self.failures = 0
        self.shared = False
        self.busy = False
        self.can_note = False
        self.path = os.path.join(folder, LOG_NAME)
        self.lock_path = os.path.join(folder, "lock")
        self.head_path = os.path.join(folder, "head")
        self.log = self.lock = self.head = -1
        try:
            self.lock = disk.open_file(self.lock_path, write=True, create=True)
            self.head = disk.open_file(self.head_path, write=True, create=True)
            disk.refuse_hard_link(self.head, self.head_path, lambda: heads.read(self.head) is not None)
            self.log = self._open_log()
            disk.refuse_hard_link(
                self.log, self.path, lambda: self._was_acknowledged() or first_seq(read_at(self.log, 64, 0)) == 1
            )
        except BaseException:
            self.close()
            raise
        self.inode = os.fstat(self.log).st_ino

    def _open_log(self) -> int:
        """Open the log for appending; a new ledger's is created.

        Raises:
            DamagedLedgerError: It is gone, although bytes of it were acknowledged: it must not begin anew unnoticed.
        """
        try:
            return disk.open_file(self.path, write=True, append=True)
        except FileNotFoundError:
            head = heads.read(self.head)
            if head is not None and head.position.offset:
                raise DamagedLedgerError([damage.missing_log_problem(self.path, head)]) from None
        return disk.open_file(self.path, write=True, append=True, create=True)

    def _was_acknowledged(self) -> bool:
        head = heads.read(self.head)
        return head is not None and head.position.offset > 0

    def note(self, data: bytes) -> None:
        """Note in the lock's file how far the log is written, which saves the next writer a search.

        Args:
            data: The head as it will be once all of that is flushed.
        """
        if self.can_note and self.boot:
            with suppress(OSError):
                heads.write(self.lock, data)

    def read_note(self, head: Head | None, size: int) -> Position | None:
        """Return the end of a batch that was written whole and in its place, None if there is no valid note.

        Under the lock it is the end of the last batch, unless its writer died before it noted it. A note is valid if it
        is of this boot, whose page cache holds the written bytes, and the log has that batch there.

        Args:
            head: How far the log is acknowledged.
            size: Its size.
        """
        if head is None or not self.boot or head.boot != self.boot or head.suspect >= 0 or head.position.offset >= size:
            return None
        try:
            note = heads.decode(read_at(self.lock, heads.HEAD_BYTES, 0))
        except (OSError, NewerLedgerError):
            return None
        if note is None or note.boot != self.boot or not head.position.offset < note.position.offset <= size:
            return None
        return note.position if has_position(self.log, note.position) else None

    def release(self) -> None:
        """Release the lock."""
        self.busy = False
        disk.unlock(self.lock)

    def head_at(self, position: Position) -> bytes:
        """Return the head that says that everything up to a position is acknowledged."""
        return heads.encode(Head(position, self.boot, -1, self.failures, self.shared))

    def lock_head(self, tries: int) -> None:
        """Take the head's own short lock, for a limited number of tries: its holder may have been stopped.

        Raises:
            OutcomeUnknownError: Another process held it all the time.
        """
        for _ in range(tries):
            if disk.try_lock(self.head):
                return
            disk.pause()
        raise OutcomeUnknownError(self.head_path, "held by another process")

    def confirm(self, position: Position, begin: int, opened: Position, noted: bytes) -> None:
        """Make everything up to a position durable, and move the head there; the lock was released before.

        Args:
            position: Where the transaction ends.
            begin: The offset of what it wrote, -1 if it wrote nothing.
            opened: Where it began: the log was verified up to there.
            noted: The note that it left of its end; empty if no other process writes at the same time.

        Raises:
            OutcomeUnknownError: The disk did not confirm it, to this process or to another one meanwhile.
        """
        # Made before the flush: after it the processor's caches are cold, and all code runs slower.
        fresh = noted or self.head_at(position)
        try:
            disk.flush(self.log, self.path)
        except OutcomeUnknownError:
            self.tail = None
            self.report_failure(begin, opened)
            raise
        try:
            if noted and self._is_acknowledged(position.seq, heads.decode(read_at(self.head, HEAD_BYTES, 0))):
                return
            self.lock_head(HEAD_TRIES)
            try:
                self._move_head(position.seq, fresh, is_first=opened.seq == 0)
            finally:
                disk.unlock(self.head)
        except OSError as error:
            raise OutcomeUnknownError(self.head_path, disk.reason(error)) from error

    def _is_acknowledged(self, seq: int, head: Head | None) -> bool:
        """Return whether the head is at an event or past it.

        Raises:
            OutcomeUnknownError: A flush failed since the lock was taken.
        """
        if head is None:
            return False
        if head.failures != self.failures:
            self.tail = None
            raise OutcomeUnknownError(self.path, "another writer's flush failed meanwhile")
        return head.position.seq >= seq

    def _move_head(self, seq: int, fresh: bytes, *, is_first: bool) -> None:
        """Write the head, unless it has passed ``seq``: it never goes back."""
        head = heads.decode(read_at(self.head, HEAD_BYTES, 0))
        if self._is_acknowledged(seq, head):
            return
        if head is not None and head.shared and not self.shared:
            # Another process has taken in a shared book since this one looked at the head.
            self.shared, noted = True, heads.decode(fresh) or head
            fresh = heads.encode(noted._replace(shared=True))
        heads.write(self.head, fresh)
        if is_first or head is None:
            # The first head of a ledger: without it a crash would look like damage.
            disk.flush(self.head, self.head_path)

    def mark_shared(self) -> None:
        """Note in the head that this ledger has taken in a shared book. The caller holds the lock.

        Raises:
            OutcomeUnknownError: The disk did not confirm it.
        """
        self.lock_head(HEAD_TRIES)
        try:
            head = heads.read(self.head)
            if head is not None and not head.shared:
                heads.write(self.head, heads.encode(head._replace(shared=True)))
                disk.flush(self.head, self.head_path)
            self.shared = True
        finally:
            disk.unlock(self.head)

    def report_failure(self, begin: int, opened: Position) -> None:
        """Note in the head where the bytes begin that the disk may have lost; arguments as for ``confirm``.

        Raises:
            OutcomeUnknownError: The head cannot be written either.
        """
        self.lock_head(REPORT_TRIES)
        try:
            head = heads.decode(read_at(self.head, HEAD_BYTES, 0)) or Head(opened, self.boot, shared=self.shared)
            # The batches between the head and this one were not confirmed either, and their writer may be dead.
            suspect = min(offset for offset in (begin, head.position.offset, head.suspect) if offset >= 0)
            heads.write(self.head, heads.encode(head._replace(suspect=suspect, failures=head.failures + 1)))
        except OSError as error:
            raise OutcomeUnknownError(self.path, disk.reason(error)) from error
        finally:
            disk.unlock(self.head)

    def close(self) -> None:
        """Close every file."""
        for fd in (self.log, self.head, self.lock):
            if fd >= 0:
                os.close(fd)
