"""Files in the place of ``playbook.json``: a manual edit is recorded once, other formats are read."""

from __future__ import annotations

from collections.abc import Callable
import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
import pytest

from helpers.events import list_events
from helpers.reference_model import COUNTS, TEXTS, extraction, migrate, point
from tallybook import compat
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.errors import BadInputError
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import playbook_file
from tallybook.projections.surfaces.workspace.project import Project

Doc = dict[str, Any]
REFLECTOR = {"rater": "reflector"}
# Behind it kpt_004 was pruned, and kpt_001 to kpt_003 stand.
HISTORY: list[dict[str, Any]] = [
    extraction(new=["one", "two", "three", "four"]),
    extraction(*[("kpt_001", "helpful")] * 3, ("kpt_002", "harmful"), *[("kpt_004", "harmful")] * 3),
]


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with the playbook of HISTORY."""
    return lived(project)


def lived(folder: Path) -> Project:
    """Record HISTORY in a project."""
    place = Project(folder)
    for brought in HISTORY:
        commands.record(place, brought, REFLECTOR)
    return place


def read(project: Project) -> Doc:
    """Return playbook.json from the disk."""
    doc: Doc = json.loads(project.playbook.read_bytes())
    return doc


def write(project: Project, doc: object) -> None:
    """Write playbook.json as a manual edit."""
    project.playbook.write_bytes(doc if isinstance(doc, bytes) else json.dumps(doc).encode())


def unstamped(doc: Doc) -> Doc:
    """Return a document without the ledger's stamp."""
    return {key: value for key, value in doc.items() if key != "ledger"}


def undated(doc: Doc) -> Doc:
    """Return a document without the two keys that change with every event."""
    return {key: value for key, value in unstamped(doc).items() if key != "last_updated"}


def count(project: Project) -> int:
    """Return how many events the ledger has."""
    return commands.verify_and_fold(project)[0].events


def kinds(project: Project, after: int) -> list[str]:
    """Return the kinds of the events after a moment."""
    return [row["kind"] for row in list_events(project) if row["seq"] > after]


def entry(project: Project, name: str) -> Doc:
    """Return an entry of the ledger."""
    return next(kp for kp in commands.show(project)["key_points"] if kp["name"] == name)


@st.composite
def edited(draw: DrawFn, doc: Doc) -> Doc:
    """Edit a rendered document like a person."""
    doc = copy.deepcopy(doc)
    points: list[Any] = doc["key_points"]
    for kp in points:
        kp.update(draw(st.fixed_dictionaries({}, optional={"text": TEXTS, "helpful": COUNTS, "harmful": COUNTS})))
    points = [kp for kp in points if draw(st.integers(0, 3))]
    points = draw(st.permutations(points)) if draw(st.booleans()) else points
    names = st.sampled_from(["kpt_004", "kpt_007", "kpt_020", "mine", None])
    for name in draw(st.lists(names, unique=True, max_size=3)):
        new = draw(st.builds(point, st.just(name), TEXTS, COUNTS, COUNTS))
        points.insert(draw(st.integers(0, len(points))), new if name else draw(st.sampled_from([new["text"], "bare"])))
    top = st.fixed_dictionaries({}, optional={"version": st.sampled_from(["1.0", "2.0"]), "owner": TEXTS})
    stamp = {"ledger": doc["ledger"]} if draw(st.booleans()) else {}
    return unstamped(doc) | draw(top) | stamp | {"key_points": points}


