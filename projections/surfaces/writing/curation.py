"""Curation by a person: retire, restore, pin, unpin, reword, merge, and undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger.decisions.curation import MAX_REASON_CHARS, Curation, reason_fault
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import BadInputError, NothingToDoError
from tallybook.ledger.events import (
    KIND_OF,
    RATINGS,
    EventRedacted,
    EventsVoided,
    PlaybookAdopted,
    PlaybookEdited,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointMerged,
    PointNoted,
    PointRated,
    PointSeeded,
)
from tallybook.projections.event_rows import summary
from tallybook.projections.fold import UNDOABLE, UndoneEvent, fold, history
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.history.moments import session_of
from tallybook.projections.surfaces.writing import record as recording
from tallybook.projections.surfaces.writing.requests import Request, Undo

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.record import Outcome

__all__ = ["MAX_REASON_CHARS", "UndoResult", "curate", "undo"]

_UNDOABLE: Final = UNDOABLE - {EventsVoided}
_CHANGES: Final = _UNDOABLE - {PointNoted}
_CLOSES: Final = (PlaybookUpdated, PlaybookEdited)
_REVERSALS: Final = (EventsVoided, EventRedacted)
# No event number has more digits.
_SEQ_DIGITS: Final = 18


@attrs.frozen
class UndoResult:
    """The result of an undo.

    Attributes:
        outcome: The outcome of the request.
        events: Each undone event, as (event number, summary).
    """

    outcome: Outcome
    events: tuple[tuple[int, str], ...]

    @property
    def redo(self) -> str:
        """Return the command that brings the events back."""
        return _command(self.outcome.seq_from)


def curate(project: Project, what: Curation, by: Mapping[str, str]) -> Outcome:
    """Record a curation of an entry.

    Raises:
        NothingToDoError: It is so already, or cannot be done to the entry in its present state.
    """
    try:
        return commands.recorded(project, Request(what, by))
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
        if isinstance(event, PointMerged) and name in event.merged:
            why = f"was merged into {event.name} by event {record.seq}", record.seq
        elif isinstance(event, UndoneEvent) and getattr(event.event, "name", None) == name and _is_adding(event.event):
            why = f"was undone by event {event.by.seq}", event.by.seq
        elif getattr(event, "name", None) == name and _is_adding(event):
            why = None
    if why is not None:
        raise NothingToDoError(name, why[0], f"run: {_command(why[1])}")


def _is_adding(event: object) -> bool:
    return isinstance(event, PointAdded | PointEdited | PointSeeded)


def undo(project: Project, target: str | None, session: str | None, reason: str, by: Mapping[str, str]) -> UndoResult:
    """Undo the last change, an event or its batch by number or id, or all of a session so far.

    The number of an event about one entry means that event, any other its whole batch.

    Raises:
        BadInputError: The event is of a kind that cannot be undone, there is no such session, or the reason could not
            be recorded.
        NothingToDoError: There is nothing to undo, it is undone already, or the last change is an import, an undo or
            a redaction.
    """
    if reason and (fault := reason_fault(reason)) is not None:
        raise BadInputError("--reason", fault, "nothing was recorded")
    log = reading.open_log(project)
    if log.head().seq:
        # The spool and manual edits of the file came first, and are the last change if there are any.
        recording.write(project, [])
    batches = history(lambda: decode(log.read()))
    if session is not None:
        session = session_of(log, session, f"--of {session}").session
        records = _records_of(batches, session)
        action = Undo((), session, reason)
    else:
        records = _last_change(batches) if target is None else _named(batches, target)
        action = Undo(tuple(record.id for record in records), None, reason)
    outcome = commands.recorded(project, Request(action, by))
    return UndoResult(outcome, tuple((one.seq, summary(one.event)) for one in records))


def _command(seq: int | None) -> str:
    return f"tallybook undo {seq}"


def _undoable(batch: Batch) -> list[EventRecord]:
    """Return the events of a batch that can be undone and are not; only its own number undoes an undo."""
    return [record for record in batch.records if type(record.event) in _UNDOABLE]


def _records_of(batches: Iterator[Batch], session: str) -> list[EventRecord]:
    """Return the events of a session that can be undone."""
    records = [record for batch in batches if batch.may_contain_text(session) for record in batch.records]
    own = [record for record in records if record.by.session == session]
    records = [record for record in own if type(record.event) in _UNDOABLE]
    if not records:
        undoing = max((record.event.by.seq for record in own if isinstance(record.event, UndoneEvent)), default=None)
        if undoing is None:
            raise NothingToDoError(f"session {session}", "has nothing to undo")
        raise NothingToDoError(f"session {session}", f"was undone by event {undoing}", f"run: {_command(undoing)}")
    return records


def _last_change(batches: Iterator[Batch]) -> list[EventRecord]:
    """Return the events to undo of the last batch that changed the playbook or a score."""
    playbook = PLAYBOOK.start()
    last = before = candidate = None
    for batch in batches:
        before_it = set(playbook.entries)
        fold(PLAYBOOK, [batch], playbook)
        names = before_it.union(playbook.entries, playbook.merged)
        is_change = _is_change(batch, names) or len(playbook.entries) != len(before_it)
        if is_change or any(isinstance(event, _REVERSALS) for event in batch.events):
            last, before = batch, candidate
        if is_change:
            candidate = batch
    if last is None:
        raise NothingToDoError("the ledger", "has nothing to undo")
    if last is candidate and not _is_import(last):
        return _undoable(last)
    raise _refusal(last, before)


def _is_change(batch: Batch, names: Collection[str]) -> bool:
    """Return whether a batch changed the playbook or a score.

    An empty update or edit does not, nor does a rating that does not count.
    """

    def is_change(event: object) -> bool:
        if isinstance(event, _CLOSES):
            return bool(getattr(event, "top", ""))
        if isinstance(event, PointRated):
            return event.name in names and event.rating in RATINGS
        return type(event) in _CHANGES

    return any(map(is_change, batch.events))


def _is_import(batch: Batch) -> bool:
    return any(isinstance(event, PlaybookAdopted) for event in batch.events)


def _refusal(last: Batch, before: Batch | None) -> NothingToDoError:
    """Return why plain undo leaves the last change alone, with the commands that a person may want."""
    first = last.records[0].seq
    hints = [f"to undo {_described(before)}"] if before is not None else ["nothing before it can be undone"]
    if _is_import(last):
        what = f"is an import, event {first}, which needs its number"
        hints.insert(0, f"to undo it, run: {_command(first)}")
    elif any(isinstance(event, EventsVoided) for event in last.events):
        what = f"is itself an undo, event {first}"
        hints.insert(0, f"to bring back what it undid, run: {_command(first)}")
    else:
        what = f"is a redaction, event {first}, which cannot be undone"
    return NothingToDoError("undo", f"nothing was changed: the last change {what}", "; ".join(hints))


def _described(batch: Batch) -> str:
    """Return a batch in words, with the command that undoes it."""
    records = _undoable(batch)
    record = next((one for one in reversed(records) if not is_of_entry(KIND_OF[type(one.event)])), records[0])
    # The event that ends an update repeats what the others say.
    others = len(records) - 2 if isinstance(record.event, _CLOSES) else 0
    more = f" and {others:,} more" if others > 0 else ""
    return f"event {record.seq} ({summary(records[0].event)}{more}), run: {_command(record.seq)}"


def is_of_entry(kind: str) -> bool:
    """Return whether events of a kind are about one entry, and so can be undone without the rest of their batch."""
    return kind.startswith("point.")


def _named(batches: Iterator[Batch], target: str) -> list[EventRecord]:
    """Return the events to undo for a number or an id: an event about an entry alone, any other with its batch."""
    number, end = int(target) if target.isdecimal() and len(target) <= _SEQ_DIGITS else 0, 0
    for batch in batches:
        may_be, end = end < number <= batch.last or batch.may_contain_ids({target}), batch.last
        for record in batch.records if may_be else ():
            if target in {str(record.seq), record.id}:
                return _whole(record, batch)
    raise BadInputError(f"event {target}", "is not in the ledger", "see `tallybook log`")


def _whole(record: EventRecord, batch: Batch) -> list[EventRecord]:
    if isinstance(record.event, UndoneEvent):
        by = record.event.by.seq
        raise NothingToDoError(f"event {record.seq}", f"was undone by event {by}", f"run: {_command(by)}")
    if type(record.event) not in UNDOABLE:
        hint = "nothing was recorded"
        raise BadInputError(f"event {record.seq}", "is not an event of the playbook or of a score", hint)
    if is_of_entry(KIND_OF[type(record.event)]):
        return [record]
    return [one for one in batch.records if type(one.event) in UNDOABLE]
