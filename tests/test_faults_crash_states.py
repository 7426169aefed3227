"""Crash states: after any power loss in a traced run, the ledger recovers to what it had acknowledged."""

from __future__ import annotations

from random import Random
import sys
from typing import TYPE_CHECKING

import pytest

from faults import Setting, crash_states
from faults.crash_states import RUNS, SECTOR_BYTES, Image, image, states, suffer
from helpers.sweep import slice_of
from tallybook.ledger.storage import disk

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the recorder looks files up in /proc/self/fd")
SLICE = slice_of(400, 120)
LEAST = slice_of(40, 20)
"""States that each run has at the least, whatever the ids in its lines are."""
SEED = 1


def drawing() -> Random:
    """Return a drawing of states that is the same every time."""
    return Random(SEED)  # noqa: S311 - as said


@pytest.mark.parametrize("name", RUNS)
def test_every_crash_state_recovers(name: str, tmp_path: Path) -> None:
    """Acknowledged batches are read, others are whole or absent, recoveries agree; the log works on and verifies."""
    tried, counts, broken = suffer(name, SLICE, Setting(tmp_path, SEED))
    assert [] == [(each.where, each.counts, each.outcome) for each in broken]
    assert tried >= LEAST
    assert counts["sealed"] > 0


def test_a_missing_flush_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The enumerator finds lost batches of a stand-in for a writer that acknowledges without flushing the log."""
    monkeypatch.setattr(disk, "flush", lambda *_: None)
    _, counts, broken = suffer("appending", SLICE, Setting(tmp_path, SEED))
    assert counts["lost"] > 0
    assert "appending, step " == broken[0].where[:16]


def test_states_are_every_subset() -> None:
    """Two sectors, two sizes and an unflushed name are combined, and a file may have no name yet."""
    grown = b"x" * (2 * SECTOR_BYTES)
    found = list(states(Image({1: [b"", grown]}, {}, [{"log": 1}], []), 16, drawing()))
    assert 16 == len(found)
    assert 8 == found.count({})
    assert 4 == found.count({"log": b""})
    hole = {"log": bytes(SECTOR_BYTES) + b"x" * SECTOR_BYTES}
    assert [True, True] == [hole in found, {"log": grown} in found]


def test_eight_writers_are_in_flight_at_once(tmp_path: Path) -> None:
    """In one run every writer has written before the first one flushes, and each is acknowledged after its flush."""
    folder = tmp_path / "ledger"
    folder.mkdir()
    run = crash_states.at_once(folder)
    assert ["a", *reversed("bcdefghi")] == image(run.steps).acknowledged
    log = str(folder / "events.jsonl")
    number = image(run.steps).names[log]
    assert number is not None
    most = max(len(image(run.steps[:cut]).contents[number]) for cut in range(run.begun, len(run.steps)))
    assert 1 + 8 == most
