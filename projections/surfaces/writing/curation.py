"""Curation: changes that a person makes, that an agent proposes and a person accepts or rejects, and undo."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import events
from tallybook.ledger.codec import decode
from tallybook.ledger.decisions.curation import CURATIONS, REDACT, Curation, check_reason, make_change
from tallybook.ledger.decisions.update import Decision
from tallybook.ledger.errors import EXIT_NO, BadInputError, MissingLinesError, NothingToDoError, TallybookError
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.playbook_constants import IDS_A_LINE
from tallybook.ledger.records import Batch, EventRecord
from tallybook.ledger.sharing.numbers import own_id
from tallybook.ledger.storage import redacted_digests
from tallybook.ledger.storage.redacted_digests import Redactions
from tallybook.projections.history.entry_history import graveyard
from tallybook.projections.history.event_rows import summary
from tallybook.projections.history.review import LESSON_VERB, PROPOSALS, Proposals
from tallybook.projections.playbook.fold import UNDOABLE, UndoneEvent, fold, fold_history, history
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces.agents.table import find_agent, require_person
from tallybook.projections.surfaces.history import moments, playbook_file, reading
from tallybook.projections.surfaces.history.moments import (
    find_event,
    find_session_span,
    find_session_spans,
    find_writers,
    make_containment_test,
)
from tallybook.projections.surfaces.history.stories import STATUS_FORM
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, pair
from tallybook.projections.surfaces.writing import record as recording
from tallybook.projections.surfaces.writing.record import Outcome
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from tallybook.projections.surfaces.writing.redact import RedactionTarget

_UNDOABLE: Final = UNDOABLE - {events.EventsVoided}
_CHANGES: Final = _UNDOABLE - {events.PointNoted}
_ASKED: Final = b'"kind":"lift.asked"'
_CLOSES: Final = (events.PlaybookUpdated, events.PlaybookEdited)
_REVERSALS: Final = (events.EventsVoided, events.EventRedacted)
# No event number has more digits.
_SEQ_DIGITS: Final = 18


@attrs.frozen
class UndoResult:
    """The result of an undo.

    Attributes:
        outcome: The outcome of the request.
        events: Each undone event, as (event number, summary).
        redo: The command that brings the events back.
        mine: The result in the person's own playbook; None where nothing was undone there.
    """

    outcome: Outcome
    events: tuple[tuple[int, str], ...]
    redo: str = ""
    mine: UndoResult | None = None


def curate(project: Project, what: Curation, by: Mapping[str, str]) -> Outcome:
    """Record a curation of an entry.

    Raises:
        NothingToDoError: It is so already, or cannot be done to the entry in its present state.
    """
    try:
        return commands.record_request(project, Request(what, by))
    except NothingToDoError as error:
        if what.verb == "restore":
            _refuse_restore(project, error.name)
        raise


def _refuse_restore(project: Project, name: str) -> None:
    """Name the command that brings back an entry which was merged, or whose adding was undone.

    Raises:
        NothingToDoError: There is one.
    """
    log = reading.open_log(project)
    state = reading.current(log)
    if name in state.entries or (name in state.gone and name not in state.merged):
        return
    why: tuple[str, int] | None = None
    for record in (record for batch in history(lambda: decode(log.read())) for record in batch.records):
        event = record.event
        if isinstance(event, events.PointMerged) and name in event.merged:
            why = f"was merged into {event.name} by event {record.seq}", record.seq
        elif isinstance(event, UndoneEvent) and isinstance(event.event, events.MAKERS) and event.event.name == name:
            why = f"was undone by event {event.by.seq}", event.by.seq
        elif isinstance(event, events.MAKERS) and event.name == name:
            why = None
    if why is not None:
        raise NothingToDoError(name, why[0], f"run: {_command(why[1], personal.option(project))}")


def undo(project: Project, target: str | None, session: str | None, reason: str, by: Mapping[str, str]) -> UndoResult:
    """Undo the last change, an event or its batch by number or id, or all of a session so far.

    The number of an event about one entry means that event, any other its whole batch.

    Raises:
        BadInputError: The event is of a kind that cannot be undone, there is no such session, or the reason could not
            be recorded.
        NothingToDoError: There is nothing to undo, it is undone already, or the last change is an import, an undo or
            a redaction.
    """
    check_reason(reason)
    mine = None if session is None else personal.find(project)
    if session is not None and mine is not None:
        with personal.name_damage(mine):
            own = set(find_session_spans(reading.open_log(mine), session))
            found = own.union(find_session_spans(reading.open_log(project), session))
            # The only session with this beginning that the person's own playbook has.
            whole = session if session in found or len(found) != 1 else next(iter(found))
            if whole in own:
                # Damage anywhere in it is found before the project's half is undone.
                deque(reading.open_log(mine).read(), maxlen=0)
        if whole in own:
            return _undo_in_both(project, mine, whole, reason, by)
    return _undo(project, target, session, reason, by)


def _undo_in_both(project: Project, mine: Project, session: str, reason: str, by: Mapping[str, str]) -> UndoResult:
    """Undo a session in both ledgers; one that has nothing of it to undo, or no more, is left as it is.

    Raises:
        NothingToDoError: Neither has anything to undo.
    """
    # A crash may have left a personal batch of the session unwritten, which would otherwise come after the undo.
    pair.finish(mine)
    done, problems = [], []
    for owner in (project, mine):
        try:
            done.append(_undo(owner, None, session, reason, by))
        except (BadInputError, NothingToDoError) as error:
            done.append(UndoResult(Outcome(), ()))
            problems.append(error)
    theirs, own = done
    if own.events:
        return attrs.evolve(theirs, mine=own, redo=" && ".join(filter(None, (theirs.redo, own.redo))))
    if theirs.events:
        return theirs
    if isinstance(problems[0], NothingToDoError):
        raise problems[0]
    raise NothingToDoError(f"session {session}", "has nothing to undo any more", "see `tallybook log --mine`")


def _undo(project: Project, target: str | None, session: str | None, reason: str, by: Mapping[str, str]) -> UndoResult:
    log, option = _prepare_log(project), personal.option(project)
    batches = history(lambda: decode(log.read()))
    is_of_session = session is not None
    if session is not None:
        session = find_session_span(log, session, f"session {session}").session
        records = _records_of(batches, session, option)
        # In a shared book the session goes on elsewhere, so the undo names what it undoes.
        session = None if reading.has_book(log) else session
    elif target is not None:
        records = _find_named(batches, find_event(log, target), target, option)
    else:
        records = _last_change(log, batches, option)
    if _is_of_lift(log, records):
        require_person("undo of a question of lift", by.get("rater"))
    done = undo_events(project, records, reason, by, session)
    # Of a session both halves are undone.
    notes = (*done.outcome.notes, *(() if is_of_session else _note_other_half(project, records)))
    return attrs.evolve(done, outcome=attrs.evolve(done.outcome, notes=notes))


def _is_of_lift(log: JsonlLog, records: Sequence[EventRecord]) -> bool:
    """Return whether undoing events begins or ends that something is withheld, by an undo of an undo too."""
    ids: set[str] = set()
    sessions: set[str | None] = set()
    for batch in decode(log.read()) if log.may_contain(_ASKED) else ():
        for record in batch.records:
            event = record.event
            if isinstance(event, events.LiftAsked | events.LiftStopped):
                sessions.add(record.by.session)
                ids.add(record.id)
            elif isinstance(event, events.EventsVoided) and (
                not ids.isdisjoint(event.ids) or (event.session and event.session in sessions)
            ):
                ids.add(record.id)
    return not ids.isdisjoint(record.id for record in records)


def _prepare_log(project: Project) -> JsonlLog:
    """Return the ledger, with the spool and a manual edit recorded: they came first, and may be the last change."""
    log = reading.open_log(project)
    if log.head().seq:
        recording.write(project, [])
    return reading.open_log(project)


def find_by_writer(project: Project, writer: str, since: str | None) -> list[EventRecord]:
    """Return the events of a machine of the shared book that can be undone, those after a moment.

    Raises:
        BadInputError: There is no such writer or moment.
        NothingToDoError: It has none.
    """
    log = _prepare_log(project)
    writers = find_writers(log, writer, "--writer")
    moment = None if since is None else moments.find(project, since, "--since", log)
    is_earlier = make_containment_test(moment) if moment is not None and reading.has_book(log) else lambda _: False
    records = [
        record
        for batch in history(lambda: decode(log.read()))
        for record in batch.records
        if record.by.writer in writers and type(record.event) in _UNDOABLE and not is_earlier(record)
    ]
    if not records:
        raise NothingToDoError(f"writer {writer}", "has nothing to undo")
    return records


def make_undo(ids: Sequence[str], session: str | None = None, reason: str = "") -> PlainEvents:
    """Return the undoing of events by their ids, or of all events of a session so far."""
    # Each event names as many ids as a line can hold.
    parts = [tuple(ids[begin : begin + IDS_A_LINE]) for begin in range(0, len(ids), IDS_A_LINE)] or [()]
    return PlainEvents(tuple(events.EventsVoided(part, session, reason) for part in parts))


def undo_events(
    project: Project, records: Sequence[EventRecord], reason: str, by: Mapping[str, str], session: str | None = None
) -> UndoResult:
    """Undo events by their ids, or by the session of which they are all, in one batch.

    Raises:
        BadInputError: The reason could not be recorded.
        RedactedTextError: The reason was redacted.
    """
    check_reason(reason)
    ids = () if session else [record.id for record in records]
    outcome = commands.record_request(project, Request(make_undo(ids, session, reason), by))
    rows = tuple((record.seq, summary(record.event)) for record in records)
    if (seq := outcome.seq_from) is None:
        return UndoResult(outcome, rows)
    outcome = attrs.evolve(outcome, notes=(*outcome.notes, *_note_pruned(project, records)))
    return UndoResult(outcome, rows, _command(seq, personal.option(project)))


def _note_pruned(project: Project, records: Sequence[EventRecord]) -> Iterator[str]:
    """Yield a note for each entry of undone events that is pruned all the same, as by a rating that counts only now."""
    names = {getattr(record.event, "name", "") for record in records}
    if names.isdisjoint(reading.current(reading.open_log(project)).pruned):
        return
    option = personal.option(project)
    for row in graveyard(playbook_file.fold_as_of(project, STATUS_FORM).state):
        if row["name"] in names and row["status"] == "pruned":
            seq = row["event"]["seq"]
            hint = f"`{_command(seq, option)}` or `tallybook restore {row['name']}{option}` brings it back"
            yield f"{row['name']} is still pruned, by event {seq}; {hint}"


def _note_other_half(project: Project, records: Sequence[EventRecord]) -> Iterator[str]:
    """Yield a note for each undone batch of which the person's own playbook has a part that still counts."""
    mine = personal.find(project)
    keys = [record.key for record in records if record.key]
    if mine is None or not keys:
        return
    # The undo is recorded, whatever is wrong there.
    with suppress(OSError, TallybookError):
        log = reading.open_log(mine)
        parts = {delivery.last for key in keys if (delivery := log.find_delivery(key)) is not None}
        for record in (batch.records[-1] for batch in history(lambda: decode(log.read())) if batch.last in parts):
            if type(record.event) in UNDOABLE:
                what = "the same command also changed your own playbook, which is not undone"
                yield f"{what}; run: {_command(record.seq, personal.option(mine))}"


