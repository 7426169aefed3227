"""Bringing two copies of a ledger together: repair of the project's log file, and the other copy's batches on it.

In a shared project these are pending until a sync publishes them. A batch keeps its events' ids, so the book has it
once, whether this machine publishes it or the other ledger's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import product
import os
from pathlib import Path
import shlex
from typing import Any, Final, cast

import attrs

from tallybook.ledger import clock, events, histories
from tallybook.ledger.codec import decode, encode, texts_of
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.errors import BadInputError, CannotWriteError, DamagedLedgerError
from tallybook.ledger.events import (
    KIND_OF,
    BookTaken,
    Entry,
    Event,
    EventRedacted,
    EventRepeated,
    NamesMeant,
    PointEdited,
    PointMatched,
    PointSeeded,
    RedactionLinked,
)
from tallybook.ledger.histories import Histories
from tallybook.ledger.line import LOG_NAME, START, Position, RawBatch, Stamp, batch_key, frame
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.playbook_constants import PLAYBOOK_NEUTRAL, REDACTED
from tallybook.ledger.records import Batch, EventRecord
from tallybook.ledger.sharing.book import Publisher
from tallybook.ledger.sharing.landing import (
    SHARED,
    Landed,
    LandedEvent,
    Reader,
    Sent,
    land,
    names_in,
)
from tallybook.ledger.sharing.numbers import PENDING, last_shown, own_id
from tallybook.ledger.sharing.replica import copy_names, find_ids
from tallybook.ledger.storage import disk, redacted_digests, redaction
from tallybook.ledger.storage.head import check_format
from tallybook.ledger.storage.redacted_digests import Redactions
from tallybook.projections.fold import fold, fold_history
from tallybook.projections.playbook.render import playbook_bytes, read_stamp
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.console.output import answer, format_count, note, say
from tallybook.projections.surfaces.history import checkpoints, playbook_file
from tallybook.projections.surfaces.history.reading import has_book, open_log
from tallybook.projections.surfaces.sharing import divisions
from tallybook.projections.surfaces.sharing.own_history import ids_of_session, renumber
from tallybook.projections.surfaces.sharing.shared_log import BOOK_VIEW, BookState, SharedLog, make_ground
from tallybook.projections.surfaces.workspace import git, settings
from tallybook.projections.surfaces.workspace.project import CLAUDE, PLAYBOOK_NAME, Project
from tallybook.projections.surfaces.writing import record as recording
from tallybook.projections.surfaces.writing import redact as redacting
from tallybook.projections.surfaces.writing import secrets

BY: Final = {"rater": "import"}
_REASON: Final = "redacted on another branch"
_COUNTING: Final = ("helpful", "harmful")


@attrs.frozen
class Repair:
    """A whole log for a project whose own is damaged.

    Attributes:
        data: Its bytes.
        batches: Its batches.
        seen: The damaged file, as ``repair.identify`` tells it.
        lost: The last acknowledged event that no copy has; 0 where one has it.
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
    # The own file is read once, so that its lines are counted once.
    if not source or source.startswith(_GIT) or _find_file(source) != Path(os.path.realpath(log.path)):
        _add_own(project, every)
    add_source(project, source, every)
    repair = None
    try:
        own = tuple((log.own if has_book(log) else log).read())
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
    redacted = 0 if dry_run else _redact(project, arrival.redacted, every)
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
    with suppress(FileNotFoundError), disk.hold_open(project.ledger / LOG_NAME) as fd:
        every.add_file(fd, os.fstat(fd).st_size, redaction.pending_ids(project.ledger), sealed=True)


def _land(
    project: Project, log: JsonlLog, own: Sequence[RawBatch], every: Histories, *, dry_run: bool
) -> tuple[Landing, tuple[int, int] | None]:
    """Land every history on the ledger; append what they bring unless it is a dry run."""
    if dry_run:
        return _land_on(project, log, own, every), None
    with log.transaction() as tx:
        landing = _land_on(project, log, tuple((log.own if has_book(log) else tx).read()), every)
        for batch in landing.arrival.batches:
            tx.append_framed(batch)
    batches = landing.arrival.batches
    return landing, (batches[0].first, last_shown(batches[-1])) if batches else None


