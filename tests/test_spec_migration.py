"""The scoring specification on disk: legacy files, round trips, corrupt files, and sessions side by side."""

from __future__ import annotations

from collections.abc import Callable
import copy
from datetime import datetime
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.reference_model import LEGACY_FILES, LEGACY_ITEMS, book, extraction, migrate, point
from helpers.sweep import slice_of
from tallybook import compat

Write = Callable[[object], Path]
Read = Callable[[], dict[str, Any]]

pytestmark = pytest.mark.usefixtures("project")

EMPTY: dict[str, Any] = {"version": "1.0", "last_updated": None, "key_points": []}


def load_entries() -> list[dict[str, Any]]:
    """Return the entries that a new session loads."""
    entries: list[dict[str, Any]] = compat.load_playbook()["key_points"]
    return entries


# Entries on disk (REQ-SCORE-001)


def test_saved_entry_has_exactly_four_keys(read_playbook: Read) -> None:
    """An entry is written with name, text, helpful and harmful, and never a score (REQ-SCORE-001, INV-SCORE-004)."""
    playbook = compat.load_playbook()
    playbook["key_points"].append({**point(helpful=2, harmful=1), "score": 5, "tags": ["x"]})
    compat.save_playbook(playbook)
    assert [point(helpful=2, harmful=1)] == read_playbook()["key_points"]


def test_top_level_keys_are_preserved(write_playbook: Write, read_playbook: Read) -> None:
    """Top-level keys pass through an update and a save unchanged (REQ-SCORE-001)."""
    top: dict[str, Any] = {"version": "0.9", "owner": "me", "nested": {"b": [1, 2.5, None], "a": "é"}}
    write_playbook(book(point(), **top))
    compat.save_playbook(compat.update_playbook_data(compat.load_playbook(), extraction(("kpt_001", "helpful"))))
    written = read_playbook()
    assert top == {key: written[key] for key in top}
    assert {*top, "last_updated", "key_points", "ledger"} == set(written)


def test_ledger_stamp_is_on_disk_alone(read_playbook: Read) -> None:
    """The file has the number of its event; the loaded playbook has the contract's keys alone (REQ-SCORE-001)."""
    compat.save_playbook(compat.update_playbook_data(compat.load_playbook(), extraction(new=["use types"])))
    assert isinstance(read_playbook()["ledger"], str)
    assert ["version", "last_updated", "key_points"] == list(compat.load_playbook())


def test_save_dates_the_playbook(write_playbook: Write, read_playbook: Read) -> None:
    """A save replaces last_updated by an ISO 8601 time, which the next load returns (REQ-SCORE-001)."""
    before = "2026-01-15T10:00:00"
    write_playbook(book(point(), last_updated=before))
    compat.save_playbook(compat.load_playbook())
    written = read_playbook()["last_updated"]
    assert datetime.fromisoformat(written) != datetime.fromisoformat(before)
    assert written == compat.load_playbook()["last_updated"]


def test_save_makes_the_folder(project: Path, read_playbook: Read) -> None:
    """A plain dict is saved even in a project that has no .claude folder yet (REQ-SCORE-001)."""
    (project / ".claude").rmdir()
    compat.save_playbook(book(point(helpful=1)))
    assert [point(helpful=1)] == read_playbook()["key_points"]
    assert [point(helpful=1)] == compat.load_playbook()["key_points"]


# Migration (REQ-SCORE-004, -005, -006)

