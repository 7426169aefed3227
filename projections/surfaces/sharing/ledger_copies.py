"""Copies of a ledger: find what git did to the log file, replace it by a whole log, add another copy's batches.

In a shared project the added batches are pending until a sync publishes them. A batch keeps the ids of its events, so
the book has it once, even if the machine of the other ledger publishes it as well.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import islice, product
import os
from pathlib import Path
import shlex
from typing import Any, Final, cast

import attrs

from tallybook.ledger import clock, errors, events, histories
from tallybook.ledger.codec import decode, encode, texts_of
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.histories import Histories
from tallybook.ledger.line import CHAIN_END, CHAIN_MARK, LOG_NAME, START, Position, RawBatch, Stamp, batch_key, frame
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.playbook_constants import PLAYBOOK_NEUTRAL, REDACTED
from tallybook.ledger.records import Batch, EventRecord
from tallybook.ledger.search import find_all
from tallybook.ledger.sharing import landing
from tallybook.ledger.sharing.book import Publisher
from tallybook.ledger.sharing.numbers import PENDING, last_shown, own_id
from tallybook.ledger.sharing.replica import find_ids
from tallybook.ledger.storage import disk, redacted_digests, redaction
from tallybook.ledger.storage.head import check_format
from tallybook.projections.playbook.fold import fold, fold_history
from tallybook.projections.playbook.render import read_stamp
from tallybook.projections.surfaces.console.output import format_count, note, reply
from tallybook.projections.surfaces.history import checkpoints, playbook_file, shared_log
from tallybook.projections.surfaces.history.reading import has_book, open_log, open_own_log
from tallybook.projections.surfaces.workspace import git
from tallybook.projections.surfaces.workspace.project import CLAUDE, PLAYBOOK_NAME, Project
from tallybook.projections.surfaces.writing import record as recording
from tallybook.projections.surfaces.writing import redact as redacting
from tallybook.projections.surfaces.writing import secrets

BY: Final = {"rater": "import"}
"""Who records what an imported ledger brings."""
REASON: Final = "redacted on another branch"
# Versions of the file that are searched for an event.
_MAX_VERSIONS = 100


def explain(project: Project, error: errors.DamagedLedgerError) -> errors.DamagedLedgerError:
    """Return the error that names the command which repairs the log file; the given one where git has no version."""
    if not error.fix and git.is_tracked(project.ledger / LOG_NAME):
        try:
            # The damage can be elsewhere, as in a person's own playbook.
            deque(open_own_log(project).read(), maxlen=0)
        except errors.DamagedLedgerError as own:
            return errors.DamagedLedgerError(own.problems[:1], repair_hint(project))
    return error


def repair_hint(project: Project) -> str:
    """Return how to go on with a ledger that is damaged, or that git merged or replaced."""
    # As a person in the current folder would type it.
    path = os.path.realpath(project.ledger / LOG_NAME)
    near = os.path.relpath(path)
    command = f"`tallybook import --ledger {shlex.quote(path if near.startswith(os.pardir) else near)}`"
    if git.is_tracked(project.ledger / LOG_NAME):
        return f"run {command}, which keeps every rating that it and git have"
    copy = "run `tallybook import --ledger BACKUP` to repair it from a copy"
    return f"{copy}; without a copy, {command} says what is lost"


def add_own(project: Project, every: Histories) -> None:
    """Add every history in the project's own log file, if there is one."""
    with suppress(FileNotFoundError), disk.hold_open(project.ledger / LOG_NAME) as fd:
        every.add_file(fd, os.fstat(fd).st_size, redaction.read_pending_ids(project.ledger))


def add_versions(project: Project, needles: set[bytes], every: Histories) -> None:
    """Add every history in versions of the log that git has, until each of these bytes is in a batch that is proven.

    Raises:
        OSError, GitFailedError: Git fails.
    """
    for blob in islice(git.versions(project), _MAX_VERSIONS):
        # A partial clone lacks some of them.
        with suppress(errors.NewerLedgerError, *git.FAILURES), git.ledger_of(blob, project) as copy:
            if next(find_all(copy.fd, needles, 0, copy.size), None) is not None:
                every.add_file(copy.fd, copy.size, copy.pending_ids)
                batches = [link.batch.raw for link in every.links.values()]
                needles = {needle for needle in needles if not any(needle in raw for raw in batches)}
        if not needles:
            return


