"""What a person does with a book: joining, making, moving and leaving it, and verifying, repairing and upgrading it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
import os
import shlex
from typing import Any

import attrs

from tallybook.ledger import clock
from tallybook.ledger.codec import FREE_FIELDS, decode
from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.errors import BadInputError, MissingLinesError
from tallybook.ledger.events import KIND_OF, BookRules
from tallybook.ledger.line import LOG_NAME, START, RawBatch, chained_bytes
from tallybook.ledger.sharing import book, replica
from tallybook.ledger.sharing.book import SkippedRun, count, cut_runs
from tallybook.ledger.sharing.engine import Contents, Engine, EngineError, Place, ReadOnlyError, UnreachableError
from tallybook.ledger.sharing.landing import SHARED
from tallybook.ledger.sharing.replica import BookRedaction, find_redactions
from tallybook.ledger.storage import spool
from tallybook.ledger.storage.head import ledger_id
from tallybook.projections.fold import fold_history
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.history.reading import open_log, open_own_log
from tallybook.projections.surfaces.sharing import membership, syncing
from tallybook.projections.surfaces.sharing.membership import Membership, open_engine
from tallybook.projections.surfaces.sharing.shared_log import SharedLog
from tallybook.projections.surfaces.sharing.syncing import SyncResult
from tallybook.projections.surfaces.workspace import git
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import record, secrets
from tallybook.projections.surfaces.writing.requests import Request

_MOVE_TRIES = 20
_LOG_HINT = "see `tallybook log`; nothing was published"


def preview(project: Project, engine: Engine, part: Membership) -> dict[str, Any]:
    """Return what joining a book would publish and bring; nothing is changed.

    Of a long book only the beginning is read, for joining it reads all of it.

    Returns:
        Address and name of the book; its id and the name that it was made with, empty where it would be made; how many
        events it has, and entries, None where it is long; kind → how many own events would be published; how many
        entries the own playbook has; and the place that the project shares now, empty unless this is another one.

    Raises:
        EngineError: The engine cannot be reached.
    """
    contents = engine.read(0, syncing.PIECE_BYTES)
    batches = count(contents.runs, START, set()).batches
    opened: Any = next(decode(batches)).events[0] if batches else None
    log, former = SharedLog(project.ledger), membership.last_known(project)
    exists = log.exists()
    landed = log.landed() if exists else []
    # Recorded before it publishes: playbook.json of a project without a ledger, and what waits in the spool.
    is_first = not exists or bool(spool.read_files(project.ledger)[0])
    waiting = decode(record.preview(project, open_log(project)) if is_first else ())
    outgoing = [event.event for batch, _ in landed for event in batch.events]
    outgoing += [event for batch in waiting for event in batch.events if type(event) in SHARED]
    return {
        "address": engine.address,
        "name": part.name,
        "book": opened.book if opened else "",
        "project": opened.name if opened else "",
        "events": batches[-1].last if batches else 0,
        "entries": None if contents.more else len(fold_history(PLAYBOOK, lambda: decode(batches)).entries),
        "outgoing": dict(Counter(KIND_OF[type(event)] for event in outgoing)),
        "own_entries": len((log.playbook() if exists else commands.playbook(project).state).entries),
        "former": former.shown_address if former is not None and moves(former, part) else "",
    }


def join(project: Project, part: Membership) -> SyncResult:
    """Join a book, or make it where there is none, and sync once.

    A project that shares a book somewhere else moves it, or follows it.

    Raises:
        OtherBookError: The address holds another book than the one that the project shares; nothing was sent.
        EngineError: The engine cannot be reached, or this machine may not move the book.
    """
    if not open_log(project).exists():
        # The user's settings name the ledger by its id, so there has to be one.
        record.write(project, [], begin=True)
    before = membership.last_known(project)
    unsealed = _move(project, before, part) if before is not None and moves(before, part) else ""
    # Who moves a book or shares again goes on as the same machine of that book, and another book is refused.
    former = membership.last_known(project)
    if former is not None:
        kept = {name: getattr(former, name) for name in ("book", "writer", "end", "before", "unmasked")}
        part = attrs.evolve(part, **kept)
    ledger = ledger_id(project.ledger / LOG_NAME)
    part = attrs.evolve(part, ledger=ledger, path=os.path.realpath(project.ledger))
    with closing(open_engine(part, project.ledger)) as engine:
        return attrs.evolve(run(project, part, engine), unsealed=unsealed)


def _move(project: Project, before: Membership, part: Membership) -> str:
    """Copy the book to another place, and seal the former one; nothing is left to do where others did that.

    Returns:
        Why the former place could not state where the book is now; empty where it does.
    """
    place = Place(part.engine, part.address, part.name)
    with closing(open_engine(before, project.ledger)) as old, closing(open_engine(part, project.ledger)) as new:
        for _ in range(_MOVE_TRIES):
            # What others appended there meanwhile comes along.
            failure, result = "", None
            try:
                result = run(project, before, old)
            except UnreachableError as error:
                # A team leaves a host that is gone as well.
                failure = f"{error.address}: {error.what}"
            if result is not None and result.moved is not None:
                if result.moved == place:
                    return ""
                command = membership.share_command(*result.moved)
                raise BadInputError(part.address, f"the book moved to {result.moved.address}", f"run: {command}")
            copy = SharedLog(project.ledger).copy
            copied = syncing.carry(copy, new, before.book)
            if copied >= 0 and result is None:
                return failure if copied else ""
            contents = old.read(copy.end().seq)
            counted = count(contents.runs, copy.end(), set(), copy.rules())
            is_whole = not counted.batches and not counted.newer
            if copied >= 0 and is_whole and old.seal(contents.end, place):
                return ""
    raise EngineError(before.address, "other machines append at the same time", "nothing was moved; run it again")


def moves(before: Membership, part: Membership) -> bool:
    """Return whether a project that shares a book would share it somewhere else."""
    return (before.name, before.engine, before.address) != (part.name, part.engine, part.address)


def run(project: Project, part: Membership, engine: Engine, limit_s: float = 60.0) -> SyncResult:
    """Sync, note in the user's settings how far the replica goes, and render the playbook.

    What waits in the spool is recorded before; where lines of the book are missing, once they are here.
    """
    _refuse_tracked(project)
    has_spool = bool(spool.read_files(project.ledger)[0])
    if has_spool:
        with suppress(MissingLinesError):
            record.write(project, [])
    result = syncing.sync(project, _at_end(project, part), engine, limit_s)
    _finish(project, part, result.end)
    # What waited for lines of the book was recorded only after the first sync brought them.
    if has_spool and SharedLog(project.ledger).history.pending:
        result = syncing.sync(project, _at_end(project, part), engine, limit_s, result)
        _finish(project, part, result.end)
    # A manual edit is recorded only now, so that nothing leaves that a preview did not show.
    return attrs.evolve(result, pending=SharedLog(project.ledger).count_pending())


def _refuse_tracked(project: Project) -> None:
    """Refuse a copy of the book that a pull or a checkout can change.

    Raises:
        BadInputError: Git tracks it.
    """
    folder = project.ledger / replica.FOLDER
    if git.is_tracked(folder):
        hint = f"run `git rm -r --cached {shlex.quote(str(folder))}` and commit that; nothing was sent or fetched"
        raise BadInputError(str(folder), "git tracks it, and a checkout would change this machine's copy", hint)


def rejoin(project: Project, part: Membership, engine: Engine) -> dict[str, Any]:
    """Take another history of the same book, append what it lacks, and render the playbook; as ``syncing.rejoin``."""
    _refuse_tracked(project)
    done = syncing.rejoin(project, part, engine)
    _finish(project, part, done["end"])
    return done


def publish(project: Project, part: Membership, engine: Engine, event: str) -> tuple[str, SyncResult]:
    """Publish the text of an own event as it is, although a secret was found in it: as a new text of its entry.

    Returns:
        The entry's name, and what the sync did.

    Raises:
        BadInputError: The event is not in the own ledger, has no text or a redacted one, or was not masked.
    """
    run(project, part, engine)
    text = _masked_text(project, event)
    state = SharedLog(project.ledger).playbook()
    # The book has the masked text, so its entry is found by that.
    name = next((name for name, entry in state.entries.items() if entry.text == secrets.mask(text)), None)
    if name is None:
        raise BadInputError(event, "its entry is not in the playbook, or has another text by now", _LOG_HINT)
    part = attrs.evolve(membership.require(project), unmasked=(*part.unmasked, membership.digest(text)))
    # Noted before the text is recorded, so that the sync does not mask it again.
    membership.save(project, part)
    commands.record_request(project, Request(Curation("reword", name, "", text), {"rater": "human"}))
    return name, run(project, part, engine)


def _masked_text(project: Project, event: str) -> str:
    """Return the text of an own event in which a secret was found."""
    for batch in decode(open_own_log(project).read()):
        for noted in batch.records:
            if event in {noted.id, str(noted.seq)}:
                text = getattr(noted.event, "text", None)
                if "text" not in FREE_FIELDS.get(type(noted.event), ()):
                    raise BadInputError(f"event {event}", "has no text that is published", _LOG_HINT)
                if text is None:
                    raise BadInputError(f"event {event}", "its text was redacted", "nothing was published")
                if secrets.mask(text) == text:
                    raise BadInputError(f"event {event}", "its text was published as it is", "nothing is left to do")
                return str(text)
    raise BadInputError(f"event {event}" if event else "EVENT", "is not in the own ledger", _LOG_HINT)


def _at_end(project: Project, part: Membership) -> Membership:
    """Return a project's part in a book with the ends of the replica that were noted last."""
    known = membership.last_known(project)
    return part if known is None else attrs.evolve(part, end=known.end, before=known.before)


