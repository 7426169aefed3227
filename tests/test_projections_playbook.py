"""The playbook view: laws of curation, the bytes of the file, and checkpoints.

`tests/tape/stories/entries.txt` has what curation, manual edits and imports do to entries.
"""

from __future__ import annotations

from collections.abc import Sequence
import json
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
import msgspec
import pytest

from helpers.reference_model import book, point
from helpers.view_histories import (
    CLOSE,
    HISTORIES,
    SAID,
    A,
    B,
    C,
    append_batches,
    drop_events,
    fold_playbook,
    history,
    ids_of,
    list_state,
    plain,
    playbook,
)
from tallybook.ledger import events
from tallybook.ledger.events import (
    Entry,
    EventRedacted,
    EventsVoided,
    PlaybookAdopted,
    PlaybookEdited,
    PointEdited,
    PointMerged,
    PointPinned,
    PointRated,
    PointRetired,
    PointReworded,
    ReflectionCompleted,
    ReflectionFailed,
    ReflectionRequested,
    ReflectionStarted,
    TranscriptRead,
)
from tallybook.ledger.playbook_constants import PLAYBOOK_NEUTRAL
from tallybook.ledger.records import Author, Batch, EventRecord, make_batch
from tallybook.projections.history.reflections import REFLECTIONS, Failure, ReadPosition, Reflections
from tallybook.projections.playbook.entry import POLICIES, SPEC_POLICY, Policy
from tallybook.projections.playbook.fold import fold, fold_history
from tallybook.projections.playbook.fold import history as retold
from tallybook.projections.playbook.render import playbook_bytes, playbook_dict
from tallybook.projections.playbook.view import CHANGES, PLAYBOOK, Playbook, playbook_view
from tallybook.projections.surfaces.history import checkpoints

# Curation

PAIR = st.builds(PointRated, st.sampled_from(["kpt_001", "kpt_002"]), st.sampled_from(["helpful", "harmful"]))


@given(st.lists(PAIR))
def test_a_merged_pair_has_the_sum(ratings: list[PointRated]) -> None:
    """Ratings of both entries count for the target, before the merge and after it."""
    for cut in range(len(ratings) + 1):
        state = playbook([A, B, *ratings[:cut]], [events.PointMerged("kpt_001", ("kpt_002",), ""), *ratings[cut:]])
        counts = [sum(rated.rating == rating for rated in ratings) for rating in ("helpful", "harmful")]
        assert {"kpt_001": Entry("kpt_001", "a", *counts)} == state.entries


LEAVING = events.PointRemoved | events.PointRetired | events.PointMerged | events.PointUnpinned
STAYING = SAID.filter(lambda event: not isinstance(event, LEAVING))


@given(st.lists(st.lists(STAYING, min_size=1, max_size=6), max_size=6))
def test_a_pinned_entry_is_never_pruned(future: list[list[Any]]) -> None:
    """Whatever its ratings or counts, it stays until someone removes or unpins it."""
    batches = history([[A, events.PointPinned("kpt_001", "")], *future])
    assert [True] * len(batches) == ["kpt_001" in fold_playbook(batches, batch.last).entries for batch in batches]


OTHERS = SAID.filter(
    lambda event: (
        not isinstance(event, LEAVING | events.PointSeeded | events.PointEdited)
        and not (isinstance(event, PointRated) and (event.name, event.rating) == ("kpt_001", "harmful"))
    )
)


@given(st.lists(st.lists(OTHERS, min_size=1, max_size=6), max_size=6), st.integers(3, 6))
def test_a_restored_entry_is_pruned_only_by_a_further_harmful_rating(future: list[list[Any]], harmful: int) -> None:
    """Updates skip it until it is rated harmful once more; then the rule applies again."""
    rated = [PointRated("kpt_001", "harmful")]
    batches = history([[A, *rated * harmful, CLOSE], [events.PointRestored("kpt_001", "")], *future])
    state = fold_playbook(batches)
    assert {"kpt_001"} <= state.entries.keys()
    helpful = state.entries["kpt_001"].helpful
    fate = fold_playbook(append_batches(batches, [*rated * (helpful + 1), CLOSE]))
    assert ("kpt_001" in state.pinned) == ("kpt_001" in fate.entries)


