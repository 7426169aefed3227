"""The histories in files of lines that were merged or exchanged: every batch whose chain leads back to a first line.

A merge leaves the lines of several copies of a ledger in one file: with conflict markers, one after the other, or in
another order. A batch names the one before it only by its chain value, so each copy's batches are found by computing
that value for every batch that can precede it. No line counts that is not proven in this way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
import os
from pathlib import Path
import shutil
from typing import Final, NamedTuple

import attrs

from tallybook.ledger import line
from tallybook.ledger.damage import ByteRange, DamageIndex, has_other_history
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.line import START, Position, RawBatch
from tallybook.ledger.scan import Scan
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.disk import read_at
from tallybook.ledger.storage.head import NO_HEAD

_MARKERS: Final = (b"<<<<<<< ", b"||||||| ", b">>>>>>> ")
_MIDDLE: Final = b"======="
# A merge repeats few lines; in a hostile file every line could continue every other one.
_MAX_VERSIONS: Final = 8


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

    @property
    def seals(self) -> bool:
        """Return whether it is a ``log.recovered``, which states the offsets of the bytes before it."""
        return line.SEAL in self.batch.data


_Lines = tuple[tuple[int, bytes], ...]
"""Lines of one batch, each with its offset."""


@attrs.define
class Histories:
    """Batches of one or several files, each proven by the chain from a first line on.

    Attributes:
        links: Chain value after a batch → the batch.
        marker: Number of the first line that is a conflict marker, 0 where no file has one.
        unproven: How many lines are in no batch that is proven, and are no markers.
        stray: The last of them, if all of them are intact: lines of a history that is not here. Else empty.
        former: Versions of batches with a text that another version lacks, because it was redacted.
    """

    links: dict[str, Link] = attrs.field(factory=dict)
    marker: int = 0
    unproven: int = 0
    stray: bytes = b""
    former: list[RawBatch] = attrs.field(factory=list)
    _ends: dict[int, list[str]] = attrs.field(factory=lambda: {0: [line.GENESIS]})
    _waiting: dict[int, list[_Lines]] = attrs.field(factory=dict)
    _open: set[int] = attrs.field(factory=set)
    _proven: int = 0

    def add_file(self, fd: int, size: int, pending: Collection[str] = (), *, sealed: bool = False) -> int:
        """Add the batches of a file; return how many batches in it are proven.

        Args:
            fd: The file, open for reading.
            size: Its size.
            pending: Events whose redaction is in progress: their texts are treated as erased.
            sealed: Whether to search sealed ranges for the other side of a merge, which earlier versions sealed.
        """
        self._waiting, self._open, self._proven = {}, set(), 0
        # The last line proves itself without its line break.
        size += size > 0 and read_at(fd, 1, size - 1) != b"\n"
        scan = Scan(fd, START, size, pending=pending)
        before = START
        for batch in scan:
            self._add(before.chain, batch, read_at(fd, batch.offset - before.offset, before.offset))
            if sealed and before.offset < batch.offset and has_other_history(fd, before, batch.offset):
                self._add_lines(fd, before.offset, batch.offset, pending)
            before = batch.position
        if scan.stop is not None:
            self._add_lines(fd, scan.position.offset, size, pending)
        self.unproven += len(self._open)
        lines = [read_at(fd, line.MAX_LINE_BYTES + 1, offset).partition(b"\n")[0] for offset in sorted(self._open)]
        if lines and all(line.line_fault(raw_line, line.first_seq(raw_line)) is None for raw_line in lines):
            self.stray = lines[-1]
        return self._proven

    def _add_lines(self, fd: int, offset: int, end: int, pending: Collection[str]) -> None:
        """Add the batches of the lines from an offset to another, whatever their order."""
        # Event number, part and number of parts of a line → the lines of its batch that can be before it.
        begun: dict[tuple[int, int, int], list[_Lines]] = {}
        number = DamageIndex(fd, offset).line_number(offset) - 1
        with os.fdopen(os.dup(fd), "rb") as file:
            file.seek(offset)
            while offset < end and (raw_line := file.readline(line.MAX_LINE_BYTES + 1)):
                number += 1
                begin, offset = offset, offset + len(raw_line)
                if raw_line.startswith(_MARKERS) or raw_line.rstrip(b"\r\n") == _MIDDLE:
                    self.marker = self.marker or number
                    continue
                self._open.add(begin)
                seq, part, size = line.place_of(raw_line)
                for lines in begun.get((seq, part, size), ()) if part > 1 else ((),) if part else ():
                    longer = (*lines, (begin, raw_line))
                    if part == size:
                        self._prove(fd, longer, pending)
                    else:
                        later = begun.setdefault((seq + 1, part + 1, size), [])
                        later[:] = [*later[1 - _MAX_VERSIONS :], longer]

    def _prove(self, fd: int, lines: _Lines, pending: Collection[str]) -> None:
        """Add a batch and those that waited for it; where the batch before it is not known yet, it waits too."""
        todo = [lines]
        while todo:
            lines = todo.pop()
            data = b"".join(raw_line for _, raw_line in lines)
            claim = data[-line.CHAIN_TAIL_BYTES : -len(line.CHAIN_END)].decode("latin-1")
            data = data[: -line.FRAME_BYTES]
            data = redaction.mask(data, pending) if pending else data
            seq = line.first_seq(data)
            before = next((end for end in self._ends.get(seq - 1, ()) if line.prove(end, data)[0] == claim), None)
            if before is None:
                self._waiting.setdefault(seq - 1, []).append(lines)
                continue
            self._open.difference_update(offset for offset, _ in lines)
            batch = RawBatch(seq, seq + len(lines) - 1, claim, lines[0][0], line.complete_lines(data))
            self._add(before, batch, _sealed_bytes(fd, batch))
            todo += self._waiting.pop(batch.last, ())

    def _add(self, before: str, batch: RawBatch, sealed: bytes) -> None:
        self._proven += 1
        link = self.links.get(batch.chain)
        if link is None:
            self._ends.setdefault(batch.last, []).append(batch.chain)
        else:
            # Of two versions the one counts whose text was redacted: a text does not come back.
            more = len(redaction.find_erased(link.batch)) - len(redaction.find_erased(batch))
            if more:
                self.former.append(batch if more > 0 else link.batch)
            if more >= 0:
                return
        self.links[batch.chain] = Link(before, batch, sealed)

    def last(self) -> tuple[str, ...]:
        """Return the chain values that no batch follows, in the order of the files."""
        before = {link.before for link in self.links.values()}
        return tuple(chain for chain in self.links if chain not in before)

    def path(self, chain: str, until: Collection[str] = ()) -> list[Link]:
        """Return the batches that lead to a chain value, the first one first.

        Args:
            chain: The chain value.
            until: Chain values at which the search ends: only batches after them are returned.
        """
        links = []
        while chain != line.GENESIS and chain not in until:
            links.append(self.links[chain])
            chain = links[-1].before
        return links[::-1]


def find_fork(history: Sequence[Link], other: Sequence[Link]) -> int:
    """Return the event number up to which two histories are the same."""
    pairs = zip(history, other, strict=False)
    return max((a.batch.last for a, b in pairs if a.batch.chain == b.batch.chain), default=0)


def write_history(links: Sequence[Link]) -> Iterator[tuple[Link, bytes]]:
    """Yield the bytes of a log file that has one history: each batch, after the bytes that it seals.

    It ends before a ``log.recovered`` that would not be at the offset that it states: a redaction of it would erase
    other bytes.
    """
    offset = 0
    for link in links:
        data = link.sealed + link.batch.raw
        if link.seals and line.sealed_range(link.batch.data) != (offset, offset + len(link.sealed)):
            return
        yield link, data
        offset += len(data)


def _sealed_bytes(fd: int, batch: RawBatch) -> bytes:
    """Return the bytes that a ``log.recovered`` seals if they are right before it, else none."""
    span = line.sealed_range(batch.data)
    if span is None:
        return b""
    start = batch.offset - (span[1] - span[0])
    if start < 0 or b'"digest":"%b"' % ByteRange(fd, start).digest(batch.offset).encode() not in batch.data:
        return b""
    return read_at(fd, batch.offset - start, start)


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
    path, copies = folder / line.LOG_NAME, folder / "quarantine"
    disk.make_folder(copies)
    name = f"events-{at[:19].replace(':', '').replace('-', '')}"
    aside, number = copies / f"{name}.jsonl", 1
    # Two in the same second get two names.
    while os.path.lexists(aside):
        number += 1
        aside = copies / f"{name}-{number}.jsonl"
    try:
        try:
            os.link(path, aside)
        except OSError:
            shutil.copyfile(path, aside)
        disk.flush_folder(copies)
    except OSError as error:
        with suppress(OSError):
            aside.unlink()
        raise CannotWriteError(aside, disk.reason(error), "nothing was changed") from error
    return aside


def _write_head(folder: Path, end: Position, *, shared: bool) -> None:
    path = folder / "head"
    try:
        with disk.hold_open(path, write=True, create=True) as fd:
            before = heads.read(fd) or NO_HEAD
            head = before._replace(position=end, boot=disk.boot_id(), suspect=-1, shared=before.shared or shared)
            heads.write(fd, heads.encode(head))
            disk.flush(fd, path)
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error), "the log is whole; try again") from error
