"""The one way of a write: mask secrets, decide under the lock, encode, append, fold, render.

Every verb, hook and library call that records something passes its requests to `write`.
"""

from __future__ import annotations

from contextlib import closing, suppress
import os
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger import clock
from tallybook.ledger.backends.jsonl import PreviewTransaction
from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.decisions.update import Decision, RefusedText, find_equal
from tallybook.ledger.encoding import codec
from tallybook.ledger.errors import (
    BadInputError,
    LockHeldError,
    MissingLinesError,
    NothingToDoError,
    Problem,
    TallybookError,
    UnknownEntryError,
    UsedKeyError,
)
from tallybook.ledger.events import RATINGS, PlaybookUpdated, PointNoted, PointRated, PointRestored
from tallybook.ledger.line import normalize_key
from tallybook.ledger.storage import caches, redacted_digests, redaction, spool
from tallybook.projections.fold import fold
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces.history import as_of, cache_files, playbook_file
from tallybook.projections.surfaces.history.reading import catch_up, current, log_with_book, open_log
from tallybook.projections.surfaces.lift import marker
from tallybook.projections.surfaces.workspace.personal import prefix_of
from tallybook.projections.surfaces.writing import diagnostics
from tallybook.projections.surfaces.writing.requests import (
    UNSCREENED,
    Import,
    PlainEvents,
    Rating,
    Request,
    Undo,
    Update,
    check,
    decide,
    update_of,
)
from tallybook.projections.surfaces.writing.spooled import rename_entries, request_to_json, requests_from_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tallybook.ledger.backends.jsonl import JsonlLog
    from tallybook.ledger.decisions.legacy_import import LegacyFile
    from tallybook.ledger.decisions.update import IgnoredItem
    from tallybook.ledger.events import Entry, Event
    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.log import Transaction
    from tallybook.ledger.reading.deliveries import Delivery
    from tallybook.ledger.storage.redacted_digests import Redactions
    from tallybook.projections.surfaces.history.playbook_file import ExaminedFile
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.diagnostics import Told
    from tallybook.projections.surfaces.writing.requests import Action

# Another program may change playbook.json again while this one takes in its last change.
_RENDER_ATTEMPTS = 5
# Events that have no effect where the `PlaybookUpdated` of their batch counts nothing.
_PARTS_OF_UPDATE = (PointRated, PointNoted)
_HELD = "another process holds the ledger; spooled, the next command that writes records it"
_MISSING = "lines of the shared book are missing here; spooled, `tallybook sync` fetches them and records it"


@attrs.frozen
class Outcome:
    """The outcome of one request.

    Attributes:
        seq_from: First event number of its batch, of the first one if its key was recorded before; None if it was
            spooled.
        seq_to: Last event number of its batch.
        added: Names of the new entries.
        pruned: Names of the entries that its update pruned.
        ignored: The parts that count nothing, each with the reason.
        spooled: Whether it waits in the spool.
        spooled_why: Why it waits there, and what records it; empty if it does not.
        repeated: Whether its key was recorded before, so that nothing was appended.
        rated: The rated entries that are in the playbook, with their new counts.
        renamed: Name that the sender uses → the entry's name in the ledger, where they differ.
        notes: Notes for a person, a line each.
        events: The events that were recorded.
        numbers: The number of each of these; a batch can have other lines before and between them.
        mine: The outcome in the person's own playbook; None where the request was not about that.
    """

    seq_from: int | None = None
    seq_to: int | None = None
    added: tuple[str, ...] = ()
    pruned: tuple[str, ...] = ()
    ignored: tuple[IgnoredItem, ...] = ()
    spooled: bool = False
    spooled_why: str = ""
    repeated: bool = False
    rated: tuple[Entry, ...] = ()
    renamed: Mapping[str, str] = attrs.field(factory=dict)
    notes: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    numbers: tuple[int, ...] = ()
    mine: Outcome | None = None


@attrs.frozen
class WriteResult:
    """The result of a write.

    Attributes:
        outcomes: One for each request.
        state: The playbook afterwards; None if all requests were spooled.
        file: ``playbook.json`` as it was before; a manual edit of it was recorded first.
        problems: Items with masked secrets, unusable items of the file, spooled payloads that cannot be read.
        unrendered: Why ``playbook.json`` could not be written; None if it was, or if another writer writes it.
        pruned: The entries that any of the batches pruned, with their last text and counts.
        migrated: The legacy files that were recorded, with an entry that was migrated: the playbook and imports.
    """

    outcomes: tuple[Outcome, ...]
    state: Playbook | None
    file: ExaminedFile
    problems: tuple[Problem, ...] = ()
    unrendered: Exception | None = None
    pruned: tuple[Entry, ...] = ()
    migrated: tuple[LegacyFile, ...] = ()