# ---- A whole log in its place ----


def plan_repair(
    project: Project, every: Histories, error: errors.DamagedLedgerError, *, accept_loss: bool
) -> tuple[list[RawBatch], bytes, int]:
    """Return a whole log made of what is proven: up to the acknowledged end, if that is anywhere.

    Returns:
        Its batches, its bytes, and the last acknowledged event that no copy has; 0 where one has it.

    Raises:
        DamagedLedgerError: Acknowledged events are in no copy, and that is not accepted.
    """
    head = open_log(project).read_head()
    lost, end = (0, "") if head is None else head.position[:2]
    needles = {CHAIN_MARK + end.encode() + CHAIN_END} if lost and end not in every.links else set[bytes]()
    # Lines before these are missing here, and git may have them.
    needles.update(every.list_strays()[:1], every.list_strays()[-1:])
    if needles:
        with suppress(*git.FAILURES):
            add_versions(project, needles, every)
        # Now more of it may be proven.
        add_own(project, every)
    if not every.links:
        hint = f"give a copy; without one, move {project.ledger} away: the next command begins one from playbook.json"
        raise errors.DamagedLedgerError(error.problems[:1], hint) from error
    if end in every.links:
        return *_assemble(project, every, end), 0
    end = max(every.find_ends(), key=lambda chain: every.links[chain].batch.last)
    if lost and not accept_loss:
        events = f"events {min(every.links[end].batch.last + 1, lost)} to {lost}"
        what = errors.Problem(LOG_NAME, f"{events} were acknowledged, and no copy that was found has them")
        fix = "give a copy that has them, or add --accept-loss to go on without them"
        raise errors.DamagedLedgerError([what], fix)
    return *_assemble(project, every, end), lost


def _assemble(project: Project, every: Histories, end: str) -> tuple[list[RawBatch], bytes]:
    """Return the batches of the history up to a chain value, and the log that has it.

    Raises:
        DamagedLedgerError: A text in it is missing without a redaction.
    """
    data = bytearray()
    batches: list[RawBatch] = []
    for link, piece in histories.write_history(every.trace_path(end)):
        batches.append(link.batch._replace(offset=len(data) + len(link.sealed)))
        data += piece
    redacted = {id_ for batch in batches for id_ in redaction.read_redacted_ids(batch)}
    redacted |= {*redaction.read_pending_ids(project.ledger)}
    elsewhere = {id_ for link in every.links.values() for id_ in redaction.read_redacted_ids(link.batch)}
    erased = [(seq, id_) for batch in batches for seq, id_ in redaction.find_erased(batch) if id_ not in redacted]
    if problems := redaction.find_unexplained(erased, elsewhere):
        raise errors.DamagedLedgerError(problems[:1], "give another copy")
    if missing := dict.fromkeys(id_ for _, id_ in erased):
        # The redaction is an event of another history; without one here, the text would count as damaged.
        batches.append(frame_import([events.EventRedacted(id_, REASON) for id_ in missing], batches[-1].position))
        data += batches[-1].raw
    return batches, bytes(data)


def frame_import(events: Iterable[events.Event], end: Position) -> RawBatch:
    """Return events of the import as the batch after a position."""
    at = clock.clamp_time(clock.utc_now().at, end.at)
    return frame([encode(event) for event in events], Stamp(end, at, BY, new_id, clock.new_salt))


def put_back(
    project: Project, batches: Sequence[RawBatch], data: bytes, seen: tuple[int, int, int] | None
) -> list[str]:
    """Put a whole log in place of the damaged one, which ``identify_log`` saw; return what was set aside."""
    at = clock.utc_now().at
    checkpoints.clear(project.ledger)
    aside = histories.replace_log(project.ledger, data, batches[-1].position, at, seen)
    checkpoints.clear(project.ledger)
    paths = [] if aside is None else [aside]
    with suppress(errors.BadInputError):
        stamp = read_stamp(read_legacy(playbook_file.read_bytes(project.playbook) or b"", PLAYBOOK_NAME).stamp)
        # A file that shows another history would pass for a manual edit of this one.
        if stamp is not None and stamp not in {(batch.last, batch.chain) for batch in batches}:
            paths.append(playbook_file.set_aside(project, at))
            project.playbook.unlink(missing_ok=True)
    return list(map(str, paths))


