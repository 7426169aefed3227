"""Runs of a book: their permitted content, which runs of an engine count, and how this machine writes them.

The permitted content is the table of kinds, versions, fields and bounds of the rules in force. Every version of
Tallybook judges a run by this table, so no writer of a book can stop the others. The fields and bounds are those of the
classes in ``ledger/events.py``; a golden test freezes the whole table, because two programs that accept different runs
would diverge for good. A kind or a version that is not in the table is taken in by all programs and has no effect,
except for kinds that only a machine's own ledger has.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import attrs

from tallybook.ledger import events, line
from tallybook.ledger.codec import FREE_FIELDS, REFUSALS, decode, decode_author, encode, parse_head_at
from tallybook.ledger.errors import DamagedLedgerError, TallybookError
from tallybook.ledger.line import Draft, Position, RawBatch
from tallybook.ledger.records import Batch
from tallybook.ledger.scan import choose_digest, verify_run
from tallybook.ledger.sharing.engine import NOTHING, Contents, End, Engine, Run
from tallybook.ledger.sharing.landing import SHARED, Landed
from tallybook.ledger.sharing.replica import Replica, find_ids

if TYPE_CHECKING:
    from tallybook.ledger.scan import Digest


_Part = TypeVar("_Part")
NEWEST: Final = 1
"""The newest rules that this version knows."""
BLOCK: Final = 100
"""How many numbers of names a machine gets at once."""
MAX_NUMBER: Final = 999_999_999
"""The largest number in a book: names have as many digits, and nobody can use up what counts up from a forged one."""
MAX_DEPTH: Final = 100
"""How deeply JSON may be nested; Python versions refuse it at different depths."""

OF_BOOK: Final = frozenset({events.BookOpened, events.BookRules, events.BookBlock})
"""Events about the book itself."""
KINDS: Final = {kind: version for kind, (cls, version) in events.EVENT_TYPES.items() if cls in SHARED | OF_BOOK}
"""The table: kind → its newest version in a book; the fields and bounds are those of its class."""
OWN_KINDS: Final = frozenset(events.EVENT_TYPES.keys() - KINDS.keys())
"""Kinds that only a machine's own ledger has. A kind that is added after the first release must be left out here:
programs that do not know it take it in."""

_NUMBERS: Final = {
    cls: tuple(field.name for field in attrs.fields(attrs.resolve_types(cls)) if field.type in {int, int | None})
    for cls in SHARED | OF_BOOK
}
_CHANGES: Final = re.compile(rb'\t"kind":"book\.(?:opened|rules)"')
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BRACKET: Final = re.compile(rb"[\[\]{}]")


def judge(batches: Sequence[RawBatch], rules: int, first: int) -> tuple[int, str]:
    """Return the rules in force after a run, and why its batches do not fit those before it; empty where they do.

    Args:
        batches: The batches.
        rules: The number of the rules before it; 0 before the book is opened.
        first: The first event number of the run.
    """
    try:
        for raw, batch in zip(batches, decode(batches), strict=True):
            after = _rules_after(batch, rules)
            # Nobody judges by rules that are unknown here, so what follows in such a run does not matter.
            if after > NEWEST and raw.first == first:
                return after, ""
            if fault := _find_fault(raw, batch, rules, is_first=raw.first == first):
                return rules, f"event {raw.first}: {fault}"
            rules = after
    except DamagedLedgerError as error:
        return rules, f"event {error.problems[0].seq}: {error.problems[0].message}"
    except TallybookError as error:
        return rules, str(error)
    return rules, ""


def _rules_after(batch: Batch, rules: int) -> int:
    """Return the rules in force after a batch, if it is one that opens a book or changes to the next rules."""
    event = batch.events[0]
    if len(batch.events) == 1 and isinstance(event, events.BookRules if rules else events.BookOpened):
        return event.rules if not rules or event.rules == rules + 1 else rules
    return rules


def _find_fault(raw: RawBatch, batch: Batch, rules: int, *, is_first: bool) -> str:
    if not rules and not isinstance(batch.events[0], events.BookOpened):
        return "it comes before the book is opened"
    for index, data in enumerate(raw.lines):
        if fault := _find_line_fault(raw, index, data):
            return fault
    for event in batch.events:
        if type(event) is events.PointRated:
            # Most events of a book; nothing is left to check of them.
            continue
        fault = find_event_fault(event) or _find_misplaced(event, rules, is_first=is_first)
        if not fault and type(event) in OF_BOOK and len(raw.lines) > 1:
            fault = "an event about the book shares its batch"
        if fault:
            return fault
    return ""


def _find_line_fault(raw: RawBatch, index: int, data: bytes) -> str:
    end, mark = len(data) - len(line.LINE_END), data.find(line.FREE_MARK)
    core = data[line.CRC_BYTES : end if mark < 0 else mark]
    if end + line.FRAME_BYTES > line.MAX_LINE_BYTES:
        return "a line is too long"
    if not data.startswith(b'{"crc":"%08x",' % crc32(core)):
        return "a line does not fit its checksum"
    if _is_deep(data):
        return "it is nested too deeply"
    fields = parse_head_at(data.partition(line.SECTION)[0], raw, index)
    if fields is None:
        return "a head is not one that Tallybook writes here"
    try:
        decode_author(fields.by)
    except REFUSALS as error:
        return f"its author does not fit: {error}"
    return ""


def find_event_fault(event: events.Event) -> str:
    """Return why an event is not in the table; empty where it is, or where nobody's program knows its kind."""
    cls: type[Any] = type(event)
    fields: Any = event
    kind = event.kind if isinstance(event, events.UnknownEvent) else events.KIND_OF[cls]
    if kind in OWN_KINDS:
        return f"{kind} is for a machine's own ledger"
    for name in _NUMBERS.get(cls, ()):
        if abs(getattr(fields, name) or 0) > MAX_NUMBER:
            return f"{name} has more than nine digits"
    if isinstance(event, events.PlaybookAdopted | events.PlaybookEdited) and _is_deep((event.top or "").encode()):
        return "top is nested too deeply"
    if isinstance(event, events.BookBlock) and (event.first % BLOCK != 1 or event.last != event.first + BLOCK - 1):
        return "its block is not a hundred names"
    return ""


