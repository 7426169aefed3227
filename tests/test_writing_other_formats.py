"""Playbooks of other programs: read with their ids as names, or refused with the reason; never taken for texts."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.hook_calls import HOOK, START, call
from tallybook.ledger.decisions.legacy_import import LegacyFile, read_legacy
from tallybook.ledger.errors import BadInputError
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.command_line import Run


def skill(name: str, section: str, content: str, helpful: int = 0, harmful: int = 0, **more: Any) -> dict[str, Any]:
    """Return an object as these programs write it."""
    times = {"created_at": "2026-01-05T10:00:00+00:00", "updated_at": "2026-01-06T10:00:00+00:00"}
    counts = {"helpful": helpful, "harmful": harmful, "neutral": 1}
    return {"id": name, "section": section, "content": content, **counts, **times, **more}


SKILLBOOK = {
    "skills": {
        "general-00001": skill("general-00001", "general", "Read the log first", 5, 1, status="active", embedding=None),
        "general-00002": skill("general-00002", "general", "Was removed", status="invalid"),
        "dates-00003": skill("dates-00003", "dates", "Compare dates in UTC", 0, 2, status="active"),
    },
    "sections": {"general": ["general-00001", "general-00002"], "dates": ["dates-00003"]},
    "next_id": 3,
    "similarity_decisions": {},
}
BULLETS = {
    "bullets": {
        "g-1": skill("g-1", "strategies", "Read the log first", 5, 1),
        "g-2": skill("g-2", "strategies", "Compare dates in UTC", 0, 2),
    },
    "sections": {"strategies": ["g-1", "g-2"]},
    "next_id": 2,
}
LINES = """Weigh the counts of each line.

## STRATEGIES & INSIGHTS
[shr-00001] helpful=5 harmful=1 :: Read the log first

## OTHERS
[oth-00002] helpful=0 harmful=02 :: Compare :: dates in UTC
"""


def rows(legacy: LegacyFile) -> list[tuple[str, str, int, int]]:
    """Return the entries of a file."""
    entries = [item.entry for item in legacy.items]
    return [(entry.name, entry.text, entry.helpful, entry.harmful) for entry in entries]


def test_a_skillbook_keeps_ids_counts_and_sections() -> None:
    """The skills of kayba's file are entries under their ids; a removed one is skipped with the reason."""
    legacy = read_legacy(json.dumps(SKILLBOOK).encode())
    expected = [("general-00001", "Read the log first", 5, 1), ("dates-00003", "Compare dates in UTC", 0, 2)]
    assert expected == rows(legacy)
    assert {"general": ["general-00001"], "dates": ["dates-00003"]} == legacy.sections
    assert {"section_names"} == legacy.top_keys.keys()
    [problem] = legacy.problems
    assert "playbook.json: skills['general-00002']: is removed there; kept only in the ledger" == str(problem)
    assert SKILLBOOK["skills"]["general-00001"] == json.loads(legacy.items[0].original)  # type: ignore[index]


@pytest.mark.parametrize("as_list", [False, True])
def test_bullets_keep_ids_counts_and_sections(*, as_list: bool) -> None:
    """The bullets of an ACE file, a table by ids or a list, are entries under their ids, without any problem."""
    bullets: Any = BULLETS["bullets"]
    document = BULLETS | ({"bullets": list(bullets.values()), "sections": {}} if as_list else {})
    legacy = read_legacy(json.dumps(document).encode())
    assert [("g-1", "Read the log first", 5, 1), ("g-2", "Compare dates in UTC", 0, 2)] == rows(legacy)
    assert {"section_names": {"strategies": ["g-1", "g-2"]}} == legacy.top_keys
    assert () == legacy.problems


def test_lines_under_headings_are_read() -> None:
    """Lines as Tallybook prints them keep names, counts and sections; any other line is refused with the reason."""
    legacy = read_legacy(LINES.encode(), "ace.txt")
    assert [("shr-00001", "Read the log first", 5, 1), ("oth-00002", "Compare :: dates in UTC", 0, 2)] == rows(legacy)
    assert {"STRATEGIES & INSIGHTS": ["shr-00001"], "OTHERS": ["oth-00002"]} == legacy.top_keys["section_names"]
    assert ["ace.txt: line 1: is not a line of an entry; kept only in the ledger"] == [*map(str, legacy.problems)]


