"""The story of an entry as people read it: sentences, the events that decided, and its other names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helpers.screens import KEPT, LEARNED, PRUNED, WIDTHS, ignored, shown, words
from tallybook.projections.surfaces.console.story_text import (
    print_matches,
    print_story,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

Told = dict[str, Any]
MERGED = {**LEARNED, "seq": 12, "kind": "point.merged", "name": "kpt_001", "merged": ["kpt_003"]}


def printed(
    told: Mapping[str, Any],
    extras: Mapping[str, Any] | None = None,
    width: int = 80,
    **options: bool,
) -> str:
    """Return what is printed of a story."""
    return shown(lambda console: print_story(console, told, extras or {}, **options), width)


@WIDTHS
def test_the_story_of_a_pruned_entry_gives_time_author_and_rule(width: int) -> None:
    """A few lines give when it was learned, rated and pruned, by which rule and counts, and what followed."""
    text = words(printed(PRUNED, None, width))
    assert [] == [
        sentence
        for sentence in [
            "Learned 2026-11-21 20:17 UTC by reflector in session s1, event 2.",
            "Rated 4 times: 1 helpful, 3 harmful; by reflector (4).",
            "Pruned 2026-11-21 20:17 UTC by reflector in session s1, event 12, by the rule harmful >= 3",
            "AND harmful > helpful, with 1 helpful and 3 harmful.",
            "2 events came after that and changed nothing.",
            "1 event about it changed nothing: counts nothing (1).",
        ]
        if sentence not in text
    ]


@WIDTHS
def test_the_trail_lists_every_event_in_order(width: int) -> None:
    """On request the events follow the sentences in order, those without effect included."""
    lines = printed(PRUNED, None, width, trail=True).splitlines()
    firsts = [line.split()[0] for line in lines if "2026-11-21 20:17 UTC  " in line]
    assert ["2", "4", "5", "6", "8", "11", "12", "14", "16"] == firsts


def test_a_merged_entry_names_its_target() -> None:
    """Its story ends at the merge and names the later ratings that count for the target."""
    late = [
        ignored(14, "counts for kpt_001"),
        ignored(15, "counts for kpt_001"),
        ignored(16, "counts nothing", "neutral"),
    ]
    gone = PRUNED | {"status": "merged", "rule": None, "trail": [LEARNED, MERGED], "ignored": late}
    text = words(printed(gone, trail=True))
    assert "Merged into kpt_001 2026-11-21 20:17 UTC by reflector in session s1, event 12, with 1 helpful" in text
    assert "2 ratings came after that and count for kpt_001. 1 event came after that and changed nothing." in text
    assert "merged into kpt_001 reflector" in text
    other = words(printed(KEPT | {"name": "kpt_001", "trail": [LEARNED, MERGED]}, trail=True))
    assert "merged with kpt_003 reflector" in other
    assert "Merged with kpt_003 at event 12, which left it with 0 helpful and 0 harmful. It is in" in other


def changed(seq: int, kind: str, **more: Any) -> Told:
    """Return a row of a trail: a decision about the entry."""
    return {**LEARNED, "seq": seq, "kind": f"point.{kind}", **more}


NOTHING: Told = {"status": "unknown", "text": None, "rule": None, "decided_by": None, "trail": [], "ignored": []}


def test_an_unknown_name_has_a_story_of_one_sentence() -> None:
    """The story of an unknown name is that the ledger does not have it."""
    text = printed(PRUNED | NOTHING | {"name": "kpt_999"})
    assert "kpt_999  unknown\nNo entry ever had this name, or a text with these words.\n" == text
    then = printed(PRUNED | NOTHING | {"name": "kpt_999"}, as_of=True)
    assert "kpt_999  unknown\nNo entry had this name, or a text with these words by then.\n" == then


@WIDTHS
def test_ambiguous_entries_are_listed_one_a_line(width: int) -> None:
    """Each line has name, status and whole text, and the text cannot control the terminal."""
    found = [{"name": "kpt_001", "status": "kept", "text": "a\nb " + "x" * 90}]
    assert f"kpt_001  kept  a\\nb {'x' * 90}\n" == shown(lambda console: print_matches(console, found), width)
