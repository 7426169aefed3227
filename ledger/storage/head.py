"""The head file, which says how far the ledger is acknowledged, and checks of the log by it. Standard library only.

The head is not a cache. The disk has confirmed all bytes before its offset, so anything wrong there is damage; the
bytes after it may be a torn tail. It is written in place after each flush, also one that failed, and its offset never
goes back.

    tallybook-head VERSION SEQ CHAIN OFFSET AT - SUSPECT FAILURES CRC

VERSION is 1, or 2 once the ledger has taken in a shared book: its own events are then not all of its history, so a
program that does not know books must not fold it.
The dash is in the place of a boot id that earlier versions wrote.
SUSPECT is the offset of the first batch whose flush failed, -1 without one; FAILURES counts failed flushes, so that
a writer notices a failure between its own write and its own acknowledgement.
"""

from __future__ import annotations

import binascii
from contextlib import suppress
import errno
import os

from tallybook.ledger.errors import CannotWriteError, NewerLedgerError
from tallybook.ledger.fast_stdlib import NamedTuple
from tallybook.ledger.line import CHAIN_END, FORMAT, START, Position
from tallybook.ledger.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.ledger.fast_stdlib import StrPath

HEAD_BYTES = 192
_MAGIC = b"tallybook-head"
_VERSIONS = {b"1": False, b"2": True}
_FIELDS = 10
# No offset that a system accepts has more digits.
_DIGITS = 18
_READ_ATTEMPTS = 5
# The first line of a ledger is shorter.
_OPENING_BYTES = 1024
_ID_CHARS = 36
_ID_LETTERS = frozenset(b"0123456789abcdef-")


class Head(NamedTuple):
    """The position up to which the ledger is acknowledged.

    Attributes:
        position: The position after the last acknowledged batch.
        suspect: Offset of the first batch whose flush failed, -1 without one.
        failures: How many flushes have failed since the ledger began.
        shared: Whether the ledger has taken in a shared book.
    """

    position: Position
    suspect: int = -1
    failures: int = 0
    shared: bool = False


NO_HEAD = Head(START)


def encode(head: Head) -> bytes:
    """Return the head as its HEAD_BYTES bytes."""
    seq, chain, offset, at = head.position
    text = (
        f"tallybook-head {2 if head.shared else 1} {seq} {chain} {offset} {at or '-'} - {head.suspect} {head.failures} "
    ).encode()
    return (text + b"%08x" % binascii.crc32(text)).ljust(HEAD_BYTES - 1) + b"\n"


def decode(data: bytes) -> Head | None:
    """Return the head in these bytes; None where they are torn or not a head.

    Raises:
        NewerLedgerError: They are a head of a later version.
    """
    parts = data.split()
    if not parts or parts[0] != _MAGIC:
        return None
    text = data[: data.rfind(parts[-1])]
    if b"%08x" % binascii.crc32(text) != parts[-1]:
        return None
    if parts[1] not in _VERSIONS:
        raise NewerLedgerError("head", parts[1].decode("ascii", "replace"), len(_VERSIONS))
    if len(parts) != _FIELDS or not text.isascii():
        return None
    seq, offset, suspect, failures = (
        int(part) if part.isdigit() and len(part) <= _DIGITS else -1
        for part in (parts[2], parts[4], parts[7], parts[8])
    )
    # The checksum detects lost bytes; another program may still have written a head with wrong values.
    if min(seq, offset, failures) < 0 or (suspect < 0 and parts[7] != b"-1"):
        return None
    at = "" if parts[5] == b"-" else parts[5].decode()
    return Head(Position(seq, parts[3].decode(), offset, at), suspect, failures, _VERSIONS[parts[1]])


def read(fd: int) -> Head | None:
    """Return the head in an open file; None where there is none, or it is torn."""
    # A writer may be writing it at this moment, so bytes that do not decode are read again.
    for _ in range(_READ_ATTEMPTS):
        data = disk.read_at(fd, HEAD_BYTES, 0)
        head = decode(data)
        if head is not None or not data:
            return head
        disk.pause()
    return None


