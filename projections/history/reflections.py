"""The reflections view: which sessions await reflection, how far their transcripts were read, and the tokens spent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import events
from tallybook.projections.playbook.fold import State, View

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch

NO_RATER: Final = "none"
GONE: Final = "gone"
INTERRUPTED: Final = "broken off"
"""Cause of an attempt without a recorded end: the next attempt started first."""


@attrs.frozen
class ReadPosition:
    """How far the transcripts of a session were read.

    Attributes:
        end: File → offset where reading goes on, in bytes; the name is empty for the session's own transcript.
        length: How much of the session's own transcript is accounted for, in bytes.
    """

    end: dict[str, int] = attrs.field(factory=dict)
    length: int = 0

    def extend(self, event: events.TranscriptRead, *, is_own: bool = True) -> ReadPosition:
        """Return the position after one more read; that of another rater may be less far, and lowers nothing.

        An own read that starts earlier is of a new file with the same name.
        """
        end, length = (0, 0) if is_own else (self.end.get(event.file, 0), self.length)
        new_length = self.length if event.file else max(event.seen, length)
        return ReadPosition({**self.end, event.file: max(event.end, end)}, new_length)


@attrs.frozen
class Failure:
    """The last failed attempt since the last success.

    Attributes:
        tries: Failed attempts of the same rater in a row, 1 or more; one that has not ended counts as failed.
        at: When the last attempt failed.
        cause: The cause in ``reflection.failed``, or INTERRUPTED.
        rater: The rater that was to reflect.
        reason: What went wrong; None once redacted.
    """

    tries: int
    at: str
    cause: str
    rater: str
    reason: str | None = ""


@attrs.frozen
class ReflectedSession:
    """The reflection on one session's transcript.

    Attributes:
        transcript: Its path, None where it was redacted.
        request_end: Length up to which reflection was requested, in bytes.
        trigger: The agent's event that requested it last.
        searched_to: How far it was searched for citations, by any rater.
        reflected_to: How far a model reflected on it.
        attempt: When the attempt that has not ended started, and its expected cost in tokens; None without one.
        failure: The last failure, that attempt included; None after a success.
    """

    transcript: str | None
    request_end: int = 0
    trigger: str = ""
    searched_to: ReadPosition = ReadPosition()
    reflected_to: ReadPosition = ReadPosition()
    attempt: tuple[str, int] | None = None
    failure: Failure | None = None

    def position(self, rater: str) -> ReadPosition:
        """Return where a rater goes on reading."""
        return self.searched_to if rater == NO_RATER else self.reflected_to

    def awaits_reflection(self, rater: str) -> bool:
        """Say whether a rater has requested bytes left to read."""
        # Under the rater none, sessions stay pending for a rater that is chosen later.
        return self.position(rater).length < self.request_end

    def add_read(self, event: events.TranscriptRead) -> ReflectedSession:
        """Return the session after one more read: a model's read finds citations as well."""
        if event.rater == NO_RATER:
            # A search for citations alone is no reflection.
            return attrs.evolve(self, searched_to=self.searched_to.extend(event))
        searched_to = self.searched_to.extend(event, is_own=False)
        return attrs.evolve(self, searched_to=searched_to, reflected_to=self.reflected_to.extend(event))

    @property
    def is_transcript_gone(self) -> bool:
        """Say whether its transcript was missing when reflection last looked for it."""
        return self.failure is not None and self.failure.cause == GONE


@attrs.define
class Reflections(State):
    """Done and pending reflections, and what they cost.

    Attributes:
        sessions: By id, in the order of their first request.
        reflected_uuids: ``uuid`` of the last line of each read by a model, which identifies copies of it.
        searched_uuids: The same of each read for citations.
        tokens_by_day: Day in UTC, ``2026-11-22`` → input and output tokens; a running attempt counts its expected cost.
        injected_at: Session into which the playbook was injected → when last.
        measured: Session → its numbers, as its transcript said them last.
        withheld: Session → the entries that a draw withheld from it, and that it was not given otherwise.
    """

    sessions: dict[str, ReflectedSession] = attrs.field(factory=dict)
    reflected_uuids: set[str] = attrs.field(factory=set)
    searched_uuids: set[str] = attrs.field(factory=set)
    tokens_by_day: dict[str, int] = attrs.field(factory=dict)
    injected_at: dict[str, str] = attrs.field(factory=dict)
    measured: dict[str, events.Numbers] = attrs.field(factory=dict)
    withheld: dict[str, frozenset[str]] = attrs.field(factory=dict)


