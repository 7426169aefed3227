"""Operations of a person on a book: join, make, move, leave, verify, repair and upgrade it.

This module also shows its engine, the pending events, its members, and the results of syncs.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
import os
import re
import shlex
import sys
from typing import Any, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.codec import FREE_FIELDS, decode, encode
from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.errors import BadInputError, LockHeldError, MissingLinesError, TallybookError
from tallybook.ledger.events import KIND_OF, BookRules
from tallybook.ledger.line import LOG_NAME, START, WRITER, RawBatch, join_chained_bytes
from tallybook.ledger.sharing import book, replica
from tallybook.ledger.sharing import engine as engines
from tallybook.ledger.sharing.engine import Engine
from tallybook.ledger.sharing.landing import SHARED
from tallybook.ledger.storage import spool
from tallybook.ledger.storage.head import ledger_id
from tallybook.projections.history.event_rows import summary
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.console.output import format_count, format_time, note
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.history.reading import open_log, open_own_log
from tallybook.projections.surfaces.history.shared_log import SharedLog, find_renamed, read_syncs
from tallybook.projections.surfaces.hooks import sync_results
from tallybook.projections.surfaces.sharing import membership, syncing
from tallybook.projections.surfaces.sharing.membership import Membership, open_engine, share_command
from tallybook.projections.surfaces.workspace import git
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, record, secrets
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
    batches = book.count(contents.runs, START, set()).batches
    opened: Any = next(decode(batches)).events[0] if batches else None
    log, former = open_log(project), membership.last_known(project)
    exists = log.exists()
    # As they were recorded: landing a long history takes as long as publishing it.
    outgoing = [event for sent in SharedLog(project.ledger).history.pending for event in sent.batch.events]
    # Recorded before it publishes: playbook.json of a project without a ledger, and what waits in the spool.
    is_first = not exists or bool(spool.read_files(project.ledger)[0])
    outgoing += [event for batch in decode(record.preview(project, log) if is_first else ()) for event in batch.events]
    return {
        "address": engine.address,
        "name": part.name,
        "book": opened.book if opened else "",
        "project": opened.name if opened else "",
        "events": batches[-1].last if batches else 0,
        "entries": None if contents.more else len(fold_history(PLAYBOOK, lambda: decode(batches)).entries),
        "outgoing": dict(Counter(KIND_OF[type(event)] for event in outgoing if type(event) in SHARED)),
        "own_entries": len((reading.current(log) if exists else commands.playbook(project).state).entries),
        "former": former.shown_address if former is not None and moves(former, part) else "",
    }


def join(project: Project, part: Membership, engine: Engine) -> syncing.SyncResult:
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
    return attrs.evolve(run(project, part, engine), unsealed=unsealed)


def _move(project: Project, before: Membership, part: Membership) -> str:
    """Copy the book to another place, and seal the former one; nothing is left to do where others did that.

    Returns:
        Why the former place could not state where the book is now; empty where it does.
    """
    place = engines.BookLocation(part.engine, part.address, part.name)
    with closing(open_engine(before, project.ledger)) as old, closing(open_engine(part, project.ledger)) as new:
        for _ in range(_MOVE_TRIES):
            # What others appended there meanwhile comes along.
            failure, result = "", None
            try:
                result = run(project, before, old)
            except engines.UnreachableError as error:
                # A team leaves a host that is gone as well.
                failure = f"{error.address}: {error.what}"
            if result is not None and result.moved is not None:
                if result.moved == place:
                    return ""
                command = membership.share_command(*result.moved)
                raise BadInputError(part.address, f"the book moved to {result.moved.address}", f"run: {command}")
            copy = SharedLog(project.ledger).copy
            copied = syncing.put_missing(copy, new, before.book, moves=True)
            if copied >= 0 and result is None:
                return failure if copied else ""
            contents = old.read(copy.end().seq)
            counted = book.count(contents.runs, copy.end(), set(), copy.rules())
            is_whole = not counted.batches and not counted.newer
            if copied >= 0 and is_whole and old.seal(contents.end, place):
                return ""
    raise _make_race_error(old)


def moves(before: Membership, part: Membership) -> bool:
    """Return whether a project that shares a book would share it somewhere else."""
    return (before.name, before.engine, before.address) != (part.name, part.engine, part.address)


def run(project: Project, part: Membership, engine: Engine, limit_s: float = 60.0) -> syncing.SyncResult:
    """Sync, and render the playbook.

    What waits in the spool is recorded before; where lines of the book are missing, once they are here.
    """
    _refuse_tracked(project)
    has_spool = bool(spool.read_files(project.ledger)[0])
    if has_spool:
        with suppress(MissingLinesError):
            record.write(project, [])
    result = syncing.sync(project, part, engine, limit_s)
    record.write(project, [])
    # What waited for lines of the book was recorded only after the first sync brought them.
    if has_spool and SharedLog(project.ledger).history.pending:
        result = syncing.sync(project, part, engine, limit_s, result)
        record.write(project, [])
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
    record.write(project, [])
    return done


def publish(project: Project, part: Membership, engine: Engine, event: str) -> tuple[str, syncing.SyncResult]:
    """Publish the text of an own event as it is, although a secret was found in it: as a new text of its entry.

    Returns:
        The entry's name, and what the sync did.

    Raises:
        BadInputError: The event is not in the own ledger, has no text or a redacted one, or was not masked.
    """
    run(project, part, engine)
    text = _find_secret_text(project, event)
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


def _find_secret_text(project: Project, event: str) -> str:
    """Return the text of an own event in which a secret was found."""
    for batch in decode(open_own_log(project).read()):
        for noted in batch.records:
            text = getattr(noted.event, "text", None)
            if text and event in {noted.id, str(noted.seq)} and "text" in FREE_FIELDS.get(type(noted.event), ()):
                if secrets.mask(text) == text:
                    raise BadInputError(f"event {event}", "its text was published as it is", "nothing is left to do")
                return str(text)
    raise BadInputError(f"event {event}" if event else "EVENT", "is not an own event with a text", _LOG_HINT)


def _make_race_error(engine: Engine) -> engines.EngineError:
    return engines.EngineError(engine.address, "another machine appended meanwhile", "run the same command again")


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
    skipped: Sequence[book.SkippedRun]
    end: int
    differs: int
    redacted: Sequence[int]
    newer: book.SkippedRun | None = None
    redactions: Sequence[replica.BookRedaction] = ()


def verify(project: Project, engine: Engine, without: str = "") -> tuple[BookCheck, engines.Contents, list[RawBatch]]:
    """Read the whole engine, at will without a run, and compare it with this machine's copy.

    Returns:
        What it holds, its contents, and the batches that count, as this machine has them.
    """
    contents = engine.read(0)
    runs = [run for run in contents.runs if run.place != without]
    counted = book.count(runs, START, set())
    copy = list(SharedLog(project.ledger).copy.read())
    pairs = list(zip(counted.batches, copy, strict=False))
    # A text that was redacted on one side is no other history: the chain covers its sum and not the text.
    differs = next(
        (own.first for own, other in pairs if join_chained_bytes(own.lines) != join_chained_bytes(other.lines)), 0
    )
    why = "is not what its runs make, which every machine reads in its place"
    false = [book.SkippedRun(f"segment {number}", "", why) for number in engine.false_segments()]
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
        redactions=replica.find_redactions(lambda: (batch.data for batch in counted.batches)),
    )
    # The batches of the copy are those without the texts that were redacted here.
    own = {batch.chain: batch for batch in copy}
    return check, contents, [own.get(batch.chain, batch) for batch in counted.batches]


def check_lines(check: BookCheck, address: str) -> list[str]:
    """Return what a check found, for people."""
    lines = [f"{address}: {check.counted} of {check.runs} runs count; {check.events} events", *map(str, check.skipped)]
    if check.newer:
        lines.append(str(syncing.newer_rules(address, check.newer)))
    same = f"has the same bytes up to event {min(check.end, check.events)}"
    differs = f"differs from event {check.differs} on; run `tallybook sync --rejoin`"
    lines.append(f"the copy here {differs if check.differs else same}")
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
    check, contents, batches = verify(project, engine)
    place = f"run {without}" if without else ""
    if place:
        if check.newer is None or check.newer.place != place:
            hint = "`tallybook share verify` names runs; without --without, those that do not count are left out"
            raise BadInputError(place, "does not change the book to rules that are unknown here", hint)
        check, contents, batches = verify(project, engine, place)
    if check.newer:
        # What newer versions appended from there on cannot be judged here, so nothing of it may be left out.
        raise syncing.newer_rules(engine.address, check.newer)
    if check.differs:
        raise syncing.OtherBookError(
            f"{engine.address}: its history differs from the one here from event {check.differs} on; nothing was "
            "changed; run `tallybook sync --rejoin` first"
        )
    if not check.skipped and not check.redacted and not contents.moved and not place:
        # An earlier repair may have been interrupted before it had erased all.
        return check, erase_former(engine)
    if engine.replace(contents.after_seal, book.cut_runs(batches, START, engine.run_bytes)) is None:
        raise _make_race_error(engine)
    # Only after the fresh runs: without them a reader would lack a piece of the chain.
    return check, erase_former(engine)


def erase_former(engine: Engine) -> str:
    """Erase the runs that fresh ones replaced; return what is left, with what to do, or nothing."""
    try:
        if engine.erase_former() and (remains := engine.store.describe_remains()):
            return f"{engine.address}: {remains}"
    except engines.ReadOnlyError as error:
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
    if book.count(contents.runs, end, set(), before).batches:
        raise _make_race_error(engine)
    batch = syncing.frame_system(end, BookRules(before + 1), part.writer, clock.utc_now())
    if engine.append(contents.end, book.cut_runs([batch], end, engine.run_bytes)) is None:
        raise _make_race_error(engine)
    run(project, part, engine)
    return before, before + 1


# ---- What a person sees of it ----


def own_end(project: Project) -> int:
    """Return the number of the last own event."""
    return open_log(project).head().seq


def examine(project: Project, part: Membership) -> dict[str, Any]:
    """Return the state of a project's part in a book; an engine that does not answer is part of it.

    Returns:
        Name and id of the book; engine, address and this machine's label; whether the engine answered, and why not;
        the numbers of the last own event, of the last event of the book that the playbook contains, and of the last
        one that the engine states, None where it does not answer; how many own batches are not in the book; what in
        the engine's settings endangers it; nothing under ``notes``; why this machine could not publish at the last
        sync; copies of the book that were set aside; and where the book is now, None where it did not move.
    """
    log = SharedLog(project.ledger)
    state: dict[str, Any] = {
        **{name: getattr(part, name) for name in ("name", "book", "engine")},
        "address": part.shown_address,
        "writer": part.writer,
        "reachable": True,
        "reason": "",
        "own_end": log.head().seq,
        "taken": log.history.frontier.seq,
        "engine_end": None,
        "pending": log.count_pending(),
        "warnings": (),
        "notes": (),
        "read_only": engines.READER if part.read_only else _read_only(project),
        "set_aside": list(_find_aside_copies(log)),
        "moved": None,
    }
    try:
        with closing(membership.open_engine(part, project.ledger)) as engine:
            state["address"] = engine.address
            # From where the last sync read, one question is enough if nothing is new.
            contents = engine.read(state["taken"], since=replica.read_current(project.ledger).read_to)
            state |= {"engine_end": contents.end.seq, "warnings": engine.store.warnings}
            state["moved"] = contents.moved and contents.moved._asdict()
    except TallybookError as error:
        state |= {"reachable": False, "reason": str(error)}
    return state


def _read_only(project: Project) -> str:
    """Return why the last sync could not publish."""
    # Results have sentences for people, so the reason is what follows the words of the error.
    problems = [text for result in sync_results.read(project)[-1:] for text in result["problems"]]
    return next((text.partition(engines.READ_ONLY)[2] for text in problems if engines.READ_ONLY in text), "")


def _find_aside_copies(log: SharedLog) -> Iterator[dict[str, Any]]:
    """Yield copies that were set aside, those that another history replaced until what they alone have came in.

    Each with its folder, whether every byte of it verifies, its last whole event, None where even that cannot be read,
    and how many events are in it alone.
    """
    copies = {name: 0 for name in replica.copy_names(log.ledger_folder) if name != log.copy.name}
    for name in copies:
        with suppress(TallybookError, OSError):
            copies[name] = log.count_missing(replica.Replica(log.ledger_folder, name))
    former = {name: missing for name, missing in copies.items() if missing}
    for name, missing in (former | dict.fromkeys(replica.aside_names(log.ledger_folder), 0)).items():
        copy, end = replica.Replica(log.ledger_folder, name), None
        with suppress(TallybookError, OSError):
            end = copy.end().seq
        yield {"folder": copy.folder, "readable": copy.is_whole(), "end": end, "missing": missing}


def status_lines(state: Mapping[str, Any]) -> list[str]:
    """Return the state for people."""
    engine = "reachable" if state["reachable"] else state["reason"]
    book_end = "" if state["engine_end"] is None else f" of {state['engine_end']}"
    lines = [f"Book {state['name']} ({state['book']}) in {state['engine']} at {state['address']}: {engine}"]
    if state["moved"]:
        command = share_command(**state["moved"], read_only=state["read_only"] == engines.READER)
        lines.append(f"The book moved to {state['moved']['address']}; run: {command}")
    lines += [
        f"This machine is {state['writer']}; its own ledger ends at event {state['own_end']}",
        f"The playbook contains the book up to event {state['taken']}{book_end}",
        f"{format_count(state['pending'], 'own batch', 'own batches')} pending",
        *([f"Read-only: {state['read_only']}"] if state["read_only"] else []),
        *(f"Warning: {warning}" for warning in state["warnings"]),
    ]
    for copy in state["set_aside"]:
        end = "" if copy["end"] is None else f", up to event {copy['end']} of its book"
        alone = f"; {_import_hint(copy['missing'], copy['folder'])}" if copy["missing"] else ""
        lines.append(f"Set aside: {copy['folder']}, {'readable' if copy['readable'] else 'damaged'}{end}{alone}")
    return lines


def _import_hint(missing: int, folder: str) -> str:
    """Return what to do about events of others that only a former copy of the book has."""
    command = f"`tallybook import --ledger {shlex.quote(folder)}`"
    return (
        f"{format_count(missing, 'event')} of others are in the former copy alone: their machines publish "
        f"them again; of a machine that never returns, {command} brings them in"
    )


def list_outgoing(project: Project, part: Membership) -> list[dict[str, Any]]:
    """Return the events that a sync would publish as they would leave, as ``{seq, id, kind, body, summary}``."""
    # As a sync lands and writes them, so that what is shown is exactly what would leave.
    publisher = book.Publisher(mask=partial(syncing.mask, part))
    rows = []
    for landed, _ in SharedLog(project.ledger).land_pending():
        for landing in landed.events:
            event = publisher.mask_event(landing.event)
            draft = encode(event)
            body = {**draft.body, **(draft.free or {})}
            about = {"seq": landing.record.seq, "id": landing.record.id, "kind": draft.kind}
            rows.append(about | {"body": body, "summary": summary(event)})
    return rows


def to_json(result: syncing.SyncResult | BookCheck) -> dict[str, Any]:
    """Return a result for programs."""
    return {name: _plain(value) for name, value in attrs.asdict(result, recurse=False).items()}


def _plain(value: Any) -> Any:
    """Return a value for JSON, a named tuple by the names of its fields."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    return list(map(_plain, value)) if isinstance(value, list | tuple) else value