NAMED = {"name": "kpt_001", "text": "use types"}
MIGRATION = {
    "SCN-SCORE-004-01": ("always use type hints", point(text="always use type hints")),
    "SCN-SCORE-005-01": (NAMED, point()),
    "SCN-SCORE-006-01": ({**NAMED, "score": -3}, point(harmful=3)),
    "SCN-SCORE-006-02": ({**NAMED, "helpful": 3, "harmful": 1, "score": 2}, point(helpful=3, harmful=1)),
    "no name, no score": ({"text": "use types"}, point()),
    "no name, score": ({"text": "use types", "score": 2}, point(helpful=2)),
    "no name, counters": ({"text": "use types", "helpful": 2, "harmful": 1}, point(helpful=2, harmful=1)),
    "name of another form": ({"name": "pat-001", "text": "use types"}, point("pat-001")),
    "score 5": ({**NAMED, "score": 5}, point(helpful=5)),
    "score 0": ({**NAMED, "score": 0}, point()),
    "score -7": ({**NAMED, "score": -7}, point(harmful=7)),
    "canonical": (point(helpful=8, harmful=2), point(helpful=8, harmful=2)),
    "helpful alone": ({**NAMED, "helpful": 4}, point()),
    "harmful alone": ({**NAMED, "harmful": 4}, point()),
    "one counter and a score": ({**NAMED, "helpful": 4, "score": -2}, point(harmful=2)),
    "extra keys": ({**NAMED, "score": 1, "tags": ["x"], "id": 7}, point(helpful=1)),
    "padded text": ("  as it was\t", point(text="  as it was\t")),
}


@pytest.mark.parametrize(("item", "expected"), MIGRATION.values(), ids=MIGRATION)
def test_migration_table(item: object, expected: dict[str, Any], write_playbook: Write) -> None:
    """Each legacy shape is loaded as its canonical entry (REQ-SCORE-004, REQ-SCORE-005, REQ-SCORE-006).

    Rows: SCN-SCORE-004-01, SCN-SCORE-005-01, SCN-SCORE-006-01, SCN-SCORE-006-02, all without a score (INV-SCORE-004).
    """
    write_playbook(book(item))
    assert book(expected) == migrate(book(copy.deepcopy(item)))
    assert book(expected) == compat.load_playbook()


def test_sections_are_read(write_playbook: Write) -> None:
    """The later shape, entries under headings, is loaded in its order with its names (REQ-SCORE-005)."""
    first, second = point("pat-001", "use pathlib", 4, 1), point("mis-001", "no globals", 0, 2)
    sections = {"PATTERNS & APPROACHES": [first], "OTHERS": [], "MISTAKES TO AVOID": [second]}
    write_playbook({"version": "1.0", "last_updated": None, "sections": sections})
    assert [first, second] == load_entries()


@pytest.mark.parametrize(
    "text",
    ['"quoted" \\ \'', "naïve Ω 漢字 עברית", "👩‍👩‍👧 🎉", "é" * 20_000, "🎉" * 20_000, "a\nb\r\n\u2028c\x00\x7f"],
    ids=["quotes", "unicode", "emoji", "20,000", "20,000 emoji", "control"],
)
def test_text_is_unchanged(text: str, write_playbook: Write, read_playbook: Read) -> None:
    """A text passes unchanged, from a legacy file as from an update (REQ-SCORE-004, REQ-SCORE-001)."""
    write_playbook(book(text))
    playbook = compat.update_playbook_data(compat.load_playbook(), extraction(new=[f"new {text}"]))
    compat.save_playbook(playbook)
    expected = [point(text=text), point("kpt_002", f"new {text}")]
    assert expected == playbook["key_points"]
    assert expected == read_playbook()["key_points"]
    assert expected == load_entries()


@pytest.mark.usefixtures("diagnostic_mode")
def test_migration_is_reported_in_diagnostic_mode(
    diagnostics: Callable[[str], list[str]], write_playbook: Write
) -> None:
    """The load that migrates writes one file with count, names, formats and scores (OBS-SCORE-001)."""
    write_playbook(book("a", {"text": "b"}, {"name": "kpt_007", "text": "c", "score": -3}, point("kpt_009", "d", 1)))
    compat.save_playbook(compat.load_playbook())
    compat.save_playbook(compat.load_playbook())
    [report] = diagnostics("playbook_migration")
    head, details = report[report.index("Migrated") :].split("\n", 1)
    assert "Migrated 3 playbook entries:" == head
    expected = [
        {"name": "kpt_001", "from": "bare_string", "original_score": None},
        {"name": "kpt_002", "from": "dict_no_score", "original_score": None},
        {"name": "kpt_007", "from": "dict_with_score", "original_score": -3},
    ]
    assert expected == json.loads(details)


