"""The later playbook format: files written and read, results with sections and operations, beside a plain model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
import pytest

from helpers.authors import HUMAN
from helpers.events import list_events
from helpers.hook_calls import START, call
from helpers.later_model import SLUGS, LaterPlaybook
from helpers.reference_model import extraction, point
from helpers.sweep import slice_of
from tallybook import compat
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run


HEADINGS = [*SLUGS]
BY_SECTION = '[playbook]\nformat = "sections"\n'


def choose(here: Project, text: str = BY_SECTION) -> None:
    """Write the project's settings."""
    path = here.claude / "config" / "tallybook.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project whose playbook.json is written in the later format."""
    made = Project(project)
    choose(made)
    return made


def document(here: Project) -> dict[str, Any]:
    """Return playbook.json, which must equal the replay."""
    commands.check(here)
    doc: dict[str, Any] = json.loads(here.playbook.read_bytes())
    return doc


def names(here: Project) -> dict[str, list[str]]:
    """Return the names of the entries in each section that has any."""
    sections = document(here)["sections"]
    return {heading: [entry["name"] for entry in entries] for heading, entries in sections.items() if entries}


def edit(here: Project, change: Any) -> list[str]:
    """Change playbook.json like a person, have a command record it, and return the kinds of the events."""
    doc = document(here)
    change(doc)
    here.playbook.write_text(json.dumps(doc), encoding="utf-8")
    before = len(list(list_events(here)))
    commands.replay(here)
    document(here)
    return [event["kind"] for event in list(list_events(here))[before:]]


def fill(here: Project) -> None:
    """Add an entry to two sections and one without a section."""
    new = [{"text": "No globals", "section": "mistakes to avoid"}, "Ask first"]
    commands.record(here, {"new_key_points": [*new, {"text": "Use pathlib", "section": HEADINGS[0]}]}, HUMAN)


def test_a_rendering_is_read_back_as_no_edit(here: Project) -> None:
    """Neither the file itself, nor the same values in other bytes, nor the file without the note of it."""
    fill(here)
    assert [] == edit(here, lambda doc: doc)
    (here.ledger / "rendered").unlink()
    assert [] == edit(here, lambda doc: doc)


def test_a_file_that_another_program_wrote_is_an_edit_of_what_it_changed(here: Project) -> None:
    """Without the stamp, a new entry, a count, a move and a removal are recorded, and nothing else."""
    fill(here)

    def change(doc: dict[str, Any]) -> None:
        del doc["ledger"]
        sections = doc["sections"]
        sections["OTHERS"][0]["helpful"] = 2
        sections[HEADINGS[0]].append(point("pat-002", "Learned there"))
        sections["USER PREFERENCES"] = sections.pop("MISTAKES TO AVOID")
        sections["MISTAKES TO AVOID"] = []

    kinds = edit(here, change)
    assert {"point.edited", "point.placed", "playbook.ordered", "playbook.edited"} == set(kinds)
    assert {HEADINGS[0]: ["pat-001", "pat-002"], "USER PREFERENCES": ["mis-001"], "OTHERS": ["oth-001"]} == names(here)
    assert 2 == document(here)["sections"]["OTHERS"][0]["helpful"]
    assert "point.removed" in edit(here, lambda doc: doc["sections"]["OTHERS"].clear())


def test_a_person_moves_entries_and_takes_it_back(here: Project, run: Run) -> None:
    """`move` puts entries into a section, `undo` back; `why` and `log` tell it, and the past keeps its own."""
    fill(here)
    before = names(here)
    assert 0 == run("move", "pat-001", "OTH-001", "mistakes", "--reason", "both went wrong").code
    assert {HEADINGS[1]: ["mis-001", "oth-001", "pat-001"]} == names(here)
    assert 2 == run("why", "pat-001", "--trail").out.count("point.placed")
    assert 'pat-001 moved to MISTAKES TO AVOID: "both went wrong"' in run("log", "pat-001").out
    assert before == {
        HEADINGS[0]: commands.show(here, "~2")["section_names"][HEADINGS[0]],
        HEADINGS[1]: commands.show(here, "~2")["section_names"][HEADINGS[1]],
        "OTHERS": ["oth-001"],
    }
    redo = run("undo").out.splitlines()[-1].partition("run: tallybook ")[2]
    assert before == names(here)
    assert 0 == run(*redo.split()).code
    assert {HEADINGS[1]: ["mis-001", "oth-001", "pat-001"]} == names(here)


