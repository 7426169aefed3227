"""Decisions about payloads, edits and operations, from the current facts, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import json
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from helpers.commands import Run
from helpers.reference_model import COUNTS, EXTRACTIONS, TEXTS
from tallybook.ledger.decisions.curation import APPLY, PROPOSE, Translation, translate
from tallybook.ledger.decisions.update import Decision, Edit, IgnoredItem, decide_edit, decide_extraction
from tallybook.ledger.errors import NOT_UNICODE
from tallybook.ledger.events import Entry, PlaybookUpdated, PointAdded, PointProposed, PointRated, PointRetired
from tallybook.ledger.names import parse_number
from tallybook.ledger.records import EventRecord, make_batch
from tallybook.projections.playbook.fold import fold
from tallybook.projections.playbook.view import PLAYBOOK, Playbook


def index_by_name(*points: Entry) -> dict[str, Entry]:
    """Return entries under their names."""
    return {point.name: point for point in points}


def make_playbook(*points: Entry, high_water: int | None = None, used: Iterable[str] = ()) -> Playbook:
    """Return a playbook of these entries, with further used names, and the resulting high-water mark."""
    stood = {*index_by_name(*points), *used}
    mark = max((parse_number(name) or 0 for name in stood), default=0)
    return Playbook(entries=index_by_name(*points), high_water=mark if high_water is None else high_water, used=stood)


ONE = Entry("kpt_001", "one", 2, 1)
TWO = Entry("kpt_002", "two")
THREE = Entry("kpt_003", "three", 0, 1)


@given(brought=EXTRACTIONS, standing=st.lists(TEXTS, unique=True, max_size=4))
def test_no_decision_uses_a_name_or_a_text_twice(brought: dict[str, Any], standing: list[str]) -> None:
    """Every entry that any input adds has an unused name above the high-water mark and a new text."""
    points = [Entry(f"kpt_{index:03d}", text) for index, text in enumerate(standing, 1)]
    decision = decide_extraction({"evaluations": []} | brought, make_playbook(*points))
    added = [event for event in decision.events if isinstance(event, PointAdded)]
    assert [len(points) + index for index in range(1, len(added) + 1)] == [parse_number(event.name) for event in added]
    assert len({*standing, *(event.text for event in added)}) == len(standing) + len(added)


@pytest.mark.parametrize(
    ("evaluation", "reason"),
    [
        ("kpt_001", "expected an object with name and rating, got str"),
        ({"rating": "helpful"}, "expected a text as name"),
        ({"name": "", "rating": "helpful"}, "expected a text as name"),
        ({"name": "kpt_001"}, "expected a text as rating"),
        ({"name": "kpt_001", "rating": 1}, "expected a text as rating"),
        ({"name": "n" * 1201, "rating": "helpful"}, "the name has 1,201 characters, at most 200 are taken"),
        ({"name": "kpt_001", "rating": "r" * 1101}, "the rating has 1,101 characters, at most 100 are taken"),
        ({"name": "kpt\ud800", "rating": "helpful"}, f"the name {NOT_UNICODE}"),
        ({"name": "kpt_001", "rating": "\ud800"}, f"the rating {NOT_UNICODE}"),
    ],
)
def test_an_unusable_evaluation_is_reported_with_the_reason(evaluation: object, reason: str) -> None:
    """An unusable evaluation is reported with its place and the reason; the others are read."""
    good = {"name": "kpt_001", "rating": "helpful"}
    decision = decide_extraction({"evaluations": [good, evaluation, good]}, make_playbook(ONE))
    rated = (PointRated("kpt_001", "helpful"), PointRated("kpt_001", "helpful"), PlaybookUpdated(0, 2, 1))
    assert Decision(rated, (IgnoredItem("evaluations[1]", reason),)) == decision


def decide_edit_of(base: Iterable[Entry], found: Iterable[Entry], *, top: str = "") -> Decision:
    """Decide an edit of a playbook without other changes since."""
    base = tuple(base)
    return decide_edit(Edit(base, tuple(found), top), make_playbook(*base))


def fold_decision(points: Mapping[str, Entry], decision: Decision) -> Playbook:
    """Return the playbook with these entries after a decision."""
    records = [EventRecord(seq, "2026-01-01T00:00:00.000000Z", event) for seq, event in enumerate(decision.events, 1)]
    return fold(PLAYBOOK, [make_batch(*records)], Playbook(entries=dict(points)))


POINTS = st.lists(st.integers(1, 6), unique=True, max_size=6).flatmap(
    lambda numbers: st.tuples(
        *(st.builds(Entry, st.just(f"kpt_{number:03d}"), TEXTS, COUNTS, COUNTS) for number in numbers)
    )
)


@given(base=POINTS, found=POINTS)
def test_an_edit_of_the_current_playbook_gives_the_edited_file(
    base: tuple[Entry, ...], found: tuple[Entry, ...]
) -> None:
    """Without changes in between, the playbook after an edit equals the edited file in every field."""
    assert list(found) == list(fold_decision(index_by_name(*base), decide_edit_of(base, found)).entries.values())


@example(base=(), found=(TWO, THREE), now=(ONE, Entry("kpt_002", "theirs")))
@given(base=POINTS, found=POINTS, now=POINTS)
def test_an_edit_loses_no_text_of_either_side(
    base: tuple[Entry, ...], found: tuple[Entry, ...], now: tuple[Entry, ...]
) -> None:
    """Entries that the manual edit added and entries that others added since are all in the playbook."""
    points = index_by_name(*now)
    decision = decide_edit(Edit(base, found), make_playbook(*now, used=index_by_name(*base)))
    before = {point.name for point in base}
    state = fold_decision(points, decision)
    mine = [point.text for point in found if point.name not in before]
    theirs = [point.text for point in now if point.name not in before]
    standing = [point.text for point in state.entries.values()]
    assert [] == [text for text in [*mine, *theirs] if text not in standing]
    given_names = [decision.new_names.get(point.name, point.name) for point in found]
    assert len(given_names) == len(set(given_names))


@given(base=POINTS, found=POINTS, helpful=COUNTS, harmful=COUNTS)
def test_ratings_since_are_added_to_a_changed_count(
    base: tuple[Entry, ...], found: tuple[Entry, ...], helpful: int, harmful: int
) -> None:
    """An edited count gets the ratings recorded since on top; an untouched count is the current one."""
    old = index_by_name(*base)
    now = {
        name: Entry(name, entry.text, entry.helpful + helpful, entry.harmful + harmful) for name, entry in old.items()
    }
    decision = decide_edit(Edit(base, found), make_playbook(*now.values()))
    state = fold_decision(now, decision)
    for point in found:
        since = (helpful, harmful) if point.name in old else (0, 0)
        expected = (point.helpful + since[0], point.harmful + since[1])
        assert expected == (state.entries[point.name].helpful, state.entries[point.name].harmful)


ENTRIES = {
    "kpt_001": Entry("kpt_001", "Always test", 4, 1),
    "kpt_002": Entry("kpt_002", "Test always", 0, 2),
    "kpt_003": Entry("kpt_003", "Test", 0, 2),
    "kpt_004": Entry("kpt_004", "Commit often", 1, 0),
    "kpt_005": Entry("kpt_005", "Pinned", 0, 0),
}
KNOWN = Playbook(entries=ENTRIES, high_water=5, used=set(ENTRIES), pinned={"kpt_005"})
FEW = "fewer than two of its entries are in the playbook, or were shown"


def curate(may: str, *operations: dict[str, Any], **more: Any) -> Translation:
    """Translate a result with these operations."""
    return translate({"operations": list(operations), **more}, Translation(KNOWN, may))


def delete(name: str) -> dict[str, Any]:
    """Return a DELETE."""
    return {"type": "DELETE", "target_id": name, "reason": "it is obvious"}


def merge(*names: str, text: str = "Test before each commit") -> dict[str, Any]:
    """Return a MERGE."""
    return {"type": "MERGE", "source_ids": list(names), "merged_text": text}


@pytest.mark.parametrize("may", [PROPOSE, APPLY])
@pytest.mark.parametrize("operation", [delete("kpt_001"), delete("kpt_005"), merge("kpt_001", "kpt_004")])
def test_a_protected_entry_is_only_ever_proposed_to_change(may: str, operation: dict[str, Any]) -> None:
    """Pinned entries and mostly helpful ones are a person's, kept or absorbed."""
    [event] = curate(may, operation).changes
    assert isinstance(event, PointProposed)
    assert "protected" == event.cause


