"""Bringing two copies of a ledger together: repair of the project's log file, and the other copy's batches on it."""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress
import os
from pathlib import Path
import shlex
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger import clock, histories
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.errors import BadInputError, CannotWriteError, DamagedLedgerError
from tallybook.ledger.events import EventRedacted
from tallybook.ledger.histories import Histories
from tallybook.ledger.line import LOG_NAME, Stamp, frame
from tallybook.ledger.storage import disk, redacted_digests, redaction
from tallybook.ledger.storage.head import check_format
from tallybook.projections.fold import fold_history
from tallybook.projections.playbook.render import playbook_bytes, read_stamp
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.console.output import answer, format_count, note, say
from tallybook.projections.surfaces.histories import recognition
from tallybook.projections.surfaces.histories.arrival import Arrival, Landing
from tallybook.projections.surfaces.history import checkpoints, playbook_file
from tallybook.projections.surfaces.history.reading import log_with_book, open_log
from tallybook.projections.surfaces.workspace import git, settings
from tallybook.projections.surfaces.workspace.project import CLAUDE, PLAYBOOK_NAME
from tallybook.projections.surfaces.writing import record as recording
from tallybook.projections.surfaces.writing import redact as redacting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.log import JsonlLog
    from tallybook.projections.surfaces.workspace.project import Project


BY: Final = {"rater": "import"}
_REASON: Final = "redacted on another branch"


@attrs.frozen
class Repair:
    """A whole log for a project whose own is damaged.

    Attributes:
        data: Its bytes.
        batches: Its batches.
        seen: The damaged file, as ``repair.identify`` tells it.
        lost: The acknowledged event that no copy has; 0 where one has it.
    """

    data: bytes
    batches: tuple[RawBatch, ...]
    seen: tuple[int, int, int] | None
    lost: int


@attrs.frozen
class ImportedLedger:
    """The result of bringing a ledger together with another.

    Attributes:
        arrival: What the other histories brought.
        events: First and last number of the events that were appended; None where none were.
        unproven: How many lines of both were left out, because no chain proves them.
        kept: Up to which event the project's own log was put together again; None where it was whole.
        aside: What was set aside: the damaged log, a ``playbook.json`` of another history.
        lost: As in `Repair`.
        redacted: How many texts were erased here, because they were redacted there.
        tracked: The log file, where it was put together again and git tracks it; None elsewhere.
    """

    arrival: Arrival
    events: tuple[int, int] | None
    unproven: int
    kept: int | None = None
    aside: tuple[str, ...] = ()
    lost: int = 0
    redacted: int = 0
    tracked: Path | None = None


def import_ledger(project: Project, source: str, *, dry_run: bool, accept_loss: bool) -> ImportedLedger:
    """Land the batches of another ledger on the project's own, which is put together again where it is damaged.

    Args:
        project: The project.
        source: A file of events, a folder with one, or ``git:REV``.
        dry_run: Whether to record nothing and only say what would be recorded.
        accept_loss: Whether to go on where acknowledged events are in no copy.

    Raises:
        BadInputError: The source is no ledger, or has more of a book than this machine.
        DamagedLedgerError: The project's own ledger is damaged, and no copy has what it lacks.
        TallybookError: The ledger could not be written.
    """
    log = open_log(project)
    seen = histories.identify_log(project.ledger)
    every = Histories()
    _add_own(project, every)
    add_source(project, source, every)
    repair = None
    try:
        own = tuple((log.own if log_with_book(log) else log).read())
    except DamagedLedgerError as error:
        repair = _plan_repair(project, every, seen, error, accept_loss=accept_loss)
        own = repair.batches
    aside: list[str] = []
    if not dry_run:
        if repair is not None:
            aside += _repair(project, repair, every)
        # The spool and a manual edit are events before those of the other ledger.
        recording.write(project, [], begin=True)
        own = ()
    with closing(open_log(project)) as log:
        landing, events = _land(project, log, own, every, dry_run=dry_run)
    arrival = landing.arrival
    redacted = 0 if dry_run else _redact(project, arrival.redacted, shared=log_with_book(log))
    if not dry_run:
        recording.write(project, [])
    return ImportedLedger(
        arrival,
        events,
        every.unproven,
        None if repair is None else repair.batches[-1].last,
        tuple(aside),
        0 if repair is None else repair.lost,
        redacted,
        log.path if repair is not None and git.is_tracked(project, log.path) else None,
    )