def result_lines(result: syncing.SyncResult, *, read_only: bool = False) -> list[str]:
    """Return what a sync did, for people."""
    lines = []
    if result.set_aside:
        lines.append(
            f"The copy of the book was damaged or not of this machine: set aside in {result.set_aside}, fetched anew"
        )
    if result.restored:
        lines.append(f"The engine had lost its end: {format_count(result.restored, 'event')} given back")
    total = format_count(result.published + result.pending, "own batch", "own batches")
    published = "this machine publishes nothing" if read_only else f"{result.published} of {total} published"
    taken = format_count(result.taken, "event")
    return [*lines, f"Book at event {result.end[0]}: {taken} of others taken in; {published}"]


def describe_rejoin(done: Mapping[str, Any]) -> list[str]:
    """Return what taking another history did, for people."""
    lines = [f"published again: {row['summary']}" for row in done["landed"]]
    if done["kept"] != done["copy"]:
        lines.append(f"The former copy is set aside: {done['kept']}")
    if done["missing"]:
        lines.append(_import_hint(done["missing"], done["kept"]))
    if done["pending"]:
        lines.append(f"{format_count(done['pending'], 'own batch', 'own batches')} wait for entries of others")
    taken, again = format_count(done["taken"], "event"), format_count(len(done["landed"]), "event")
    return [*lines, f"Book at event {done['end'][0]}: {taken} of its history were new here; {again} published again"]