def new_id() -> str:
    """Return a new id of an event."""
    return clock.new_id(clock.utc_now().unix_us)


# ---- Two copies brought together ----

_COUNTING: Final = ("helpful", "harmful")


@attrs.define
class ImportedLedger:
    """What bringing a ledger together with another did: what other histories brought, and what became of its own.

    Attributes:
        added: Names of the new entries.
        joined: Name there → the entry here with the same text.
        renamed: Name there → its name here, which differs.
        ratings: How many ratings count.
        batches: What is appended, in order.
        known: How many batches this ledger has already.
        ignored: What has no effect, with the name that it has there, and why.
        masked: How many texts had a secret in them.
        redacted: How many texts were erased here, because they were redacted there.
        unproven: How many lines of both were left out, because no chain proves them.
        repaired: Up to which event the project's own log was put together again; None where it was whole.
        aside: What was set aside: the damaged log, a ``playbook.json`` of another history.
        lost: The last acknowledged event that no copy has; 0 where one has it.
        undos: How many events undo others.
        tracked: The log file, where it was put together again and git tracks it; None elsewhere.
    """

    added: list[str] = attrs.field(factory=list)
    joined: dict[str, str] = attrs.field(factory=dict)
    renamed: dict[str, str] = attrs.field(factory=dict)
    ratings: int = 0
    batches: list[RawBatch] = attrs.field(factory=list)
    known: int = 0
    ignored: list[dict[str, str]] = attrs.field(factory=list)
    masked: int = 0
    redacted: int = 0
    unproven: int = 0
    repaired: int | None = None
    aside: list[str] = attrs.field(factory=list)
    lost: int = 0
    undos: int = 0
    tracked: Path | None = None

    def ignore(self, event: Any, reason: str) -> None:
        """Note an event that has no effect here."""
        rating = f" {event.rating}" if isinstance(event, events.PointRated) else ""
        item = f"{events.KIND_OF.get(type(event), 'event')} {getattr(event, 'name', '')}{rating}".rstrip()
        self.ignored.append({"item": item, "reason": reason})


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
    add_own(project, every)
    # The own file is read once, so that its lines are counted once; it may be missing.
    if not source or source.startswith(_GIT) or _find_file(source) != Path(os.path.realpath(log.path)):
        add_source(project, source, every)
    done = ImportedLedger()
    try:
        own = list(open_own_log(project).read())
    except errors.DamagedLedgerError as error:
        own, data, done.lost = plan_repair(project, every, error, accept_loss=accept_loss)
        done.repaired = own[-1].last
        done.tracked = log.path if git.is_tracked(log.path) else None
        if not dry_run:
            done.aside += put_back(project, own, data, seen)
    done.unproven = len(every.unproven)
    if dry_run:
        _land(open_log(project), own, every, done)
        return done
    # The spool and a manual edit are events before those of the other ledger.
    recording.write(project, [], begin=True)
    with closing(open_log(project)) as log, log.transaction() as tx:
        _land(log, list((log.own if has_book(log) else tx).read()), every, done)
        for batch in done.batches:
            tx.append_framed(batch)
    done.redacted = _redact(project, every)
    recording.write(project, [])
    return done


def _land(log: JsonlLog, own: Sequence[RawBatch], every: Histories, done: ImportedLedger) -> None:
    here = {batch.chain for batch in own}
    paths = [[link.batch for link in every.trace_path(chain)] for chain in every.find_ends() if chain not in here]
    result = Landing(log, own, done)
    # In a book the seeds are joined to its entries.
    seeds = Counter() if has_book(log) else _find_seeds(own, paths, result.entries)
    # Entries that would be pruned in the trial have nothing doubled, so that ratings given here protect them.
    doubled = _find_doubled(Landing(log, own, ImportedLedger()), seeds, paths) if seeds else seeds
    counts = {(name, field): getattr(result.entries[name], field) for name, _ in doubled for field in _COUNTING}
    result.add_counts({place: -count for place, count in counts.items()})
    for path in paths:
        result.land(path)
    result.add_counts({place: count - doubled[place] for place, count in counts.items()})