def _land_on(project: Project, log: JsonlLog, own: Sequence[RawBatch], every: Histories) -> Landing:
    redactions = redacted_digests.load(project.ledger)
    here = {batch.chain for batch in own}
    paths = [[link.batch for link in every.path(chain)] for chain in every.last() if chain not in here]
    landing = Landing(log, own, redactions)
    # In a book the seeds are joined to its entries.
    doubled = Counter() if has_book(log) else _find_doubled(Landing(log, own, redactions), own, paths)
    own_counts = {(name, field): getattr(landing.entries[name], field) for name, _ in doubled for field in _COUNTING}
    landing.add_counts({place: -count for place, count in own_counts.items()})
    for path in paths:
        landing.land(path)
    landing.add_counts({place: count - doubled[place] for place, count in own_counts.items()})
    return landing


def _find_doubled(
    trial: Landing, own: Sequence[RawBatch], paths: Sequence[Sequence[RawBatch]]
) -> Counter[tuple[str, str]]:
    """Return what of the counts of seeds the ratings in other histories bring as well: name and rating → count.

    A ledger that is lost leaves its counts in ``playbook.json``, which the next ledger adopts.
    """
    seeds: Counter[tuple[str, str]] = Counter()
    # The same file adopted there lands without its counts.
    keys = {batch_key(raw.data) for path in paths for raw in path}
    for batch in decode(own):
        is_there = batch.records[0].key in keys
        for record, field in product(batch.records, _COUNTING):
            event = record.event
            if isinstance(event, PointSeeded) and not is_there:
                seeds[event.name, field] = getattr(event, field)
            elif isinstance(event, PointEdited) and record.by.rater == BY["rater"]:
                # An earlier import took off what it brought.
                seeds[event.name, field] += getattr(event, field) - getattr(event, f"{field}_before")
    before = dict(trial.entries)
    # The smaller of two counts, where it is above zero.
    seeds &= Counter(
        {(entry.name, field): getattr(entry, field) for entry, field in product(before.values(), _COUNTING)}
    )
    if not seeds:
        return seeds
    names = {name for name, _ in seeds}
    trial.add_counts({(name, field): -getattr(before[name], field) for name in names for field in _COUNTING})
    for path in paths:
        trial.land(path)
    brought: Counter[tuple[str, str]] = Counter()
    for entry, field in product(trial.entries.values(), _COUNTING):
        if entry.name in names or entry.name not in before:
            brought[entry.text, field] += getattr(entry, field)
    return seeds & Counter({(name, field): brought[before[name].text, field] for name, field in seeds})


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
            if revision := divisions.find_version(project, end):
                add_source(project, f"git:{revision}", every)
    lost = acknowledged if end not in every.links else 0
    if not every.links:
        raise error
    if end not in every.links:
        end = max(every.last(), key=lambda chain: every.links[chain].batch.last)
    if lost and not accept_loss:
        events, it = _describe_lost(every.links[end].batch.last, lost)
        what = f"{events} acknowledged, and no copy that was found has {it}"
        fix = f"give a copy that has {it}, or add --accept-loss to go on without {it}"
        raise divisions.DividedLedgerError(divisions.Division(what, fix))
    data, batches = _assemble(project, every, end)
    return Repair(data, batches, seen, lost)


def _describe_lost(kept: int, lost: int) -> tuple[str, str]:
    """Return which acknowledged events are in no copy, as the subject of a sentence, and the pronoun for them."""
    return (f"events {kept + 1} to {lost} were", "them") if kept + 1 < lost else (f"event {lost} was", "it")


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
        batches.append(_frame([EventRedacted(id_, _REASON) for id_ in missing], batches[-1].position))
        data += batches[-1].raw
    return bytes(data), tuple(batches)


def _frame(events: Iterable[Event], end: Position) -> RawBatch:
    """Return events of the import as the batch after a position."""
    at = clock.clamp_time(clock.utc_now().at, end.at)
    return frame([encode(event) for event in events], Stamp(end, at, BY, _new_id, clock.new_salt))


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