def write(
    project: Project,
    requests: Sequence[Request],
    *,
    cold: bool = False,
    begin: bool = False,
    told: Told | None = None,
) -> WriteResult:
    """Record requests, each as one batch, and render ``playbook.json``.

    A manual edit of ``playbook.json`` and the spool are recorded first. Secrets in what a model supplied are masked,
    and the report's problems list each such item. Without a ledger and with nothing to record, no file is created.

    Args:
        project: The project.
        requests: The requests, in order.
        cold: Whether to fold the whole history without any checkpoint.
        begin: Whether to create the ledger even if there is nothing to record.
        told: What the caller has written diagnostics of already.

    Raises:
        TallybookError: The ledger is damaged, or could not be written.
    """
    for request in requests:
        check(request)
    requests, masked = _mask_secrets(requests)
    with closing(open_log(project)) as log:
        is_new = not log.exists()
        if not begin and is_new and _has_nothing_to_record(project, log, requests):
            return WriteResult((), current(log), playbook_file.ExaminedFile(), masked)
        masked += former_ledger(project) if is_new else ()
        if redaction.read_pending(project.ledger) is not None:
            from tallybook.projections.surfaces.writing import erasure

            # If it cannot be finished now, readers still leave the redacted texts out.
            with suppress(TallybookError):
                erasure.finish(project, log)
        state: Playbook | None = None
        try:
            state = current(log, cold=cold)
            report, recorded = _append(project, log, state, requests)
            if log_with_book(log) or any(isinstance(request.action, Undo) for request in requests):
                report = attrs.evolve(report, state=current(log))
        except (LockHeldError, MissingLinesError) as error:
            spooled = _spool_refused(project, log, requests, state, error)
            return WriteResult(spooled, None, playbook_file.ExaminedFile(), masked)
        spool.remove_files(recorded)
        try:
            _render(project, log, report.state or state, report.file)
        except (TallybookError, OSError) as error:
            # The events are durable; the file can be rendered again at any time.
            report = attrs.evolve(report, unrendered=error)
        marker.refresh(project, report.state or state, undone=any(isinstance(one.action, Undo) for one in requests))
    if diagnostics.is_enabled(project):
        report = attrs.evolve(report, problems=(*report.problems, *diagnostics.report(project, report, told)))
    cache_files.remove_former(project.ledger)
    if is_new:
        cache_files.begin(project.ledger)
    if requests:
        cache_files.sweep(project.ledger)
    return attrs.evolve(report, problems=(*masked, *report.problems))


def former_ledger(project: Project) -> tuple[Problem, ...]:
    """Return a line about the ledger that was in a project's place and is gone; none where none is known."""
    if not caches.knows_former(project.ledger):
        return ()
    places = "in other worktrees and clones, in git's history if it was tracked, in a shared book, or in a backup"
    what = f"the ledger that was here is gone, and a new one begins; a copy can be {places}"
    return (Problem(str(project.ledger), f"{what}: `tallybook import --ledger COPY` brings it in"),)


def _spool_refused(
    project: Project, log: JsonlLog, requests: Sequence[Request], state: Playbook | None, error: TallybookError
) -> tuple[Outcome, ...]:
    """Put requests into the spool that the ledger does not take now, if they can wait there.

    Args:
        project: The project.
        log: Its ledger.
        requests: The requests.
        state: The playbook; None where lines of the shared book are missing.
        error: Why they are not taken.

    Raises:
        TallybookError: ``error``, because they cannot wait.
        BadInputError: A rating names an entry that the last rendering does not show, so it is not known which it is.
    """
    known = as_of.last_rendering(project, edited=True) if state is None else state
    can_wait = all(isinstance(request.action, Update | Rating) for request in requests)
    if known is None or not can_wait or (not requests and not isinstance(error, LockHeldError)):
        raise error
    if isinstance(error, LockHeldError):
        if state is not None and any(isinstance(request.action, Rating) for request in requests):
            # The process with the lock may be the one that imports the entries, or the next writer will.
            known = catch_up(log, state)
            known = playbook_file.with_edit(known, playbook_file.examine(project, known, log.read), log.now().at)
        return _spool(project, log, requests, known, _HELD) if requests else ()
    try:
        return _spool(project, log, requests, known, _MISSING)
    except UnknownEntryError as unknown:
        what = "is not in the last rendering of playbook.json, and lines of the shared book are missing here"
        raise BadInputError(unknown.name, what, "run `tallybook sync` first; nothing was recorded") from unknown