def write(fd: int, head: Head) -> None:
    """Write the head in place.

    Raises:
        OSError: They could not be written, or not all of them.
    """
    data = encode(head)
    if hasattr(os, "pwrite"):
        written = os.pwrite(fd, data, 0)
    else:
        os.lseek(fd, 0, os.SEEK_SET)
        written = os.write(fd, data)
    if written < len(data):
        # A torn head is ignored, and the next write replaces it.
        raise OSError(errno.EIO, "the head was written in part")


# ---- Checks of the log, by its first line and by the position that a head names ----


def has_position(fd: int, position: Position) -> bool:
    """Return whether a batch with this chain value ends at this offset of a log, so that the position belongs to it.

    At the end of the file its line break may be missing.
    """
    tail = position.chain.encode() + CHAIN_END
    data = disk.read_at(fd, len(tail), max(position.offset - len(tail), 0))
    return not position.offset or tail in {data, data + b"\n"}


def log_size(fd: int, size: int, head: Head | None) -> int:
    """Return the size of a log; where exactly the line break before its acknowledged end is missing, that is counted.

    An editor or a copy through a shell removes it. The rest proves itself, and the next writer adds it.
    """
    return size + (head is not None and head.position.offset == size + 1 and has_position(fd, head.position))


def check_format(fd: int, path: StrPath) -> None:
    """Refuse a ledger whose first line names a format from the future.

    Raises:
        NewerLedgerError: It does.
    """
    number = _read_opening(fd).partition(b'"format":')[2].partition(b"}")[0]
    if number.isdigit() and int(number) > FORMAT:
        raise NewerLedgerError(os.path.basename(path), int(number), FORMAT)


def ledger_id(path: StrPath) -> str:
    """Return the id in the first line of a ledger or of a book; empty where it has none in the form of such an id."""
    with suppress(OSError, CannotWriteError), disk.hold_open(path) as fd:
        opening = _read_opening(fd)
        id_ = (opening.partition(b'"ledger":"')[2] or opening.partition(b'"book":"')[2]).partition(b'"')[0]
        # The id names a folder of caches, so anything but a plain name is refused.
        if len(id_) == _ID_CHARS and _ID_LETTERS.issuperset(id_):
            return id_.decode()
    return ""


def _read_opening(fd: int) -> bytes:
    """Return the body of a log's first line; empty where that opens neither a ledger nor a book."""
    line = disk.read_at(fd, _OPENING_BYTES, 0).partition(b"\n")[0]
    return line.partition(b'"kind":"ledger.opened","v":')[2] or line.partition(b'"kind":"book.opened","v":')[2]


# The lines before it, the last one first

# Usually the last few lines are enough; each window is twice as large as the one before.
_WINDOW_BYTES = 4 * 1024
# For larger windows C asks the system for new memory each time, so that a search takes three times as long.
_MAX_WINDOW_BYTES = 64 * 1024
_MAX_SEARCHED_BYTES = 1024 * 1024


def lines_before(log_file: StrPath, end: int, needle: bytes = b"", max_bytes: int = 0) -> Iterator[bytes]:
    """Yield the lines of a log before an offset that contain some bytes, the last one first.

    Args:
        log_file: The log.
        end: The offset.
        needle: The bytes; empty for every line.
        max_bytes: How far back it is read; 0 for as far as is quickly read line by line.
    """
    begin, window, rest = end, _WINDOW_BYTES, b""
    fd = disk.open_file(log_file, write=False)
    try:
        while begin > 0 and end - begin < (max_bytes or _MAX_SEARCHED_BYTES):
            at = max(begin - window, 0)
            text = disk.read_at(fd, begin - at, at) + rest
            rest, _, whole = (b"", b"", text) if at == 0 else text.partition(b"\n")
            # Most windows of a long search have no such line, and are not split.
            if whole.rfind(needle) >= 0:
                yield from (line for line in reversed(whole.split(b"\n")) if line and needle in line)
            # Of a damaged log without line feeds, each window is as large as what is left of the ones before.
            begin, window = at, min(2 * window, max(len(rest), _MAX_WINDOW_BYTES))
    finally:
        # A caller that has found its line lets the generator go: an error would be printed then and not raised.
        with suppress(OSError):
            os.close(fd)
