"""Damage to the cache of scores, of every kind: it costs time, and the answer stays that of a plain fold."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
import shutil
import sqlite3
import tempfile
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.cache_places import caches_of
from helpers.score_states import CONFIG, cache_of, comparable, folded, project_in, record_events
from helpers.sweep import slice_of
from tallybook.ledger.events import BenchmarkRecorded, FeedbackRecorded, MetricsRecorded, Numbers, SessionEnded
from tallybook.projections.surfaces.scores.cache import store
from tallybook.projections.surfaces.scores.score_state import state_of
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable

# What becomes of a cache

PLACES = st.floats(0, 1, exclude_max=True)
CHANGES = (
    "DELETE FROM sessions WHERE id = x'73657373696f6e2d33'",
    "DELETE FROM sessions",
    "UPDATE sessions SET at = '2020-01-01T00:00:00.000000Z'",
    "UPDATE sessions SET at = x'80'",
    "UPDATE sessions SET data = (SELECT data FROM sessions ORDER BY id DESC LIMIT 1)",
    "UPDATE sessions SET data = 7",
    "UPDATE sessions SET next = x''",
    "UPDATE sessions SET next = x'ff' WHERE id = x''",
    "UPDATE sessions SET sum = 16",
    "UPDATE sessions SET id = CAST(id AS TEXT)",
    "INSERT INTO sessions SELECT x'31', next, at, data, sum FROM sessions ORDER BY id DESC LIMIT 1",
    "DELETE FROM state",
    "UPDATE state SET data = CAST(data AS TEXT)",
    "UPDATE state SET data = 'text'",
    "UPDATE state SET sum = 0",
    "UPDATE state SET data = CAST(replace(data, '\"rewrites\":0', '\"rewrites\":1') AS BLOB)",
    "CREATE TABLE more (one)",
    "CREATE TRIGGER busy AFTER INSERT ON sessions BEGIN DELETE FROM state; END",
    "DROP TABLE state",
    "DROP INDEX by_time",
)


def _scribbled(path: Path, spots: list[tuple[float, int]]) -> None:
    data = bytearray(path.read_bytes())
    # Most of a small database is nothing, and another nothing harms nobody.
    something = [index for index, byte in enumerate(data) if byte]
    for place, byte in spots:
        data[something[int(place * len(something))]] = byte
    path.write_bytes(data)


def _cut(path: Path, place: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(place * len(data))])


def _filled(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _changed(path: Path, word: str) -> None:
    with closing(sqlite3.connect(path)) as database, suppress(sqlite3.Error):
        database.execute(word)
        database.commit()


def _planted(path: Path, data: bytes) -> None:
    path.with_name(f"{store.NAME}-journal").write_bytes(data)


def _replaced(path: Path, _: None) -> None:
    path.unlink()
    path.mkdir()


def _linked(path: Path, _: None) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


MUTATIONS: dict[str, tuple[Callable[[Path, Any], None], st.SearchStrategy[Any]]] = {
    "deleted": (lambda path, _: path.unlink(), st.none()),
    "scribbled": (_scribbled, st.lists(st.tuples(PLACES, st.integers(0, 255)), min_size=1, max_size=9)),
    "cut": (_cut, PLACES),
    "filled": (_filled, st.binary(max_size=200)),
    "beside": (_planted, st.binary(max_size=2000)),
    "folder": (_replaced, st.none()),
    "linked": (_linked, st.none()),
}
"""What may become of a cache → what does it, and what it takes."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project whose cache was stored twice, some rows of it anew."""
    project = project_in(tmp_path_factory.mktemp("template"))
    for part in range(2):
        for number in range(12):
            metrics = Numbers({"completed": number, "total": 12.5, "avg_iterations": part})
            events = [MetricsRecorded("ac02", metrics, ""), FeedbackRecorded("", number, "", ""), SessionEnded("1.0")]
            when = f"2026-01-{number % 5 + 1:02}T00:00:00.00000{part}Z"
            record_events(
                project, f"session-{number * (2 - part)}", [*events, BenchmarkRecorded("ac02", "", 1, 2)], when
            )
        comparable(state_of(project, CONFIG))
    return project


