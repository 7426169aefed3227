"""The write path: decide under the lock, encode, append, fold, render; or put the request into the spool.

Every verb and library call that changes the playbook by requests passes them to `write`. Hooks that note what a session
was given or cited, measurements, redactions, syncs and copies of other ledgers append through the log itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
import os
from typing import Any

import attrs

from tallybook.ledger import clock, codec, errors, events
from tallybook.ledger.decisions.update import Decision, IgnoredItem, RefusedText
from tallybook.ledger.events import Entry
from tallybook.ledger.line import RawBatch, normalize_key
from tallybook.ledger.log import JsonlLog, PreviewTransaction, Transaction
from tallybook.ledger.records import Batch
from tallybook.ledger.search import Delivery
from tallybook.ledger.sharing.numbers import last_shown
from tallybook.ledger.storage import caches, redacted_digests, redaction, spool
from tallybook.projections.history.votes import VOTES, Votes
from tallybook.projections.playbook.fold import fold
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces.history import checkpoints, playbook_file, reading
from tallybook.projections.surfaces.history.playbook_file import ExaminedFile
from tallybook.projections.surfaces.history.reading import Opened, catch_up, has_book
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing.requests import (
    VOTES_FORM,
    PlainEvents,
    Request,
    Update,
    count_votes,
    request_to_json,
    requests_from_json,
)

# Another program may change playbook.json again while this one takes in its last change.
_RENDER_ATTEMPTS = 5
# Events that have no effect where the `PlaybookUpdated` of their batch states no addition and no rating.
_PARTS_OF_UPDATE = (events.PointRated, events.PointNoted, events.PlaybookUpdated)
_HELD = "another process holds the ledger; spooled, the next command that writes records it"
_MISSING = "lines of the shared book are missing here; spooled, `tallybook sync` fetches them and records it"


@attrs.frozen
class Outcome:
    """The outcome of one request.

    Attributes:
        seq_from: First event number of its batch, of the first one if its key was recorded before; None if it was
            spooled, or if nothing of it counts.
        seq_to: Last event number of its batch.
        added: Names of the new entries.
        pruned: Names of the entries that its update pruned.
        ignored: The parts that have no effect, each with the reason.
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
    events: tuple[events.Event, ...] = ()
    numbers: tuple[int, ...] = ()
    mine: Outcome | None = None

    def json(self) -> dict[str, Any]:
        """Return it as ``--json`` prints it, with the outcome in the person's own playbook as ``mine``."""
        fields = {field: getattr(self, field) for field in ("seq_from", "seq_to", "added", "pruned")}
        ignored, rated = ([attrs.asdict(part) for part in group] for group in (self.ignored, self.rated))
        fields |= {"ignored": ignored, "spooled": self.spooled, "rated": rated, "repeated": self.repeated}
        return fields | ({"mine": self.mine.json()} if self.mine else {})


def write(project: Project, requests: Sequence[Request], *, cold: bool = False, begin: bool = False) -> Write:
    """Record requests, each as one batch, and render ``playbook.json``.

    A manual edit of ``playbook.json`` and the spool are recorded first. Without a ledger and with nothing to record,
    no file is created.

    Args:
        project: The project.
        requests: The requests, in order.
        cold: Whether to fold the whole history without any checkpoint.
        begin: Whether to create the ledger even if there is nothing to record.

    Raises:
        TallybookError: The ledger is damaged, or could not be written.
    """
    with closing(Opened(project)) as opened:
        result = Write(opened, problems=[problem for request in requests for problem in request.masked])
        is_new = not opened.log.exists()
        if is_new:
            if not begin and not _begins(opened, requests):
                result.state = opened.playbook()
                return result
            result.problems += former_ledger(project)
        if redaction.read_pending(project.ledger) is not None:
            from tallybook.projections.surfaces.writing import erasure

            # If it cannot be finished now, readers still leave the redacted texts out.
            with suppress(errors.TallybookError):
                erasure.finish(project, opened.log)
        if not result.append_or_spool(requests, cold=cold):
            return result
        result.render()
    if is_new:
        checkpoints.begin(project.ledger)
    if requests:
        checkpoints.sweep(project.ledger)
    return result


def former_ledger(project: Project) -> tuple[errors.Problem, ...]:
    """Return a line about the ledger that was in a project's place and is gone; none where none is known."""
    if not caches.knows_former(project.ledger):
        return ()
    places = "in other worktrees and clones, in git's history if it was tracked, in a shared book, or in a backup"
    what = f"the ledger that was here is gone, and a new one begins; a copy can be {places}"
    return (errors.Problem(str(project.ledger), f"{what}: `tallybook import --ledger COPY` brings it in"),)


