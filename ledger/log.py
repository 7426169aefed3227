"""The log of a ledger: one append-only file of lines, written by many short processes at once.

Take the lock, look at the end, write the batch in one call, release the lock, flush, move the head, acknowledge. The
flush is outside the lock, so that the kernel groups the flushes of many writers. A writer that finds the head already
past its own batch leaves it there. Standard library only, for hooks.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
import os

from tallybook.ledger import clock, errors, line
from tallybook.ledger.fast_stdlib import import_lazily
from tallybook.ledger.line import START, Draft, Position, RawBatch, Stamp
from tallybook.ledger.storage import disk
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.disk import read_at
from tallybook.ledger.storage.head import NO_HEAD, Head, check_format, has_position, log_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Protocol, Self

    from tallybook.ledger import damage, scan, search
    from tallybook.ledger.clock import Now
    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.search import Delivery

    class Log(Protocol):
        """What can be read as a ledger's history: a log file, or own ledger and shared book as one."""

        def exists(self) -> bool:
            """Return whether there is a ledger yet."""

        def head(self) -> Position:
            """Return the position after the last acknowledged batch."""

        def read(self, after: Position = START) -> Iterator[RawBatch]:
            """Yield every batch after a position, verified."""

        def may_contain(self, needle: bytes) -> bool:
            """Return whether some line may contain these bytes; False is certain."""
else:
    # A hook that appends to an intact ledger needs none of these, but for the keys where its delivery has one.
    damage, scan, search = import_lazily("tallybook.ledger.damage", "tallybook.ledger.scan", "tallybook.ledger.search")

SYSTEM = {"rater": "tallybook"}
# Pauses of a fifth of a millisecond. A head that could not be moved leaves the outcome unknown; a failure that could
# not be noted would be forgotten, so that is tried for longer.
HEAD_TRIES = 1_000
REPORT_TRIES = 10_000


