"""The index of a long ledger: whatever its state, every answer is that of the whole history."""

from __future__ import annotations

from pathlib import Path
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.authors import HUMAN
from helpers.cache_damages import DAMAGES
from helpers.cache_places import caches_of, make_caches
from helpers.long_ledgers import (
    CLOSED,
    CLOSING,
    LEARNED,
    NAMES,
    ODD,
    STORY,
    STRETCHES,
    grow,
    make_long,
    opened,
    project_of,
)
from helpers.sweep import slice_of
from tallybook.ledger.backends.jsonl import JsonlLog
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.events import EventsVoided, PointMerged, PointRated, PointRestored
from tallybook.ledger.storage.redaction import PendingRedaction, write_pending
from tallybook.projections.entry_history.status import STATUS_VIEW
from tallybook.projections.entry_history.story import audit_view, explain
from tallybook.projections.fold import fold_history
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import cache_files, index
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import redact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tallybook.ledger.records import Batch


@pytest.fixture(autouse=True)
def _index_every_ledger() -> Iterator[None]:
    """Index every ledger, however short."""
    with pytest.MonkeyPatch.context() as patch:
        make_long(patch)
        yield


def story(batches: Sequence[Batch], name: str, until: int | None = None) -> Any:
    """Return the story of an entry as of a moment, from the whole history."""

    def audit(moment: int | None) -> Any:
        return fold_history(audit_view(name), lambda: batches, moment)

    return explain(audit(until), fold_history(STATUS_VIEW, lambda: batches, until), audit)


def stories_of(log: JsonlLog) -> dict[tuple[str, int | None], Any]:
    """Return the story of each entry as of the end of each batch, and as of now, read without the index."""
    batches = list(decode(log.read()))
    # As of the first batch a name would be looked for as words of a text.
    moments = [None, *sorted({batch.last for batch in batches} - {1})]
    return {(name, moment): story(batches, name, moment) for name in NAMES for moment in moments}


def check(log: JsonlLog, expected: dict[tuple[str, int | None], Any] | None = None) -> None:
    """Compare each answer of `why` with the whole history, the first once more with the index that it stored.

    Args:
        log: The ledger.
        expected: The result of `stories_of` for it; read anew if it is not given.
    """
    expected = stories_of(log) if expected is None else expected
    # The first answer stores the index, and all later ones use it.
    for (name, moment), told in [*expected.items(), next(iter(expected.items()))]:
        assert told == commands.why(project_of(log), name, None if moment is None else str(moment))


