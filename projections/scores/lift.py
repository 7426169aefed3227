"""The lift view: which questions were asked, what was drawn for them, and how the drawn sessions ended. Pure.

The unit is the lineage: a session with its resumes, forks, compactions and subagents. Its first injection says what was
drawn. Its outcome is that of its first session that was measured as ended, or what was measured last within LOST_DAYS;
nothing that comes later changes either. Lineages are judged in the order of their draws, up to the first one whose
outcome may still come: when a session ends may depend on its draw, so the order of the ends must not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from itertools import takewhile
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from tallybook.ledger import events
from tallybook.projections.playbook.fold import State, UndoneEvent, View, batch_view
from tallybook.projections.scores.config import Config
from tallybook.projections.scores.lift_verdict import Trial, Verdict, budget, judge_entries
from tallybook.projections.scores.scoring import Session, score_session
from tallybook.projections.scores.view import KINDS

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord

PLAYBOOK: Final = "playbook"
NEW: Final = "new"
NAMES: Final = "names"
# Not tokens: the playbook itself adds some, so that sessions without it would win by construction.
# Not whether the last test passed: some sessions have no test, and an entry can change which.
CLEAN: Final = "clean"
"""The outcome by which sessions are compared by default: the share of calls that did not fail, at least LEAST_CLEAN."""
# With bounds of 0 and 100 the simulation came to no verdict where outcomes were missing; with 80 and 100, a
# difference of 3.8 points took 271 sessions where 2 % of them had none.
LEAST_CLEAN: Final = 80.0
"""Fewer clean calls count as so many, so that a missing outcome, which counts as the worst, weighs less."""
BOUNDS: Final = (LEAST_CLEAN, 100.0)
LOST_DAYS: Final = 7
"""After so many days a session without an outcome is judged without one: whether it comes may depend on the draw."""
WORK: Final = ("calls", "tests", "prompts")
"""The numbers that are shown with a verdict: an entry can make calls succeed that no task needs."""


@attrs.define
class Lineage:
    """A lineage of sessions that was drawn for a question.

    Attributes:
        units: What was drawn for → whether it was withheld.
        probability: With which each unit was withheld, as recorded at the first injection.
        seq: Number of that injection.
        at: When it was recorded.
        spoken: Its sessions of which the ledger knows that a person gave them a prompt; without one it does not count.
        is_final: Whether its outcome is known for good before LOST_DAYS.
        outcome: Its outcome; None without one.
        numbers: What was measured of it with that outcome.
    """

    units: dict[str, bool]
    probability: float
    seq: int
    at: str
    spoken: set[str] = attrs.field(factory=set)
    is_final: bool = False
    outcome: float | None = None
    numbers: Mapping[str, float] = attrs.field(factory=dict)

    def is_open(self, now: str) -> bool:
        """Return whether its outcome may still come."""
        begin, end = map(datetime.fromisoformat, (self.at, now))
        return not self.is_final and (end - begin).total_seconds() < LOST_DAYS * 86_400


@attrs.define
class Question:
    """A question, with its draws: a series of its own.

    Attributes:
        number: Its number among all that were ever asked, undone ones too, from 1.
        asked: The event that asked it.
        stopped: The event that closed it; None while it is open.
        lineages: The session with which it began → what was drawn for it, in the order of the draws.
    """

    number: int
    asked: EventRecord
    stopped: EventRecord | None = None
    lineages: dict[str, Lineage] = attrs.field(factory=dict)

    @property
    def event(self) -> events.LiftAsked:
        """Return what was asked."""
        return cast("events.LiftAsked", self.asked.event)

    @property
    def units(self) -> tuple[str, ...]:
        """Return what is drawn for: each entry by itself, or everything at once."""
        return self.event.names if self.event.question == NAMES else (self.event.question,)

    def list_judged(self, unit: str, now: str) -> list[Lineage]:
        """Return the lineages that a unit is judged by, in the order of their draws."""
        # In the order of the ends, a rising mean looked like an effect: 25.5 % false claims in the simulation.
        closed = takewhile(lambda lineage: not lineage.is_open(now), self.lineages.values())
        # A client can take the playbook for a prompt that never comes: such a session has no outcome to wait for.
        return [lineage for lineage in closed if lineage.spoken and unit in lineage.units]

    def trials(self, unit: str, now: str) -> list[Trial]:
        """Return the draws and outcomes that a unit is judged by."""
        bounds = BOUNDS if self.event.outcome == CLEAN else (0.0, 100.0)
        judged = self.list_judged(unit, now)
        return [Trial(lineage.units[unit], lineage.probability, lineage.outcome, bounds) for lineage in judged]

    def work(self, unit: str, now: str) -> dict[str, dict[str, float]]:
        """Return the mean of each number of WORK in the measured lineages with the unit, and in those without it."""
        arms: dict[str, list[Mapping[str, float]]] = {"told": [], "held": []}
        for lineage in self.list_judged(unit, now):
            arms["held" if lineage.units[unit] else "told"] += [lineage.numbers] if lineage.numbers else []
        return {
            arm: {name: round(fmean(numbers.get(name, 0) for numbers in found), 1) for name in WORK}
            for arm, found in arms.items()
            if found
        }

    def verdicts(self, now: str) -> dict[str, Verdict]:
        """Return the verdict on each unit at a time, within the error share that the question has."""
        share = min(self.event.share, budget(self.number))
        return judge_entries({unit: self.trials(unit, now) for unit in self.units}, share)


def clean(numbers: Mapping[str, float]) -> float:
    """Return the share of the calls of tools that did not fail, in percent, smoothed: without a call it is 100."""
    # A session without a call has an outcome too: withholding must not be able to make one go missing.
    # Smoothed by two calls, a verdict took 770 simulated sessions, and 900 by the plain share.
    calls = numbers.get("calls", 0)
    return 100 * (calls - numbers.get("failed", 0) + 2) / (calls + 2)


def outcome_of(numbers: Mapping[str, float]) -> float:
    """Return the outcome by `clean` of a measured session."""
    return max(LEAST_CLEAN, clean(numbers))


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
        inputs: Session → what was recorded of its scores, of those that have not ended.
        ended: The sessions that ended.
        spoken: The sessions of whose transcript something was to be read, in order.
        measured: Session → its numbers, as measured last.
    """

    config: Config = attrs.field(kw_only=True)
    questions: dict[str, Question] = attrs.field(factory=dict)
    open: str = ""
    asked: int = 0
    lineage_of: dict[str, tuple[str, str]] = attrs.field(factory=dict)
    begun: set[str] = attrs.field(factory=set)
    inputs: dict[str, Session] = attrs.field(factory=dict)
    ended: set[str] = attrs.field(factory=set)
    spoken: dict[str, None] = attrs.field(factory=dict)
    measured: dict[str, Mapping[str, float]] = attrs.field(factory=dict)