# The file


def stamp_playbook(*points: Entry) -> Playbook:
    """Return a playbook of these entries, stamped."""
    return Playbook(entries={point.name: point for point in points}, stamp=(12, "ab" * 16))


def test_the_file_is_the_document_and_its_stamp() -> None:
    """playbook.json is readable JSON in the specification's order of keys, stamped, with a line end at its end."""
    made = stamp_playbook(Entry("kpt_001", "Größe", 1, 2))
    written = playbook_bytes(made).decode()
    assert book(point("kpt_001", "Größe", 1, 2)) | {"ledger": f"12:{'ab' * 16}"} == json.loads(written)
    assert ["version", "last_updated", "key_points", "ledger"] == list(json.loads(written))
    assert written.startswith('{\n  "version": "1.0",\n')
    assert written.endswith("}\n")
    assert "Größe" in written
    assert {"ledger"} == json.loads(written).keys() - playbook_dict(made).keys()


def test_only_the_first_file_gives_version_and_date() -> None:
    """One that is imported into a playbook with entries gives neither, and is a change of that playbook."""
    adopted = PlaybookAdopted("0" * 64, 0, '{"version":"9","last_updated":"1999"}')
    first, later = playbook([adopted]), playbook([A], [adopted])
    assert ("9", "1999", None) == (first.top["version"], first.adopted_at, first.latest)
    assert isinstance(later.latest, Batch)
    assert ("1.0", None, 2) == (later.top["version"], later.adopted_at, later.latest.last)


# Checkpoints


def fields_of(state: Playbook) -> Any:
    """Return every field of a state; of its batches the moment and time."""
    fields = {name: getattr(state, name) for name in attrs.fields_dict(Playbook)}
    latest = state.latest
    return plain(fields | {"latest": latest and getattr(latest, "at", latest)})


@given(stretches=HISTORIES, cut=st.integers(0, 10))
def test_a_fold_continues_from_a_checkpoint(stretches: list[list[Any]], cut: int) -> None:
    """The state is the same to its last field, at the checkpoint and at the end."""
    batches = history(stretches)
    early = fold(PLAYBOOK, batches[:cut])
    _, packed = msgspec.msgpack.decode(checkpoints.encode(0, early), type=tuple[int, msgspec.Raw])
    again = checkpoints.unpack(PLAYBOOK.start(), packed)
    # It is read again.
    again.latest_batch = early.latest_batch
    assert fields_of(early) == fields_of(again)
    assert fields_of(fold(PLAYBOOK, batches)) == fields_of(fold(PLAYBOOK, batches[cut:], again))


# Policies: when an entry is pruned, and the text of the rule.


FINAL = playbook_view(POLICIES["final"])
UPDATES = st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=4), max_size=12)
COUNTS = st.integers(0, 50)


def is_pruned(policy: Policy, helpful: int, harmful: int) -> bool:
    """Return whether an entry with these counts is pruned."""
    return policy.prunes(Entry("kpt_001", "use types", helpful, harmful))


@given(floor=st.integers(1, 9), margin=st.integers(1, 9), helpful=COUNTS)
def test_no_policy_prunes_an_entry_without_harmful_ratings(floor: int, margin: int, helpful: int) -> None:
    """Under every policy such an entry stays (INV-SCORE-003)."""
    assert not is_pruned(Policy("mine", floor, margin), helpful, 0)


@given(floor=st.integers(1, 9), margin=st.integers(1, 9), helpful=COUNTS, harmful=COUNTS)
def test_one_more_helpful_rating_never_condemns(floor: int, margin: int, helpful: int, harmful: int) -> None:
    """One more helpful rating never causes a prune, and one more harmful one never prevents it."""
    policy = Policy("mine", floor, margin)
    goes = is_pruned(policy, helpful, harmful)
    assert goes >= is_pruned(policy, helpful + 1, harmful)
    assert goes <= is_pruned(policy, helpful, harmful + 1)


# Wilson