class LogFiles:
    """The files of a ledger, open for writing.

    Attributes:
        inode: Which file the log is: another may be moved into its place.
        failures: How many flushes had failed when the present transaction began.
        shared: Whether the ledger had taken in a shared book by then.
        busy: Whether a transaction is open.
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
        self.failures = 0
        self.shared = False
        self.busy = False
        self.path = os.path.join(folder, line.LOG_NAME)
        self.lock_path = os.path.join(folder, "lock")
        self.head_path = os.path.join(folder, "head")
        self.log = self.lock = self.head = -1
        try:
            self.lock = disk.open_file(self.lock_path, write=True, create=True)
            self.head = disk.open_file(self.head_path, write=True, create=True)
            # A backup by hard links gives every file a second name, so only the content tells whose file it is.
            disk.refuse_hard_link(self.head, self.head_path, lambda: heads.read(self.head) is not None)
            try:
                self.log = disk.open_file(self.path, write=True, append=True)
            except FileNotFoundError:
                head = heads.read(self.head)
                # A ledger must not begin anew unnoticed.
                if head is not None and head.position.offset:
                    raise errors.DamagedLedgerError([damage.make_missing_log_problem(head)]) from None
                self.log = disk.open_file(self.path, write=True, append=True, create=True)
            disk.refuse_hard_link(self.log, self.path, lambda: line.first_seq(read_at(self.log, 64, 0)) == 1)
        except BaseException:
            self.close()
            raise
        self.inode = os.fstat(self.log).st_ino

    @contextmanager
    def lock_head(self, tries: int) -> Iterator[Head | None]:
        """Give the head under its own short lock, after a limited number of tries: its holder may have been stopped.

        Raises:
            OutcomeUnknownError: Another process held it all the time, or the system refuses.
        """
        try:
            while not disk.try_lock(self.head):
                tries -= 1
                if not tries:
                    raise errors.OutcomeUnknownError(self.head_path, "held by another process")
                disk.pause()
            try:
                yield heads.read(self.head)
            finally:
                disk.unlock(self.head)
        except OSError as error:
            raise errors.OutcomeUnknownError(self.head_path, disk.reason(error)) from error

    def confirm(self, position: Position, begin: int, opened: Position) -> None:
        """Make everything up to a position durable, and move the head there; the lock was released before.

        Args:
            position: Where the transaction ends.
            begin: The offset of what it wrote, -1 if it wrote nothing.
            opened: Where it began: the log was verified up to there.

        Raises:
            OutcomeUnknownError: The disk did not confirm it, to this process or to another one meanwhile.
        """
        try:
            disk.flush(self.log, self.path)
        except errors.OutcomeUnknownError:
            self.report_failure(begin, opened)
            raise
        with self.lock_head(HEAD_TRIES) as head:
            if head is not None and head.failures != self.failures:
                raise errors.OutcomeUnknownError(self.path, "another writer's flush failed meanwhile")
            # The head never goes back: a later writer may have flushed this batch with its own.
            if head is None or head.position.seq < position.seq:
                # Another process may have taken in a shared book since this one looked at the head.
                shared = self.shared or (head is not None and head.shared)
                heads.write(self.head, Head(position, -1, self.failures, shared))
                if opened.seq == 0 or head is None:
                    # The first head of a ledger: without it a crash would look like damage.
                    disk.flush(self.head, self.head_path)

    def mark_shared(self) -> None:
        """Note in the head that this ledger has taken in a shared book. The caller holds the lock.

        Raises:
            OutcomeUnknownError: The disk did not confirm it.
        """
        with self.lock_head(HEAD_TRIES) as head:
            if head is not None and not head.shared:
                heads.write(self.head, head._replace(shared=True))
                disk.flush(self.head, self.head_path)
            self.shared = True

    def report_failure(self, begin: int, opened: Position) -> None:
        """Note in the head where the bytes begin that the disk may have lost; arguments as for ``confirm``.

        Raises:
            OutcomeUnknownError: The head cannot be written either.
        """
        with self.lock_head(REPORT_TRIES) as present:
            head = present or Head(opened, shared=self.shared)
            # The batches between the head and this one were not confirmed either, and their writer may be dead.
            suspect = min(offset for offset in (begin, head.position.offset, head.suspect) if offset >= 0)
            heads.write(self.head, head._replace(suspect=suspect, failures=head.failures + 1))

    def close(self) -> None:
        """Close every file."""
        for fd in (self.log, self.head, self.lock):
            # A hook may start without standard input; then the first file that it opens has the number 0.
            if fd >= 0:
                os.close(fd)


class JsonlLog:
    """A ledger in a folder. One object is for one thread; every process and thread opens its own.

    Attributes:
        ledger_folder: The ledger's folder, ``<project>/.claude/ledger``.
        log_file: The file of events in it.
        watch: Is called with the progress of a read: bytes done, and bytes in all.
    """

    def __init__(self, folder: StrPath, now: Callable[[], Now] = clock.utc_now) -> None:
        """Remember the folder; nothing is opened or created yet."""
        self.ledger_folder = os.fspath(folder)
        self.log_file = os.path.join(self.ledger_folder, line.LOG_NAME)
        self.now = now
        self.files: LogFiles | None = None
        self.watch: Callable[[int, int], None] = lambda _done, _size: None

    @property
    def folder(self) -> Path:
        """Return the ledger's folder for callers that use ``pathlib``; a hook does not, as it is slow to load."""
        from pathlib import Path  # noqa: PLC0415

        return Path(self.ledger_folder)

    @property
    def path(self) -> Path:
        """Return the file of events, for the same callers."""
        return self.folder / line.LOG_NAME

    def close(self) -> None:
        """Close the files that a transaction left open."""
        if self.files is not None:
            self.files.close()
            self.files = None

    def exists(self) -> bool:
        """Return whether there is a ledger, or at least its head."""
        return os.path.exists(self.log_file) or os.path.exists(os.path.join(self.ledger_folder, "head"))

    def head(self) -> Position:
        """Return the position after the last acknowledged batch, START if there is no ledger."""
        return (self.read_head() or NO_HEAD).position

    def read_head(self) -> Head | None:
        """Return the head, None if there is none or it is torn."""
        path = os.path.join(self.ledger_folder, "head")
        with suppress(FileNotFoundError), open(disk.open_file(path, write=False), "rb", 0) as file:
            return heads.read(file.fileno())
        return None

    def read(self, after: Position = START) -> Iterator[RawBatch]:
        """Yield every batch after a position, each verified.

        A torn tail that was never acknowledged is omitted: the next writer seals it.

        Args:
            after: The position.

        Raises:
            DamagedLedgerError: Acknowledged bytes are gone or changed.
            NewerLedgerError: The ledger's format is from the future.
        """
        return scan.read_log(self, after)

    def may_contain(self, needle: bytes) -> bool:
        """Return whether bytes occur anywhere in the log; much faster than reading, and nothing is verified."""
        with suppress(FileNotFoundError), disk.hold_open(self.log_file) as fd:
            size = os.fstat(fd).st_size
            try:
                return next(search.find_all(fd, (needle,), 0, size, self.watch), None) is not None
            finally:
                self.watch(size, size)
        return False

    def find_delivery(self, key: str) -> Delivery | None:
        """Return the batch that has an idempotency key, without the lock; None where none has."""
        with suppress(FileNotFoundError), disk.hold_open(self.log_file) as fd:
            key = line.normalize_key(key)
            return search.find_deliveries(fd, (key,), os.fstat(fd).st_size).get(key)
        return None

    def transaction(self) -> Transaction:
        """Return a transaction: it holds the lock, and on leaving it the appended batches are durable."""
        return Transaction(self)