def _redact(project: Project, ids: Sequence[str], every: Histories) -> int:
    """Erase here the texts that were redacted in another history; return of how many events."""
    redacted = {id_ for link in every.links.values() for id_ in redaction.redacted_ids(link.batch)}
    # A log that was put together lacks such a text already: other events and what was set aside may have it still.
    former = [record for batch in decode(every.former) for record in batch.records if record.id in redacted]
    if not ids and not former:
        return 0
    erased: set[str] = set()
    # Also where only an interrupted first sync left a copy of a book.
    if copy_names(project.ledger):
        erased.update(redacting.redact_linked(project, ids, BY) if ids else ())
        ids = ()
    records = (record for batch in decode(open_log(project).read()) for record in batch.records)
    here = {record.id for record in records if {*texts_of(record.event).values()} - {None, "", REDACTED}}
    targets = [redacting.RedactionTarget(event=id_) for id_ in ids if id_ in here]
    former = [record for record in former if record.id not in here]
    texts = {text for record in former for text in texts_of(record.event).values() if text}
    targets += [redacting.RedactionTarget(text=text) for text in sorted(texts)]
    for target in targets:
        # An equal text goes with the first one, and one that is too short is searched for nowhere else.
        if target.event not in erased:
            with suppress(redacting.NothingToRedactError, BadInputError):
                done = redacting.redact(project, target, _REASON, BY)
                erased.update(event.id for event in done.events)
    return len(erased)


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
    if not source:
        # An unset variable: the working directory is not meant.
        raise BadInputError("--ledger", "its path is empty", _HINT)
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
        raise BadInputError(f"--ledger {source}", f"cannot be read: {disk.reason(error)}", _HINT) from error
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
        events, it = _describe_lost(done.kept or 0, done.lost)
        yield f"{events} acknowledged, and no copy has {it}; what was recorded only there is lost"
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
        proven = " that its chain proves" if done.unproven else ""
        yield f"nothing new in {source}: everything in it{proven} is here already"
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


# What one machine has done or has to do; another one neither did it nor can do it.
_OF_ONE_MACHINE: Final = {
    "playbook.injected",
    "reflection.requested",
    "reflection.started",
    "reflection.failed",
    "book.opened",
    "book.rules",
    "book.block",
    "book.taken",
    "names.meant",
    "lift.asked",
    "lift.stopped",
    "point.reviewed",
}


@attrs.frozen
class Ignored:
    """An event of the other history that has no effect here.

    Attributes:
        item: What it is, with the name that it has there.
        reason: Why it has no effect.
    """

    item: str
    reason: str


@attrs.define
class Arrival:
    """What the batches of other histories bring to a ledger.

    Attributes:
        batches: What is appended, in order.
        added: Names of the new entries.
        joined: Name there → the entry here with the same text.
        renamed: Name there → its name here, which differs.
        ratings: How many ratings count.
        known: How many batches this ledger has already.
        ignored: What has no effect.
        masked: How many texts had a secret in them.
        redacted: Ids of events whose text was redacted there.
    """

    batches: list[RawBatch] = attrs.field(factory=list)
    added: list[str] = attrs.field(factory=list)
    joined: dict[str, str] = attrs.field(factory=dict)
    renamed: dict[str, str] = attrs.field(factory=dict)
    ratings: int = 0
    known: int = 0
    ignored: list[Ignored] = attrs.field(factory=list)
    masked: int = 0
    redacted: list[str] = attrs.field(factory=list)


