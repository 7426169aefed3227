"""Scanning a log file: batches in order, verified by their chain, with sealed ranges skipped. Standard library only."""

from __future__ import annotations

from io import BytesIO
from itertools import islice

from tallybook.ledger.batches import LINE_END, Batches, LineBatch, Run, split_lines_with_ends, to_line_batch
from tallybook.ledger.errors import Problem
from tallybook.ledger.fast_stdlib import NamedTuple, import_lazily, sha256
from tallybook.ledger.line import (
    CHAIN_CHARS,
    CHAIN_END,
    CHAIN_MARK,
    CHAIN_TAIL_BYTES,
    CRC_BYTES,
    FREE_MARK,
    MAX_BATCH_BYTES,
    MAX_LINE_BYTES,
    Position,
    RawBatch,
    chained_bytes,
    diagnose,
    first_seq,
    free_spans,
    head_field,
    line_fault,
    sum_fault,
)
from tallybook.ledger.storage import redaction
from tallybook.ledger.storage.disk import read_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from hashlib import _Hash

    Digest = Callable[[bytes], _Hash]

    from tallybook.ledger.reading import damage
else:
    # Only a log that does not verify needs it.
    damage = import_lazily("tallybook.ledger.reading.damage")

# The fastest size: smaller chunks take more calls, larger ones leave the CPU cache before they are hashed.
CHUNK_BYTES = 128 * 1024
# Reading starts small and doubles, because salvage restarts the scan at every damaged place.
_FIRST_BYTES = 4 * 1024
# Most lines are shorter; a longer one is read again with MAX_LINE_BYTES.
_SHORT_BYTES = 1024
_MAX_DESCRIBED_BYTES = 4 * 1024 * 1024
# Bytes of a batch besides its data: the chain's mark, value and end.
_FRAME_BYTES = len(CHAIN_MARK) + CHAIN_TAIL_BYTES
_FIRST = b'"part":[1,'
# More digits than the size of the longest batch has.
_SIZE_DIGITS = 9
_LONG_BYTES = 2 * 1024 * 1024
# Faster than calling the class, whose __new__ is written in Python.
_new = tuple.__new__


class Stop(NamedTuple):
    """The place where a scan had to stop.

    Attributes:
        position: The position after the last verified batch.
        problem: What is wrong there.
        finished: Whether a complete but invalid batch follows; False for a torn tail.
    """

    position: Position
    problem: Problem
    finished: bool