def _command(seq: int, option: str) -> str:
    return f"tallybook undo {seq}{option}"


def _records_of(batches: Iterator[Batch], session: str, option: str) -> list[EventRecord]:
    """Return the events of a session that can be undone."""
    records = [record for batch in batches if batch.may_contain_text(session) for record in batch.records]
    own = [record for record in records if record.by.session == session]
    if records := [record for record in own if type(record.event) in _UNDOABLE]:
        return records
    undoing = max((record.event.by.seq for record in own if isinstance(record.event, UndoneEvent)), default=None)
    if undoing is None:
        raise NothingToDoError(f"session {session}", "has nothing to undo")
    raise NothingToDoError(f"session {session}", f"was undone by event {undoing}", f"run: {_command(undoing, option)}")


def _last_change(log: JsonlLog, batches: Iterator[Batch], option: str) -> list[EventRecord]:
    """Return the events to undo of the last batch that changed the playbook or a score.

    Args:
        log: The ledger; of a shared history only the batches of this machine count.
        batches: History.
        option: What commands need, as ``personal.option``.
    """
    playbook, known = PLAYBOOK.start(), None
    if reading.has_book(log):
        # They are in the order of its own ledger, and may rate entries of other machines.
        places = {record.id: record.seq for batch in decode(log.own.read()) for record in batch.records}
        own = [batch for batch in batches if own_id(batch.records[0].id) in places]
        batches = iter(sorted(own, key=lambda batch: places[own_id(batch.records[0].id)]))
        known = log.playbook().used
    last = before = candidate = None
    for batch in batches:
        before_it = set(playbook.entries)
        fold(PLAYBOOK, [batch], playbook)
        names = known or before_it.union(playbook.entries, playbook.merged)
        is_change = _is_change(batch, names) or len(playbook.entries) != len(before_it)
        if is_change or _has(batch, *_REVERSALS):
            last, before = batch, candidate
        if is_change:
            candidate = batch
    if last is None:
        raise NothingToDoError("the ledger", "has nothing to undo")
    # An old playbook is not imported only to be undone at once, and a repeated undo does not walk back.
    if last is candidate and not _has(last, events.PlaybookAdopted):
        return [record for record in last.records if type(record.event) in _UNDOABLE]
    raise _refusal(last, before, option)