def test_the_lines_that_tallybook_prints_are_read_back(run: Run, project: Path) -> None:
    """What `show --as-agent` prints for a session is imported with the same names, texts and counts."""
    run("add", "Read the log first")
    run("rate", "kpt_001", "helpful")
    printed = run("show", "--as-agent").out
    assert ("kpt_001", "Read the log first", 1, 0) in rows(read_legacy(printed.encode()))
    assert 1 == len(commands.playbook(Project(project)).state.entries)


@pytest.mark.parametrize("document", [SKILLBOOK, BULLETS], ids=["skills", "bullets"])
def test_an_import_counts_no_heading_as_skipped(run: Run, project: Path, document: Any) -> None:
    """The answer counts the entries and what was left out; the next session is given texts, never ids."""
    path = project / "other.json"
    path.write_text(json.dumps(document))
    done = json.loads(run("import", str(path), "--json").out)
    assert (2, len(done["problems"])) == (done["imported"], done["skipped"])
    given_lines = [line for line in call(START).split("\\n") if "helpful=" in line]
    assert 2 == len(given_lines)
    assert all("Read the log first" in line or "Compare dates" in line for line in given_lines)


def test_the_headings_of_the_later_format_are_not_skipped(run: Run, project: Path) -> None:
    """A file with sections, of which some are empty, skips nothing."""
    path = project / "later.json"
    path.write_text(json.dumps({"sections": {"OTHERS": [{"name": "oth-001", "text": "a"}], "PROJECT CONTEXT": []}}))
    assert "1 entry imported from" in (out := run("import", str(path)).out)
    assert "skipped" not in out


def test_a_hook_reads_another_programs_file(write_playbook: Callable[[object], Path]) -> None:
    """A skillbook in the place of playbook.json is given to the session as entries."""
    write_playbook(SKILLBOOK)
    assert "[general-00001] helpful=5 harmful=1 :: Read the log first" in call(START)


@pytest.mark.parametrize("data", [b"{", b"[1]", b'{"a": 1}', b"\\xff", b"words", b'{"skills": 5}'])
def test_a_file_that_no_hook_can_use_is_told_on_standard_error(project: Path, data: bytes) -> None:
    """The hook ends with 0 and one line on standard error that names the file and the reason; the file is kept."""
    path = project / ".claude" / "playbook.json"
    path.write_bytes(data)
    payload = json.dumps({"session_id": "s1", **START}).encode()
    done = subprocess.run(HOOK, input=payload, capture_output=True, timeout=60, check=False)
    line = done.stderr.decode()
    assert (0, 1) == (done.returncode, line.count("\n"))
    assert line.startswith("tallybook: playbook.json: cannot be used, and is set aside: is not")
    [aside] = path.parent.glob("playbook.json.unreadable-*")
    assert data == aside.read_bytes()


def test_tags_by_id_are_ratings(run: Run, project: Path) -> None:
    """A reflector's `bullet_tags` name entries by `id` or `name`; one that names none is refused as such."""
    path = project / "ace.json"
    path.write_text(json.dumps(BULLETS))
    run("import", str(path))
    tags = [{"id": "g-1", "tag": "helpful"}, {"name": "g-2", "tag": "helpful"}, {"tag": "helpful"}, {"id": "g-9"}]
    done = run("record", "-", "--json", stdin=json.dumps({"bullet_tags": tags}).encode())
    answer = json.loads(done.out)
    assert [("g-1", 6, 1), ("g-2", 1, 2)] == [(one["name"], one["helpful"], one["harmful"]) for one in answer["rated"]]
    assert ["names no entry", "no such entry in the playbook"] == [one["reason"] for one in answer["ignored"]]


def test_a_file_in_no_known_format_is_refused_with_the_reason(run: Run, project: Path) -> None:
    """The refusal names the keys that are understood, and records nothing."""
    path = project / "notes.json"
    path.write_text('{"memories": ["a"]}')
    done = run("import", str(path))
    assert (2, True) == (done.code, "object with key_points, sections, skills or bullets" in done.err)
    assert not (project / ".claude" / "ledger").exists()


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