def _find_misplaced(event: events.Event, rules: int, *, is_first: bool) -> str:
    """Return why an event about the rules does not belong in its place."""
    if isinstance(event, events.BookOpened):
        if rules:
            return "the book is open already"
        return "" if event.rules else "no version has rules 0"
    if isinstance(event, events.BookRules):
        if event.rules != rules + 1:
            return f"rules {event.rules} do not follow rules {rules}"
        # A program that does not know them takes nothing of their run, and one that does takes all of it or nothing.
        return "" if is_first else "rules change within a run"
    return ""


def _is_deep(data: bytes) -> bool:
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    steps: Iterator[int] = (1 if bracket in b"[{" else -1 for bracket in _BRACKET.findall(_STRING.sub(b"", data)))
    return max(accumulate(steps), default=0) > MAX_DEPTH


SKIPPED: Final = ": does not count: "
"""In a message about a run that does not count, what follows its name."""


class SkippedRun(NamedTuple):
    """A run that does not count.

    Attributes:
        place: Where the engine has it.
        author: Who stored it, as far as the engine knows; else the writer whom it names, marked as its own word.
        why: Why it does not count.
    """

    place: str
    author: str
    why: str

    def __str__(self) -> str:
        """Return the run for people."""
        return f"{self.name}{SKIPPED}{self.why}"

    @property
    def name(self) -> str:
        """Return its place and author."""
        return f"{self.place}, by {self.author}" if self.author else self.place


class Counted(NamedTuple):
    """What counts of some runs.

    Attributes:
        batches: The batches that follow the position, verified.
        skipped: The runs that do not count.
        rules: The number of the rules in force after the batches.
        newer: The run from which on rules are in force that this version does not know, None without one; it and what
            follows it were not judged.
    """

    batches: list[RawBatch]
    skipped: list[SkippedRun]
    rules: int
    newer: SkippedRun | None = None


