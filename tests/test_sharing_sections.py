"""Sections in a shared project: they travel and land with their entries (rule 18)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.shared_machines import HUMAN, SharedMachine, make_machines, make_pair
from tallybook.projections.surfaces import commands

MISTAKES, PATTERNS = "MISTAKES TO AVOID", "PATTERNS & APPROACHES"


@pytest.fixture(name="pair")
def _pair(tmp_path: Path) -> tuple[SharedMachine, SharedMachine]:
    return make_pair(tmp_path)


def add(machine: SharedMachine, text: str, section: str) -> str:
    """Add an entry to a section, and return its name."""
    (name,) = commands.add(machine.project, {"text": text, "section": section}, HUMAN).added
    return name


def sections(machine: SharedMachine) -> dict[str, list[str]]:
    """Return the texts of the entries in each section; playbook.json must say the same."""
    commands.check(machine.project)
    shown = commands.show(machine.project)
    texts = {entry["name"]: entry["text"] for entry in shown["key_points"]}
    found = shown.get("section_names", {})
    return {heading: sorted(texts[name] for name in names) for heading, names in found.items()}


def sync_all(*machines: SharedMachine) -> None:
    """Sync until every machine has everything."""
    for machine in (*machines, *machines):
        machine.sync()


def test_sections_land_with_their_entries(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """Two machines add an entry at once; each is in its own section everywhere, before and after it lands."""
    anna, ben = pair
    sync_all(anna, ben)
    add(anna, "From Anna", MISTAKES)
    add(ben, "From Ben", PATTERNS)
    assert {PATTERNS: ["From Ben"]} == sections(ben)
    sync_all(anna, ben)
    assert ["From Anna"] == sections(anna)[MISTAKES]
    assert ["From Ben"] == sections(anna)[PATTERNS]
    assert sections(anna) == sections(ben)


def test_names_by_section_go_on_by_section(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """In the later format two machines give `mis-001` at once; the one that lands later is `mis-002`."""
    anna, ben = pair
    sync_all(anna, ben)
    for machine in pair:
        path = machine.project.claude / "config" / "tallybook.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text('[playbook]\nformat = "sections"\n')
    assert ("mis-001", "mis-001") == (add(anna, "From Anna", MISTAKES), add(ben, "From Ben", MISTAKES))
    sync_all(anna, ben)
    assert (["From Anna", "From Ben"], sections(ben)) == (sections(anna)[MISTAKES], sections(anna))
    assert {"mis-001", "mis-002"} <= {point["name"] for point in commands.show(anna.project)["key_points"]}
    assert "mis-003" == add(ben, "Once more", MISTAKES)


def test_a_pending_edit_names_the_entries_of_sections_as_they_were_shown(tmp_path: Path) -> None:
    """An edit of another key has all sections, and means the kpt_001 of the book, not its own of before it shared."""
    anna, ben = make_machines(tmp_path, "anna", "ben")
    add(anna, "From Anna", MISTAKES)
    commands.add(ben.project, "From Ben before he shared", HUMAN)
    sync_all(anna, ben)
    before = sections(ben)
    assert {MISTAKES: ["From Anna"]} == before
    document = json.loads(ben.project.playbook.read_text(encoding="utf-8"))
    ben.project.playbook.write_text(json.dumps(document | {"note": "mine"}), encoding="utf-8")
    commands.replay(ben.project)
    assert before == sections(ben)
    sync_all(ben, anna)
    assert (before, before) == (sections(ben), sections(anna))
