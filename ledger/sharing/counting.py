"""Which runs of an engine count: every reader takes the same ones, whatever else the engine holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from tallybook.ledger.batches import choose_digest, verify_run
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.events import BookOpened, BookRules
from tallybook.ledger.line import Position, head_field, split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.sharing.engines.engine import Run


_SYSTEM: Final = b'"kind":"book.'
_ID: Final = re.compile(rb'\{"crc":"[0-9a-f]{8}","seq":[0-9]+,"id":"([^"]*)"')


class SkippedRun(NamedTuple):
    """A run, or the rest of one, that does not count.

    Attributes:
        place: Where the engine has it.
        author: Who stored it, as far as the engine knows.
        why: Why it does not count.
    """

    place: str
    author: str
    why: str


class Counted(NamedTuple):
    """What counts of some runs.

    Attributes:
        batches: The batches that follow the position, verified.
        skipped: The runs that do not count.
    """

    batches: list[RawBatch]
    skipped: list[SkippedRun]


def ids_of(batch: RawBatch) -> Iterator[str]:
    """Yield the id of each line of a batch."""
    for line in split_lines(batch.data):
        yield head_field(line, b"id")


def find_ids(data: bytes) -> list[bytes]:
    """Return the id of each line in some bytes of a book; much faster than one line after another."""
    return _ID.findall(data)


def count(runs: Sequence[Run], after: Position, known: set[bytes]) -> Counted:
    """Return what counts of the runs of an engine after a position.

    A batch counts if its bytes are a batch, its chain value follows from the last batch that counted, and none of its
    ids is in the book already. Positions alone prove nothing: an engine that lost its end and was filled again has the
    same ones.

    Args:
        runs: The runs, in the engine's order.
        after: The position in the book after which they are read.
        known: The ids of the events up to that position; those of what counts are added.
    """
    batches: list[RawBatch] = []
    skipped: list[SkippedRun] = []
    digest = choose_digest(sum(len(run.data) for run in runs))
    for run in runs:
        data, fault = _after(run, after)
        found = verify_run(data, after, (), digest).batches if not fault else []
        new = _count_new(found, data[: found[-1].end - after.offset], known) if found else 0
        if new < len(found):
            fault = f"event {found[new].first} is in the book already"
        if new:
            batches += found[:new]
            after = batches[-1].position
        if not fault and after.seq < run.last:
            fault = f"it does not follow event {after.seq} of the book"
        if fault:
            skipped.append(SkippedRun(run.place, run.author, fault))
    return Counted(batches, skipped)


def _count_new(batches: Sequence[RawBatch], data: bytes, known: set[bytes]) -> int:
    """Return how many batches come before the first one with an id that is known, and add their ids to those."""
    ids = {*find_ids(data)}
    if len(ids) == batches[-1].last - batches[0].first + 1 and known.isdisjoint(ids):
        known |= ids
        return len(batches)
    for index, batch in enumerate(batches):
        each = [id_.encode() for id_ in ids_of(batch)]
        if len({*each}) < len(each) or not known.isdisjoint(each):
            return index
        known.update(each)
    return len(batches)


def within_rules(batches: list[RawBatch], rules: int) -> tuple[list[RawBatch], int]:
    """Return the batches before the first one that asks for newer rules, and the number of those; 0 without one.

    Args:
        batches: Batches of a book.
        rules: The newest rules that this program knows.
    """
    for index, batch in enumerate(batches):
        if _SYSTEM in batch.lines[0]:
            for event in next(decode([batch])).events:
                if isinstance(event, BookOpened | BookRules) and event.rules > rules:
                    return batches[:index], event.rules
    return batches, 0


def _after(run: Run, position: Position) -> tuple[bytes, str]:
    """Return the bytes of a run after a position within it, and why it cannot count; empty where it may."""
    if run.first == position.seq + 1:
        return run.data, ""
    if run.last <= position.seq:
        return b"", "another run has its event numbers"
    if run.first > position.seq + 1:
        return b"", f"it does not follow event {position.seq} of the book"
    begin = Position(run.first - 1, run.before, 0)
    for batch in verify_run(run.data, begin, (), choose_digest(len(run.data))).batches:
        if (batch.last, batch.chain) == (position.seq, position.chain):
            return run.data[batch.end :], ""
    return b"", f"it has another history than event {position.seq} of the book"
