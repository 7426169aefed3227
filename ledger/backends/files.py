"""The files of a ledger as a writer holds them open, from one transaction to the next. Standard library only."""

from __future__ import annotations

from contextlib import suppress
import os

from tallybook.ledger.errors import CannotWriteError, DamagedLedgerError, NewerLedgerError
from tallybook.ledger.fast_stdlib import import_lazily
from tallybook.ledger.line import first_seq
from tallybook.ledger.storage import disk
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.log_ends import has_position, read_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.line import Position
    from tallybook.ledger.reading import recovery
    from tallybook.ledger.storage.head import Head
else:
    recovery = import_lazily("tallybook.ledger.reading.recovery")

LOG_NAME = "events.jsonl"


class Files:
    """The files of a ledger, open for writing; what the last transaction of this process left is remembered.

    Attributes:
        boot: This boot of the machine.
        inode: Which file the log is: another may be moved into its place.
        tail: Where the last transaction left the end of the log; None where that is not known.
        head_seen: The head's bytes as they were last read or written.
        failures: How many flushes had failed by then.
        busy: Whether a transaction is open.
        notes: Whether the lock's file may be written to: it has no second name, under which it could be another's.
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
        self.head_seen = b""
        self.failures = 0
        self.busy = False
        self.notes = False
        self.path = os.path.join(folder, LOG_NAME)
        self.lock_path = os.path.join(folder, "lock")
        self.head_path = os.path.join(folder, "head")
        self.log = self.lock = self.head = -1
        head: Head | None = None
        try:
            self.lock = disk.open_file(self.lock_path, write=True, create=True)
            self.head = disk.open_file(self.head_path, write=True, create=True)
            # A log that is gone although bytes of it were acknowledged must not begin anew in silence.
            head, _ = heads.read(self.head)
            disk.refuse_hard_link(self.head, self.head_path, ours=head is not None)
            lost = head is not None and head.position.offset > 0
            self.log = disk.open_file(self.path, write=True, append=True, create=not lost)
            ours = lost or first_seq(read_at(self.log, 64, 0)) == 1
            disk.refuse_hard_link(self.log, self.path, ours=ours)
        except FileNotFoundError:
            self.close()
            raise DamagedLedgerError([recovery.missing_log_problem(self.path, head or heads.NO_HEAD)]) from None
        except CannotWriteError:
            self.close()
            raise
        self.inode = os.fstat(self.log).st_ino

    def note(self, data: bytes) -> None:
        """Tell the next writer, in the lock's file, how far the log is written; without it he looks for himself.

        Args:
            data: The head as it will be once all of that is flushed.
        """
        if self.notes and self.boot:
            with suppress(OSError):
                heads.write(self.lock, data)

    def noted(self, head: Head | None, size: int) -> Position | None:
        """Return the end of a batch that was written whole and in its place, None where nobody can say.

        To be asked under the lock: then it is the last one's, unless its writer died before he noted it. A note counts
        if it is of this boot, whose cache holds what was written, and the log has that batch there.

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
        """Give the lock back."""
        self.busy = False
        disk.unlock(self.lock)

    def close(self) -> None:
        """Close every file."""
        for fd in (self.log, self.head, self.lock):
            if fd >= 0:
                os.close(fd)
