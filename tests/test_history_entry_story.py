"""The story of an entry as people read it: sentences, the events that decided, and its other names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from helpers.screens import AT, BRIEF, BY, KEPT, LEARNED, NOTE, PRUNED, RELATIVE, WIDTHS, ignored, rating, shown, words
from tallybook.projections.surfaces.console.entry_story import (
    MAX_CHANGES,
    MAX_DECIDING,
    MAX_NAMES,
    MAX_NOTES,
    MAX_TRAIL_ROWS,
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
def test_the_story_of_a_pruned_entry_says_when_by_whom_and_why(width: int) -> None:
    """Learned, rated, pruned by which rule with which counts, and what came after, in a few lines."""
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


def test_the_evidence_of_what_was_learned_is_named() -> None:
    """Where the line says in which place it stands."""
    learned = {**LEARNED, "by": BY | {"place": "s1.jsonl:120-480"}}
    assert "by reflector in session s1 (s1.jsonl:120-480), event 2." in words(printed(KEPT | {"trail": [learned]}))


def test_what_was_said_of_it_is_quoted() -> None:
    """The latest words, by whom and where; how many more there are."""
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
def test_its_uses_are_told_by_their_number_and_the_last(told: int, cited: int, expected: str) -> None:
    """How often sessions were told of it and agents cited it; nothing of what never was."""
    uses = {"told": told, "cited": cited}
    extras = {what: {"count": count, "last": BRIEF if count else None} for what, count in uses.items()}
    assert expected in words(printed(KEPT, extras))
    assert "njected" not in printed(KEPT, {what: {"count": 0, "last": None} for what in uses})


@WIDTHS
def test_the_events_that_decided_are_quoted_as_the_log_has_them(width: int) -> None:
    """Number, time, who and what, a line each that is never cut, below the sentences."""
    text = printed(PRUNED, {"deciding": [BRIEF, BRIEF | {"seq": 9, "summary": "update: " + "x" * 100}]}, width)
    line = '   812  2026-11-21 20:17 UTC  reflector  learned kpt_004 "Write tests…"\n'
    assert text.endswith(f"\n\n{line}     9  2026-11-21 20:17 UTC  reflector  update: {'x' * 100}\n")


def test_of_many_that_decided_the_first_and_the_last_are_quoted() -> None:
    """An entry that came and went a hundred times does not fill the screen."""
    lines = printed(KEPT, {"deciding": [BRIEF | {"seq": seq} for seq in range(1, 101)]}).splitlines()
    assert "   ...  91 more that decided; --json has them all" in lines
    seqs = [int(line.split()[0]) for line in lines if "learned kpt_004" in line]
    assert (MAX_DECIDING, 1, [99, 100]) == (len(seqs), seqs[0], seqs[-2:])


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        ("same text", "kpt_009 kept, same text as kpt_003: mock everything!"),
        ("went into", "kpt_009 kept, went into kpt_003: mock everything!"),
        ("took in", "kpt_009 kept, took in kpt_003: mock everything!"),
    ],
)
def test_its_other_names_are_told(relation: str, expected: str) -> None:
    """With how they stand, what they are to it, and their text."""
    text = words(printed(PRUNED, {"lineage": [RELATIVE | {"relation": relation}]}))
    assert f"The same guidance under another name: {expected}" in text


def test_of_many_names_the_nearest_are_told() -> None:
    """And how many more there are."""
    kin = [RELATIVE | {"name": f"kpt_{number:03}"} for number in range(100, 120)]
    text = words(printed(PRUNED, {"lineage": kin}))
    assert "under other names: kpt_100 kept" in text
    assert f"and {20 - MAX_NAMES} more; --json has them all." in text


@WIDTHS
def test_the_trail_tells_every_step_in_order(width: int) -> None:
    """Asked for, the rows follow the sentences by event, what changed nothing among them."""
    lines = printed(PRUNED, None, width, trail=True).splitlines()
    firsts = [line.split()[0] for line in lines if "2026-11-21 20:17 UTC  " in line]
    assert ["2", "4", "5", "6", "8", "11", "12", "14", "16"] == firsts


def test_a_long_trail_is_cut_to_its_end_and_says_so() -> None:
    """A thousand ratings do not fill the screen."""
    told = KEPT | {"trail": [LEARNED, *(rating(seq, seq - 2, 0, "helpful") for seq in range(3, 1003))]}
    text = printed(told, trail=True)
    assert "981 earlier events not shown; --json has them all." in text
    assert MAX_TRAIL_ROWS == text.count("rated helpful")


def test_the_story_of_a_legacy_entry_says_what_the_file_had() -> None:
    """Seeded entries name the shape they had, their counts, and the original."""
    seeded = {**LEARNED, "kind": "point.seeded", "helpful": 3, "by": {"rater": "import"}}
    extras = {"origin": "dict_with_score", "original": '{"text": "x", "score": 3}'}
    assert (
        "Imported from a legacy playbook (as dict_with_score) 2026-11-21 20:17 UTC by import, event 2, "
        'with 3 helpful and 0 harmful. That file had it as {"text": "x", "score": 3} It is in'
    ) in words(printed(KEPT | {"trail": [seeded]}, extras))


def test_the_story_of_a_revived_entry_tells_of_its_absence() -> None:
    """A prune that was undone by hand stays part of the story."""
    back = {**LEARNED, "seq": 20, "kind": "point.edited", "helpful": 4, "harmful": 0}
    text = words(printed(KEPT | {"trail": [*PRUNED["trail"], back]}))
    assert "Pruned at event 12 with 1 helpful and 3 harmful, back at event 20." in text
    assert "It is in the playbook with" in text


def test_an_entry_removed_by_hand_is_told_as_such() -> None:
    """There is no rule to name."""
    removed = {**PRUNED["trail"][-1], "kind": "point.removed"}
    text = words(printed(PRUNED | {"status": "retired", "rule": None, "trail": [*PRUNED["trail"][:-1], removed]}))
    assert "Removed by a manual edit 2026-11-21 20:17 UTC by reflector in session s1, event 12, with 1 helpful" in text


def test_a_merged_entry_is_told_where_it_went() -> None:
    """Its story ends there, and says which later ratings count elsewhere; the other's goes on."""
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


