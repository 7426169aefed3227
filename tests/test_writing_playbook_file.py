"""Files in the place of ``playbook.json``: a manual edit is recorded once, other formats are load."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import settings as examples
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
import pytest

from helpers.commands import Run
from helpers.events import HUMAN, list_events
from helpers.hook_calls import set_to
from helpers.manual_edits import curate, edit, rate, read
from helpers.reference_model import COUNTS, JSON, TEXTS, extraction, migrate, point
from helpers.sweep import slice_of
from tallybook import compat
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.errors import BadInputError, NothingToDoError, UnknownEntryError
from tallybook.projections.surfaces.history import playbook_file, reading
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, curation

SLUGS = {
    "PATTERNS & APPROACHES": "pat",
    "MISTAKES TO AVOID": "mis",
    "USER PREFERENCES": "pref",
    "PROJECT CONTEXT": "ctx",
    "OTHERS": "oth",
}


class LaterPlaybook:
    """A playbook of the later format: its sections, as its file has them.

    It differs from the description in what Tallybook decides otherwise: a name is never given again; a text that
    stands is not added by a merge either, as it is not by ADD; an id counts once among the sources; UPDATE counts, and
    makes a new entry; ADD takes effect after the other operations of its result; the names of merged entries lead to
    the new one, so that later ratings of them count for it.
    """

    def __init__(self) -> None:
        """Start without entries."""
        self.sections: dict[str, list[dict[str, Any]]] = {heading: [] for heading in SLUGS}
        self.merged: dict[str, str] = {}
        self.given: dict[str, int] = dict.fromkeys(SLUGS.values(), 0)

    def take(self, result: dict[str, Any]) -> None:
        """Take a result in: its operations or its new entries, then its ratings, then prune."""
        points = result.get("new_key_points", [])
        if "operations" in result:
            counted = result["operations"][:10]
            points = [operation for operation in counted if operation.get("type") == "ADD"]
            for operation in counted:
                self._operate(operation)
        for new in points:
            fields = {"text": new} if isinstance(new, str) else new
            self._add(fields.get("text"), self._heading(fields.get("section")))
        for evaluation in result.get("evaluations", []):
            self._rate(evaluation["name"], evaluation["rating"])
        for tag in result.get("bullet_tags", []):
            self._rate(tag["name"], tag["tag"])
        for entries in self.sections.values():
            entries[:] = [
                entry for entry in entries if not (entry["harmful"] >= 3 and entry["harmful"] > entry["helpful"])
            ]

    def _heading(self, given: Any) -> str:
        by_lower = {heading.lower(): heading for heading in SLUGS}
        return by_lower.get(given.lower(), "OTHERS") if isinstance(given, str) else "OTHERS"

    def _find(self, name: Any) -> tuple[str, dict[str, Any]] | None:
        for heading, entries in self.sections.items():
            for entry in entries:
                if entry["name"] == name:
                    return heading, entry
        return None

    def _add(self, text: Any, heading: str, helpful: int = 0, harmful: int = 0) -> None:
        texts = {entry["text"] for entries in self.sections.values() for entry in entries}
        if isinstance(text, str) and text.strip() and text not in texts:
            slug = SLUGS[heading]
            self.given[slug] += 1
            name = f"{slug}-{self.given[slug]:03d}"
            self.sections[heading].append({"name": name, "text": text, "helpful": helpful, "harmful": harmful})

    def _rate(self, name: str, rating: str) -> None:
        while name in self.merged:
            name = self.merged[name]
        found = self._find(name)
        if found is not None and rating in {"helpful", "harmful"}:
            found[1][rating] += 1

    def _remove(self, name: str) -> None:
        for entries in self.sections.values():
            entries[:] = [entry for entry in entries if entry["name"] != name]

    def _operate(self, operation: dict[str, Any]) -> None:
        target = self._find(operation.get("target_id"))
        if operation.get("type") == "DELETE" and target is not None:
            self._remove(target[1]["name"])
        elif operation.get("type") == "UPDATE" and target is not None:
            if not self._stands(operation["text"]):
                self._remove(target[1]["name"])
                self._add(operation["text"], target[0])
        elif operation.get("type") == "MERGE":
            ids = dict.fromkeys(operation["source_ids"])
            found = [entry for entry in map(self._find, ids) if entry is not None]
            sources = [entry["name"] for _, entry in found]
            if len(found) > 1 and not self._stands(operation["merged_text"], sources):
                heading = self._heading(operation["section"]) if "section" in operation else found[0][0]
                for name in sources:
                    self._remove(name)
                counts = [sum(entry[key] for _, entry in found) for key in ("helpful", "harmful")]
                self._add(operation["merged_text"], heading, *counts)
                self.merged |= dict.fromkeys(sources, self.sections[heading][-1]["name"])

    def _stands(self, text: str, but: list[str] | None = None) -> bool:
        entries = [entry for entries in self.sections.values() for entry in entries]
        return any(entry["text"] == text and entry["name"] not in (but or []) for entry in entries)


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
    return record_history(project)


def record_history(folder: Path) -> Project:
    """Record HISTORY in a project."""
    place = Project(folder)
    for brought in HISTORY:
        commands.record(place, brought, REFLECTOR)
    return place


def write(project: Project, doc: object) -> None:
    """Write playbook.json as a manual edit."""
    project.playbook.write_bytes(doc if isinstance(doc, bytes) else json.dumps(doc).encode())


def drop_stamp(doc: Doc) -> Doc:
    """Return a document without the ledger's stamp."""
    return {key: value for key, value in doc.items() if key != "ledger"}


