"""Looking after a shared book: verify what its engine holds, repair it, begin it anew, and change its rules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

from tallybook.ledger import clock
from tallybook.ledger.encoding.codec import decode, encode
from tallybook.ledger.errors import EXIT_NOT_WRITTEN, TallybookError
from tallybook.ledger.events import (
    BookBlock,
    BookOpened,
    BookRules,
    PlaybookAdopted,
    PointLimited,
    PointPinned,
    PointPlaced,
    PointSeeded,
)
from tallybook.ledger.line import START, Stamp, chained_bytes, frame, split_long_texts
from tallybook.ledger.sharing.counting import SkippedRun, count
from tallybook.ledger.sharing.engines.engine import KeepingEngine, Outcome, ReadOnlyError
from tallybook.ledger.sharing.publishing import cut_runs
from tallybook.projections.surfaces.sharing import joining, syncing
from tallybook.projections.surfaces.sharing.shared_log import SharedLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.ledger.events import Event
    from tallybook.ledger.line import Position, RawBatch
    from tallybook.ledger.sharing.engines.engine import Contents, End, Engine
    from tallybook.projections.surfaces.sharing.membership import Membership
    from tallybook.projections.surfaces.sharing.rejoining import Rejoined
    from tallybook.projections.surfaces.workspace.project import Project

_SEEDS_A_BATCH = 500


class MovedBookError(TallybookError):
    """Another machine appended meanwhile, or the engine did not say what it did."""

    exit_code = EXIT_NOT_WRITTEN

    def __init__(self, address: str, verb: str) -> None:
        """Say what to type."""
        super().__init__(f"{address}: another machine appended meanwhile, or the answer was lost; run `{verb}` again")


@attrs.frozen
class BookCheck:
    """What an engine holds, and this machine's copy.

    Attributes:
        runs: How many runs it holds.
        counted: How many of them count.
        events: How many events those have.
        skipped: The runs that do not count.
        end: Event number at which the copy of this machine ends.
        differs: The first event number at which the two histories differ; 0 where one is the beginning of the other.
        redacted: Event numbers of texts that were redacted here, and that the engine still holds.
    """

    runs: int
    counted: int
    events: int
    skipped: Sequence[SkippedRun]
    end: int
    differs: int
    redacted: Sequence[int]


def verify(project: Project, engine: Engine) -> BookCheck:
    """Read the whole engine, and compare it with this machine's copy."""
    runs = engine.read(0).runs
    counted = count(runs, START, set())
    copy = list(SharedLog(project.ledger).copy.read())
    pairs = list(zip(counted.batches, copy, strict=False))
    differs = next((one.first for one, other in pairs if chained_bytes(one.data) != chained_bytes(other.data)), 0)
    redacted = [one.first for one, other in pairs if one.raw != other.raw and one.chain == other.chain]
    end, skipped = copy[-1].last if copy else 0, counted.skipped
    last = counted.batches[-1].last if counted.batches else 0
    return BookCheck(len(runs), len(runs) - len(skipped), last, skipped, end, differs, redacted)


def check_lines(check: BookCheck, address: str) -> list[str]:
    """Return what a check found, for people."""
    lines = [
        f"{address}: {check.counted} of {check.runs} runs count; {check.events} events",
        *(
            f"does not count: {run.place}{f', by {run.author}' if run.author else ''}: {run.why}"
            for run in check.skipped
        ),
    ]
    if check.differs:
        lines.append(f"the copy here differs from event {check.differs} on; run `tallybook sync --rejoin`")
    else:
        lines.append(f"the copy here has the same bytes up to event {min(check.end, check.events)}")
    if check.end > check.events:
        lines.append(f"events {check.events + 1} to {check.end} are only here; run `tallybook sync`")
    lines += [f"event {seq}: its text was redacted, and the engine still holds it" for seq in check.redacted]
    if check.skipped or check.redacted:
        lines.append("`tallybook share repair` leaves such runs and texts out")
    return lines


def repair(project: Project, engine: Engine) -> BookCheck:
    """Put the runs that count into a fresh stream, table or root commit; texts that were redacted here are left out.

    Returns:
        What was found before.

    Raises:
        MovedBookError: Another machine appended meanwhile.
        OtherBookError: The history differs from the one of this machine.
    """
    check = verify(project, engine)
    if check.differs:
        raise syncing.OtherBookError(
            f"{engine.address}: its history differs from the one here from event {check.differs} on; nothing was "
            "changed; run `tallybook sync --rejoin` first"
        )
    if not check.skipped and not check.redacted:
        return check
    contents = engine.read(0)
    batches = count(contents.runs, START, set()).batches
    copy = {one.chain: one for one in SharedLog(project.ledger).copy.read()}
    _replace(engine, contents, [copy.get(one.chain, one) for one in batches], "share repair")
    return check


