"""Texts that an entry has are refused, similar ones are named, and `review --list duplicates` (rule 19)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from tallybook.ledger.events import Entry
from tallybook.projections.comparison.similarity import describe_difference, find_pairs, find_similar

if TYPE_CHECKING:
    from helpers.command_line import Run

TESTS = "Run the tests before each commit."
TESTS_AGAIN = "Before each commit, run the unit tests."

RESEMBLING = [
    ("Prefer pathlib over os.path in new code.", "Prefer os.path over pathlib in new code."),
    ("Enable caching in the dev cluster", "Disable caching in the dev cluster"),
    ("Increase the timeout of slow tests", "Decrease the timeout of slow tests"),
    ("Run the linter before each commit", "Run the linter after each commit"),
    ("Use the dev database for tests", "Use the prod database for tests"),
    ("Write orders to the queue first", "Write refunds to the queue first"),
    ("Use Python 3.11 in CI", "Use Python 3.12 in CI"),
    ("Use tabs for indentation.", "Never use tabs for indentation."),
    (TESTS, TESTS_AGAIN),
    ("Don't edit generated files.", "Do not edit generated files by hand"),
]
EQUAL = ["Use type hints.", "use  TYPE hints", "Use type hints!", "Use type\nhints . ", " USE type hints?"]


def similar(text: str, other: str) -> bool:
    """Return whether two texts resemble each other, which must be the same both ways and for pairs of entries."""
    answers = {bool(find_similar(a, [Entry("kpt_001", b)])) for a, b in ((text, other), (other, text))}
    answers.add(bool(list(find_pairs([Entry("kpt_001", text), Entry("kpt_002", other)]))))
    (answer,) = answers
    return answer


@given(
    texts=st.lists(st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=9).map(" ".join), max_size=9),
    least=st.floats(0.5, 1),
)
def test_pairs_are_those_of_a_comparison_of_all(texts: list[str], least: float) -> None:
    """The pairs of entries that resemble each other are those that comparing every two entries finds."""
    entries = [Entry(f"kpt_{number:03d}", text) for number, text in enumerate(texts)]
    expected = [
        (other, entry)
        for index, entry in enumerate(entries)
        for other in entries[:index]
        if find_similar(other.text, [entry], least)
    ]
    assert expected == [pair.entries for pair in find_pairs(entries, least)]


@pytest.fixture
def playbook(project: object, run: Run) -> None:
    """Make a playbook of two entries that resemble each other and another one."""
    del project
    for text in (TESTS, "Quote ids.", TESTS_AGAIN):
        assert 0 == run("add", text).code


def texts(run: Run) -> list[str]:
    """Return the texts of the playbook."""
    return [point["text"] for point in json.loads(run("show", "--json").out)["key_points"]]


def events(run: Run) -> list[dict[str, Any]]:
    """Return every event."""
    return [json.loads(line) for line in run("log", "--json").out.splitlines()]


@pytest.mark.usefixtures("playbook")
def test_duplicates_lists_pairs_with_the_words_that_differ(run: Run) -> None:
    """`review --list duplicates` has the similarity, entries and command of each pair; after the merge none."""
    (pair,) = json.loads(run("review", "--list", "duplicates", "--json").out)
    assert (0.92, "tallybook merge kpt_001 kpt_003") == (pair["similarity"], pair["merge"])
    assert [TESTS, TESTS_AGAIN] == [entry["text"] for entry in pair["entries"]]
    says = "0.92  only kpt_003 has 'unit'; if they say the same: tallybook merge kpt_001 kpt_003"
    assert [says, f"    kpt_001  +0 -0  {TESTS}"] == run("review", "--list", "duplicates").out.splitlines()[:2]
    assert 0 == run(*pair["merge"].split()[1:]).code
    assert "No entries resemble each other.\n" == run("review", "--list", "duplicates").out


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(("text", "other"), RESEMBLING)
def test_a_text_that_resembles_an_entry_is_added_and_the_difference_is_named(run: Run, text: str, other: str) -> None:
    """`add` of an opposite or a correction adds it, and names the entry that it resembles and the words that differ."""
    run("add", text)
    answer = run("add", other)
    assert (0, [text, other]) == (answer.code, texts(run))
    difference = describe_difference(Entry("kpt_001", text), Entry("kpt_002", other))
    assert f"note: kpt_002 resembles kpt_001, {text!r}: {difference}; if they say the same, run: " in answer.err
    assert "tallybook merge kpt_001 kpt_002" in answer.err
    (item,) = json.loads(run("review", "--json").out)
    assert ("duplicate", ["kpt_001", "kpt_002"]) == (item["why"], item["names"])
    assert item["says"].startswith(f"do they say the same? {difference}; ")


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("words", [(), ("--again",), ("--key", "k")])
@pytest.mark.parametrize("text", EQUAL)
def test_a_text_that_an_entry_has_is_refused(run: Run, text: str, words: tuple[str, ...]) -> None:
    """`add` refuses a text that an entry has but for case, white space and final punctuation, and appends nothing."""
    run("add", EQUAL[0])
    before = events(run)
    answer = run("add", text, *words)
    assert (1, "", before) == (answer.code, answer.out, events(run))
    hint = "nothing was recorded; to say that it helped, run: tallybook rate kpt_001 helpful"
    assert f"tallybook: kpt_001: has this text; {hint}\n" == answer.err


@pytest.mark.usefixtures("project")
def test_again_is_for_redacted_texts_and_for_people(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`add --again` inside an agent is refused, and nothing is proposed; `add` adds what resembles an entry."""
    run("add", TESTS)
    monkeypatch.setenv("CLAUDECODE", "1")
    answer = run("add", TESTS_AGAIN, "--again")
    assert (2, "tallybook: --again: needs the rater human; nothing was recorded\n") == (answer.code, answer.err)
    assert [] == json.loads(run("proposals", "--json").out)
    assert 0 == run("add", TESTS_AGAIN).code