def test_a_session_is_given_headings_in_that_format_alone(here: Project) -> None:
    """`## HEADING` stands before the entries of each section that has any; the flat format has none."""
    fill(here)
    text = json.loads(call(START))["hookSpecificOutput"]["additionalContext"]
    lines = [line for line in text.splitlines() if line.startswith(("## ", "["))]
    entry = "helpful=0 harmful=0 ::"
    assert [
        "## PATTERNS & APPROACHES",
        f"[pat-001] {entry} Use pathlib",
        "## MISTAKES TO AVOID",
        f"[mis-001] {entry} No globals",
        "## OTHERS",
        f"[oth-001] {entry} Ask first",
    ] == lines
    choose(here, "[playbook]\n")
    commands.replay(here)
    assert "##" not in json.loads(call(START, "s2"))["hookSpecificOutput"]["additionalContext"]


def test_a_proposed_merge_keeps_its_section(here: Project, run: Run) -> None:
    """Accepted, the new entry is in the section that a model's MERGE named, and without one in the first source's."""
    fill(here)
    merges = [
        {"type": "MERGE", "source_ids": ["mis-001", "pat-001"], "merged_text": "One", "section": "project context"},
        {"type": "MERGE", "source_ids": ["ctx-001", "oth-001"], "merged_text": "Two"},
    ]
    for merge in merges:
        commands.record(here, {"operations": [merge]}, {"rater": "reflector"})
        assert 0 == run("proposals", "accept", "--all").code
    assert {"PROJECT CONTEXT": ["ctx-002"]} == names(here)


TEXTS = st.sampled_from([f"text {letter}" for letter in "abcdefghij"])
NAMES = st.sampled_from([f"{slug}-{number:03d}" for slug in SLUGS.values() for number in range(1, 4)])
SECTIONS = st.sampled_from([*HEADINGS, HEADINGS[0].lower(), "unheard of", 5])
POINTS = TEXTS | st.fixed_dictionaries({"text": TEXTS, "section": SECTIONS})
OPERATIONS = st.one_of(
    st.fixed_dictionaries({"type": st.just("ADD"), "text": TEXTS}, optional={"section": SECTIONS}),
    st.fixed_dictionaries({"type": st.just("DELETE"), "target_id": NAMES}),
    st.fixed_dictionaries({"type": st.just("UPDATE"), "target_id": NAMES, "text": TEXTS}),
    st.fixed_dictionaries(
        {"type": st.just("MERGE"), "source_ids": st.lists(NAMES, min_size=2, max_size=6), "merged_text": TEXTS},
        optional={"section": SECTIONS},
    ),
    st.fixed_dictionaries({"type": st.sampled_from(["add", "REMOVE"]), "text": TEXTS}),
)
RATINGS = st.sampled_from(["helpful", "harmful", "harmful", "neutral", "odd"])
RESULTS = st.fixed_dictionaries(
    {"evaluations": st.lists(st.fixed_dictionaries({"name": NAMES, "rating": RATINGS}), max_size=5)},
    optional={
        "new_key_points": st.lists(POINTS, max_size=4),
        "operations": st.lists(OPERATIONS, max_size=12),
    },
)


@examples(max_examples=slice_of(400, 25))
@given(results=st.lists(RESULTS, max_size=8))
def test_results_come_to_what_the_format_says(tmp_path_factory: pytest.TempPathFactory, results: list[Any]) -> None:
    """After each result the file has the sections of the plain model, with all entries in their order."""
    folder = tmp_path_factory.mktemp("later")
    (folder / ".claude").mkdir()
    here, model = Project(folder), LaterPlaybook()
    choose(here)
    for result in results:
        # Of a person, whose operations are no proposals.
        commands.record(here, result, HUMAN)
        model.take(result)
        assert model.sections == json.loads(here.playbook.read_bytes())["sections"]
    if results:
        document(here)


GROUPED = {
    "PATTERNS & APPROACHES": [point("pat-001", "Use pathlib.", 4, 1), point("pat-002", "Quote ids.")],
    "MISTAKES TO AVOID": [point("mis-001", "No globals.", 0, 2)],
    "USER PREFERENCES": [],
    "OTHERS": [point("kpt_001", "Ask first.")],
}
LATER = {"version": "1.0", "last_updated": "2026-02-24T10:00:00", "sections": GROUPED}
GROUPS = {
    "PATTERNS & APPROACHES": ["pat-001", "pat-002"],
    "MISTAKES TO AVOID": ["mis-001"],
    "USER PREFERENCES": [],
    "OTHERS": ["kpt_001"],
}


