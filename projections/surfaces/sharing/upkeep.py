"""Looking after a shared book: verify what its engine holds, repair it, and change its rules."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

from tallybook.ledger import clock
from tallybook.ledger.codec import encode
from tallybook.ledger.errors import EXIT_NOT_WRITTEN, BadInputError, TallybookError
from tallybook.ledger.events import BookRules
from tallybook.ledger.line import START, Stamp, chained_bytes, frame
from tallybook.ledger.sharing import rules
from tallybook.ledger.sharing.counting import SkippedRun, count
from tallybook.ledger.sharing.engines.store import ReadOnlyError
from tallybook.ledger.sharing.erasing import find_redactions
from tallybook.ledger.sharing.publishing import cut_runs
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.sharing import joining, syncing
from tallybook.projections.surfaces.sharing.shared_log import SharedLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.ledger.events import Event
    from tallybook.ledger.line import Position, RawBatch
    from tallybook.ledger.sharing.engines.engine import Engine
    from tallybook.ledger.sharing.erasing import Redaction
    from tallybook.projections.surfaces.sharing.membership import Membership
    from tallybook.projections.surfaces.workspace.project import Project


class MovedBookError(TallybookError):
    """Another machine appended meanwhile, or the engine did not say what it did."""

    exit_code = EXIT_NOT_WRITTEN

    def __init__(self, address: str, verb: str) -> None:
        """Say what to type."""
        super().__init__(f"{address}: another machine appended meanwhile, or the answer was lost; run `{verb}` again")


class NewerRulesError(TallybookError):
    """The book has rules that this version does not know."""

    exit_code = EXIT_NOT_WRITTEN


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
        newer: The run from which on the book has rules that this version does not know; None without one.
        redactions: The redactions that machines published.
    """

    runs: int
    counted: int
    events: int
    skipped: Sequence[SkippedRun]
    end: int
    differs: int
    redacted: Sequence[int]
    newer: SkippedRun | None = None
    redactions: Sequence[Redaction] = ()


def verify(project: Project, engine: Engine, without: str = "") -> BookCheck:
    """Read the whole engine, and compare it with this machine's copy.

    Args:
        project: The project.
        engine: The engine.
        without: The place of a run that is left out; empty for none.
    """
    runs = [run for run in engine.read(0).runs if run.place != without]
    counted = count(runs, START, set())
    copy = list(SharedLog(project.ledger).copy.read())
    pairs = list(zip(counted.batches, copy, strict=False))
    # A text that was redacted on one side is no other history: the chain covers its sum and not the text.
    differs = next((one.first for one, other in pairs if chained_bytes(one.data) != chained_bytes(other.data)), 0)
    redacted = [one.first for one, other in pairs if one.raw != other.raw and one.chain == other.chain]
    end = copy[-1].last if copy else 0
    why = "is not what its runs make, which every machine reads in its place"
    false = [SkippedRun(f"segment {number}", "", why) for number in engine.false_segments()]
    last = counted.batches[-1].last if counted.batches else 0
    unknown = len(runs) - [run.place for run in runs].index(counted.newer.place) if counted.newer else 0
    return BookCheck(
        runs=len(runs),
        counted=len(runs) - len(counted.skipped) - unknown,
        events=last,
        skipped=[*counted.skipped, *false],
        end=end,
        differs=differs,
        redacted=redacted,
        newer=counted.newer,
        redactions=find_redactions(lambda: counted.data),
    )


def check_lines(check: BookCheck, address: str) -> list[str]:
    """Return what a check found, for people."""
    lines = [
        f"{address}: {check.counted} of {check.runs} runs count; {check.events} events",
        *map(str, check.skipped),
    ]
    if check.newer:
        lines.append(syncing.newer_rules(address, check.newer))
    if check.differs:
        lines.append(f"the copy here differs from event {check.differs} on; run `tallybook sync --rejoin`")
    else:
        lines.append(f"the copy here has the same bytes up to event {min(check.end, check.events)}")
    if check.end > check.events:
        lines.append(f"events {check.events + 1} to {check.end} are only here; run `tallybook sync`")
    lines += [f"event {seq}: its text was redacted, and the engine still holds it" for seq in check.redacted]
    numbers = Counter((redaction.writer, redaction.of) for redaction in check.redactions)
    lines += [
        f"{writer} redacted {format_count(number, 'text')} of {'its own' if of == writer else of or 'nobody known'}"
        for (writer, of), number in sorted(numbers.items())
    ]
    if check.skipped or check.redacted:
        lines.append("`tallybook share repair` leaves such runs and texts out")
    return lines


