"""The head: how far the ledger is acknowledged, in one small file beside it. Standard library only.

It is no cache. Bytes before its offset were confirmed by the disk, so anything wrong there is damage; what lies
behind it may be the torn end of a crash. It is written in place after each successful flush, and never backwards.

    tallybook-head 1 SEQ CHAIN OFFSET AT BOOT SUSPECT FAILURES CRC

SUSPECT is the offset of the first batch whose flush failed, -1 without one; FAILURES counts failed flushes, so that
a writer learns of one that happened between its own write and its own acknowledgement.
"""

from __future__ import annotations

import binascii
import errno
import os

from tallybook.ledger.errors import NewerLedgerError
from tallybook.ledger.fast_stdlib import NamedTuple
from tallybook.ledger.line import GENESIS, Position
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.log_ends import read_at

HEAD_BYTES = 192
_MAGIC = b"tallybook-head"
_VERSION = b"1"
_FIELDS = 10
# As many as every offset that a system takes has at most.
_DIGITS = 18
_READ_ATTEMPTS = 5


class Head(NamedTuple):
    """The position up to which the ledger is acknowledged.

    Attributes:
        position: The place behind the last acknowledged batch.
        boot: The boot of the machine in which that was written, empty where the system has no name for it.
        suspect: Offset of the first batch whose flush failed, -1 without one.
        failures: How many flushes ever failed.
    """

    position: Position
    boot: str
    suspect: int = -1
    failures: int = 0


NO_HEAD = Head(Position(0, GENESIS, 0), "")


def encode(head: Head) -> bytes:
    """Return the head as its HEAD_BYTES bytes."""
    mark = head.position
    text = (
        f"tallybook-head 1 {mark.seq} {mark.chain} {mark.offset} {mark.at or '-'} {head.boot or '-'} "
        f"{head.suspect} {head.failures} "
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
    if parts[1] != _VERSION:
        raise NewerLedgerError("head", parts[1].decode("ascii", "replace"), int(_VERSION))
    if len(parts) != _FIELDS or not text.isascii():
        return None
    seq, offset, suspect, failures = (_number(parts[index]) for index in (2, 4, 7, 8))
    # The checksum detects lost bytes; another program may still have written a head with wrong values.
    if min(seq, offset, failures) < 0 or (suspect < 0 and parts[7] != b"-1"):
        return None
    at = "" if parts[5] == b"-" else parts[5].decode()
    boot = "" if parts[6] == b"-" else parts[6].decode()
    return Head(Position(seq, parts[3].decode(), offset, at), boot, suspect, failures)


def _number(part: bytes) -> int:
    """Return a number of a head; -1 where the part is not one."""
    return int(part) if part.isdigit() and len(part) <= _DIGITS else -1


def read(fd: int) -> tuple[Head | None, bytes]:
    """Return the head in an open file, None where there is none or it is torn, and its bytes.

    A writer may be writing it at this moment, so bytes that do not decode are read again.
    """
    for _ in range(_READ_ATTEMPTS):
        data = read_at(fd, HEAD_BYTES, 0)
        head = decode(data)
        if head is not None or not data:
            break
        disk.pause()
    return head, data


def write(fd: int, data: bytes) -> None:
    """Write the head's bytes in place.

    Raises:
        OSError: They could not be written, or not all of them.
    """
    if hasattr(os, "pwrite"):
        done = os.pwrite(fd, data, 0)
    else:
        os.lseek(fd, 0, os.SEEK_SET)
        done = os.write(fd, data)
    if done < len(data):
        # A torn head is ignored, and the next write replaces it.
        raise OSError(errno.EIO, "the head was written in part")
