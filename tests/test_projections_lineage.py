"""Entries found by their words, and related names of an entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
import pytest

from helpers.reference_model import TEXTS
from helpers.view_histories import HISTORIES, history
from tallybook.ledger.events import (
    EventsVoided,
    PlaybookUpdated,
    PointAdded,
    PointMerged,
    PointRetired,
)
from tallybook.projections.entry_history.status import (
    EntryStatuses,
    find_by_words,
    lineage,
    normalize_words,
    status_view,
)
from tallybook.projections.fold import fold_history

if TYPE_CHECKING:
    from collections.abc import Sequence

CLOSED = PlaybookUpdated(0, 0, 0)
TEXT = "Use type hints"


def standing(*stretches: Sequence[Any]) -> EntryStatuses:
    """Return the status of every name after these batches."""
    batches = history(stretches)
    return fold_history(status_view(), lambda: batches)


def added(*texts: str) -> list[Any]:
    """Return an update that adds entries with these texts, from kpt_001."""
    return [*(PointAdded(f"kpt_00{number}", text) for number, text in enumerate(texts, 1)), CLOSED]


def relatives(state: EntryStatuses, name: str = "kpt_001") -> list[tuple[str, str, str, str]]:
    """Return the lineage of a name, without texts."""
    return [(row["name"], row["status"], row["relation"], row["of"]) for row in lineage(state, name)]


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (TEXT, "  use TYPE\nhints. ", True),
        (TEXT, "Use `type` hints!", True),
        ("Straße", "STRASSE", True),
        ("Gro\u0308ße", "Größe", True),
        (TEXT, "Use types", False),
        ("!!", "??", False),
        ("!!", "!!", True),
    ],
)
def test_texts_are_equal_but_for_case_space_and_punctuation(left: str, right: str, same: bool) -> None:
    """Other letters or words make another text; a text of signs alone equals only itself."""
    assert same == (normalize_words(left) == normalize_words(right))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("type hints", ["kpt_001", "kpt_003"]),
        ("HINTS type", ["kpt_001", "kpt_003"]),
        ("hint public", ["kpt_003"]),
        ("use type-hints", ["kpt_001"]),
        ("clock", ["kpt_002"]),
        ("zebra", []),
        ("", []),
        ("  ", []),
        ("?", []),
    ],
)
def test_words_find_the_entries_whose_text_has_them_all(words: str, expected: list[str]) -> None:
    """Any order, case and prefix is accepted; an entry whose text is exactly these words is the only match."""
    assert expected == find_by_words(standing(added(TEXT, "Mock the clock", "Use type hints in public code")), words)


@given(HISTORIES, TEXTS)
def test_a_present_entry_is_found_by_its_text(stretches: list[list[Any]], text: str) -> None:
    """An entry of the playbook is found by its whole current text."""
    state = standing(*stretches)
    standing_with = {name for name, point in state.book.entries.items() if point.text == text and text.strip()}
    assert set() == standing_with - set(find_by_words(state, text))


def test_entries_with_equal_texts_are_related() -> None:
    """The texts are the same, or differ only in case and punctuation; another text is not related."""
    state = standing(added(TEXT), [PointRetired("kpt_001", "")], added("", TEXT, "use type hints!", "Mock time")[1:])
    assert [("kpt_002", "kept", "same text", "kpt_001"), ("kpt_003", "kept", "same words", "kpt_001")] == relatives(
        state
    )
    assert [("kpt_001", "retired"), ("kpt_003", "kept")] == [row[:2] for row in relatives(state, "kpt_002")]
    assert [] == relatives(state, "kpt_004")


def test_merged_entries_are_related() -> None:
    """Each names its target, or the entries merged into it."""
    state = standing(added(TEXT, "Annotate", "Mock time"), [PointMerged("kpt_002", ("kpt_001",), "")])
    assert [("kpt_002", "kept", "took in", "kpt_001")] == relatives(state)
    assert [("kpt_001", "merged", "went into", "kpt_002")] == relatives(state, "kpt_002")


def test_relatives_of_relatives_are_listed() -> None:
    """The relation is followed over several names, and each row names its neighbour."""
    again = [PointAdded("kpt_003", "annotate."), CLOSED]
    state = standing(added(TEXT, "Annotate"), [PointMerged("kpt_002", ("kpt_001",), "")], again)
    assert [("kpt_002", "kpt_001"), ("kpt_003", "kpt_002")] == [(row[0], row[3]) for row in relatives(state)]


def test_an_undone_entry_is_related() -> None:
    """Entries that were pruned, added again and undone are related; a redacted text relates none."""
    again = [PointAdded("kpt_002", "use type hints!"), PointAdded("kpt_003", None), PointAdded("kpt_004", None), CLOSED]
    undone = EventsVoided(("id-4", "id-5", "id-6"), None, "")
    state = standing(added(TEXT), [PointRetired("kpt_001", "")], again, [undone])
    assert [("kpt_002", "undone", "same words", "kpt_001")] == relatives(state)
    assert [("kpt_001", "retired", "same words", "kpt_002")] == relatives(state, "kpt_002")
    assert ([], []) == (relatives(state, "kpt_003"), find_by_words(state, "redacted"))
