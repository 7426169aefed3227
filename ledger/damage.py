"""Damage to a log: its kind, its place, changes by other programs, and the repair. Standard library only.

A hostile log can contain any number of damaged places, so each lookup continues where the last one ended instead of
reading the file again. The repair never truncates: a tail that was never acknowledged and does not verify is copied to
quarantine and sealed by a ``log.recovered`` line.
"""

from __future__ import annotations

import os

from tallybook.ledger import line, search
from tallybook.ledger.errors import CannotWriteError, Problem
from tallybook.ledger.fast_stdlib import sha256
from tallybook.ledger.line import Draft, Position, RawBatch, Stamp
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.disk import read_at

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.storage.head import Head


_HEX = frozenset(b"0123456789abcdef")
_SECTOR_BYTES = 512
_OPENING = b'{"crc":"'
_COPY = "restore it from a copy, or convert it back"
_UNPACK = "unpack it"
# How a file begins that another program has converted, what it is then, and the cure.
_CONVERSIONS = (
    (b"\xef\xbb\xbf", "begins with a byte order mark, which an editor wrote", "remove these three bytes"),
    (b"\xff\xfe", "is UTF-16, not UTF-8", _COPY),
    (b"\xfe\xff", "is UTF-16, not UTF-8", _COPY),
    (b'{\0"\0', "is UTF-16, not UTF-8", _COPY),
    (b'\0{\0"', "is UTF-16, not UTF-8", _COPY),
    (b"\x1f\x8b", "is compressed with gzip", _UNPACK),
    (b"(\xb5/\xfd", "is compressed with zstd", _UNPACK),
    (b"\xfd7zXZ\0", "is compressed with xz", _UNPACK),
    (b"BZh", "is compressed with bzip2", _UNPACK),
    (b"PK\x03\x04", "is a zip archive", _UNPACK),
    (b"version https://git-lfs", "is a pointer of Git LFS, not the file itself", "run `git lfs pull`"),
    (b"\0GITCRYPT\0", "is encrypted by git-crypt", "run `git-crypt unlock`"),
)
# Enough for a seal's kind and its two offsets.
_CLAIM_BYTES = 128


def find_chains(fd: int, begin: int, end: int) -> Iterator[tuple[bytes, int]]:
    """Yield the bytes after each chain mark, the chain value and the end of its line, and the offset after them."""
    for mark in search.find_all(fd, (line.CHAIN_MARK,), begin, end):
        after = mark + len(line.CHAIN_MARK) + line.CHAIN_TAIL_BYTES
        if after <= end:
            yield read_at(fd, line.CHAIN_TAIL_BYTES, after - line.CHAIN_TAIL_BYTES), after


class DamageIndex:
    """Line numbers and seals of one log, shared by all scans of it."""

    def __init__(self, fd: int, end: int) -> None:
        """Prepare for an open file up to the offset ``end``; nothing is read yet."""
        self._fd = fd
        self._end = end
        self._counted = (0, 1)
        self._begin = -1
        # Where a range begins → where the lines begin that claim to seal it.
        self._seals: dict[int, set[int]] = {}

    def line_number(self, offset: int) -> int:
        """Return the number of the line that begins at an offset, from 1."""
        position, number = self._counted if self._counted[0] <= offset else (0, 1)
        while position < offset:
            chunk = read_at(self._fd, min(search.WINDOW_BYTES, offset - position), position)
            if not chunk:
                break
            number += chunk.count(b"\n")
            position += len(chunk)
        self._counted = position, number
        return number

    def find_seals(self, begin: int) -> Sequence[int]:
        """Return the offsets of lines that claim to seal the range from ``begin`` up to themselves, ascending."""
        if not 0 <= self._begin <= begin:
            self._begin = begin
            self._seals = {}
            for mention in search.find_all(self._fd, (line.SEAL,), begin, self._end):
                claim = line.parse_sealed_range(read_at(self._fd, _CLAIM_BYTES, mention))
                if claim is not None and claim[0] < claim[1] <= mention < claim[1] + line.MAX_LINE_BYTES:
                    self._seals.setdefault(claim[0], set()).add(claim[1])
        return sorted(self._seals.get(begin, ()))


class ByteRange:
    """The bytes from an offset on, read once for ascending ends."""

    def __init__(self, fd: int, begin: int) -> None:
        """Start at an offset of an open file."""
        self._fd = fd
        self._hasher = sha256()
        self._hashed = begin
        self._blank = begin
        self._is_blank = True

    def digest(self, end: int) -> str:
        """Return the first 16 bytes, in hex, of the SHA-256 of the bytes up to ``end``."""
        while self._hashed < end:
            chunk = read_at(self._fd, min(search.WINDOW_BYTES, end - self._hashed), self._hashed)
            if not chunk:
                break
            self._hasher.update(chunk)
            self._hashed += len(chunk)
        return self._hasher.hexdigest()[: line.CHAIN_CHARS]

    def is_blank(self, end: int) -> bool:
        """Return whether the bytes up to ``end`` are all blanks, as an erased range is."""
        while self._is_blank and self._blank < end:
            chunk = read_at(self._fd, min(search.WINDOW_BYTES, end - self._blank), self._blank)
            rest = chunk.lstrip(b" ")
            self._blank += len(chunk) - len(rest)
            self._is_blank = bool(chunk) and not rest
        return self._blank >= end


