"""What a run of a book may have: the table of kinds, versions, fields and bounds of the rules in force.

Every reader judges a run alike, whatever else its program knows, so nobody who may write to a book stops the others.
The fields and bounds are those of the classes in ``ledger/kinds``; a golden test freezes the whole table, because a
program that takes a run which another one skips parts from it for good. A kind or a version that the table does not
have is taken in by all and has no effect, except for kinds that only a machine's own ledger has.
"""

from __future__ import annotations

from binascii import crc32
from itertools import accumulate
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.ledger.codec import decode, decode_author, parse_head_at
from tallybook.ledger.errors import DamagedLedgerError, TallybookError
from tallybook.ledger.event_json import REFUSALS
from tallybook.ledger.line import CRC_BYTES, FRAME_BYTES, FREE_MARK, LINE_END, MAX_LINE_BYTES, SECTION
from tallybook.ledger.sharing.landing import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.records import Batch

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
"""Kinds that only a machine's own ledger has. One that is added after the first release is not among them: programs
that do not know it take it in."""

_NUMBERS: Final = {
    cls: tuple(field.name for field in attrs.fields(attrs.resolve_types(cls)) if field.type in {int, int | None})
    for cls in SHARED | OF_BOOK
}
_CHANGES: Final = re.compile(rb'\t"kind":"book\.(?:opened|rules)"')
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BRACKET: Final = re.compile(rb"[\[\]{}]")


class Verdict(NamedTuple):
    """What becomes of a run.

    Attributes:
        rules: The number of the rules in force after it.
        fault: Why it does not fit; empty where it does, or where its rules are newer than those that are known here.
    """

    rules: int
    fault: str = ""


def may_change(data: bytes) -> bool:
    """Return whether bytes of a book may have an event that opens it or changes its rules."""
    return _CHANGES.search(data) is not None


def judge(batches: Sequence[RawBatch], rules: int, first: int) -> Verdict:
    """Return whether the batches of a run fit the rules in force before it.

    Args:
        batches: The batches.
        rules: The number of these rules; 0 before the book is opened.
        first: The first event number of the run.
    """
    if may_change(batches[0].data):
        after = _rules_after(batches[0], rules)
        # Nobody judges by rules that are unknown here, so the rest of such a run does not matter.
        if after > NEWEST and batches[0].first == first:
            return Verdict(after)
    try:
        for raw, batch in zip(batches, decode(batches), strict=True):
            if fault := _find_fault(raw, batch, rules, is_first=raw.first == first):
                return Verdict(rules, f"event {raw.first}: {fault}")
            rules = _rules_after(raw, rules) if may_change(raw.data) else rules
    except DamagedLedgerError as error:
        return Verdict(rules, f"event {error.problems[0].seq}: {error.problems[0].message}")
    except TallybookError as error:
        return Verdict(rules, str(error))
    return Verdict(rules)


def _rules_after(raw: RawBatch, rules: int) -> int:
    """Return the rules in force after a batch, if it is one that opens a book or changes to the next rules."""
    try:
        found = next(decode([raw])).events
    except TallybookError:
        return rules
    event = found[0]
    if len(found) == 1 and isinstance(event, events.BookOpened if not rules else events.BookRules):
        return event.rules if not rules or event.rules == rules + 1 else rules
    return rules


def _find_fault(raw: RawBatch, batch: Batch, rules: int, *, is_first: bool) -> str:
    if not rules and not isinstance(batch.events[0], events.BookOpened):
        return "it comes before the book is opened"
    for index, line in enumerate(raw.lines):
        if fault := _find_line_fault(raw, index, line):
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


def _find_line_fault(raw: RawBatch, index: int, line: bytes) -> str:
    end, mark = len(line) - len(LINE_END), line.find(FREE_MARK)
    core = line[CRC_BYTES : end if mark < 0 else mark]
    if end + FRAME_BYTES > MAX_LINE_BYTES:
        return "a line is too long"
    if not line.startswith(b'{"crc":"%08x",' % crc32(core)):
        return "a line does not fit its checksum"
    if _is_deep(line):
        return "it is nested too deeply"
    fields = parse_head_at(line.partition(SECTION)[0], raw, index)
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