def _add_own(project: Project, every: Histories) -> None:
    with suppress(FileNotFoundError):
        fd = disk.open_file(project.ledger / LOG_NAME, write=False)
        try:
            every.add_file(fd, os.fstat(fd).st_size, redaction.pending_ids(project.ledger), sealed=True)
        finally:
            os.close(fd)


def _land(
    project: Project, log: JsonlLog, own: Sequence[RawBatch], every: Histories, *, dry_run: bool
) -> tuple[Landing, tuple[int, int] | None]:
    """Land every history on the ledger; append what they bring unless it is a dry run."""
    if dry_run:
        return _land_on(project, log, own, every), None
    with log.transaction() as tx:
        landing = _land_on(project, log, tuple((log.own if log_with_book(log) else tx).read()), every)
        for batch in landing.arrival.batches:
            tx.append_framed(batch)
    batches = landing.arrival.batches
    return landing, (batches[0].first, batches[-1].last) if batches else None


def _land_on(project: Project, log: JsonlLog, own: Sequence[RawBatch], every: Histories) -> Landing:
    redactions = redacted_digests.load(project.ledger)
    landing = Landing(log, own, redactions)
    here = {batch.chain for batch in own}
    for chain in every.last():
        if chain not in here:
            landing.land([link.batch for link in every.path(chain)])
    return landing


# ---- The project's own log ----


def _plan_repair(
    project: Project,
    every: Histories,
    seen: tuple[int, int, int] | None,
    error: DamagedLedgerError,
    *,
    accept_loss: bool,
) -> Repair:
    """Return a whole log made of what is proven: up to the acknowledged end, if that is anywhere.

    Raises:
        DamagedLedgerError: Acknowledged events are in no copy, and that is not accepted.
    """
    head = open_log(project).read_head()
    end = "" if head is None else head.position.chain
    acknowledged = 0 if head is None else head.position.seq
    if acknowledged and end not in every.links:
        with suppress(*git.FAILURES):
            if revision := recognition.find_version(project, end):
                add_source(project, f"git:{revision}", every)
    lost = acknowledged if end not in every.links else 0
    if not every.links:
        raise error
    if lost and not accept_loss:
        what = f"event {lost} was acknowledged, and no copy that was found has it"
        fix = "give a copy that has it, or add --accept-loss to go on without it"
        raise recognition.DividedLedgerError(recognition.Division(what, fix))
    if end not in every.links:
        end = max(every.last(), key=lambda chain: every.links[chain].batch.last)
    data, batches = _assemble(project, every, end)
    return Repair(data, batches, seen, lost)


def _assemble(project: Project, every: Histories, end: str) -> tuple[bytes, tuple[RawBatch, ...]]:
    """Return the log that has the history up to a chain value, and its batches.

    Raises:
        DamagedLedgerError: A text in it is missing without a redaction.
    """
    data = bytearray()
    batches: list[RawBatch] = []
    for link, piece in histories.write_history(every.path(end)):
        batches.append(link.batch._replace(offset=len(data) + len(link.sealed)))
        data += piece
    redacted = {id_ for batch in batches for id_ in redaction.redacted_ids(batch)}
    redacted |= {*redaction.pending_ids(project.ledger)}
    elsewhere = {id_ for link in every.links.values() for id_ in redaction.redacted_ids(link.batch)}
    erased = [one for batch in batches for one in redaction.find_erased(batch) if one[1] not in redacted]
    if problems := redaction.find_unexplained(erased, elsewhere, LOG_NAME):
        raise DamagedLedgerError(problems)
    if missing := dict.fromkeys(id_ for _, id_ in erased):
        # The redaction is an event of another history; without one here, the text would count as damaged.
        now, last = clock.utc_now(), batches[-1].position
        drafts = [encode(EventRedacted(id_, _REASON)) for id_ in missing]
        at = clock.clamp_time(now.at, last.at)
        batches.append(frame(drafts, Stamp(last, at, BY, lambda: clock.new_id(now.unix_us), clock.new_salt)))
        data += batches[-1].raw
    return bytes(data), tuple(batches)


