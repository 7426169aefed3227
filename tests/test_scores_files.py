"""The score files: to the byte of the specification, rebuilt, written if they change, and foreign files left alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
import re
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.score_examples import (
    AT,
    EXAMPLE,
    config,
    events,
    example,
    folded,
    noon,
    plain,
    record_events,
    record_example,
)
from helpers.score_files import SESSION_FILE
from tallybook.ledger.errors import BadInputError, LockHeldError
from tallybook.ledger.storage import disk
from tallybook.projections.scores import files as score_files
from tallybook.projections.surfaces.scores import configuration, files
from tallybook.projections.surfaces.scores.configuration import state_of
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import curation

if TYPE_CHECKING:
    from helpers.command_line import Run
    from tallybook.projections.surfaces.scores.files import Written


def test_the_documents_session_is_a_file_to_the_byte() -> None:
    """Scores of 92, 88, 85, 95, 78, 82, 75, 90 and 94 are stored as in "Per-Session Scores"."""
    found = dict(score_files.files(example(config())))
    assert SESSION_FILE.encode() == score_files.document_bytes(found[f"sessions/{EXAMPLE}.json"])


def test_a_day_is_stored_as_the_document_has_it() -> None:
    """Three sessions of 80, 90 and 95: average 88.33, and 7 days before of 86 → improving; keys in the order there."""
    sessions = [(f"b{day}", noon(f"2026-01-{day:02}"), plain(86), "") for day in range(9, 16)]
    day = [(f"s{value}", noon("2026-01-16"), plain(value), "") for value in (80, 90, 95)]
    found = dict(score_files.files(folded(config(), *sessions, *day)))["daily/2026-01-16.json"]
    assert {
        "date": "2026-01-16",
        "sessions_count": 3,
        "component_averages": {"ac09": {"avg": 88, "min": 80, "max": 95}},
        "session_averages": {"handoff": 88, "overall": 88},
        "session_ranges": {"handoff": {"min": 80, "max": 95}, "overall": {"min": 80, "max": 95}},
        "trend": {"direction": "improving", "delta": 0.3},
    } == found
    order = ["date", "sessions_count", "component_averages", "session_averages", "session_ranges", "trend"]
    assert order == list(found)


def test_a_version_compares_with_the_one_before_by_their_numbers() -> None:
    """2.10 follows 2.9, in any order of appearance: 90 after 80."""
    sessions = [("b", AT, plain(90), "2.10"), ("a", AT, plain(80), "2.9"), ("c", AT, plain(70), "")]
    found = [
        (document["version"], document["trend"])
        for document in score_files.version_documents(folded(config(), *sessions))
    ]
    assert [("2.9", None), ("2.10", {"direction": "improving", "delta": 10.0})] == found


@given(st.text(max_size=150), st.text(max_size=150))
def test_no_two_ids_have_one_file(one: str, other: str) -> None:
    """Ids have different files where case is ignored too; and every name is valid, of at most 255 bytes."""
    names = [score_files.file_name(id_) for id_ in (one, other, one.upper(), other.casefold())]
    assert len({one, other, one.upper(), other.casefold()}) == len({name.casefold() for name in names})
    assert [] == [name for name in names if not re.fullmatch(r"[a-z0-9_~-][a-z0-9._~-]{0,120}", name)]


SCORES = Path(".claude/metrics/scores")


def bring(project: Path, *, anew: bool = False) -> Written:
    """Bring the score files up to date, or write all of them anew."""
    place = Project(project)
    return files.write_files(place, state_of(place), anew=anew)


def there(project: Path) -> dict[str, bytes]:
    """Return every file in the folder of the scores, by its path."""
    folder = project / SCORES
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def configure(project: Path, text: str) -> None:
    """Write the project's own configuration."""
    path = project / configuration.PLACE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_deleted_files_are_rebuilt_identically(project: Path, run: Run) -> None:
    """Every score file is deleted, and `replay` writes the same bytes."""
    record_example(project)
    record_events(project, "../Odd\n", events(plain(40), "V 2"), noon("2026-01-03"))
    assert 0 == run("replay").code
    before = there(project)
    assert 9 == len(before)
    for name in before:
        (project / SCORES / name).unlink()
    assert 0 == run("replay").code
    assert before == there(project)