def harmed(template: Project, folder: Path, harm: Callable[[Path, Any], None], given_: Any) -> Project:
    """Return a copy of a project with a damaged cache."""
    project = Project(Path(tempfile.mkdtemp(dir=folder)) / "copy")
    shutil.copytree(template.root, project.root)
    shutil.copytree(caches_of(template.ledger), caches_of(project.ledger))
    harm(cache_of(project), given_)
    return project


def assert_same_answers(project: Project) -> None:
    """Ask, record more of an old session and of a new one, ask again, and once more."""
    assert comparable(folded(project)) == comparable(state_of(project, CONFIG))
    for session in ("session-3", "another"):
        record_events(project, session, [MetricsRecorded("ac01", Numbers({"startup_ms": 9000}), "")])
    for _ in range(2):
        assert comparable(folded(project)) == comparable(state_of(project, CONFIG))
    shutil.rmtree(project.root)


@pytest.mark.parametrize("word", CHANGES)
def test_changed_rows_change_no_answer(template: Project, tmp_path: Path, word: str) -> None:
    """Missing, swapped, added or retyped rows, and tables of another form, are found."""
    assert_same_answers(harmed(template, tmp_path, _changed, word))


@pytest.mark.parametrize("name", MUTATIONS)
@settings(max_examples=slice_of(40, 10), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_changes_no_answer(name: str, template: Project, tmp_path: Path, data: st.DataObject) -> None:
    """Missing, cut, changed or foreign bytes, in the cache and in its companion files, are found."""
    harm, given_ = MUTATIONS[name]
    assert_same_answers(harmed(template, tmp_path, harm, data.draw(given_)))


@pytest.fixture
def project_(tmp_path: Path) -> Project:
    """Return a project with two measured sessions, whose scores were read."""
    project = project_in(tmp_path)
    for session in ("s1", "s2"):
        record_events(project, session, [MetricsRecorded("ac02", Numbers({"completed": 8, "total": 10}), "")])
    state_of(project, CONFIG)
    return project


def test_another_ledgers_cache_is_not_used(project_: Project, tmp_path: Path) -> None:
    """The cache of a project that was copied over another one's is ignored."""
    other = project_in(tmp_path)
    record_events(other, "s9", [MetricsRecorded("ac02", Numbers({"completed": 1, "total": 10}), "")])
    state_of(other, CONFIG)
    shutil.copy(cache_of(other), cache_of(project_))
    assert comparable(folded(project_)) == comparable(state_of(project_, CONFIG))


def test_no_link_is_followed_out_of_the_ledger(project_: Project, tmp_path: Path) -> None:
    """A link in place of the cache is not followed, and neither is one in place of its folder."""
    target = tmp_path / "target"
    target.write_bytes(b"")
    cache_of(project_).unlink()
    cache_of(project_).symlink_to(target)
    state_of(project_, CONFIG)
    assert (b"", False) == (target.read_bytes(), cache_of(project_).is_symlink())
    shutil.rmtree(caches_of(project_.ledger))
    caches_of(project_.ledger).symlink_to(tmp_path)
    assert comparable(folded(project_)) == comparable(state_of(project_, CONFIG))
    assert not (tmp_path / store.NAME).exists()


def test_a_schema_that_is_no_text_changes_no_answer(template: Project, tmp_path: Path) -> None:
    """Damage that sqlite3 cannot report is found like any other."""

    def spoil(path: Path) -> None:
        path.write_bytes(path.read_bytes().replace(b"CREATE TABLE state", b"CREATE \x80ABLE state"))

    assert_same_answers(harmed(template, tmp_path, lambda path, _: spoil(path), None))
