"""What is injected: the choice by proof and by a task (rule 22) within a room, the lines, and the ranking."""

from __future__ import annotations

from math import isclose, log
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.reference_model import COUNTS, NAMES, TEXTS, point
from tallybook.projections.playbook.inject import (
    MAX_ENTRY_CHARS,
    MAX_TASK_CHARS,
    UNTESTED_SHARE,
    choose,
    line,
    lower_bound,
    names_of,
    rank,
    select,
    words_of,
)

ENTRIES = st.lists(st.builds(point, NAMES, TEXTS, COUNTS, COUNTS), max_size=12, unique_by=lambda entry: entry["name"])


@given(entries=ENTRIES, room=st.integers(0, 2_000))
def test_the_injected_lines_fit_and_are_counted(entries: list[dict[str, Any]], room: int) -> None:
    """Lines are in the playbook's order and fit the room, and a last one counts the rest."""
    choice = choose(entries, room)
    told, rest = choice.lines, len(entries) - len(names_of(choice.chosen))
    assert rest == choice.left_out[False]["room"]
    if rest:
        assert f"({rest} more key points were left out for want of room.)" == told[-1]
        told = told[:-1]
    names = [entry["name"] for entry in entries]
    assert list(names_of(choice.chosen)) == sorted(names_of(choice.chosen), key=names.index)
    assert len(names_of(choice.chosen)) == len(told)
    assert all(text.startswith(f"[{name}] helpful=") for name, text in zip(names_of(choice.chosen), told, strict=True))
    # The line about the rest is told however little room there is.
    assert len("\n".join(told)) <= max(room, 0)
    if sum(len(line(entry)) + 1 for entry in entries) <= room:
        assert 0 == rest


def entries_of(number: int, **counts: int) -> list[dict[str, Any]]:
    """Return so many entries whose lines have fifty characters."""
    return [point(f"kpt_{n:03d}", "x" * 15, **{"helpful": 0, "harmful": 0, **counts}) for n in range(1, number + 1)]


def test_the_best_and_the_newest_untested_entries_are_injected() -> None:
    """Rated entries are ranked by their bound, the newer first of equals; untested ones have a share of the room."""
    rated = [point(f"kpt_{n:03d}", "x" * 15, n % 5, 1) for n in range(1, 21)]
    untested = [point(f"kpt_{n:03d}", "x" * 15) for n in range(21, 41)]
    size = len(line(rated[0])) + 1
    choice = choose([*rated, *untested], 10 * size + len("(40 more key points were left out for want of room.)"))
    assert ["kpt_039", "kpt_040"] == [name for name in names_of(choice.chosen) if name > "kpt_020"]
    # Four ratings helpful of five, then three of four.
    assert ["kpt_004", "kpt_008", "kpt_009", "kpt_013", "kpt_014", "kpt_018", "kpt_019"] == [
        name for name in names_of(choice.chosen) if name <= "kpt_020" and name != "kpt_003"
    ]
    assert (10, 30) == (len(names_of(choice.chosen)), choice.left_out[False]["room"])
    assert UNTESTED_SHARE == 2 / 10


def test_a_long_entry_is_cut_and_blocks_no_other() -> None:
    """Its line ends with an ellipsis; an entry too long for the remaining room is skipped."""
    entries = [point("kpt_001", "x" * 5_000, 9, 0), *entries_of(3, helpful=1)[1:]]
    (long, *others) = choose(entries, 1_200).lines
    assert (MAX_ENTRY_CHARS, "…", 2) == (len(long), long[-1], len(others))
    assert ("kpt_002", "kpt_003") == names_of(choose(entries, 300).chosen)