def head_problem(fd: int, size: int, head: Head) -> Problem:
    """Return what is wrong with a log that does not have its acknowledged end."""
    seq, chain, offset, _ = head.position
    if fault := find_opening_fault(fd):
        return Problem(f"{line.LOG_NAME}:1", fault, 1, 1)
    if size < offset:
        number = DamageIndex(fd, size).line_number(size)
        message = f"ends {offset - size:,} bytes before its acknowledged end at seq {seq}"
        return Problem(f"{line.LOG_NAME}:{number}", message, seq, number)
    # It may verify as a whole: another log took its place.
    return Problem(line.LOG_NAME, f"does not have the chain {chain} that was acknowledged at seq {seq}", seq)


def make_missing_log_problem(head: Head) -> Problem:
    """Return the problem of a file that is missing although bytes of it were acknowledged."""
    return Problem(line.LOG_NAME, f"is missing, and held {head.position.seq:,} events", head.position.seq)


def is_torn_tail(fd: int, after: Position, head: Head | None, size: int) -> bool:
    """Return whether the bytes after the last verified batch are the torn tail of a crash, which the next writer seals.

    They are damage where they were acknowledged, where the file does not begin as a ledger does, and where they have
    another history. Without a head it is unknown what was acknowledged; then any batch that ends in them is damage.
    """
    if head is not None and after.offset < head.position.offset:
        return False
    if not after.offset and find_opening_fault(fd) is not None:
        return False
    if head is not None:
        return not has_other_history(fd, after, size)
    # A copied log has no head, and a copy is never repaired by guessing.
    return not any(
        tail.endswith(line.CHAIN_END) and _HEX.issuperset(tail[: line.CHAIN_CHARS])
        for tail, _ in find_chains(fd, after.offset, size)
    )


def has_other_history(fd: int, after: Position, size: int) -> bool:
    """Return whether a batch follows a position whose first event number is not above that of the position.

    A crash leaves none, because writers give each number once. A merge or a copy does. The last line stands for its
    batch.
    """
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(after.offset)
        while file.tell() < size and (raw_line := file.readline(line.MAX_LINE_BYTES + 1)):
            seq, part, parts = line.place_of(raw_line)
            if part and part == parts and seq - part < after.seq and line.line_fault(raw_line[:-1], seq) is None:
                return True
    return False


def find_opening_fault(fd: int) -> str | None:
    """Return why a log does not begin as a ledger does; None where it does, or is the torn beginning of a new one."""
    data = read_at(fd, line.MAX_LINE_BYTES + 1, 0)
    for mark, what, cure in _CONVERSIONS:
        if data.startswith(mark):
            return f"{what}; {cure}"
    raw_line, feed, _ = data.partition(b"\n")
    hole = raw_line.find(b"\0")
    if feed and hole < 0:
        return line.line_fault(raw_line, 1)
    # A power loss leaves the beginning of the line, whole sectors of NUL bytes, or both.
    beginning = raw_line if hole < 0 else raw_line[:hole]
    sector = b"" if hole < 0 else data[hole : hole + _SECTOR_BYTES - hole % _SECTOR_BYTES]
    is_torn = beginning[: len(_OPENING)] == _OPENING[: len(beginning)] and not sector.strip(b"\0")
    return None if is_torn and len(raw_line) <= line.MAX_LINE_BYTES else line.line_fault(b"", 1)


# ---- Repair ----

_BLOCK_BYTES = 4096
_COPY_BYTES = 1024 * 1024


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


def seal(fd: int, path: StrPath, tail: Position, size: int, stamp: Callable[[Position], Stamp]) -> RawBatch:
    """Seal what follows the last verified batch, durably, and return the batch that seals it.

    Raises:
        CannotWriteError: The copy or the line could not be written.
        OutcomeUnknownError: The line could not be flushed.
    """
    begin, folder = tail.offset, os.path.dirname(path)
    # Nothing is sealed without its copy.
    quarantine(fd, begin, size, os.path.join(folder, "quarantine"))
    # The sealing line must begin on a line of its own, so a missing line feed is added to the range. The blank before
    # it keeps a batch that lacks only its line feed from becoming complete.
    feed = b"" if read_at(fd, 1, size - 1) == b"\n" else b" \n"
    if feed:
        disk.write_all(fd, feed, path)
    end = size + len(feed)
    body = {"begin": begin, "end": end, "digest": ByteRange(fd, begin).digest(end)}
    batch = line.frame([Draft("log.recovered", 1, body)], stamp(tail._replace(offset=end)))
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
