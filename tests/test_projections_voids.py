"""Undo in the fold: an undone event was never there, and curation of an entry counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from helpers.view_histories import CLOSE, SAID, A, folded, followed_by, history, ids_of, shown, without
from tallybook.ledger.events import (
    EventRedacted,
    EventsVoided,
    PlaybookAdopted,
    ReflectionCompleted,
    ReflectionFailed,
    ReflectionRequested,
    ReflectionStarted,
    TranscriptRead,
)
from tallybook.ledger.records import Author, Batch, EventRecord, make_batch
from tallybook.projections.history.reflections import REFLECTIONS, Failure, ReadPosition, Reflections
from tallybook.projections.playbook.fold import fold
from tallybook.projections.playbook.fold import history as retold
from tallybook.projections.playbook.view import PLAYBOOK

HISTORIES = st.lists(st.lists(SAID, min_size=1, max_size=5), min_size=1, max_size=6)
FUTURES = st.lists(st.lists(SAID, min_size=1, max_size=4), max_size=3)


# Laws


@given(HISTORIES, FUTURES, st.data())
def test_an_undone_event_was_never_there(past: list[list[Any]], future: list[list[Any]], data: st.DataObject) -> None:
    """From the undo on, every moment equals that of the history without the undone events."""
    stood = history(past)
    ids = data.draw(st.lists(st.sampled_from(ids_of(stood)), unique=True))
    void = [EventsVoided(tuple(ids), None, "")]
    told, never = followed_by(stood, void, *future), followed_by(without(stood, ids), *future)
    after = [batch.last for batch in told[len(stood) :]]
    assert shown(fold(PLAYBOOK, never)) == shown(folded(told))
    for count, seq in enumerate(after):
        assert shown(fold(PLAYBOOK, followed_by(without(stood, ids), *future[:count]))) == shown(folded(told, seq))


@given(HISTORIES, FUTURES, st.data())
def test_names_of_undone_events_stay_used(past: list[list[Any]], future: list[list[Any]], data: st.DataObject) -> None:
    """The high-water mark and the used names are those of all events, undone or not."""
    stood = history(past)
    ids = data.draw(st.lists(st.sampled_from(ids_of(stood)), unique=True))
    told = followed_by(stood, [EventsVoided(tuple(ids), None, "")], *future)
    raw, state = fold(PLAYBOOK, told), folded(told)
    assert (raw.used, raw.high_water) == (state.used, state.high_water)


@given(HISTORIES, FUTURES, st.data())
def test_undo_and_redo_is_the_identity(past: list[list[Any]], future: list[list[Any]], data: st.DataObject) -> None:
    """An undo of an undo, by ids or of a session, restores its events, and a third undo removes them again."""
    stood = history(past)
    ids = data.draw(st.lists(st.sampled_from(ids_of(stood)), unique=True))
    session = data.draw(st.none() | st.integers(0, len(past)).map("s{}".format))
    undone = followed_by(stood, [EventsVoided(tuple(ids), session, "")])
    redone = followed_by(undone, [EventsVoided((undone[-1].records[0].id,), None, "")])
    again = followed_by(redone, [EventsVoided((redone[-1].records[0].id,), None, "")])
    assert shown(fold(PLAYBOOK, followed_by(stood, *future))) == shown(folded(followed_by(redone, *future)))
    assert shown(folded(followed_by(undone, *future))) == shown(folded(followed_by(again, *future)))


@given(HISTORIES, HISTORIES, st.data())
def test_a_session_is_undone_up_to_the_undo(
    past: list[list[Any]], future: list[list[Any]], data: st.DataObject
) -> None:
    """Exactly the session's earlier events are undone; its later events count."""
    stood = history(past)
    index = data.draw(st.integers(0, len(past) - 1))
    session = f"s{index}"
    told = followed_by(followed_by(stood, [EventsVoided((), session, "")]), *future, session=session)
    never = followed_by(without(stood, ids_of([stood[index]])), *future, session=session)
    assert shown(fold(PLAYBOOK, never)) == shown(folded(told))