@pytest.mark.usefixtures("diagnostic_mode")
def test_canonical_file_is_no_migration(diagnostics: Callable[[str], list[str]], write_playbook: Write) -> None:
    """An entry that only loses a residual score was migrated before, and is not reported (OBS-SCORE-001)."""
    write_playbook(book(point(), {**point("kpt_002", "b", 3, 1), "score": 2}))
    compat.save_playbook(compat.load_playbook())
    assert [] == diagnostics("playbook_migration")


# Round trips (INV-SCORE-005)


def assert_stable(read_playbook: Read) -> list[dict[str, Any]]:
    """Load, save and load again; return the entries, after checking that they are canonical and the same."""
    first = copy.deepcopy(playbook := compat.load_playbook())
    compat.save_playbook(playbook)
    second = compat.load_playbook()
    entries: list[dict[str, Any]] = first["key_points"]
    assert entries == second["key_points"] == read_playbook()["key_points"]
    assert first.get("version") == second.get("version")
    for kp in entries:
        assert {"name": str, "text": str, "helpful": int, "harmful": int} == {key: type(kp[key]) for key in kp}
        assert kp["name"]
        assert min(kp["helpful"], kp["harmful"]) >= 0
    assert len(entries) == len({kp["name"] for kp in entries})
    return entries


def odd(key: str, values: list[Any], **rest: Any) -> tuple[object, list[str]]:
    """Return a file with an entry for each odd value of a key, and the texts of these entries."""
    texts = [f"odd {number}" for number in range(len(values))]
    return book(*({"text": text, key: value, **rest} for text, value in zip(texts, values, strict=True))), texts


NO_TEXTS: list[Any] = [7, None, ["x"], {}, "", " "]
FILES: dict[str, tuple[object, list[str]]] = {
    "empty list": (book(), []),
    "all shapes": (book("a", {"text": "b"}, {"text": "c", "score": -3}, point(text="d")), ["a", "b", "c", "d"]),
    "harmful 7": (book(point(text="a", harmful=7), {**NAMED, "name": "x", "score": -7}), ["a", "use types"]),
    "duplicate names": (book(point(text="a"), point(text="b"), {**NAMED, "text": "c"}), ["a", "b", "c"]),
    "name that was generated": (book("a", point(text="b"), "c"), ["a", "b", "c"]),
    "duplicate entries": (book(point(text="a"), point(text="a"), "a"), ["a", "a", "a"]),
    "one counter": (book({**NAMED, "text": "a", "helpful": 2}, {"text": "b", "harmful": 2}), ["a", "b"]),
    "odd helpful": odd("helpful", ["3", None, 2.5, True, [], -4, 10**30], harmful=1),
    "odd harmful": odd("harmful", ["3", None, 2.5, False, {}, -4, 10**30], helpful=1),
    "odd score": odd("score", ["3", None, -2.5, True, {}, -(10**30)]),
    "odd name": odd("name", [7, None, "", " ", ["x"], {"a": 1}, "kpt\n1", "kpt_", "kpt_" + "9" * 30], score=1),
    "odd text": (book("a", *({"name": "kpt_005", "text": text} for text in NO_TEXTS), "b"), ["a", "b"]),
    "missing keys": (book({}, {"name": "kpt_001"}, {"helpful": 1, "harmful": 2}, {"score": 3}, "a"), ["a"]),
    "nested junk": (book(None, 1.5, [True], [["a"], {"b": [{}]}], {"a": {"text": "x"}}, "", "a"), ["a"]),
    "extra keys": (book({**point(text="a"), "meta": {"x": [[[{}]]]}}, author="me", ledger_of="x"), ["a"]),
    "half an emoji": (book("a", "cut \ud83d here", "b"), ["a", "b"]),
    "other version": (book("a", version="2.1-beta"), ["a"]),
    "no version": ({"key_points": ["a"]}, ["a"]),
    "no key points": ({"version": "1.0"}, []),
    "key points of another type": (book() | {"key_points": "a"}, []),
    "key points null": (book() | {"key_points": None}, []),
    "sections": ({"version": "1.0", "sections": {"A": [point("pat-001", "a", 1), "b"], "B": []}}, ["a", "b"]),
    "400 entries": (
        book(*({"name": f"kpt_{n:03}", "text": f"t{n}", "score": n % 7 - 3} for n in range(1, 401))),
        [f"t{n}" for n in range(1, 401)],
    ),
}