def change_lines(project: Project, before: int, after: int) -> list[str]:
    """Return what changed in the playbook between two own events in the words of `diff`, a line for each change."""
    from tallybook.projections.surfaces.history import stories

    changes = describe_renamings(project, before, after)
    for sign, text in stories.compare(project, str(before), str(after)).lines():
        if sign:
            changes.append(f"{sign} {text}")
        else:
            changes[-1] += f": {text}"
    # Which texts of this machine others redacted, as syncs between the two brought it.
    part, syncs = membership.load(project), read_syncs(open_own_log(project))
    first, last = (max((sync.taken for sync in syncs if sync.number <= end), default=0) for end in (before, after))
    if part is not None and first < last:
        changes += [
            f"! {redaction.writer} redacted your text of {redaction.name or 'an event'}: book:{redaction.seq}"
            for redaction in replica.find_redactions(SharedLog(project.ledger).copy.pieces, first)
            if redaction.of == part.writer != redaction.writer and redaction.seq <= last
        ]
    return changes


def describe_renamings(project: Project, before: int, after: int) -> list[str]:
    """Return which entries have another name in the book, as syncs between two own events brought it."""
    renamed = find_renamed(open_own_log(project), before, after)
    # An entry that was joined to another has that one's name.
    merged = SharedLog(project.ledger).playbook().merged if renamed else {}
    names = {name: merged.get(new, new) for name, new in sorted(renamed.items())}
    return [f"~ {name} is {new} in the book" for name, new in names.items() if name != new]