def delete_former(engine: Engine) -> str:
    """Delete what an engine keeps of before a repair; return why not, with what to do, empty where nothing is left."""
    if not isinstance(engine, KeepingEngine):
        return ""
    try:
        engine.delete_others()
    except ReadOnlyError as error:
        return (
            f"{error.address}: still holds what was left out, in a former stream that this user may not delete; "
            "let an operator run `tallybook share repair` as well"
        )
    return ""


def _replace(engine: Engine, contents: Contents, batches: Sequence[RawBatch], verb: str) -> None:
    answer = engine.replace(contents.end, cut_runs(batches, START, engine.run_bytes))
    if answer.outcome is not Outcome.DONE:
        raise MovedBookError(engine.address, f"tallybook {verb}")


def reset(project: Project, part: Membership, engine: Engine) -> Rejoined:
    """Begin the same book anew, one epoch higher, with the entries and counts that this machine shows.

    Raises:
        MovedBookError: Another machine appended meanwhile.
    """
    joining.run(project, part, engine)
    contents = engine.read(0)
    batches = count(contents.runs, START, set()).batches
    opened = joining.opening_of(batches[0], engine.address)
    opening = BookOpened(opened.book, opened.name, opened.epoch + 1, rules_of(batches))
    _replace(engine, contents, _beginning(project, part, opening), "share reset")
    return joining.rejoin(project, part, engine)


def _beginning(project: Project, part: Membership, opening: BookOpened) -> list[RawBatch]:
    """Return the batches of a book that begins with a playbook."""
    state = SharedLog(project.ledger).playbook()
    entries = list(state.entries.values())
    top = json.dumps({key: value for key, value in state.top.items() if key != "version"}, ensure_ascii=False)
    groups: list[list[Event]] = [[opening], [BookBlock(1, max(state.high_water, 1))]]
    seeds = [PointSeeded(one.name, one.helpful, one.harmful, "canonical", one.text, "") for one in entries]
    groups.append([PlaybookAdopted("", len(entries[:_SEEDS_A_BATCH]), top), *seeds[:_SEEDS_A_BATCH]])
    more = range(_SEEDS_A_BATCH, len(seeds), _SEEDS_A_BATCH)
    groups += [[*seeds[begin : begin + _SEEDS_A_BATCH]] for begin in more]
    groups += [[PointPinned(name, "")] for name in state.pinned if name in state.entries]
    groups += [[PointLimited(name, "", day)] for name, day in state.until.items() if name in state.entries]
    groups += [[PointPlaced(name, "", section)] for name, section in state.placed.items() if name in state.entries]
    batches: list[RawBatch] = []
    after = START
    for group in groups:
        batches.append(_framed(group, after, part.writer))
        after = batches[-1].position
    return batches


def _framed(events: Sequence[Event], after: Position, writer: str) -> RawBatch:
    """Return events of the book itself as a batch after a position."""
    now = clock.utc_now()
    by = {"rater": syncing.SYSTEM, "writer": writer}
    at = clock.clamp_time(now.at, after.at)
    drafts = split_long_texts([encode(event) for event in events])
    return frame(drafts, Stamp(after, at, by, lambda: clock.new_id(now.unix_us), clock.new_salt))


def rules_of(batches: Sequence[RawBatch]) -> int:
    """Return the number of the rules by which a book is folded at its end."""
    rules = 0
    for batch in decode(one for one in batches if b'"kind":"book.' in one.lines[0]):
        for event in batch.events:
            if isinstance(event, BookOpened | BookRules):
                rules = event.rules
    return rules


def upgrade(project: Project, part: Membership, engine: Engine) -> tuple[int, int]:
    """Let the book be folded by the rules of this version from its end on.

    Returns:
        The number of the rules before and after.

    Raises:
        MovedBookError: Another machine appended meanwhile.
    """
    joining.run(project, part, engine)
    copy = SharedLog(project.ledger).copy
    before, end = rules_of(list(copy.read())), copy.end()
    if before >= syncing.RULES:
        return before, before
    contents = engine.read(end.seq)
    batch = _framed([BookRules(syncing.RULES)], end, part.writer)
    answer = engine.append(_expected(contents, end, engine), cut_runs([batch], end, engine.run_bytes))
    if answer.outcome is not Outcome.DONE:
        raise MovedBookError(engine.address, "tallybook share upgrade")
    joining.run(project, part, engine)
    return before, syncing.RULES


def _expected(contents: Contents, end: Position, engine: Engine) -> End:
    """Return the end that an append expects.

    Raises:
        MovedBookError: Batches that count follow the end of the copy.
    """
    if count(contents.runs, end, set()).batches:
        raise MovedBookError(engine.address, "tallybook share upgrade")
    return contents.end