def _is_change(batch: Batch, names: Collection[str]) -> bool:
    """Return whether a batch changed the playbook or a score.

    An empty update or edit does not, nor does a rating that does not count.
    """

    def is_change(event: object) -> bool:
        if isinstance(event, _CLOSES):
            return bool(getattr(event, "top", ""))
        if isinstance(event, events.PointRated):
            return event.name in names and event.rating in events.RATINGS
        return type(event) in _CHANGES

    return any(map(is_change, batch.events))


def _has(batch: Batch, *kinds: type[events.Event]) -> bool:
    return any(isinstance(event, kinds) for event in batch.events)


def _refusal(last: Batch, before: Batch | None, option: str) -> NothingToDoError:
    """Return why plain undo leaves the last change alone, with the commands that a person may want."""
    first = last.records[0].seq
    hints = [f"to undo {_describe(before, option)}"] if before is not None else ["nothing before it can be undone"]
    if _has(last, events.PlaybookAdopted):
        what = f"is an import, event {first}, which needs its number"
        hints.insert(0, f"to undo it, run: {_command(first, option)}")
    elif _has(last, events.EventsVoided):
        what = f"is itself an undo, event {first}"
        hints.insert(0, f"to bring back what it undid, run: {_command(first, option)}")
    else:
        what = f"is a redaction, event {first}, which cannot be undone"
    return NothingToDoError("undo", f"nothing was changed: the last change {what}", "; ".join(hints))