def test_wilson_needs_certainty() -> None:
    """Worked by hand: four harmful and none helpful is beyond chance, three is not, and so is 9 against 2."""
    wilson = POLICIES["wilson"]
    least = {helpful: next(n for n in COUNTED if is_pruned(wilson, helpful, n)) for helpful in range(6)}
    assert {0: 4, 1: 7, 2: 9, 3: 11, 4: 12, 5: 14} == least


COUNTED = range(1, 60)


# Final


def list_present(view: Any, updates: list[list[tuple[str, bool]]]) -> set[str]:
    """Return the present entries after updates of ratings of a and b, each helpful or not."""
    names = {"a": "kpt_001", "b": "kpt_002"}
    stretches = [
        [*(PointRated(names[name], "helpful" if good else "harmful") for name, good in update), CLOSE]
        for update in updates
    ]
    return set(fold_history(view, lambda: history([[A, B, CLOSE], *stretches])).entries)


@given(UPDATES)
def test_final_uses_the_counts_at_the_end(updates: list[list[tuple[str, bool]]]) -> None:
    """The sum of all ratings of each entry decides, whatever their order."""
    rated = [rating for update in updates for rating in update]
    counts = {name: [sum(n == name and good is g for n, g in rated) for good in (True, False)] for name in "ab"}
    expected = {f"kpt_00{1 + (name == 'b')}" for name in "ab" if not is_pruned(SPEC_POLICY, *counts[name])}
    assert expected == list_present(FINAL, updates)


HARMFUL, HELPFUL = ([*[PointRated("kpt_001", word)] * 3, CLOSE] for word in ("harmful", "helpful"))
EDIT = PlaybookEdited(None, None, "")
MATCHED = events.PointMatched("kpt_003", "kpt_002", 2, 1, "b")
RESTORED = [[A, *HARMFUL], [events.PointRestored("kpt_001", "")]]
HELPED_B = PointRated("kpt_002", "helpful")
HARMED_B = [*[PointRated("kpt_002", "harmful")] * 3, CLOSE]
A_TO_B, B_TO_A, B_TO_C = (PointMerged(f"kpt_00{to}", (f"kpt_00{of}",), "") for to, of in ((2, 1), (1, 2), (3, 2)))


@pytest.mark.parametrize(
    ("stretches", "shown"),
    [
        ([[A, B, MATCHED, PointRated("kpt_003", "helpful")]], [("kpt_001", "a", 0, 0), ("kpt_002", "b", 3, 1)]),
        ([[MATCHED]], [("kpt_003", "b", 2, 1)]),
        ([[B, PointRetired("kpt_002", ""), MATCHED]], []),
        ([*RESTORED, [PointEdited("kpt_001", 0, 3, None, change="kept"), CLOSE]], [("kpt_001", "a", 0, 3)]),
        ([*RESTORED, [PointEdited("kpt_001", 1, 3, "a"), CLOSE]], []),
        ([*RESTORED, [PointRetired("kpt_001", "")], [PointEdited("kpt_001", 0, 3, "a"), CLOSE]], []),
        ([[A, *HARMFUL[:3], *HELPFUL]], [("kpt_001", "a", 3, 3)]),
        ([[A, PointPinned("kpt_001", ""), *HARMFUL], [events.PointUnpinned("kpt_001", ""), CLOSE]], []),
        ([[A, B, events.PlaybookOrdered(("kpt_002",)), EDIT]], [("kpt_002", "b", 0, 0), ("kpt_001", "a", 0, 0)]),
        ([[A, PointRated("kpt_001", "helpful"), PointReworded("kpt_001", "", "b")]], [("kpt_001", "b", 1, 0)]),
        ([[A, B, C, A_TO_B, B_TO_C, PointRated("kpt_001", "helpful")]], [("kpt_003", "c", 1, 0)]),
        ([[A, B, B_TO_A, MATCHED]], [("kpt_001", "a", 2, 1)]),
        (
            [[A, B, B_TO_A, PointEdited("kpt_002", 0, 0, "b"), EDIT, HELPED_B]],
            [("kpt_001", "a", 0, 0), ("kpt_002", "b", 1, 0)],
        ),
        ([[A, B, PointMerged("kpt_002", ("kpt_009", "kpt_001"), "")]], [("kpt_002", "b", 0, 0)]),
        ([*RESTORED, [B, B_TO_A, CLOSE]], [("kpt_001", "a", 0, 3)]),
        ([*RESTORED, [B, A_TO_B, CLOSE]], [("kpt_002", "b", 0, 3)]),
        ([*RESTORED, [B, *HARMED_B], [events.PointRestored("kpt_002", "")], [A_TO_B, CLOSE]], [("kpt_002", "b", 0, 6)]),
    ],
)
def test_an_entry_has_what_its_events_say(stretches: list[list[Any]], shown: list[tuple[Any, ...]]) -> None:
    """A match adds to the entry of the same text, or is one; only a restored entry that stays as it was is spared."""
    assert [Entry(*values) for values in shown] == [*playbook(*stretches).entries.values()]


