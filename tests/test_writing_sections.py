"""Sections of a later playbook format: their grouping stays in `playbook.json` through every kind of change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.reference_model import book, extraction, point
from tallybook import compat
from tallybook.ledger.decisions.curation import Curation
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import curation

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

SECTIONS = {
    "PATTERNS & APPROACHES": [point("pat-001", "Use pathlib.", 4, 1), point("pat-002", "Quote ids.")],
    "MISTAKES TO AVOID": [point("mis-001", "No globals.", 0, 2)],
    "USER PREFERENCES": [],
    "OTHERS": [point("kpt_001", "Ask first.")],
}
LATER = {"version": "1.0", "last_updated": "2026-02-24T10:00:00", "sections": SECTIONS}
NAMES = {
    "PATTERNS & APPROACHES": ["pat-001", "pat-002"],
    "MISTAKES TO AVOID": ["mis-001"],
    "USER PREFERENCES": [],
    "OTHERS": ["kpt_001"],
}


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project whose ledger began with a playbook of the later format."""
    made = Project(project)
    made.playbook.write_text(json.dumps(LATER), encoding="utf-8")
    commands.replay(made)
    return made


def read(here: Project) -> dict[str, Any]:
    """Return playbook.json, which must equal the replay, every view and a load."""
    commands.check(here)
    doc: dict[str, Any] = json.loads(here.playbook.read_bytes())
    del doc["ledger"]
    assert commands.show(here) == doc
    assert dict(compat.load_playbook()) == doc
    return doc


def edit(here: Project, change: Any) -> dict[str, Any]:
    """Change playbook.json like a person, have the next command record it, and return the file."""
    doc = json.loads(here.playbook.read_bytes())
    change(doc)
    here.playbook.write_text(json.dumps(doc), encoding="utf-8")
    commands.replay(here)
    return read(here)


def test_the_grouping_of_a_later_format_is_kept_with_the_entries(here: Project) -> None:
    """`section_names` has each heading with its names, empty ones too; entries keep exactly their four fields."""
    entries = [entry for section in SECTIONS.values() for entry in section]
    assert book(*entries, last_updated="2026-02-24T10:00:00", section_names=NAMES) == read(here)


def test_the_grouping_survives_every_rewrite(here: Project, run: Run) -> None:
    """Ratings, a new entry, a saved dict and a deleted file do not change it, and `show --json` has it."""
    commands.rate(here, "pat-002", "helpful", HUMAN)
    commands.add(here, "Learned later.", HUMAN)
    playbook = compat.load_playbook()
    compat.update_playbook_data(playbook, extraction(("mis-001", "helpful")))
    compat.save_playbook(playbook)
    before = here.playbook.read_bytes()
    here.playbook.unlink()
    commands.replay(here)
    assert before == here.playbook.read_bytes()
    assert NAMES == read(here)["section_names"]
    assert NAMES == json.loads(run("show", "--json").out)["section_names"]


def test_removed_entries_are_in_no_section_until_they_return(here: Project) -> None:
    """A pruned entry leaves its section and the heading stays; restored, it is in its section again."""
    commands.rate(here, "mis-001", "harmful", HUMAN)
    assert NAMES | {"MISTAKES TO AVOID": []} == read(here)["section_names"]
    assert NAMES == commands.show(here, "~2")["section_names"]
    compat.save_playbook(compat.load_playbook())
    curation.curate(here, Curation("restore", "mis-001"), HUMAN)
    assert NAMES == read(here)["section_names"]


def test_a_manual_edit_of_the_grouping_is_recorded(here: Project) -> None:
    """An entry moves to another section; without the key there is no grouping, and the past keeps its own."""
    moved = {"PATTERNS & APPROACHES": ["pat-002"], "OTHERS": ["kpt_001", "pat-001"]}
    assert moved == edit(here, lambda doc: doc.update(section_names=moved))["section_names"]
    assert "section_names" not in edit(here, lambda doc: doc.pop("section_names"))
    assert moved == commands.show(here, "~1")["section_names"]


def test_a_file_of_the_later_format_in_its_place_is_an_edit(here: Project) -> None:
    """Its sections count, and an entry without a name is recognised by its text."""
    doc = {"version": "1.0", "sections": {"OTHERS": ["Quote ids.", point("pat-001", "Use pathlib.", 4, 1)]}}
    here.playbook.write_text(json.dumps(doc), encoding="utf-8")
    commands.replay(here)
    assert {"OTHERS": ["pat-002", "pat-001"]} == read(here)["section_names"]


def test_an_import_adds_its_sections_to_the_present_ones(here: Project, run: Run) -> None:
    """Entries are grouped under their new names, and one whose text exists under its existing name."""
    more = {
        "OTHERS": [point("kpt_001", "Another text."), point("kpt_002", "Quote ids.")],
        "PROJECT CONTEXT": [point("ctx-001", "A monorepo.")],
    }
    file = here.root / "more.json"
    file.write_text(json.dumps({"version": "1.0", "sections": more}), encoding="utf-8")
    for _ in range(2):
        assert 0 == run("import", str(file)).code
    added = {"OTHERS": ["kpt_001", "kpt_002"], "PROJECT CONTEXT": ["ctx-001"]}
    doc = read(here)
    assert "Another text." == doc["key_points"][-2]["text"]
    assert NAMES | added == doc["section_names"]


def test_sections_too_large_for_an_event_lose_no_entry(project: Path, run: Run) -> None:
    """Thousands of entries are imported; their grouping is left out, and the answer says so."""
    here = Project(project)
    entries = [point(f"pat-{number:03d}", f"text {number}") for number in range(4_000)]
    file = project / "later.json"
    file.write_text(json.dumps({"version": "1.0", "sections": {"OTHERS": entries}}), encoding="utf-8")
    answer = run("import", str(file))
    assert (0, True) == (answer.code, "sections: too many to keep as sections" in answer.err + answer.out)
    assert entries == read(here)["key_points"]