def _repair(project: Project, repair: Repair, every: Histories) -> list[str]:
    """Put the whole log in place of the damaged one; return what was set aside."""
    at = clock.utc_now().at
    checkpoints.clear(project.ledger)
    aside = histories.replace_log(project.ledger, repair.data, repair.batches[-1].position, at, repair.seen)
    checkpoints.clear(project.ledger)
    kept = [] if aside is None else [str(aside)]
    if (foreign := _set_foreign_playbook_aside(project, repair, every, at)) is not None:
        kept.append(str(foreign))
    return kept


def _set_foreign_playbook_aside(project: Project, repair: Repair, every: Histories, at: str) -> Path | None:
    """Take away a ``playbook.json`` that shows another history: it would pass for a manual edit of this one.

    Returns:
        Its new name; None where nothing had to be kept, because it is exactly what its history says.
    """
    data = playbook_file.read_bytes(project.playbook)
    stamp = None if data is None else _stamp_of(data)
    if data is None or stamp is None or any(stamp == (batch.last, batch.chain) for batch in repair.batches):
        return None
    if stamp[1] in every.links:
        batches = [link.batch for link in every.path(stamp[1])]
        state = fold_history(PLAYBOOK, lambda: decode(batches))
        if data in {playbook_bytes(state, form) for form in settings.FORMATS}:
            project.playbook.unlink()
            return None
    aside = playbook_file.set_aside(project, at)
    project.playbook.unlink(missing_ok=True)
    return aside


def _stamp_of(data: bytes) -> tuple[int, str] | None:
    """Return the moment that a ``playbook.json`` says it shows; None where it says none, or is no playbook."""
    try:
        return read_stamp(read_legacy(data, PLAYBOOK_NAME).stamp)
    except BadInputError:
        return None


def _redact(project: Project, ids: Sequence[str], *, shared: bool) -> int:
    """Erase here the texts that were redacted in another history; return how many."""
    if shared:
        return len(redacting.redact_linked(project, ids, BY)) if ids else 0
    for id_ in ids:
        redacting.redact(project, redacting.RedactionTarget(event=id_), _REASON, BY)
    return len(ids)


# ---- The other ledger ----

_GIT: Final = "git:"
_PLACES: Final = ("", "ledger", f"{CLAUDE}/ledger")
_HINT: Final = "give a file of events, a ledger's or a project's folder, or git:REV; nothing was recorded"


def add_source(project: Project, source: str, histories: Histories) -> None:
    """Add every history in a ledger.

    Args:
        project: The project, in whose repository a revision is looked up.
        source: What a person typed: a file, a folder, or ``git:REV``.
        histories: Gets them.

    Raises:
        BadInputError: There is no such ledger.
        NewerLedgerError: Its format is from the future.
    """
    with _open(project, source) as copy:
        if not histories.add_file(copy.fd, copy.size, copy.pending_ids, sealed=True):
            raise BadInputError(f"--ledger {source}", "has no event that its chain proves", _HINT)


@contextmanager
def _open(project: Project, source: str) -> Iterator[git.Copy]:
    if source.startswith(_GIT):
        with _open_revision(project, source) as copy:
            yield copy
        return
    path = _find_file(source)
    try:
        fd = disk.open_file(path, write=False)
    except (CannotWriteError, OSError) as error:
        why = error.reason if isinstance(error, CannotWriteError) else disk.reason(error)
        raise BadInputError(f"--ledger {source}", f"cannot be read: {why}", _HINT) from error
    try:
        check_format(fd, path)
        yield git.Copy(fd, os.fstat(fd).st_size, redaction.pending_ids(path.parent))
    finally:
        os.close(fd)