def _ask(state: Lift, record: EventRecord, _: Any) -> None:
    state.asked += 1
    state.questions[record.id] = Question(state.asked, record)
    state.open = record.id


def _stop(state: Lift, record: EventRecord, event: Any) -> None:
    question = state.questions.get(event.id)
    if question is not None and question.stopped is None:
        question.stopped = record
        state.open = "" if state.open == event.id else state.open


def _count_undone(state: Lift, _: EventRecord, event: Any) -> None:
    """Count an undone question: it has used its part of the error budget."""
    state.asked += isinstance(event.event, events.LiftAsked)


def _inject(state: Lift, record: EventRecord, event: Any) -> None:
    if event.file:
        # Hooks leave it out, and a question is not about it.
        return
    session = record.by.session or ""
    question = state.questions.get(event.question)
    if question is None or {session, event.lineage} & state.begun:
        about = state.questions[state.open].event if state.open else None
        # An injection without a draw is apart where it gave none of the entries that the open question is about.
        shared = set(event.names) if about is None or about.question == PLAYBOOK else {*event.names} & {*about.names}
        if question is not None or about is None or shared:
            # No draw decided what this lineage was given before the question, so that it does not count.
            state.begun.add(session)
        return
    state.lineage_of.setdefault(session, (event.question, event.lineage))
    drawn = {unit: is_unit_held(event, unit) for unit in event.units if unit in question.units}
    before = question.lineages.get(event.lineage)
    if before is None:
        question.lineages[event.lineage] = Lineage(drawn, event.probability, record.seq, record.at)
    # A lineage is drawn with the probability that its first injection recorded, and with no other.
    elif before.is_open(record.at) and before.probability == event.probability:
        # An entry that was not selected at the first injection is drawn for at the first one that selects it.
        before.units = drawn | before.units


