"""Reading the log: every acknowledged batch or an error, and nothing after a torn tail. Standard library only."""

from __future__ import annotations

from itertools import chain
import os

from tallybook.ledger.batches import Batches
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.fast_stdlib import import_lazily
from tallybook.ledger.reading.scan import Scan
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage.head import check_format, has_position

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Self

    from tallybook.ledger.batches import Run
    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.line import Position, RawBatch
    from tallybook.ledger.reading import recovery
    from tallybook.ledger.storage.head import Head
else:
    # Only a log that does not verify needs it.
    recovery = import_lazily("tallybook.ledger.reading.recovery")


class LogReader:
    """The log, opened for reading up to its present end. It takes no lock and writes nothing."""

    def __init__(self, path: StrPath, head: Head | None, after: Position, *, verify: bool = True) -> None:
        """Read after a position. ``head`` was read before the file, so the file must contain what it covers."""
        self._verify = verify
        self._path = path
        self._folder, self._name = os.path.split(path)
        self._head = head
        self._after = after
        self._fd = -1

    def __enter__(self) -> Self:
        """Open the file.

        Raises:
            DamagedLedgerError: It is missing, although bytes of it were acknowledged.
        """
        try:
            self._fd = disk.open_file(self._path, write=False)
        except FileNotFoundError:
            if self._head is not None and self._head.position.offset:
                raise DamagedLedgerError([recovery.missing_log_problem(self._path, self._head)]) from None
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)

    def __iter__(self) -> Iterator[RawBatch]:
        """Yield each batch.

        Raises:
            DamagedLedgerError: Acknowledged bytes are missing or changed.
            NewerLedgerError: The ledger has a newer format.
        """
        return Batches(self.runs())

    def runs(self) -> Iterator[Run]:
        """Yield the batches of each chunk at once; raises the same errors as iterating."""
        if self._fd < 0:
            return
        size = os.fstat(self._fd).st_size
        if self._head is not None and size < self._head.position.offset:
            raise recovery.truncated_error(self._name, self._fd, size, self._head)
        check_format(self._fd, self._path)
        known: Collection[str] = frozenset()
        for run in self._scan(self._after, size):
            for found in run.batches if run.lacks_text else ():
                if redaction.ERASED_TEXT in found.data or found.erased:
                    known = self._check_erased(found.batch, known)
            yield run
        if self._head is not None and not has_position(self._fd, self._head.position):
            # The whole file verifies but is not the one that was acknowledged: another log took its place.
            raise DamagedLedgerError([recovery.other_log_problem(self._name, self._head)])

    def _scan(self, after: Position, size: int) -> Iterator[Run]:
        """Yield the batches after a position.

        Another process may be erasing a text at this moment. So a batch that does not verify is read once more, when
        the redaction is pending or finished.

        Raises:
            DamagedLedgerError: Acknowledged bytes are changed.
        """
        mark, offset = after, -1
        while True:
            owed = redaction.pending_ids(self._folder)
            scan = Scan(self._fd, mark, size, self._name, owed, verify=self._verify)
            yield from scan.runs()
            if scan.stop is None or offset == scan.stop.position.offset:
                break
            mark, offset = scan.position, scan.stop.position.offset
        if scan.stop is not None and not recovery.is_unclean(self._fd, scan.stop, self._head, size):
            raise DamagedLedgerError([scan.stop.problem])

    def _check_erased(self, batch: RawBatch, known: Collection[str]) -> Collection[str]:
        """Return the events that are known to be redacted, extended by those whose text is missing from a batch.

        Raises:
            DamagedLedgerError: A text is missing without a redaction, or damage after the batch hides the redaction.
        """
        lost = redaction.find_erased(batch)
        if any(id_ not in known for _, id_ in lost):
            # A redaction writes its pending file first, then event.redacted, then removes the file. Looking in the
            # same order cannot miss it.
            owed = redaction.pending_ids(self._folder)
            behind = Batches(self._scan(batch.position, os.fstat(self._fd).st_size))
            known = {*owed, *(id_ for one in chain([batch], behind) for id_ in redaction.redacted_ids(one))}
        if problems := redaction.find_unexplained(lost, known, self._name):
            raise DamagedLedgerError(problems)
        return known
