"""The verbs that ask about entries: what words find, exit codes, stable shapes of answers, and what people see."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from helpers.reference_model import extraction
from tallybook.ledger.decisions.curation import Curation
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.history.stories import WITH_EDIT, AmbiguousEntryError
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import curation

if TYPE_CHECKING:
    from pathlib import Path


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


def ask(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Return what the command prints, and check its exit code."""
    capsys.readouterr()
    assert code == main.run(list(words))
    return capsys.readouterr().out


def test_an_entry_is_found_by_words_of_its_text(here: Project) -> None:
    """A name comes first, then words that fit one entry alone, active or not."""
    assert ["kpt_001", "kpt_002", "kpt_002"] == [
        commands.why(here, words)[0]["name"] for words in ("kpt_001", "clock", "MOCK the")
    ]
    assert ("unknown", "zebra") == tuple(commands.why(here, "zebra")[0][key] for key in ("status", "name"))


def test_words_that_fit_several_entries_select_none(here: Project) -> None:
    """The error lists all that fit; at a moment when one was active alone, it is selected."""
    with pytest.raises(AmbiguousEntryError) as several:
        commands.why(here, "type hints")
    assert ["kpt_001", "kpt_003"] == [match["name"] for match in several.value.matches]
    assert "kpt_001" == commands.why(here, "type hints", "8")[0]["name"]


@pytest.mark.usefixtures("here")
def test_why_lists_the_matches_of_words(capsys: pytest.CaptureFixture[str]) -> None:
    """Name, status and text go to standard output, and one line says how to go on; quoted or not."""
    for words in (["type hints"], ["type", "hints"]):
        assert 1 == main.run(["why", *words])
        printed = capsys.readouterr()
        assert "kpt_001  pruned  Use type hints\nkpt_003  kept  use TYPE hints!\n" == printed.out
        hint = "2 entries have these words; give the name of one, or more words"
        assert f"tallybook: 'type hints': {hint}\n" == printed.err


@pytest.mark.usefixtures("here")
def test_why_answers_matches_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON answer has the entries to choose from instead of a story."""
    answer = json.loads(ask(capsys, "why", "hints", "--json", code=1))
    assert ["matches"] == list(answer)
    assert [["name", "status", "text"]] * 2 == [list(match) for match in answer["matches"]]


def test_a_manual_edit_that_is_not_recorded_is_included(here: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """As in `show`, the answer names added and removed entries as a manual edit, without number or id."""
    changed = json.loads(here.playbook.read_bytes())
    changed["key_points"] = [{"name": "kpt_009", "text": "by hand", "helpful": 2, "harmful": 0}]
    here.playbook.write_text(json.dumps(changed), encoding="utf-8")
    (row,) = json.loads(ask(capsys, "show", "--last-change", "--json"))
    assert ("kpt_009", 2, EVENT) == (row["name"], row["helpful"], list(row["event"]))
    assert (None, None, {"rater": "human"}) == tuple(row["event"][key] for key in ("seq", "id", "by"))
    grave = json.loads(ask(capsys, "show", "--gone", "--json"))[-1]
    assert ("kpt_003", "retired", None) == (grave["name"], grave["status"], grave["event"]["seq"])
    assert 0 == main.run(["show", "--last-change"])
    printed = capsys.readouterr()
    assert printed.out.startswith("kpt_009  +2 -0          -  ")
    told = f"this is {WITH_EDIT}"
    assert f"note: {told}\n" == printed.err
    assert "kpt_003  retired  +0 -0  in playbook.json, " in ask(capsys, "show", "--gone")
    assert "kpt_009" not in ask(capsys, "show", "--last-change", "--at", "~0")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("form", ["--last-change", "--gone"])
def test_an_answer_about_the_past_names_its_moment(capsys: pytest.CaptureFixture[str], form: str) -> None:
    """Event number, time and the given words follow the rows, or the words that there are none; not for now."""
    told = " ".join(ask(capsys, "show", form, "--at", "session:s1+").split())
    assert told.endswith(" UTC, after session s1")
    assert " as of event 11, " in told
    assert "was empty at the beginning, before any event" in " ".join(ask(capsys, "show", form, "--at", "0").split())
    assert "as of" not in ask(capsys, "show", form)


def notes(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what the command prints on standard error."""
    capsys.readouterr()
    main.run(list(words))
    return capsys.readouterr().err


def test_an_answer_names_manual_edits_that_it_leaves_out(here: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """A note names the manual edit of the requested entry, and for a list the entries with manual edits."""
    commands.add(here, "Keep functions short", HUMAN)
    quiet = [("why", "kpt_001"), ("why", "kpt_002"), ("show", "--gone"), ("show", "--last-change"), ("what-if",)]
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
