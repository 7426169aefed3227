"""Which runs of an engine count: every reader takes the same ones, whatever else the engine holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tallybook.ledger.line import WRITER, Position, head_field
from tallybook.ledger.scan import choose_digest, verify_run
from tallybook.ledger.sharing import rules as table
from tallybook.ledger.sharing.engines.engine import NOTHING
from tallybook.ledger.sharing.replica import find_ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.scan import Digest
    from tallybook.ledger.sharing.engines.engine import Contents, End, Engine, Run
    from tallybook.ledger.sharing.replica import Replica

SKIPPED: Final = ": does not count: "
"""In a message about a run that does not count, what follows its name."""
_GROUP_BYTES: Final = 256 * 1024


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
        data: The bytes of the batches, in pieces.
        rules: The number of the rules in force after the batches.
        newer: The run from which on rules are in force that this version does not know, None without one; it and what
            follows it were not judged.
    """

    batches: list[RawBatch]
    skipped: list[SkippedRun]
    data: list[bytes]
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
    data: list[bytes] = []
    digest = choose_digest(sum(len(run.data) for run in runs))
    # Runs that fit are proven together, which is much faster in catching up; only of others each is looked at.
    for group in _groups(runs):
        if whole := _count_whole(group, after, known, rules, digest):
            batches += whole
            data += [run.data for run in group]
            after = whole[-1].position
            continue
        for run in group:
            found, fault = _verify(run, after, known, digest)
            if found and not fault:
                rules, fault = table.judge(found, rules, run.first)
                if rules > table.NEWEST:
                    why = f"it changes the book to rules {rules}, and this version knows {table.NEWEST}"
                    return Counted(batches, skipped, data, rules, _skip(run, why))
            if fault:
                skipped.append(_skip(run, fault))
            elif found:
                known.update(find_ids(run.data))
                batches += found
                data += [batch.raw for batch in found]
                after = found[-1].position
    return Counted(batches, skipped, data, rules)


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
    known: set[str] | None = None
    rules = 0
    while True:
        end = replica.end()
        contents = engine.read(end.seq, size, since)
        if known is None and contents.runs:
            known, rules = replica.ids(), replica.rules()
        # The first pieces can have nothing new: after a kill it is forgotten up to which run they were read.
        counted = count(contents.runs, end, set() if known is None else known, rules)
        rules = counted.rules
        yield contents, counted
        if not contents.more or counted.newer:
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


def _count_whole(group: Sequence[Run], after: Position, known: set[str], rules: int, digest: Digest) -> list[RawBatch]:
    """Return the batches of runs that all count, and add their ids to those that are known; else nothing."""
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
    # Where a run changes the rules depends on where it begins.
    if table.may_change(data) or table.judge(found, rules, first.first).fault:
        return []
    known |= ids
    return found


def _verify(run: Run, after: Position, known: set[str], digest: Digest) -> tuple[list[RawBatch], str]:
    """Return the batches of a run after a position, and why it cannot count; empty where it may."""
    data, fault = _bytes_after(run, after)
    found = [] if fault else verify_run(data, after, (), digest).batches
    end = (found[-1].last, found[-1].chain, found[-1].end - after.offset) if found else (*after[:2], 0)
    if not fault and end != (run.last, run.after, len(data)):
        fault = "it is not whole batches that prove themselves"
    ids = find_ids(data)
    if not fault and (len({*ids}) < len(ids) or not known.isdisjoint(ids)):
        fault = "an event of it is in the book already"
    return found, fault


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
    for batch in verify_run(run.data, begin, (), choose_digest(len(run.data))).batches:
        if (batch.last, batch.chain) == (position.seq, position.chain):
            return run.data[batch.end :], ""
    return b"", f"it has another history than event {position.seq} of the book"


def _skip(run: Run, why: str) -> SkippedRun:
    writer = head_field(run.data, WRITER.encode())
    author = run.author or (f"{writer!a}, as it says" if writer else "")
    # What it quotes of the run may hold anything.
    return SkippedRun(run.place, author, why.encode("unicode_escape").decode())