def test_every_kind_changes_the_playbook_or_is_neutral() -> None:
    """Only kinds of a ledger's beginning and repair are neither; what they stand beside may change it."""
    changing = [events.KIND_OF[cls] for cls in CHANGES if cls in events.KIND_OF]
    neither = ["ledger.opened", "item.skipped", "log.recovered"]
    assert sorted(events.EVENT_TYPES) == sorted([*changing, *PLAYBOOK_NEUTRAL, *neither])


def test_an_entry_leaves_in_one_way() -> None:
    """An entry that the next update would have pruned stays retired."""
    state = playbook([A, *HARMFUL[:3], PointRetired("kpt_001", ""), CLOSE])
    assert "retired" == state.status_of("kpt_001")


def test_a_stamp_is_of_the_last_change() -> None:
    """A batch that does not change the playbook leaves its stamp."""
    assert (1, "chain-0") == fold_playbook(history([[A], [ASKED]])).stamp


@pytest.mark.parametrize(
    ("given", "is_protected"),
    [
        ([("agent", "helpful")] * 4, False),
        ([("human", "helpful")] * 3, True),
        ([("human", "helpful"), ("agent", "harmful")] * 3, True),
        ([("human", "helpful"), ("human", "harmful")] * 3, False),
    ],
)
def test_votes_of_agents_protect_nothing(given: list[tuple[str, str]], is_protected: bool) -> None:
    """More helpful than harmful ratings protect an entry, and one that it is merged into, unless agents gave them."""
    votes = (
        make_batch(EventRecord(seq, DAY, PointRated("kpt_001", rating), f"id-{seq}", Author(rater, None)))
        for seq, (rater, rating) in enumerate(given, 3)
    )
    told = [*history([[A, B]]), *votes]
    merged = append_batches(told, [A_TO_B])
    edited = append_batches(told, [PointEdited("kpt_001", 3, 0, "a"), EDIT])
    for batches, name, expected in (
        (told, "kpt_001", is_protected),
        (merged, "kpt_002", is_protected),
        (append_batches(merged, [C, B_TO_C]), "kpt_003", is_protected),
        (edited, "kpt_001", True),
    ):
        state = fold_playbook(batches)
        assert expected == state.is_protected(state.entries[name])


@pytest.mark.parametrize(
    ("stretches", "text", "counts"),
    [
        ([HARMFUL], None, None),
        ([HARMFUL, HELPFUL], "a", (3, 3)),
        ([HARMFUL, HELPFUL, HARMFUL], None, None),
        ([HARMFUL, [PointReworded("kpt_001", "", "a!")], HELPFUL], "a!", (3, 3)),
        ([HARMFUL, [PointPinned("kpt_001", "")], [CLOSE]], "a", (0, 3)),
        ([HARMFUL, [PointRetired("kpt_001", "")], HELPFUL], None, None),
        ([HARMFUL, [PointEdited("kpt_001", 0, 0, "b"), EDIT], HARMFUL], None, None),
        (
            [[PointMerged("kpt_001", ("kpt_002",), "")], HARMFUL, [PointRated("kpt_002", "helpful")] * 3 + [CLOSE]],
            "a",
            (3, 3),
        ),
    ],
)
def test_an_entry_returns_under_final(
    stretches: list[list[Any]], text: str | None, counts: tuple[int, int] | None
) -> None:
    """It returns at the first update whose counts keep it, with all its ratings, unless it was removed."""
    point = fold_history(FINAL, lambda: history([[A, B, CLOSE], *stretches])).entries.get("kpt_001")
    assert (text, counts) == ((None, None) if point is None else (point.text, (point.helpful, point.harmful)))