@given(HISTORIES, FUTURES, st.data())
def test_a_state_is_folded_anew_after_an_undo(
    past: list[list[Any]], future: list[list[Any]], data: st.DataObject
) -> None:
    """A fold that sees one more undo than before cannot continue from its state."""
    stood = history(past)
    told = followed_by(stood, [EventsVoided((data.draw(st.sampled_from(ids_of(stood))),), None, "")])
    undoing = EventsVoided((told[-1].records[0].id,), None, "")
    before = folded(told).rewrites
    assert before == folded(followed_by(told, *(batch for batch in future if not redacts(batch)))).rewrites
    assert before < folded(followed_by(told, [undoing], *future)).rewrites


def redacts(events: Sequence[Any]) -> bool:
    """Return whether a batch redacts something."""
    return any(isinstance(event, EventRedacted) for event in events)


# Undo, case by case


def test_an_event_outside_the_playbook_cannot_be_undone() -> None:
    """A redaction stays one, even if an undo names it."""
    told = followed_by(history([[A, CLOSE], [EventRedacted("id-1", "secret")]]), [EventsVoided(("id-3",), "s1", "")])
    assert [type(event.event) for event in told[1].records] == [
        type(event.event) for event in list(retold(lambda: told))[1].records
    ]


def test_after_an_undone_import_the_next_one_is_the_first() -> None:
    """Version, date and other top-level keys are from the first import that was not undone."""
    wrong = [PlaybookAdopted("0" * 64, 0, '{"version":"7","last_updated":"1999"}')]
    right = [PlaybookAdopted("1" * 64, 0, '{"version":"0.9","owner":"me"}')]
    state = folded(followed_by(history([wrong]), [EventsVoided(("id-1",), None, "")], right))
    assert ({"version": "0.9", "owner": "me"}, None) == (state.top, state.adopted_at)


# The reflections view: pending sessions, how far transcripts were read, and the cost.


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


def listed(*batches: Sequence[Any] | Batch) -> Reflections:
    """Return the view's document of batches, each about session s1 unless given otherwise."""
    made = [events if isinstance(events, Batch) else batch(seq, *events) for seq, events in enumerate(batches, 1)]
    return fold(REFLECTIONS, made)


def test_a_requested_reflection_is_pending_until_it_is_read() -> None:
    """It is pending up to the length of the transcript, for any rater."""
    state = listed([ASKED])
    assert [True, True] == [state.sessions["s1"].awaits_reflection(rater) for rater in ("none", "claude")]
    assert ("/t/s1.jsonl", 100) == (state.sessions["s1"].transcript, state.sessions["s1"].request_end)
    state = listed([ASKED], [READ, DONE])
    assert [False, False] == [state.sessions["s1"].awaits_reflection(rater) for rater in ("none", "claude")]


def test_a_longer_transcript_is_pending_again() -> None:
    """A resumed session, or one after a compaction, continues after the part that was read."""
    state = listed([ASKED], [READ, DONE], [ReflectionRequested(150, "SessionEnd", "/t/s1.jsonl")])
    session = state.sessions["s1"]
    assert (True, ReadPosition({"": 90}, 100)) == (session.awaits_reflection("claude"), session.position("claude"))
    assert not listed([ASKED], [READ, DONE], [ASKED]).sessions["s1"].awaits_reflection("claude")


def test_an_ended_reflection_has_its_reported_cost() -> None:
    """While it runs the expected cost counts; then the reported one, on the day of its end."""
    assert {"2026-11-21": 900} == listed([ASKED], [STARTED]).tokens_by_day
    ended = batch(3, READ, DONE, at=NEXT, model="m-1")
    state = listed([ASKED], [STARTED], ended)
    assert {"2026-11-21": 0, "2026-11-22": 750} == state.tokens_by_day
    assert {"2026-11-21": 705} == listed([ASKED], [STARTED], [BAD]).tokens_by_day


def test_a_failure_is_listed_until_a_success() -> None:
    """It has the number of failures in a row, the time, and the reason."""
    state = listed([ASKED], [STARTED], [BAD], [STARTED], batch(5, BAD, at=NEXT))
    session = state.sessions["s1"]
    assert (None, Failure(2, NEXT, "unusable", "claude", "no JSON")) == (session.attempt, session.failure)
    assert session.awaits_reflection("claude")
    state = listed([ASKED], [STARTED], [BAD], [STARTED], [READ, DONE])
    assert (None, None) == (state.sessions["s1"].attempt, state.sessions["s1"].failure)