class Scan:
    """An iterable over the batches of an open file, each verified before it is yielded.

    Attributes:
        stop: Where and why the scan ended early; None where it reached the end.
        source: Name of the file in problems.
        sealed_ranges: The ranges that were skipped, as (begin, end) offsets.
    """

    def __init__(  # noqa: PLR0913 - as a tail is looked for in a few places, and each by all of them
        self,
        fd: int,
        start: Position,
        end: int,
        source: str = "events.jsonl",
        pending: Collection[str] = (),
        *,
        verify: bool = True,
        index: damage.DamageIndex | None = None,
    ) -> None:
        """Scan ``fd`` from ``start`` to the offset ``end``.

        Texts of the events ``pending`` are treated as erased, because their redaction is in progress. Without
        ``verify`` only the form is checked: the number of lines of each batch, and their event numbers. Several scans
        of a damaged log can share an ``index``, so that it is searched once.
        """
        self._given_index = index
        self._verify = verify
        self._start = start
        self._last: LineBatch | RawBatch | None = None
        self.stop: Stop | None = None
        self.sealed_ranges: list[tuple[int, int]] = []
        self._fd = fd
        self._end = end
        self.source = source
        self._pending = pending

    @property
    def _index(self) -> damage.DamageIndex:
        self._given_index = self._given_index or damage.DamageIndex(self._fd, self._end)
        return self._given_index

    @property
    def position(self) -> Position:
        """Return the position after the last batch that was yielded."""
        last = self._last
        return self._start if last is None else Position(last.last, last.chain, last.end)

    def __iter__(self) -> Iterator[RawBatch]:
        """Yield the batches; check ``stop`` afterwards."""
        return Batches(self.runs())

    def runs(self) -> Iterator[Run]:
        """Yield the batches of each chunk at once; check ``stop`` afterwards."""
        while self.position.offset < self._end:
            yield from self._verified_runs()
            if self.position.offset >= self._end:
                return
            sealed = self._find_seal()
            if sealed is None:
                self.stop = self._describe_stop()
                return
            self.sealed_ranges.append((self.position.offset, sealed.offset))
            self._last = sealed
            yield Run([to_line_batch(sealed)], lacks_text=True)

    def _verified_runs(self) -> Iterator[Run]:
        """Yield batches up to the first that is incomplete or does not verify."""
        digest = _choose_digest(self._end - self.position.offset) if self._verify else None
        position, buffer = self.position.offset, b""
        step = min(_FIRST_BYTES, CHUNK_BYTES)
        while position < self._end:
            # A batch longer than a chunk is searched from its beginning after each read, so the reads grow with it.
            chunk = read_at(self._fd, min(max(step, len(buffer)), self._end - position), position)
            step = min(2 * step, CHUNK_BYTES)
            if not chunk:
                return
            position += len(chunk)
            buffer += chunk
            run = _verify_run(buffer, self.position, self._pending, digest)
            if run.batches:
                self._last = run.batches[-1]
                yield run
                buffer = buffer[len(buffer) - (position - self._last.end) :]
            if _is_conclusive(buffer):
                return

    def _find_seal(self) -> RawBatch | None:
        """Return the ``log.recovered`` batch that seals the range beginning here; None without one."""
        unread = damage.ByteRange(self._fd, self.position.offset)
        seals = (self._read_seal(place, unread) for place in self._index.seals(self.position.offset))
        return next(filter(None, seals), None)

    def _read_seal(self, place: int, unread: damage.ByteRange) -> RawBatch | None:
        """Return the batch that begins at ``place`` if it verifies and seals exactly the range before it."""
        begin, whole = self.position.offset, b""
        for size in (_SHORT_BYTES, MAX_LINE_BYTES):
            around = read_at(self._fd, max(min(size, self._end - place) + 1, 0), place - 1)
            data, mark, tail = around[1:].partition(CHAIN_MARK)
            whole = data + mark + tail[:CHAIN_TAIL_BYTES]
            if len(tail) >= CHAIN_TAIL_BYTES:
                break
        if not around.startswith(b"\n") or b"\n" in data:
            return None
        found = _verify_run(whole, self.position._replace(offset=place), (), sha256).batches
        body = b',"body":{"begin":%d,"end":%d,"digest":"' % (begin, place)
        if not found or body not in data:
            return None
        batch = found[0].batch
        owed = head_field(data, b"id") in self._pending
        if not owed and data.endswith(body + unread.digest(place).encode() + b'"}'):
            return batch
        return batch._replace(erased=True) if owed or unread.is_blank(place - 1) else None

    def _describe_stop(self) -> Stop:
        """Return what is wrong at the place where the scan stopped."""
        seq, _, offset, _ = self.position
        size = _FIRST_BYTES
        while True:
            found = read_at(self._fd, min(size, self._end - offset), offset)
            text, mark, behind = found.partition(CHAIN_MARK)
            tail, end, _ = behind.partition(b"\n")
            if end or len(found) < size or size >= _MAX_DESCRIBED_BYTES:
                break
            size *= 2
        # A text whose redaction is in progress is not damage.
        text = redaction.mask(text, self._pending) + mark + tail
        index, message = diagnose(text.removesuffix(b"\n").split(b"\n"), seq + 1)
        if not mark and not index and message.startswith("the chain"):
            message = "an unfinished batch: its end is missing"
        line = self._index.line_number(offset) + index
        return Stop(self.position, Problem(f"{self.source}:{line}", message, seq + 1 + index, line), bool(end))


def _choose_digest(size: int) -> Digest:
    """Return the faster SHA-256 for so many bytes: OpenSSL is five times as fast, but takes milliseconds to load."""
    if size < _LONG_BYTES:
        return sha256
    import hashlib  # noqa: PLC0415 - see above

    return hashlib.sha256


