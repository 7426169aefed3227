"""What counts of an engine's runs goes into the copy of the book byte for byte, and nothing else does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from helpers.books import AT, make_run, make_runs
from helpers.memory_store import MemoryStore
from tallybook.ledger.codec import encode
from tallybook.ledger.events import BookOpened, BookRules
from tallybook.ledger.line import START, Draft, Position, Stamp, frame
from tallybook.ledger.sharing import book
from tallybook.ledger.sharing.book import count, cut_runs, read_pieces
from tallybook.ledger.sharing.engines.engine import NOTHING, Engine, Run
from tallybook.ledger.sharing.replica import Replica

if TYPE_CHECKING:
    from pathlib import Path

    from tallybook.ledger.events import Event
    from tallybook.ledger.line import RawBatch


def _batch(event: Event, after: Position, id_: str) -> RawBatch:
    return frame([encode(event)], Stamp(after, AT, {"rater": "test"}, lambda: id_, lambda: "salt"))


OPENED = _batch(BookOpened("book", "demo", 1, 1), START, "opened")
RUNS = [*cut_runs([OPENED], START, 1), *make_runs(4, after=OPENED.position)]
STRANGER = make_run(OPENED.position, "stranger", "kpt_001")[0]
TORN = RUNS[2].data[:100]
CHANGES: list[dict[str, Any]] = [
    *({"data": RUNS[2].data + more} for more in (b"\n", b"\0\0", TORN, STRANGER.data)),
    {"data": TORN},
    {"data": RUNS[2].data.replace(b"helpful", b"harmful")},
    {"first": 2},
    {"first": 0},
    {"last": 10**400},
    {"before": "0" * 32},
    {"after": "0" * 32},
]
"""What is wrong with a run."""


def _read(runs: list[Run], folder: Path) -> tuple[bytes, list[str]]:
    """Return the copy that a machine makes of runs, and the places of those that it skips."""
    placed = [run._replace(place=f"run {number}") for number, run in enumerate(runs, 1)]
    counted = count(placed, START, set())
    replica = Replica(folder, "1")
    replica.append(counted.batches, counted.data)
    assert replica.is_whole()
    data = (folder / "book/1/events.jsonl").read_bytes()
    assert data == b"".join(batch.raw for batch in counted.batches)
    return data, [run.place for run in counted.skipped]


@pytest.mark.parametrize(
    ("runs", "skipped"),
    [
        (RUNS, []),
        ([STRANGER, *RUNS], ["run 1"]),
        ([*RUNS[:2], STRANGER, *RUNS[2:]], ["run 3"]),
        ([*RUNS[:4], RUNS[3], RUNS[4]], ["run 5"]),
        *(([*RUNS[:2], RUNS[2]._replace(**change), *RUNS[2:]], ["run 3"]) for change in CHANGES),
    ],
)
def test_the_copy_has_the_bytes_of_runs_that_count(tmp_path: Path, runs: list[Run], skipped: list[str]) -> None:
    """A run of someone else, one that comes twice, more or fewer bytes than whole batches and a false head are left."""
    assert (b"".join(run.data for run in RUNS), skipped) == _read(runs, tmp_path)


def test_an_id_of_the_copy_does_not_count_again_where_all_runs_are_read_anew(tmp_path: Path) -> None:
    """The first pieces have nothing new then, and a later run brings an event that the copy has already."""
    counted = count(RUNS, START, set())
    replica = Replica(tmp_path, "1")
    replica.append(counted.batches, counted.data)
    end = counted.batches[-1].position
    rating = Draft("point.rated", 1, {"name": "kpt_002", "rating": "harmful"})
    batch = frame([rating], Stamp(end, AT, {"rater": "test"}, lambda: "opened", lambda: "salt"))
    engine = Engine(MemoryStore())
    repeated = Run(batch.first, batch.last, end.chain, batch.chain, batch.raw)
    assert engine.append(NOTHING, [*RUNS, repeated]) is not None
    pieces = [piece for _, piece in read_pieces(engine, replica, 1)]
    assert ([], ["an event of it is in the book already"]) == (
        [batch for piece in pieces for batch in piece.batches],
        [run.why for piece in pieces for run in piece.skipped][-1:],
    )
    assert 1 < len(pieces)


@pytest.mark.parametrize(("number", "known", "counts"), [(2, 1, 1), (2, 2, 3), (3, 2, 1), (1, 2, 1)])
def test_only_the_next_rules_can_follow(number: int, known: int, counts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that does not know the next rules takes in up to there; other numbers are skipped by every program."""
    monkeypatch.setattr(book, "NEWEST", known)
    changed = _batch(BookRules(number), OPENED.position, "changed")
    later = make_run(changed.position, "anna", "kpt_001")[0]
    counted = count([RUNS[0], *cut_runs([changed], OPENED.position, 1), later], START, set())
    is_unknown = (number, known) == (2, 1)
    assert (counts, is_unknown) == (len(counted.batches), counted.newer is not None)
    assert (0 if is_unknown or counts > 1 else 2) == len(counted.skipped)


def test_rules_change_only_where_a_run_begins() -> None:
    """Else a program that knows the next rules could skip what one that does not has taken in; fresh runs keep that."""
    changed = _batch(BookRules(2), OPENED.position, "changed")
    batches = [OPENED, changed]
    together = Run(1, changed.last, START.chain, changed.chain, b"".join(batch.raw for batch in batches))
    counted = count([together], START, set())
    assert ([], None, 1) == (counted.batches, counted.newer, len(counted.skipped))
    runs = cut_runs(batches, START, 1_000_000)
    assert [1, 2] == [run.first for run in runs]
    assert 1 == len(count(runs, START, set()).batches)
