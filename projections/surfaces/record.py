"""Writing: fold what a decision needs, decide under the lock, append, render. Every verb that writes comes here."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import attrs

from ledger import clock, codec, spool
from ledger.backends.jsonl import JsonlLog
from ledger.decide import Decision, Edit, decide_edit, decide_extraction, facts, read_extraction
from ledger.errors import BadInputError, CannotWriteError, LockHeldError, Problem
from ledger.line import START, Mark
from ledger.names import Naming
from ledger.seeds import read_legacy, seed_events
from projections.fold import fold
from projections.playbook import PLAYBOOK, Playbook
from projections.surfaces import playbook_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ledger.decide import Ignored
    from ledger.log import Log, Transaction
    from ledger.seeds import LegacyItem
    from projections.surfaces.playbook_file import Found
    from projections.surfaces.project import Project


@attrs.frozen
class Request:
    """Something to record as one batch.

    Attributes:
        payload: JSON-ready: an extraction result, with ``names`` (text → name given) where a program has given
            names; or an edit, ``{"base": [...], "found": [...]}``; or ``{"import": FILE_TEXT}``.
        by: Who says so; ``rater`` at least.
        key: What names this delivery for ever; None where it cannot come twice.
        when: When it happened, if not now.
    """

    payload: dict[str, Any]
    by: Mapping[str, str]
    key: str | None = None
    when: str | None = None


@attrs.frozen
class Outcome:
    """What became of a request.

    Attributes:
        seq_from: First sequence number of its batch; None where it was spooled or was there already.
        seq_to: Last one.
        added: Names of the new entries.
        pruned: Names of the entries that it dropped.
        ignored: What counts nothing, and why.
        spooled: Whether it waits to be taken in, because another process held the ledger.
        repeated: Whether its key had been recorded before, so that nothing was added.
        renamed: Name in the payload → the name it got.
        notes: What a person should hear beside it, a line each.
    """

    seq_from: int | None = None
    seq_to: int | None = None
    added: tuple[str, ...] = ()
    pruned: tuple[str, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    spooled: bool = False
    repeated: bool = False
    renamed: Mapping[str, str] = attrs.field(factory=dict)
    notes: tuple[str, ...] = ()


@attrs.frozen
class Report:
    """What a write came to.

    Attributes:
        outcomes: One for each request.
        state: The playbook afterwards; None where everything was spooled.
        found: What stood in ``playbook.json`` and was taken in first.
        problems: What was odd on the way: items of a file, spooled payloads that cannot be read.
        unrendered: Why ``playbook.json`` could not be written; None where it was, or where another writer does it.
    """

    outcomes: tuple[Outcome, ...]
    state: Playbook | None
    found: Found
    problems: tuple[Problem, ...] = ()
    unrendered: str | None = None


def open_log(project: Project) -> JsonlLog:
    """Return the project's ledger; nothing is created yet."""
    return JsonlLog(project.ledger)


def mark_of(state: Playbook) -> Mark:
    """Return the place behind what a state has folded."""
    return Mark(state.seq, state.chain, state.end) if state.seq else START


def current(log: Log, until: int | None = None) -> Playbook:
    """Return the playbook at the head of the ledger, or at an earlier moment."""
    return fold(PLAYBOOK, codec.decode(log.read()), until=until)


def write(project: Project, requests: Sequence[Request]) -> Report:
    """Record requests, each as one batch, and render ``playbook.json``.

    What waits in the spool, and what a hand changed in ``playbook.json``, is taken in first.

    Raises:
        TallybookError: The ledger is damaged, or could not be written.
    """
    for request in requests:
        check(request.payload)
    with closing(open_log(project)) as log:
        state = current(log)
        try:
            report, waiting = _append(project, log, state, requests)
        except LockHeldError:
            if any("import" in request.payload for request in requests):
                raise
            return Report(_spool(project, log, requests), None, playbook_file.Found())
        spool.done(waiting)
        try:
            _render(project, log, state, report.found)
        except CannotWriteError as error:
            # What was recorded is durable; its projection can be written again at any time.
            report = attrs.evolve(report, unrendered=str(error))
    return report


def check(payload: dict[str, Any]) -> None:
    """Refuse what could never be recorded, before anything is opened.

    Raises:
        BadInputError: It is no extraction result, no edit and no import.
    """
    if "import" not in payload and "found" not in payload:
        read_extraction(payload)


def _spool(project: Project, log: JsonlLog, requests: Sequence[Request]) -> tuple[Outcome, ...]:
    """Put requests where the next writer takes them in, so that nobody stands still behind a held lock.

    They stay together in one file: a later one may name an entry that an earlier one adds.
    """
    now = log.now()
    payloads = [{"payload": one.payload, "by": dict(one.by), "key": one.key} for one in requests]
    spool.put(project.ledger, now.at, clock.new_id(now.unix_us), payloads)
    return tuple(Outcome(spooled=True) for _ in requests)