def _finish(project: Project, part: Membership, end: tuple[int, str]) -> None:
    """Note in the user's settings how far the replica goes, and render the playbook."""
    syncing.note_ends(project, part, end, end)
    record.write(project, [])


def _moved_meanwhile(address: str, verb: str) -> EngineError:
    return EngineError(address, "another machine appended meanwhile, or the answer was lost", f"run `{verb}` again")


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
    redactions: Sequence[BookRedaction] = ()


def verify(project: Project, engine: Engine) -> BookCheck:
    """Read the whole engine, and compare it with this machine's copy."""
    return _examine(project, engine)[0]


def _examine(project: Project, engine: Engine, without: str = "") -> tuple[BookCheck, Contents, list[RawBatch]]:
    """Return what an engine holds, at will without a run, and the batches that count, as this machine has them."""
    contents = engine.read(0)
    runs = [run for run in contents.runs if run.place != without]
    counted = count(runs, START, set())
    copy = list(SharedLog(project.ledger).copy.read())
    pairs = list(zip(counted.batches, copy, strict=False))
    # A text that was redacted on one side is no other history: the chain covers its sum and not the text.
    differs = next((ours.first for ours, theirs in pairs if chained_bytes(ours.data) != chained_bytes(theirs.data)), 0)
    why = "is not what its runs make, which every machine reads in its place"
    false = [SkippedRun(f"segment {number}", "", why) for number in engine.false_segments()]
    unknown = len(runs) - [run.place for run in runs].index(counted.newer.place) if counted.newer else 0
    check = BookCheck(
        runs=len(runs),
        counted=len(runs) - len(counted.skipped) - unknown,
        events=counted.batches[-1].last if counted.batches else 0,
        skipped=[*counted.skipped, *false],
        end=copy[-1].last if copy else 0,
        differs=differs,
        redacted=[ours.first for ours, theirs in pairs if ours.raw != theirs.raw and ours.chain == theirs.chain],
        newer=counted.newer,
        redactions=find_redactions(lambda: (batch.data for batch in counted.batches)),
    )
    # The batches of the copy are those without the texts that were redacted here.
    own = {batch.chain: batch for batch in copy}
    return check, contents, [own.get(batch.chain, batch) for batch in counted.batches]


