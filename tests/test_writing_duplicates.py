"""Near duplicates: what counts as one, the verb that lists them, and texts that repeat an entry (rule 19)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tallybook.ledger.events import Entry
from tallybook.projections.comparison.similarity import find_groups, find_similar

if TYPE_CHECKING:
    from helpers.command_line import Run

TESTS = "Run the tests before each commit."
TESTS_AGAIN = "Before each commit, run the unit tests."

SAME = [
    ("Use type hints.", "use  TYPE hints"),
    (TESTS, TESTS_AGAIN),
    ("Quote ids as strings in JSON.", "Ids in JSON must be quoted as strings"),
    ("Pin versions of dependencies in CI.", "Pin dependency versions in CI"),
    ("Don't edit generated files.", "Do not edit generated files"),
    ("Tests zuerst ausführen.", "TESTS ZUERST AUSFÜHREN"),
]
DIFFERENT = [
    ("Use tabs for indentation.", "Never use tabs for indentation."),
    ("Use Python 3.11.", "Use Python 3.12."),
    ("Set the timeout to 30 seconds", "Set the timeout to 60 seconds"),
    ("Run the tests before each commit.", "Run the linter before each commit."),
    ("Ask before deleting files", "Ask before moving files"),
    ("!!!", "???"),
]


def similar(one: str, other: str) -> bool:
    """Return whether two texts are near duplicates, which must be the same both ways."""
    found = {bool(find_similar(a, [Entry("kpt_001", b)])) for a, b in ((one, other), (other, one))}
    (answer,) = found
    groups = find_groups([Entry("kpt_001", one), Entry("kpt_002", other)])
    assert [answer] == list({bool(groups)})
    return answer


@pytest.mark.parametrize(("one", "other"), SAME)
def test_texts_with_nearly_the_same_words_are_near_duplicates(one: str, other: str) -> None:
    """Order, case, punctuation and a few letters do not count."""
    assert similar(one, other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_texts_that_say_something_else_are_none(one: str, other: str) -> None:
    """A negation, a number or an important word makes another text."""
    assert not similar(one, other)


def test_a_group_has_every_entry_that_resembles_one_of_it() -> None:
    """Groups are connected, in the playbook's order, with the lowest similarity of two near duplicates."""
    words = "alpha beta gamma delta epsilon zeta eta theta iota kappa"
    texts = ["another", words, f"{words} lambda", f"{words} lambda sigma"]
    entries = [Entry(f"kpt {number}", text) for number, text in enumerate(texts)]
    (group,) = find_groups(entries, 0.9)
    assert tuple(entries[1:]) == group.entries
    assert find_similar(texts[1], [entries[3]], 0.5)[0].similarity < 0.9 <= group.similarity < 1
    assert "tallybook merge 'kpt 1' 'kpt 2' 'kpt 3'" == group.merge()


@pytest.fixture
def playbook(project: object, run: Run) -> None:
    """Make a playbook of two near duplicates and another entry."""
    del project
    for text in (TESTS, "Quote ids.", TESTS_AGAIN):
        assert 0 == run("add", text, "--again").code


def texts(run: Run) -> list[str]:
    """Return the texts of the playbook."""
    return [one["text"] for one in json.loads(run("show", "--json").out)["key_points"]]


def events(run: Run) -> list[dict[str, Any]]:
    """Return every event."""
    return [json.loads(line) for line in run("log", "--json").out.splitlines()]


@pytest.mark.usefixtures("playbook")
def test_duplicates_lists_groups_with_the_command_that_merges_them(run: Run) -> None:
    """The answer has the similarity, the entries and the command; after the merge there is none."""
    (group,) = json.loads(run("duplicates", "--json").out)
    assert (0.93, "tallybook merge kpt_001 kpt_003") == (group["similarity"], group["merge"])
    assert [TESTS, TESTS_AGAIN] == [one["text"] for one in group["entries"]]
    shown = run("duplicates").out.splitlines()
    assert ["0.93  tallybook merge kpt_001 kpt_003", f"    kpt_001  +0 -0  {TESTS}"] == shown[:2]
    assert 0 == run(*group["merge"].split()[1:]).code
    assert "No entries say nearly the same.\n" == run("duplicates").out


@pytest.mark.usefixtures("playbook")
def test_a_similarity_out_of_bounds_is_bad_input(run: Run) -> None:
    """One line says what is taken."""
    assert [2, 2] == [run("duplicates", "--least", given).code for given in ("85", "x")]


@pytest.mark.usefixtures("project")
def test_a_project_without_a_ledger_has_no_duplicates(run: Run) -> None:
    """Nothing is created."""
    assert (0, []) == (run("duplicates", "--json").code, json.loads(run("duplicates", "--json").out))