def _has_nothing_to_record(project: Project, log: JsonlLog, requests: Sequence[Request]) -> bool:
    """Return whether neither requests, spool nor ``playbook.json`` give a project its first events.

    Raises:
        TallybookError: A request about one entry is refused: the refusal that the transaction would bring, raised here
            because a transaction creates the ledger.
    """
    actions = [request.action for request in requests if _is_about_entries(request.action)]
    if (requests and not actions) or spool.read_files(project.ledger) != ([], []):
        return False
    state = current(log)
    file = playbook_file.examine(project, state, log.read)
    if not requests:
        return file.sha256 is None
    state = playbook_file.with_edit(state, file, log.now().at)
    for action in actions:
        decide(action, state)
        if (refusal := _refusal(action, state)) is not None:
            raise refusal
    return False


def _is_about_entries(action: Action) -> bool:
    return isinstance(action, Curation | Rating) or (isinstance(action, Update) and action.is_addition)


def _mask_secrets(requests: Sequence[Request]) -> tuple[tuple[Request, ...], tuple[Problem, ...]]:
    """Return requests without secrets, and a problem for each masked item."""
    if all(request.by.get("rater") in UNSCREENED for request in requests):
        return tuple(requests), ()
    # Slow to load, and people's own words stay as they are.
    from tallybook.projections.surfaces.writing import secrets

    return secrets.mask_requests(requests)


def _spool(
    project: Project, log: JsonlLog, requests: Sequence[Request], state: Playbook, why: str
) -> tuple[Outcome, ...]:
    """Put requests into the spool, in place of waiting for the lock; the next writer records them.

    They stay together in one file, because a later one may name an entry that an earlier one adds. A request that the
    ledger could never record is refused here as well.
    """
    now = log.now()
    waiting = [row for file in spool.read_files(project.ledger)[0] for row in _rows(file.requests)]
    for request in requests:
        if request.payload and request.key is not None:
            refuse_other_payload(request, log.find_delivery(request.key))
            same_key = (row.get("payload") for row in waiting if row.get("key") == request.key)
            if any(payload not in (None, request.payload) for payload in same_key):
                raise UsedKeyError(normalize_key(request.key))
    # The next writer decides them on a later playbook, where a name as a person wrote it could mean another entry.
    updates = [
        attrs.evolve(request, action=update_of(request.action, state))
        if isinstance(request.action, Rating)
        else request
        for request in requests
    ]
    for request in updates:
        drafts = [codec.encode(event, request.when) for event in decide(request.action, state).events]
        spool.check(drafts, request.by, request.key, now.at)
    # A sync can give pending entries other names.
    shown = {"position": state.seq} if log_with_book(log) else {}
    rows = [request_to_json(request) | shown for request in updates]
    spool.put(project.ledger, now.at, clock.new_id(now.unix_us), rows)
    return tuple(Outcome(spooled=True, spooled_why=why) for _ in updates)


def _rows(requests: Any) -> Sequence[Mapping[str, Any]]:
    """Return what may be requests of a file of the spool, which another program may have written."""
    return [one for one in requests if isinstance(one, dict)] if isinstance(requests, list) else []


def _append(
    project: Project, log: JsonlLog, state: Playbook, requests: Sequence[Request]
) -> tuple[WriteResult, list[spool.SpoolFile]]:
    """Append under the lock: the manual edit of ``playbook.json``, the spool, then the requests."""
    with log.transaction() as tx:
        # Another process appended after the fold that was made without the lock.
        if (tx.position.seq, tx.position.chain) != (state.seq, state.chain):
            state = catch_up(log, state)
        redacted = redacted_digests.load(project.ledger)
        file, recorded, waited, problems = _take_in(project, log, tx, state, redacted)
        outcomes = record_all(tx, state, requests, file, redacted)
    names = [name for outcome in (*waited, *outcomes) for name in outcome.pruned]
    pruned = tuple(state.gone[name] for name in names if name in state.gone)
    migrated = tuple(_migrated(file, requests, outcomes))
    return WriteResult(outcomes, state, file, (*file.problems, *problems), pruned=pruned, migrated=migrated), recorded