def check_lines(check: BookCheck, address: str) -> list[str]:
    """Return what a check found, for people."""
    lines = [
        f"{address}: {check.counted} of {check.runs} runs count; {check.events} events",
        *map(str, check.skipped),
    ]
    if check.newer:
        lines.append(str(syncing.newer_rules(address, check.newer)))
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
        EngineError: Another machine appended meanwhile.
        OtherBookError: The history differs from the one of this machine.
        EngineError: The book has rules that this version does not know; nothing was changed.
        BadInputError: The run to leave out is another one.
    """
    check, contents, batches = _examine(project, engine)
    place = f"run {without}" if without else ""
    if place:
        if check.newer is None or check.newer.place != place:
            hint = "`tallybook share verify` names runs; without --without, those that do not count are left out"
            raise BadInputError(place, "does not change the book to rules that are unknown here", hint)
        check, contents, batches = _examine(project, engine, place)
    if check.newer:
        # What newer versions appended from there on cannot be judged here, so nothing of it may be left out.
        raise syncing.newer_rules(engine.address, check.newer)
    if check.differs:
        raise syncing.OtherBookError(
            f"{engine.address}: its history differs from the one here from event {check.differs} on; nothing was "
            "changed; run `tallybook sync --rejoin` first"
        )
    if not check.skipped and not check.redacted and contents.seal is None and not place:
        # An earlier repair may have been interrupted before it had erased all.
        return check, erase_former(engine)
    end = contents.end if contents.seal is None else contents.seal.end
    if engine.replace(end, cut_runs(batches, START, engine.run_bytes)) is None:
        raise _moved_meanwhile(engine.address, "tallybook share repair")
    # Only after the fresh runs: without them a reader would lack a piece of the chain.
    return check, erase_former(engine)


def erase_former(engine: Engine) -> str:
    """Erase the runs that fresh ones replaced; return what is left, with what to do, or nothing."""
    try:
        if engine.erase_former() and (remains := engine.store.describe_remains()):
            return f"{engine.address}: {remains}"
    except ReadOnlyError as error:
        return (
            f"{error.address}: still holds what was left out, in former runs that this user may not erase "
            f"({error.why}); let an owner of the book run `tallybook share repair` as well"
        )
    return ""


def upgrade(project: Project, part: Membership, engine: Engine) -> tuple[int, int]:
    """Let the book be folded by the rules of this version from its end on.

    Returns:
        The number of the rules before and after.

    Raises:
        EngineError: Another machine appended meanwhile.
    """
    run(project, part, engine)
    copy = SharedLog(project.ledger).copy
    before, end = copy.rules(), copy.end()
    if before >= book.NEWEST:
        return before, before
    contents = engine.read(end.seq)
    if count(contents.runs, end, set(), before).batches:
        raise _moved_meanwhile(engine.address, "tallybook share upgrade")
    batch = syncing.frame_system(end, BookRules(before + 1), part.writer, clock.utc_now())
    if engine.append(contents.end, cut_runs([batch], end, engine.run_bytes)) is None:
        raise _moved_meanwhile(engine.address, "tallybook share upgrade")
    run(project, part, engine)
    return before, before + 1