def test_what_changed_an_entry_is_told_in_sentences() -> None:
    """A text or counts that are not what its beginning and its ratings come to have a sentence that says why."""
    rows = [changed(5, "reworded"), changed(6, "edited", helpful=4), changed(7, "pinned"), changed(8, "noted")]
    text = words(printed(KEPT | {"trail": [LEARNED, *rows]}))
    edit = "Changed by a manual edit at event 6, which left it with 4 helpful and 0 harmful."
    said = f"Reworded at event 5. {edit} Pinned at event 7."
    assert f"{said} It is in the playbook with 1 helpful and 3 harmful, and is pinned: no rule prunes it." in text
    unpinned = words(printed(KEPT | {"trail": [LEARNED, *rows, changed(9, "unpinned")]}))
    assert "Unpinned at event 9. It is in the playbook with 1 helpful and 3 harmful. " in f"{unpinned} "


def test_of_many_changes_the_latest_are_told() -> None:
    """A story stays a story; a return is told with the absence before it, not as a change."""
    rows = [changed(seq, "reworded") for seq in range(5, 25)]
    text = words(printed(KEPT | {"trail": [LEARNED, *rows, changed(30, "removed"), changed(31, "edited")]}))
    assert f"{21 - MAX_CHANGES} earlier changes not shown; --json has them all." in text
    assert MAX_CHANGES - 1 == text.count("Reworded at")
    assert "Removed by a manual edit at event 30 with 0 helpful and 0 harmful, back at event 31. It is in" in text
    assert "Changed by a manual edit" not in text


@WIDTHS
def test_no_line_is_filled_up_with_spaces(width: int) -> None:
    """What is copied out of a terminal, or compared by a script, has no blanks at its ends."""
    lines = printed(PRUNED, {"lineage": [RELATIVE]}, width).splitlines()
    assert [] == [line for line in lines if line.endswith("  ") or line.isspace()]


@pytest.mark.parametrize("kind", ["reworded", "retired", "restored", "pinned", "unpinned", "noted"])
def test_what_a_hand_decided_is_told_in_a_word(kind: str) -> None:
    """A row of the trail has the verb, not the kind on disk."""
    text = words(printed(KEPT | {"trail": [LEARNED, {**LEARNED, "seq": 5, "kind": f"point.{kind}"}]}, trail=True))
    assert f"{kind} reflector" in text
    assert "point." not in text


def test_a_note_says_nothing_of_where_an_entry_is() -> None:
    """An entry that was retired and noted is back only where it is restored."""
    rows = [("retired", 5), ("noted", 6), ("restored", 7)]
    trail = [LEARNED, *({**LEARNED, "seq": seq, "kind": f"point.{kind}"} for kind, seq in rows)]
    text = words(printed(KEPT | {"trail": trail}))
    assert "Retired at event 5 with 0 helpful and 0 harmful, back at event 7." in text


NOTHING: Told = {"status": "unknown", "text": None, "rule": None, "decided_by": None, "trail": [], "ignored": []}


def test_an_entry_whose_beginning_was_undone_is_told_as_such() -> None:
    """It is undone and not a name that nobody ever gave; until when it was there is told."""
    extras = {"vanished_by": BRIEF | {"summary": "session s1 taken back"}}
    text = words(printed(PRUNED | NOTHING | {"ignored": [ignored(4, "undone")]}, extras))
    assert text.startswith("kpt_003 undone What brought this entry was undone.")
    assert "It was in the playbook until event 812: session s1 taken back." in text
    never = words(printed(PRUNED | NOTHING | {"ignored": [ignored(4, "undone")]}, extras | {"stood": False}))
    assert never.startswith("kpt_003 undone What brought this entry was undone. 1 event")


def test_an_end_that_an_undoing_brought_is_told_beside_the_rule() -> None:
    """What is told anew names the update that prunes now; the entry was there until the undoing."""
    text = words(printed(PRUNED, {"vanished_by": BRIEF | {"summary": "event 4 taken back"}}))
    assert "3 harmful. It was in the playbook until event 812: event 4 taken back." in text
    assert "until event" not in printed(PRUNED, {"vanished_by": BRIEF | {"seq": 12}})


def test_a_name_never_seen_is_told_as_such() -> None:
    """The story of an unknown name is one sentence."""
    text = printed(PRUNED | NOTHING | {"name": "kpt_999"})
    assert "kpt_999  unknown\nNo entry ever had this name, or a text with these words.\n" == text
    then = printed(PRUNED | NOTHING | {"name": "kpt_999"}, as_of=True)
    assert "kpt_999  unknown\nNo entry had this name, or a text with these words by then.\n" == then


@WIDTHS
def test_entries_to_choose_from_are_a_line_each(width: int) -> None:
    """Name, status and the whole text, which steers nothing."""
    found = [{"name": "kpt_001", "status": "kept", "text": "a\nb " + "x" * 90}]
    assert f"kpt_001  kept  a\\nb {'x' * 90}\n" == shown(lambda console: print_matches(console, found), width)


def test_a_moment_that_is_told_is_that_of_the_event() -> None:
    """Times are shown to the minute, with their zone."""
    late = {**LEARNED, "at": AT.replace("20:17", "23:59")}
    assert "Learned 2026-11-21 23:59 UTC" in printed(KEPT | {"trail": [late]})
