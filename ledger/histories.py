"""The histories in files that were merged or exchanged: the batches whose chain leads back to a first line.

A merge leaves the lines of several copies of a ledger in one file: with conflict markers, one after the other, or in
another order. A batch names the one before it only by its chain value, so each copy's batches are found by computing
that value for every batch that can precede it. Lines that are not proven in this way do not count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import islice, product
import os
from pathlib import Path
import shutil
from typing import Final, NamedTuple

import attrs

from tallybook.ledger import line
from tallybook.ledger.damage import ByteRange
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.line import Position, RawBatch
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.disk import read_at
from tallybook.ledger.storage.head import NO_HEAD

_MARKERS: Final = (b"<<<<<<< ", b"||||||| ", b">>>>>>> ")
_MIDDLE: Final = b"======="
# A merge repeats few lines; in a hostile file every line could continue every other one.
_MAX_VERSIONS: Final = 64


class Link(NamedTuple):
    """A batch in its history.

    Attributes:
        before: The chain value before it.
        batch: The batch; its offset is that in the file where it was read.
        sealed: The bytes that it seals, for a ``log.recovered`` that was read right after them.
    """

    before: str
    batch: RawBatch
    sealed: bytes = b""


class LogLine(NamedTuple):
    """A line of a file: its part of a batch, the number of parts, its bytes; part 0 where it is no line of a ledger."""

    part: int
    parts: int
    data: bytes


_LogLines = dict[int, dict[LogLine, int]]
"""Event number → the different lines that have it, each with the offset where it was read first."""


@attrs.define
class Histories:
    """Batches of one or several files, each proven by the chain from a first line on.

    Attributes:
        links: Chain value after a batch → the batch.
        unproven: The lines that are in no batch that is proven, and are no markers.
        former: Versions of batches with a text that another version lacks, because it was redacted.
    """

    links: dict[str, Link] = attrs.field(factory=dict)
    unproven: set[LogLine] = attrs.field(factory=set)
    former: list[RawBatch] = attrs.field(factory=list)

    def add_file(self, fd: int, size: int, pending: Collection[str] = ()) -> bool:
        """Add the batches of a file, whatever their order; return whether one of them is proven.

        Args:
            fd: The file, open for reading.
            size: Its size.
            pending: Events whose redaction is in progress: their texts are treated as erased.
        """
        lines = _read_lines(fd, size)
        unproven = {offset: found for seq in lines for found, offset in lines[seq].items()}
        number = len(unproven)
        # A batch names the one before it by its chain value alone, so each end that is known is tried.
        ends = deque([(0, line.GENESIS), *((link.batch.last, chain) for chain, link in self.links.items())])
        while ends:
            seq, before = ends.popleft()
            for parts in _find_batches(lines, seq + 1):
                batch = _prove(before, parts, lines, pending)
                if batch is None:
                    continue
                sealed, is_erased = _read_sealed(fd, batch, pending)
                for begin in (lines[batch.first + part.part - 1][part] for part in parts):
                    unproven.pop(begin, None)
                if sealed:
                    inside = range(batch.offset - len(sealed), batch.offset)
                    unproven = {begin: found for begin, found in unproven.items() if begin not in inside}
                if batch.chain not in self.links:
                    ends.append((batch.last, batch.chain))
                # It may have been read before, from a file without the batch before it.
                self.unproven.difference_update(parts)
                self._add(Link(before, batch._replace(lacks_text=batch.lacks_text or is_erased), sealed))
        self.unproven.update(unproven.values())
        return len(unproven) < number

    def _add(self, link: Link) -> None:
        present = self.links.get(link.batch.chain, link)
        # Of two versions the one counts whose text was redacted: a text does not come back.
        more = len(redaction.find_erased(link.batch)) - len(redaction.find_erased(present.batch))
        if more:
            self.former.append(present.batch if more > 0 else link.batch)
        self.links[link.batch.chain] = link if more > 0 else present

    def list_strays(self) -> list[bytes]:
        """Return the intact lines that are not proven, of a history that is here in part, by their event numbers."""
        lines = sorted((line.first_seq(found.data), found.data[:-1]) for found in self.unproven if found.part)
        return [data for seq, data in lines if line.line_fault(data, seq) is None]

    def find_ends(self) -> tuple[str, ...]:
        """Return the chain values that no batch follows, in the order of the files."""
        before = {link.before for link in self.links.values()}
        return tuple(chain for chain in self.links if chain not in before)

    def trace_path(self, chain: str) -> list[Link]:
        """Return the batches that lead to a chain value, the first one first."""
        links = []
        while chain != line.GENESIS:
            links.append(self.links[chain])
            chain = links[-1].before
        return links[::-1]


def _read_lines(fd: int, size: int) -> _LogLines:
    """Return the lines of a file but its conflict markers."""
    lines: _LogLines = {}
    offset = 0
    with os.fdopen(os.dup(fd), "rb") as file:
        file.seek(0)
        while offset < size and (data := file.readline(line.MAX_LINE_BYTES + 1)):
            begin, offset = offset, offset + len(data)
            if not data.startswith(_MARKERS) and data.rstrip(b"\r\n") != _MIDDLE:
                # The last line proves itself without its line break.
                data += b"\n" if offset == size and not data.endswith(b"\n") else b""
                seq, part, parts = line.place_of(data)
                # Of what is no line of a ledger, only where it is matters.
                found = LogLine(part, parts, data) if part else LogLine(0, begin, b"")
                lines.setdefault(seq, {}).setdefault(found, begin)
    return lines


def _find_batches(lines: _LogLines, seq: int) -> Iterator[tuple[LogLine, ...]]:
    """Yield the lines that can be a batch from an event number on."""
    for first, begin in [item for item in lines.get(seq, {}).items() if item[0].part == 1]:
        places = [[first]]
        while places[-1] and len(places) < first.parts:
            place = len(places) + 1, first.parts
            found = {part: offset for part, offset in lines.get(seq + len(places), {}).items() if part[:2] == place}
            # After a merge the other side's lines of these numbers are before the first line, or after its own.
            places.append(sorted(found, key=lambda part: found[part] < begin))
        yield from islice(product(*places), _MAX_VERSIONS)


def _prove(before: str, parts: Sequence[LogLine], lines: _LogLines, pending: Collection[str]) -> RawBatch | None:
    """Return the batch of some lines, if it follows a chain value."""
    data = b"".join(part.data for part in parts)
    claim = data[-line.CHAIN_TAIL_BYTES : -len(line.CHAIN_END)].decode("latin-1")
    masked = redaction.mask(line.complete_lines(data[: -line.FRAME_BYTES]), pending)
    proof, lacks_text = line.prove(before, masked)
    if proof != claim:
        return None
    seq = line.first_seq(data)
    return RawBatch(seq, seq + len(parts) - 1, claim, lines[seq][parts[0]], masked, lacks_text)


def _read_sealed(fd: int, batch: RawBatch, pending: Collection[str]) -> tuple[bytes, bool]:
    """Return the bytes that a ``log.recovered`` seals, if they are right before it, and whether they were erased."""
    span = line.parse_sealed_range(batch.data)
    if span is None:
        return b"", False
    begin = batch.offset - (span[1] - span[0])
    before = ByteRange(fd, max(begin, 0))
    is_erased = before.is_blank(batch.offset - 1) or line.head_field(batch.data, b"id") in pending
    is_right = begin >= 0 and (is_erased or b'"digest":"%b"' % before.digest(batch.offset).encode() in batch.data)
    return (read_at(fd, batch.offset - begin, begin), is_erased) if is_right else (b"", False)


def write_history(links: Sequence[Link]) -> Iterator[tuple[Link, bytes]]:
    """Yield the bytes of a log file that has one history: each batch, after the bytes that it seals.

    It ends before a ``log.recovered`` that would not be at the offset that it states: a redaction of it would erase
    other bytes.
    """
    offset = 0
    for link in links:
        data = link.sealed + link.batch.raw
        if line.SEAL in link.batch.data and line.parse_sealed_range(link.batch.data) != (
            offset,
            offset + len(link.sealed),
        ):
            return
        yield link, data
        offset += len(data)


# ---- One of them in place of the present log ----

_TAKEN = b',\t"kind":"book.taken","v":1,'


def identify_log(folder: Path) -> tuple[int, int, int] | None:
    """Return what tells a log file from every other and from itself after a change; None where there is none."""
    try:
        file = (folder / line.LOG_NAME).stat()
    except FileNotFoundError:
        return None
    return file.st_ino, file.st_size, file.st_mtime_ns


def replace_log(folder: Path, data: bytes, end: Position, at: str, seen: tuple[int, int, int] | None) -> Path | None:
    """Put a log in place of the present one, and let the head acknowledge all of it.

    Args:
        folder: The ledger's folder.
        data: The new log's bytes.
        end: The position after its last batch.
        at: Now, for the name of the present file's copy.
        seen: What ``identify_log`` returned before the present file was read.

    Returns:
        The present file under its new name, in the folder ``quarantine``; None where there was none.

    Raises:
        LockHeldError: Another process holds the lock.
        CannotWriteError: The log is unchanged: it is not the one that was seen, or the system refused.
        OutcomeUnknownError: The disk did not confirm the new log.
    """
    with disk.hold_lock(folder / "lock", disk.LOCK_WAIT_MS):
        # Another process may have recorded since the file was read; its batches would be lost without a trace.
        if identify_log(folder) != seen:
            hint = "nothing was recorded; try again"
            raise CannotWriteError(folder / line.LOG_NAME, "was changed by another program", hint)
        # What the replaced log holds was acknowledged, so it stays in quarantine.
        aside = None if seen is None else _set_aside(folder, at)
        disk.replace_file(folder / line.LOG_NAME, data)
        _write_head(folder, end, shared=_TAKEN in data)
        return aside


def _set_aside(folder: Path, at: str) -> Path:
    """Give the present log a second name, or a copy where the file system has no links; return it."""
    copies = folder / "quarantine"
    disk.make_folder(copies)
    try:
        aside = disk.link_aside(folder / line.LOG_NAME, copies / "events", at, ".jsonl", shutil.copyfile)
        disk.flush_folder(copies)
    except OSError as error:
        raise CannotWriteError(copies, disk.reason(error), "nothing was changed") from error
    return Path(aside)


def _write_head(folder: Path, end: Position, *, shared: bool) -> None:
    path = folder / "head"
    try:
        with disk.hold_open(path, write=True, create=True) as fd:
            before = heads.read(fd) or NO_HEAD
            head = before._replace(position=end, suspect=-1, shared=before.shared or shared)
            heads.write(fd, head)
            disk.flush(fd, path)
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error), "the log is whole; try again") from error