@pytest.mark.usefixtures("project")
def test_add_names_the_entry_that_a_text_repeats(run: Run) -> None:
    """Nothing is recorded, exit code 1 says so, and the line has the commands that rate it and that add it."""
    run("add", TESTS)
    before = events(run)
    answer = run("add", TESTS_AGAIN)
    assert (1, before) == (answer.code, events(run))
    assert f"TEXT: kpt_001 says nearly the same (0.93): {TESTS}; nothing was recorded; " in answer.err
    assert "tallybook rate kpt_001 helpful; or give --again" in answer.err
    assert (0, [TESTS, TESTS_AGAIN]) == (run("add", TESTS_AGAIN, "--again").code, texts(run))


@pytest.mark.usefixtures("project")
def test_the_very_text_of_an_entry_is_never_added_twice(run: Run) -> None:
    """The answer names the entry and how to rate it, with --again as well."""
    for words in ((), ("--again",)):
        answer = run("add", TESTS, *words)
    assert "to say that it helped, run: tallybook rate kpt_001 helpful" in answer.err
    assert [TESTS] == texts(run)


@pytest.mark.usefixtures("project")
def test_a_delivery_under_a_key_is_not_compared(run: Run) -> None:
    """A program's delivery counts once by its key, whatever the entry says meanwhile."""
    run("add", TESTS, "--key", "k")
    run("reword", "kpt_001", TESTS_AGAIN)
    assert "already recorded under this key" in run("add", TESTS, "--key", "k").out


@pytest.mark.usefixtures("project")
def test_an_agent_only_proposes_to_add_a_repeated_text(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`add --again` inside an agent is a proposal that a person accepts; a secret in it is masked (rule 2)."""
    run("add", TESTS)
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    with monkeypatch.context() as patch:
        patch.setenv("CLAUDECODE", "1")
        assert 1 == run("add", TESTS_AGAIN).code
        answer = run("add", TESTS_AGAIN, "--again")
        run("add", f"{TESTS} {secret}", "--again")
    assert (1, [TESTS]) == (answer.code, texts(run)[:1])
    assert "add: repeats an entry, so inside an agent it was only proposed" in answer.err
    (proposal,) = [one for one in json.loads(run("proposals", "--json").out) if one["text"] == TESTS_AGAIN]
    assert ("add", "repeats kpt_001") == (proposal["verb"], proposal["cause"])
    assert f'proposed: add "{TESTS_AGAIN}"' in run("proposals").out
    assert secret not in run("log", "--json").out
    assert 0 == run("accept", str(proposal["seq"])).code
    assert TESTS_AGAIN in texts(run)


@pytest.mark.usefixtures("project")
def test_an_accepted_addition_that_has_come_meanwhile_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proposal stays open, and a person can reject it."""
    run("add", TESTS)
    with monkeypatch.context() as patch:
        patch.setenv("CLAUDECODE", "1")
        run("add", TESTS_AGAIN, "--again")
    run("add", TESTS_AGAIN, "--again")
    answer = run("accept", "--all")
    assert (1, True) == (answer.code, "kpt_002: has this text" in answer.err)
    assert 0 == run("reject", "--all").code


@pytest.mark.usefixtures("playbook")
def test_what_if_shows_what_a_merge_would_do(run: Run) -> None:
    """The counts add up and the other entry is gone; nothing is recorded, and the real merge comes to the same."""
    for name, rating in (("kpt_001", "helpful"), ("kpt_003", "harmful")):
        run("rate", name, rating)
    before = events(run)
    told = json.loads(run("what-if", "--merge", "kpt_001", "kpt_003", "--json").out)
    assert [{"name": "kpt_001", "merged": ["kpt_003"], "pruned": False}] == told["merge"]
    (changed,), (gone,) = told["changed"], told["gone"]
    assert ({"name": "kpt_001", "text": TESTS, "helpful": 1, "harmful": 1}) == changed["other"]
    assert ("kpt_003", "merged") == (gone["name"], gone["status"])
    assert before == events(run)
    run("merge", "kpt_001", "kpt_003")
    assert changed["other"] == json.loads(run("show", "--json").out)["key_points"][0]


@pytest.mark.usefixtures("playbook")
def test_what_if_says_that_a_merged_entry_would_be_pruned(run: Run) -> None:
    """Two entries of 0/2 and 1/1 make one of 1/3, which the next update prunes."""
    for name, rating in (*[("kpt_001", "harmful")] * 2, ("kpt_003", "harmful"), ("kpt_003", "helpful")):
        run("rate", name, rating)
    assert "kpt_001 would be pruned by the next update" in run("what-if", "--merge", "kpt_001", "kpt_003").out


@pytest.mark.usefixtures("playbook")
@pytest.mark.parametrize(
    ("pair", "code"), [(("kpt_001", "kpt_009"), 1), (("kpt_001", "kpt_001"), 2), (("kpt_001",), 2)]
)
def test_what_if_refuses_what_merge_refuses(run: Run, pair: tuple[str, ...], code: int) -> None:
    """An unknown entry, an entry with itself and one name are one clear line."""
    answer = run("what-if", "--merge", *pair)
    assert (code, 1) == (answer.code, answer.err.count("\n"))
