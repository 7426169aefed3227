"""What a person sees of a shared book: its engine, what is pending, its members, and what syncs brought and met."""

from __future__ import annotations

from collections import deque
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
from tallybook.ledger.codec import encode
from tallybook.ledger.errors import LockHeldError, MissingLinesError, TallybookError
from tallybook.ledger.line import LOG_NAME, WRITER
from tallybook.ledger.sharing import replica
from tallybook.ledger.sharing.book import Publisher
from tallybook.ledger.sharing.engine import READ_ONLY, READER, Engine
from tallybook.ledger.sharing.replica import Replica
from tallybook.projections.history.event_rows import summary
from tallybook.projections.surfaces.console.output import format_count, format_time, note
from tallybook.projections.surfaces.history.reading import open_log, open_own_log
from tallybook.projections.surfaces.hooks import sync_results
from tallybook.projections.surfaces.sharing import membership, operations
from tallybook.projections.surfaces.sharing.membership import Membership, share_command
from tallybook.projections.surfaces.sharing.operations import BookCheck
from tallybook.projections.surfaces.sharing.shared_log import SharedLog, find_renamed, read_syncs
from tallybook.projections.surfaces.sharing.syncing import SyncResult, longest_wait, mask
from tallybook.projections.surfaces.workspace.project import Project


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
        "read_only": READER if part.read_only else _read_only(project),
        "set_aside": list(_aside_copies(log)),
        "moved": None,
    }
    try:
        with closing(membership.open_engine(part, project.ledger)) as engine:
            state["address"] = engine.address
            # From where the last sync read, one question is enough if nothing is new.
            contents = engine.read(state["taken"], since=replica.read_current(project.ledger).read_to)
            state |= {"engine_end": contents.end.seq, "warnings": engine.store.warnings}
            state["moved"] = None if contents.seal is None else contents.seal.place._asdict()
    except TallybookError as error:
        state |= {"reachable": False, "reason": str(error)}
    return state


def _read_only(project: Project) -> str:
    """Return why the last sync could not publish."""
    # Results have sentences for people, so the reason is what follows the words of the error.
    problems = [text for result in sync_results.read(project)[-1:] for text in result["problems"]]
    return next((text.partition(READ_ONLY)[2] for text in problems if READ_ONLY in text), "")


def _aside_copies(log: SharedLog) -> Iterator[dict[str, Any]]:
    """Yield copies that were set aside, those that another history replaced until what they alone have came in.

    Each with its folder, whether every byte of it verifies, its last whole event, None where even that cannot be read,
    and how many events are in it alone.
    """
    copies = {name: 0 for name in replica.copy_names(log.ledger_folder) if name != log.copy.name}
    for name in copies:
        with suppress(TallybookError, OSError):
            copies[name] = log.count_missing(Replica(log.ledger_folder, name))
    former = {name: missing for name, missing in copies.items() if missing}
    for name, missing in (former | dict.fromkeys(replica.aside_names(log.ledger_folder), 0)).items():
        copy, end = Replica(log.ledger_folder, name), None
        with suppress(TallybookError, OSError):
            end = copy.end().seq
        yield {"folder": copy.folder, "readable": copy.is_whole(), "end": end, "missing": missing}


