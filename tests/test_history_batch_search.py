"""Batches found by their bytes: moments and conditions are those of the whole history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
import tempfile
from typing import Any, cast

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.events import HUMAN
from helpers.long_ledgers import CLOSED, LEARNED, NAMES, STORY, STRETCHES, grow, open_long_ledger, project_of
from helpers.memory_log import MemoryLog
from helpers.sweep import slice_of
from tallybook.ledger import clock
from tallybook.ledger import search as batch_search
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.errors import BadInputError, DamagedLedgerError
from tallybook.ledger.events import PointMatched, PointRated
from tallybook.ledger.line import Draft, RawBatch
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.records import Batch
from tallybook.ledger.scan import find_batches
from tallybook.ledger.storage.redaction import add_pending
from tallybook.projections.history.conditions import parse, search
from tallybook.projections.history.entry_history import ENTRIES, entries_view, explain
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.surfaces.cli import history
from tallybook.projections.surfaces.history import moments
from tallybook.projections.surfaces.history.moments import find
from tallybook.projections.surfaces.history.stories import history_of
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands


@pytest.fixture
def log(tmp_path: Path) -> Iterator[JsonlLog]:
    """Return a ledger of three entries, a minute a batch."""
    made = open_long_ledger(tmp_path / "project")
    grow(made, STORY)
    yield made
    made.close()


def moments_of(log: JsonlLog, whens: Sequence[str]) -> list[Any]:
    """Return each of these moments with its notes, or its error."""
    found: list[Any] = []
    for when in whens:
        try:
            moment = moments.find(project_of(log), when)
            found.append((moment.seq, moment.named, moment.notes))
        except BadInputError as error:
            found.append(str(error))
    return found


def read_whole_history(log: JsonlLog, whens: Sequence[str]) -> list[Any]:
    """Return the same from the whole history, without a search."""

    def read_all(found: JsonlLog, _needles: Any) -> Iterator[RawBatch]:
        return found.read()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "search", read_all)
        return moments_of(log, whens)


SESSIONS = ("", "s", "s1", "s1+", "s10", 's"', "a session", 'a "session"', "none")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hours=st.lists(st.integers(-5, 5), min_size=2, max_size=12))
def test_a_moment_is_that_of_the_whole_history(tmp_path: Path, hours: list[int]) -> None:
    """It holds by time, even if the clock runs back and forth, and by session id or prefix."""
    clocks = (clock.moment(1_700_000_000_000_000 + 3_600_000_000 * hour) for hour in accumulate(hours))
    log = open_long_ledger(Path(tempfile.mkdtemp(dir=tmp_path)))
    log.now = lambda: next(clocks, clock.moment(1_700_000_000_000_000))
    for index in range(len(hours)):
        with log.transaction() as tx:
            session = {"session": ("s1", "s10", 'a "session"', "s2")[index % 4]} if index % 5 else {}
            tx.append([encode(CLOSED)] * (1 + index % 3), HUMAN | session)
    whens = [clock.moment(1_700_000_000_000_000 + 1_800_000_000 * half).at for half in range(-60, 61, 3)]
    whens += [f"session:{session}" for session in SESSIONS]
    assert read_whole_history(log, whens) == moments_of(log, whens)
    log.close()


CONDITIONS = (
    "kpt_001.harmful > kpt_001.helpful",
    "pruned(kpt_002)",
    "not exists(kpt_001) or merged(kpt_002)",
    "kpt_001.helpful > 0 and kpt_002.harmful > 1",
    "count < 3",
    "1 > 2",
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(stretches=STRETCHES, begin=st.integers(0, 12))
def test_a_condition_changes_where_the_whole_history_changes_it(
    tmp_path: Path, stretches: list[list[Any]], begin: int
) -> None:
    """It holds for the first and the last time, from any moment on, with the values of that moment."""
    log = open_long_ledger(Path(tempfile.mkdtemp(dir=tmp_path)))
    grow(log, [LEARNED, *stretches])
    begin = min(begin, log.head().seq)
    for text in CONDITIONS:
        for last in (False, True):
            expected = search(parse(text), lambda: decode(log.read()), begin, last=last)
            found = history.find(project_of(log), text, (str(begin), None), last=last)
            assert expected == found
    log.close()


def find_checked(log: JsonlLog, *needles: bytes) -> list[RawBatch]:
    """Return the batches with some bytes, which are also those of a full read that have them."""
    found = list(find_batches(log, needles))
    assert [batch for batch in log.read() if any(needle in batch.data for needle in needles)] == found
    return found


@pytest.mark.parametrize("window_bytes", [1, 50, 1_000, 1 << 20])
def test_a_search_finds_bytes_across_windows(log: JsonlLog, monkeypatch: pytest.MonkeyPatch, window_bytes: int) -> None:
    """Each batch is found once, wherever a window ends, the first and the last one included."""
    monkeypatch.setattr(batch_search, "WINDOW_BYTES", window_bytes)
    monkeypatch.setattr(batch_search, "_FIRST_BYTES", 16)
    assert [5, 10, 11, 15] == [batch.last for batch in find_checked(log, b'"name":"kpt_002"', b'"session":"s3"')]
    assert [1] == [batch.last for batch in find_checked(log, b"ledger.opened")]
    assert [] == find_checked(log, b"no such bytes")


def test_a_search_skips_sealed_ranges(log: JsonlLog) -> None:
    """Bytes in a torn tail are not found, before it is sealed and after it."""
    log.close()
    data = log.path.read_bytes()
    # The whole last batch again verifies by no chain, and the first half of it by none either.
    last = data[data.index(b"\n", data.rindex(b'"session":"s4"')) + 1 :]
    log.path.write_bytes(data + last[: len(last) // 2])
    assert [5, 10, 15] == [batch.last for batch in find_checked(log, b'"name":"kpt_002"')]
    grow(log, [STORY[5]])
    assert b"log.recovered" in log.path.read_bytes()
    assert [5, 10, 15, 18] == [batch.last for batch in find_checked(log, b'"name":"kpt_002"')]


# Moments by a clock

MINUTE_US = 60_000_000
BEGIN = clock.to_unix_us("2026-11-20T00:00:00.000000Z")
NOW_US = BEGIN + 10 * MINUTE_US
ADDED = Draft("point.removed", 1, {"name": "kpt_001"})


def log_at(minutes: Sequence[int]) -> MemoryLog:
    """Return a log whose batches of two events each were recorded so many minutes after BEGIN; it is NOW_US there."""
    read = [BEGIN, BEGIN]
    log = MemoryLog(lambda: clock.moment(read[0]))
    for minute in minutes:
        read[0] = BEGIN + minute * MINUTE_US
        with log.transaction() as tx:
            tx.append([ADDED, ADDED], {"rater": "test"})
    read[0] = NOW_US
    return log


def find_moment(log: MemoryLog, when: str) -> moments.Moment:
    """Return the moment of a log."""
    return moments.find(cast("Any", None), when, "--at", cast("Any", log))


def test_a_clock_that_ran_back_hides_no_event_and_is_reported() -> None:
    """As of a time is the largest event recorded at or before it; later times among those are counted."""
    log = log_at([500, 7])
    assert 0 == find_moment(log, "2026-11-20T00:06").seq
    moment_ = find_moment(log, "2026-11-20T00:07")
    assert 5 == moment_.seq
    assert ("the clock ran back: 3 events up to event 5 have a later time than 2026-11-20 00:07 UTC",) == moment_.notes


@given(minutes=st.lists(st.integers(0, 300), max_size=8), minute=st.integers(0, 300))
def test_as_of_is_the_largest_number_recorded_by_then(minutes: list[int], minute: int) -> None:
    """For any clock the result equals the definition, applied event by event."""
    log = log_at(minutes)
    at = clock.moment(BEGIN + minute * MINUTE_US).at
    recorded = [record for batch in decode(log.read()) for record in batch.records]
    assert max((record.seq for record in recorded if record.at <= at), default=0) == find_moment(log, at).seq


# The batches that decide the history of an entry: folding them gives what the whole history gives.


def story(batches: Sequence[Batch], name: str, until: int | None = None) -> Any:
    """Return the story of an entry as of a moment, from the whole history."""
    state = fold_history(entries_view({name}), lambda: batches, until)
    return explain(state.stories[name], state)


def stories_of(story_log: JsonlLog) -> dict[tuple[str, int | None], Any]:
    """Return the story of each entry as of the end of each batch, and as of now, read from the whole story_log."""
    batches = list(decode(story_log.read()))
    # As of the first batch a name would be looked for as words of a text.
    moments = [None, *sorted({batch.last for batch in batches} - {1})]
    return {(name, moment): story(batches, name, moment) for name in NAMES for moment in moments}


def check(story_log: JsonlLog) -> None:
    """Compare each answer of `why` with the whole history."""
    for (name, moment), told in stories_of(story_log).items():
        here = project_of(story_log)
        assert told == commands.why(here, name, None if moment is None else find(here, str(moment)))


@settings(
    max_examples=slice_of(40, 25), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(stretches=STRETCHES)
def test_a_story_is_that_of_the_whole_history(tmp_path: Path, stretches: list[list[Any]]) -> None:
    """A story as of any moment holds undone, merged and redacted entries as a fold of the whole history does."""
    story_log = open_long_ledger(Path(tempfile.mkdtemp(dir=tmp_path)))
    grow(story_log, [LEARNED, *stretches])
    check(story_log)
    story_log.close()


@pytest.fixture
def story_log(project: Path) -> Iterator[JsonlLog]:
    """Return a ledger of three entries, of which one is pruned by an update later than its ratings."""
    made = JsonlLog(Project(project).ledger)
    grow(made, STORY)
    yield made
    made.close()


def test_a_due_prune_is_followed_to_the_update_that_does_it(story_log: JsonlLog) -> None:
    """After ratings without an update, the update of another entry that prunes is read."""
    statuses = fold_history(ENTRIES, lambda: decode(story_log.read()))
    assert [5, 10, 13, 15] == [batch.last for batch in history_of(story_log, "kpt_002", statuses)()]
    assert "pruned" == commands.why(project_of(story_log), "kpt_002")["status"]


def test_a_pending_redaction_hides_its_text(story_log: JsonlLog) -> None:
    """While a redaction is unfinished a story shows its text as redacted."""
    ids = [record.id for batch in decode(story_log.read()) for record in batch.records]
    add_pending(story_log.folder, (ids[1],), ("no such text",), "private", HUMAN)
    check(story_log)
    assert "[redacted]" == commands.why(project_of(story_log), "kpt_001")["text"]


def test_what_was_joined_to_an_entry_is_in_its_story(story_log: JsonlLog) -> None:
    """Ratings of an entry that was joined to another when it landed count in the story of that one."""
    matched = PointMatched("kpt_009", "kpt_001", 2, 0, "the text of 'kpt_001'")
    grow(story_log, [[matched], [PointRated("kpt_009", "helpful"), CLOSED]])
    check(story_log)
    assert 4 == commands.why(project_of(story_log), "kpt_001")["helpful"]


@pytest.mark.parametrize("said", [b'"rating":"helpful"', b'"text":"the text of'])
def test_a_changed_batch_is_damage(story_log: JsonlLog, said: bytes) -> None:
    """The batches of a story are verified with their texts; the error equals that of a full read."""
    story_log.path.write_bytes(story_log.path.read_bytes().replace(said, said.upper(), 1))
    with pytest.raises(DamagedLedgerError) as expected:
        stories_of(story_log)
    with pytest.raises(DamagedLedgerError) as found:
        commands.why(project_of(story_log), "kpt_001")
    assert str(expected.value) == str(found.value)