BOOK = [
    point("kpt_001", "Run the tests before each commit.", 1, 0),
    point("kpt_002", "Quote ids as strings in JSON.", 6, 1),
    point("kpt_003", "Write commit subjects in the imperative."),
    point("kpt_004", "Never push to main.", 0, 2),
]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Run the TESTS, then test_writing.py", ["run", "test", "test", "writing", "py"]),
        (
            "queries, classes, boxes, ids, CSS, status, analysis",
            ["query", "class", "box", "id", "css", "status", "analysis"],
        ),
        ("please do it", []),
        ("a — “b”…", []),
        ("naïve Füße", ["naïve", "füße"]),
        ("日本語、テスト 字", ["日本", "本語", "テス", "スト", "字"]),
    ],
)
def test_a_text_is_read_as_words(text: str, words: list[str]) -> None:
    """Case, punctuation, plurals and common words do not count; a script without spaces is read in pairs (rule 22)."""
    assert words == words_of(text)


def test_a_score_is_the_relevance_of_the_words_and_the_proof_of_the_ratings() -> None:
    """Both parts are those of the formulas, and the score names the words (rule 22)."""
    best, second, *_ = rank(BOOK, "Commit the tests!")
    assert ["kpt_001", "kpt_003"] == [BOOK[score.place]["name"] for score in (best, second)]
    assert ["commit", "test"] == list(best.words)
    lengths = [len(words_of(entry["text"])) for entry in BOOK]
    norm = 1.2 * (1 - 0.75 + 0.75 * lengths[0] * len(lengths) / sum(lengths))
    in_one, in_two = (log(1 + (4 - n + 0.5) / (n + 0.5)) * 2.2 / (1 + norm) for n in (1, 2))
    assert isclose(in_two, best.words["commit"])
    assert isclose(in_one, best.words["test"])
    assert isclose(in_one + in_two + lower_bound(1, 0), best.total)
    assert isclose(sum(best.words.values()) + best.proof, best.total)


@given(entries=ENTRIES, task=TEXTS)
def test_no_score_is_negative_and_the_order_is_that_of_the_scores(entries: list[dict[str, Any]], task: str) -> None:
    """Every entry is ranked once; of equals the newer comes first (rule 22)."""
    scores = rank(entries, task)
    assert list(range(len(entries))) == sorted(score.place for score in scores)
    assert [(-score.total, -score.place) for score in scores] == sorted(
        (-score.total, -score.place) for score in scores
    )
    assert all(score.total >= 0 for score in scores)
    assert all(bool(score.words) == (sum(score.words.values()) > 0) for score in scores)


@given(entries=ENTRIES, task=TEXTS, room=st.integers(0, 2_000), is_first=st.booleans())
def test_what_is_selected_fits_and_the_rest_is_counted(
    entries: list[dict[str, Any]], task: str, room: int, *, is_first: bool
) -> None:
    """Each entry is selected or counted under one cause, and the lines fit the room (rule 22)."""
    known = {entry["name"] for entry in entries[::3]}
    chosen = select(entries, task, room, known, is_first=is_first)
    names = names_of(chosen.chosen)
    assert len(entries) == len(names) + sum(chosen.left_out[False].values())
    assert not known.intersection(names)
    assert len("\n".join(chosen.lines)) <= room
    totals = [score.total for score in rank(entries, task) if entries[score.place]["name"] in names]
    assert (min(totals) if names else None) == pytest.approx(chosen.lowest.get(False), abs=1e-4)


def test_a_later_prompt_adds_only_what_fits_it_and_was_not_given() -> None:
    """At first an entry with helpful ratings counts without a common word; later only a related one does (rule 22)."""
    first = select(BOOK, "Commit it", 1_000)
    assert ["kpt_001", "kpt_003", "kpt_002"] == list(names_of(first.chosen))
    assert {"unrelated": 1} == first.left_out[False]
    assert "(1 more key points were left out; this prompt has little to do with them.)" == first.lines[-1]
    later = select(BOOK, "push the commit", 1_000, {"kpt_001", "kpt_003"}, is_first=False)
    assert [line(BOOK[3])] == list(later.lines)
    assert {"told": 2, "unrelated": 1} == later.left_out[False]


def test_a_long_task_is_read_at_both_ends() -> None:
    """People put a log between their words, and say what they want before or after it."""
    task = f"commit {'x ' * MAX_TASK_CHARS} push"
    assert {"kpt_001", "kpt_003", "kpt_004"} == {BOOK[score.place]["name"] for score in rank(BOOK, task) if score.words}