def _begins(opened: Opened, requests: Sequence[Request]) -> bool:
    """Return whether requests, spool or ``playbook.json`` give a project its first events.

    Raises:
        TallybookError: A request is refused: the refusal that the transaction would bring, raised here because a
            transaction creates the ledger.
    """
    if spool.read_files(opened.project.ledger) != ([], []):
        return True
    state = opened.playbook()
    file = playbook_file.examine(opened, state)
    if not requests:
        return file.sha256 is not None
    state = playbook_file.with_edit(state, file, opened.log.now().at)
    try:
        for request in requests:
            request.decide(state, redacted_digests.NO_REDACTIONS, {})
    except errors.TallybookError:
        # Where another writer began the ledger meanwhile, the transaction decides with its events.
        if not opened.log.exists():
            raise
    return True


@attrs.define
class Write:
    """What a write appends under the lock, and its result.

    Attributes:
        opened: The project.
        state: The playbook with all that was appended; None if all requests were spooled.
        votes: The votes before what was appended; None where they are not read yet.
        file: ``playbook.json`` as it was before; a manual edit of it was appended first.
        outcomes: One for each request.
        problems: Items with masked secrets, unusable items of ``playbook.json``, spooled payloads that cannot be read.
        unrendered: Why ``playbook.json`` could not be written; None if it was, or if another writer writes it.
    """

    opened: Opened
    state: Playbook | None = None
    votes: Votes | None = None
    file: ExaminedFile = attrs.field(factory=ExaminedFile)
    outcomes: tuple[Outcome, ...] = ()
    problems: list[errors.Problem] = attrs.field(factory=list)
    unrendered: Exception | None = None
    _batches: list[Batch] = attrs.field(factory=list)

    def append_or_spool(self, requests: Sequence[Request], *, cold: bool) -> bool:
        """Append all, or put the requests into the spool; return whether they were appended.

        Raises:
            TallybookError: Neither can be done.
        """
        opened, state = self.opened, None
        try:
            state = opened.playbook(cold=cold)
            # Before the lock: after an undo or a redaction, the votes are folded from the first event on.
            if any(request.has_votes and isinstance(request.decide, Update) for request in requests):
                self.votes = reading.fold_view(VOTES_FORM, opened.log)
            self.append_under_lock(state, requests)
        except (errors.LockHeldError, errors.MissingLinesError) as error:
            # No agent waits for a lock that is held: its payload waits in the spool.
            self.outcomes, self.state = _spool_refused(opened, requests, state, error), None
            return False
        return True

    def append_under_lock(self, state: Playbook, requests: Sequence[Request]) -> None:
        """Append the manual edit of ``playbook.json``, the spool, then the requests."""
        with self.opened.log.transaction() as tx:
            # Another process appended after the folds that were made without the lock.
            if (tx.position.seq, tx.position.chain) != (state.seq, state.chain):
                state, self.votes = catch_up(self.opened.log, state), None
            self.state, rewrites = state, state.rewrites
            spool_files = self.append_pending(tx, state)
            self.outcomes += self.append_requests(tx, state, requests)
        if spool_files:
            # After the acknowledgement: a file that survives a crash is refused by its keys, so no payload is lost.
            spool.remove_files(spool_files)
        # An undo changes how earlier events read, so the state of before cannot simply be folded on.
        if has_book(self.opened.log) or state.rewrites != rewrites:
            self.state = self.opened.playbook()

    def append_pending(self, tx: Transaction, state: Playbook) -> list[spool.SpoolFile]:
        """Append the manual edit of ``playbook.json``, and the spool; return the spool files that were appended."""
        # Those count that the ledger has now that it is locked.
        self.opened.redactions = redacted_digests.load(self.opened.project.ledger)
        state.prefix = self.opened.prefix
        self.file = playbook_file.examine(self.opened, state)
        self.problems += self.file.problems
        if self.file.events:
            by = {"rater": "import" if self.file.adopted else "human"}
            self._append_decision(
                tx, state, Decision(self.file.events), Request(PlainEvents(self.file.events), by, self.file.key)
            )
        # Who emptied the file by mistake would not see it otherwise.
        if removed := sum(isinstance(event, events.PointRemoved) for event in self.file.events):
            message = f"a manual edit took out {removed} of its entries; `tallybook show --gone` lists them"
            self.problems.append(errors.Problem("playbook.json", message))
        files, problems = spool.read_files(self.opened.project.ledger)
        self.problems += problems
        return [file for file in files if self._append_spool_file(tx, state, file)]

    def _append_spool_file(self, tx: Transaction, state: Playbook, file: spool.SpoolFile) -> bool:
        """Append a spool file, each payload under its own key, so that it counts once even if the file survives."""
        try:
            log = self.opened.log
            names_since = log.names_since if has_book(log) else None
            requests = requests_from_json(file.requests, f"spool:{file.id}", file.at, names_since)
            tx.look_up(request.key for request in requests if request.key is not None and not request.digest)
            outcomes = self.append_requests(tx, state, requests)
        except (errors.BadInputError, errors.MissingLinesError) as error:
            # A file that cannot be recorded stays in place and costs none of the others.
            self.problems.append(errors.Problem(f"spool/{file.name}", f"{error}; it stays there"))
            return False
        # Another version may have spooled it without masking.
        self.problems += [problem for request in requests for problem in request.masked]
        refused = [part for outcome in outcomes for part in outcome.ignored if isinstance(part, RefusedText)]
        self.problems += [errors.Problem(f"spool/{file.name}: {part.item}", part.reason) for part in refused]
        return True

    def append_requests(self, tx: Transaction, state: Playbook, requests: Sequence[Request]) -> tuple[Outcome, ...]:
        """Append the requests of one sender in order; later ones may use a name that an earlier one had to change."""
        outcomes = []
        renamed: dict[str, str] = {}
        for request in requests:
            if self.file.adopted and self.file.key == request.key:
                # The project's own playbook.json, which this transaction has just adopted.
                outcomes.append(Outcome(1, state.seq, tuple(state.entries)))
                continue
            delivery = None if request.key is None else tx.find_delivery(request.key, request.digest)
            if delivery is not None:
                refuse_other_payload(request, delivery)
                wishes = request.decide.names if isinstance(request.decide, Update) else {}
                # Where the program gave a text another name than the ledger did.
                by_text = {entry.text: entry.name for entry in (*state.gone.values(), *state.entries.values())}
                names = {wish: by_text[text] for text, wish in wishes.items() if by_text.get(text, wish) != wish}
                outcome = Outcome(delivery.first, delivery.last, repeated=True, renamed=names)
            else:
                # Where it is refused, nothing of the transaction is appended.
                decision = request.decide(state, self.opened.redactions, renamed)
                if request.has_votes:
                    decision = count_votes(decision, request, state, self._read_votes)
                outcome = self._append_decision(tx, state, decision, request)
            outcomes.append(outcome)
            renamed |= outcome.renamed
        return tuple(outcomes)

    def _read_votes(self) -> Votes:
        """Return the votes so far; those of the spool, and after another process appended, are read here."""
        if self.votes is None:
            # Opened anew, because the ledger may have grown between the opening of this one and its lock.
            self.votes = reading.fold_view(VOTES_FORM, reading.open_log(self.opened.project))
        # No reader sees what was appended before the transaction ends.
        fold(VOTES, self._batches, self.votes)
        self._batches.clear()
        return self.votes

    def _append_decision(self, tx: Transaction, state: Playbook, decision: Decision, request: Request) -> Outcome:
        """Append a decision as one batch, and fold it."""
        decided = decision.events
        if not decided:
            return Outcome(ignored=decision.ignored)
        drafts = [codec.encode(event, request.when) for event in decided]
        # The corrected delivery of one that had no effect is to count.
        updates = [event for event in decided if isinstance(event, events.PlaybookUpdated)]
        has_effect = any(event.added or event.rated for event in updates) or not all(
            isinstance(event, _PARTS_OF_UPDATE) for event in decided
        )
        key = None if request.digest and not has_effect else request.key
        raw = tx.append(drafts, request.by, key, request.digest)
        if raw is None:
            return Outcome(repeated=True)
        before = dict.fromkeys(state.entries)
        batch = codec.join(raw, decided)
        fold(PLAYBOOK, [batch], state)
        self._batches.append(batch)
        after = dict.fromkeys(state.entries)
        restored = {event.name for event in decided if isinstance(event, events.PointRestored)}
        # Only an update prunes; what a manual edit takes out is not pruned.
        pruned = tuple(name for name in before if name not in after) if updates else ()
        rated = dict.fromkeys(
            state.merged.get(event.name, event.name)
            for event in decided
            if isinstance(event, events.PointRated) and event.rating in events.RATINGS
        )
        # A line an event, but for long texts and what the names of a shared book mean.
        is_plain = len(raw.lines) == len(decided)
        records = () if is_plain else batch.records[: len(decided)]
        return Outcome(
            seq_from=raw.first,
            seq_to=raw.last if is_plain else last_shown(raw),
            added=tuple(name for name in after if name not in before and name not in restored),
            pruned=pruned,
            ignored=decision.ignored,
            rated=tuple(state.entries[name] for name in rated if name in after),
            renamed=decision.new_names,
            events=decided,
            numbers=tuple(record.seq for record in records) or tuple(range(raw.first, raw.last + 1)),
        )

    def render(self) -> None:
        """Write ``playbook.json``; a manual edit made in the meantime is recorded first.

        A ledger with nothing but measurements creates no playbook.
        """
        if self.state is None:
            return
        is_empty = not self.state.stamp[0] and self.opened.log.head().seq > 1
        if is_empty and not os.path.lexists(self.opened.project.playbook):
            return
        try:
            for _ in range(_RENDER_ATTEMPTS):
                if playbook_file.render(self.opened, self.state, self.file):
                    break
                self.append_under_lock(self.state, ())
        except (errors.TallybookError, OSError) as error:
            # The events are durable; the file can be rendered again at any time.
            self.unrendered = error