# Undo in the fold: an undone event was never there, and curation of an entry counts.


UNDO_HISTORIES = st.lists(st.lists(SAID, min_size=1, max_size=5), min_size=1, max_size=6)
FUTURES = st.lists(st.lists(SAID, min_size=1, max_size=4), max_size=3)


@given(UNDO_HISTORIES, FUTURES, st.data())
def test_an_undone_event_was_never_there(past: list[list[Any]], future: list[list[Any]], data: st.DataObject) -> None:
    """From the undo on, every moment equals that of the history without the undone events."""
    stood = history(past)
    ids = data.draw(st.lists(st.sampled_from(ids_of(stood)), unique=True))
    void = [EventsVoided(tuple(ids), None, "")]
    told, never = append_batches(stood, void, *future), append_batches(drop_events(stood, ids), *future)
    after = [batch.last for batch in told[len(stood) :]]
    assert list_state(fold(PLAYBOOK, never)) == list_state(fold_playbook(told))
    assert list_state(fold(PLAYBOOK, never)) == list_state(fold(PLAYBOOK, retold(lambda: told)))
    for count, seq in enumerate(after):
        assert list_state(fold(PLAYBOOK, append_batches(drop_events(stood, ids), *future[:count]))) == list_state(
            fold_playbook(told, seq)
        )


@given(UNDO_HISTORIES, FUTURES, st.data())
def test_names_of_undone_events_stay_used(past: list[list[Any]], future: list[list[Any]], data: st.DataObject) -> None:
    """The high-water mark and the used names are those of all events, undone or not."""
    stood = history(past)
    ids = data.draw(st.lists(st.sampled_from(ids_of(stood)), unique=True))
    told = append_batches(stood, [EventsVoided(tuple(ids), None, "")], *future)
    raw, state = fold(PLAYBOOK, told), fold_playbook(told)
    assert (raw.used, raw.high_water) == (state.used, state.high_water)


@given(UNDO_HISTORIES, FUTURES, st.data())
def test_undo_and_redo_is_the_identity(past: list[list[Any]], future: list[list[Any]], data: st.DataObject) -> None:
    """An undo of an undo, by ids or of a session, restores its events, and a third undo removes them again."""
    stood = history(past)
    ids = data.draw(st.lists(st.sampled_from(ids_of(stood)), unique=True))
    session = data.draw(st.none() | st.integers(0, len(past)).map("s{}".format))
    undone = append_batches(stood, [EventsVoided(tuple(ids), session, "")])
    redone = append_batches(undone, [EventsVoided((undone[-1].records[0].id,), None, "")])
    again = append_batches(redone, [EventsVoided((redone[-1].records[0].id,), None, "")])
    assert list_state(fold(PLAYBOOK, append_batches(stood, *future))) == list_state(
        fold_playbook(append_batches(redone, *future))
    )
    assert list_state(fold_playbook(append_batches(undone, *future))) == list_state(
        fold_playbook(append_batches(again, *future))
    )


@given(UNDO_HISTORIES, UNDO_HISTORIES, st.data())
def test_a_session_is_undone_up_to_the_undo(
    past: list[list[Any]], future: list[list[Any]], data: st.DataObject
) -> None:
    """Exactly the session's earlier events are undone; its later events count."""
    stood = history(past)
    index = data.draw(st.integers(0, len(past) - 1))
    session = f"s{index}"
    told = append_batches(append_batches(stood, [EventsVoided((), session, "")]), *future, session=session)
    never = append_batches(drop_events(stood, ids_of([stood[index]])), *future, session=session)
    assert list_state(fold(PLAYBOOK, never)) == list_state(fold_playbook(told))