def _take_in(
    project: Project, log: JsonlLog, tx: Transaction, state: Playbook, redacted: Redactions
) -> tuple[ExaminedFile, list[spool.SpoolFile], list[Outcome], list[Problem]]:
    """Append the manual edit of ``playbook.json``, and the spool; return the file, and what the spool came to."""
    state.prefix = prefix_of(project)
    file = playbook_file.examine(project, state, tx.read)
    if file.events:
        by = {"rater": "import" if file.adopted else "human"}
        _record(tx, state, Decision(file.events), Request(PlainEvents(file.events), by, file.key))
    return file, *_record_spool(project, log, tx, state, redacted)


def preview(project: Project, log: JsonlLog) -> list[RawBatch]:
    """Return the batches that the next write appends first: the manual edit of ``playbook.json``, and the spool."""
    tx = PreviewTransaction(log)
    _take_in(project, log, tx, current(log), redacted_digests.load(project.ledger))
    return tx.appended


def _migrated(file: ExaminedFile, requests: Sequence[Request], outcomes: Sequence[Outcome]) -> Iterator[LegacyFile]:
    """Yield the legacy files that were recorded now, those with an entry in an old shape."""
    if file.events and file.legacy is not None and file.legacy.migrated:
        yield file.legacy
    for request, outcome in zip(requests, outcomes, strict=True):
        if isinstance(request.action, Import) and outcome.events:
            from tallybook.ledger.decisions.legacy_import import read_legacy

            legacy = read_legacy(request.action.data, request.action.source)
            if legacy.migrated:
                yield legacy


def _record_spool(
    project: Project, log: JsonlLog, tx: Transaction, state: Playbook, redacted: Redactions
) -> tuple[list[spool.SpoolFile], list[Outcome], list[Problem]]:
    """Record the spool, each payload under its own key, so that it counts once even if its file survives a crash."""
    files, problems = spool.read_files(project.ledger)
    recorded: list[spool.SpoolFile] = []
    waited: list[Outcome] = []
    for file in files:
        try:
            # Another version may have spooled it without masking.
            requests, masked = _mask_secrets(requests_from_json(file.requests, f"spool:{file.id}", file.at))
            tx.look_up(request.key for request in requests if request.key is not None and not request.payload)
            requests = tuple(_with_present_names(log, request) for request in requests)
            outcomes = record_all(tx, state, requests, redacted=redacted)
        except (BadInputError, MissingLinesError) as error:
            problems.append(Problem(f"spool/{file.name}", f"{error}; it stays there"))
        else:
            problems += masked
            refused = [part for outcome in outcomes for part in outcome.ignored if isinstance(part, RefusedText)]
            problems += [Problem(f"spool/{file.name}: {part.item}", part.reason) for part in refused]
            waited += outcomes
            recorded.append(file)
    return recorded, waited, problems


def _with_present_names(log: JsonlLog, request: Request) -> Request:
    """Return a spooled request with the present names of the entries that were shown under other names then.

    Raises:
        BadInputError: It holds a curator's operations, in which names are not translated.
        MissingLinesError: Lines of the shared book as of then are missing.
    """
    if request.position is None or not log_with_book(log):
        return request
    return rename_entries(request, log.names_since(request.position))


def record_all(
    tx: Transaction,
    state: Playbook,
    requests: Sequence[Request],
    file: ExaminedFile | None = None,
    redacted: Redactions = redacted_digests.NO_REDACTIONS,
) -> tuple[Outcome, ...]:
    """Record the requests of one sender in order; later ones may use a name that an earlier one had to change."""
    outcomes = []
    renamed: dict[str, str] = {}
    for request in requests:
        action, keyed = request.action, request
        if isinstance(action, Import):
            keyed = attrs.evolve(request, key=playbook_file.adoption_key(action.data))
            if file is not None and file.adopted and file.key == keyed.key:
                # The project's own playbook.json, which this transaction has just adopted.
                outcomes.append(Outcome(1, state.seq, tuple(state.entries)))
                continue
        outcome = _find_repeated(tx, state, keyed)
        if outcome is None:
            if (refusal := _refusal(action, state)) is not None:
                # Nothing of the transaction is appended.
                raise refusal
            outcome = _record(tx, state, decide(action, state, renamed, redacted), keyed)
        outcomes.append(outcome)
        renamed |= outcome.renamed
    return tuple(outcomes)


