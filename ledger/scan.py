"""Reading a log file: from bytes to verified batches. Standard library only.

`Scan` yields batches in order, verified by their chain, with sealed ranges skipped. `read_log` scans the log up to its
present end, and tells damage from a torn tail. `find_batches` yields the batches that hold some bytes, such as an
entry's name; the others are not verified: ``verify`` finds damage in them.
"""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from itertools import chain, islice
import os

from tallybook.ledger import line, search
from tallybook.ledger.errors import DamagedLedgerError, Problem
from tallybook.ledger.fast_stdlib import NamedTuple, dumps, import_lazily, sha256
from tallybook.ledger.line import (
    CHAIN_END,
    CHAIN_MARK,
    CHAIN_TAIL_BYTES,
    CRC_BYTES,
    FRAME_BYTES,
    START,
    Position,
    RawBatch,
)
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage.disk import read_at
from tallybook.ledger.storage.head import NO_HEAD, check_format, has_position, log_size

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from hashlib import _Hash
    from typing import Protocol

    from tallybook.ledger import damage
    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.storage.head import Head

    Digest = Callable[[bytes], _Hash]

    class LogFile(Protocol):
        """What reading and searching need of a log."""

        ledger_folder: str
        log_file: str
        watch: Callable[[int, int], None]

        def read_head(self) -> Head | None:
            """Return the head."""

        def head(self) -> Position:
            """Return the position after the last acknowledged batch."""

        def read(self, after: Position = ...) -> Iterator[RawBatch]:
            """Yield the batches after a position."""

else:
    # Only a log that does not verify needs it.
    [damage] = import_lazily("tallybook.ledger.damage")


# The fastest size: smaller chunks take more calls, larger ones leave the CPU cache before they are hashed.
CHUNK_BYTES = 128 * 1024
# Reading starts small and doubles, because salvage restarts the scan at every damaged place.
_FIRST_BYTES = 4 * 1024
_MAX_DESCRIBED_BYTES = 4 * 1024 * 1024


class Stop(NamedTuple):
    """The place where a scan had to stop.

    Attributes:
        position: The position after the last verified batch.
        problem: What is wrong there.
    """

    position: Position
    problem: Problem