def _find_doubled(
    trial: Landing, seeds: Counter[tuple[str, str]], paths: Sequence[Sequence[RawBatch]]
) -> Counter[tuple[str, str]]:
    """Return the counts of seeds that other histories bring as well, counted from nothing: name and rating → count."""
    before = dict(trial.entries)
    names = {name for name, _ in seeds}
    trial.add_counts({(name, field): -getattr(before[name], field) for name in names for field in _COUNTING})
    for path in paths:
        trial.land(path)
    brought: Counter[tuple[str, str]] = Counter()
    for entry, field in product(trial.entries.values(), _COUNTING):
        if entry.name in names or entry.name not in before:
            brought[entry.text, field] += getattr(entry, field)
    return seeds & Counter({(name, field): brought[before[name].text, field] for name, field in seeds})


def _find_seeds(
    own: Sequence[RawBatch], paths: Sequence[Sequence[RawBatch]], entries: Mapping[str, events.Entry]
) -> Counter[tuple[str, str]]:
    """Return the counts of seeds that ratings in other histories may bring as well: name and rating → count.

    A ledger that is lost leaves its counts in ``playbook.json``, which the next ledger adopts.
    """
    seeds: Counter[tuple[str, str]] = Counter()
    # The same file adopted there lands without its counts.
    keys = {batch_key(raw.data) for path in paths for raw in path}
    for batch in decode(own):
        is_there = batch.records[0].key in keys
        for record, field in product(batch.records, _COUNTING):
            event = record.event
            if isinstance(event, events.PointSeeded) and not is_there:
                seeds[event.name, field] = getattr(event, field)
            elif isinstance(event, events.PointEdited) and record.by.rater == BY["rater"]:
                # An earlier import took off what it brought.
                seeds[event.name, field] += getattr(event, field) - getattr(event, f"{field}_before")
    there: list[Any] = [event for path in paths for batch in decode(path) for event in batch.events]
    texts = {landing.text_of(event.text) for event in there if isinstance(event, events.TEXT_GIVERS)}
    # The smaller of two counts, where it is above zero.
    return seeds & Counter(
        {
            (entry.name, field): getattr(entry, field)
            for entry, field in product(entries.values(), _COUNTING)
            if entry.text in texts
        }
    )


def _redact(project: Project, every: Histories) -> int:
    """Erase here the texts that were redacted in another history; return of how many events."""
    ids = {id_ for link in every.links.values() for id_ in redaction.read_redacted_ids(link.batch)}
    if not ids:
        return 0
    batches = decode(open_log(project).read())
    texts = {record.id: {*texts_of(record.event).values()} for batch in batches for record in batch.records}
    here = [id_ for id_ in texts if id_ in ids and texts[id_] - {None, "", REDACTED}]
    targets = [redacting.RedactionTarget(event=id_) for id_ in here]
    # A log that was put together lacks such a text already: other events and what was set aside may have it still.
    former = [record for batch in decode(every.former) for record in batch.records if record.id in ids - {*here}]
    words = {text for record in former for text in texts_of(record.event).values() if text}
    targets += [redacting.RedactionTarget(text=text) for text in sorted(words)]
    erased: set[str] = set()
    for target in targets:
        # An equal text goes with the first one, and one that is too short is searched for nowhere else.
        if target.event not in erased:
            with suppress(redacting.NothingToRedactError, errors.BadInputError):
                done = redacting.redact(project, target, REASON, BY)
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
    what = f"--ledger {source}"
    if not source:
        # An unset variable: the working directory is not meant.
        raise errors.BadInputError("--ledger", "its path is empty", _HINT)
    try:
        if source.startswith(_GIT):
            commit = git.commit_of(project.root, source.removeprefix(_GIT))
            if (blob := git.ledger_blob(commit, project)) is None:
                raise errors.BadInputError(what, f"commit {commit.name} has no ledger in its place", _HINT)
            with git.ledger_of(blob, project) as copy:
                proven = histories.add_file(copy.fd, copy.size, copy.pending_ids)
        else:
            path = _find_file(source)
            with disk.hold_open(path) as fd:
                check_format(fd, path)
                proven = histories.add_file(fd, os.fstat(fd).st_size, redaction.read_pending_ids(path.parent))
    except (errors.CannotWriteError, *git.FAILURES) as error:
        why = git.no_commit(error) if source.startswith(_GIT) else f"cannot be read: {disk.reason(error)}"
        raise errors.BadInputError(what, why, _HINT) from error
    if not proven:
        raise errors.BadInputError(what, "has no event that its chain proves", _HINT)