def count(runs: Sequence[Run], after: Position, known: set[str], rules: int = 0) -> Counted:
    """Return what counts of the runs of an engine after a position.

    A run counts if its bytes are whole batches, its chain follows from the last run that counted, none of its ids is in
    the book already, and its batches fit the rules in force. Positions alone prove nothing: an engine that lost its end
    and was filled again has the same ones.

    Args:
        runs: The runs, in the engine's order.
        after: The position in the book after which they are read.
        known: The ids of the events up to that position; those of what counts are added.
        rules: The number of the rules in force there.
    """
    batches: list[RawBatch] = []
    skipped: list[SkippedRun] = []
    digest = choose_digest(sum(len(run.data) for run in runs))
    for run in runs:
        found, ids, fault = _verify(run, after, known, digest)
        if found and not fault:
            rules, fault = judge(found, rules, run.first)
        if rules > NEWEST:
            why = f"it changes the book to rules {rules}, and this version knows {NEWEST}"
            return Counted(batches, skipped, rules, _skip(run, why))
        if fault:
            skipped.append(_skip(run, fault))
        elif found:
            known.update(ids)
            batches += found
            after = found[-1].position
    return Counted(batches, skipped, rules)


def read_pieces(
    engine: Engine, replica: Replica, size: int | None, since: End = NOTHING
) -> Iterator[tuple[Contents, Counted]]:
    """Yield what an engine holds after the end of a replica, a piece after the other, and what of each counts.

    A long book fits into memory this way, because the caller appends each piece to the replica.

    Args:
        engine: The engine.
        replica: The replica.
        size: About how many bytes a piece has; None for all at once.
        since: Up to where the engine's runs were read before.
    """
    known: set[str] = set()
    rules = 0
    while True:
        end = replica.end()
        contents = engine.read(end.seq, size, since)
        # The first pieces can have nothing new: after a kill it is forgotten up to which run they were read.
        if contents.runs and not known:
            known, rules = replica.ids(), replica.rules()
        counted = count(contents.runs, end, known, rules)
        rules = counted.rules
        yield contents, counted
        if not contents.more or counted.newer:
            return
        # What a run that does not count states is no place of the copy.
        since = contents.end._replace(seq=replica.end().seq)


def _verify(run: Run, after: Position, known: set[str], digest: Digest) -> tuple[Sequence[RawBatch], list[str], str]:
    """Return the batches of a run after a position, their ids, and why it cannot count; empty where it may."""
    data, fault = _bytes_after(run, after)
    found = [] if fault else verify_run(data, after, (), digest)
    end = (found[-1].last, found[-1].chain, found[-1].end - after.offset) if found else (*after[:2], 0)
    if not fault and end != (run.last, run.after, len(data)):
        fault = "it is not whole batches that prove themselves"
    ids = find_ids(data)
    if not fault and (len({*ids}) < len(ids) or not known.isdisjoint(ids)):
        fault = "an event of it is in the book already"
    return found, ids, fault


def _bytes_after(run: Run, position: Position) -> tuple[bytes, str]:
    """Return the bytes of a run after a position within it, and why it cannot count; empty where it may."""
    if not run.first:
        return b"", "it is no run of a book"
    if run.first == position.seq + 1 and run.before == position.chain:
        return run.data, ""
    if run.last <= position.seq:
        return b"", "another run has its event numbers"
    if run.first > position.seq:
        return b"", f"it does not follow event {position.seq} of the book"
    # Lines that an engine lost come back in other runs, which can begin before the position.
    begin = Position(run.first - 1, run.before, 0)
    for batch in verify_run(run.data, begin, (), choose_digest(len(run.data))):
        if (batch.last, batch.chain) == (position.seq, position.chain):
            return run.data[batch.end :], ""
    return b"", f"it has another history than event {position.seq} of the book"