def preview(project: Project, log: JsonlLog) -> list[RawBatch]:
    """Return the batches that the next write appends first: the manual edit of ``playbook.json``, and the spool."""
    tx, opened = PreviewTransaction(log), Opened(project)
    Write(opened).append_pending(tx, opened.playbook())
    return tx.appended


def refuse_other_payload(request: Request, delivery: Delivery | None) -> None:
    """Refuse a delivery whose caller used its key for another payload.

    Args:
        request: The delivery.
        delivery: What was recorded under its key; None where nothing was.

    Raises:
        UsedKeyError: It had another payload.
    """
    if request.key and delivery and request.digest and delivery.payload not in {"", request.digest}:
        raise errors.UsedKeyError(normalize_key(request.key), delivery.first, delivery.last)


# In the spool


def _spool_refused(
    opened: Opened, requests: Sequence[Request], state: Playbook | None, error: errors.TallybookError
) -> tuple[Outcome, ...]:
    """Put requests into the spool that the ledger does not take now, if they can wait there; return their outcomes.

    They stay together in one file, because a later one may name an entry that an earlier one adds. A request that the
    ledger could never record is refused here as well.

    Args:
        opened: The project.
        requests: The requests.
        state: The playbook; None where lines of the shared book are missing.
        error: Why they are not taken.

    Raises:
        TallybookError: ``error``, because they cannot wait.
        BadInputError: A rating names an entry that the last rendering does not show, so it is not known which it is.
    """
    project, log = opened.project, opened.log
    known = playbook_file.last_rendering(project, edited=True) if state is None else state
    updates = [request.decide for request in requests if isinstance(request.decide, Update)]
    is_held = isinstance(error, errors.LockHeldError)
    if known is None or len(updates) < len(requests) or not (requests or is_held):
        raise error
    if not requests:
        return ()
    if is_held and state is not None and any(update.is_typed for update in updates):
        # The process with the lock may be the one that imports the entries, or the next writer will.
        known = catch_up(log, state)
        known = playbook_file.with_edit(known, playbook_file.examine(opened, known), log.now().at)
    now = log.now()
    _refuse_used_keys(project, log, requests)
    try:
        # The next writer decides them on a later playbook, where a name as typed could mean another entry.
        exact = [update.with_exact_names(known) for update in updates]
        for request, update in zip(requests, exact, strict=True):
            decision = update(known, redacted_digests.NO_REDACTIONS, {})
            drafts = [codec.encode(event, request.when) for event in decision.events]
            spool.check(drafts, request.by, request.key, now.at)
    except errors.UnknownEntryError as unknown:
        if is_held:
            raise
        what = "is not in the last rendering of playbook.json, and lines of the shared book are missing here"
        raise errors.BadInputError(unknown.name, what, "run `tallybook sync` first; nothing was recorded") from unknown
    waiting = [attrs.evolve(request, decide=update) for request, update in zip(requests, exact, strict=True)]
    # A sync can give pending entries other names.
    rows = [request_to_json(request, known.seq if has_book(log) else 0) for request in waiting]
    spool.put(project.ledger, now.at, clock.new_id(now.unix_us), rows)
    return tuple(Outcome(spooled=True, spooled_why=_HELD if is_held else _MISSING) for _ in requests)


def _refuse_used_keys(project: Project, log: JsonlLog, requests: Sequence[Request]) -> None:
    """Refuse a delivery whose key the ledger or the spool has with another payload.

    Raises:
        UsedKeyError: One has it.
    """
    rows = list(spool.read_requests(project.ledger))
    for request in requests:
        if request.digest and request.key is not None:
            refuse_other_payload(request, log.find_delivery(request.key))
            same_key = (row.get("payload") for row in rows if row.get("key") == request.key)
            # A payload of Tallybook's own, or of an earlier version, has no digest: under its key the first delivery
            # counts.
            if any(payload not in (None, request.digest) for payload in same_key):
                raise errors.UsedKeyError(normalize_key(request.key))