def _find_file(source: str) -> Path:
    """Return the file of events that a person means, without links on the way."""
    given = Path(os.path.realpath(source))
    if given.is_dir():
        for place in _PLACES:
            if (given / place / LOG_NAME).is_file():
                return Path(os.path.realpath(given / place / LOG_NAME))
        raise errors.BadInputError(f"--ledger {source}", "is a folder without a ledger", _HINT)
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
    fields = attrs.asdict(done, recurse=False, filter=lambda field, _: field.name not in {"undos", "tracked"})
    value = {"seq_from": None, "seq_to": None, **fields, "batches": len(done.batches), "dry_run": dry_run}
    if done.batches and not dry_run:
        value |= {"seq_from": done.batches[0].first, "seq_to": last_shown(done.batches[-1])}
    reply(value, _lines(done, value, source), as_json=as_json)


def _notes(done: ImportedLedger) -> Iterator[str]:
    if done.lost:
        events = f"events {min((done.repaired or 0) + 1, done.lost)} to {done.lost}"
        yield f"{events} were acknowledged, and no copy has them; what was recorded only there is lost"
    if done.unproven:
        yield f"{format_count(done.unproven, 'line')} left out: no chain from a first line proves them"
    if done.masked:
        yield f"{format_count(done.masked, 'text')} looked like a secret and was masked"
    if done.tracked is not None:
        command = f"git add --force {shlex.quote(str(done.tracked))}"
        yield f"git tracks {done.tracked}; `{command}` and a commit keep this version"


def _lines(done: ImportedLedger, value: Mapping[str, Any], source: str) -> Iterator[str]:
    if done.repaired is not None:
        whole = f"{'would be' if value['dry_run'] else 'is'} whole up to event {done.repaired}"
        yield f"events.jsonl {whole}, as it was acknowledged"
    yield from (f"set aside: {path}" for path in done.aside)
    entries = format_count(len(done.added), "entry", "entries")
    ratings = format_count(done.ratings, "rating")
    brings = (
        f"{ratings}, {entries} and {format_count(done.undos, 'undo')}" if done.undos else f"{ratings} and {entries}"
    )
    if not done.batches:
        proven = " that its chain proves" if done.unproven else ""
        yield f"nothing new in {source}: everything in it{proven} is here already"
    elif value["dry_run"]:
        yield f"{source} would bring {brings}; nothing was recorded"
    else:
        yield f"{brings} from {source}, recorded as events {value['seq_from']} to {value['seq_to']}"
    if done.added:
        yield f"added {', '.join(done.added)}"
    yield from (f"{old} there is {new} here, with the same text" for old, new in done.joined.items())
    yield from (f"{old} there is {new} here" for old, new in done.renamed.items())
    if done.redacted:
        yield f"{format_count(done.redacted, 'text')} erased, as in the other ledger"
    yield from (f"ignored {part['item']}: {part['reason']}" for part in done.ignored[:_MAX_IGNORED])
    if len(done.ignored) > _MAX_IGNORED:
        yield f"and {len(done.ignored) - _MAX_IGNORED:,} more; --json lists them all"


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
_CARRIED: Final = {
    events.EVENT_TYPES[kind][0]: lambda _, event: (event,) for kind in PLAYBOOK_NEUTRAL - _OF_ONE_MACHINE
}
"""Kinds that change no playbook, such as a measurement, as they are recorded here."""