# ---- The machines that write to a book ----

_WRITER: Final = re.compile(rb'"%b":"([^"\\]*)"' % WRITER.encode())


def find_members(copy: replica.Replica, writer: str, engine: Engine | None) -> list[dict[str, Any]]:
    """Return the machines that published something, the one seen last first.

    Args:
        copy: This machine's copy of the book.
        writer: This machine's label.
        engine: The engine, which may know who stored each run; None to leave that out.

    Returns:
        For each machine its label; the user of the engine who stored its last run, empty where the engine does not know
        that; how many events of the book are its; when it appended the last one; how many events the book has after
        that, which may be unknown to it, 0 for this machine; and whether it is this machine.
    """
    members: dict[str, dict[str, Any]] = {}
    end = copy.end().seq
    for batch in copy.read():
        for label in find_writers(batch.lines[0]):
            new = {"writer": label, "author": "", "events": 0, "last_seen": "", "behind": 0, "is_this": label == writer}
            member = members.setdefault(label, new)
            member["events"] += batch.last - batch.first + 1
            member["last_seen"] = batch.position.at
            member["behind"] = 0 if member["is_this"] else end - batch.last
    if engine is not None and engine.store.knows_authors:
        runs = engine.read(0).runs
        # A machine publishes its own events alone; who repairs or moves a book stores those of all anew.
        stored_anew = runs[0].fresh[0] if runs and runs[0].fresh else 0
        for run in runs:
            labels = find_writers(run.data) & members.keys()
            if len(labels) == 1 and run.last > stored_anew:
                members[labels.pop()]["author"] = run.author
    return sorted(members.values(), key=lambda member: member["behind"])


