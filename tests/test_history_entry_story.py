"""The story of an entry as people read it: sentences, the events that decided, and its other names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from helpers.screens import AT, BRIEF, BY, KEPT, LEARNED, NOTE, PRUNED, RELATIVE, WIDTHS, ignored, rating, shown, words
from tallybook.projections.surfaces.console.story_text import (
    MAX_CHANGES,
    MAX_DECIDING,
    MAX_NAMES,
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


def test_the_evidence_of_an_entry_is_named() -> None:
    """The story gives the place of the evidence in the transcript."""
    learned = {**LEARNED, "by": BY | {"place": "s1.jsonl:120-480"}}
    assert "by reflector in session s1 (s1.jsonl:120-480), event 2." in words(printed(KEPT | {"trail": [learned]}))


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


def test_of_many_deciding_events_the_first_and_last_are_quoted() -> None:
    """An entry that was added and removed a hundred times does not fill the screen."""
    told = KEPT | {"trail": [LEARNED]}
    lines = printed(told, {"deciding": [BRIEF | {"seq": seq} for seq in range(1, 101)]}).splitlines()
    assert "   ...  91 more that decided; --json has them all" in lines
    seqs = [int(line.split()[0]) for line in lines if "learned kpt_004" in line]
    assert (MAX_DECIDING, 1, [99, 100]) == (len(seqs), seqs[0], seqs[-2:])


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


def test_of_many_other_names_the_nearest_are_listed() -> None:
    """The story lists the nearest names and counts the others."""
    kin = [RELATIVE | {"name": f"kpt_{number:03}"} for number in range(100, 120)]
    text = words(printed(PRUNED, {"lineage": kin}))
    assert "under other names: kpt_100 kept" in text
    assert f"and {20 - MAX_NAMES} more; --json has them all." in text


@WIDTHS
def test_the_trail_lists_every_event_in_order(width: int) -> None:
    """On request the events follow the sentences in order, those without effect included."""
    lines = printed(PRUNED, None, width, trail=True).splitlines()
    firsts = [line.split()[0] for line in lines if "2026-11-21 20:17 UTC  " in line]
    assert ["2", "4", "5", "6", "8", "11", "12", "14", "16"] == firsts


def test_a_long_trail_is_listed_whole() -> None:
    """The option lists every event, also of an entry with a thousand ratings."""
    told = KEPT | {"trail": [LEARNED, *(rating(seq, seq - 2, 0, "helpful") for seq in range(3, 1003))]}
    text = printed(told, trail=True)
    assert 1_000 == text.count("rated helpful")


def test_the_story_of_a_legacy_entry_describes_the_file() -> None:
    """Imported entries name their format, their counts, and the original."""
    seeded = {**LEARNED, "kind": "point.seeded", "helpful": 3, "by": {"rater": "import"}}
    extras = {"origin": "dict_with_score", "original": '{"text": "x", "score": 3}'}
    assert (
        "Imported from a legacy playbook (as dict_with_score) 2026-11-21 20:17 UTC by import, event 2, "
        'with 3 helpful and 0 harmful. That file had it as {"text": "x", "score": 3} It is in'
    ) in words(printed(KEPT | {"trail": [seeded]}, extras))


def test_the_story_of_a_restored_entry_mentions_its_absence() -> None:
    """A prune that a manual edit reverted stays part of the story."""
    back = {**LEARNED, "seq": 20, "kind": "point.edited", "helpful": 4, "harmful": 0}
    text = words(printed(KEPT | {"trail": [*PRUNED["trail"], back]}))
    assert "Pruned at event 12 with 1 helpful and 3 harmful, back at event 20." in text
    assert "It is in the playbook with" in text


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


def test_other_changes_of_an_entry_have_a_sentence() -> None:
    """A text or a count that the ratings do not explain has a sentence that explains it."""
    rows = [changed(5, "reworded"), changed(6, "edited", helpful=4), changed(7, "pinned"), changed(8, "noted")]
    text = words(printed(KEPT | {"trail": [LEARNED, *rows]}))
    edit = "Changed by a manual edit at event 6, which left it with 4 helpful and 0 harmful."
    said = f"Reworded at event 5. {edit} Pinned at event 7."
    assert f"{said} It is in the playbook with 1 helpful and 3 harmful, and is pinned: no rule prunes it." in text
    unpinned = words(printed(KEPT | {"trail": [LEARNED, *rows, changed(9, "unpinned")]}))
    assert "Unpinned at event 9. It is in the playbook with 1 helpful and 3 harmful. " in f"{unpinned} "


def test_of_many_changes_the_latest_are_described() -> None:
    """Only the latest changes are described; a return is described with the absence before it."""
    rows = [changed(seq, "reworded") for seq in range(5, 25)]
    text = words(printed(KEPT | {"trail": [LEARNED, *rows, changed(30, "removed"), changed(31, "edited")]}))
    assert f"{21 - MAX_CHANGES} earlier changes not shown; --json has them all." in text
    assert MAX_CHANGES - 1 == text.count("Reworded at")
    assert "Removed by a manual edit at event 30 with 0 helpful and 0 harmful, back at event 31. It is in" in text
    assert "Changed by a manual edit" not in text


@WIDTHS
def test_no_line_ends_with_spaces(width: int) -> None:
    """Lines copied from a terminal or compared by a script have no trailing spaces."""
    lines = printed(PRUNED, {"lineage": [RELATIVE]}, width).splitlines()
    assert [] == [line for line in lines if line.endswith("  ") or line.isspace()]


@pytest.mark.parametrize("kind", ["reworded", "retired", "restored", "pinned", "unpinned", "noted"])
def test_a_persons_decision_is_shown_as_its_verb(kind: str) -> None:
    """A row of the trail shows the verb, not the kind of event on disk."""
    text = words(printed(KEPT | {"trail": [LEARNED, {**LEARNED, "seq": 5, "kind": f"point.{kind}"}]}, trail=True))
    assert f"{kind} reflector" in text
    assert "point." not in text


def test_a_note_does_not_restore_an_entry() -> None:
    """An entry that was retired and then noted returns only where it is restored."""
    rows = [("retired", 5), ("noted", 6), ("restored", 7)]
    trail = [LEARNED, *({**LEARNED, "seq": seq, "kind": f"point.{kind}"} for kind, seq in rows)]
    text = words(printed(KEPT | {"trail": trail}))
    assert "Retired at event 5 with 0 helpful and 0 harmful, back at event 7." in text


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


def test_times_in_a_story_are_those_of_the_events() -> None:
    """Times are shown to the minute, with their zone."""
    late = {**LEARNED, "at": AT.replace("20:17", "23:59")}
    assert "Learned 2026-11-21 23:59 UTC" in printed(KEPT | {"trail": [late]})