class Scan:
    """An iterable over the batches of an open file, each verified before it is yielded.

    Attributes:
        fd: The file.
        end: The offset up to which it is read.
        position: The position after the last batch that was yielded.
        stop: Where and why the scan ended early; None where it reached the end.
        sealed_ranges: The ranges that were skipped, as (begin, end) offsets.
    """

    def __init__(
        self,
        fd: int,
        start: Position,
        end: int,
        pending: Collection[str] = (),
        *,
        index: damage.DamageIndex | None = None,
    ) -> None:
        """Scan ``fd`` from ``start`` to the offset ``end``. Exactly the line break before it may be missing.

        Texts of the events ``pending`` are treated as erased, because their redaction is in progress. Several
        scans of a damaged log can share an ``index``, so that it is searched once.
        """
        self._given_index = index
        self.position = start
        self.stop: Stop | None = None
        self.sealed_ranges: list[tuple[int, int]] = []
        self.fd = fd
        self.end = end
        self._pending = pending

    @property
    def _index(self) -> damage.DamageIndex:
        self._given_index = self._given_index or damage.DamageIndex(self.fd, self.end)
        return self._given_index

    def _read_at(self, size: int, offset: int) -> bytes:
        data = read_at(self.fd, size, offset)
        return data + b"\n" if len(data) < size and offset + len(data) == self.end - 1 else data

    def __iter__(self) -> Iterator[RawBatch]:
        """Yield the batches; check ``stop`` afterwards."""
        return chain.from_iterable(self.runs())

    def runs(self) -> Iterator[list[RawBatch]]:
        """Yield the batches of each chunk at once; check ``stop`` afterwards."""
        while self.position.offset < self.end:
            yield from self._verified_runs()
            if self.position.offset >= self.end:
                return
            # The `log.recovered` batch that seals the range beginning here, if there is one.
            unread = damage.ByteRange(self.fd, self.position.offset)
            seals = (self._read_seal(place, unread) for place in self._index.find_seals(self.position.offset))
            sealed = next(filter(None, seals), None)
            if sealed is None:
                self.stop = self._describe_stop()
                return
            self.sealed_ranges.append((self.position.offset, sealed.offset))
            self.position = sealed.position
            yield [sealed]

    def _verified_runs(self) -> Iterator[list[RawBatch]]:
        """Yield batches up to the first that is incomplete or does not verify."""
        digest = choose_digest(self.end - self.position.offset)
        position, buffer, most = self.position.offset, b"", line.MAX_BATCH_BYTES + FRAME_BYTES
        step = min(_FIRST_BYTES, CHUNK_BYTES)
        while position < self.end:
            # A batch longer than a chunk is searched from its beginning after each read, so the reads grow with it.
            chunk = self._read_at(min(max(step, len(buffer)), self.end - position), position)
            step = min(2 * step, CHUNK_BYTES)
            if not chunk:
                return
            position += len(chunk)
            buffer += chunk
            run = verify_run(buffer, self.position, self._pending, digest)
            if run:
                self.position = run[-1].position
                yield run
                buffer = buffer[len(buffer) - (position - self.position.offset) :]
            tail = buffer.partition(CHAIN_MARK)[2]
            # More bytes cannot complete a batch that has its chain, is too long, or contains NUL bytes.
            if len(tail) >= CHAIN_TAIL_BYTES or len(buffer) >= most or b"\0" in buffer:
                return

    def _read_seal(self, place: int, unread: damage.ByteRange) -> RawBatch | None:
        """Return the batch that begins at ``place`` if it verifies and seals exactly the range before it."""
        begin = self.position.offset
        start, raw_line = search.read_line(self.fd, place)
        batches = verify_run(raw_line + b"\n", self.position._replace(offset=place), (), sha256)
        body = b',"body":{"begin":%d,"end":%d,"digest":"' % (begin, place)
        if start != place or not batches or batches[0].end > self.end or body not in raw_line:
            return None
        batch = batches[0]
        is_pending = line.head_field(raw_line, b"id") in self._pending
        if not is_pending and batch.data.endswith(body + unread.digest(place).encode() + b'"}'):
            return batch
        return batch._replace(lacks_text=True) if is_pending or unread.is_blank(place - 1) else None

    def _describe_stop(self) -> Stop:
        """Return what is wrong at the place where the scan stopped."""
        seq, _, offset, _ = self.position
        size = _FIRST_BYTES
        while True:
            window = self._read_at(min(size, self.end - offset), offset)
            text, mark, rest = window.partition(CHAIN_MARK)
            tail, end, _ = rest.partition(b"\n")
            if end or len(window) < size or size >= _MAX_DESCRIBED_BYTES:
                break
            size *= 2
        # A text whose redaction is in progress is not damage.
        text = b"".join(redaction.mask(line.complete_lines(text), self._pending)).removesuffix(line.LINE_END)
        index, message = line.diagnose((text + mark + tail).removesuffix(b"\n").split(b"\n"), seq + 1)
        if not offset and (fault := damage.find_opening_fault(self.fd)) is not None:
            message = fault
        if not mark and not index and message.startswith("the chain"):
            message = "an unfinished batch: its end is missing"
        number = self._index.line_number(offset) + index
        return Stop(self.position, Problem(f"{line.LOG_NAME}:{number}", message, seq + 1 + index, number))


# ---- The log up to its present end ----


def read_log(log: LogFile, after: Position) -> Iterator[RawBatch]:
    """Yield the batches of a log after a position, each verified. It takes no lock and writes nothing.

    Args:
        log: The log.
        after: The position.

    Raises:
        DamagedLedgerError: Acknowledged bytes are missing or changed.
        NewerLedgerError: The ledger has a newer format.
    """
    return chain.from_iterable(_explain_erased(log, _scan_log(log, after)))


