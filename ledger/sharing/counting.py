"""Which runs of an engine count: every reader takes the same ones, whatever else the engine holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.events import BookOpened, BookRules
from tallybook.ledger.line import Position, head_field, split_lines
from tallybook.ledger.reading.scan import choose_digest, verify_run
from tallybook.ledger.sharing.engines.engine import NOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.reading.scan import Digest
    from tallybook.ledger.sharing.engines.engine import Contents, End, Engine, Run
    from tallybook.ledger.sharing.replica import Replica


_SYSTEM: Final = b'"kind":"book.'
_GROUP_BYTES: Final = 256 * 1024
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
        data: The bytes of the batches, in pieces.
    """

    batches: list[RawBatch]
    skipped: list[SkippedRun]
    data: list[bytes]


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
    data: list[bytes] = []
    digest = choose_digest(sum(len(run.data) for run in runs))
    # Runs that fit are proven together, which is much faster in catching up; only of others each is looked at.
    for group in _groups(runs):
        if whole := _count_whole(group, after, known, digest):
            batches += whole
            data += [run.data for run in group]
            after = whole[-1].position
            continue
        for run in group:
            found, fault = _count_run(run, after, known, digest)
            if found:
                batches += found
                data += [batch.raw for batch in found]
                after = found[-1].position
            if not fault and after.seq < run.last:
                fault = f"it does not follow event {after.seq} of the book"
            if fault:
                skipped.append(SkippedRun(run.place, run.author, fault))
    return Counted(batches, skipped, data)


def read_pieces(
    engine: Engine, replica: Replica, size: int, since: End = NOTHING
) -> Iterator[tuple[Contents, Counted]]:
    """Yield what an engine holds after the end of a replica, a piece after the other, and what of each counts.

    A long book fits into memory this way, because the caller appends each piece to the replica.

    Args:
        engine: The engine.
        replica: The replica.
        size: About how many bytes a piece has.
        since: Up to where the engine's runs were read before.
    """
    known: set[bytes] | None = None
    while True:
        end = replica.end()
        contents = engine.read(end.seq, size, since)
        if known is None and contents.runs:
            known = replica.ids()
        # The first pieces can have nothing new: after a kill it is forgotten up to which run they were read.
        counted = count(contents.runs, end, set() if known is None else known)
        yield contents, counted
        if not contents.more:
            return
        # What a run that does not count states is no place of the copy.
        since = contents.end._replace(seq=replica.end().seq)


def _groups(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """Yield runs in order, those together of which each states that it follows the one before."""
    group: list[Run] = []
    size = 0
    for run in runs:
        if group and (size > _GROUP_BYTES or (run.first, run.before) != (group[-1].last + 1, group[-1].after)):
            yield group
            group, size = [], 0
        group.append(run)
        size += len(run.data)
    if group:
        yield group


def _count_whole(group: Sequence[Run], after: Position, known: set[bytes], digest: Digest) -> list[RawBatch]:
    """Return the batches of runs that count as a whole, and add their ids to those that are known; else nothing."""
    first, last = group[0], group[-1]
    if (first.first, first.before) != (after.seq + 1, after.chain):
        return []
    data = b"".join([run.data for run in group])
    found = verify_run(data, after, (), digest).batches
    ids = {*find_ids(data)}
    end = last.last, last.after, after.offset + len(data)
    is_whole = found and (found[-1].last, found[-1].chain, found[-1].end) == end
    # An id that comes twice makes the set smaller than the number of lines.
    if not is_whole or len(ids) != last.last - after.seq or not known.isdisjoint(ids):
        return []
    known |= ids
    return found


def _count_run(run: Run, after: Position, known: set[bytes], digest: Digest) -> tuple[list[RawBatch], str]:
    """Return the batches of a run that count, and why the next one does not; empty where it is not due to its ids."""
    if not run.first:
        return [], "it is no run of a book"
    data, fault = _after(run, after)
    found = [] if fault else verify_run(data, after, (), digest).batches
    for index, batch in enumerate(found):
        ids = [id_.encode() for id_ in ids_of(batch)]
        if len({*ids}) < len(ids) or not known.isdisjoint(ids):
            return found[:index], f"event {batch.first} is in the book already"
        known.update(ids)
    return found, fault


def within_rules(batches: list[RawBatch], rules: int) -> tuple[list[RawBatch], int]:
    """Return the batches before the first one that asks for newer rules, and the number of those; 0 without one.

    Args:
        batches: Batches of a book.
        rules: The newest rules that this program knows.
    """
    for index, batch in enumerate(batches):
        # Nearly all batches of a long book are passed over without being decoded.
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
    # Lines that an engine lost come back in other runs, which can begin before the position.
    begin = Position(run.first - 1, run.before, 0)
    for batch in verify_run(run.data, begin, (), choose_digest(len(run.data))).batches:
        if (batch.last, batch.chain) == (position.seq, position.chain):
            return run.data[batch.end :], ""
    return b"", f"it has another history than event {position.seq} of the book"