def _describe(batch: Batch, option: str) -> str:
    """Return a batch in words, with the command that undoes it."""
    records = [record for record in batch.records if type(record.event) in _UNDOABLE]
    record = next(
        (record for record in reversed(records) if not is_of_entry(events.KIND_OF[type(record.event)])), records[0]
    )
    # The event that ends an update repeats what the others say.
    others = len(records) - 2 if isinstance(record.event, _CLOSES) else 0
    more = f" and {others:,} more" if others > 0 else ""
    return f"event {record.seq} ({summary(records[0].event)}{more}), run: {_command(record.seq, option)}"


def is_of_entry(kind: str) -> bool:
    """Return whether events of a kind are about one entry, and so can be undone without the rest of their batch."""
    return kind.startswith("point.")


def _find_named(batches: Iterator[Batch], target: str, typed: str, option: str) -> list[EventRecord]:
    """Return the events to undo for a number or an id: an event about an entry alone, any other with its batch.

    Args:
        batches: History.
        target: The number or the id.
        typed: What an error calls it.
        option: What commands need, as ``personal.option``.

    Raises:
        BadInputError: There is no such event, or it is of a kind that cannot be undone.
        NothingToDoError: It is undone already.
    """
    number, end = int(target) if target.isdecimal() and len(target) <= _SEQ_DIGITS else 0, 0
    for batch in batches:
        may_be, end = end < number <= batch.last or batch.may_contain_ids({target}), batch.last
        for record in batch.records if may_be else ():
            if target not in {str(record.seq), record.id}:
                continue
            if isinstance(record.event, UndoneEvent):
                by = record.event.by.seq
                hint = f"run: {_command(by, option)}"
                raise NothingToDoError(f"event {record.seq}", f"was undone by event {by}", hint)
            if type(record.event) not in UNDOABLE:
                what = "is not an event of the playbook or of a score"
                raise BadInputError(f"event {record.seq}", what, "nothing was recorded")
            # One rating of an update can be wrong, but nobody wants the end of an update or the head of an import
            # undone alone.
            is_alone = is_of_entry(events.KIND_OF[type(record.event)])
            return [record] if is_alone else [other for other in batch.records if type(other.event) in UNDOABLE]
    raise BadInputError(f"event {typed}", "is not in the ledger", f"see `tallybook log{option}`")


# Proposals

# A pin is a person's decision, and so is its end.
PERSONS_ONLY = frozenset({"unpin"})
"""Verbs of curation that an agent can only propose."""
OF_PROTECTED = frozenset({"retire", "reword", "merge"})
"""Verbs that an agent can only propose where they change a protected entry."""


