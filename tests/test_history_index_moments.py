"""Moments and conditions on a long ledger: the index gives the answers of the whole history."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
import tempfile
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.authors import HUMAN
from helpers.long_ledgers import CLOSED, LEARNED, STORY, STRETCHES, grow, make_long, opened, project_of
from tallybook.ledger import clock
from tallybook.ledger.backends.jsonl import JsonlLog
from tallybook.ledger.encoding.codec import decode, encode
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.reading.random_access import read_batches_at
from tallybook.projections.comparison.bisection import search, turn_json
from tallybook.projections.comparison.conditions import parse
from tallybook.projections.surfaces.cli import bisect
from tallybook.projections.surfaces.history import cache_files, moments
from tallybook.projections.surfaces.history import index as register

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@pytest.fixture(autouse=True)
def _index_every_ledger() -> Iterator[None]:
    """Index every ledger, however short."""
    with pytest.MonkeyPatch.context() as patch:
        make_long(patch)
        yield


@pytest.fixture
def log(tmp_path: Path) -> Iterator[JsonlLog]:
    """Return a ledger of three entries, a minute a batch."""
    made = opened(tmp_path / "project")
    grow(made, STORY)
    yield made
    made.close()


def moments_of(log: JsonlLog, whens: Sequence[str]) -> list[Any]:
    """Return each of these moments with its notes, or its error."""
    found: list[Any] = []
    for one in whens:
        try:
            moment = moments.find(project_of(log), one)
            found.append((moment.seq, moment.named, moment.notes))
        except BadInputError as error:
            found.append(str(error))
    return found


def from_whole_history(log: JsonlLog, whens: Sequence[str]) -> list[Any]:
    """Return the same from the whole history, without the index."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_files, "TAIL_BYTES", 1 << 30)
        return moments_of(log, whens)


HOURS = st.lists(st.integers(-5, 5), min_size=2, max_size=12)
SESSIONS = ("", "s", "s1", "s1+", "s10", 's"', "a session", 'a "session"', "none")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hours=HOURS, apart=st.sampled_from([0, 700, 1 << 30]))
def test_a_moment_is_that_of_the_whole_history(tmp_path: Path, hours: list[int], apart: int) -> None:
    """It holds by time, even if the clock runs back and forth, and by session id or prefix."""
    clocks = (clock.moment(1_700_000_000_000_000 + 3_600_000_000 * hour) for hour in accumulate(hours))
    log = opened(Path(tempfile.mkdtemp(dir=tmp_path)))
    log.now = lambda: next(clocks, clock.moment(1_700_000_000_000_000))
    for index in range(len(hours)):
        with log.transaction() as tx:
            session = {"session": ("s1", "s10", 'a "session"', "s2")[index % 4]} if index % 5 else {}
            tx.append([encode(CLOSED)] * (1 + index % 3), HUMAN | session)
    whens = [clock.moment(1_700_000_000_000_000 + 1_800_000_000 * half).at for half in range(-60, 61, 3)]
    whens += [f"session:{one}" for one in SESSIONS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_files, "APART_BYTES", apart)
        expected = from_whole_history(log, whens)
        # The first answer stores the index, and all later ones use it.
        assert [*expected, expected[0]] == moments_of(log, [*whens, whens[0]])
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
    log = opened(Path(tempfile.mkdtemp(dir=tmp_path)))
    grow(log, [LEARNED, *stretches])
    begin = min(begin, log.head().seq)
    for text in CONDITIONS:
        for last in (False, True):
            expected = search(parse(text), lambda: decode(log.read()), (begin, None), last=last)
            found = bisect.find(project_of(log), text, (str(begin), None), last=last)
            assert turn_json(expected) == turn_json(found)
    log.close()


def test_a_moment_reads_only_the_batches_that_decide(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a fully indexed ledger a time reads no batch, and a session its own batches."""
    times = [batch.at for batch in decode(log.read())]
    assert register.index_of(log) is not None
    seen: list[int] = []

    def noted(path: Path, offsets: Any) -> Any:
        for batch in read_batches_at(path, offsets):
            seen.append(batch.last)
            yield batch

    end = log.head().offset
    monkeypatch.setattr(register, "read_batches_at", noted)
    monkeypatch.setattr(JsonlLog, "read", lambda _log, after: iter(()) if after.offset == end else None)
    assert (10, []) == (moments.resolve(log, times[3], log.now()), seen[1:])
    assert (10, [11]) == (moments.resolve(log, "session:s3", log.now()), seen[2:])
