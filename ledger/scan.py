"""Reading the file: batches in order, each proven by its chain, sealed ranges skipped. Standard library only."""

from __future__ import annotations

from itertools import pairwise

from ledger.ends import read_at
from ledger.errors import Problem
from ledger.light import NamedTuple, later, sha256
from ledger.line import (
    CHAIN_CHARS,
    CHAIN_END,
    CHAIN_MARK,
    CHAIN_TAIL_BYTES,
    CRC_BYTES,
    FREE_MARK,
    MAX_BATCH_BYTES,
    MAX_LINE_BYTES,
    Mark,
    RawBatch,
    covered,
    diagnose,
    first_seq,
    head_field,
    line_fault,
    sum_fault,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ledger import redact
else:
    redact = later("ledger.redact")

# Measured: below it the calls weigh, above it the bytes leave the cache before they are hashed.
CHUNK_BYTES = 128 * 1024
_WINDOW_BYTES = 1024 * 1024
# The last line of most batches is far shorter; a longer one is read again with room for any line.
_SHORT_BYTES = 1024
_TELLING_BYTES = 4 * 1024 * 1024
# Of a batch that are not its data: the chain's mark, value and end.
_FRAME_BYTES = len(CHAIN_MARK) + CHAIN_TAIL_BYTES
# The first line's part, by the size of its batch, for the sizes that are met all the time.
_PARTS = [b'"part":[1,%d],' % size for size in range(64)]
_SEAL = b'"kind":"log.recovered"'


class Stop(NamedTuple):
    """Where reading could not go on.

    Attributes:
        mark: The place behind the last good batch.
        problem: What is wrong there.
        finished: Whether a whole batch, if a wrong one, stands there: more than a torn end.
    """

    mark: Mark
    problem: Problem
    finished: bool


class Scan:
    """The batches of an open file, from one place to another, each verified before it is given out.

    Attributes:
        stop: Where and why reading ended early; None where it came to the end.
        source: What problems call the file.
        sealed: The ranges skipped, as (begin, end) offsets.
    """

    def __init__(
        self, fd: int, start: Mark, end: int, source: str = "events.jsonl", owed: Collection[str] = ()
    ) -> None:
        """Read ``fd`` from ``start`` up to the offset ``end``, the texts of the events ``owed`` taken for gone."""
        self._start = start
        self._last: RawBatch | None = None
        self.stop: Stop | None = None
        self.sealed: list[tuple[int, int]] = []
        self._fd = fd
        self._end = end
        self.source = source
        self._owed = owed

    @property
    def mark(self) -> Mark:
        """Return the place behind the last batch given out."""
        last = self._last
        return self._start if last is None else Mark(last.last, last.chain, last.end)

    def __iter__(self) -> Iterator[RawBatch]:
        """Yield the batches; look at ``stop`` afterwards."""
        while self.mark.offset < self._end:
            yield from self._good()
            if self.mark.offset >= self._end:
                return
            sealed = self._sealed()
            if sealed is None:
                self.stop = self._explain()
                return
            self.sealed.append((self.mark.offset, sealed.offset))
            self._last = sealed
            yield sealed

    def _good(self) -> Iterator[RawBatch]:
        """Yield batches up to the first that is not whole and right."""
        seq, chain, offset, _ = self.mark
        position, buffer = offset, b""
        while position < self._end:
            chunk = read_at(self._fd, min(CHUNK_BYTES, self._end - position), position)
            if not chunk:
                return
            position += len(chunk)
            buffer += chunk
            skip = 0
            for data, tail in pairwise(buffer.split(CHAIN_MARK)):
                if len(tail) < CHAIN_TAIL_BYTES:
                    break
                batch = _proven(data[skip:], tail, seq, chain, offset, self._owed)
                if batch is None:
                    return
                self._last = batch
                yield batch
                seq, chain = batch.last, batch.chain
                offset += len(data) - skip + _FRAME_BYTES
                skip = CHAIN_TAIL_BYTES
            buffer = buffer[len(buffer) - (position - offset) :]
            if len(buffer) >= MAX_BATCH_BYTES + _FRAME_BYTES or b"\0" in buffer:
                return

    def _sealed(self) -> RawBatch | None:
        """Return the ``log.recovered`` that seals the range beginning here, None where none does."""
        begin = self.mark.offset
        position = begin
        while position < self._end:
            window = read_at(self._fd, min(_WINDOW_BYTES, self._end - position), position)
            found = window.find(_SEAL)
            while found >= 0:
                sealed = self._seal_at(position + found)
                if sealed is not None:
                    return sealed
                found = window.find(_SEAL, found + 1)
            # A mark may lie across two windows.
            position += max(len(window) - len(_SEAL), 1)
        return None

    def _seal_at(self, offset: int) -> RawBatch | None:
        """Return the sealing line around ``offset`` if it is whole and seals exactly from here to itself."""
        low = max(offset - MAX_LINE_BYTES, self.mark.offset)
        around = read_at(self._fd, min(2 * MAX_LINE_BYTES, self._end - low), low)
        start = around.rfind(b"\n", 0, offset - low) + 1
        data, _, tail = around[start:].partition(CHAIN_MARK)
        seq, chain, _, _ = self.mark
        batch = _proven(data, tail, seq, chain, low + start)
        if batch is None or batch.offset <= self.mark.offset:
            return None
        begin, end = self.mark.offset, batch.offset
        body = b',"body":{"begin":%d,"end":%d,"digest":"' % (begin, end)
        owed = head_field(data, b"id") in self._owed
        if not owed and data.endswith(body + range_digest(self._fd, begin, end).encode() + b'"}'):
            return batch
        gone = owed or is_blotted(self._fd, begin, end - 1)
        return batch._replace(blotted=True) if gone and body in data else None

    def _explain(self) -> Stop:
        """Say what is wrong at the place where reading stopped."""
        seq, _, offset, _ = self.mark
        found = read_at(self._fd, min(_TELLING_BYTES, self._end - offset), offset)
        text, mark, behind = found.partition(CHAIN_MARK)
        tail, end, _ = behind.partition(b"\n")
        # A text that is being blotted out is not what is wrong.
        text = redact.masked(text, self._owed) + mark + tail
        index, message = diagnose(text.removesuffix(b"\n").split(b"\n"), seq + 1)
        if not mark and not index and message.startswith("the chain"):
            message = "an unfinished batch: its end is missing"
        line = line_number(self._fd, offset) + index
        return Stop(self.mark, Problem(f"{self.source}:{line}", message, seq + 1 + index, line), bool(end))


def _proven(  # noqa: PLR0913, PLR0917 - the hottest function there is: no object for its arguments
    data: bytes, tail: bytes, seq: int, chain: str, offset: int, owed: Collection[str] = ()
) -> RawBatch | None:
    """Return the batch if it is the one that is due behind (seq, chain), None otherwise.

    This is where a replay spends its time: it is chain_of() written out, with the commonest case, a batch without
    free text, taken the short way.
    """
    plain = FREE_MARK not in data
    hasher = sha256(chain.encode())
    hasher.update(data if plain else covered(data))
    proof = hasher.hexdigest()[:CHAIN_CHARS]
    if not tail.startswith(proof.encode() + CHAIN_END):
        return None
    lines = data.count(b"\n") + 1
    part = _PARTS[lines] if lines < len(_PARTS) else b'"part":[1,%d],' % lines
    if not data.startswith(b'"seq":%d,' % (seq + 1), CRC_BYTES) or part not in data:
        return None
    if not plain:
        # A text that is being blotted out may stand in part.
        data = redact.masked(data, owed) if owed else data
        if sum_fault(data) is not None:
            return None
    return RawBatch(seq + 1, seq + lines, proof, offset, data)


def line_number(fd: int, offset: int) -> int:
    """Return the number of the line that begins at ``offset``, from 1."""
    lines, position = 1, 0
    while position < offset:
        chunk = read_at(fd, min(_WINDOW_BYTES, offset - position), position)
        if not chunk:
            break
        lines += chunk.count(b"\n")
        position += len(chunk)
    return lines


def range_digest(fd: int, begin: int, end: int) -> str:
    """Return the first 16 bytes, in hex, of the SHA-256 of a range of the file."""
    hasher = sha256()
    while begin < end:
        chunk = read_at(fd, min(_WINDOW_BYTES, end - begin), begin)
        if not chunk:
            break
        hasher.update(chunk)
        begin += len(chunk)
    return hasher.hexdigest()[:CHAIN_CHARS]


def is_blotted(fd: int, begin: int, end: int) -> bool:
    """Say whether nothing but blanks stands in a range of the file."""
    while begin < end:
        chunk = read_at(fd, min(_WINDOW_BYTES, end - begin), begin)
        if not chunk or chunk.strip(b" "):
            return False
        begin += len(chunk)
    return True


def last_batch_end(fd: int, size: int) -> Mark | None:
    """Return the place behind the last line if that line is whole and closes a batch, None otherwise.

    This trusts what stands before it, as a writer may within one boot: the page cache holds what was written, and
    every writer looks at the line before its own.
    """
    for begin in (max(size - _SHORT_BYTES, 0), max(size - MAX_LINE_BYTES - 1, 0)):
        text = read_at(fd, size - begin, begin)
        start = text.rfind(b"\n", 0, -1) + 1
        if start == 0 and begin > 0:
            continue
        data, mark, tail = text[start:].partition(CHAIN_MARK)
        if not mark or len(tail) != CHAIN_TAIL_BYTES or not tail.endswith(CHAIN_END):
            return None
        seq = first_seq(data)
        if seq < 1 or line_fault(text[start:-1], seq) is not None:
            return None
        chain = tail[:CHAIN_CHARS].decode("ascii", "replace")
        return RawBatch(seq, seq, chain, begin + start, data).mark
    return None
