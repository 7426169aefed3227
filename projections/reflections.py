"""The reflections view: which sessions are owed one, how far their transcripts were read, and what it has cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger.events import (
    PlaybookInjected,
    ReflectionCompleted,
    ReflectionFailed,
    ReflectionRequested,
    ReflectionStarted,
    TranscriptRead,
)
from tallybook.projections.fold import State, View

if TYPE_CHECKING:
    from tallybook.ledger.recorded import Batch

NO_RATER: Final = "none"
GONE: Final = "gone"
BROKEN_OFF: Final = "broken off"
"""Cause of a failure that nobody recorded: the next one began before this one had ended."""


@attrs.frozen
class Reached:
    """How far something of a session was read.

    Attributes:
        end: Where the next stretch begins, by file: empty for the session's own transcript.
        seen: How much of the session's own transcript is accounted for, in bytes.
    """

    end: dict[str, int] = attrs.field(factory=dict)
    seen: int = 0

    def through(self, event: TranscriptRead) -> Reached:
        """Return it with one more stretch; one that begins before the last one's end is of another file of its name."""
        return Reached({**self.end, event.file: event.end}, self.seen if event.file else event.seen)

    def at_least(self, event: TranscriptRead) -> Reached:
        """Return it with a stretch that somebody else read, who may be behind."""
        own = 0 if event.file else event.seen
        return Reached({**self.end, event.file: max(event.end, self.end.get(event.file, 0))}, max(own, self.seen))


@attrs.frozen
class Try:
    """A reflection that was begun.

    Attributes:
        at: When.
        tokens: What it was expected to cost.
        rater: Who was to judge.
    """

    at: str
    tokens: int
    rater: str


@attrs.frozen
class Failure:
    """The last of the tries that came to nothing, since one came to something.

    Attributes:
        tries: How many of the same rater there were in a row, 1 or more.
        at: When the last one failed.
        cause: As ``reflection.failed`` has it, or BROKEN_OFF.
        rater: Who was to judge.
        reason: What went wrong; None once redacted.
    """

    tries: int
    at: str
    cause: str
    rater: str
    reason: str | None = ""


@attrs.frozen
class Session:
    """What is known of a session's transcript.

    Attributes:
        transcript: Its path, None where it was redacted.
        asked: Length up to which it is to be reflected on, in bytes.
        asked_at: When that was asked for last.
        trigger: The agent's event that asked for it last.
        heard: How far it was searched for citations, by whatever rater.
        rated: How far a model judged it.
        begun: The try that has not ended, None without one.
        failure: What came to nothing last, None where something came of it since.
    """

    transcript: str | None
    asked: int = 0
    asked_at: str = ""
    trigger: str = ""
    heard: Reached = Reached()
    rated: Reached = Reached()
    begun: Try | None = None
    failure: Failure | None = None

    def reached(self, rater: str) -> Reached:
        """Return how far a rater need not read again."""
        return self.heard if rater == NO_RATER else self.rated

    def is_owed(self, rater: str) -> bool:
        """Say whether anything is left to do for a rater."""
        return self.reached(rater).seen < self.asked

    @property
    def is_gone(self) -> bool:
        """Say whether its transcript was not there when it was looked for last."""
        return self.failure is not None and self.failure.cause == GONE


@attrs.define
class Reflections(State):
    """What reflection has done and has to do.

    Attributes:
        sessions: By id, in the order in which they were first asked for.
        lasts: ``uuid`` of the last line of each stretch that a model judged: a copy of it elsewhere is known by that.
        heard_lasts: Likewise of each stretch that was searched for citations.
        spent: Day, ``2026-11-22`` in UTC → tokens, in and out; what was begun and has not ended as it was expected.
        models: Model → tokens, in and out, of what ended.
        injected: Session that was given the playbook → when that was last.
    """

    sessions: dict[str, Session] = attrs.field(factory=dict)
    lasts: set[str] = attrs.field(factory=set)
    heard_lasts: set[str] = attrs.field(factory=set)
    spent: dict[str, int] = attrs.field(factory=dict)
    models: dict[str, int] = attrs.field(factory=dict)
    injected: dict[str, str] = attrs.field(factory=dict)

    def known_lasts(self, rater: str) -> set[str]:
        """Return the last lines of what a rater need not read again."""
        return self.heard_lasts if rater == NO_RATER else self.lasts


