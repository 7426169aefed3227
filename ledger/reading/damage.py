"""Damage to a log: its errors, and line numbers, seals and digests of ranges. Standard library only.

A hostile log can contain any number of damaged places, so each lookup continues where the last one ended instead of
reading the file again.
"""

from __future__ import annotations

import os

from tallybook.ledger.errors import DamagedLedgerError, Problem
from tallybook.ledger.fast_stdlib import sha256
from tallybook.ledger.line import CHAIN_CHARS, CHAIN_END, CHAIN_MARK, CHAIN_TAIL_BYTES, MAX_LINE_BYTES
from tallybook.ledger.storage.disk import read_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.storage.head import Head

_FIRST_BYTES = 4 * 1024
_WINDOW_BYTES = 1024 * 1024
_HEX = frozenset(b"0123456789abcdef")
_SEAL = b'"kind":"log.recovered"'
_CLAIM = b',"v":1,"body":{"begin":'
_CLAIM_END = b',"end":'
# Enough for the kind, the claim and two offsets.
_CLAIM_BYTES = 128


def find_all(fd: int, needle: bytes, begin: int, end: int) -> Iterator[int]:
    """Yield each offset from ``begin`` on at which these bytes occur in a file, which is read up to ``end``."""
    # It starts small, because mostly the next few lines suffice, and there may be many places to search from.
    size = _FIRST_BYTES
    while begin < end:
        window = read_at(fd, min(size, _WINDOW_BYTES, end - begin), begin)
        size *= 2
        place = window.find(needle)
        while place >= 0:
            yield begin + place
            place = window.find(needle, place + 1)
        if not window or begin + len(window) >= end:
            return
        # They may lie across two windows.
        begin += max(len(window) - len(needle) + 1, 1)


def find_chains(fd: int, begin: int, end: int) -> Iterator[tuple[bytes, int]]:
    """Yield the bytes after each chain mark, the chain value and the end of its line, and the offset after them."""
    for mark in find_all(fd, CHAIN_MARK, begin, end):
        after = mark + len(CHAIN_MARK) + CHAIN_TAIL_BYTES
        if after <= end:
            yield read_at(fd, CHAIN_TAIL_BYTES, after - CHAIN_TAIL_BYTES), after


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
        position, line = self._counted if self._counted[0] <= offset else (0, 1)
        while position < offset:
            chunk = read_at(self._fd, min(_WINDOW_BYTES, offset - position), position)
            if not chunk:
                break
            line += chunk.count(b"\n")
            position += len(chunk)
        self._counted = position, line
        return line

    def seals(self, begin: int) -> Sequence[int]:
        """Return the offsets of lines that claim to seal the range from ``begin`` up to themselves, ascending."""
        if not 0 <= self._begin <= begin:
            self._begin = begin
            claims: dict[int, int] = {}
            for mention in find_all(self._fd, _SEAL, begin, self._end):
                claim = self._parse_claim(mention)
                # Only the first claim of a line counts; later ones are text.
                if claim is not None and claim[0] < claim[1] <= mention < claim[1] + MAX_LINE_BYTES:
                    claims.setdefault(claim[1], claim[0])
            self._seals = {}
            for place in sorted(claims):
                self._seals.setdefault(claims[place], []).append(place)
        return self._seals.get(begin, ())

    def _parse_claim(self, mention: int) -> tuple[int, int] | None:
        """Return the range (begin, end) that a seal claims; None where it has none."""
        text = read_at(self._fd, _CLAIM_BYTES, mention).removeprefix(_SEAL)
        begin, mark, rest = text.removeprefix(_CLAIM).partition(_CLAIM_END)
        end = rest.partition(b",")[0]
        if not (text.startswith(_CLAIM) and mark and begin.isdigit() and end.isdigit()):
            return None
        return int(begin), int(end)


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
            chunk = read_at(self._fd, min(_WINDOW_BYTES, end - self._hashed), self._hashed)
            if not chunk:
                break
            self._hasher.update(chunk)
            self._hashed += len(chunk)
        return self._hasher.hexdigest()[:CHAIN_CHARS]

    def is_blank(self, end: int) -> bool:
        """Return whether the bytes up to ``end`` are all blanks, as an erased range is."""
        while self._is_blank and self._blank < end:
            chunk = read_at(self._fd, min(_WINDOW_BYTES, end - self._blank), self._blank)
            rest = chunk.lstrip(b" ")
            self._blank += len(chunk) - len(rest)
            self._is_blank = bool(chunk) and not rest
        return self._blank >= end


def truncated_error(source: str, fd: int, size: int, head: Head) -> DamagedLedgerError:
    """Return the error for a file that ends before its acknowledged end."""
    seq, line = head.position.seq, DamageIndex(fd, size).line_number(size)
    lost = head.position.offset - size
    message = f"ends {lost:,} bytes before its acknowledged end at seq {seq}"
    return DamagedLedgerError([Problem(f"{source}:{line}", message, seq, line)])


def other_log_problem(source: str, head: Head) -> Problem:
    """Return the problem of a file that verifies but is not the one that was acknowledged."""
    seq = head.position.seq
    return Problem(source, f"does not have the chain {head.position.chain} that was acknowledged at seq {seq}", seq)


def missing_log_problem(path: StrPath, head: Head) -> Problem:
    """Return the problem of a file that is missing although bytes of it were acknowledged."""
    return Problem(os.path.basename(path), f"is missing, and held {head.position.seq:,} events", head.position.seq)


def is_unclean(fd: int, offset: int, head: Head | None, size: int) -> bool:
    """Return whether the bytes from an offset on are the torn tail of a crash rather than damage to acknowledged ones.

    Without a head it is unknown what was acknowledged; then a tail is torn if no batch ends in it.
    """
    if head is not None:
        return offset >= head.position.offset
    return not any(
        tail.endswith(CHAIN_END) and _HEX.issuperset(tail[:CHAIN_CHARS]) for tail, _ in find_chains(fd, offset, size)
    )
