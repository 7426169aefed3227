"""Entries found by their words, and guidance followed from name to name."""

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
    PointEdited,
    PointMerged,
    PointRemoved,
    PointRetired,
    PointReworded,
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
    """Return how every name stands behind these batches."""
    batches = history(stretches)
    return fold_history(status_view(), lambda: batches)


def added(*texts: str) -> list[Any]:
    """Return an update that brings entries with these texts, from kpt_001."""
    return [*(PointAdded(f"kpt_00{number}", text) for number, text in enumerate(texts, 1)), CLOSED]


def kin(state: EntryStatuses, name: str = "kpt_001") -> list[tuple[str, str, str, str]]:
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
def test_texts_are_the_same_but_for_case_space_and_punctuation(left: str, right: str, same: bool) -> None:
    """Other letters or words make another text; a text of signs alone is only itself."""
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
    """In any order and case, beginnings included; one whose text is just these words is meant alone."""
    assert expected == find_by_words(standing(added(TEXT, "Mock the clock", "Use type hints in public code")), words)


def test_what_is_gone_or_has_another_text_now_is_found() -> None:
    """By every text that it ever had: retired, reworded, and undone."""
    state = standing(
        added(TEXT, "Mock the clock", "Prefer pathlib"),
        [PointRetired("kpt_001", ""), PointReworded("kpt_002", "", "Freeze time")],
        [EventsVoided(("id-3",), None, "")],
    )
    assert [["kpt_001"], ["kpt_002"], ["kpt_002"], ["kpt_003"]] == [
        find_by_words(state, words) for words in ("hints", "clock", "freeze", "pathlib")
    ]


@given(HISTORIES, TEXTS)
def test_whoever_stands_with_a_text_is_found_by_it(stretches: list[list[Any]], text: str) -> None:
    """An entry of the playbook is found by its whole text, as it stands."""
    state = standing(*stretches)
    standing_with = {name for name, point in state.book.points.items() if point.text == text and text.strip()}
    assert set() == standing_with - set(find_by_words(state, text))


def test_advice_that_was_learned_again_is_kin() -> None:
    """Under the very same text, or one that differs in case and punctuation alone; another text is none of it."""
    state = standing(added(TEXT), [PointRetired("kpt_001", "")], added("", TEXT, "use type hints!", "Mock time")[1:])
    assert [("kpt_002", "kept", "same text", "kpt_001"), ("kpt_003", "kept", "same words", "kpt_001")] == kin(state)
    assert [("kpt_001", "retired"), ("kpt_003", "kept")] == [row[:2] for row in kin(state, "kpt_002")]
    assert [] == kin(state, "kpt_004")


def test_a_renamed_entry_is_kin_of_its_old_name() -> None:
    """A hand that gives an entry another name takes one out and sets the other."""
    state = standing(added(TEXT), [PointRemoved("kpt_001"), PointEdited("types", 0, 0, TEXT)])
    assert [("types", "kept", "same text", "kpt_001")] == kin(state)


def test_a_text_of_the_past_makes_kin() -> None:
    """An entry that was reworded since is kin of one that has its old text."""
    state = standing(added(TEXT), [PointReworded("kpt_001", "", "Annotate")], [PointAdded("kpt_002", TEXT), CLOSED])
    assert [("kpt_002", "kept", "same text", "kpt_001")] == kin(state)


def test_merged_entries_are_kin() -> None:
    """Each knows where it went, or what it took in."""
    state = standing(added(TEXT, "Annotate", "Mock time"), [PointMerged("kpt_002", ("kpt_001",), "")])
    assert [("kpt_002", "kept", "took in", "kpt_001")] == kin(state)
    assert [("kpt_001", "merged", "went into", "kpt_002")] == kin(state, "kpt_002")


def test_kin_of_kin_are_kin() -> None:
    """Guidance is followed over several names, and each says whose kin it is."""
    again = [PointAdded("kpt_003", "annotate."), CLOSED]
    state = standing(added(TEXT, "Annotate"), [PointMerged("kpt_002", ("kpt_001",), "")], again)
    assert [("kpt_002", "kpt_001"), ("kpt_003", "kpt_002")] == [(row[0], row[3]) for row in kin(state)]


def test_what_was_undone_is_kin() -> None:
    """Advice that was pruned, learned again and taken back tells of the one and the other; no redacted text does."""
    again = [PointAdded("kpt_002", "use type hints!"), PointAdded("kpt_003", None), PointAdded("kpt_004", None), CLOSED]
    undone = EventsVoided(("id-4", "id-5", "id-6"), None, "")
    state = standing(added(TEXT), [PointRetired("kpt_001", "")], again, [undone])
    assert [("kpt_002", "undone", "same words", "kpt_001")] == kin(state)
    assert [("kpt_001", "retired", "same words", "kpt_002")] == kin(state, "kpt_002")
    assert ([], []) == (kin(state, "kpt_003"), find_by_words(state, "redacted"))


def test_what_never_stood_has_no_kin() -> None:
    """A text that was refused is nobody's, and a redacted one makes nobody kin."""
    refused = [PointReworded("kpt_009", "", TEXT), PointAdded("kpt_001", "Other")]
    assert [] == kin(standing(added("Mock time"), refused, [PointAdded("kpt_002", "Other")]), "kpt_002")
    assert [] == kin(standing([PointAdded("kpt_001", None), PointAdded("kpt_002", None)]))
    assert [] == kin(standing(added(TEXT)), "kpt_404")
