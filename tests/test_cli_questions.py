"""The verbs that ask about entries: what words find, exit codes, stable shapes of answers, and what people see."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from helpers.reference_model import extraction
from tallybook.ledger.decisions.curation import Curation
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.history.as_of import WITH_EDIT
from tallybook.projections.surfaces.history.entry_story import AmbiguousEntryError
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import curation

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

HUMAN = {"rater": "human", "session": "s1"}
EVENT = ["seq", "id", "at", "by", "summary"]


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project in which kpt_001 was pruned and learned again as kpt_003, and kpt_002 was retired."""
    place = Project(project)
    commands.record(place, extraction(new=["Use type hints", "Mock the clock"]), HUMAN)
    commands.record(place, extraction(*[("kpt_001", "harmful")] * 3), HUMAN)
    commands.add(place, "use TYPE hints!", HUMAN)
    curation.curate(place, Curation("retire", "kpt_002", "stale"), HUMAN)
    return place


def asked(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Return what the command prints, and see to its exit code."""
    capsys.readouterr()
    assert code == main.run(list(words))
    return capsys.readouterr().out


def test_an_entry_is_found_by_words_of_its_text(here: Project) -> None:
    """By name first, then by words that fit one entry alone, gone or not."""
    assert ["kpt_001", "kpt_002", "kpt_002"] == [
        commands.why(here, words)[0]["name"] for words in ("kpt_001", "clock", "MOCK the")
    ]
    assert ("unknown", "zebra") == tuple(commands.why(here, "zebra")[0][key] for key in ("status", "name"))


def test_words_that_fit_several_find_none_of_them(here: Project) -> None:
    """All that fit are kept for the answer; at a moment when one stood alone, that one is meant."""
    with pytest.raises(AmbiguousEntryError) as several:
        commands.why(here, "type hints")
    assert ["kpt_001", "kpt_003"] == [one["name"] for one in several.value.matches]
    assert "kpt_001" == commands.why(here, "type hints", "8")[0]["name"]


@pytest.mark.usefixtures("here")
def test_why_lists_what_words_fit_and_ends_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Name, status and text on standard output, and one line how to go on; quoted or not."""
    for words in (["type hints"], ["type", "hints"]):
        assert 1 == main.run(["why", *words])
        printed = capsys.readouterr()
        assert "kpt_001  pruned  Use type hints\nkpt_003  kept  use TYPE hints!\n" == printed.out
        hint = "2 entries have these words; give the name of one, or more words"
        assert f"tallybook: 'type hints': {hint}\n" == printed.err


@pytest.mark.usefixtures("here")
def test_why_answers_matches_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Instead of a story there are the entries to choose from."""
    answer = json.loads(asked(capsys, "why", "hints", "--json", code=1))
    assert ["matches"] == list(answer)
    assert [["name", "status", "text"]] * 2 == [list(one) for one in answer["matches"]]


@pytest.mark.usefixtures("here")
def test_why_tells_people_a_story_in_a_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Where it came from, its ratings, its end with rule and counts, what decided, and its other name."""
    story = asked(capsys, "why", "kpt_001")
    assert [True] * 5 == [
        words in " ".join(story.split())
        for words in (
            "kpt_001 pruned Use type hints Learned",
            "by the rule harmful >= 3 AND harmful > helpful, with 0 helpful and 3 harmful.",
            'human learned kpt_001 "Use type hints"',
            "human update: 3 ratings",
            "kpt_003 kept, same words as kpt_001: use TYPE hints!",
        )
    ]
    assert len(story.splitlines()) <= 15
    assert asked(capsys, "why", "kpt_001", "--trail").startswith(story)
    assert asked(capsys, "why", "kpt_001", "--chart").startswith(story)
    assert "x left" in asked(capsys, "why", "kpt_001", "--chart")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("option", ["--chart", "--trail"])
def test_why_draws_nothing_in_json(capsys: pytest.CaptureFixture[str], option: str) -> None:
    """The answer has every count; a drawing would spoil it."""
    assert "" == asked(capsys, "why", "kpt_001", "--json", option, code=2)
    assert 1 == main.run(["why", "zebra", option])


@pytest.mark.usefixtures("here")
def test_blame_answers_each_entry_with_its_event(capsys: pytest.CaptureFixture[str]) -> None:
    """The stable shape; at an earlier moment, of that moment; and a line for each entry for people."""
    (row,) = json.loads(asked(capsys, "blame", "--json"))
    assert (["name", "text", "helpful", "harmful", "event"], EVENT) == (list(row), list(row["event"]))
    assert ("kpt_003", 9) == (row["name"], row["event"]["seq"])
    earlier = json.loads(asked(capsys, "blame", "--json", "--at", "7"))
    assert [("kpt_001", 2), ("kpt_002", 3)] == [(one["name"], one["event"]["seq"]) for one in earlier]
    line = asked(capsys, "blame")
    assert line.startswith("kpt_003  +0 -0          9  ")
    assert line.endswith('  human  learned kpt_003 "use TYPE hints!"\n')


@pytest.mark.usefixtures("here")
def test_graveyard_answers_all_that_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    """The stable shape, newest last; at an earlier moment, of that moment; and why, for people."""
    rows = json.loads(asked(capsys, "graveyard", "--json"))
    shape = ["name", "text", "helpful", "harmful", "status", "rule", "reason", "into", "event"]
    assert [shape] * 2 == [list(row) for row in rows]
    assert [("kpt_001", "pruned", None), ("kpt_002", "retired", "stale")] == [
        (row["name"], row["status"], row["reason"]) for row in rows
    ]
    assert 1 == len(json.loads(asked(capsys, "graveyard", "--json", "--at", "8")))
    told = " ".join(asked(capsys, "graveyard").split())
    assert "kpt_001 pruned +0 -3 event 8, " in told
    assert "by human, harmful >= 3 AND harmful > helpful Use type hints" in told
    assert "by human, stale Mock the clock" in told


def test_a_hands_change_that_no_command_has_taken_in_is_told(here: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """As in `show`: who it brought and whom it took out, by a hand, without number or id, and the answer says so."""
    changed = json.loads(here.playbook.read_bytes())
    changed["key_points"] = [{"name": "kpt_009", "text": "by hand", "helpful": 2, "harmful": 0}]
    here.playbook.write_text(json.dumps(changed), encoding="utf-8")
    (row,) = json.loads(asked(capsys, "blame", "--json"))
    assert ("kpt_009", 2, EVENT) == (row["name"], row["helpful"], list(row["event"]))
    assert (None, None, {"rater": "human"}) == tuple(row["event"][key] for key in ("seq", "id", "by"))
    grave = json.loads(asked(capsys, "graveyard", "--json"))[-1]
    assert ("kpt_003", "retired", None) == (grave["name"], grave["status"], grave["event"]["seq"])
    assert 0 == main.run(["blame"])
    printed = capsys.readouterr()
    assert printed.out.startswith("kpt_009  +2 -0          -  ")
    told = f"this is {WITH_EDIT}"
    assert f"note: {told}\n" == printed.err
    assert "kpt_003  retired  +0 -0  in playbook.json, " in asked(capsys, "graveyard")
    assert "kpt_009" not in asked(capsys, "blame", "--at", "~0")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("verb", ["blame", "graveyard"])
def test_an_answer_about_the_past_says_which_moment_it_is_of(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    """Number, time and what was named, below the rows, or in the words that there are none; nothing of it for now."""
    told = " ".join(asked(capsys, verb, "--at", "session:s1+").split())
    assert told.endswith(" UTC, after session s1")
    assert " as of event 11, " in told
    assert "was empty at the beginning, before any event" in " ".join(asked(capsys, verb, "--at", "0").split())
    assert "as of" not in asked(capsys, verb)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("words", [["why", "kpt_003"], ["what-if"]], ids=" ".join)
def test_what_a_when_came_to_is_a_note_beside_other_answers(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """Number and what was named, where it was not a number that was typed."""
    for when, told in (("session:s1+", "note: session:s1+ is event 11, after session s1\n"), ("11", "")):
        assert 0 == main.run([*words, "--at", when])
        assert told == capsys.readouterr().err


def test_needs_ratings_answers_the_widest_first(here: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The stable shape, no more than asked for; a line for each entry for people."""
    commands.add(here, "another", HUMAN)
    commands.rate(here, "kpt_003", "helpful", HUMAN)
    rows = json.loads(asked(capsys, "needs-ratings", "--json"))
    assert ["name", "text", "helpful", "harmful", "low", "high", "width"] == list(rows[0])
    assert ["kpt_004", "kpt_003"] == [row["name"] for row in rows]
    assert 1 == len(json.loads(asked(capsys, "needs-ratings", "--limit", "1", "--json")))
    assert "kpt_003  +1 -0      21 to 100 %  use TYPE hints!" == asked(capsys, "needs-ratings").splitlines()[1]
    assert "" == asked(capsys, "needs-ratings", "--limit", "0", code=2)


def notes(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what the command prints beside its answer."""
    capsys.readouterr()
    main.run(list(words))
    return capsys.readouterr().err


def test_an_answer_says_what_a_hand_changed_that_is_not_in_it(
    here: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """A note names the manual edit of the entry that is asked about, and for a list the entries with manual edits."""
    commands.add(here, "Keep functions short", HUMAN)
    quiet = [("why", "kpt_001"), ("why", "kpt_002"), ("graveyard",), ("blame",), ("what-if",)]
    assert [""] * 5 == [notes(capsys, *words) for words in quiet]
    document = json.loads(here.playbook.read_bytes())
    _, kept = document["key_points"]
    kept["helpful"] = 7
    back = {"name": "kpt_001", "text": "Use type hints", "helpful": 0, "harmful": 0}
    here.playbook.write_text(json.dumps(document | {"key_points": [kept, back]}), encoding="utf-8")
    said = {
        "kpt_001": "a manual edit added it in playbook.json",
        "kpt_002": None,
        "kpt_003": "a manual edit removed it from playbook.json",
        "kpt_004": "a manual edit changed it in playbook.json",
    }
    hint = "; the next command that writes records it\n"
    for name, told in said.items():
        assert (f"note: {told}{hint}" if told else "") == notes(capsys, "why", name)
    told = "note: playbook.json has manual edits of kpt_003, kpt_004, kpt_001"
    assert told + hint == notes(capsys, "what-if")
    assert "manual edits" not in notes(capsys, "what-if", "--at", "3")


def test_a_playbook_without_a_ledger_is_told_of_in_short(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing was ever taken in, the first few entries are named."""
    points = [{"name": f"kpt_00{number}", "text": "x" * number, "helpful": 0, "harmful": 0} for number in range(1, 8)]
    Project(project).playbook.write_text(json.dumps({"version": "1.0", "key_points": points}), encoding="utf-8")
    assert "of kpt_001, kpt_002, kpt_003, kpt_004, kpt_005 and 2 more; " in notes(capsys, "what-if")
    assert "a manual edit added it in playbook.json" in notes(capsys, "why", "kpt_007")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("words", [("why", "kpt_001"), ("what-if",)])
def test_a_moment_inside_a_batch_is_told_beside_the_answer(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """A batch counts as a whole, so the answer is of the event before it; not beside JSON, where programs read."""
    assert notes(capsys, *words, "--at", "6").startswith("note: as of event 4, 20")
    assert "(event 6 is inside a batch, which counts as a whole)\n" in notes(capsys, *words, "--at", "6")
    assert ["", ""] == [notes(capsys, *words, "--at", "4"), notes(capsys, *words, "--at", "6", "--json")]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["AC-06"], "ac06 is a component of the scores; run: tallybook score --component ac06 --detail"),
        (["score.session.overall"], "session.overall is a score; run: tallybook score --session --detail"),
        (["ac99"], ""),
    ],
)
@pytest.mark.usefixtures("here")
def test_who_asks_why_of_a_score_is_told_who_answers(words: list[str], hint: str, run: Run) -> None:
    """A component is no entry, and says so beside the answer; so does a composite."""
    done = run("why", *words)
    assert (1, f"note: {hint}\n" if hint else "") == (done.code, done.err)


def test_a_configuration_with_a_mistake_leaves_why_as_it_was(here: Project, run: Run) -> None:
    """It is the scores' own matter."""
    (here.root / ".claude/config").mkdir(exist_ok=True)
    (here.root / ".claude/config/scoring-config.yaml").write_text("scoring: 7\n", encoding="utf-8")
    assert (1, "") == ((done := run("why", "ac06")).code, done.err)
