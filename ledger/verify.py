"""The whole ledger, end to end, trusting nothing: chain, digests, order, ids, clock, kinds, head."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs

from ledger import clock, disk, recover
from ledger.codec import decode
from ledger.errors import DamagedLedgerError, Problem
from ledger.events import UnknownEvent
from ledger.line import START, lines_of
from ledger.scan import Scan, read_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ledger.backends.jsonl import JsonlLog
    from ledger.head import Head
    from ledger.line import Mark, RawBatch
    from ledger.recorded import Batch, Recorded


@attrs.frozen
class Verdict:
    """What verification found.

    Attributes:
        events: How many lines verify, from the first on.
        head: The place behind the last of them.
        problems: Damage, in the order of the file; empty where the ledger is whole.
        notes: What is no damage and worth knowing: sealed ranges, an unfinished end, a clock that ran back.
        unknown_kinds: Kinds (``kind/v``) that this version ignores, with how many lines each has.
    """

    events: int
    head: Mark
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    unknown_kinds: dict[str, int]

    @property
    def ok(self) -> bool:
        """Say whether nothing is damaged."""
        return not self.problems


@attrs.define
class _Findings:
    """What has been seen so far."""

    problems: list[Problem] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    kinds: dict[str, int] = attrs.field(factory=dict)
    ids: set[str] = attrs.field(factory=set)
    keys: set[str] = attrs.field(factory=set)
    at: str = ""
    line: int = 1


def verify(log: JsonlLog, progress: Callable[[int, int], None] = lambda _done, _size: None) -> Verdict:
    """Verify a ledger from its first byte to its last.

    Args:
        log: The ledger.
        progress: Called now and then with bytes done and bytes in all.
    """
    head = log.read_head()
    try:
        fd = disk.open_file(log.path, write=False)
    except FileNotFoundError:
        lost = (recover.gone(log.path, head),) if head is not None and head.mark.offset else ()
        return Verdict(0, START, lost, (), {})
    findings = _Findings()
    try:
        size = os.fstat(fd).st_size
        scan = Scan(fd, START, size, log.path.name)
        try:
            for batch in decode(_watched(scan, size, findings, progress)):
                _look(batch, findings)
        except DamagedLedgerError as error:
            findings.problems += error.problems
        _look_at_end(fd, scan, head, size, findings)
    finally:
        os.close(fd)
    return Verdict(scan.mark.seq, scan.mark, tuple(findings.problems), tuple(findings.notes), findings.kinds)


def _watched(scan: Scan, size: int, findings: _Findings, progress: Callable[[int, int], None]) -> Iterator[RawBatch]:
    """Pass batches on, looking at what only their bytes tell."""
    for batch in scan:
        sealed = scan.sealed[-1] if scan.sealed else None
        if sealed is not None and sealed[1] == batch.offset:
            findings.notes.append(f"{sealed[1] - sealed[0]:,} bytes from offset {sealed[0]} on were sealed unread")
        for index, line in enumerate(lines_of(batch.data)):
            fault = line_is_canonical(line, batch, index)
            if fault:
                seq = batch.first + index
                findings.problems.append(Problem(f"events.jsonl: seq {seq}", fault, seq))
        yield batch
        progress(batch.end, size)


def line_is_canonical(line: bytes, batch: RawBatch, index: int) -> str | None:
    """Say what no writer of this format would have written in a line whose chain fits, None where all is right."""
    size = batch.last - batch.first + 1
    if not line.startswith(b'{"crc":"') or b'"seq":%d,"id":"' % (batch.first + index) not in line[:64]:
        return "its chain fits, but its head is not one that Tallybook writes"
    if b'"part":[%d,%d],"by":{' % (index + 1, size) not in line:
        return f"its chain fits, but it does not say that it is part {index + 1} of {size}"
    return None


def _look(batch: Batch, findings: _Findings) -> None:
    for record in batch.records:
        _look_at_record(record, findings)
        if isinstance(record.event, UnknownEvent):
            kind = f"{record.event.kind}/{record.event.v}"
            findings.kinds[kind] = findings.kinds.get(kind, 0) + 1


def _look_at_record(record: Recorded, findings: _Findings) -> None:
    source = f"events.jsonl: seq {record.seq}"
    if record.id in findings.ids:
        findings.problems.append(Problem(source, f"repeats the id {record.id}", record.seq))
    if record.key is not None and record.key in findings.keys:
        findings.problems.append(Problem(source, f"repeats the key {record.key}", record.seq))
    findings.ids.add(record.id)
    if record.key is not None:
        findings.keys.add(record.key)
    if record.at < findings.at:
        back_s = (clock.unix_us(findings.at) - clock.unix_us(record.at)) // clock.MICROSECONDS
        findings.notes.append(f"seq {record.seq}: the clock stood {back_s:,} s before the line above it")
    findings.at = record.at


def _look_at_end(fd: int, scan: Scan, head: Head | None, size: int, findings: _Findings) -> None:
    """Judge what lies behind the last good batch, and whether the head fits."""
    if scan.stop is not None:
        if recover.is_unclean(fd, scan.stop, head, size):
            left = size - scan.stop.mark.offset
            findings.notes.append(f"{left:,} bytes at the end were never acknowledged; the next writer seals them")
        else:
            findings.problems.append(scan.stop.problem)
    if head is None:
        if size:
            findings.notes.append("there is no head, so a missing end would not be noticed")
    elif size < head.mark.offset:
        findings.problems.append(recover.truncated(scan.source, fd, size, head).problems[0])
    elif not findings.problems and not _fits(fd, head):
        message = f"does not have the chain {head.mark.chain} that was acknowledged at seq {head.mark.seq}"
        findings.problems.append(Problem("events.jsonl", message, head.mark.seq))


def _fits(fd: int, head: Head) -> bool:
    """Say whether a batch with the head's chain ends at the head's offset."""
    tail = head.mark.chain.encode() + b'"}\n'
    return not head.mark.offset or read_at(fd, len(tail), head.mark.offset - len(tail)) == tail
