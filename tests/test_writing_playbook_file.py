"""Manual edits of ``playbook.json``: a change is recorded once, and undoes nothing that was recorded since."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.authors import HUMAN
from helpers.reference_model import COUNTS, TEXTS, book, extraction, migrate, point
from tallybook import compat
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import playbook_file
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hypothesis.strategies import DrawFn

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
    return commands.verify(project).events


def kinds(project: Project, after: int) -> list[str]:
    """Return the kinds of the events after a moment."""
    return [row["kind"] for row in commands.list_events(project) if row["seq"] > after]


def entry(project: Project, name: str) -> Doc:
    """Return an entry of the ledger."""
    return next(kp for kp in commands.show(project)["key_points"] if kp["name"] == name)


# Random changes, where nothing came in since the file was written


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
    assert () == commands.verify(project).problems


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


# One by one


def test_a_stale_file_makes_no_event(here: Project) -> None:
    """An old rendering, restored from a backup or a branch, is no change: it is rendered again."""
    old = here.playbook.read_bytes()
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    new, begin = here.playbook.read_bytes(), count(here)
    write(here, old)
    assert 4 == entry(here, "kpt_001")["helpful"]
    commands.replay(here)
    assert (new, begin) == (here.playbook.read_bytes(), count(here))


def test_a_reformatted_file_makes_no_event(here: Project) -> None:
    """Other white space, escapes or order of keys within an entry are no change."""
    doc, begin = read(here), count(here)
    flipped = [dict(reversed(kp.items())) for kp in doc["key_points"]]
    write(here, json.dumps(doc | {"key_points": flipped}, indent=8, sort_keys=False).encode())
    commands.replay(here)
    assert (doc, begin) == (read(here), count(here))


def test_a_removed_entry_is_retired_and_its_name_stays_used(here: Project) -> None:
    """An entry removed by a manual edit is gone, `why` says so, and no entry gets its name."""
    doc = read(here)
    doc["key_points"].pop()
    write(here, doc)
    outcome = commands.add(here, "new", HUMAN)
    assert ("kpt_005",) == outcome.added
    story, _ = commands.why(here, "kpt_003")
    assert "retired" == story["status"]
    assert {"rater": "human"} == story["decided_by"]["by"]


def test_a_pruned_entry_may_be_restored_by_a_manual_edit(here: Project) -> None:
    """It is present again, with the counts in the edit."""
    doc = read(here)
    doc["key_points"].insert(0, point("kpt_004", "four", harmful=1))
    write(here, doc)
    commands.rate(here, "kpt_004", "harmful", HUMAN)
    assert point("kpt_004", "four", harmful=2) == commands.show(here)["key_points"][0]
    assert "kept" == commands.why(here, "kpt_004")[0]["status"]


def test_counts_beyond_the_rule_are_pruned_by_an_update(here: Project) -> None:
    """A manual edit prunes nothing by itself; the next update does."""
    doc = read(here)
    doc["key_points"][0] |= {"helpful": 0, "harmful": 9}
    write(here, doc)
    commands.replay(here)
    assert 9 == entry(here, "kpt_001")["harmful"]
    commands.record(here, {"evaluations": []}, REFLECTOR)
    assert ["kpt_002", "kpt_003"] == [kp["name"] for kp in read(here)["key_points"]]


def test_a_later_rating_stays_if_only_the_text_was_edited(here: Project) -> None:
    """A text edited in an old rendering is changed, and the later ratings stay."""
    doc = read(here)
    commands.rate(here, "kpt_002", "helpful", HUMAN)
    doc["key_points"][1]["text"] = "two, better"
    write(here, doc)
    commands.replay(here)
    assert point("kpt_002", "two, better", 1, 1) == entry(here, "kpt_002")


def test_a_later_entry_stays_if_an_old_rendering_was_edited(here: Project) -> None:
    """An entry added after the file was written is not recorded as removed."""
    doc = read(here)
    commands.add(here, "five", HUMAN)
    doc["key_points"].pop(0)
    write(here, doc)
    commands.replay(here)
    assert ["two", "three", "five"] == [kp["text"] for kp in read(here)["key_points"]]


@pytest.mark.parametrize("mine", [["mine"], ["mine", "mine too"], ["mine", "mine too", "mine as well"]])
def test_a_name_given_twice_loses_no_entry(here: Project, mine: list[str]) -> None:
    """If a person and a program gave one name to two texts, both texts are kept, under names of their own."""
    doc = read(here)
    commands.add(here, "theirs", HUMAN)
    doc["key_points"] += [point(f"kpt_{number:03d}", text) for number, text in enumerate(mine, 5)]
    write(here, doc)
    commands.replay(here)
    points = read(here)["key_points"]
    assert sorted(["one", "two", "three", "theirs", *mine]) == sorted(kp["text"] for kp in points)
    assert len(points) == len({kp["name"] for kp in points})
    assert "theirs" == entry(here, "kpt_005")["text"]


def test_an_item_that_is_no_entry_is_kept_in_the_ledger(here: Project) -> None:
    """An added item without a text is no entry, but its content is not lost."""
    doc = read(here)
    doc["key_points"] += [{"name": "kpt_009", "txt": "a slip of the pen"}, "five"]
    write(here, doc)
    commands.replay(here)
    assert ["one", "two", "three", "five"] == [kp["text"] for kp in read(here)["key_points"]]
    assert any("a slip of the pen" in json.dumps(row.get("free")) for row in commands.list_events(here))


def test_an_unknown_key_of_an_entry_is_kept_in_the_ledger(here: Project) -> None:
    """A person's note on an entry is no part of the playbook, but it is not lost."""
    doc = read(here)
    doc["key_points"][0] |= {"text": "one, better", "note": "from the review of May"}
    write(here, doc)
    commands.replay(here)
    assert any("from the review of May" in json.dumps(row.get("free")) for row in commands.list_events(here))