def _explain_erased(log: LogFile, runs: Iterable[list[RawBatch]]) -> Iterator[list[RawBatch]]:
    """Yield runs of batches after checking that a redaction explains each text that is missing."""
    redacted: Collection[str] = ()
    for run in runs:
        erased = [found for batch in run if batch.lacks_text for found in redaction.find_erased(batch)]
        # Mostly no text is missing, so redactions are looked for only once one is.
        if any(id_ not in redacted for _, id_ in erased):
            redacted = _find_redacted(log)
            if problems := redaction.find_unexplained(erased, redacted):
                raise DamagedLedgerError(problems)
        yield run


def _scan_log(log: LogFile, after: Position) -> Iterator[list[RawBatch]]:
    """Yield the batches of each chunk of a log after a position at once, without asking why a text is missing."""
    # Read before the file is opened, so the file must contain what it covers.
    head = log.read_head()
    try:
        fd = disk.open_file(log.log_file, write=False)
    except FileNotFoundError:
        if head is not None and head.position.offset:
            raise DamagedLedgerError([damage.make_missing_log_problem(head)]) from None
        return
    with open(fd, "rb", 0):
        size, offset = log_size(fd, os.fstat(fd).st_size, head), -1
        if head is not None and size < head.position.offset:
            raise DamagedLedgerError([damage.head_problem(fd, size, head)])
        check_format(fd, log.log_file)
        try:
            while True:
                scan = Scan(fd, after, size, redaction.read_pending_ids(log.ledger_folder))
                log.watch(after.offset, size)
                for run in scan.runs():
                    yield run
                    if scan.position.offset < size:
                        log.watch(scan.position.offset, size)
                # Another process may be erasing a text at this moment. So a batch that does not verify is read once
                # more, when the redaction is pending or finished.
                if scan.stop is None or offset == scan.stop.position.offset:
                    break
                after, offset = scan.position, scan.stop.position.offset
        finally:
            # Also where the caller stops early.
            log.watch(size, size)
        _refuse_damage(scan, head)
        # Another log may have taken this one's place, and verify as a whole.
        if head is not None and not has_position(fd, head.position):
            raise DamagedLedgerError([damage.head_problem(fd, size, head)])


def _refuse_damage(scan: Scan, head: Head | None) -> None:
    """Refuse a log of which a scan ended early, unless what follows is a torn tail."""
    if scan.stop is not None and not damage.is_torn_tail(scan.fd, scan.stop.position, head, scan.end):
        raise DamagedLedgerError([scan.stop.problem])


def _find_redacted(log: LogFile) -> set[str]:
    """Return the events of a log that are redacted, or whose redaction is pending."""
    # A redaction writes its pending file first, then event.redacted, then removes the file. Looking in the same order
    # cannot miss it.
    pending = redaction.read_pending_ids(log.ledger_folder)
    try:
        return {*pending, *chain.from_iterable(map(redaction.read_redacted_ids, _find_raw(log, [redaction.REDACTION])))}
    except DamagedLedgerError:
        # A redaction that is damaged: reading the whole log explains that better.
        for _ in _scan_log(log, START):
            pass
        raise


def find_tail(fd: int, path: StrPath, size: int, head: Head | None) -> Scan:
    """Return a finished scan whose position is the end of the log; it reads no more than is needed to trust that.

    Args:
        fd: The log, open for reading.
        path: Its path.
        size: Its size.
        head: How far it is acknowledged; None where unknown.

    Raises:
        DamagedLedgerError: Acknowledged bytes are missing or changed, or the file is another ledger's.
    """
    known = head or NO_HEAD
    if not has_position(fd, known.position):
        # Another ledger's file, even if intact: nothing in it may be sealed, and nothing appended to it.
        raise DamagedLedgerError([damage.head_problem(fd, size, known)])
    # After a failed flush the page cache may differ from the disk, so the whole log is verified.
    begin = known.position if known.suspect < 0 else START
    scan = Scan(fd, begin, size, redaction.read_pending_ids(os.path.dirname(path)))
    for _ in scan.runs():
        pass
    _refuse_damage(scan, head)
    return scan


