"""The whole ledger, end to end, trusting nothing: chain, digests, order, ids, clock, kinds, head."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import attrs

from ledger import clock, disk, recover, strict
from ledger.backends.jsonl import LOG_NAME
from ledger.codec import decode
from ledger.errors import BadInputError, DamagedLedgerError, Problem
from ledger.events import LogRecovered, UnknownEvent
from ledger.head_form import head_form
from ledger.line import START, dumps, line_fault, lines_of, split_line
from ledger.reader import check_format
from ledger.salvage import Gap, survey
from ledger.scan import fits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ledger.backends.jsonl import JsonlLog
    from ledger.head import Head
    from ledger.line import Mark, RawBatch
    from ledger.recorded import Batch

_PROVEN_ENTRIES = 65_536


@attrs.frozen
class Verdict:
    """What verification found.

    Attributes:
        events: How many lines verify, from the first on without a gap.
        head: The place behind the last of them.
        problems: Damage, in the order of the file; empty where the ledger is whole.
        notes: What is no damage and worth knowing: sealed ranges, an unfinished end, a clock that ran back.
        unknown_kinds: Kinds (``kind/v``) that this version ignores, with how many lines each has.
        missing: What cannot be proven, as first and last sequence number; None where nobody knows the last, and the
            last before the first where only a chain value was changed.
    """

    events: int
    head: Mark
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    unknown_kinds: dict[str, int]
    missing: tuple[tuple[int, int | None], ...] = ()

    @property
    def ok(self) -> bool:
        """Say whether nothing is damaged."""
        return not self.problems


@attrs.define
class _Findings:
    """What has been seen so far."""

    problems: list[Problem] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    missing: list[tuple[int, int | None]] = attrs.field(factory=list)
    kinds: dict[str, int] = attrs.field(factory=dict)
    ids: set[str] = attrs.field(factory=set)
    keys: set[str] = attrs.field(factory=set)
    proven: set[bytes] = attrs.field(factory=set)
    at: str = ""
    expect: tuple[int, str] | None = None
    good: Mark = START

    def damaged(self, seq: int, message: str) -> None:
        """Note damage at a line that is there."""
        self.problems.append(Problem(f"{LOG_NAME}: seq {seq}", message, seq))


def verify(
    log: JsonlLog,
    progress: Callable[[int, int], None] = lambda _done, _size: None,
    expect: tuple[int, str] | None = None,
) -> Verdict:
    """Verify a ledger from its first byte to its last.

    Args:
        log: The ledger.
        progress: Called now and then with bytes done and bytes in all.
        expect: A sequence number and the chain value it had, noted elsewhere; a ledger that was written anew from
            there on proves itself, but not this.

    Raises:
        NewerLedgerError: The ledger's format is from the future.
    """
    head = log.read_head()
    try:
        fd = disk.open_file(log.path, write=False)
    except FileNotFoundError:
        lost = [recover.gone(log.path, head)] if head is not None and head.mark.offset else []
        if expect is not None and not lost:
            lost.append(Problem(LOG_NAME, f"is missing, and seq {expect[0]} was expected", expect[0]))
        return Verdict(0, START, tuple(lost), (), {})
    findings = _Findings(expect=expect)
    try:
        check_format(fd, log.path)
        size = os.fstat(fd).st_size
        proven = _watched(fd, size, head, findings, progress)
        while True:
            try:
                for batch in decode(proven):
                    _look(batch, findings)
                break
            except DamagedLedgerError as error:
                # The batch that fits no class is passed over; those behind it are looked at all the same.
                findings.problems += error.problems
        _look_at_end(fd, head, size, findings)
        if findings.expect is not None:
            seq, chain = findings.expect
            message = f"no batch that ends at seq {seq} has the chain {chain}, which was expected"
            findings.problems.append(Problem(LOG_NAME, message, seq))
    finally:
        os.close(fd)
    return Verdict(
        findings.good.seq,
        findings.good,
        tuple(findings.problems),
        tuple(findings.notes),
        findings.kinds,
        tuple(findings.missing),
    )


def _watched(
    fd: int, size: int, head: Head | None, findings: _Findings, progress: Callable[[int, int], None]
) -> Iterator[RawBatch]:
    """Pass on each batch that proves itself, looking at what only its bytes tell, and note what does not."""
    for found in survey(fd, START, size, LOG_NAME):
        if isinstance(found, Gap):
            if recover.is_unclean(fd, found.stop, head, size):
                left = size - found.stop.mark.offset
                findings.notes.append(f"{left:,} bytes at the end were never acknowledged; the next writer seals them")
                return
            findings.problems.append(found.stop.problem)
            findings.missing.append(found.missing)
            continue
        for index, line in enumerate(lines_of(found.data)):
            _look_at_line(line, found, index, findings)
        if findings.expect == (found.last, found.chain):
            findings.expect = None
        yield found
        if not findings.problems:
            findings.good = found.mark
        progress(found.end, size)


def _look_at_line(line: bytes, batch: RawBatch, index: int, findings: _Findings) -> None:
    """Look at a line that its chain proves: is it one that a writer of this format would have written?"""
    seq, size = batch.first + index, batch.last - batch.first + 1
    head, what, free = split_line(line)
    form = head_form(head)
    if form is None or (form.seq, form.part) != (seq, (index + 1, size)) or line_fault(line, seq) is not None:
        findings.damaged(seq, "its chain fits, but its head is not one that Tallybook writes here")
        return
    if not (_is_proven(form.by, findings) and _is_proven(what, findings) and (free is None or _is_canonical(free))):
        findings.damaged(seq, "its chain fits, but it is not canonical JSON")
    if form.id in findings.ids:
        findings.damaged(seq, f"repeats the id {form.id}")
    findings.ids.add(form.id)
    if form.key is not None:
        if form.key in findings.keys:
            findings.damaged(seq, f"repeats the key {form.key}")
        findings.keys.add(form.key)
    if form.at < findings.at:
        back_s = (clock.unix_us(findings.at) - clock.unix_us(form.at)) // clock.MICROSECONDS
        findings.notes.append(f"seq {seq}: the clock stood {back_s:,} s before the line above it")
    findings.at = form.at


def _is_proven(value: bytes, findings: _Findings) -> bool:
    """Say whether JSON that may come again is canonical, remembering what is."""
    if value in findings.proven:
        return True
    canonical = _is_canonical(value)
    if canonical and len(findings.proven) < _PROVEN_ENTRIES:
        findings.proven.add(value)
    return canonical


def _is_canonical(value: bytes) -> bool:
    """Say whether JSON is written as the ledger writes it, with nothing that readers disagree about."""
    try:
        return dumps(strict.loads(value, "line")).encode() == value
    except (BadInputError, UnicodeEncodeError):
        return False


def _look(batch: Batch, findings: _Findings) -> None:
    """Look at what a batch says; its records are decoded, so that a body or a rater that fits no class is found."""
    for record in batch.records:
        event = record.event
        if isinstance(event, UnknownEvent):
            kind = f"{event.kind}/{event.v}"
            findings.kinds[kind] = findings.kinds.get(kind, 0) + 1
        elif isinstance(event, LogRecovered):
            span = f"{event.end - event.begin:,} bytes from offset {event.begin} on"
            findings.notes.append(f"{span} were sealed unread")


def _look_at_end(fd: int, head: Head | None, size: int, findings: _Findings) -> None:
    """Judge whether the head fits."""
    if head is None:
        if size:
            findings.notes.append("there is no head, so a missing end would not be noticed")
    elif size < head.mark.offset:
        findings.problems.append(recover.truncated(LOG_NAME, fd, size, head).problems[0])
    elif not findings.problems and not fits(fd, head.mark):
        findings.problems.append(recover.another(LOG_NAME, head))


def salvage(log: JsonlLog) -> Iterator[Batch]:
    """Yield every batch of a damaged ledger that proves itself and says something, in order.

    Raises:
        FileNotFoundError: There is no log.
    """
    fd = disk.open_file(log.path, write=False)
    try:
        for found in survey(fd, START, os.fstat(fd).st_size, LOG_NAME):
            if not isinstance(found, Gap):
                with contextlib.suppress(DamagedLedgerError):
                    yield from list(decode([found]))
    finally:
        os.close(fd)
