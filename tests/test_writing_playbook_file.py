"""Files in the place of ``playbook.json``: a manual edit is recorded once, other formats are load."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
import pytest

from helpers.events import HUMAN, list_events
from helpers.manual_edits import curate, edit, rate, read
from helpers.reference_model import COUNTS, TEXTS, extraction, migrate, point
from tallybook import compat
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.errors import BadInputError, NothingToDoError, UnknownEntryError
from tallybook.projections.surfaces.history import playbook_file, reading
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, curation

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


def load(project: Project) -> Doc:
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
    before, begin = load(project), count(project)
    doc = data.draw(edited(before))
    write(project, doc)
    expected = specified(doc)
    assert expected == compat.load_playbook()
    assert begin == count(project)
    commands.replay(project)
    assert undated(expected) == undated(load(project))
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
    old = load(project)
    ratings = data.draw(st.lists(st.sampled_from(["helpful", "neutral", "harmful"]), max_size=3))
    rated = [("kpt_001", rating) for rating in ratings]
    commands.record(project, extraction(*rated), REFLECTOR)
    standing = {kp["name"]: kp for kp in load(project)["key_points"]}
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
    doc, former = load(here), note.read_bytes()
    doc["key_points"][0]["helpful"] += 4
    write(here, doc)
    commands.replay(here)
    write(here, doc)
    note.write_bytes(former)
    assert 7 == commands.show(here)["key_points"][0]["helpful"]
    commands.replay(here)
    assert 7 == load(here)["key_points"][0]["helpful"]


@pytest.mark.parametrize("harmful", [0, 12])
def test_a_program_that_saves_its_document_again_counts_each_change_once(here: Project, harmful: int) -> None:
    """A document in memory keeps its stamp, and has the edits that were recorded meanwhile: they are not added anew."""
    doc = load(here)
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
    """A change between the load of the file and its rendering is load again, and recorded."""
    doc = load(here)
    doc["key_points"][0]["text"] = "changed meanwhile"
    examine = playbook_file.examine

    def examine_then_change(*arguments: Any) -> playbook_file.ExaminedFile:
        found = examine(*arguments)
        write(here, doc)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(playbook_file, "examine", examine_then_change)
        commands.record(here, extraction(("kpt_001", "helpful")), REFLECTOR)
    assert point("kpt_001", "changed meanwhile", 4) == load(here)["key_points"][0]
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


# Curation by a person, from the command to the file: the answer of each verb, and unchanged past moments.


@pytest.fixture
def by_hand(project: Path) -> Project:
    """Return a project with three entries, the second rated helpful by session s1 (events 2 to 9)."""
    made = Project(project)
    for text in ("one", "two", "three"):
        commands.add(made, text, HUMAN)
    commands.record(made, extraction(("kpt_002", "helpful")), {"rater": "reflector", "session": "s1"})
    return made


NAMES = st.integers(1, 5).map("kpt_{:03d}".format)
EDIT_TEXTS = st.sampled_from(["a", "b", "c", "d", "e", "f"])
RATINGS = st.sampled_from(["helpful", "harmful", "harmful"])
UPDATES = st.tuples(st.lists(st.tuples(NAMES, RATINGS), max_size=4), st.lists(EDIT_TEXTS, max_size=2), EDIT_TEXTS)
SEQS = st.integers(1, 40).map(str)


def _change(by_hand: Project, name: str, field: str, value: Any) -> None:
    """Change or remove an entry in the file, as an editor does."""
    doc = read(by_hand)
    points = doc["key_points"]
    if field == "order":
        doc["key_points"] = points[::-1]
    elif field == "gone":
        doc["key_points"] = [kp for kp in points if kp["name"] != name]
    edit(by_hand, doc, **{name: {field: value} if field in {"text", "helpful", "harmful"} else {}})


def _save(by_hand: Project, updates: list[tuple[list[tuple[str, str]], list[str], str]]) -> None:
    """Save several updates at once; after each, another process adds an entry."""
    playbook = compat.load_playbook()
    for ratings, new, other in updates:
        compat.update_playbook_data(playbook, extraction(*ratings, new=new))
        commands.add(by_hand, other, HUMAN)
    compat.save_playbook(playbook)
    names = [kp["name"] for kp in playbook["key_points"]]
    assert sorted(set(names)) == sorted(names)


STEPS: Any = st.one_of(
    st.tuples(st.just(rate), st.lists(st.tuples(NAMES, RATINGS), max_size=6)).map(
        lambda drawn: lambda by_hand: drawn[0](by_hand, *drawn[1])
    ),
    st.builds(lambda updates: lambda by_hand: _save(by_hand, updates), st.lists(UPDATES, max_size=3)),
    st.builds(
        lambda text: lambda by_hand: commands.add(by_hand, text, {"rater": "human", "session": "s3"}), EDIT_TEXTS
    ),
    st.builds(
        lambda verb, name, text, merged: lambda by_hand: curate(by_hand, verb, name, text, (merged,)),
        st.sampled_from(["retire", "restore", "pin", "unpin", "reword", "merge", "merge"]),
        NAMES,
        EDIT_TEXTS,
        NAMES,
    ),
    st.builds(
        lambda target, session: lambda by_hand: curation.undo(by_hand, target, session, "", HUMAN),
        st.none() | SEQS,
        st.sampled_from([None, None, "s2", "s3"]),
    ),
    st.builds(
        lambda name, field, text, count: (
            lambda by_hand: _change(by_hand, name, field, text if field == "text" else count)
        ),
        NAMES,
        st.sampled_from(["text", "helpful", "harmful", "gone", "order"]),
        EDIT_TEXTS,
        st.integers(0, 5),
    ),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=3, max_size=12))
def test_any_sequence_leaves_every_moment_unchanged(
    new_project: Callable[[], Path], steps: list[Callable[[Project], Any]]
) -> None:
    """After each step the file is the replay, a dict loaded from it is equal, and the past is unchanged."""
    by_hand = Project(new_project())
    for text in "abc":
        commands.add(by_hand, text, HUMAN)
    moments = {}
    for step in steps:
        # No, or bad input: the ledger is as it was.
        with suppress(NothingToDoError, UnknownEntryError, BadInputError):
            step(by_hand)
        commands.replay(by_hand)
        commands.check(by_hand)
        state = reading.current(reading.open_log(by_hand))
        moments[state.seq] = commands.show(by_hand)
        assert commands.show(by_hand)["key_points"] == compat.load_playbook()["key_points"]
        assert state.due.keys() <= state.entries.keys() - state.pinned
        assert not state.entries.keys() & (state.gone.keys() | state.merged.keys())
        assert set(state.merged.values()) <= state.entries.keys() | state.gone.keys()
    assert moments == {seq: commands.show(by_hand, str(seq)) for seq in moments}
    assert commands.verify_and_fold(by_hand)[0].ok
