"""The story of an entry as people read it: sentences, the events that decided, and its other names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from helpers.screens import BRIEF, KEPT, LEARNED, NOTE, PRUNED, RELATIVE, WIDTHS, ignored, rating, shown, words
from tallybook.projections.surfaces.console.story_text import (
    MAX_NOTES,
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


def test_the_latest_reason_of_a_rating_is_quoted() -> None:
    """The story quotes the latest reason, who gave it and where, and counts the others."""
    notes = [NOTE | {"seq": seq, "note": f"note {seq}"} for seq in range(10, 15)]
    text = printed(PRUNED, {"notes": [*notes[:-1], notes[-1] | {"note": None}]})
    assert '  "note 13" (reflector, event 13)\n  [redacted] (reflector, event 14)\n' in text
    assert f"{len(notes) - MAX_NOTES} earlier notes not shown" in text
    assert "note 11" not in text


@pytest.mark.parametrize(
    ("told", "cited", "expected"),
    [
        (2, 1, "Injected 2 times, last 2026-11-21 20:17 UTC; cited once, last 2026-11-21 20:17 UTC."),
        (0, 3, "Cited 3 times, last 2026-11-21 20:17 UTC."),
    ],
)
def test_injections_and_citations_are_counted(told: int, cited: int, expected: str) -> None:
    """The story counts injections and citations, names the last of each, and leaves out what never happened."""
    uses = {"told": told, "cited": cited}
    extras = {what: {"count": count, "last": BRIEF if count else None} for what, count in uses.items()}
    assert expected in words(printed(KEPT, extras))
    assert "njected" not in printed(KEPT, {what: {"count": 0, "last": None} for what in uses})


@WIDTHS
def test_deciding_events_are_quoted_from_the_log(width: int) -> None:
    """Number, time, author and content follow the sentences, one uncut line each."""
    told = KEPT | {"trail": [LEARNED]}
    text = printed(told, {"deciding": [BRIEF, BRIEF | {"seq": 9, "summary": "update: " + "x" * 100}]}, width)
    line = '   812  2026-11-21 20:17 UTC  reflector  learned kpt_004 "Write tests…"\n'
    assert text.endswith(f"\n\n{line}     9  2026-11-21 20:17 UTC  reflector  update: {'x' * 100}\n")


def test_every_rating_that_decided_is_quoted() -> None:
    """Ratings are quoted however many other events decided, and earlier ones are counted."""
    trail = [LEARNED, *(rating(seq, 0, seq - 50) for seq in range(51, 73))]
    others = [BRIEF | {"seq": seq} for seq in [*range(1, 41), *range(100, 141)]]
    rated = [BRIEF | {"seq": seq, "summary": "kpt_003 rated harmful"} for seq in range(63, 73)]
    text = printed(KEPT | {"trail": trail}, {"deciding": [*others[:40], *rated, *others[40:]]})
    assert 10 == text.count("kpt_003 rated harmful")
    assert "   ...  72 more that decided; --json has them all\n" in text
    assert "   ...  and 12 earlier ratings: --trail\n" in text


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        ("same text", "kpt_009 kept, same text as kpt_003: mock everything!"),
        ("went into", "kpt_009 kept, went into kpt_003: mock everything!"),
        ("took in", "kpt_009 kept, took in kpt_003: mock everything!"),
    ],
)
def test_other_names_of_an_entry_are_listed(relation: str, expected: str) -> None:
    """Each other name is listed with its status, its relation to the entry, and its text."""
    text = words(printed(PRUNED, {"lineage": [RELATIVE | {"relation": relation}]}))
    assert f"The same guidance under another name: {expected}" in text


@WIDTHS
def test_the_trail_lists_every_event_in_order(width: int) -> None:
    """On request the events follow the sentences in order, those without effect included."""
    lines = printed(PRUNED, None, width, trail=True).splitlines()
    firsts = [line.split()[0] for line in lines if "2026-11-21 20:17 UTC  " in line]
    assert ["2", "4", "5", "6", "8", "11", "12", "14", "16"] == firsts


def test_the_story_of_a_legacy_entry_describes_the_file() -> None:
    """Imported entries name their format, their counts, and the original."""
    seeded = {**LEARNED, "kind": "point.seeded", "helpful": 3, "by": {"rater": "import"}}
    extras = {"origin": "dict_with_score", "original": '{"text": "x", "score": 3}'}
    assert (
        "Imported from a legacy playbook (as dict_with_score) 2026-11-21 20:17 UTC by import, event 2, "
        'with 3 helpful and 0 harmful. That file had it as {"text": "x", "score": 3} It is in'
    ) in words(printed(KEPT | {"trail": [seeded]}, extras))


def test_an_entry_removed_by_a_manual_edit_is_described_so() -> None:
    """The story names no rule, because none applied."""
    removed = {**PRUNED["trail"][-1], "kind": "point.removed"}
    text = words(printed(PRUNED | {"status": "retired", "rule": None, "trail": [*PRUNED["trail"][:-1], removed]}))
    assert "Removed by a manual edit 2026-11-21 20:17 UTC by reflector in session s1, event 12, with 1 helpful" in text


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


def test_an_entry_whose_addition_was_undone_is_described_so() -> None:
    """The entry is undone, not unknown, and the story says until when it existed."""
    extras = {"vanished_by": BRIEF | {"summary": "kpt_003 retired"}}
    undone = PRUNED | {"status": "undone", "rule": None, "trail": [], "ignored": [ignored(4, "undone")]}
    fate = (
        "kpt_003 undone Mock everything "
        "What brought this entry was undone 2026-11-21 20:17 UTC by reflector in session s1, event 12."
    )
    text = words(printed(undone, extras))
    assert text.startswith(f"{fate} It was in the playbook until event 812: kpt_003 retired. 1 event")
    assert words(printed(undone, extras | {"stood": False})).startswith(f"{fate} 1 event")


def test_a_matched_entry_is_described_by_the_entry_that_it_was_joined_to() -> None:
    """The story of an entry that was joined to one with its text says so once, and names that one."""
    row = MERGED | {"kind": "point.matched"}
    text = words(printed(PRUNED | {"status": "merged", "rule": None, "trail": [row], "ignored": []}))
    fate = "Joined to kpt_001, which has its text 2026-11-21 20:17 UTC by reflector in session s1, event 12, with"
    assert 1 == text.count("oined to kpt_001")
    assert fate in text


def test_a_prune_caused_by_an_undo_names_the_undo() -> None:
    """The story names the update that now prunes, and the undo until which the entry existed."""
    text = words(printed(PRUNED, {"vanished_by": BRIEF | {"summary": "event 4 taken back"}}))
    assert "3 harmful. It was in the playbook until event 812: event 4 taken back." in text
    assert "until event" not in printed(PRUNED, {"vanished_by": BRIEF | {"seq": 12}})


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