# ---- From bytes to verified batches ----

_FIRST_PART = b'"part":[1,'
# The size of the longest batch has fewer digits, and "]," follows it.
_SIZE_DIGITS = 11
_LONG_BYTES = 2 * 1024 * 1024
# Faster than calling the class, whose __new__ is written in Python.
_new = tuple.__new__


def choose_digest(size: int) -> Digest:
    """Return the faster SHA-256 for so many bytes: OpenSSL is five times as fast, but takes milliseconds to load."""
    if size < _LONG_BYTES:
        return sha256
    import hashlib  # noqa: PLC0415 - see above

    return hashlib.sha256


def verify_run(buffer: bytes, after: Position, pending: Collection[str], digest: Digest) -> list[RawBatch]:
    """Return the batches at the beginning of ``buffer``, up to the first that is incomplete or does not verify."""
    # No line holds a NUL byte: they are what a power loss leaves. So a batch with one never verifies, however the
    # chunks are cut.
    hole = buffer.find(b"\0")
    batches = _split_batches(buffer if hole < 0 else buffer[:hole], after)
    has_text, proof = line.FREE_MARK in buffer, after.chain
    if has_text and pending:
        # A text whose redaction is in progress may be overwritten in part.
        batches = [batch._replace(lines=redaction.mask(batch.lines, pending)) for batch in batches]
    for index, batch in enumerate(batches):
        if has_text:
            proof, lacks_text = line.prove(proof, batch.lines, digest)
            if lacks_text:
                batches[index] = batch._replace(lacks_text=True)
        else:
            # Most batches have no text, and a call for each would slow a replay down.
            proof = digest(proof.encode() + b"".join(batch.lines)[:-2]).hexdigest()[: line.CHAIN_CHARS]
        if proof != batch.chain:
            return batches[:index]
    return batches


def _split_batches(buffer: bytes, after: Position) -> list[RawBatch]:
    """Return the batches at the beginning of ``buffer`` that have the expected form.

    Each has as many lines as it says, the expected event number, and a chain value, which is not verified here. A
    replay spends most of its time in this loop.
    """
    seq, begin = after.seq, after.offset
    part, place, size = b"\n\n", 0, 0
    line_end, most = line.LINE_END, line.MAX_BATCH_BYTES + FRAME_BYTES
    batches: list[RawBatch] = []
    rest = BytesIO(buffer)
    for raw_line in rest:
        # Most batches have as many lines as the one before.
        if not raw_line.startswith(part, place):
            place = raw_line.find(_FIRST_PART)
            digits = raw_line[place + len(_FIRST_PART) :][:_SIZE_DIGITS].partition(b"],")[0]
            size = int(digits) if place >= 0 and digits.isdigit() else 0
            part = b"%b%d]," % (_FIRST_PART, size)
            if not size:
                break
        lines = [raw_line]
        lines += islice(rest, size - 1)
        last = lines[-1]
        if not (last.endswith(CHAIN_END) and last.startswith(CHAIN_MARK, -FRAME_BYTES) and len(lines) == size):
            break
        end = after.offset + rest.tell()
        if not raw_line.startswith(b'"seq":%d,' % (seq + 1), CRC_BYTES) or end - begin > most:
            break
        chain_value = last[-CHAIN_TAIL_BYTES : -len(CHAIN_END)].decode("latin-1")
        lines[-1] = last[:-FRAME_BYTES] + line_end
        batches.append(_new(RawBatch, (seq + 1, seq + size, chain_value, begin, lines, False)))
        seq += size
        begin = end
    return batches


# ---- Batches that hold some bytes ----

# Most batches are shorter; for a longer one the read is doubled until both its ends are found.
_WINDOW_BYTES = 4096


def find_batches(log: LogFile, needles: Collection[bytes]) -> Iterator[RawBatch]:
    """Yield every batch of a log that holds one of these byte strings, in order.

    Raises:
        DamagedLedgerError: One of them does not verify, or lacks a text that no redaction explains.
        NewerLedgerError: The ledger's format is from the future.
    """
    return chain.from_iterable(_explain_erased(log, ([batch] for batch in _find_raw(log, needles))))