def _of(batch: Batch) -> str:
    return batch.records[-1].by.session or ""


def _injected(state: Reflections, _: PlaybookInjected, batch: Batch) -> None:
    if _of(batch):
        state.injected[_of(batch)] = batch.at


def _requested(state: Reflections, event: ReflectionRequested, batch: Batch) -> None:
    known = state.sessions.get(_of(batch), Session(None))
    state.sessions[_of(batch)] = attrs.evolve(
        known,
        transcript=event.transcript,
        asked=max(event.end, known.asked),
        asked_at=batch.at,
        trigger=event.trigger,
    )


def _started(state: Reflections, event: ReflectionStarted, batch: Batch) -> None:
    known = state.sessions.get(_of(batch), Session(None))
    failure = known.failure
    if known.begun is not None:
        failure = broken_off(known)
    begun = Try(batch.at, event.tokens, event.rater)
    state.sessions[_of(batch)] = attrs.evolve(known, begun=begun, failure=failure)
    _spend(state, batch.at, event.tokens)


def _read(state: Reflections, event: TranscriptRead, batch: Batch) -> None:
    known = state.sessions.get(_of(batch), Session(None))
    judged = event.rater != NO_RATER
    rated = known.rated.through(event) if judged else known.rated
    heard = known.heard.at_least(event) if judged else known.heard.through(event)
    state.sessions[_of(batch)] = attrs.evolve(known, heard=heard, rated=rated)
    last = {event.last} - {""}
    state.heard_lasts |= last
    state.lasts |= last if judged else set()


def _completed(state: Reflections, event: ReflectionCompleted, batch: Batch) -> None:
    known = state.sessions.get(_of(batch), Session(None))
    _ended(state, known, event, batch)
    state.sessions[_of(batch)] = attrs.evolve(known, begun=None, failure=None)


def _failed(state: Reflections, event: ReflectionFailed, batch: Batch) -> None:
    known = state.sessions.get(_of(batch), Session(None))
    _ended(state, known, event, batch)
    failure = Failure(_tries(known.failure, event.rater) + 1, batch.at, event.cause, event.rater, event.reason)
    state.sessions[_of(batch)] = attrs.evolve(known, begun=None, failure=failure)


def broken_off(session: Session) -> Failure | None:
    """Return what came to nothing last, where the try that was begun and has not ended is one that did."""
    begun = session.begun
    if begun is None:
        return session.failure
    return Failure(_tries(session.failure, begun.rater) + 1, begun.at, BROKEN_OFF, begun.rater)


def _tries(failure: Failure | None, rater: str) -> int:
    return failure.tries if failure is not None and failure.rater == rater else 0


def _ended(state: Reflections, known: Session, event: ReflectionCompleted | ReflectionFailed, batch: Batch) -> None:
    """Put what a try has cost in the place of what it was expected to cost."""
    cost = event.input_tokens + event.output_tokens
    if known.begun is not None:
        _spend(state, known.begun.at, -known.begun.tokens)
    _spend(state, batch.at, cost)
    model = batch.records[-1].by.model or event.rater
    state.models[model] = state.models.get(model, 0) + cost


def _spend(state: Reflections, at: str, tokens: int) -> None:
    state.spent[at[:10]] = state.spent.get(at[:10], 0) + tokens


REFLECTIONS: Final = View(
    Reflections,
    {
        PlaybookInjected: _injected,
        ReflectionRequested: _requested,
        ReflectionStarted: _started,
        TranscriptRead: _read,
        ReflectionCompleted: _completed,
        ReflectionFailed: _failed,
    },
)


def reflections_view() -> View[Reflections]:
    """Return the view."""
    return REFLECTIONS