def drop_dates(doc: Doc) -> Doc:
    """Return a document without the two keys that change with every event."""
    return {key: value for key, value in drop_stamp(doc).items() if key != "last_updated"}


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
def edit_document(draw: DrawFn, doc: Doc) -> Doc:
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
    return drop_stamp(doc) | draw(top) | stamp | {"key_points": points}


def read_by_specification(doc: Doc) -> Doc:
    """Return the specification's reading of a file; names used before HISTORY ended are not given again."""
    own = [kp["name"] for kp in doc["key_points"] if isinstance(kp, dict)]
    used = [point(name) for name in ("kpt_001", "kpt_002", "kpt_003", "kpt_004") if name not in own]
    named = migrate(doc | {"key_points": doc["key_points"] + used})
    return drop_stamp(named) | {"key_points": named["key_points"][: len(doc["key_points"])]}


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_is_loaded_by_the_specification_and_recorded_once(
    new_project: Callable[[], Path], data: st.DataObject
) -> None:
    """After any change, load returns the specification's result for that file, and the next write records it."""
    project = record_history(new_project())
    before, begin = read(project), count(project)
    doc = data.draw(edit_document(before))
    write(project, doc)
    expected = read_by_specification(doc)
    assert expected == compat.load_playbook()
    assert begin == count(project)
    commands.replay(project)
    assert drop_dates(expected) == drop_dates(read(project))
    # A version that is left out is no change by anybody, and neither is the stamp.
    changed = drop_dates(before) != drop_dates(expected)
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
    project = record_history(new_project())
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
    """A change between the load of the file and its rendering is load again, and recorded."""
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


# The later playbook format: files written and read, results with sections and operations, beside a plain model.


HEADINGS = [*SLUGS]
BY_SECTION = '[playbook]\nformat = "sections"\n'


@pytest.fixture
def by_section(project: Path) -> Project:
    """Return a project whose playbook.json is written in the later format."""
    made = Project(project)
    set_to(made, BY_SECTION)
    return made


def document(by_section: Project) -> dict[str, Any]:
    """Return playbook.json, which must equal the replay."""
    commands.check(by_section)
    doc: dict[str, Any] = json.loads(by_section.playbook.read_bytes())
    return doc


def test_a_rendering_is_read_back_as_no_edit(by_section: Project) -> None:
    """Neither the file itself, nor the same values in other bytes, nor the file without the note of it."""
    new = [{"text": "No globals", "section": "mistakes to avoid"}, "Ask first"]
    commands.record(by_section, {"new_key_points": [*new, {"text": "Use pathlib", "section": HEADINGS[0]}]}, HUMAN)
    before = len(list(list_events(by_section)))
    for note in (by_section.ledger / "rendered", by_section.ledger / "missing"):
        by_section.playbook.write_text(json.dumps(document(by_section)), encoding="utf-8")
        note.unlink(missing_ok=True)
        commands.replay(by_section)
        document(by_section)
    assert before == len(list(list_events(by_section)))