class Transaction:
    """The right to append: entering takes the lock, leaving writes the appended batches durably, all or none.

    Attributes:
        position: The position after the last batch, appended ones included.
    """

    # Set on entering.
    _files: LogFiles

    def __init__(self, log: JsonlLog) -> None:
        """Prepare; the lock is taken on entering."""
        self._log = log
        self._pending: list[RawBatch] = []
        self._needs_flush = False
        # The keys that were looked up → the batch that has each, None where none does.
        self._deliveries: dict[str, Delivery | None] = {}
        # The log was verified up to here when the lock was taken: all that is known if the head is torn.
        self._start = START
        self.position = START

    def __enter__(self) -> Self:
        """Take the lock, and repair the end of the log if a crash left it torn.

        Raises:
            LockHeldError: Another process holds it.
            DamagedLedgerError: Acknowledged bytes are gone or changed.
            NewerLedgerError: The ledger's format is from the future.
            CannotWriteError: The ledger cannot be opened for writing.
        """
        files, size = self._open()
        self._files = files
        try:
            self._find_end(files, size)
            self._start = self.position
            if self.position.seq == 0:
                self._open_ledger(files)
        except BaseException:
            files.busy = False
            disk.unlock(files.lock)
            raise
        return self

    def _open(self) -> tuple[LogFiles, int]:
        """Return the ledger's files with the lock held, and the log's size; opened anew if the log was replaced."""
        log = self._log
        if log.files is not None and log.files.busy:
            raise RuntimeError("a transaction of this log is open; a log is for one thread, and one at a time")
        while True:
            files = log.files or LogFiles(log.ledger_folder)
            log.files = files
            disk.lock(files.lock, files.lock_path, disk.LOCK_WAIT_MS)
            with suppress(OSError):
                file = os.stat(files.path)
                if file.st_ino == files.inode and os.fstat(files.lock).st_nlink:
                    files.busy = True
                    return files, file.st_size
            # Another log was put in place, as import does, or the lock's file is gone: all are opened anew.
            log.close()

    def _find_end(self, files: LogFiles, size: int) -> None:
        """Find the end of the log, seal a torn tail, write again the bytes of a failed flush."""
        head = heads.read(files.head)
        check_format(files.log, files.path)
        if head and head.suspect < 0 and head.position.offset == size and has_position(files.log, head.position):
            # All of it is acknowledged, and there is nothing else.
            self.position = head.position
        else:
            # An editor or a shell removed the last line break. Without it the next line would continue the last one.
            if size < log_size(files.log, size, head):
                disk.write_all(files.log, b"\n", files.path)
                size += 1
                self._needs_flush = True
            tail = scan.find_tail(files.log, files.path, size, head)
            self.position = tail.position
            if tail.stop is not None:
                batch = self._seal(files, tail.position, size)
                self.position, size = batch.position, batch.end
                self._needs_flush = True
            if head is not None and head.suspect >= 0:
                head = self._rewrite_suspect(files, head, size)
                # All bytes are on disk now, whichever process wrote them, so the head may acknowledge them.
                self._needs_flush = True
        files.failures, files.shared = (head or NO_HEAD).failures, (head or NO_HEAD).shared

    def _rewrite_suspect(self, files: LogFiles, head: Head, size: int) -> Head:
        """Write the bytes again that a failed flush may have lost, and return the head without ``suspect``."""
        while True:
            damage.rewrite(self._log.log_file, head.suspect, size)
            with files.lock_head(REPORT_TRIES) as read:
                present = read or head
                if present.failures == head.failures:
                    head = present._replace(suspect=-1)
                    heads.write(files.head, head)
                    return head
            # Another flush failed meanwhile: its range needs the same.
            head = present

    def _seal(self, files: LogFiles, tail: Position, size: int) -> RawBatch:
        try:
            return damage.seal(files.log, self._log.log_file, tail, size, lambda end: self._stamp(end, SYSTEM, None))
        except errors.OutcomeUnknownError:
            files.report_failure(tail.offset, self._start)
            raise

    def _open_ledger(self, files: LogFiles) -> None:
        """Begin a ledger: its first line has its id, and its head says that nothing is acknowledged yet.

        Raises:
            CannotWriteError: The disk would not confirm the head or the names; nothing was recorded.
        """
        folder = self._log.ledger_folder
        # Git ignores the ledger, unless a project chooses to track it.
        with suppress(OSError), os.fdopen(disk.create_file(os.path.join(folder, ".gitignore")), "wb") as file:
            file.write(b"*\n")
        try:
            # Without a head, a torn first batch that lost its first sectors would look like damage.
            heads.write(files.head, heads.read(files.head) or NO_HEAD)
            disk.flush_data(files.head)
            disk.flush_folder(folder)
        except OSError as error:
            raise errors.CannotWriteError(folder, disk.reason(error)) from error
        opened = {"ledger": clock.new_id(self._log.now().unix_us), "format": line.FORMAT}
        self.append([Draft("ledger.opened", 1, opened)], SYSTEM)

    def _stamp(self, position: Position, by: Mapping[str, str], key: str | None) -> Stamp:
        now = self._log.now()
        at = clock.clamp_time(now.at, position.at)
        return Stamp(position, at, by, lambda: clock.new_id(now.unix_us), clock.new_salt, key)

    def read(self, after: Position = START) -> Iterator[RawBatch]:
        """Yield the batches that the log had before this transaction, after a position."""
        return self._log.read(after)

    def append(
        self, drafts: Sequence[Draft], by: Mapping[str, str], key: str | None = None, payload: str = ""
    ) -> RawBatch | None:
        """Add a batch; it is written when the transaction is left.

        Args:
            drafts: The events, at least one.
            by: Who records them; at least ``rater``.
            key: Idempotency key; None where the delivery cannot come twice.
            payload: Digest of what is delivered, where the caller gave the key.

        Returns:
            The batch; None where the ledger has the key already, and nothing is added.

        Raises:
            BadInputError: There is no event, a text is too long or not Unicode, or ``by`` is invalid.
        """
        if not drafts:
            raise errors.BadInputError("batch", "has no event")
        if key is None:
            batch = line.frame(drafts, self._stamp(self.position, by, None))
        else:
            if Transaction.find_delivery(self, key) is not None:
                return None
            key = line.normalize_key(key)
            batch = line.frame(drafts, self._stamp(self.position, by, line.join_key(key, payload)))
            self._deliveries[key] = search.Delivery(batch.first, batch.last, payload)
        self.append_framed(batch)
        return batch

    def append_framed(self, batch: RawBatch) -> None:
        """Add a batch that was framed for the present position, such as one whose events keep their ids."""
        self._pending.append(batch)
        self.position = batch.position

    def mark_shared(self) -> None:
        """Note that the ledger takes in a shared book, so that a program that knows no books does not fold it."""
        self._files.mark_shared()

    def find_delivery(self, key: str, payload: str = "") -> Delivery | None:
        """Return the batch that has an idempotency key, written or added here; None where none has.

        Args:
            key: The key.
            payload: Digest of what is delivered, where the caller gave the key. A shared log compares it; here the
                caller does, with the batch that is returned.
        """
        del payload
        self.look_up((key,))
        delivery = self._deliveries.get(line.normalize_key(key))
        # What is answered to a repetition is as durable as what was answered first.
        self._needs_flush = self._needs_flush or delivery is not None
        return delivery

    def look_up(self, keys: Iterable[str]) -> None:
        """Look up many keys at once, so that appending under each of them does not search the log again."""
        new = {plain for key in keys if (plain := line.normalize_key(key)) not in self._deliveries}
        if new:
            self._deliveries |= dict.fromkeys(new)
            self._deliveries |= search.find_deliveries(self._files.log, new, self._start.offset)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Write and acknowledge, or, after an exception, leave everything as it was.

        Raises:
            CannotWriteError: The system refused the bytes; nothing was recorded.
            OutcomeUnknownError: They could not be flushed.
        """
        files = self._files
        try:
            if kind is None and self._pending:
                self._write(files)
        finally:
            files.busy = False
            disk.unlock(files.lock)
        if kind is None and (self._pending or self._needs_flush):
            begin = self._pending[0].offset if self._pending else -1
            files.confirm(self.position, begin, self._start)
            disk.acknowledged += 1

    def _write(self, files: LogFiles) -> None:
        """Write the appended batches, in one call."""
        path = self._log.log_file
        data = b"".join([batch.raw for batch in self._pending])
        try:
            disk.write_all(files.log, data, path)
        except errors.CannotWriteError as error:
            first = self._pending[0]
            # A whole batch on disk is part of the ledger for the next writer, so nobody may say that nothing was
            # recorded.
            if len(self._pending) > 1 and os.fstat(files.log).st_size >= first.end:
                raise errors.OutcomeUnknownError(path, f"written in part: {error}") from error
            raise
        disk.check_place(files.log, data, path, self._pending[0].offset)


class PreviewTransaction(Transaction):
    """A transaction that is not entered: what is appended stays in memory, and no lock is taken.

    Attributes:
        appended: The appended batches.
    """

    def __init__(self, log: JsonlLog) -> None:
        """Begin after the last acknowledged batch."""
        super().__init__(log)
        self.appended = self._pending
        self.position = log.head()

    def look_up(self, keys: Iterable[str]) -> None:
        """Look up keys without the lock."""
        for key in map(line.normalize_key, keys):
            if key not in self._deliveries:
                self._deliveries[key] = self._log.find_delivery(key)