@settings(
    max_examples=slice_of(40, 25), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(stretches=STRETCHES, apart=st.sampled_from([0, 700, 1 << 30]), cut=st.integers(0, 8))
def test_a_story_is_that_of_the_whole_history(tmp_path: Path, stretches: list[list[Any]], apart: int, cut: int) -> None:
    """It holds as of every moment, with undone, merged and redacted entries, and as the ledger grows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_files, "APART_BYTES", apart)
        log = opened(Path(tempfile.mkdtemp(dir=tmp_path)))
        for some in ([LEARNED, *stretches[:cut]], stretches[cut:]):
            grow(log, some)
            check(log)
        log.close()


@pytest.fixture
def log(project: Path) -> Iterator[JsonlLog]:
    """Return a ledger of three entries, of which one is pruned by an update later than its ratings."""
    made = JsonlLog(Project(project).ledger)
    grow(made, STORY)
    yield made
    made.close()


def files(log: JsonlLog) -> list[Path]:
    """Return the files of the index."""
    return sorted((caches_of(log.folder) / "register").iterdir())


def read(log: JsonlLog, monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    """Return the last events of the batches that a story reads."""
    found = index.index_of(log)
    assert found is not None
    monkeypatch.setattr(log, "read", None)
    return [batch.last for batch in found.about({name})]


def test_a_story_reads_the_batches_about_its_entry(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other batches are not read, and each update that names the entry is closed by itself."""
    assert [5, 13] == read(log, monkeypatch, ODD)


def test_a_due_prune_is_followed_to_the_update_that_does_it(log: JsonlLog) -> None:
    """After ratings without an update the batches up to the next update of another entry are read."""
    found = index.index_of(log)
    assert found is not None
    assert [5, 10, 11, 13, 15] == [batch.last for batch in found.about({"kpt_002"})]
    assert "pruned" == commands.why(project_of(log), "kpt_002")[0]["status"]


def test_merged_entries_are_part_of_a_story(log: JsonlLog) -> None:
    """Events that name only the merged entry are read, from before the merge and after it."""
    merged = PointMerged("kpt_001", ("kpt_002",), "")
    grow(log, [[PointMerged("kpt_002", (ODD,), "")], [PointRestored("kpt_002", "")], [merged]])
    grow(log, [[PointRated(ODD, "harmful"), CLOSED], [PointRated("kpt_002", "helpful"), CLOSED]])
    check(log)


def test_an_undone_update_prunes_nothing(log: JsonlLog) -> None:
    """The next update prunes instead, though it names another entry."""
    grow(log, [[*[PointRated("kpt_001", "harmful")] * 3, CLOSED], [CLOSED], [PointRated(ODD, "helpful"), CLOSED]])
    grow(log, [[EventsVoided(("id-19",), None, "")], [EventsVoided((), "s8", "")]])
    check(log)
    assert [22] == [
        row["seq"] for row in commands.why(project_of(log), "kpt_001")[0]["trail"] if row["kind"] == CLOSING
    ]


@pytest.mark.parametrize("how", DAMAGES)
def test_damage_of_the_index_changes_no_answer(log: JsonlLog, how: str) -> None:
    """A damaged segment file is not believed, whichever it is, and is built again."""
    expected = stories_of(log)
    check(log, expected)
    step = slice_of(1, 4)
    for place, path in enumerate(files(log)):
        data = path.read_bytes()
        path.write_bytes(DAMAGES[how](data))
        # Every question is asked, each after the damage of another file.
        check(log, dict([*expected.items()][place % step :: step]))
        assert data == path.read_bytes()


def test_a_missing_segment_changes_no_answer(log: JsonlLog) -> None:
    """The segments after it are built again."""
    check(log)
    files(log)[2].unlink()
    check(log)


def test_a_renamed_segment_changes_no_answer(log: JsonlLog) -> None:
    """A segment's file name is only where it is looked for; its content has its start."""
    check(log)
    found = {path: path.read_bytes() for path in files(log)}
    for path, data in zip(found, reversed(found.values()), strict=True):
        path.write_bytes(data)
    check(log)


def test_the_index_of_another_ledger_changes_no_answer(log: JsonlLog, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An index that was copied along with a project's settings is not used."""
    other = opened(tmp_path_factory.mktemp("other") / "project")
    grow(other, [*reversed(STORY), *STORY])
    check(other)
    shutil.copytree(caches_of(other.folder), caches_of(log.folder), dirs_exist_ok=True)
    other.close()
    check(log)


def test_an_older_index_changes_no_answer(log: JsonlLog, tmp_path: Path) -> None:
    """An index or a ledger restored from a backup is merely older than the other."""
    check(log)
    shutil.copytree(log.folder, tmp_path / "older")
    shutil.copytree(caches_of(log.folder), tmp_path / "older cache")
    grow(log, STORY[1:])
    check(log)
    shutil.copytree(caches_of(log.folder), tmp_path / "newer")
    shutil.rmtree(caches_of(log.folder))
    shutil.copytree(tmp_path / "older cache", caches_of(log.folder))
    check(log)
    log.close()
    shutil.rmtree(log.folder)
    shutil.copytree(tmp_path / "older", log.folder)
    shutil.copytree(tmp_path / "newer", caches_of(log.folder), dirs_exist_ok=True)
    check(log)
    grow(log, [STORY[4], STORY[2], STORY[5]])
    check(log)


def test_the_index_of_other_code_is_not_used(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version may index the same events differently."""
    check(log)
    data = [path.read_bytes() for path in files(log)]
    monkeypatch.setattr(cache_files, "code_digest", lambda *_: "another")
    check(log)
    assert data != [path.read_bytes() for path in files(log)]


def test_an_index_that_cannot_be_written_costs_only_time(log: JsonlLog) -> None:
    """A file in place of the cache folder is left alone."""
    cache = make_caches(log.folder)
    shutil.rmtree(cache)
    cache.write_bytes(b"in the way")
    check(log)
    assert b"in the way" == cache.read_bytes()


def test_a_redacted_text_is_shown_as_redacted(log: JsonlLog) -> None:
    """The index keeps its position, and the story reads the redacted line."""
    check(log)
    redact.redact(project_of(log), redact.RedactionTarget("2", None), "private", HUMAN)
    check(log)
    assert "[redacted]" == commands.why(project_of(log), "kpt_001")[0]["text"]


def test_a_pending_redaction_is_answered_from_the_whole_history(log: JsonlLog) -> None:
    """While a redaction is unfinished every reader hides its text, and no index is written."""
    ids = [record.id for batch in decode(log.read()) for record in batch.records]
    write_pending(log.folder, PendingRedaction((ids[1],), ("no such text",), "private", HUMAN))
    check(log)
    assert "[redacted]" == commands.why(project_of(log), "kpt_001")[0]["text"]
    assert not caches_of(log.folder).exists()


@pytest.mark.parametrize("said", [b'"rating":"helpful"', b'"text":"the text of'])
def test_a_changed_batch_is_damage(log: JsonlLog, said: bytes) -> None:
    """The batches of a story are verified with their texts; the error equals that of a full read."""
    check(log)
    log.path.write_bytes(log.path.read_bytes().replace(said, said.upper(), 1))
    with pytest.raises(DamagedLedgerError) as expected:
        stories_of(log)
    with pytest.raises(DamagedLedgerError) as found:
        commands.why(project_of(log), "kpt_001")
    assert str(expected.value) == str(found.value)