def test_a_merge_that_would_be_pruned_is_proposed() -> None:
    """Two entries at 0/2 sum up to 0/4, which the next update prunes."""
    [event] = curate(APPLY, merge("kpt_002", "kpt_003")).changes
    assert isinstance(event, PointProposed)
    assert "the next update would prune the result" == event.cause


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (delete("kpt_999"), "no such entry in the playbook"),
        ({"type": "delete", "target_id": "kpt_004"}, "expected a type of ADD, UPDATE, MERGE, DELETE"),
        ({"type": ["ADD"]}, "expected a type of ADD, UPDATE, MERGE, DELETE"),
        ("ADD", "expected a type of ADD, UPDATE, MERGE, DELETE"),
        ({"type": "ADD", "text": " "}, "the text is empty"),
        ({"type": "ADD"}, "text is missing"),
        (merge("kpt_003"), FEW),
        (merge("kpt_003", "kpt_003"), FEW),
        ({"type": "MERGE", "source_ids": "kpt_003"}, FEW),
        (merge("kpt_003", "kpt_004", text="Test always"), "already in the playbook as kpt_002"),
        ({"type": "UPDATE", "target_id": "kpt_004", "text": "Test"}, "already in the playbook as kpt_003"),
    ],
)
def test_an_unusable_operation_is_ignored_with_its_reason(operation: Any, why: str) -> None:
    """The others count all the same."""
    done = curate(APPLY, operation, delete("kpt_004"))
    assert [("operations[0]", why)] == [(part.item, part.reason) for part in done.ignored]
    assert [PointRetired("kpt_004", "it is obvious")] == done.changes


RESULT = {
    "operations": [{"type": "DELETE", "target_id": "kpt_001"}],
    "bullet_tags": [{"name": "kpt_001", "tag": "helpful"}],
}


def record_operations(run: Run, *options: str) -> tuple[list[str], list[str]]:
    """Record a result with operations, and return the names of the playbook and the verbs of open proposals."""
    run("add", "Always test")
    run("record", "-", *options, stdin=json.dumps(RESULT).encode())
    names = [point["name"] for point in json.loads(run("show", "--json").out)["key_points"]]
    return names, [load["verb"] for load in json.loads(run("proposals", "--json").out)]


@pytest.mark.parametrize(("own", "expected"), [(True, ([], [])), (False, (["kpt_001"], ["delete"]))])
def test_apply_counts_only_from_the_users_own_settings(
    run: Run, project: Path, *, own: bool, expected: tuple[list[str], list[str]]
) -> None:
    """A project's file cannot let a model change entries."""
    from pathlib import Path as HomePath  # noqa: PLC0415 - the other name is for types

    folder = (HomePath.home() if own else project) / ".claude" / "config"
    folder.mkdir(parents=True)
    (folder / "tallybook.toml").write_text('[curation]\nmay = "apply"\n', encoding="utf-8")
    assert expected == record_operations(run)