class Landing:
    """Lands histories one after another on a ledger, in memory."""

    def __init__(self, log: JsonlLog, own: Sequence[RawBatch], done: ImportedLedger) -> None:
        """Take the ledger, its batches, and the record of what is brought."""
        self._done = done
        self._redactions = redacted_digests.load(log.folder)
        self._log: shared_log.SharedLog | None = log if has_book(log) else None
        here = list(own)
        if self._log is None:
            state = fold_history(shared_log.BOOK_VIEW, lambda: decode(own))
            keys = {batch_key(raw.data) for raw in own}
            self._ground = shared_log.make_ground(state, lambda: own, has_key=keys.__contains__, is_book=False)
        else:
            here += self._log.copy.read()
            self._ground = self._log.present_ground()
        about_entries = events.PointNoted, events.PointCited, events.PointProposed
        self._ground.extra_rules = {**_CARRIED, **dict.fromkeys(about_entries, self._carry)}
        self._ids: set[str] = {own_id(id_) for raw in here for id_ in find_ids(raw.data)}
        self._end = own[-1].position if own else START
        at = clock.clamp_time(clock.utc_now().at, self._end.at)
        self._publisher = Publisher("", at, clock.new_salt, self._mask)

    def _mask(self, text: str) -> str:
        masked = secrets.mask(text)
        self._done.masked += masked != text
        return masked

    @property
    def entries(self) -> Mapping[str, events.Entry]:
        """Return the entries of the ledger, with what has landed."""
        return self._ground.state.entries

    def add_counts(self, changes: Mapping[tuple[str, str], int]) -> None:
        """Change counts of entries, name and rating → difference, in a batch of their own."""
        edits = []
        for name in dict.fromkeys(name for (name, _), change in changes.items() if change and name in self.entries):
            entry = self.entries[name]
            seen: dict[str, Any] = {f"{field}_before": getattr(entry, field) for field in _COUNTING}
            counts = [getattr(entry, field) + changes.get((name, field), 0) for field in _COUNTING]
            edits.append(events.PointEdited(name, counts[0], counts[1], change="kept", text=entry.text, **seen))
        if edits:
            raw = frame_import(edits, self._end)
            self._end = raw.position
            self._ground.landed.append(raw)
            self._done.batches.append(raw)
            fold(shared_log.BOOK_VIEW, decode([raw]), cast("shared_log.BookState", self._ground.state))

    def land(self, history: Sequence[RawBatch]) -> None:
        """Land every batch of a history, given from its first line on, that is not here yet.

        Raises:
            BadInputError: It contains more of a book than this machine has.
        """
        # Which of its texts were equal is recorded where they were redacted, after what it concerns.
        known, links = self._ground.links, landing.redaction_links(history)
        self._ground.links = lambda: [*known(), *links]
        for landed, raw in landing.land(self._new_batches(history), self._ground, self._frame):
            self._report(landed)
            if raw is not None:
                made = {getattr(event.event, "name", "") for event in landed.events if landed.sent.makes(event.record)}
                entries = self._ground.state.entries
                self._done.added += [name for name in entries if name in made]

    def _new_batches(self, history: Sequence[RawBatch]) -> Iterator[landing.Sent]:
        """Yield the batches that are not here yet, without texts that were redacted here."""
        reader = landing.Reader(
            lambda session, seq: list(
                shared_log.ids_of_session(decode(raw for raw in history if raw.last < seq), session)
            )
        )
        for batch in decode(history):
            self._check_frontier(batch)
            sent = reader.read(batch)
            if not self._ids.isdisjoint(sent.ids):
                self._done.known += 1
                continue
            self._ids.update(sent.ids)
            records = [event for record in sent.records for event in self._without_redacted(record)]
            if records:
                first = sent.records[0]
                # The first line has the key of all of them.
                records[0] = attrs.evolve(records[0], key=first.key, payload=first.payload)
                yield attrs.evolve(sent, batch=sent.batch.with_records(records))

    def _check_frontier(self, batch: Batch) -> None:
        for event in batch.events:
            if isinstance(event, events.BookTaken) and self._log is not None:
                frontier = self._log.history.frontier.seq
                if event.seq > frontier or (event.chain and not self._log.copy.has(event.chain)):
                    why = "that ledger has taken in events of a book that are not here"
                    hint = "run `tallybook sync` here and try again; nothing was recorded"
                    raise errors.BadInputError("--ledger", why, hint)

    def _without_redacted(self, record: EventRecord) -> Iterator[EventRecord]:
        """Yield an event unless it brings back a text that was redacted here; in a book it lands without the text."""
        event: Any = record.event
        text = getattr(event, "text", None) if isinstance(event, events.TEXT_GIVERS) else None
        why = self._redactions.refusal(text) if text else None
        if text is None or why is None:
            yield record
            return
        self._done.ignore(event, why)
        if self._log is not None:
            former = self._redactions.former(text)
            if former in self._ids:
                yield attrs.evolve(record, id=new_id(), event=events.RedactionLinked((former, record.id)))
            yield attrs.evolve(record, event=attrs.evolve(event, text=REDACTED))

    def _frame(self, landed: landing.Landed, _: Position) -> RawBatch:
        """Return a landed batch as the own ledger gets it, with what a book does not share."""
        changes = [*landed.events]
        if self._log is not None:
            made = {change.record.id for change in changes}
            ids = {name: self._ground.ids.get(name) for change in changes for name in landing.names_in(change.event)}
            meant = {name: id_ for name, id_ in ids.items() if id_ is not None and id_ not in made}
            if meant:
                line = events.NamesMeant(tuple(meant), tuple(meant.values()))
                changes.append(landing.LandedEvent(attrs.evolve(landed.sent.records[0], id=new_id()), line))
        raw = self._publisher.frame(attrs.evolve(landed, events=tuple(changes)), self._end)
        self._end = raw.position
        self._done.batches.append(raw)
        # It lands after the book and what is pending, whose numbers are higher than those of the own ledger.
        return (
            raw if self._log is None else shared_log.renumber(raw, range(PENDING + raw.first, PENDING + raw.last + 1))
        )

    def _carry(self, step: landing.BatchLanding, event: Any) -> tuple[events.Event, ...]:
        """Return an event about an entry as it is recorded here; nothing where that is not here."""
        changes: dict[str, Any] = {"name": step.resolve(event.name)}
        if isinstance(event, events.PointProposed):
            changes["merged"] = tuple(map(step.resolve, event.merged))
        if None in {changes["name"], *changes.get("merged", ())}:
            return ()
        for field, text in texts_of(event).items():
            if text and self._redactions.refusal(text) is not None:
                changes[field] = ""
        return (event.evolve(**changes),)

    def _report(self, landed: landing.Landed) -> None:
        """Count the ratings of a landed batch, and note what has no effect."""
        as_landed: dict[str, Any] = {event.record.id: event.event for event in landed.events}
        pairs: list[tuple[Any, Any]] = [(record.event, as_landed.get(record.id)) for record in landed.sent.records]
        joins = [(given.name, event) for given, event in pairs if isinstance(event, events.PointMatched)]
        matched = {event.name: event.to for _, event in joins}
        joined = {name: event.to for name, event in joins}
        self._done.undos += sum(isinstance(event, events.EventsVoided) for event in as_landed.values())
        self._done.joined |= joined
        self._done.renamed |= {old: new for old, new in landed.renamed.items() if old not in joined}
        state = self._ground.state
        for given, event in pairs:
            # A redaction is not here only where its text is redacted already.
            if event is None and type(given) in landing.SHARED - {events.PointRated, events.EventRedacted}:
                self._done.ignore(given, "the entry that it changes is not here")
            if not isinstance(given, events.PointRated) or given.rating not in _COUNTING:
                continue
            name = getattr(event, "name", "")
            name = matched.get(name, state.merged.get(name, name))
            if name in state.entries:
                self._done.ratings += 1
                continue
            reason = f"{name} is not in the playbook any more; `tallybook restore {name}` brings it back"
            if event is None:
                reason = "the entry that it rates is not here"
            elif isinstance(event, events.EventRepeated):
                reason = f"its delivery {landed.sent.records[0].key} is recorded here already"
            self._done.ignore(given, reason)