def find_writers(data: bytes) -> set[str]:
    """Return the labels of the machines that wrote some lines of a book."""
    return {label.decode("utf-8", "replace") for label in _WRITER.findall(data)}


def member_lines(members: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the machines for people."""
    return [
        f"{row['writer']}{' (this machine)' if row['is_this'] else ''}: {format_count(row['events'], 'event')}, "
        f"last seen {format_time(row['last_seen'])}"
        + ("" if row["is_this"] else f", {format_count(row['behind'], 'event')} behind at most")
        # A label is what its user calls it; the engine knows who logged in.
        + (f", logged in as {row['author']}" if row["author"] else "")
        for row in members
    ]


def count_recent_writers(copy: replica.Replica) -> int:
    """Return how many machines wrote what a book has at its end."""
    # The last piece may be short.
    return len(find_writers(b"".join(deque(copy.pieces(), maxlen=2))))


_STANDARD_FILES, _MAX_FILES = 3, 1024


def sync(project: Project, part: Membership, limit_s: float) -> syncing.SyncResult:
    """Sync once and store what that changed, or why it failed.

    Raises:
        TallybookError: As ``run``; a sync that found another one at work stores nothing.
    """
    before = own_end(project)
    try:
        with closing(membership.open_engine(part, project.ledger, limit_s=limit_s)) as engine:
            result = run(project, part, engine, limit_s)
    except LockHeldError:
        # The other sync stores its own result.
        raise
    except Exception as error:
        # A fault of ours too: nobody sees the output of a detached sync.
        problem = str(error) if isinstance(error, TallybookError) else f"{type(error).__name__}: {error}"
        store(project, before, [problem], taken=0)
        raise
    store(project, before, result.problems, taken=result.taken)
    return result


def store(project: Project, before: int | None = None, problems: Sequence[str] = (), *, taken: int = 0) -> None:
    """Store what syncs changed that were killed before they could store it, and the result of another one.

    Args:
        project: The project.
        before: The own event at which that sync began, whose result a person at a terminal has read; None for none.
        problems: What was wrong.
        taken: How many events of others it took in.

    Raises:
        TallybookError: The lock or the disk refuses.
    """
    with sync_results.open_results(project) as results:
        changes: list[str] = []
        end = before or 0
        with suppress(MissingLinesError):
            for seq in _find_missed(project, results):
                if before is None or seq <= before:
                    sync_results.add(results, (seq - 1, seq), _changes(project, seq), [], shown=False)
                    continue
                # Those of this sync may have been told already, by a command that found them in the ledger.
                changes += _changes(project, seq) if taken else []
                end = seq
        if before is not None:
            is_seen = sys.stdout.isatty() and sys.stderr.isatty()
            sync_results.add(results, (before, end), changes, problems, shown=is_seen)


def _find_missed(project: Project, results: Sequence[dict[str, Any]]) -> list[int]:
    """Return the own numbers of the arrivals of which no result says what they changed."""
    found = read_syncs(open_own_log(project)) if (project.ledger / LOG_NAME).exists() else []
    told = sync_results.last_event(results)
    # Without results all were told, unless the very first sync was killed.
    return [sync.number for sync in found if sync.number > told] if told or len(found) == 1 else []


def _changes(project: Project, seq: int) -> list[str]:
    """Return what an arrival changed, a line for each change; nothing where the copy of that history was deleted.

    Raises:
        MissingLinesError: A sync brings the lines.
    """
    try:
        return change_lines(project, seq - 1, seq)
    except MissingLinesError:
        log = SharedLog(project.ledger)
        if not log.copy.has(log.history.frontier.chain):
            raise
        return []


def sync_unattended(project: Project, limit_s: float) -> int:
    """Sync as the process that a hook started: it has no terminal, and its result is stored."""
    # The agent's open files, inherited from the hook.
    os.closerange(_STANDARD_FILES, _MAX_FILES)
    part = membership.load(project)
    if part is not None:
        with suppress(Exception):
            # Nobody reads an error here, and what went wrong is stored.
            if (log := SharedLog(project.ledger)).history.pending:
                clock.wait_up_to(syncing.longest_wait(part.engine, count_recent_writers(log.copy)))
            sync(project, part, limit_s)
    return 0


def tell_new(project: Project) -> None:
    """Print what syncs changed and met that nobody has seen, a line each, on standard error, once."""
    with suppress(TallybookError, OSError):
        # A command that did its own work does not fail for what syncs have to say.
        if membership.load(project) is not None:
            store(project)
            with sync_results.new_results(project) as results:
                note(*(line for result in results for line in lines(result)))


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a result for people: a line for each change and each problem."""
    when = format_time(clock.moment(result["at"]).at)
    for what in (*result["changes"], *result["problems"]):
        yield f"sync {when}: {what}"
