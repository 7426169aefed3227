"""Writing: fold what a decision needs, decide under the lock, append, render. Every verb that writes comes here."""

from __future__ import annotations

from contextlib import closing, suppress
import os
from typing import TYPE_CHECKING

import attrs

from tallybook.ledger import clock
from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.decisions.update import Decision, RefusedText
from tallybook.ledger.encoding import codec
from tallybook.ledger.errors import BadInputError, LockHeldError, Problem, TallybookError
from tallybook.ledger.events import PlaybookUpdated, PointRated, PointRestored
from tallybook.ledger.storage import redacted_digests, redaction, spool
from tallybook.projections.fold import fold
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces.history import playbook_file
from tallybook.projections.surfaces.history.reading import caught_up, current, open_for_append
from tallybook.projections.surfaces.workspace import cache_cleaning
from tallybook.projections.surfaces.writing.requests import (
    UNSCREENED,
    Delivery,
    Import,
    Rating,
    Request,
    Undo,
    Update,
    check,
    decide,
    request_to_json,
    requests_from_json,
    update_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallybook.ledger.backends.jsonl import JsonlLog
    from tallybook.ledger.decisions.update import IgnoredItem
    from tallybook.ledger.events import Event, KeyPoint
    from tallybook.ledger.log import Transaction
    from tallybook.ledger.storage.redacted_digests import Redactions
    from tallybook.projections.surfaces.history.playbook_file import Found
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.requests import Action

# How often a file that is changed just as it is rendered is looked at again.
_EXAMINATIONS = 5


@attrs.frozen
class Outcome:
    """What became of a request.

    Attributes:
        seq_from: First sequence number of its batch; None where it was spooled or was there already.
        seq_to: Last one.
        added: Names of the new entries.
        pruned: Names of the entries that its update dropped.
        ignored: What counts nothing, and why.
        spooled: Whether it waits to be taken in, because another process held the ledger.
        repeated: Whether its key had been recorded before, so that nothing was added.
        rated: The entries that were rated and stand, as they are afterwards.
        renamed: Name that the sender uses → the entry's name in the ledger, where they differ.
        notes: What a person should hear beside it, a line each.
        events: What was recorded.
    """

    seq_from: int | None = None
    seq_to: int | None = None
    added: tuple[str, ...] = ()
    pruned: tuple[str, ...] = ()
    ignored: tuple[IgnoredItem, ...] = ()
    spooled: bool = False
    repeated: bool = False
    rated: tuple[KeyPoint, ...] = ()
    renamed: Mapping[str, str] = attrs.field(factory=dict)
    notes: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()


@attrs.frozen
class Report:
    """What a write came to.

    Attributes:
        outcomes: One for each request.
        state: The playbook afterwards; None where everything was spooled.
        found: What stood in ``playbook.json`` and was taken in first.
        problems: What was odd on the way: items with secrets that were masked, items of a file, spooled payloads that
            cannot be read.
        unrendered: Why ``playbook.json`` could not be written; None where it was, or where another writer does it.
    """

    outcomes: tuple[Outcome, ...]
    state: Playbook | None
    found: Found
    problems: tuple[Problem, ...] = ()
    unrendered: Exception | None = None


def write(project: Project, requests: Sequence[Request], *, cold: bool = False, begin: bool = False) -> Report:
    """Record requests, each as one batch, and render ``playbook.json``.

    What waits in the spool, and what a hand changed in ``playbook.json``, is taken in first. Secrets in what a model
    supplied are masked, and each such item is among the report's problems. Where there is no ledger and nothing to
    record, no file is created.

    Args:
        project: Whose ledger.
        requests: What to record, in order.
        cold: Whether the whole of history is folded, whatever a cache says of it.
        begin: Whether a ledger is begun even where there is nothing to record.

    Raises:
        TallybookError: The ledger is damaged, or could not be written.
    """
    for request in requests:
        check(request)
    requests, masked = _mask_secrets(requests)
    with closing(open_for_append(project)) as log:
        if not begin and not log.exists() and _begins_nothing(project, log, requests):
            return Report((), current(log), playbook_file.Found(), masked)
        if redaction.read_pending(log.folder) is not None:
            from tallybook.projections.surfaces.writing import redaction_finish

            # Where it cannot be finished now, readers go on taking the texts for gone.
            with suppress(TallybookError):
                redaction_finish.finish(project, log)
        state = current(log, cold=cold)
        try:
            report, waiting = _append(project, log, state, requests)
            if any(isinstance(request.action, Undo) for request in requests):
                report = attrs.evolve(report, state=current(log))
        except LockHeldError:
            if not all(isinstance(request.action, Update | Rating) for request in requests):
                raise
            return Report(
                _spool(project, log, requests, state) if requests else (), None, playbook_file.Found(), masked
            )
        spool.remove_files(waiting)
        try:
            _render(project, log, report.state or state, report.found)
        except (TallybookError, OSError) as error:
            # What was recorded is durable; its projection can be written again at any time.
            report = attrs.evolve(report, unrendered=error)
    cache_cleaning.remove_former(log.folder)
    if requests:
        cache_cleaning.sweep(log.folder)
    return attrs.evolve(report, problems=(*masked, *report.problems))


def _begins_nothing(project: Project, log: JsonlLog, requests: Sequence[Request]) -> bool:
    """Say whether a project without a ledger has nothing to begin one with.

    Raises:
        TallybookError: A request about an entry is refused; what the transaction would find, without creating a file.
    """
    wishes = [request.action for request in requests if isinstance(request.action, Curation | Rating)]
    if (requests and not wishes) or spool.read_files(project.ledger) != ([], []):
        return False
    state = current(log)
    found = playbook_file.examine(project, state, log.read)
    if not requests:
        return found.sha256 is None
    state = playbook_file.with_found(state, found, log.now().at)
    for wish in wishes:
        decide(wish, state)
    return False


def _mask_secrets(requests: Sequence[Request]) -> tuple[tuple[Request, ...], tuple[Problem, ...]]:
    """Return requests without secrets, as ``screen`` does; what finds them is loaded only where it would look."""
    if all(request.by.get("rater") in UNSCREENED for request in requests):
        return tuple(requests), ()
    from tallybook.projections.surfaces.writing import secrets

    return secrets.mask_requests(requests)


def _spool(project: Project, log: JsonlLog, requests: Sequence[Request], state: Playbook) -> tuple[Outcome, ...]:
    """Put requests where the next writer takes them in, so that nobody stands still behind a held lock.

    They stay together in one file: a later one may name an entry that an earlier one adds. What the ledger could never
    take in is refused as it would be without the spool.
    """
    now = log.now()
    # What waits is decided on another playbook than this one, so a rating gives up the names that a person wrote.
    updates = [
        attrs.evolve(request, action=update_of(request.action, state))
        if isinstance(request.action, Rating)
        else request
        for request in requests
    ]
    for request in updates:
        drafts = [codec.encode(event, request.when) for event in decide(request.action, state).events]
        spool.check(drafts, request.by, request.key, now.at)
    spool.put(project.ledger, now.at, clock.new_id(now.unix_us), list(map(request_to_json, updates)))
    return tuple(Outcome(spooled=True) for _ in updates)


def _append(
    project: Project, log: JsonlLog, state: Playbook, requests: Sequence[Request]
) -> tuple[Report, list[spool.SpoolFile]]:
    """Append under the lock: the file's changes, the spool, then the requests."""
    with log.transaction() as tx:
        if (tx.position.seq, tx.position.chain) != (state.seq, state.chain):
            state = caught_up(tx.read, state)
        redacted = redacted_digests.load(log.folder)
        found = playbook_file.examine(project, state, tx.read)
        if found.events:
            by = {"rater": "import" if found.adopted else "human"}
            _record(tx, state, Decision(found.events), Delivery(by, found.key))
        taken, problems = _take_in_spool(project, tx, state, redacted)
        outcomes = record_all(tx, state, requests, found, redacted)
    return Report(outcomes, state, found, (*found.problems, *problems)), taken


def _take_in_spool(
    project: Project, tx: Transaction, state: Playbook, redacted: Redactions
) -> tuple[list[spool.SpoolFile], list[Problem]]:
    """Record what waits, each under its own id, so that it counts once even if its file outlives a crash."""
    waiting, problems = spool.read_files(project.ledger)
    taken: list[spool.SpoolFile] = []
    for one in waiting:
        try:
            # Whoever spooled it may not have screened it.
            requests, masked = _mask_secrets(requests_from_json(one.requests, f"spool:{one.id}", one.at))
            tx.look_up(request.key for request in requests if request.key is not None)
            outcomes = record_all(tx, state, requests, redacted=redacted)
        except BadInputError as error:
            problems.append(Problem(f"spool/{one.name}", f"{error}; it stays there"))
        else:
            problems += masked
            refused = [part for outcome in outcomes for part in outcome.ignored if isinstance(part, RefusedText)]
            problems += [Problem(f"spool/{one.name}: {part.item}", part.reason) for part in refused]
            taken.append(one)
    return taken, problems


def record_all(
    tx: Transaction,
    state: Playbook,
    requests: Sequence[Request],
    found: Found | None = None,
    redacted: Redactions = redacted_digests.NO_REDACTIONS,
) -> tuple[Outcome, ...]:
    """Record the requests of one sender in order; a name that one of them could not keep is known to the later ones."""
    outcomes = []
    renamed: dict[str, str] = {}
    for request in requests:
        if (done := _imported_before(request, state, found)) is None:
            decision = decide(request.action, state, renamed, redacted)
            done = _perform(tx, state, request, decision)
        outcomes.append(done)
        renamed |= outcomes[-1].renamed
    return tuple(outcomes)


def _given_before(action: Action, state: Playbook) -> dict[str, str]:
    """Return the names that an update's texts have, where a program gave them others: it was recorded before."""
    if not isinstance(action, Update):
        return {}
    by_text = {point.text: name for points in (state.gone, state.points) for name, point in points.items()}
    return {wish: by_text[text] for text, wish in action.names.items() if by_text.get(text, wish) != wish}


def _key_of(request: Request) -> str | None:
    """Return what names a delivery: for an import, the file's bytes."""
    return playbook_file.adoption_key(request.action.data) if isinstance(request.action, Import) else request.key


def _imported_before(request: Request, state: Playbook, found: Found | None) -> Outcome | None:
    """Return what became of an import of the project's own playbook.json that was taken in a moment ago."""
    if isinstance(request.action, Import) and found is not None and found.adopted and found.key == _key_of(request):
        return Outcome(1, state.seq, tuple(state.points))
    return None


def _perform(tx: Transaction, state: Playbook, request: Request, decision: Decision) -> Outcome:
    """Record what was decided of one request on the playbook as it stands under the lock."""
    outcome = _record(tx, state, decision, Delivery(request.by, _key_of(request), request.when))
    return attrs.evolve(outcome, renamed=_given_before(request.action, state)) if outcome.repeated else outcome


def _record(tx: Transaction, state: Playbook, decision: Decision, request: Delivery) -> Outcome:
    """Append a decision as one batch and fold it."""
    drafts = [codec.encode(event, request.when) for event in decision.events]
    raw = tx.append(drafts, request.by, request.key)
    if raw is None:
        return Outcome(repeated=True)
    before = dict(state.points)
    fold(PLAYBOOK, codec.decode([raw]), state)
    # What a hand took out or brought back is neither pruned nor added.
    updated = isinstance(decision.events[-1], PlaybookUpdated)
    back = {event.name for event in decision.events if isinstance(event, PointRestored)}
    rated = dict.fromkeys(
        state.merged.get(event.name, event.name) for event in decision.events if isinstance(event, PointRated)
    )
    return Outcome(
        raw.first,
        raw.last,
        tuple(name for name in state.points if name not in before and name not in back),
        tuple(name for name in before if name not in state.points) if updated else (),
        decision.ignored,
        rated=tuple(state.points[name] for name in rated if name in state.points),
        renamed=decision.new_names,
        events=decision.events,
    )


def _render(project: Project, log: JsonlLog, state: Playbook, found: Found) -> None:
    """Write ``playbook.json``; what a hand changed in it meanwhile is taken in first.

    A ledger that only measures says nothing of a playbook, and begins none.
    """
    if not state.stamp[0] and log.head().seq > 1 and not os.path.lexists(project.playbook):
        return

    def catch_up(state: Playbook) -> Playbook:
        return state if log.head().seq <= state.seq else caught_up(log.read, state)

    for _ in range(_EXAMINATIONS):
        if playbook_file.render(project, state, found, log.now().at, catch_up):
            return
        report, waiting = _append(project, log, state, ())
        spool.remove_files(waiting)
        found = report.found
