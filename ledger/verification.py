"""Verification of the whole ledger: chain, digests, order, ids, clock, kinds and head; salvage of what still verifies.

Salvage continues after a batch that does not verify at the next one that does: after a chain value in the file, or
after the original value of one that was changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
import contextlib
from itertools import islice, pairwise
from math import inf
import os
import re
from typing import TYPE_CHECKING, NamedTuple

import attrs

from tallybook.ledger import clock, damage, line
from tallybook.ledger.codec import REFUSALS, decode, decode_author, parse_head_at
from tallybook.ledger.errors import DamagedLedgerError, Problem
from tallybook.ledger.events import EventRedacted, LiftAsked, LogRecovered, UnknownEvent
from tallybook.ledger.line import START, Position, RawBatch
from tallybook.ledger.records import Batch, EventRecord
from tallybook.ledger.scan import Scan, Stop
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage.disk import read_at
from tallybook.ledger.storage.head import Head, check_format, has_position, log_size
from tallybook.ledger.storage.redaction import REPLACED_TEXT

if TYPE_CHECKING:
    from tallybook.ledger.log import JsonlLog

_NOTED = frozenset({EventRedacted, LiftAsked, LogRecovered, UnknownEvent})
_PLAIN = rb'"[ !#-\[\]-~]+"'
# Most authors have a session of their own, and decoding each would take longer than all else.
_PLAIN_AUTHOR = re.compile(
    rb'\{"rater":%b%b\}'
    % (_PLAIN, b"".join(b'(?:,"%b":%b)?' % (field.encode(), _PLAIN) for field in line.BY_FIELDS[1:]))
)


class RedactedText(NamedTuple):
    """A text that was erased from the ledger.

    Attributes:
        seq: Event number of the event that had the text.
        record: The ``event.redacted``: when, by whom, and why.
    """

    seq: int
    record: EventRecord


@attrs.frozen
class Verification:
    """The result of verification.

    Attributes:
        events: How many lines verify, from the first on without a gap.
        head: The position after the last of them.
        problems: Damage, in the order of the file; empty where the ledger is intact.
        notes: What is not damage but worth knowing: sealed ranges, a torn tail, a clock that ran back.
        unknown_kinds: Kinds (``kind/v``) that this version ignores → number of lines.
        missing: First and last event number of each range that does not verify. The last is None where unknown, and
            one less than the first where only a chain value was changed.
        redacted: The erased texts, in order.
        asks_lift: Whether a question of lift was ever asked, so that there may be draws.
    """

    events: int
    head: Position
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    unknown_kinds: dict[str, int]
    missing: tuple[tuple[int, int | None], ...] = ()
    redacted: tuple[RedactedText, ...] = ()
    asks_lift: bool = False

    @property
    def ok(self) -> bool:
        """Return whether nothing is damaged."""
        return not self.problems


@attrs.define
class _Findings:
    """The state of a verification in progress."""

    problems: list[Problem] = attrs.field(factory=list)
    first_problem: float = inf
    notes: list[str] = attrs.field(factory=list)
    missing: list[tuple[int, int | None]] = attrs.field(factory=list)
    kinds: dict[str, int] = attrs.field(factory=dict)
    asks_lift: bool = False
    ids: set[str] = attrs.field(factory=set)
    keys: set[str] = attrs.field(factory=set)
    by: bytes = b""
    at: str = ""
    erased: list[tuple[int, str]] = attrs.field(factory=list)
    replaced: set[str] = attrs.field(factory=set)
    redactions: dict[str, EventRecord] = attrs.field(factory=dict)
    pending: frozenset[str] = frozenset()
    expect: tuple[int, str] | None = None
    raw: RawBatch = attrs.field(init=False)
    last: RawBatch | None = None

    def add_problems(self, *problems: Problem) -> None:
        """Add problems; the batches before the first of all are whole."""
        self.problems += problems
        self.first_problem = min(self.first_problem, *(problem.seq or 0 for problem in problems))

    def add_damage(self, seq: int, message: str) -> None:
        """Add damage of a line that exists."""
        self.add_problems(Problem(f"{line.LOG_NAME}: seq {seq}", message, seq))


def verify(
    log: JsonlLog,
    expect: tuple[int, str] | None = None,
    consume: Callable[[Iterator[Batch]], None] = lambda _batches: None,
) -> Verification:
    """Verify a ledger from its first byte to its last.

    Args:
        log: The ledger.
        expect: An event number and the chain value that it had, noted elsewhere. It detects a ledger that was
            rewritten as a whole, which verifies by itself.
        consume: Called with the batches before any problem; called again where a redaction makes a second pass
            necessary.

    Raises:
        NewerLedgerError: The ledger has a newer format.
    """
    before = redaction.read_pending_ids(log.folder), log.head()
    verdict = _verify_once(log, expect, consume)
    if verdict.problems and before != (redaction.read_pending_ids(log.folder), log.head()):
        # A text that was erased while it was read is not damage.
        verdict = _verify_once(log, expect, consume)
    return verdict


def _verify_once(
    log: JsonlLog, expect: tuple[int, str] | None, consume: Callable[[Iterator[Batch]], None]
) -> Verification:
    """Verify a ledger in one pass."""
    head = log.read_head()
    try:
        fd = disk.open_file(log.path, write=False)
    except FileNotFoundError:
        problems: tuple[Problem, ...] = ()
        if head is not None and head.position.offset:
            problems = (damage.make_missing_log_problem(head),)
        elif expect is not None:
            problems = (Problem(line.LOG_NAME, f"is missing, and seq {expect[0]} was expected", expect[0]),)
        return Verification(0, START, problems, (), {})
    with disk.closing(fd):
        findings = _Findings(expect=expect, pending=redaction.read_pending_ids(log.folder))
        check_format(fd, log.path)
        size = log_size(fd, os.fstat(fd).st_size, head)
        batches = _verify_events(_verify_chain(log, fd, size, head, findings), findings)
        consume(batches)
        # What it did not read is verified as well.
        deque(batches, 0)
        _check_head(fd, head, size, findings)
        _check_redactions(findings)
        if redaction.is_foreign(log.folder):
            findings.notes.append(f"{redaction.PENDING_FILE} was not written on this machine and is ignored; delete it")
        if findings.expect is not None:
            seq, chain = findings.expect
            message = f"no batch that ends at seq {seq} has the chain {chain}, which was expected"
            findings.problems.append(Problem(line.LOG_NAME, message, seq))
    redactions, end = findings.redactions, START if findings.last is None else findings.last.position
    return Verification(
        events=end.seq,
        head=end,
        problems=tuple(findings.problems),
        notes=tuple(findings.notes),
        unknown_kinds=findings.kinds,
        missing=tuple(findings.missing),
        redacted=tuple(RedactedText(seq, redactions[id_]) for seq, id_ in findings.erased if id_ in redactions),
        asks_lift=findings.asks_lift,
    )


def _verify_events(proven: Iterator[RawBatch], findings: _Findings) -> Iterator[Batch]:
    """Yield each batch before any problem; check the events of all."""
    while True:
        try:
            for batch in decode(proven):
                _check_batch(batch, findings)
                if batch.last < findings.first_problem:
                    findings.last = findings.raw
                    yield batch
            break
        except DamagedLedgerError as error:
            # A batch that fits no event class is skipped; those after it are checked.
            findings.add_problems(*error.problems)


def _verify_chain(log: JsonlLog, fd: int, size: int, head: Head | None, findings: _Findings) -> Iterator[RawBatch]:
    """Yield the batches whose chain verifies, after checking their heads; report the gaps between them."""
    for batch in survey(fd, START, size, findings.pending):
        if isinstance(batch, Gap):
            if damage.is_torn_tail(fd, batch.stop.position, head, size):
                left = size - batch.stop.position.offset
                findings.notes.append(f"{left:,} bytes at the end were never acknowledged; the next writer seals them")
                return
            findings.add_problems(batch.stop.problem)
            findings.missing.append(batch.missing)
            continue
        findings.erased += redaction.find_erased(batch)
        # A ledger that was rewritten as a whole verifies by itself, so only a value noted elsewhere detects that.
        if findings.expect == (batch.last, batch.chain):
            findings.expect = None
        _check_heads(batch, findings)
        findings.raw = batch
        yield batch
        log.watch(batch.end, size)


def _check_heads(batch: RawBatch, findings: _Findings) -> None:
    """Check that the head of each line of a batch whose chain fits is one that Tallybook could have written."""
    for index, raw_line in enumerate(batch.lines):
        seq = batch.first + index
        head, section, _ = raw_line.partition(line.SECTION)
        form = parse_head_at(head, batch, index)
        if form is None or not section or not line.has_checksum(raw_line):
            findings.add_damage(seq, "its chain fits, but its head is not one that Tallybook writes here")
            continue
        if form.by != findings.by and not _PLAIN_AUTHOR.fullmatch(form.by):
            try:
                decode_author(form.by)
                findings.by = form.by
            except REFUSALS as error:
                findings.add_damage(seq, f"its chain fits, but no Tallybook wrote this: {error}")
        if form.id in findings.ids:
            findings.add_damage(seq, f"repeats the id {form.id}")
        findings.ids.add(form.id)
        if raw_line.endswith(REPLACED_TEXT):
            findings.replaced.add(form.id)
        if form.key is not None:
            # A key is given once, whatever was delivered under it.
            key, _ = line.split_key(form.key)
            if key in findings.keys:
                findings.add_damage(seq, f"repeats the key {key}")
            findings.keys.add(key)
        # Time decides nothing, so a clock that was set back gets a note and no more.
        if form.at < findings.at:
            back_s = (clock.to_unix_us(findings.at) - clock.to_unix_us(form.at)) // clock.MICROSECONDS
            findings.notes.append(f"seq {seq}: the clock was {back_s:,} s behind the line before")
        findings.at = form.at


def _check_batch(batch: Batch, findings: _Findings) -> None:
    """Check the events of a batch, and decode its metadata where an event of it is noted."""
    for record in () if _NOTED.isdisjoint(map(type, batch.events)) else batch.records:
        event = record.event
        if isinstance(event, EventRedacted):
            findings.redactions[event.id] = record
        elif isinstance(event, LiftAsked):
            findings.asks_lift = True
        elif isinstance(event, UnknownEvent):
            kind = f"{event.kind}/{event.v}"
            findings.kinds[kind] = findings.kinds.get(kind, 0) + 1
        elif isinstance(event, LogRecovered):
            span = f"{event.end - event.begin:,} bytes from offset {event.begin} on"
            findings.notes.append(f"{span} were sealed unread")


def _check_redactions(findings: _Findings) -> None:
    """Check that every erased text was redacted, and that every redaction is finished."""
    explained = {*findings.redactions, *findings.pending}
    findings.problems += redaction.find_unexplained(findings.erased, explained)
    findings.problems.sort(key=lambda problem: problem.seq or 0)
    if findings.pending:
        number = len(findings.pending)
        what = "a redaction of one text was" if number == 1 else f"a redaction of {number} texts was"
        findings.notes.append(f"{what} started and not finished; the next command that writes continues it")
    # A machine that shares a book redacts events of others, too, which are not in its own ledger.
    present = findings.redactions.keys() & findings.ids
    present -= {*(id_ for _, id_ in findings.erased), *findings.replaced}
    findings.notes += [f"the text of event {id_} was redacted but is still in the log" for id_ in sorted(present)]


def _check_head(fd: int, head: Head | None, size: int, findings: _Findings) -> None:
    """Check that the log contains what the head says was acknowledged."""
    if head is None:
        if size:
            findings.notes.append("there is no head, so a missing end cannot be detected")
    elif size < head.position.offset or not (findings.problems or has_position(fd, head.position)):
        # A log that was cut between two batches verifies by itself: only the head knows the missing events.
        findings.problems.append(damage.head_problem(fd, size, head))
    elif size > os.fstat(fd).st_size:
        findings.notes.append("the last line break is missing; the next writer adds it")


# ---- Salvage: all that still verifies ----


def salvage(log: JsonlLog) -> Iterator[Batch]:
    """Yield every batch of a damaged ledger that verifies and can be decoded, in order.

    Raises:
        FileNotFoundError: There is no log.
    """
    with disk.hold_open(log.path) as fd:
        head, findings = log.read_head(), _Findings(pending=redaction.read_pending_ids(log.folder))
        batches = _verify_chain(log, fd, log_size(fd, os.fstat(fd).st_size, head), head, findings)
        while True:
            # A batch that fits no event class, or has a head that Tallybook did not write, is skipped.
            with contextlib.suppress(DamagedLedgerError):
                for batch in decode(batches):
                    _ = batch.records
                    yield batch
                return


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


def survey(fd: int, start: Position, size: int, pending: Collection[str] = ()) -> Iterator[RawBatch | Gap]:
    """Yield the batches from ``start`` on that verify, and a gap for every range that does not.

    Args:
        fd: The log, open for reading.
        start: Where to begin.
        size: Where to end.
        pending: Events whose redaction is pending: their texts are treated as erased.
    """
    index = damage.DamageIndex(fd, size)
    while True:
        scan = Scan(fd, start, size, pending, index=index)
        yield from scan
        if scan.stop is None:
            return
        bad = scan.stop.position
        if (whole := _batch_with_changed_chain(fd, bad, size, pending, index)) is not None:
            yield Gap(scan.stop, bad)
            yield whole
            start = whole.position
            continue
        after = _find_next_verified(fd, bad, size, pending, index)
        yield Gap(scan.stop, after)
        if after is None:
            return
        start = after


def _find_next_verified(
    fd: int, bad: Position, size: int, pending: Collection[str], index: damage.DamageIndex
) -> Position | None:
    """Return the first position after ``bad`` that a batch verifies by; None without one."""
    for (tail, offset), (_, end) in pairwise(damage.find_chains(fd, bad.offset, size)):
        seq = line.first_seq(read_at(fd, line.CHAIN_TAIL_BYTES + line.CHAIN_CHARS, offset)) - 1
        position = Position(seq, tail[: line.CHAIN_CHARS].decode("ascii", "replace"), offset)
        # A position with a lower event number would repeat a part of the ledger.
        if seq >= bad.seq and next(iter(Scan(fd, position, end, pending=pending, index=index)), None) is not None:
            return position
    return None


def _batch_with_changed_chain(
    fd: int, bad: Position, size: int, pending: Collection[str], index: damage.DamageIndex
) -> RawBatch | None:
    """Return the batch at ``bad`` if the next one verifies with its computed chain value instead of the one on disk."""
    ends = [end for _, end in islice(damage.find_chains(fd, bad.offset, size), 2)]
    if len(ends) < 2:  # noqa: PLR2004 - its own, and that of the batch that proves it
        return None
    end, proof_end = ends
    length = end - bad.offset - len(line.CHAIN_MARK) - line.CHAIN_TAIL_BYTES
    data = read_at(fd, min(length, line.MAX_BATCH_BYTES), bad.offset)
    lines = redaction.mask(line.complete_lines(data), pending)
    last = bad.seq + len(lines)
    value, lacks_text = line.prove(bad.chain, lines)
    batch = RawBatch(bad.seq + 1, last, value, bad.offset, lines, lacks_text)
    proof = next(iter(Scan(fd, Position(last, value, end), proof_end, pending=pending, index=index)), None)
    # Without a value, a text does not fit its sum.
    return batch if value and proof is not None else None
