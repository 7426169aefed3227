"""The lift view: which questions were asked, what was drawn for them, and how the drawn sessions ended. Pure.

The unit is the lineage: a session with its resumes, forks, compactions and subagents. Its first injection says what was
drawn, and its first ended session has the outcome; nothing that comes later changes either.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from tallybook.ledger.events import LiftAsked, LiftStopped, PlaybookInjected, SessionEnded
from tallybook.projections.fold import State, UndoneEvent, View, batch_view
from tallybook.projections.lift.verdict import Trial, Verdict, budget, judge_entries
from tallybook.projections.scores.scoring import scores
from tallybook.projections.scores.session_inputs import KINDS, Session

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.scores.configuration.model import Config

PLAYBOOK: Final = "playbook"
NEW: Final = "new"
NAMES: Final = "names"
LOST_DAYS: Final = 7
"""After so many days a session that did not end has no outcome: whether sessions end at all may depend on the draw."""


@attrs.frozen
class Lineage:
    """A lineage of sessions that was drawn for a question.

    Attributes:
        units: What was drawn for → whether it was withheld.
        probability: With which each unit was withheld, as recorded at the first injection.
        seq: Number of that injection.
        at: When it was recorded.
        has_ended: Whether one of its sessions ended.
        outcome: The score of the first one that ended; None without one.
    """

    units: dict[str, bool]
    probability: float
    seq: int
    at: str
    has_ended: bool = False
    outcome: float | None = None


@attrs.define
class Question:
    """A question, with its draws: a series of its own.

    Attributes:
        number: Its number among all that were ever asked, undone ones too, from 1.
        asked: The event that asked it.
        stopped: The event that closed it; None while it is open.
        lineages: The session with which it began → what was drawn for it, the ended ones in the order of their ends.
    """

    number: int
    asked: EventRecord
    stopped: EventRecord | None = None
    lineages: dict[str, Lineage] = attrs.field(factory=dict)

    @property
    def event(self) -> LiftAsked:
        """Return what was asked."""
        event: Any = self.asked.event
        return cast("LiftAsked", event)

    @property
    def units(self) -> tuple[str, ...]:
        """Return what is drawn for: each entry by itself, or everything at once."""
        return self.event.names if self.event.question == NAMES else (self.event.question,)

    def trials(self, unit: str, now: str) -> list[Trial]:
        """Return the draws of a unit: the ended ones in the order of their ends, then those that will hardly end."""
        lineages = [lineage for lineage in self.lineages.values() if unit in lineage.units]
        ended = [lineage for lineage in lineages if lineage.has_ended]
        lost = [lineage for lineage in lineages if not lineage.has_ended and _days(lineage.at, now) >= LOST_DAYS]
        return [Trial(one.units[unit], one.probability, one.outcome) for one in (*ended, *lost)]

    def verdicts(self, now: str) -> dict[str, Verdict]:
        """Return the verdict on each unit at a time, within the error share that the question has."""
        share = min(self.event.share, budget(self.number))
        return judge_entries({unit: self.trials(unit, now) for unit in self.units}, share)


def _days(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds() / 86_400


@attrs.define
class Lift(State):
    """The questions of a ledger.

    Attributes:
        config: The configuration of the scores.
        questions: Id of the event that asked → question, in order, without undone ones.
        open: Id of the open question; empty without one.
        asked: How many questions were ever asked, undone ones too.
        lineage_of: Session → id of the question and lineage that it was drawn for.
        begun: The sessions that were given what the open question is about, or anything before it, without a draw.
        inputs: Session → what was measured of it, of those that have not ended.
        ended: The sessions that ended.
    """

    config: Config = attrs.field(kw_only=True)
    questions: dict[str, Question] = attrs.field(factory=dict)
    open: str = ""
    asked: int = 0
    lineage_of: dict[str, tuple[str, str]] = attrs.field(factory=dict)
    begun: set[str] = attrs.field(factory=set)
    inputs: dict[str, Session] = attrs.field(factory=dict)
    ended: set[str] = attrs.field(factory=set)


def _ask(state: Lift, record: EventRecord) -> None:
    state.asked += 1
    state.questions[record.id] = Question(state.asked, record)
    state.open = record.id


def _stop(state: Lift, record: EventRecord) -> None:
    event: Any = record.event
    question = state.questions.get(event.id)
    if question is not None and question.stopped is None:
        question.stopped = record
        state.open = "" if state.open == event.id else state.open


def _count_undone(state: Lift, record: EventRecord) -> None:
    """Count an undone question: it has used its part of the error budget."""
    undone: Any = record.event
    state.asked += isinstance(undone.event, LiftAsked)


def _inject(state: Lift, record: EventRecord) -> None:
    event: Any = record.event
    if event.file:
        # Hooks leave it out, and a question is not about it.
        return
    session = record.by.session or ""
    question = state.questions.get(event.question)
    if question is None or {session, event.lineage} & state.begun:
        if question is not None or not _is_apart(state, event):
            state.begun.add(session)
        return
    state.lineage_of.setdefault(session, (event.question, event.lineage))
    drawn = {unit: is_unit_held(event, unit) for unit in event.units if unit in question.units}
    before = question.lineages.get(event.lineage)
    if before is None:
        question.lineages[event.lineage] = Lineage(drawn, event.probability, record.seq, record.at)
    elif not before.has_ended and before.probability == event.probability:
        # An entry that was not selected at the first injection is drawn for at the first one that selects it.
        question.lineages[event.lineage] = attrs.evolve(before, units=drawn | before.units)


def _is_apart(state: Lift, event: PlaybookInjected) -> bool:
    """Return whether an injection without a draw gave none of the entries that the open question is about."""
    about = state.questions[state.open].event if state.open else None
    if about is None:
        return False
    return not event.names if about.question == PLAYBOOK else set(event.names).isdisjoint(about.names)


def is_unit_held(event: PlaybookInjected, unit: str) -> bool:
    """Return whether a unit that was drawn for was withheld; a group is withheld as a whole."""
    return bool(event.held) if unit in {PLAYBOOK, NEW} else unit in event.held


def _measure(state: Lift, record: EventRecord) -> None:
    session = record.by.session
    if session and state.questions and session not in state.ended:
        state.inputs.setdefault(session, Session(session)).add_event(record)


def _end(state: Lift, record: EventRecord) -> None:
    """Take the outcome of a lineage from the first of its sessions that ended."""
    session = record.by.session or ""
    if not state.questions or not session or session in state.ended:
        return
    state.ended.add(session)
    inputs = state.inputs.pop(session, None)
    id_, lineage = state.lineage_of.get(session, ("", ""))
    question = state.questions.get(id_)
    before = question.lineages.get(lineage) if question is not None else None
    if question is None or before is None or before.has_ended:
        return
    outcome = scores(inputs, state.config).get(question.event.outcome) if inputs is not None else None
    # Put last: a series is only ever appended to.
    del question.lineages[lineage]
    question.lineages[lineage] = attrs.evolve(before, has_ended=True, outcome=outcome)


def _apply_batch(state: Lift, batch: Batch) -> None:
    for record in batch.records:
        event = record.event
        if isinstance(event, LiftAsked):
            _ask(state, record)
        elif isinstance(event, LiftStopped):
            _stop(state, record)
        elif isinstance(event, PlaybookInjected):
            _inject(state, record)
        elif isinstance(event, UndoneEvent):
            _count_undone(state, record)
        elif isinstance(event, KINDS):
            _measure(state, record)
    # What the batch of an end measured belongs to the session, in whatever order it came.
    for record in batch.records:
        if isinstance(record.event, SessionEnded):
            _end(state, record)


def now_of(state: Lift) -> str:
    """Return the time as of which a state judges: that of the last event."""
    return "" if state.latest_batch is None else state.latest_batch.at


def lift_view(config: Config) -> View[Lift]:
    """Return the lift view under a configuration of the scores."""
    kinds = (LiftAsked, LiftStopped, PlaybookInjected, UndoneEvent, *KINDS)
    return batch_view(partial(Lift, config=config), kinds, _apply_batch)