_BY_NUMBER: Final = frozenset({REDACT, LESSON_VERB})
"""Verbs of proposals that a person accepts by their number: after seeing the whole text, or because of no way back."""


class ProposedError(TallybookError):
    """What an agent typed became a proposal."""

    exit_code = EXIT_NO


@attrs.frozen
class PersonAnswer:
    """A person's decision about a proposal, or about entries in a review.

    Attributes:
        event: The decision.
        wish: The change that it makes, a person's or a curator's; None where it makes none.
    """

    event: events.ProposalDecided | events.PointReviewed
    wish: Curation | events.PointProposed | None = None

    def __call__(self, state: Playbook, redactions: Redactions, renamed: Mapping[str, str]) -> Decision:
        """Return the decision and the events of the change, in one batch.

        Raises:
            RedactedTextError: Its text was redacted meanwhile.
            NothingToDoError: It cannot be made any more.
        """
        if isinstance(self.event, events.ProposalDecided):
            redactions.check("reason", self.event.reason)
        changes: tuple[events.Event, ...] = ()
        if isinstance(self.wish, events.PointProposed):
            redactions.check("text", self.wish.text)
            changes = make_change(self.wish, state)[0]
        elif self.wish is not None:
            changes = self.wish(state, redactions, renamed).events
        return Decision((self.event, *changes))


def make_or_propose(project: Project, wish: Curation, by: Mapping[str, str]) -> tuple[Outcome, ProposedError | None]:
    """Make a change, or propose it where only a person may make it.

    Returns:
        The outcome, and the error that says that it was only proposed; None where it was made.
    """
    names = (wish.name, *wish.more_names, *wish.sources)
    # A command that runs inside an agent is the agent's, whoever typed the words.
    is_agents = find_agent() is not None
    if is_agents and wish.verb in PERSONS_ONLY:
        cause, what = "only a person may", "is a person's"
    elif is_agents and wish.verb in OF_PROTECTED and _find_protected_names(project, names):
        cause, what = "protected", "names a protected entry"
    else:
        return curate(project, wish, by), None
    hint = f"a person accepts it: tallybook proposals{personal.option(project)}"
    error = ProposedError(f"{wish.verb}: {what}, so inside an agent it was only proposed; {hint}")
    return propose(project, wish, cause, by), error


def propose(project: Project, wish: Curation, cause: str, by: Mapping[str, str]) -> Outcome:
    """Record a change as a proposal, after the same checks as the change itself.

    Raises:
        BadInputError, UnknownEntryError, NothingToDoError, RedactedTextError: The change itself would be refused.
    """
    # The event of a proposal has no field for a day.
    if wish.until:
        raise BadInputError("--until", "cannot be proposed", "a person runs the command; nothing was recorded")
    wish(reading.current(reading.open_log(project)), redacted_digests.load(project.ledger), {})
    names = (wish.name, *wish.more_names)
    proposed = [
        events.PointProposed(wish.verb, name, wish.sources, cause, "", wish.text, wish.reason) for name in names
    ]
    return commands.record_request(project, Request(PlainEvents(tuple(proposed)), by))


def propose_redaction(project: Project, target: RedactionTarget, reason: str, by: Mapping[str, str]) -> None:
    """Record the redaction of a protected entry's text as a proposal, if an agent types it; else do nothing.

    Raises:
        ProposedError: It was proposed, or refused: a proposal of a text would write that text down once more.
    """
    if find_agent() is None:
        return
    # Slow to load, and seldom needed.
    from tallybook.projections.surfaces.writing import redact

    found = redact.find_text(project, target).events
    events_with_text = (record.event for record in found if isinstance(record.event, events.TEXT_GIVERS))
    names = _find_protected_names(project, [event.name for event in events_with_text])
    if not names:
        return
    redact.check_reason(project, target, reason, by)
    what = f"redact: is a text of {names[0]}, which is protected"
    if target.event is None:
        hint = "a person runs, outside the agent: tallybook redact --text - --reason WHY"
        raise ProposedError(f"{what}, and a proposal would record the text; nothing was recorded; {hint}")
    [event] = [record.id for record in found if target.event in {record.id, str(record.seq)}]
    proposed = events.PointProposed(REDACT, names[0], (), "protected", "", event, reason)
    commands.record_request(project, Request(PlainEvents((proposed,)), by))
    hint = f"a person accepts it: tallybook proposals{personal.option(project)}"
    raise ProposedError(f"{what}, so inside an agent it was only proposed; {hint}")