@pytest.fixture
def grouped(project: Path) -> Project:
    """Return a project whose ledger began with a playbook of the later format."""
    made = Project(project)
    made.playbook.write_text(json.dumps(LATER), encoding="utf-8")
    commands.replay(made)
    return made


def read(grouped: Project) -> dict[str, Any]:
    """Return playbook.json, which must equal the replay, every view and a load."""
    commands.check(grouped)
    doc: dict[str, Any] = json.loads(grouped.playbook.read_bytes())
    del doc["ledger"]
    assert commands.show(grouped) == doc
    assert dict(compat.load_playbook()) == doc
    return doc


def edit_grouped(grouped: Project, change: Any) -> dict[str, Any]:
    """Change playbook.json like a person, have the next command record it, and return the file."""
    doc = json.loads(grouped.playbook.read_bytes())
    change(doc)
    grouped.playbook.write_text(json.dumps(doc), encoding="utf-8")
    commands.replay(grouped)
    return read(grouped)


def test_the_grouping_survives_every_rewrite(grouped: Project, run: Run) -> None:
    """Ratings, a new entry, a saved dict and a deleted file do not change it, and `show --json` has it."""
    commands.rate(grouped, "pat-002", "helpful", HUMAN)
    commands.add(grouped, "Learned later.", HUMAN)
    playbook = compat.load_playbook()
    compat.update_playbook_data(playbook, extraction(("mis-001", "helpful")))
    compat.save_playbook(playbook)
    before = grouped.playbook.read_bytes()
    grouped.playbook.unlink()
    commands.replay(grouped)
    assert before == grouped.playbook.read_bytes()
    assert GROUPS == read(grouped)["section_names"]
    assert GROUPS == json.loads(run("show", "--json").out)["section_names"]


def test_a_manual_edit_of_the_grouping_is_recorded(grouped: Project) -> None:
    """An entry moves to another section; without the key there is no grouping, and the past keeps its own."""
    moved = {"PATTERNS & APPROACHES": ["pat-002"], "OTHERS": ["kpt_001", "pat-001"]}
    assert moved == edit_grouped(grouped, lambda doc: doc.update(section_names=moved))["section_names"]
    assert "section_names" not in edit_grouped(grouped, lambda doc: doc.pop("section_names"))
    assert moved == commands.show(grouped, "~1")["section_names"]


def test_a_file_of_the_later_format_in_its_place_is_an_edit(grouped: Project) -> None:
    """Its sections count, and an entry without a name is recognised by its text."""
    doc = {"version": "1.0", "sections": {"OTHERS": ["Quote ids.", point("pat-001", "Use pathlib.", 4, 1)]}}
    grouped.playbook.write_text(json.dumps(doc), encoding="utf-8")
    commands.replay(grouped)
    assert {"OTHERS": ["pat-002", "pat-001"]} == read(grouped)["section_names"]


def test_an_import_adds_its_sections_to_the_present_ones(grouped: Project, run: Run) -> None:
    """Entries are grouped under their new names, and one whose text exists under its existing name."""
    more = {
        "OTHERS": [point("kpt_001", "Another text."), point("kpt_002", "Quote ids.")],
        "PROJECT CONTEXT": [point("ctx-001", "A monorepo.")],
    }
    file = grouped.root / "more.json"
    file.write_text(json.dumps({"version": "1.0", "sections": more}), encoding="utf-8")
    for _ in range(2):
        assert 0 == run("import", str(file)).code
    added = {"OTHERS": ["kpt_001", "kpt_002"], "PROJECT CONTEXT": ["ctx-001"]}
    doc = read(grouped)
    assert "Another text." == doc["key_points"][-2]["text"]
    assert GROUPS | added == doc["section_names"]


def test_sections_too_large_for_an_event_lose_no_entry(project: Path, run: Run) -> None:
    """Thousands of entries are imported; their grouping is left out, and the answer says so."""
    grouped = Project(project)
    entries = [point(f"pat-{number:03d}", f"text {number}") for number in range(4_000)]
    file = project / "later.json"
    file.write_text(json.dumps({"version": "1.0", "sections": {"OTHERS": entries}}), encoding="utf-8")
    answer = run("import", str(file))
    assert (0, True) == (answer.code, "sections: too many to keep as sections" in answer.err + answer.out)
    assert entries == read(grouped)["key_points"]
