"""The later playbook format: files written and read, results with sections and operations, beside a plain model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
import pytest

from helpers.commands import Run
from helpers.events import HUMAN, list_events
from helpers.later_model import SLUGS, LaterPlaybook
from helpers.reference_model import extraction, point
from helpers.sweep import slice_of
from tallybook import compat
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

HEADINGS = [*SLUGS]
BY_SECTION = '[playbook]\nformat = "sections"\n'


def choose(here: Project) -> None:
    """Choose the later format."""
    path = here.claude / "config" / "tallybook.toml"
    path.parent.mkdir()
    path.write_text(BY_SECTION)


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


def test_a_rendering_is_read_back_as_no_edit(here: Project) -> None:
    """Neither the file itself, nor the same values in other bytes, nor the file without the note of it."""
    new = [{"text": "No globals", "section": "mistakes to avoid"}, "Ask first"]
    commands.record(here, {"new_key_points": [*new, {"text": "Use pathlib", "section": HEADINGS[0]}]}, HUMAN)
    before = len(list(list_events(here)))
    for note in (here.ledger / "rendered", here.ledger / "missing"):
        here.playbook.write_text(json.dumps(document(here)), encoding="utf-8")
        note.unlink(missing_ok=True)
        commands.replay(here)
        document(here)
    assert before == len(list(list_events(here)))


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
    optional={"new_key_points": st.lists(POINTS, max_size=4), "operations": st.lists(OPERATIONS, max_size=12)},
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


def test_a_saved_dict_keeps_the_sections(project: Path) -> None:
    """A dict of a file in the later format has its sections by name, before and after it is saved."""
    here = Project(project)
    sections = {
        "OTHERS": [point("kpt_001", "Ask first.")],
        "USER PREFERENCES": [],
        "MISTAKES TO AVOID": [point("a", "b")],
    }
    here.playbook.write_text(json.dumps({"version": "1.0", "sections": sections}), encoding="utf-8")
    playbook = compat.load_playbook()
    compat.update_playbook_data(playbook, extraction(("a", "helpful")))
    compat.save_playbook(playbook)
    names = {"OTHERS": ["kpt_001"], "USER PREFERENCES": [], "MISTAKES TO AVOID": ["a"]}
    assert [names] * 2 == [document(here)["section_names"], compat.load_playbook()["section_names"]]


def test_sections_too_large_for_an_event_lose_no_entry(project: Path, run: Run) -> None:
    """Thousands of entries are imported; their grouping is left out, and the answer says so."""
    entries = [point(f"pat-{number:03d}", f"text {number}") for number in range(4_000)]
    file = project / "later.json"
    file.write_text(json.dumps({"version": "1.0", "sections": {"OTHERS": entries}}), encoding="utf-8")
    answer = run("import", str(file))
    assert (0, True) == (answer.code, "sections: too many to keep as sections" in answer.err + answer.out)
    assert entries == document(Project(project))["key_points"]
