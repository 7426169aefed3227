"""A person's own hand: retire, restore, pin, unpin, reword, merge, and undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ledger.codec import decode
from ledger.curate import MAX_REASON_CHARS, Wish, reason_fault
from ledger.errors import BadInputError, NothingToDoError
from ledger.events import EventsVoided, PointNoted
from projections.history import summary
from projections.surfaces import commands, reading
from projections.surfaces import record as recording
from projections.surfaces.requests import Request, Undo
from projections.surfaces.when import session_of
from projections.voids import VOIDABLE, Voided, history

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ledger.recorded import Batch, Recorded
    from projections.surfaces.project import Project
    from projections.surfaces.record import Outcome

__all__ = ["MAX_REASON_CHARS", "Undone", "undo", "wish"]

_SAID: Final = VOIDABLE - {EventsVoided}
# No sequence number has more.
_SEQ_DIGITS: Final = 18


@attrs.frozen
class Undone:
    """What was taken back.

    Attributes:
        outcome: What became of the request.
        events: Each event that is void now, as (sequence number, what it was in one line).
    """

    outcome: Outcome
    events: tuple[tuple[int, str], ...]


def wish(project: Project, what: Wish, by: Mapping[str, str]) -> Outcome:
    """Record what a person wants to become of an entry."""
    return commands.recorded(project, Request(what, by))


def undo(project: Project, target: str | None, session: str | None, reason: str, by: Mapping[str, str]) -> Undone:
    """Take back the last batch, the event with a sequence number, or all of a session so far.

    Raises:
        BadInputError: The event is of a kind that cannot be taken back, there is no such session, or the reason could
            not be recorded.
        NothingToDoError: There is nothing to take back, or it is void already.
    """
    if reason and (fault := reason_fault(reason)) is not None:
        raise BadInputError("--reason", fault, "nothing was recorded")
    log = reading.open_log(project)
    if log.head().seq:
        # What waits, and what a hand changed in the file, came before this.
        recording.write(project, [])
    told = history(lambda: decode(log.read()))
    if session is not None:
        session = session_of(log, session, f"--of {session}").session
        found = _all_of(told, session)
        asked = Undo((), session, reason)
    elif target is not None:
        found = [_one(told, target)]
        asked = Undo((found[0].id,), None, reason)
    else:
        found = _last(told)
        asked = Undo(tuple(one.id for one in found), None, reason)
    if not found:
        what = f"session {session}" if session is not None else "the ledger"
        raise NothingToDoError(what, "has nothing that could be taken back")
    outcome = commands.recorded(project, Request(asked, by))
    return Undone(outcome, tuple((one.seq, summary(one.event)) for one in found))


def _standing(batch: Batch) -> Iterator[Recorded]:
    """Yield what of a batch could be taken back and is not; undoing is taken back by its number alone."""
    return (record for record in batch.records if type(record.event) in _SAID)


def _all_of(told: Iterator[Batch], session: str) -> list[Recorded]:
    """Return what of a session stands."""
    said = (record for batch in told if batch.may_say(session) for record in _standing(batch))
    return [record for record in said if record.by.session == session]


def _last(told: Iterator[Batch]) -> list[Recorded]:
    """Return the last batch of which anything stands that counts: notes alone come unasked."""
    counting = _SAID - {PointNoted}
    last = None
    for batch in told:
        if not counting.isdisjoint(map(type, batch.events)):
            last = batch
    return [] if last is None else list(_standing(last))


def _one(told: Iterator[Batch], target: str) -> Recorded:
    """Return the event with a sequence number or an id."""
    number, behind = int(target) if target.isdecimal() and len(target) <= _SEQ_DIGITS else 0, 0
    for batch in told:
        may_be, behind = behind < number <= batch.last or batch.may_hold({target}), batch.last
        for record in batch.records if may_be else ():
            if target in {str(record.seq), record.id}:
                if isinstance(record.event, Voided):
                    raise NothingToDoError(f"event {target}", f"was taken back by event {record.event.by.seq}")
                if type(record.event) not in VOIDABLE:
                    raise BadInputError(
                        f"event {target}", "is no event of the playbook or of a score", "nothing was recorded"
                    )
                return record
    raise BadInputError(f"event {target}", "is not in the ledger", "`tallybook log` shows the numbers")