SECTION_TEXTS = st.sampled_from([f"text {letter}" for letter in "abcdefghij"])
SECTION_NAMES = st.sampled_from([f"{slug}-{number:03d}" for slug in SLUGS.values() for number in range(1, 4)])
SECTIONS = st.sampled_from([*HEADINGS, HEADINGS[0].lower(), "unheard of", 5])
POINTS = SECTION_TEXTS | st.fixed_dictionaries({"text": SECTION_TEXTS, "section": SECTIONS})
OPERATIONS = st.one_of(
    st.fixed_dictionaries({"type": st.just("ADD"), "text": SECTION_TEXTS}, optional={"section": SECTIONS}),
    st.fixed_dictionaries({"type": st.just("DELETE"), "target_id": SECTION_NAMES}),
    st.fixed_dictionaries({"type": st.just("UPDATE"), "target_id": SECTION_NAMES, "text": SECTION_TEXTS}),
    st.fixed_dictionaries(
        {
            "type": st.just("MERGE"),
            "source_ids": st.lists(SECTION_NAMES, min_size=2, max_size=6),
            "merged_text": SECTION_TEXTS,
        },
        optional={"section": SECTIONS},
    ),
    st.fixed_dictionaries({"type": st.sampled_from(["add", "REMOVE"]), "text": SECTION_TEXTS}),
)
SECTION_RATINGS = st.sampled_from(["helpful", "harmful", "harmful", "neutral", "odd"])
RESULTS = st.fixed_dictionaries(
    {"evaluations": st.lists(st.fixed_dictionaries({"name": SECTION_NAMES, "rating": SECTION_RATINGS}), max_size=5)},
    optional={"new_key_points": st.lists(POINTS, max_size=4), "operations": st.lists(OPERATIONS, max_size=12)},
)


@examples(max_examples=slice_of(400, 25))
@given(results=st.lists(RESULTS, max_size=8))
def test_results_come_to_what_the_format_says(tmp_path_factory: pytest.TempPathFactory, results: list[Any]) -> None:
    """After each result the file has the sections of the plain model, with all entries in their order."""
    folder = tmp_path_factory.mktemp("later")
    (folder / ".claude").mkdir()
    by_section, model = Project(folder), LaterPlaybook()
    set_to(by_section, BY_SECTION)
    for result in results:
        # Of a person, whose operations are no proposals.
        commands.record(by_section, result, HUMAN)
        model.take(result)
        assert model.sections == json.loads(by_section.playbook.read_bytes())["sections"]
    if results:
        document(by_section)


def test_a_saved_dict_keeps_the_sections(project: Path) -> None:
    """A dict of a file in the later format has its sections by name, before and after it is saved."""
    by_section = Project(project)
    sections = {
        "OTHERS": [point("kpt_001", "Ask first.")],
        "USER PREFERENCES": [],
        "MISTAKES TO AVOID": [point("a", "b")],
    }
    by_section.playbook.write_text(json.dumps({"version": "1.0", "sections": sections}), encoding="utf-8")
    playbook = compat.load_playbook()
    compat.update_playbook_data(playbook, extraction(("a", "helpful")))
    compat.save_playbook(playbook)
    names = {"OTHERS": ["kpt_001"], "USER PREFERENCES": [], "MISTAKES TO AVOID": ["a"]}
    assert [names] * 2 == [document(by_section)["section_names"], compat.load_playbook()["section_names"]]


def test_sections_too_large_for_an_event_lose_no_entry(project: Path, run: Run) -> None:
    """Thousands of entries are imported; their grouping is left out, and the answer says so."""
    entries = [point(f"pat-{number:03d}", f"text {number}") for number in range(4_000)]
    file = project / "later.json"
    file.write_text(json.dumps({"version": "1.0", "sections": {"OTHERS": entries}}), encoding="utf-8")
    answer = run("import", str(file))
    assert (0, True) == (answer.code, "sections: too many to keep as sections" in answer.err + answer.out)
    assert entries == document(Project(project))["key_points"]