class Landing:
    """Lands histories one after another on a ledger, in memory."""

    def __init__(self, log: JsonlLog, own: Sequence[RawBatch], redactions: Redactions) -> None:
        """Take the ledger, its batches, and the texts that were redacted in it."""
        self.arrival = Arrival()
        self._redactions = redactions
        self._log: SharedLog | None = log if has_book(log) else None
        here = list(own)
        if self._log is None:
            state = fold_history(BOOK_VIEW, lambda: decode(own))
            keys = {batch_key(raw.data) for raw in own}
            self._ground = make_ground(state, lambda: own, has_key=keys.__contains__, is_book=False)
        else:
            here += self._log.copy.read()
            self._ground = self._log.present_ground()
        self._ids: set[str] = {own_id(id_) for raw in here for id_ in find_ids(raw.data)}
        self._end = own[-1].position if own else START
        at = clock.clamp_time(clock.utc_now().at, self._end.at)
        self._publisher = Publisher("", at, clock.new_salt, self._mask)

    def _mask(self, text: str) -> str:
        masked = secrets.mask(text)
        self.arrival.masked += masked != text
        return masked

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Return the entries of the ledger, with what has landed."""
        return self._ground.state.entries

    def add_counts(self, changes: Mapping[tuple[str, str], int]) -> None:
        """Change counts of entries, name and rating → difference, in a batch of their own."""
        edits = []
        for name in dict.fromkeys(name for (name, _), change in changes.items() if change and name in self.entries):
            entry = self.entries[name]
            seen: dict[str, Any] = {f"{field}_before": getattr(entry, field) for field in _COUNTING}
            counts = [getattr(entry, field) + changes.get((name, field), 0) for field in _COUNTING]
            edits.append(PointEdited(name, counts[0], counts[1], change="kept", text=entry.text, **seen))
        if edits:
            raw = _frame(edits, self._end)
            self._end = raw.position
            self._ground.landed.append(raw)
            self.arrival.batches.append(raw)
            fold(BOOK_VIEW, decode([raw]), cast("BookState", self._ground.state))

    def land(self, history: Sequence[RawBatch]) -> None:
        """Land every batch of a history, given from its first line on, that is not here yet.

        Raises:
            BadInputError: It contains more of a book than this machine has.
        """
        for landed, raw in land(self._new_batches(history), self._ground, self._frame):
            self._report(landed)
            if raw is not None:
                made = {
                    getattr(event.event, "name", "") for event in landed.events if _makes(landed.sent, event.record)
                }
                entries = self._ground.state.entries
                self.arrival.added += [name for name in entries if name in made]

    def _new_batches(self, history: Sequence[RawBatch]) -> Iterator[Sent]:
        """Yield the batches that are not here yet, without texts that were redacted here."""
        reader = Reader(
            lambda session, seq: list(ids_of_session(decode(raw for raw in history if raw.last < seq), session))
        )
        for batch in decode(history):
            self._check_frontier(batch)
            sent = reader.read(batch)
            self.arrival.redacted += [event.id for event in batch.events if isinstance(event, events.EventRedacted)]
            if not self._ids.isdisjoint(sent.ids):
                self.arrival.known += 1
                continue
            self._ids.update(sent.ids)
            records = [event for record in sent.records for event in self._without_redacted(record)]
            if records:
                first = sent.records[0]
                # The first line has the key of all of them.
                records[0] = attrs.evolve(records[0], key=first.key, payload=first.payload)
                yield attrs.evolve(sent, records=tuple(records))

    def _check_frontier(self, batch: Batch) -> None:
        for event in batch.events:
            if isinstance(event, BookTaken) and self._log is not None:
                frontier = self._log.history.frontier.seq
                if event.seq > frontier or (event.chain and not self._log.copy.has(event.chain)):
                    why = "that ledger has taken in events of a book that are not here"
                    hint = "run `tallybook sync` here and try again; nothing was recorded"
                    raise BadInputError("--ledger", why, hint)

    def _without_redacted(self, record: EventRecord) -> Iterator[EventRecord]:
        """Yield an event unless it brings back a text that was redacted here; in a book it lands without the text."""
        event: Any = record.event
        text = getattr(event, "text", None) if isinstance(event, events.TEXT_GIVERS) else None
        why = self._redactions.refusal(text) if text else None
        if text is None or why is None:
            yield record
            return
        self.arrival.ignored.append(Ignored(item_of(event), why))
        if self._log is not None:
            former = self._redactions.former(text)
            if former in self._ids:
                yield attrs.evolve(record, id=_new_id(), event=RedactionLinked((former, record.id)))
            yield attrs.evolve(record, event=attrs.evolve(event, text=REDACTED))

    def _frame(self, landed: Landed) -> RawBatch | None:
        """Return a landed batch as the own ledger gets it, with what a book does not share."""
        by_record: dict[str, list[LandedEvent]] = {}
        for event in landed.events:
            by_record.setdefault(event.record.id, []).append(event)
        changes: list[LandedEvent] = []
        for record in landed.sent.records:
            changes += by_record.get(record.id, ())
            kept = None if type(record.event) in SHARED else self._unshared(record.event, landed)
            if kept is not None:
                changes.append(LandedEvent(record, kept))
        if not changes:
            return None
        if self._log is not None:
            made = {change.record.id for change in changes}
            ids = {name: self._ground.ids.get(name) for change in changes for name in names_in(change.event)}
            meant = {name: id_ for name, id_ in ids.items() if id_ is not None and id_ not in made}
            if meant:
                line = NamesMeant(tuple(meant), tuple(meant.values()))
                changes.append(LandedEvent(attrs.evolve(landed.sent.records[0], id=_new_id()), line))
        raw = self._publisher.frame(attrs.evolve(landed, events=tuple(changes)), self._end)
        self._end = raw.position
        self.arrival.batches.append(raw)
        # It lands after the book and what is pending, whose numbers are higher than those of the own ledger.
        return raw if self._log is None else renumber(raw, range(PENDING + raw.first, PENDING + raw.last + 1))

    def _unshared(self, event: Event, landed: Landed) -> Event | None:
        """Return an event that changes no playbook, such as a note or a measurement, as it is recorded here.

        Returns:
            None where it is of the other machine alone, or about an entry that is not here.
        """
        kind = KIND_OF.get(type(event))
        if kind not in PLAYBOOK_NEUTRAL or kind in _OF_ONE_MACHINE:
            return None
        if not isinstance(event, events.PointNoted | events.PointCited | events.PointProposed):
            return event
        made: list[tuple[EventRecord, Any]] = [(event.record, event.event) for event in landed.events]
        fresh = {old: new.name for one, new in made if (old := _makes(landed.sent, one)) is not None}

        def present(name: str) -> str | None:
            id_ = landed.sent.means.get(name)
            return fresh.get(name) or (self._ground.names.get(id_) if id_ else None)

        name = present(event.name)
        if name is None:
            return None
        changes: dict[str, Any] = {"name": name}
        if isinstance(event, events.PointProposed):
            merged = tuple(present(name) for name in event.merged)
            if None in merged:
                return None
            changes["merged"] = merged
        for field, text in texts_of(event).items():
            if text and self._redactions.refusal(text) is not None:
                changes[field] = ""
        return event.evolve(**changes)

    def _report(self, landed: Landed) -> None:
        """Count the ratings of a landed batch, and note what has no effect."""
        as_landed: dict[str, Any] = {event.record.id: event.event for event in landed.events}
        matched = {event.name: event.to for event in as_landed.values() if isinstance(event, PointMatched)}
        records: list[tuple[str, Any]] = [(record.id, record.event) for record in landed.sent.records]
        joined = {
            event.name: as_landed[id_].to for id_, event in records if isinstance(as_landed.get(id_), PointMatched)
        }
        self.arrival.joined |= joined
        self.arrival.renamed |= {old: new for old, new in landed.renamed.items() if old not in joined}
        state = self._ground.state
        for id_, given in records:
            if type(given) in SHARED and not isinstance(given, events.PointRated) and id_ not in as_landed:
                self.arrival.ignored.append(Ignored(item_of(given), "the entry that it changes is not here"))
            if isinstance(given, events.PointRated) and given.rating in _COUNTING:
                event = as_landed.get(id_)
                name = "" if event is None or isinstance(event, EventRepeated) else event.name
                name = matched.get(name, state.merged.get(name, name))
                if name in state.entries:
                    self.arrival.ratings += 1
                    continue
                reason = f"{name} is not in the playbook any more; `tallybook restore {name}` brings it back"
                if event is None:
                    reason = "the entry that it rates is not here"
                elif isinstance(event, EventRepeated):
                    reason = f"its delivery {landed.sent.records[0].key} is recorded here already"
                self.arrival.ignored.append(Ignored(item_of(given), reason))


def _makes(sent: Sent, record: EventRecord) -> str | None:
    event: Any = record.event
    return event.name if sent.makes(record) else None


def _new_id() -> str:
    return clock.new_id(clock.utc_now().unix_us)


def item_of(event: Any) -> str:
    """Return an event and the name in it in a few words."""
    kind = KIND_OF.get(type(event), "event")
    rating = f" {event.rating}" if isinstance(event, events.PointRated) else ""
    return f"{kind} {getattr(event, 'name', '')}{rating}".rstrip()