def _skip(run: Run, why: str) -> SkippedRun:
    writer = line.head_field(run.data, line.WRITER.encode())
    author = run.author or (f"{writer!a}, as it says" if writer else "")
    # What it quotes of the run may hold anything.
    return SkippedRun(run.place, author, why.encode("unicode_escape").decode())


@attrs.frozen
class Publisher:
    """How this machine writes a landed batch.

    Attributes:
        writer: The label of this machine in the book; empty for its own view of a pending batch.
        at: When it is published; None for the time of the own event.
        new_salt: Returns a new salt for each text.
        mask: Returns a text with its secrets masked.
    """

    writer: str = ""
    at: str | None = None
    new_salt: Callable[[], str] = str
    mask: Callable[[str], str] = str

    def frame(self, landed: Landed, after: Position) -> RawBatch:
        """Return a landed batch, which has an event, as the batch after a position.

        Raises:
            BadInputError: A masked text makes a line too long.
        """
        # Events keep their ids, by which a machine finds that a batch is in the book already.
        ids: list[str] = []
        drafts: list[Draft] = []
        lines: dict[str, int] = {}
        for event in landed.events:
            when = event.record.when or (None if self.at is None else event.record.at)
            # A void of a long session takes several events, and a long text several lines.
            for draft in line.split_long_texts([encode(self.mask_event(event.event), when)]):
                drafts.append(draft)
                number = lines[event.record.id] = lines.get(event.record.id, 0) + 1
                ids.append(event.record.id if number == 1 else f"{event.record.id}.{number}")
        first_record = landed.sent.records[0]
        at = first_record.at if self.at is None else self.at
        key = None if landed.repeated else first_record.delivery
        # Without the place of the evidence, which is a path of this machine.
        author = first_record.by
        by = {"rater": author.rater, "session": author.session, "agent": author.agent, "model": author.model}
        by = {field: value for field, value in (by | {line.WRITER: self.writer}).items() if value}
        remaining = iter(ids)
        return line.frame(drafts, line.Stamp(after, at, by, lambda: next(remaining), self.new_salt, key))

    def mask_event(self, event: events.Event) -> events.Event:
        """Return an event as it leaves this machine."""
        if isinstance(event, events.EventRedacted):
            # Why a text was redacted stays on this machine.
            return events.EventRedacted(event.id, "")
        texts = {field: self.mask(getattr(event, field) or "") for field in FREE_FIELDS[type(event)]}
        return event.evolve(**texts) if texts else event


def cut_runs(batches: Sequence[RawBatch], after: Position, run_bytes: int) -> list[Run]:
    """Return whole batches as runs of about so many bytes; what changes the rules begins a run.

    Args:
        batches: Batches that follow one another.
        after: The position before them.
        run_bytes: How many bytes a run has at most; a batch alone may have more.
    """
    runs: list[Run] = []
    for piece in cut_pieces(
        batches, lambda batch: batch.size, run_bytes, lambda batch: _CHANGES.search(batch.lines[0]) is not None
    ):
        before = runs[-1].after if runs else after.chain
        data = b"".join(batch.raw for batch in piece)
        runs.append(Run(piece[0].first, piece[-1].last, before, piece[-1].chain, data))
    return runs


def cut_pieces(
    parts: Iterable[_Part],
    length: Callable[[_Part], int],
    limit: int,
    begins: Callable[[_Part], bool] = lambda _: False,
) -> Iterator[list[_Part]]:
    """Yield parts in pieces of about so many bytes.

    Args:
        parts: The parts.
        length: Returns how many bytes a part has.
        limit: How many bytes a piece has at most; a part alone may have more.
        begins: Returns whether a part begins a piece.
    """
    piece: list[_Part] = []
    size = 0
    for part in parts:
        part_size = length(part)
        if piece and (size + part_size > limit or begins(part)):
            yield piece
            piece, size = [], 0
        piece.append(part)
        size += part_size
    if piece:
        yield piece