def find_or_read(log: LogFile, needles: Collection[bytes]) -> Iterator[RawBatch]:
    """Yield the batches of a log that hold one of these byte strings, in order, as ``find_batches``.

    Other batches are not read. If one that holds them is damaged, the whole log is read: that explains damage better.
    """
    last = 0
    with suppress(DamagedLedgerError):
        for batch in find_batches(log, needles):
            last = batch.last
            yield batch
        return
    # What was found before the damage is not yielded twice.
    yield from (batch for batch in log.read() if batch.last > last and any(needle in batch.data for needle in needles))


def bytes_of(field: str, value: str) -> bytes:
    """Return the bytes of a field in the log: every writer writes it in the same way."""
    return f'"{field}":{dumps(value)}'.encode("utf-8", "replace")


def read_batch_at(log: LogFile, offset: int) -> RawBatch | None:
    """Return the batch of a log around an offset; None where none verifies by the chain value before it."""
    with suppress(DamagedLedgerError):
        return next(read_batches_at(log, [offset]))
    return None


def read_batches_at(log: LogFile, offsets: Iterable[int]) -> Iterator[RawBatch]:
    """Yield the batches of a log around ascending offsets, each once.

    Raises:
        DamagedLedgerError: There is none that verifies by the chain value before it.
    """
    with disk.hold_open(log.log_file) as fd:
        pending = redaction.read_pending_ids(log.ledger_folder)
        read_up_to = 0
        for offset in offsets:
            # Several offsets can be in one batch.
            if offset >= read_up_to:
                batch = _read_batch(fd, offset, pending)
                if batch is None:
                    raise DamagedLedgerError(
                        [Problem(f"{line.LOG_NAME}: byte {offset}", "no batch around it verifies")]
                    )
                read_up_to = batch.end
                yield batch


def _find_raw(log: LogFile, needles: Collection[bytes]) -> Iterator[RawBatch]:
    head = log.head()
    if head.offset:
        with disk.hold_open(log.log_file) as fd:
            sealed = list(search.find_sealed_ranges(fd, 0, head.offset))
            places = search.find_all(fd, needles, 0, head.offset)
            inside = (place for place in places if not any(begin <= place < until for begin, until in sealed))
            yield from read_batches_at(log, inside)
    # Other processes may have appended since; only a full read tells their batches from a torn tail.
    batches = chain.from_iterable(_scan_log(log, head))
    yield from (batch for batch in batches if any(needle in batch.data for needle in needles))


def _read_batch(fd: int, place: int, pending: Collection[str]) -> RawBatch | None:
    """Return the batch around a place; None where none verifies by the chain value before it."""
    size = _WINDOW_BYTES
    while True:
        start = max(place - size, 0)
        window = read_at(fd, place - start + size, start)
        is_cut = len(window) == place - start + size
        # The line break at the end of the log may be missing.
        window += b"" if is_cut or window.endswith(b"\n") else b"\n"
        # No text holds a mark: a tab in it would be escaped.
        mark = window.rfind(line.CHAIN_MARK, 0, place - start)
        end = window.find(line.CHAIN_MARK, place - start) + line.FRAME_BYTES
        has_begin, has_end = mark >= 0 or not start, line.FRAME_BYTES <= end <= len(window)
        if has_begin and (has_end or not is_cut):
            break
        if size > 2 * line.MAX_BATCH_BYTES:
            return None
        size *= 2
    begin = mark + line.FRAME_BYTES if mark >= 0 else 0
    proof = (
        window[begin - line.CHAIN_TAIL_BYTES : begin - len(line.CHAIN_END)].decode("latin-1") if begin else line.GENESIS
    )
    data = window[begin:end]
    before = Position(line.first_seq(data) - 1, proof, start + begin)
    return next(iter(verify_run(data, before, pending, choose_digest(len(data)))), None)
