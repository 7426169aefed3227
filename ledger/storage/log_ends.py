"""The two ends of a log, as a writer looks at them first: what its first line says, and which chain ends where.

Standard library only: hooks do without the rest of reading.
"""

from __future__ import annotations

from contextlib import suppress
import os

from tallybook.ledger.errors import CannotWriteError, NewerLedgerError
from tallybook.ledger.line import CHAIN_END, FORMAT
from tallybook.ledger.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.line import Position

_OPENING_BYTES = 1024
_ID_CHARS = 36
_ID_LETTERS = frozenset(b"0123456789abcdef-")


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Return up to ``size`` bytes from ``offset`` on, fewer only at the end of the file."""
    if hasattr(os, "pread"):
        return os.pread(fd, size, offset)
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, size)


def check_format(fd: int, path: StrPath) -> None:
    """Refuse a ledger whose first line names a format from the future.

    Raises:
        NewerLedgerError: It does.
    """
    line = read_at(fd, _OPENING_BYTES, 0).partition(b"\n")[0]
    number = line.partition(b'"kind":"ledger.opened","v":')[2].partition(b'"format":')[2].partition(b"}")[0]
    if number.isdigit() and int(number) > FORMAT:
        raise NewerLedgerError(os.path.basename(path), int(number), FORMAT)


def ledger_id(path: StrPath) -> str:
    """Return the id in the first line of a log, empty where it has none of the form that every ledger's id has."""
    with suppress(OSError, CannotWriteError):
        fd = disk.open_file(path, write=False)
        try:
            line = read_at(fd, _OPENING_BYTES, 0).partition(b"\n")[0]
        finally:
            os.close(fd)
        said = line.partition(b'"kind":"ledger.opened","v":')[2].partition(b'"ledger":"')[2].partition(b'"')[0]
        if len(said) == _ID_CHARS and _ID_LETTERS.issuperset(said):
            return said.decode()
    return ""


def has_position(fd: int, mark: Position) -> bool:
    """Say whether a batch with this chain value ends at this offset: whether a mark speaks of this log."""
    tail = mark.chain.encode() + CHAIN_END
    return not mark.offset or read_at(fd, len(tail), max(mark.offset - len(tail), 0)) == tail
