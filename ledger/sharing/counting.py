"""Which runs of an engine count: every reader takes the same ones, whatever else the engine holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tallybook.ledger.batches import choose_digest, verify_run
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.events import BookOpened, BookRules
from tallybook.ledger.line import Position, head_field, split_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.sharing.engines.engine import Run


_SYSTEM: Final = b'"kind":"book.'


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


def count(runs: Iterable[Run], after: Position, known: Callable[[Collection[str]], Collection[str]]) -> Counted:
    """Return what counts of the runs of an engine after a position.

    A batch counts if its bytes are a batch, its chain value follows from the last batch that counted, and none of its
    ids is in the book already. Positions alone prove nothing: an engine that lost its end and was filled again has the
    same ones.

    Args:
        runs: The runs, in the engine's order.
        after: The position in the book after which they are read.
        known: Returns which of some ids are in the book up to that position.
    """
    batches: list[RawBatch] = []
    skipped: list[SkippedRun] = []
    seen: set[str] = set()
    for run in runs:
        data, fault = _after(run, after)
        found = verify_run(data, after, (), choose_digest(len(data))).batches if not fault else []
        for batch in found:
            ids = list(ids_of(batch))
            if len({*ids}) < len(ids) or not seen.isdisjoint(ids) or known(ids):
                fault = f"event {batch.first} is in the book already"
                break
            seen.update(ids)
            batches.append(batch)
            after = batch.position
        if not fault and after.seq < run.last:
            fault = f"it does not follow event {after.seq} of the book"
        if fault:
            skipped.append(SkippedRun(run.place, run.author, fault))
    return Counted(batches, skipped)


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
