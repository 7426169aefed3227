"""What counts of an engine's runs goes into the copy of the book byte for byte, and nothing else does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.books import AT, make_run, make_runs
from helpers.memory_store import MemoryStore
from tallybook.ledger.line import START, Draft, Stamp, frame
from tallybook.ledger.sharing.counting import count, read_pieces
from tallybook.ledger.sharing.engines.engine import NOTHING, Engine, Outcome, Run
from tallybook.ledger.sharing.replica import Replica

if TYPE_CHECKING:
    from pathlib import Path

RUNS = make_runs(4)
STRANGER = make_run(START, "stranger", "kpt_001")[0]
TORN = RUNS[2].data[:100]


def _with_bytes(index: int, more: bytes) -> list[Run]:
    """Return the runs, one of them followed by more bytes."""
    return [run._replace(data=run.data + more) if place == index else run for place, run in enumerate(RUNS)]


@pytest.mark.parametrize(
    "runs",
    [
        RUNS,
        [RUNS[0], STRANGER, *RUNS[1:]],
        [*RUNS[:3], RUNS[2], RUNS[3]],
        *(_with_bytes(index, more) for index in range(4) for more in (b"\n", b"\0\0", TORN, STRANGER.data)),
    ],
)
def test_the_copy_has_the_bytes_that_count(tmp_path: Path, runs: list[Run]) -> None:
    """A run of someone else, a run that comes twice, and bytes after a run's last batch are not in the copy."""
    counted = count(runs, START, set())
    replica = Replica(tmp_path, "1")
    replica.append(counted.batches, counted.data)
    expected = b"".join(run.data for run in RUNS)
    assert expected == b"".join(batch.raw for batch in counted.batches)
    assert expected == (tmp_path / "book/1/events.jsonl").read_bytes()
    assert replica.is_whole()
    assert replica.end().seq == RUNS[-1].last


def test_an_id_of_the_copy_does_not_count_again_where_all_runs_are_read_anew(tmp_path: Path) -> None:
    """The first pieces have nothing new then, and a later run brings an event that the copy has already."""
    counted = count(RUNS, START, set())
    replica = Replica(tmp_path, "1")
    replica.append(counted.batches, counted.data)
    known = next(iter(sorted(replica.ids()))).decode()
    end = counted.batches[-1].position
    rating = Draft("point.rated", 1, {"name": "kpt_002", "rating": "harmful"})
    batch = frame([rating], Stamp(end, AT, {"rater": "test"}, lambda: known, lambda: "salt"))
    engine = Engine(MemoryStore())
    repeated = Run(batch.first, batch.last, end.chain, batch.chain, batch.raw)
    assert Outcome.DONE is engine.append(NOTHING, [*RUNS, repeated]).outcome
    pieces = [piece for _, piece in read_pieces(engine, replica, 1)]
    assert ([], [f"event {batch.first} is in the book already"]) == (
        [one for piece in pieces for one in piece.batches],
        [run.why for piece in pieces for run in piece.skipped][-1:],
    )
    assert 1 < len(pieces)