def _split_batches(buffer: bytes, after: Position) -> tuple[list[LineBatch], int]:
    """Return the batches at the beginning of ``buffer`` that have the expected form, and the offset after them.

    Each has as many lines as it says, the expected event number, and a chain value, which is not verified here. A
    replay spends most of its time in this loop.
    """
    seq, begin = after.seq, after.offset
    part, place, size = b"\n\n", 0, 0
    cut: list[LineBatch] = []
    rest = BytesIO(buffer)
    for line in rest:
        # Most batches have as many lines as the one before.
        if not line.startswith(part, place):
            place, size = _find_size(line)
            part = b"%b%d]," % (_FIRST, size)
            if not size:
                break
        lines = [line]
        lines += islice(rest, size - 1)
        last = lines[-1]
        if not (last.endswith(CHAIN_END) and last.startswith(CHAIN_MARK, -_FRAME_BYTES) and len(lines) == size):
            break
        end = after.offset + rest.tell()
        if not line.startswith(b'"seq":%d,' % (seq + 1), CRC_BYTES) or end - begin > MAX_BATCH_BYTES + _FRAME_BYTES:
            break
        chain = last[-CHAIN_TAIL_BYTES : -len(CHAIN_END)].decode("latin-1")
        lines[-1] = last[:-_FRAME_BYTES] + LINE_END
        cut.append(_new(LineBatch, (seq + 1, seq + size, chain, begin, lines, False)))
        seq += size
        begin = end
    return cut, begin


def _verify_run(buffer: bytes, after: Position, owed: Collection[str], digest: Digest | None) -> Run:
    """Return the batches at the beginning of ``buffer``, up to the first that is incomplete or does not verify.

    ``digest`` verifies the chain; None skips that. The loop repeats compute_chain() inline, with a short path for
    batches without free text, because a call per batch would slow a replay down.
    """
    # No line holds a NUL byte: they are what a power loss leaves. So a batch with one never verifies, however the
    # chunks are cut.
    hole = buffer.find(b"\0")
    cut, end = _split_batches(buffer if hole < 0 else buffer[:hole], after)
    if digest is None and not owed:
        return Run(cut)
    run, proof, gone = [], after.chain, False
    plain = buffer.rfind(FREE_MARK) < 0
    ends = [*(found.offset for found in cut), end][1:]
    for found, behind in zip(cut, ends, strict=True):
        data = buffer[found.offset - after.offset : behind - after.offset - _FRAME_BYTES]
        values = () if plain else free_spans(data)
        if digest is not None:
            proof = digest(proof.encode() + (chained_bytes(data, values) if values else data)).hexdigest()[:CHAIN_CHARS]
            if proof != found.chain:
                break
        if not values:
            run.append(found)
            continue
        # A text whose redaction is in progress may be overwritten in part.
        data = redaction.mask(data, owed) if owed else data
        if digest is not None and sum_fault(data, values, digest) is not None:
            break
        gone = gone or any(data.startswith(redaction.NULL, begin) for begin, _ in values)
        run.append(found._replace(lines=split_lines_with_ends(data)) if owed else found)
    return Run(run, gone)


def _find_size(line: bytes) -> tuple[int, int]:
    """Return where a batch's first line states the size of the batch, and the size; 0 where it does not."""
    place = line.find(_FIRST)
    begin = place + len(_FIRST)
    digits = line[begin : line.find(b"],", begin, begin + _SIZE_DIGITS + 2)]
    return place, int(digits) if place >= 0 and digits.isdigit() else 0


def _is_conclusive(buffer: bytes) -> bool:
    """Return whether more bytes cannot complete this batch: it has its chain, is too long, or contains NUL bytes."""
    tail = buffer.partition(CHAIN_MARK)[2]
    return len(tail) >= CHAIN_TAIL_BYTES or len(buffer) >= MAX_BATCH_BYTES + _FRAME_BYTES or b"\0" in buffer


def find_last_batch_end(fd: int, size: int) -> Position | None:
    """Return the position after the last line if that line is intact and ends a batch; None otherwise.

    It trusts the lines before, which is safe within one boot: the page cache holds what was written, and every writer
    checks the line before its own.
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
        return RawBatch(seq, seq, chain, begin + start, data).position
    return None