@pytest.mark.parametrize(("doc", "texts"), FILES.values(), ids=FILES)
def test_round_trip(doc: object, texts: list[str], write_playbook: Write, read_playbook: Read) -> None:
    """Load, save, load gives the same canonical entries, and no text is lost on the way (INV-SCORE-005)."""
    write_playbook(doc)
    readable = set(texts)
    assert texts == [kp["text"] for kp in assert_stable(read_playbook) if kp["text"] in readable]


VALUES = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.sampled_from(["", "a", "kpt_002"])
KEYS = st.sampled_from(["name", "text", "helpful", "harmful", "score", "tags"])
JUNK = st.recursive(VALUES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=5))


@settings(max_examples=slice_of(40, 20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LEGACY_ITEMS | JUNK, max_size=6).map(lambda items: book(*items)))
def test_round_trip_of_anything(
    new_project: Callable[[], Path], write_playbook: Write, read_playbook: Read, doc: dict[str, Any]
) -> None:
    """Any JSON under key_points is read, and read the same after a save (INV-SCORE-005)."""
    new_project()
    write_playbook(doc)
    assert_stable(read_playbook)


@settings(max_examples=slice_of(40, 20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LEGACY_FILES)
def test_legacy_file_is_loaded_like_the_model(
    new_project: Callable[[], Path], write_playbook: Write, read_playbook: Read, doc: dict[str, Any]
) -> None:
    """Any well-formed legacy file is loaded as specified (REQ-SCORE-004, REQ-SCORE-005, REQ-SCORE-006)."""
    expected = migrate(doc)
    new_project()
    write_playbook(doc)
    assert expected == compat.load_playbook()
    assert expected["key_points"] == assert_stable(read_playbook)


# Missing and corrupt files (contract, "Empty playbook")

CORRUPT = {
    "not JSON": b"# my notes\n",
    "truncated": b'{"version": "1.0", "key_points": [{"name": "kpt_001", "te',
    "binary": bytes(range(256)),
    "empty": b"",
    "holes": b"\0" * 4096,
    "a string": b'"playbook"',
}


def set_aside_files(project: Path) -> list[bytes]:
    """Return the files next to playbook.json whose names begin like it."""
    return [path.read_bytes() for path in sorted((project / ".claude").glob("playbook.json.*"))]


def test_missing_file_is_the_empty_playbook(project: Path) -> None:
    """Without a file, the playbook is empty, and loading it writes none (contract, Playbook)."""
    assert EMPTY == compat.load_playbook()
    assert not (project / ".claude" / "playbook.json").exists()


@pytest.mark.parametrize("damaged", CORRUPT.values(), ids=CORRUPT)
def test_corrupt_file_is_set_aside(damaged: bytes, project: Path, write_playbook: Write) -> None:
    """A corrupt file is the empty playbook, and its bytes outlast the next save (contract, Playbook)."""
    write_playbook(damaged)
    playbook = compat.load_playbook()
    assert EMPTY == playbook
    compat.save_playbook(compat.update_playbook_data(playbook, extraction(new=["a"])))
    assert [point(text="a")] == load_entries()
    assert damaged in set_aside_files(project)


# Sessions side by side (REQ-SCORE-002)


def test_change_of_the_dict_is_saved(write_playbook: Write) -> None:
    """A program's own changes of the dict are saved with its updates (REQ-SCORE-001)."""
    write_playbook(book(point(), point("kpt_002", "goes")))
    playbook = compat.load_playbook()
    compat.update_playbook_data(playbook, extraction(("kpt_001", "helpful")))
    playbook["key_points"][0]["text"] = "use types, always"
    del playbook["key_points"][1]
    compat.save_playbook(playbook)
    assert [point(text="use types, always", helpful=1)] == load_entries()