def test_a_file_restored_a_second_time_counts_again(here: Project) -> None:
    """A playbook without a stamp that is restored from one backup twice is the same change twice."""
    backup = book(point("kpt_001", "one", 1), point("kpt_002", "two"))
    for _ in range(2):
        write(here, backup)
        commands.replay(here)
        commands.rate(here, "kpt_001", "helpful", HUMAN)
        assert [point("kpt_001", "one", 2), point("kpt_002", "two")] == read(here)["key_points"]


@pytest.mark.parametrize("damaged", [b"", b" ", b"{", b"[1]", b"5", b"\xff\xfe", b'{"key_points": [}', b"[" * 5000])
def test_an_unreadable_file_is_set_aside_byte_for_byte(here: Project, damaged: bytes) -> None:
    """It is no edit: the playbook is that of the ledger, and the file is kept next to the new one."""
    good, begin = unstamped(read(here)), count(here)
    write(here, damaged)
    assert good == compat.load_playbook()
    assert damaged == here.playbook.read_bytes()
    commands.replay(here)
    assert (good, begin) == (unstamped(read(here)), count(here))
    aside = list(here.claude.glob("playbook.json.*"))
    assert [damaged] == [path.read_bytes() for path in aside]
    write(here, damaged)
    commands.replay(here)
    assert [damaged] * 2 == [path.read_bytes() for path in here.claude.glob("playbook.json.*")]


def test_a_missing_file_is_rendered_again(here: Project) -> None:
    """A playbook.json that was deleted is no removal of its entries."""
    good, begin = here.playbook.read_bytes(), count(here)
    here.playbook.unlink()
    assert 3 == len(compat.load_playbook()["key_points"])
    commands.replay(here)
    assert (good, begin) == (here.playbook.read_bytes(), count(here))


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


def test_a_crash_before_the_rendering_records_an_edit_once(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit that a command recorded before it died is not recorded again."""
    doc = read(here)
    doc["key_points"][0]["helpful"] = 10
    write(here, doc)
    with monkeypatch.context() as patch:
        patch.setattr(record, "_render", lambda *_: None)
        commands.rate(here, "kpt_001", "helpful", HUMAN)
    commands.replay(here)
    edits = [row for row in commands.list_events(here) if row["kind"] == "point.edited"]
    assert [("kpt_001", 10)] == [(row["body"]["name"], row["body"]["helpful"]) for row in edits]
    assert 11 == entry(here, "kpt_001")["helpful"]


def test_the_stamp_is_no_top_level_key(here: Project) -> None:
    """A dict that old code read from the file and saves unchanged has the stamp, which changes nothing."""
    doc = read(here)
    compat.save_playbook(doc | {"owner": "me"})
    assert {"owner"} == commands.show(here).keys() - {"version", "last_updated", "key_points"}
    head = commands.verify(here).head
    assert f"{head.seq}:{head.chain}" == read(here)["ledger"]


def test_reading_records_nothing(here: Project) -> None:
    """`show` and load include a pending manual edit, and write neither the ledger nor the file."""
    doc = read(here)
    doc["key_points"].append("by hand")
    write(here, doc)
    on_disk, begin = here.playbook.read_bytes(), count(here)
    assert point("kpt_005", "by hand") == commands.show(here)["key_points"][-1]
    assert point("kpt_005", "by hand") == compat.load_playbook()["key_points"][-1]
    assert (on_disk, begin) == (here.playbook.read_bytes(), count(here))


def test_an_earlier_moment_shows_no_manual_edit(here: Project) -> None:
    """A manual edit belongs to the moment at which it was recorded, and to none before."""
    doc, begin = read(here), count(here)
    doc["key_points"][0]["text"] = "changed"
    write(here, doc)
    commands.replay(here)
    assert "one" == commands.show(here, str(begin))["key_points"][0]["text"]
    assert "changed" == commands.show(here, str(count(here)))["key_points"][0]["text"]


def test_names_of_ten_digits_stay_unique(here: Project) -> None:
    """After the highest number that a name can have, names continue and stay unique."""
    doc = read(here)
    doc["key_points"].append(point("kpt_999999999", "last"))
    write(here, doc)
    names = [commands.add(here, text, HUMAN).added for text in ("a", "b", "c")]
    assert 3 == len({name for added in names for name in added})
    assert ["last", "a", "b", "c"] == [kp["text"] for kp in read(here)["key_points"]][3:]