def repair(project: Project, engine: Engine, without: str = "") -> tuple[BookCheck, str]:
    """Put the runs that count into fresh ones, without texts that were redacted here, and erase those before.

    Args:
        project: The project.
        engine: The engine.
        without: The number of a run that changes the book to rules which no version has; empty for none.

    Returns:
        What was found before, and what is left of runs before, with what to do; empty where nothing is.

    Raises:
        MovedBookError: Another machine appended meanwhile.
        OtherBookError: The history differs from the one of this machine.
        NewerRulesError: The book has rules that this version does not know; nothing was changed.
        BadInputError: The run to leave out is another one.
    """
    check = verify(project, engine)
    place = f"run {without}" if without else ""
    if place:
        if check.newer is None or check.newer.place != place:
            hint = "`tallybook share verify` names runs; without --without, those that do not count are left out"
            raise BadInputError(place, "does not change the book to rules that are unknown here", hint)
        check = verify(project, engine, place)
    if check.newer:
        # What newer versions appended from there on cannot be judged here, so nothing of it may be left out.
        raise NewerRulesError(syncing.newer_rules(engine.address, check.newer))
    if check.differs:
        raise syncing.OtherBookError(
            f"{engine.address}: its history differs from the one here from event {check.differs} on; nothing was "
            "changed; run `tallybook sync --rejoin` first"
        )
    contents = engine.read(0)
    if not check.skipped and not check.redacted and contents.seal is None and not place:
        # An earlier repair may have been interrupted before it had erased all.
        return check, erase_former(engine)
    # The batches of the copy are those without the texts that were redacted here.
    copy = {batch.chain: batch for batch in SharedLog(project.ledger).copy.read()}
    counted = count([run for run in contents.runs if run.place != place], START, set())
    batches = [copy.get(batch.chain, batch) for batch in counted.batches]
    end = contents.end if contents.seal is None else contents.seal.end
    if engine.replace(end, cut_runs(batches, START, engine.run_bytes)) is None:
        raise MovedBookError(engine.address, "tallybook share repair")
    # Only after the fresh runs: without them a reader would lack a piece of the chain.
    return check, erase_former(engine)


def erase_former(engine: Engine) -> str:
    """Erase the runs that fresh ones replaced; return what is left, with what to do, or nothing."""
    try:
        if engine.erase_former() and (remains := engine.describe_remains()):
            return f"{engine.address}: {remains}"
    except ReadOnlyError as error:
        return (
            f"{error.address}: still holds what was left out, in former runs that this user may not erase "
            f"({error.why}); let an owner of the book run `tallybook share repair` as well"
        )
    return ""


def _frame(event: Event, after: Position, writer: str) -> RawBatch:
    """Return an event of the book itself as a batch after a position."""
    now = clock.utc_now()
    by = {"rater": syncing.SYSTEM, "writer": writer}
    at = clock.clamp_time(now.at, after.at)
    return frame([encode(event)], Stamp(after, at, by, lambda: clock.new_id(now.unix_us), clock.new_salt))


def upgrade(project: Project, part: Membership, engine: Engine) -> tuple[int, int]:
    """Let the book be folded by the rules of this version from its end on.

    Returns:
        The number of the rules before and after.

    Raises:
        MovedBookError: Another machine appended meanwhile.
    """
    joining.run(project, part, engine)
    copy = SharedLog(project.ledger).copy
    before, end = copy.rules(), copy.end()
    if before >= rules.NEWEST:
        return before, before
    contents = engine.read(end.seq)
    if count(contents.runs, end, set(), before).batches:
        raise MovedBookError(engine.address, "tallybook share upgrade")
    batch = _frame(BookRules(before + 1), end, part.writer)
    if engine.append(contents.end, cut_runs([batch], end, engine.run_bytes)) is None:
        raise MovedBookError(engine.address, "tallybook share upgrade")
    joining.run(project, part, engine)
    return before, before + 1