def is_unit_held(event: events.PlaybookInjected, unit: str) -> bool:
    """Return whether a unit that was drawn for was withheld; a group is withheld as a whole."""
    # Two entries that say the same seem useless when drawn apart: a group is found only as a whole.
    return bool(event.held) if unit in {PLAYBOOK, NEW} else unit in event.held


def _add_score_input(state: Lift, record: EventRecord, _: Any) -> None:
    session = record.by.session
    if session and state.questions and session not in state.ended:
        state.inputs.setdefault(session, Session(session)).add_event(record)


def _find_open(state: Lift, session: str, at: str) -> tuple[str, Lineage]:
    """Return the outcome of a session's question, and its lineage while its outcome may still come.

    For a session without such a lineage it is one that belongs to no question.
    """
    id_, begun = state.lineage_of.get(session, ("", ""))
    question = state.questions.get(id_)
    lineage = question.lineages.get(begun) if question is not None else None
    if question is not None and lineage is not None and lineage.is_open(at):
        return question.event.outcome, lineage
    return "", Lineage({}, 0, 0, at)


def _speak(state: Lift, record: EventRecord, event: Any) -> None:
    """Note that a session was to be read, or that nobody has said anything in it yet."""
    session = record.by.session or ""
    if isinstance(event, events.TranscriptRead) and event.file:
        return
    _, lineage = _find_open(state, session, record.at)
    if event.end:
        state.spoken.setdefault(session)
        lineage.spoken.add(session)
    else:
        state.spoken.pop(session, None)
        lineage.spoken.discard(session)


def _measure(state: Lift, record: EventRecord, event: Any) -> None:
    """Take the numbers of a session: what was measured of an open one may be measured again."""
    session, numbers = record.by.session or "", event.numbers
    state.measured[session] = numbers
    state.spoken.setdefault(session)
    outcome, lineage = _find_open(state, session, record.at)
    lineage.spoken.add(session)
    lineage.numbers = numbers
    if outcome == CLEAN:
        lineage.outcome, lineage.is_final = outcome_of(numbers), bool(numbers.get("ended"))


def _end(state: Lift, record: EventRecord) -> None:
    """Take the score of a lineage from the first of its sessions that ended."""
    session = record.by.session or ""
    if not state.questions or not session or session in state.ended:
        return
    state.ended.add(session)
    inputs = state.inputs.pop(session, None)
    outcome, lineage = _find_open(state, session, record.at)
    if outcome not in {"", CLEAN}:
        lineage.spoken.add(session)
        lineage.is_final = True
        lineage.outcome = score_session(inputs, state.config)[0].get(outcome) if inputs is not None else None


_TABLE: Final[dict[type[Any], Callable[[Lift, EventRecord, Any], None]]] = {
    events.LiftAsked: _ask,
    events.LiftStopped: _stop,
    events.PlaybookInjected: _inject,
    UndoneEvent: _count_undone,
    events.ReflectionRequested: _speak,
    events.TranscriptRead: _speak,
    events.SessionMeasured: _measure,
    **dict.fromkeys(KINDS, _add_score_input),
}


def _apply_batch(state: Lift, batch: Batch) -> None:
    for record in batch.records:
        if (change := _TABLE.get(type(record.event))) is not None:
            change(state, record, record.event)
    # What the batch of an end measured belongs to the session, in whatever order it came.
    for record in batch.records:
        if isinstance(record.event, events.SessionEnded):
            _end(state, record)


def find_now(state: Lift) -> str:
    """Return the time as of which a state judges: that of the last event."""
    return "" if state.latest_batch is None else state.latest_batch.at


def lift_view(config: Config) -> View[Lift]:
    """Return the lift view under a configuration of the scores."""
    return batch_view(partial(Lift, config=config), _TABLE, _apply_batch)