def status_lines(state: Mapping[str, Any]) -> list[str]:
    """Return the state for people."""
    engine = "reachable" if state["reachable"] else state["reason"]
    book_end = "" if state["engine_end"] is None else f" of {state['engine_end']}"
    published = "Everything of this machine is in the book"
    if state["pending"]:
        waits = "waits" if state["pending"] == 1 else "wait"
        published = f"{format_count(state['pending'], 'own batch', 'own batches')} {waits} to be published"
    lines = [f"Book {state['name']} ({state['book']}) in {state['engine']} at {state['address']}: {engine}"]
    if state["moved"]:
        lines.append(f"The book moved to {state['moved']['address']}; run: {share_command(**state['moved'])}")
    lines += [
        f"This machine is {state['writer']}; its own ledger ends at event {state['own_end']}",
        f"The playbook contains the book up to event {state['taken']}{book_end}",
        published,
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


def outgoing(project: Project, part: Membership) -> list[dict[str, Any]]:
    """Return the events that a sync would publish as they would leave, as ``{seq, id, kind, body, summary}``."""
    # As a sync lands and writes them, so that what is shown is exactly what would leave.
    publisher = Publisher(mask=partial(mask, part))
    rows = []
    for landed, _ in SharedLog(project.ledger).landed():
        for landing in landed.events:
            event = publisher.masked(landing.event)
            draft = encode(event)
            body = {**draft.body, **(draft.free or {})}
            about = {"seq": landing.record.seq, "id": landing.record.id, "kind": draft.kind}
            rows.append(about | {"body": body, "summary": summary(event)})
    return rows


def to_json(result: SyncResult | BookCheck) -> dict[str, Any]:
    """Return a result for programs."""
    return {name: _plain(value) for name, value in attrs.asdict(result, recurse=False).items()}


def _plain(value: Any) -> Any:
    """Return a value for JSON, a named tuple by the names of its fields."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    return list(map(_plain, value)) if isinstance(value, list | tuple) else value


def result_lines(result: SyncResult, *, read_only: bool = False) -> list[str]:
    """Return what a sync did, for people."""
    lines = []
    if result.set_aside:
        lines.append(
            f"The copy of the book was damaged or not of this machine: set aside in {result.set_aside}, fetched anew"
        )
    if result.restored:
        lines.append(f"The engine had lost its end: {format_count(result.restored, 'event')} given back")
    taken = f"{format_count(result.taken, 'event')} of others taken in" if result.taken else "nothing new of others"
    published = format_count(result.published, "own batch", "own batches") + " published" if result.published else ""
    total = result.published + result.pending
    if result.pending:
        published = f"{result.published} of {format_count(total, 'own batch', 'own batches')} published, the rest waits"
    if read_only:
        published = "this machine publishes nothing"
    return [*lines, f"Book at event {result.end[0]}: {taken}; {published or 'nothing to publish'}"]


def rejoined_lines(done: Mapping[str, Any]) -> list[str]:
    """Return what taking another history did, for people."""
    lines = [
        f"The history of the book was taken: {format_count(done['taken'], 'event')} that this machine did not have",
        f"The former copy is set aside: {done['kept']}",
    ]
    lines += [f"published again: {row['summary']}" for row in done["landed"]]
    if done["missing"]:
        lines.append(_import_hint(done["missing"], done["kept"]))
    if done["pending"]:
        lines.append(f"{format_count(done['pending'], 'own batch', 'own batches')} wait for entries of others")
    again = format_count(len(done["landed"]), "event")
    return [*lines, f"Book at event {done['end'][0]}: {again} that it lacked published again"]


def change_lines(project: Project, before: int, after: int) -> list[str]:
    """Return what changed in the playbook between two own events in the words of `diff`, a line for each change."""
    from tallybook.projections.surfaces.history import stories

    changes = renaming_lines(project, before, after)
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


def renaming_lines(project: Project, before: int, after: int) -> list[str]:
    """Return which entries have another name in the book, as syncs between two own events brought it."""
    renamed = find_renamed(open_own_log(project), before, after)
    # An entry that was joined to another has that one's name.
    merged = SharedLog(project.ledger).playbook().merged if renamed else {}
    names = {name: merged.get(new, new) for name, new in sorted(renamed.items())}
    return [f"~ {name} is {new} in the book" for name, new in names.items() if name != new]


# ---- The machines that write to a book ----

_WRITER: Final = re.compile(rb'"%b":"([^"\\]*)"' % WRITER.encode())


@attrs.define
class Member:
    """A machine that published something.

    Attributes:
        writer: Its label.
        author: The user of the engine who stored its last run, as far as the engine knows; empty where it does not.
        events: How many events of the book are its.
        last_seen: When it appended the last one.
        behind: How many events the book has after that: as many may be unknown to it; 0 for this machine.
        is_this: Whether it is this machine.
    """

    writer: str
    author: str = ""
    events: int = 0
    last_seen: str = ""
    behind: int = 0
    is_this: bool = False


def find_members(copy: Replica, writer: str, engine: Engine | None) -> list[Member]:
    """Return the machines that published something, the one seen last first.

    Args:
        copy: This machine's copy of the book.
        writer: This machine's label.
        engine: The engine, which may know who stored each run; None to leave that out.
    """
    members: dict[str, Member] = {}
    end = copy.end().seq
    for batch in copy.read():
        for label in find_writers(batch.lines[0]):
            member = members.setdefault(label, Member(label, is_this=label == writer))
            member.events += batch.last - batch.first + 1
            member.last_seen, member.behind = batch.position.at, 0 if member.is_this else end - batch.last
    if engine is not None and engine.store.knows_authors:
        for run in engine.read(0).runs:
            for label in find_writers(run.data) & members.keys():
                members[label].author = run.author
    return sorted(members.values(), key=lambda member: member.behind)


def find_writers(data: bytes) -> set[str]:
    """Return the labels of the machines that wrote some lines of a book."""
    return {label.decode("utf-8", "replace") for label in _WRITER.findall(data)}


def member_lines(members: Sequence[Member]) -> list[str]:
    """Return the machines for people."""
    return [
        f"{member.writer}{' (this machine)' if member.is_this else ''}: {format_count(member.events, 'event')}, "
        f"last seen {format_time(member.last_seen)}"
        + ("" if member.is_this else f", {format_count(member.behind, 'event')} behind at most")
        # A label is what its user calls it; the engine knows who logged in.
        + (f", logged in as {member.author}" if member.author not in {"", member.writer.rpartition("-")[0]} else "")
        for member in members
    ]


def count_recent_writers(copy: Replica) -> int:
    """Return how many machines wrote what a book has at its end."""
    # The last piece may be short.
    return len(find_writers(b"".join(deque(copy.pieces(), maxlen=2))))


_STANDARD_FILES, _MAX_FILES = 3, 1024


def sync(project: Project, part: Membership, limit_s: float) -> SyncResult:
    """Sync once and store what that changed, or why it failed.

    Raises:
        TallybookError: As ``operations.run``; a sync that found another one at work stores nothing.
    """
    before = own_end(project)
    try:
        with closing(membership.open_engine(part, project.ledger, limit_s=limit_s)) as engine:
            result = operations.run(project, part, engine, limit_s)
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


def store(project: Project, before: int, problems: Sequence[str], *, taken: int) -> None:
    """Store the result of a sync that began at an own event, after what earlier ones could not store.

    A person at a terminal has read it already.
    """
    with sync_results.open_results(project) as results:
        changes: list[str] = []
        events = [sync_results.last_event(results)] * 2
        with suppress(MissingLinesError):
            missed = _find_missed(project, results)
            _add_missed(project, results, [seq for seq in missed if seq <= before])
            # Those of this sync may have been told already, by a command that found them in the ledger.
            new = [seq for seq in missed if seq > before]
            changes = [line for seq in new for line in _changes(project, seq)] if taken else []
            events = [before, max([before, *new])]
        sync_results.add(results, events, changes, problems, shown=is_seen())


def store_missed(project: Project) -> None:
    """Store what syncs changed that were killed before they could store it.

    Raises:
        TallybookError: The lock or the disk refuses, or lines of the book are missing.
    """
    with sync_results.open_results(project) as results:
        _add_missed(project, results, _find_missed(project, results))


def _add_missed(project: Project, results: list[dict[str, Any]], seqs: Sequence[int]) -> None:
    for seq in seqs:
        sync_results.add(results, (seq - 1, seq), _changes(project, seq), [], shown=False)


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


def is_seen() -> bool:
    """Return whether a person reads what this command prints."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def sync_unattended(project: Project, limit_s: float) -> int:
    """Sync as the process that a hook started: it has no terminal, and its result is stored."""
    with suppress(OSError, AttributeError):
        # Some systems cannot begin a session for another process, so the hook could not.
        os.setsid()
    # The agent's open files, inherited from the hook.
    os.closerange(_STANDARD_FILES, _MAX_FILES)
    part = membership.load(project)
    if part is not None:
        with suppress(Exception):
            # Nobody reads an error here, and what went wrong is stored.
            if (log := SharedLog(project.ledger)).history.pending:
                clock.wait_about(longest_wait(part.engine, count_recent_writers(log.copy)))
            sync(project, part, limit_s)
    return 0


def tell_new(project: Project) -> None:
    """Print what syncs changed and met that nobody has seen, a line each, on standard error, once."""
    with suppress(TallybookError, OSError):
        # A command that did its own work does not fail for what syncs have to say.
        if membership.load(project) is not None:
            store_missed(project)
            with sync_results.new_results(project) as results:
                note(*(line for result in results for line in lines(result)))


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a result for people: a line for each change and each problem."""
    when = format_time(clock.moment(result["at"]).at)
    for what in (*result["changes"], *result["problems"]):
        yield f"sync {when}: {what}"
