"""Damage to a log and its repair: what is wrong, recovery before an append, salvage of what still verifies.

Recovery finds the end of the log, seals a torn tail, and writes again what a failed flush left open. Nothing is ever
truncated: a tail that was never acknowledged and does not verify is copied to quarantine and sealed by a
``log.recovered`` line. Salvage continues after a batch that does not verify at the next one that does: after a chain
value in the file, or after the original value of one that was changed.

A hostile log can contain any number of damaged places, so each lookup continues where the last one ended instead of
reading the file again. Standard library only.
"""

from __future__ import annotations

from itertools import islice, pairwise
import os

from tallybook.ledger import line
from tallybook.ledger.errors import CannotWriteError, DamagedLedgerError, OutcomeUnknownError, Problem
from tallybook.ledger.fast_stdlib import NamedTuple, sha256
from tallybook.ledger.line import START, Draft, Position, RawBatch, Stamp
from tallybook.ledger.reading import search
from tallybook.ledger.reading.scan import Run, Scan, Stop
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage.disk import read_at
from tallybook.ledger.storage.head import NO_HEAD, Head, has_position
from tallybook.ledger.storage.redaction import mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from tallybook.ledger.fast_stdlib import StrPath

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
_BLOCK_BYTES = 4096
_COPY_BYTES = 1024 * 1024


# ---- What is wrong ----


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
        self._seals: dict[int, list[int]] = {}

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
            claims: dict[int, int] = {}
            for mention in search.find_all(self._fd, (line.SEAL,), begin, self._end):
                claim = line.sealed_range(read_at(self._fd, _CLAIM_BYTES, mention))
                # Only the first claim of a line counts; later ones are text.
                if claim is not None and claim[0] < claim[1] <= mention < claim[1] + line.MAX_LINE_BYTES:
                    claims.setdefault(claim[1], claim[0])
            self._seals = {}
            for place in sorted(claims):
                self._seals.setdefault(claims[place], []).append(place)
        return self._seals.get(begin, ())


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


def head_problem(source: str, fd: int, size: int, head: Head) -> Problem:
    """Return what is wrong with a log that does not have its acknowledged end."""
    seq, chain, offset, _ = head.position
    if fault := find_opening_fault(fd):
        return Problem(f"{source}:1", fault, 1, 1)
    if size < offset:
        number = DamageIndex(fd, size).line_number(size)
        message = f"ends {offset - size:,} bytes before its acknowledged end at seq {seq}"
        return Problem(f"{source}:{number}", message, seq, number)
    # It may verify as a whole: another log took its place.
    return Problem(source, f"does not have the chain {chain} that was acknowledged at seq {seq}", seq)


def missing_log_problem(path: StrPath, head: Head) -> Problem:
    """Return the problem of a file that is missing although bytes of it were acknowledged."""
    return Problem(os.path.basename(path), f"is missing, and held {head.position.seq:,} events", head.position.seq)


def is_unclean(fd: int, after: Position, head: Head | None, size: int) -> bool:
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


# ---- Recovery: the end of the log, before an append ----


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
            # An interrupted seal may have left a copy of this name.
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
    # Nothing is sealed without its copy.
    quarantine(fd, begin, size, os.path.join(folder, "quarantine"))
    # The sealing line must begin on a line of its own, so a missing line feed is added to the range. The blank before
    # it keeps a batch that lacks only its line feed from becoming complete.
    feed = b"" if read_at(fd, 1, size - 1) == b"\n" else b" \n"
    if feed:
        disk.write_all(fd, feed, path)
    end = size + len(feed)
    body = {"begin": begin, "end": end, "digest": ByteRange(fd, begin).digest(end)}
    batch = line.frame([Draft("log.recovered", 1, body)], stamp(tail.position._replace(offset=end)))
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


# ---- Salvage: all that still verifies ----


class Gap(NamedTuple):
    """A range of the file that does not verify.

    Attributes:
        stop: Where it begins, and what is wrong there.
        after: The position after it; None where nothing after it verifies.
    """

    stop: Stop
    after: Position | None

    @property
    def missing(self) -> tuple[int, int | None]:
        """Return the first and the last missing event number; None where the last is unknown.

        The last is one less than the first where only a chain value was changed and no event is missing.
        """
        return self.stop.position.seq + 1, None if self.after is None else self.after.seq


def survey(fd: int, start: Position, size: int, source: str, pending: Collection[str] = ()) -> Iterator[Run | Gap]:
    """Yield the batches of each chunk from ``start`` on that verify, and a gap for every range that does not.

    Args:
        fd: The log, open for reading.
        start: Where to begin.
        size: Where to end.
        source: Name of the file in problems.
        pending: Events whose redaction is pending: their texts are treated as erased.
    """
    index = DamageIndex(fd, size)
    while True:
        scan = Scan(fd, start, size, source, pending, index=index)
        yield from scan.runs()
        if scan.stop is None:
            return
        whole, after = _find_next_verified(fd, scan.stop.position, size, pending, index)
        yield Gap(scan.stop, after if whole is None else scan.stop.position)
        if whole is not None:
            yield Run([whole])
        if after is None:
            return
        start = after


def _find_next_verified(
    fd: int, bad: Position, size: int, pending: Collection[str], index: DamageIndex
) -> tuple[RawBatch | None, Position | None]:
    """Return the batch at ``bad`` if only its chain value was changed, and the position where reading continues."""
    whole = _batch_with_changed_chain(fd, bad, size, pending, index)
    if whole is not None:
        return whole, Position(whole.last, whole.chain, whole.end)
    for (tail, offset), (_, end) in pairwise(find_chains(fd, bad.offset, size)):
        seq = line.first_seq(read_at(fd, line.CHAIN_TAIL_BYTES + line.CHAIN_CHARS, offset)) - 1
        position = Position(seq, tail[: line.CHAIN_CHARS].decode("ascii", "replace"), offset)
        # A position with a lower event number would repeat a part of the ledger.
        if seq >= bad.seq and next(iter(Scan(fd, position, end, pending=pending, index=index)), None) is not None:
            return None, position
    return None, None


def _batch_with_changed_chain(
    fd: int, bad: Position, size: int, pending: Collection[str], index: DamageIndex
) -> RawBatch | None:
    """Return the batch at ``bad`` if the next one verifies with its computed chain value instead of the one on disk."""
    ends = [end for _, end in islice(find_chains(fd, bad.offset, size), 2)]
    if len(ends) < 2:  # noqa: PLR2004 - its own, and that of the batch that proves it
        return None
    end, proof_end = ends
    length = end - bad.offset - len(line.CHAIN_MARK) - line.CHAIN_TAIL_BYTES
    data = mask(read_at(fd, min(length, line.MAX_BATCH_BYTES), bad.offset), pending)
    last = bad.seq + data.count(b"\n") + 1
    if line.sum_fault(data) is not None:
        return None
    batch = RawBatch(bad.seq + 1, last, line.compute_chain(bad.chain, data), bad.offset, line.complete_lines(data))
    proof = next(iter(Scan(fd, Position(last, batch.chain, end), proof_end, pending=pending, index=index)), None)
    return batch if proof is not None else None