def _find_repeated(tx: Transaction, state: Playbook, request: Request) -> Outcome | None:
    """Return the outcome of a delivery whose key was recorded before; None where it was not.

    Raises:
        UsedKeyError: Its caller used the key for another payload.
    """
    delivery = None if request.key is None else tx.find_delivery(request.key, request.payload)
    if delivery is None:
        return None
    refuse_other_payload(request, delivery)
    action = request.action
    renamed = _names_in_ledger(action, state) if isinstance(action, Update) else {}
    return Outcome(delivery.first, delivery.last, repeated=True, renamed=renamed)


def refuse_other_payload(request: Request, delivery: Delivery | None) -> None:
    """Refuse a delivery whose caller used its key for another payload.

    Args:
        request: The delivery.
        delivery: What was recorded under its key; None where nothing was.

    Raises:
        UsedKeyError: It had another payload.
    """
    if request.key and delivery and request.payload and delivery.payload not in {"", request.payload}:
        raise UsedKeyError(normalize_key(request.key), delivery.first, delivery.last)


def _refusal(action: Action, state: Playbook) -> NothingToDoError | None:
    """Return why an addition is refused: an entry has its text already; None for every other action."""
    if not (isinstance(action, Update) and action.is_addition):
        return None
    [point] = action.payload["new_key_points"]
    name = find_equal(point["text"] if isinstance(point, dict) else point, state.entries)
    hint = f"nothing was recorded; to say that it helped, run: tallybook rate {name} helpful"
    return NothingToDoError(name, "has this text", hint) if name else None


def _names_in_ledger(action: Update, state: Playbook) -> dict[str, str]:
    """Return the names that the texts of a repeated update have in the ledger, where its program gave them others."""
    by_text = {entry.text: name for entries in (state.gone, state.entries) for name, entry in entries.items()}
    return {wish: by_text[text] for text, wish in action.names.items() if by_text.get(text, wish) != wish}


def _record(tx: Transaction, state: Playbook, decision: Decision, request: Request) -> Outcome:
    """Append the decision about a request as one batch and fold it into ``state``."""
    drafts = [codec.encode(event, request.when) for event in decision.events]
    # The corrected delivery of one that had no effect is to count.
    key = None if request.payload and not _has_effect(decision) else request.key
    raw = tx.append(drafts, request.by, key, request.payload)
    if raw is None:
        return Outcome(repeated=True)
    before = tuple(state.entries)
    [batch] = codec.decode([raw])
    fold(PLAYBOOK, [batch], state)
    after = tuple(state.entries)
    added = set(after).difference(before)
    removed: set[str] = set()
    rated: dict[str, Entry] = {}
    for event in decision.events:
        if isinstance(event, PointRestored):
            added.discard(event.name)
        elif isinstance(event, PlaybookUpdated):
            # Only an update prunes; what a manual edit takes out is not pruned.
            removed = set(before).difference(after)
        elif isinstance(event, PointRated) and event.rating in RATINGS:
            name = state.merged.get(event.name, event.name)
            if name in state.entries:
                rated[name] = state.entries[name]
    return Outcome(
        raw.first,
        raw.last,
        tuple(name for name in after if name in added),
        tuple(name for name in before if name in removed),
        decision.ignored,
        rated=tuple(rated.values()),
        renamed=decision.new_names,
        events=decision.events,
        # In a shared project the batch can begin with the names that it means.
        numbers=tuple(one.seq for one in batch.records[-len(decision.events) :]),
    )


def _has_effect(decision: Decision) -> bool:
    """Return whether a decision about a caller's delivery changes or proposes anything."""
    return any(
        event.added or event.rated if isinstance(event, PlaybookUpdated) else not isinstance(event, _PARTS_OF_UPDATE)
        for event in decision.events
    )


def _render(project: Project, log: JsonlLog, state: Playbook, file: ExaminedFile) -> None:
    """Write ``playbook.json``; a manual edit made in the meantime is recorded first.

    A ledger with nothing but measurements creates no playbook.
    """
    if not state.stamp[0] and log.head().seq > 1 and not os.path.lexists(project.playbook):
        return

    def newest(state: Playbook) -> Playbook:
        return state if log.head().seq <= state.seq else catch_up(log, state)

    for _ in range(_RENDER_ATTEMPTS):
        if playbook_file.render(project, state, file, log.now().at, newest):
            return
        report, recorded = _append(project, log, state, ())
        spool.remove_files(recorded)
        file = report.file