def specified(doc: Doc) -> Doc:
    """Return the specification's reading of a file; names used before HISTORY ended are not given again."""
    own = [kp["name"] for kp in doc["key_points"] if isinstance(kp, dict)]
    used = [point(name) for name in ("kpt_001", "kpt_002", "kpt_003", "kpt_004") if name not in own]
    named = migrate(doc | {"key_points": doc["key_points"] + used})
    return unstamped(named) | {"key_points": named["key_points"][: len(doc["key_points"])]}


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_is_loaded_by_the_specification_and_recorded_once(
    new_project: Callable[[], Path], data: st.DataObject
) -> None:
    """After any change, load returns the specification's result for that file, and the next write records it."""
    project = lived(new_project())
    before, begin = read(project), count(project)
    doc = data.draw(edited(before))
    write(project, doc)
    expected = specified(doc)
    assert expected == compat.load_playbook()
    assert begin == count(project)
    commands.replay(project)
    assert undated(expected) == undated(read(project))
    # A version that is left out is no change by anybody, and neither is the stamp.
    changed = undated(before) != undated(expected)
    closes = [kind for kind in kinds(project, begin) if kind == "playbook.edited"]
    assert ["playbook.edited"] * changed == closes
    taken_in = count(project)
    commands.replay(project)
    assert taken_in == count(project)
    assert () == commands.verify_and_fold(project)[0].problems


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_change_undoes_a_later_rating(new_project: Callable[[], Path], data: st.DataObject) -> None:
    """A change to an old rendering is applied to the ratings since: each remaining entry has them all."""
    project = lived(new_project())
    old = read(project)
    ratings = data.draw(st.lists(st.sampled_from(["helpful", "neutral", "harmful"]), max_size=3))
    rated = [("kpt_001", rating) for rating in ratings]
    commands.record(project, extraction(*rated), REFLECTOR)
    standing = {kp["name"]: kp for kp in read(project)["key_points"]}
    helpful, harmful = data.draw(COUNTS), data.draw(COUNTS)
    doc = copy.deepcopy(old)
    doc["key_points"][0] |= {"helpful": helpful, "harmful": harmful}
    write(project, doc)
    commands.replay(project)
    expected = standing.get("kpt_001", old["key_points"][0])
    counts = {"helpful": helpful, "harmful": harmful}
    since = {counter: ratings.count(counter) for counter in counts}
    for counter, value in counts.items():
        untouched = value == old["key_points"][0][counter]
        assert (expected[counter] if untouched else value + since[counter]) == entry(project, "kpt_001")[counter]


def test_an_edit_that_was_recorded_and_not_rendered_counts_once(here: Project) -> None:
    """A power loss between the record of an edit and its rendering leaves the file of the edit, which adds nothing."""
    note = here.ledger / "rendered"
    doc, former = read(here), note.read_bytes()
    doc["key_points"][0]["helpful"] += 4
    write(here, doc)
    commands.replay(here)
    write(here, doc)
    note.write_bytes(former)
    assert 7 == commands.show(here)["key_points"][0]["helpful"]
    commands.replay(here)
    assert 7 == read(here)["key_points"][0]["helpful"]


@pytest.mark.parametrize("harmful", [0, 12])
def test_a_program_that_saves_its_document_again_counts_each_change_once(here: Project, harmful: int) -> None:
    """A document in memory keeps its stamp, and has the edits that were recorded meanwhile: they are not added anew."""
    doc = read(here)
    edited = doc["key_points"][0]
    # As many prune the entry, which the next save brings back.
    commands.record(here, extraction(*[("kpt_001", "harmful")] * harmful), REFLECTOR)
    for added in (4, 0, 2):
        edited["helpful"] += added
        write(here, doc)
        commands.replay(here)
        counts = entry(here, "kpt_001")
        assert (edited["helpful"], harmful) == (counts["helpful"], counts["harmful"])


def test_a_file_changed_while_a_command_runs_is_not_overwritten(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change between the read of the file and its rendering is read again, and recorded."""
    doc = read(here)
    doc["key_points"][0]["text"] = "changed meanwhile"
    examine = playbook_file.examine

    def examine_then_change(*arguments: Any) -> playbook_file.ExaminedFile:
        found = examine(*arguments)
        write(here, doc)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(playbook_file, "examine", examine_then_change)
        commands.record(here, extraction(("kpt_001", "helpful")), REFLECTOR)
    assert point("kpt_001", "changed meanwhile", 4) == read(here)["key_points"][0]
    commands.check(here)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)
FIELDS = st.sampled_from(["id", "name", "content", "text", "helpful", "harmful", "section", "status"])
TABLES = st.dictionaries(st.text(max_size=5), JSON | st.dictionaries(FIELDS, JSON, max_size=8), max_size=3)


@given(document=st.fixed_dictionaries({}, optional={"skills": TABLES | JSON, "bullets": TABLES, "sections": JSON}))
def test_any_table_is_read_or_refused(document: dict[str, Any]) -> None:
    """Whatever a table holds, its items become entries with a name and a text, or are skipped with a reason."""
    try:
        legacy = read_legacy(json.dumps(document).encode())
    except BadInputError:
        return
    assert all(item.entry.name and item.entry.text.strip() for item in legacy.items)
    assert all(part.reason for part in legacy.skipped)
    names = [item.entry.name for item in legacy.items]
    assert len(names) == len({*names})