@given(UNDO_HISTORIES, FUTURES, st.data())
def test_a_state_is_folded_anew_after_an_undo(
    past: list[list[Any]], future: list[list[Any]], data: st.DataObject
) -> None:
    """A fold that sees one more undo than before cannot continue from its state."""
    stood = history(past)
    told = append_batches(stood, [EventsVoided((data.draw(st.sampled_from(ids_of(stood))),), None, "")])
    undoing = EventsVoided((told[-1].records[0].id,), None, "")
    before = fold_playbook(told).rewrites
    assert before == fold_playbook(append_batches(told, *(batch for batch in future if not redacts(batch)))).rewrites
    assert before < fold_playbook(append_batches(told, [undoing], *future)).rewrites


def redacts(events: Sequence[Any]) -> bool:
    """Return whether a batch redacts something."""
    return any(isinstance(event, EventRedacted) for event in events)


# Undo, case by case


def test_an_event_outside_the_playbook_cannot_be_undone() -> None:
    """A redaction stays one, even if an undo names it."""
    told = append_batches(history([[A, CLOSE], [EventRedacted("id-1", "secret")]]), [EventsVoided(("id-3",), "s1", "")])
    assert [type(event.event) for event in told[1].records] == [
        type(event.event) for event in list(retold(lambda: told))[1].records
    ]


def test_after_an_undone_import_the_next_one_is_the_first() -> None:
    """Version, date and other top-level keys are from the first import that was not undone."""
    wrong = [PlaybookAdopted("0" * 64, 0, '{"version":"7","last_updated":"1999"}')]
    right = [PlaybookAdopted("1" * 64, 0, '{"version":"0.9","owner":"me"}')]
    state = fold_playbook(append_batches(history([wrong]), [EventsVoided(("id-1",), None, "")], right))
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


def fold_document(*batches: Sequence[Any] | Batch) -> Reflections:
    """Return the view's document of batches, each about session s1 unless given otherwise."""
    made = [events if isinstance(events, Batch) else batch(seq, *events) for seq, events in enumerate(batches, 1)]
    return fold(REFLECTIONS, made)


def test_a_requested_reflection_is_pending_until_it_is_read() -> None:
    """It is pending up to the length of the transcript, for any rater."""
    state = fold_document([ASKED])
    assert [True, True] == [state.sessions["s1"].awaits_reflection(rater) for rater in ("none", "claude")]
    assert ("/t/s1.jsonl", 100) == (state.sessions["s1"].transcript, state.sessions["s1"].request_end)
    state = fold_document([ASKED], [READ, DONE])
    assert [False, False] == [state.sessions["s1"].awaits_reflection(rater) for rater in ("none", "claude")]


def test_a_longer_transcript_is_pending_again() -> None:
    """A resumed session, or one after a compaction, continues after the part that was read."""
    state = fold_document([ASKED], [READ, DONE], [ReflectionRequested(150, "SessionEnd", "/t/s1.jsonl")])
    session = state.sessions["s1"]
    assert (True, ReadPosition({"": 90}, 100)) == (session.awaits_reflection("claude"), session.position("claude"))
    assert not fold_document([ASKED], [READ, DONE], [ASKED]).sessions["s1"].awaits_reflection("claude")


def test_an_ended_reflection_has_its_reported_cost() -> None:
    """While it runs the expected cost counts; then the reported one, on the day of its end."""
    assert {"2026-11-21": 900} == fold_document([ASKED], [STARTED]).tokens_by_day
    ended = batch(3, READ, DONE, at=NEXT, model="m-1")
    state = fold_document([ASKED], [STARTED], ended)
    assert {"2026-11-21": 0, "2026-11-22": 750} == state.tokens_by_day
    assert {"2026-11-21": 705} == fold_document([ASKED], [STARTED], [BAD]).tokens_by_day


def test_a_failure_is_listed_until_a_success() -> None:
    """It has the number of failures in a row, the time, and the reason."""
    state = fold_document([ASKED], [STARTED], [BAD], [STARTED], batch(5, BAD, at=NEXT))
    session = state.sessions["s1"]
    assert (None, Failure(2, NEXT, "unusable", "claude", "no JSON")) == (session.attempt, session.failure)
    assert session.awaits_reflection("claude")
    state = fold_document([ASKED], [STARTED], [BAD], [STARTED], [READ, DONE])
    assert (None, None) == (state.sessions["s1"].attempt, state.sessions["s1"].failure)
