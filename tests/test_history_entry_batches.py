"""The batches that decide the history of an entry: folding them gives what the whole history gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
import tempfile
from typing import Any

from hypothesis import HealthCheck, given, settings
import pytest

from helpers.authors import HUMAN
from helpers.long_ledgers import (
    CLOSED,
    LEARNED,
    NAMES,
    STORY,
    STRETCHES,
    grow,
    make_long,
    opened,
    project_of,
)
from helpers.sweep import slice_of
from tallybook.ledger.codec import decode
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.events import PointMatched, PointRated
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.records import Batch
from tallybook.ledger.storage.redaction import add_pending
from tallybook.projections.fold import fold_history
from tallybook.projections.history.entry_history import entries_view, explain
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history.moments import find
from tallybook.projections.surfaces.history.stories import history_of
from tallybook.projections.surfaces.workspace.project import Project


@pytest.fixture(autouse=True)
def _long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search ledgers however short they are."""
    make_long(monkeypatch)


def story(batches: Sequence[Batch], name: str, until: int | None = None) -> Any:
    """Return the story of an entry as of a moment, from the whole history."""
    state = fold_history(entries_view({name}), lambda: batches, until)
    return explain(state.stories[name], state)


def stories_of(log: JsonlLog) -> dict[tuple[str, int | None], Any]:
    """Return the story of each entry as of the end of each batch, and as of now, read from the whole log."""
    batches = list(decode(log.read()))
    # As of the first batch a name would be looked for as words of a text.
    moments = [None, *sorted({batch.last for batch in batches} - {1})]
    return {(name, moment): story(batches, name, moment) for name in NAMES for moment in moments}


def check(log: JsonlLog) -> None:
    """Compare each answer of `why` with the whole history."""
    for (name, moment), told in stories_of(log).items():
        here = project_of(log)
        assert told == commands.why(here, name, None if moment is None else find(here, str(moment)))


@settings(
    max_examples=slice_of(40, 25), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(stretches=STRETCHES)
def test_a_story_is_that_of_the_whole_history(tmp_path: Path, stretches: list[list[Any]]) -> None:
    """A story as of any moment holds undone, merged and redacted entries as a fold of the whole history does."""
    log = opened(Path(tempfile.mkdtemp(dir=tmp_path)))
    grow(log, [LEARNED, *stretches])
    check(log)
    log.close()


@pytest.fixture
def log(project: Path) -> Iterator[JsonlLog]:
    """Return a ledger of three entries, of which one is pruned by an update later than its ratings."""
    made = JsonlLog(Project(project).ledger)
    grow(made, STORY)
    yield made
    made.close()


def read(log: JsonlLog, name: str) -> list[int]:
    """Return the last events of the batches that a story reads."""
    return [batch.last for batch in history_of(log, {name})()]


def test_a_due_prune_is_followed_to_the_update_that_does_it(log: JsonlLog) -> None:
    """After ratings without an update the batches up to the next update of another entry are read."""
    assert [5, 10, 11, 13, 15] == read(log, "kpt_002")
    assert "pruned" == commands.why(project_of(log), "kpt_002")["status"]


def test_a_pending_redaction_hides_its_text(log: JsonlLog) -> None:
    """While a redaction is unfinished a story shows its text as redacted."""
    ids = [record.id for batch in decode(log.read()) for record in batch.records]
    add_pending(log.folder, (ids[1],), ("no such text",), "private", HUMAN)
    check(log)
    assert "[redacted]" == commands.why(project_of(log), "kpt_001")["text"]


def test_what_was_joined_to_an_entry_is_in_its_story(log: JsonlLog) -> None:
    """Ratings of an entry that was joined to another when it landed count in the story of that one."""
    grow(
        log,
        [
            [PointMatched("kpt_009", "kpt_001", 2, 0, "the text of 'kpt_001'")],
            [PointRated("kpt_009", "helpful"), CLOSED],
        ],
    )
    check(log)
    assert 4 == commands.why(project_of(log), "kpt_001")["helpful"]


@pytest.mark.parametrize("said", [b'"rating":"helpful"', b'"text":"the text of'])
def test_a_changed_batch_is_damage(log: JsonlLog, said: bytes) -> None:
    """The batches of a story are verified with their texts; the error equals that of a full read."""
    log.path.write_bytes(log.path.read_bytes().replace(said, said.upper(), 1))
    with pytest.raises(DamagedLedgerError) as expected:
        stories_of(log)
    with pytest.raises(DamagedLedgerError) as found:
        commands.why(project_of(log), "kpt_001")
    assert str(expected.value) == str(found.value)