def _count_injection(state: Reflections, event: events.PlaybookInjected, batch: Batch) -> None:
    if session := batch.records[-1].by.session:
        state.injected_at[session] = batch.at
        # A fork goes on with the conversation of its lineage.
        before = state.withheld.get(session, state.withheld.get(event.lineage, frozenset()))
        if before or event.held:
            state.withheld[session] = before.union(event.held).difference(event.names)


def _make_session_effect(
    change: Callable[[Reflections, ReflectedSession, Any, Batch], ReflectedSession],
) -> Callable[[Reflections, Any, Batch], None]:
    """Return the effect of an event on the state from its effect on its session."""

    def apply_event(state: Reflections, event: Any, batch: Batch) -> None:
        name = batch.records[-1].by.session or ""
        state.sessions[name] = change(state, state.sessions.get(name, ReflectedSession(None)), event, batch)

    return apply_event


def _request(_: Reflections, session: ReflectedSession, event: Any, _batch: Batch) -> ReflectedSession:
    return attrs.evolve(
        session,
        transcript=event.transcript,
        # A later request for less leaves to be read what was asked for before.
        request_end=max(event.end, session.request_end),
        trigger=event.trigger,
    )


def _start(state: Reflections, session: ReflectedSession, event: Any, batch: Batch) -> ReflectedSession:
    # A request is recorded before it is sent: a process that dies while a model answers leaves its cost here.
    _spend(state, batch.at, event.tokens)
    failure = Failure(_tries(session, event.rater) + 1, batch.at, INTERRUPTED, event.rater)
    return attrs.evolve(session, attempt=(batch.at, event.tokens), failure=failure)


def _read(state: Reflections, session: ReflectedSession, event: Any, _: Batch) -> ReflectedSession:
    last = {event.last} - {""}
    # A resumed or forked session copies lines of another transcript, and none of them is rated twice.
    state.searched_uuids |= last
    if event.rater != NO_RATER:
        state.reflected_uuids |= last
    return session.add_read(event)


def _end(state: Reflections, session: ReflectedSession, event: Any, batch: Batch) -> ReflectedSession:
    """Replace the expected cost of an attempt by its real cost, and note whether it failed."""
    # The expected cost leaves the day of the start, the real one counts on the day of the end.
    if session.attempt is not None:
        started_at, expected = session.attempt
        _spend(state, started_at, -expected)
    _spend(state, batch.at, event.input_tokens + event.output_tokens)
    failure = None
    if isinstance(event, events.ReflectionFailed):
        # Its start has counted it already.
        tries = max(1, _tries(session, event.rater) + (session.attempt is None))
        failure = Failure(tries, batch.at, event.cause, event.rater, event.reason)
    return attrs.evolve(session, attempt=None, failure=failure)


def _tries(session: ReflectedSession, rater: str) -> int:
    # Another rater did not fail yet, so that it starts without the delay.
    return session.failure.tries if session.failure is not None and session.failure.rater == rater else 0


def _spend(state: Reflections, at: str, tokens: int) -> None:
    state.tokens_by_day[at[:10]] = state.tokens_by_day.get(at[:10], 0) + tokens


def _measure(state: Reflections, event: events.SessionMeasured, batch: Batch) -> None:
    state.measured[batch.records[-1].by.session or ""] = event.numbers


REFLECTIONS: Final = View(
    Reflections,
    {
        events.PlaybookInjected: _count_injection,
        events.ReflectionRequested: _make_session_effect(_request),
        events.ReflectionStarted: _make_session_effect(_start),
        events.TranscriptRead: _make_session_effect(_read),
        events.ReflectionCompleted: _make_session_effect(_end),
        events.ReflectionFailed: _make_session_effect(_end),
        events.SessionMeasured: _measure,
    },
)