def test_a_check_names_a_score_file_that_is_missing_or_changed(project: Path, run: Run) -> None:
    """The check counts the others, names no edit as kept, writes nothing, and ignores foreign files."""
    record_example(project)
    done = run("replay", "--check")
    drift = "is missing or differs from the ledger, and 4 more such files; run `tallybook replay`"
    assert (1, "", {}) == (done.code, done.out, there(project))
    assert f"tallybook: {project / SCORES / 'sessions' / f'{EXAMPLE}.json'}: {drift}" in done.err
    run("replay")
    assert 0 == run("replay", "--check").code
    day = project / SCORES / "daily" / "2026-01-16.json"
    day.write_text("{}", encoding="utf-8")
    (project / SCORES / "daily" / "note.json").write_text("{}", encoding="utf-8")
    done = run("replay", "--check")
    assert (1, True) == (
        done.code,
        done.err.endswith(f"{day}: is missing or differs from the ledger; run `tallybook replay`\n"),
    )
    assert "{}" == day.read_text(encoding="utf-8")
    configure(project, "scoring: {enabled: false}")
    assert 0 == run("replay", "--check").code


def test_only_changed_files_are_written(project: Path) -> None:
    """A session on the next day adds four files and changes the month; the others keep their time."""
    record_example(project)
    assert (5, 0, ()) == (bring(project).written, bring(project).written, bring(project).foreign)
    day = project / SCORES / "daily" / "2026-01-16.json"
    os.utime(day, (1, 1))
    record_events(project, "s2", events(plain(80), "2.0.0"), noon("2026-01-17"))
    assert 5 == bring(project).written
    assert 1 == day.stat().st_mtime


@pytest.mark.parametrize("change", ["undo", "retention", "zone"])
def test_an_unwanted_file_is_deleted(project: Path, change: str) -> None:
    """An undo, a shorter time or another zone deletes files, and the wanted ones are written."""
    record_example(project)
    record_events(project, "s2", events(plain(80)), noon("2026-02-16"))
    bring(project)
    if change == "undo":
        curation.undo(Project(project), None, EXAMPLE, "", {"rater": "human"})
    elif change == "retention":
        configure(project, "scoring: {storage: {retention_days: 7}}")
    else:
        configure(project, "scoring: {timezone: Asia/Tokyo}")
    done = bring(project)
    gone = {"undo": 5, "retention": 5, "zone": 1}[change]
    assert (gone, {"undo": 0, "retention": 0, "zone": 1}[change]) == (done.deleted, done.written)
    assert "daily/2026-01-16.json" not in there(project)


def test_a_foreign_file_stays_and_is_named(project: Path, run: Run) -> None:
    """A note, a copy, a torn file and a folder are named; a hidden file is skipped."""
    record_example(project)
    bring(project)
    folder = project / SCORES / "sessions"
    copied = (folder / f"{EXAMPLE}.json").read_bytes()
    others = {"note.json": b"{}", "copy.json": copied, "torn.json": copied[:9], "README.md": b"x", ".hidden": b"x"}
    for name, data in others.items():
        (folder / name).write_bytes(data)
    (folder / "inner.json").mkdir()
    assert tuple(f"sessions/{name}" for name in ("README.md", "copy.json", "inner.json", "note.json", "torn.json")) == (
        bring(project, anew=True).foreign
    )
    assert list(others.items()) == [(name, (folder / name).read_bytes()) for name in others]
    (folder.parent / "notes.txt").write_bytes(b"x")
    told = run("replay").err
    assert f"{folder.parent / 'notes.txt'} is not a score file of Tallybook's and was left as it is" in told
    assert f"{folder / 'copy.json'} is not a score file of Tallybook's and was left as it is" in told


@pytest.mark.parametrize("path", ["../elsewhere", ".claude/ledger/scores", "out/s", ".claude", "in"])
def test_a_folder_outside_of_the_project_is_refused(
    project: Path, path: str, tmp_path_factory: pytest.TempPathFactory, run: Run
) -> None:
    """A path, a link on the way to it, the ledger's own folder and its parents are refused in a line."""
    record_example(project)
    (project / "out").symlink_to(tmp_path_factory.mktemp("out"))
    (project / "in").symlink_to(project / ".claude")
    configure(project, f'scoring: {{storage: {{path: "{path}"}}}}')
    with pytest.raises(BadInputError, match=r"scoring\.storage\.path"):
        bring(project, anew=True)
    done = run("score")
    assert (2, 1, "") == (done.code, done.err.count("\n"), done.out)


def test_one_process_writes_at_a_time(project: Path, run: Run) -> None:
    """`replay` names the process that holds the lock, and `score` still answers."""
    record_example(project)
    path = project / ".claude" / "ledger" / files.LOCK
    fd = disk.open_file(path, write=True, create=True)
    try:
        assert disk.try_lock(fd)
        with pytest.raises(LockHeldError):
            bring(project, anew=True)
        assert 4 == run("replay").code
        done = run("score", "--json")
        assert (0, 87) == (done.code, json.loads(done.out)["session_scores"]["overall"])
        assert "the score files are not up to date" in done.err
        assert "nothing was recorded" not in done.err
    finally:
        os.close(fd)
