"""The history of entries: each name has a status, a story, the event that changed it last, and why it left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from helpers.reference_model import TEXTS
from helpers.sweep import slice_of
from helpers.view_histories import HISTORIES, history
from tallybook.ledger.events import (
    Entry,
    EventsVoided,
    PlaybookUpdated,
    PointAdded,
    PointMerged,
    PointRated,
    PointRetired,
)
from tallybook.ledger.records import Batch
from tallybook.projections.history.entry_history import (
    ENTRIES,
    EntryStatuses,
    blame,
    entries_view,
    explain,
    find_by_words,
    graveyard,
    lineage,
)
from tallybook.projections.playbook.fold import fold, fold_history
from tallybook.projections.playbook.fold import history as retold
from tallybook.projections.playbook.inject import interval, lower_bound
from tallybook.projections.playbook.view import PLAYBOOK

CLOSED = PlaybookUpdated(0, 0, 0)
TEXT = "Use type hints"
LEARNED: list[Any] = [PointAdded("kpt_001", TEXT), PointAdded("kpt_002", "Mock time"), CLOSED]
NAMES = (*(f"kpt_{number:03d}" for number in (1, 2, 3, 4, 5, 10, 11)), "pat-001")


def statuses(*stretches: Sequence[Any]) -> EntryStatuses:
    """Return the status of every name after these batches."""
    return fold_history(ENTRIES, lambda: history(stretches))


def answer(batches: Sequence[Batch], name: str = "kpt_001") -> dict[str, Any]:
    """Return what `why` answers about a name in a history."""
    state = fold_history(entries_view({name}), lambda: batches)
    return explain(state.stories[name], state)


def seqs(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return name → the event that a row names."""
    return {row["name"]: row["event"]["seq"] for row in rows}


# Laws


@settings(max_examples=slice_of(100, 40))
@given(stretches=HISTORIES)
def test_a_story_agrees_with_the_playbook_and_with_a_fold_of_its_own(stretches: list[list[Any]]) -> None:
    """For every name, status, text and counts are the playbook's, and stories folded together are those folded alone.

    Each event that names the entry is listed once, as a step or as ignored.
    """
    batches = history(stretches)
    book = fold_history(PLAYBOOK, lambda: batches)
    together = fold_history(entries_view(NAMES), lambda: batches)
    for name in NAMES:
        story = answer(batches, name)
        assert story == explain(together.stories[name], together)
        assert book.status_of(name) == story["status"]
        entry = book.entries.get(name) or (book.gone.get(name) if name not in book.merged else None)
        if entry is not None:
            assert (entry.text, entry.helpful, entry.harmful) == (story["text"], story["helpful"], story["harmful"])
        rows = [row["seq"] for row in (*story["trail"], *story["ignored"])]
        assert len(rows) == len(set(rows))
        named = [record for batch in batches for record in batch.records if getattr(record.event, "name", None) == name]
        assert {record.seq for record in named if type(record.event) is PointRated} <= set(rows)


@settings(max_examples=slice_of(150, 50))
@given(HISTORIES)
def test_every_absent_entry_is_explained(stretches: list[list[Any]]) -> None:
    """`why` names the event that took an absent entry out as history reads, or undid it, and none for a present one.

    Manual edits, rules and undos are among the random events, and undos of undos.
    """
    batches = history(stretches)
    told = list(retold(lambda: batches))
    book = fold(PLAYBOOK, told)
    for name in [*book.entries, "kpt_404"]:
        assert answer(batches, name)["decided_by"] is None
    for name in book.used - set(book.entries):
        seq = answer(batches, name)["decided_by"]["seq"]
        index = next(index for index, batch in enumerate(told) if batch.last >= seq)
        later = [fold(PLAYBOOK, told[:count]).entries for count in range(index + 1, len(told) + 1)]
        assert not any(name in entries for entries in later)


@settings(max_examples=slice_of(200, 50))
@given(stretches=HISTORIES)
def test_blame_equals_a_comparison_of_moments(stretches: list[list[Any]]) -> None:
    """With one event a batch, comparing the moments shows which event changed an entry last."""
    batches = list(retold(lambda: history([[event] for stretch in stretches for event in stretch])))
    last: dict[str, int] = {}
    before: Mapping[str, Entry] = {}
    for count, batch in enumerate(batches, 1):
        after = fold(PLAYBOOK, batches[:count]).entries
        last |= {name: batch.last for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        before = after
    state = fold(ENTRIES, batches)
    assert last == seqs(blame(state)) | seqs([row for row in graveyard(state) if row["status"] != "undone"])


@given(HISTORIES, TEXTS)
def test_every_name_is_present_or_in_the_graveyard(stretches: list[list[Any]], text: str) -> None:
    """No used name is missing from both lists, none is in both, and a present entry is found by its whole text."""
    state = statuses(*stretches)
    assert [*state.book.entries] == [row["name"] for row in blame(state)]
    graves = [row["name"] for row in graveyard(state)]
    assert sorted(state.book.used) == sorted([*state.book.entries, *graves])
    with_text = {name for name, entry in state.book.entries.items() if entry.text == text and text.strip()}
    assert set() == with_text - set(find_by_words(state, text))


def test_names_of_the_same_advice_are_related() -> None:
    """Equal texts, equal words and merges relate names, also over several steps; a redacted text relates none."""
    added = [
        PointAdded("kpt_003", TEXT),
        PointAdded("kpt_004", "use type hints!"),
        PointAdded("kpt_005", "Annotate"),
        PointAdded("kpt_006", None),
        PointAdded("kpt_007", "annotate."),
    ]
    merge = PointMerged("kpt_005", ("kpt_004",), "")
    state = statuses(LEARNED, [PointRetired("kpt_001", "")], added, [merge], [EventsVoided(("id-9",), None, "")])
    rows = [(row["name"], row["status"], row["relation"], row["of"]) for row in lineage(state, "kpt_001")]
    assert [
        ("kpt_003", "kept", "same text", "kpt_001"),
        ("kpt_004", "merged", "same words", "kpt_001"),
        ("kpt_005", "kept", "took in", "kpt_004"),
        ("kpt_007", "undone", "same words", "kpt_005"),
    ] == rows
    assert ("went into", "kpt_005") == tuple(lineage(state, "kpt_005")[0][key] for key in ("relation", "of"))
    assert ([], []) == (lineage(state, "kpt_006"), find_by_words(state, "redacted"))


# How sure counts are


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_an_interval_holds_the_share_and_mirrors(helpful: int, harmful: int) -> None:
    """It is within 0 and 1 around the share, its lower end ranks entries, and it mirrors with the counts."""
    low, high = interval(helpful, harmful)
    share = helpful / (helpful + harmful) if helpful + harmful else 0.5
    assert 0 <= low <= share + 1e-12
    assert share - 1e-12 <= high <= 1
    assert lower_bound(helpful, harmful) == low
    assert (1 - high, 1 - low) == pytest.approx(interval(harmful, helpful), abs=1e-9)