def _find_protected_names(project: Project, names: Sequence[str]) -> list[str]:
    """Return which of these entries, or of those that they were merged into, are protected."""
    state = reading.current(reading.open_log(project))
    present = dict.fromkeys(state.merged.get(name, name) for name in names)
    return [name for name in present if name in state.entries and state.is_protected(state.entries[name])]


def load_proposals(project: Project) -> Proposals:
    """Return the proposals of a ledger, as of now."""
    own = reading.open_own_log(project)
    return fold_history(PROPOSALS, lambda: decode(own.read()))


def open_proposals(project: Project) -> list[EventRecord]:
    """Return the proposals that nobody has decided, the oldest first, with the present names of what they meant.

    Raises:
        MissingLinesError: Lines of the shared book are missing.
    """
    log, found = reading.open_log(project), list(load_proposals(project).open.values())
    if not found or not reading.has_book(log):
        return found
    log.present_ground()
    present: list[EventRecord] = []
    for record in found:
        event: Any = record.event
        # Those of which the book as of then is gone are left out.
        with suppress(MissingLinesError):
            names = log.names_since(record.seq)
            merged = tuple(names.get(name, name) for name in event.merged)
            event = event.evolve(name=names.get(event.name, event.name), merged=merged)
            present.append(attrs.evolve(record, event=event))
    return present


def select_proposals(
    project: Project, numbers: Sequence[str], session: str | None, *, everything: bool, is_acceptance: bool
) -> tuple[list[EventRecord], list[EventRecord]]:
    """Return the open proposals that a person means, by number, of a session, or all, and those left out of these.

    Args:
        project: The project.
        numbers: Their numbers.
        session: The session that proposed them.
        everything: Whether all are meant.
        is_acceptance: Whether they are to be accepted: those of _BY_NUMBER are then meant by their number alone.

    Raises:
        BadInputError: None or several ways to choose them were given.
        NothingToDoError: There is no such open proposal.
    """
    if [bool(numbers), session is not None, everything].count(True) != 1:
        raise BadInputError("NUMBER", "or --of SESSION or --all is needed", "give one of them; nothing was recorded")
    found, hint = open_proposals(project), f"see `tallybook proposals{personal.option(project)}`"
    if numbers:
        by_number = {str(record.seq): record for record in found}
        for number in numbers:
            if number not in by_number:
                raise NothingToDoError(f"event {number}", "is not an open proposal", hint)
        return [by_number[number] for number in dict.fromkeys(numbers)], []
    found = [record for record in found if everything or record.by.session == session]
    chosen = [row for row in found if not (is_acceptance and getattr(row.event, "verb", "") in _BY_NUMBER)]
    if not chosen:
        alone = "only lessons and redactions are open, and each is accepted by its number"
        what = alone if found else "none is open"
        raise NothingToDoError("proposals", what, hint)
    return chosen, [row for row in found if row not in chosen]


def accept(project: Project, proposal: EventRecord, reason: str, by: Mapping[str, str]) -> Outcome:
    """Make the change that was proposed, in one batch with its acceptance.

    Raises:
        PersonsOnlyError: An agent accepts.
        NothingToDoError, UnknownEntryError: The change cannot be made any more.
    """
    require_person("proposals accept", by.get("rater"))
    event: Any = proposal.event
    remaining: list[str] = []
    if event.verb == REDACT:
        # First: a text that is gone with an open proposal is better than a closed proposal without its redaction.
        from tallybook.projections.surfaces.writing import redact

        target = redact.RedactionTarget(event.text)
        remaining = redact.redact(project, target, event.reason, by).remaining
    # One of a person's verbs, or a curator's operation.
    is_persons = event.verb in CURATIONS and event.name
    wish = Curation(event.verb, event.name, event.reason or "", event.text or "", event.merged) if is_persons else event
    answer = PersonAnswer(events.ProposalDecided(proposal.id, "accepted", reason), wish)
    outcome = commands.record_request(project, Request(answer, by))
    notes = (*outcome.notes, *(f"not erased: {line}" for line in remaining))
    return attrs.evolve(outcome, notes=notes)


def reject(project: Project, proposal: EventRecord, reason: str, by: Mapping[str, str]) -> Outcome:
    """Close a proposal without making its change.

    Raises:
        PersonsOnlyError: An agent rejects.
    """
    require_person("proposals reject", by.get("rater"))
    answer = PersonAnswer(events.ProposalDecided(proposal.id, "rejected", reason))
    return commands.record_request(project, Request(answer, by))