@contextmanager
def _open_revision(project: Project, source: str) -> Iterator[git.Copy]:
    try:
        commit = git.commit_of(project.root, source.removeprefix(_GIT))
    except git.FAILURES as error:
        raise BadInputError(f"--ledger {source}", git.no_commit(error), _HINT) from error
    try:
        with git.ledger_in(commit, project) as copy:
            if copy is None:
                raise BadInputError(f"--ledger {source}", f"commit {commit.name} has no ledger in its place", _HINT)
            yield copy
    except git.FAILURES as error:
        raise BadInputError(f"--ledger {source}", git.failure_reason(error), _HINT) from error


def _find_file(source: str) -> Path:
    """Return the file of events that a person means, without links on the way."""
    given = Path(os.path.realpath(source))
    if given.is_dir():
        for place in _PLACES:
            if (given / place / LOG_NAME).is_file():
                return Path(os.path.realpath(given / place / LOG_NAME))
        raise BadInputError(f"--ledger {source}", "is a folder without a ledger", _HINT)
    return given


# ---- The answer ----

# A terminal shows so many of them; JSON has all.
_MAX_IGNORED = 8


def print_imported(done: ImportedLedger, source: str, *, as_json: bool, dry_run: bool, **_: bool) -> None:
    """Print the result of an import of a ledger.

    Args:
        done: The result.
        source: What was imported, as a person typed it.
        as_json: Whether to print JSON.
        dry_run: Whether nothing was recorded.
    """
    note(*_notes(done))
    if not as_json:
        say(*_lines(done, source, dry_run=dry_run))
        return
    arrival = done.arrival
    first, last = done.events or (None, None)
    answer({
        "seq_from": first,
        "seq_to": last,
        "added": arrival.added,
        "joined": arrival.joined,
        "renamed": arrival.renamed,
        "ratings": arrival.ratings,
        "batches": len(arrival.batches),
        "known": arrival.known,
        "ignored": list(map(attrs.asdict, arrival.ignored)),
        "masked": arrival.masked,
        "redacted": done.redacted,
        "unproven": done.unproven,
        "repaired": done.kept,
        "aside": list(done.aside),
        "lost": done.lost,
        "dry_run": dry_run,
    })  # fmt: skip


def _notes(done: ImportedLedger) -> Iterator[str]:
    if done.lost:
        yield f"event {done.lost} was acknowledged and is in no copy; what only it had is lost"
    if done.unproven:
        yield f"{format_count(done.unproven, 'line')} left out: no chain from a first line proves them"
    if done.arrival.masked:
        yield f"{format_count(done.arrival.masked, 'text')} looked like a secret and was masked"
    if done.tracked is not None:
        command = f"git add --force {shlex.quote(str(done.tracked))}"
        yield f"git tracks {done.tracked}; `{command}` and a commit keep this version"


def _lines(done: ImportedLedger, source: str, *, dry_run: bool) -> Iterator[str]:
    arrival = done.arrival
    if done.kept is not None:
        yield f"events.jsonl {'would be' if dry_run else 'is'} whole up to event {done.kept}, as it was acknowledged"
    yield from (f"set aside: {path}" for path in done.aside)
    entries = format_count(len(arrival.added), "entry", "entries")
    brings = f"{format_count(arrival.ratings, 'rating')} and {entries}"
    if not arrival.batches:
        yield f"nothing new in {source}: {format_count(arrival.known, 'batch', 'batches')} of it are here already"
    elif dry_run:
        yield f"{source} would bring {brings}; nothing was recorded"
    elif done.events is not None:
        yield f"{brings} from {source}, recorded as events {done.events[0]} to {done.events[1]}"
    if arrival.added:
        yield f"added {', '.join(arrival.added)}"
    yield from (f"{old} there is {new} here, with the same text" for old, new in arrival.joined.items())
    yield from (f"{old} there is {new} here" for old, new in arrival.renamed.items())
    if done.redacted:
        yield f"{format_count(done.redacted, 'text')} erased, as in the other ledger"
    yield from (f"ignored {part.item}: {part.reason}" for part in arrival.ignored[:_MAX_IGNORED])
    if len(arrival.ignored) > _MAX_IGNORED:
        yield f"and {len(arrival.ignored) - _MAX_IGNORED:,} more; --json lists them all"