def _append(
    project: Project, log: JsonlLog, state: Playbook, requests: Sequence[Request]
) -> tuple[Report, list[spool.Waiting]]:
    """Append under the lock: the file's changes, the spool, then the requests."""
    with log.transaction() as tx:
        state = fold(PLAYBOOK, codec.decode(tx.read(mark_of(state))), state)
        found = playbook_file.examine(project, state, tx.read)
        if found.events:
            by = {"rater": "import" if found.adopted else "human"}
            _record(tx, state, Decision(found.events), Request({}, by, found.key))
        taken, problems = _take_in_spool(project, tx, state)
        outcomes = perform(tx, state, requests, found)
    return Report(outcomes, state, found, (*found.problems, *problems)), taken


def _take_in_spool(project: Project, tx: Transaction, state: Playbook) -> tuple[list[spool.Waiting], list[Problem]]:
    """Record what waits, each under its own id, so that it counts once even if its file outlives a crash."""
    waiting, problems = spool.waiting(project.ledger)
    taken: list[spool.Waiting] = []
    for one in waiting:
        try:
            requests = [
                Request(sent["payload"], sent["by"], sent["key"] or f"spool:{one.id}:{index}", one.at)
                for index, sent in enumerate(one.requests)
            ]
            for request in requests:
                check(request.payload)
            perform(tx, state, requests)
        except BadInputError as error:
            problems.append(Problem(f"spool/{one.path.name}", f"{error}; it stays there"))
        else:
            taken.append(one)
    return taken, problems


def perform(
    tx: Transaction, state: Playbook, requests: Sequence[Request], found: Found | None = None
) -> tuple[Outcome, ...]:
    """Record requests in order; a name that one of them could not keep is changed in those behind it."""
    outcomes = []
    renamed: dict[str, str] = {}
    for request in requests:
        payload = _translated(request.payload, renamed) if renamed else request.payload
        outcomes.append(_perform(tx, state, attrs.evolve(request, payload=payload), found))
        renamed |= outcomes[-1].renamed
    return tuple(outcomes)


def _translated(payload: dict[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Return a payload with other names for its entries."""
    changed = dict(payload)
    for field in ("evaluations", "base", "found"):
        changed[field] = [
            one | {"name": renamed.get(one["name"], one["name"])} if isinstance(one, dict) and "name" in one else one
            for one in payload.get(field, ())
        ]
    return {field: value for field, value in changed.items() if field in payload}


def _perform(tx: Transaction, state: Playbook, request: Request, found: Found | None = None) -> Outcome:
    """Decide one request on the playbook as it stands under the lock, and record it."""
    payload = request.payload
    if "import" in payload:
        return _import(tx, state, request, found)
    if "found" in payload:
        edit = Edit(facts(payload["base"]), facts(payload["found"]), payload.get("top", ""))
        base = {point.name: point for point in edit.base}
        drift = {
            name: (now.helpful - base[name].helpful, now.harmful - base[name].harmful)
            for name, now in state.points.items()
            if name in base
        }
        decision = decide_edit(edit, state.points, drift, state.high_water)
    else:
        extraction = read_extraction(payload)
        decision = decide_extraction(extraction, state.points, state.high_water, payload.get("names"))
    return _record(tx, state, decision, request)


def _import(tx: Transaction, state: Playbook, request: Request, found: Found | None) -> Outcome:
    """Record a legacy file as seed events; entries whose text stands already are left out."""
    legacy = read_legacy(request.payload["import"], request.payload["source"], state.used)
    key = f"adopt:{legacy.sha256}"
    if found is not None and found.adopted and found.key == key:
        # The file is the project's own playbook.json, and was taken in a moment ago.
        return Outcome(1, state.seq, tuple(state.points))
    standing = {point.text for point in state.points.values()}
    kept = tuple(item for item in legacy.items if item.point.text not in standing)
    decision = Decision(seed_events(attrs.evolve(legacy, items=_renamed(kept, state))))
    return _record(tx, state, decision, attrs.evolve(request, key=key))


def _renamed(items: Sequence[LegacyItem], state: Playbook) -> tuple[LegacyItem, ...]:
    """Give new names to entries whose names were used in this ledger before: a name means one entry for ever."""
    naming = Naming({*state.used, *(item.point.name for item in items)})
    naming.highest = state.high_water
    naming.given = set(state.used)
    return tuple(
        attrs.evolve(item, point=attrs.evolve(item.point, name=naming.give(item.point.name))) for item in items
    )


def _record(tx: Transaction, state: Playbook, decision: Decision, request: Request) -> Outcome:
    """Append a decision as one batch and fold it."""
    drafts = [codec.encode(event, request.when) for event in decision.events]
    raw = tx.append(drafts, request.by, request.key)
    if raw is None:
        return Outcome(repeated=True)
    before = dict(state.points)
    fold(PLAYBOOK, codec.decode([raw]), state)
    return Outcome(
        raw.first,
        raw.last,
        tuple(name for name in state.points if name not in before),
        tuple(name for name in before if name not in state.points),
        decision.ignored,
        renamed=decision.renamed,
    )


def _render(project: Project, log: JsonlLog, state: Playbook, found: Found) -> None:
    """Write ``playbook.json``; a hand that changed it meanwhile is taken in by the next command."""
    if found.unreadable and project.playbook.exists():
        playbook_file.set_aside(project, log.now().at)

    def catch_up(state: Playbook) -> Playbook:
        if log.head().seq <= state.seq:
            return state
        return fold(PLAYBOOK, codec.decode(log.read(mark_of(state))), state)

    playbook_file.render(project, state, found.sha256, catch_up)
