"""The reflections view: pending sessions, how far transcripts were read, and the cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tallybook.ledger.events import (
    ReflectionCompleted,
    ReflectionFailed,
    ReflectionRequested,
    ReflectionStarted,
    TranscriptRead,
)
from tallybook.ledger.records import Author, Batch, EventRecord, make_batch
from tallybook.projections.fold import fold
from tallybook.projections.history.reflections import (
    REFLECTIONS,
    Failure,
    ReadPosition,
    Reflections,
)

DAY, NEXT = "2026-11-21T10:00:00.000000Z", "2026-11-22T10:00:00.000000Z"
ASKED = ReflectionRequested(100, "SessionEnd", "/t/s1.jsonl")
STARTED = ReflectionStarted("claude", 900)
READ = TranscriptRead("", 0, 90, 100, "u9", "claude")
DONE = ReflectionCompleted("claude", 700, 50)
BAD = ReflectionFailed("claude", "unusable", 700, 5, "no JSON")


def batch(seq: int, *events: Any, at: str = DAY, session: str | None = "s1", model: str | None = None) -> Batch:
    """Return events about a session as one batch that ends at a sequence number."""
    by = Author("reflector", session, model=model)
    return make_batch(*(EventRecord(seq, at, event, f"id-{seq}-{place}", by) for place, event in enumerate(events)))


def shown(*batches: Sequence[Any] | Batch) -> Reflections:
    """Return the view's document of batches, each about session s1 unless given otherwise."""
    made = [events if isinstance(events, Batch) else batch(seq, *events) for seq, events in enumerate(batches, 1)]
    return fold(REFLECTIONS, made)


def test_a_requested_reflection_is_pending_until_it_is_read() -> None:
    """It is pending up to the length of the transcript, for any rater."""
    state = shown([ASKED])
    assert [True, True] == [state.sessions["s1"].awaits_reflection(rater) for rater in ("none", "claude")]
    assert ("/t/s1.jsonl", 100) == (state.sessions["s1"].transcript, state.sessions["s1"].request_end)
    state = shown([ASKED], [READ, DONE])
    assert [False, False] == [state.sessions["s1"].awaits_reflection(rater) for rater in ("none", "claude")]


def test_a_longer_transcript_is_pending_again() -> None:
    """A resumed session, or one after a compaction, continues after the part that was read."""
    state = shown([ASKED], [READ, DONE], [ReflectionRequested(150, "SessionEnd", "/t/s1.jsonl")])
    session = state.sessions["s1"]
    assert (True, ReadPosition({"": 90}, 100)) == (session.awaits_reflection("claude"), session.position("claude"))
    assert not shown([ASKED], [READ, DONE], [ASKED]).sessions["s1"].awaits_reflection("claude")


def test_an_ended_reflection_has_its_reported_cost() -> None:
    """While it runs the expected cost counts; then the reported one, on the day of its end."""
    assert {"2026-11-21": 900} == shown([ASKED], [STARTED]).tokens_by_day
    ended = batch(3, READ, DONE, at=NEXT, model="m-1")
    state = shown([ASKED], [STARTED], ended)
    assert {"2026-11-21": 0, "2026-11-22": 750} == state.tokens_by_day
    assert {"2026-11-21": 705} == shown([ASKED], [STARTED], [BAD]).tokens_by_day


def test_a_failure_is_listed_until_a_success() -> None:
    """It has the number of failures in a row, the time, and the reason."""
    state = shown([ASKED], [STARTED], [BAD], [STARTED], batch(5, BAD, at=NEXT))
    session = state.sessions["s1"]
    assert (None, Failure(2, NEXT, "unusable", "claude", "no JSON")) == (session.attempt, session.failure)
    assert session.awaits_reflection("claude")
    state = shown([ASKED], [STARTED], [BAD], [STARTED], [READ, DONE])
    assert (None, None) == (state.sessions["s1"].attempt, state.sessions["s1"].failure)
