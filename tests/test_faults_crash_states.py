"""Crash states: after any power loss in a traced run, the ledger recovers to what it had acknowledged."""

from __future__ import annotations

from pathlib import Path
import sys

import pytest

from faults import Setting
from faults.crash_states import RUNS, suffer
from helpers.sweep import slice_of
from tallybook.ledger.storage import disk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the recorder looks files up in /proc/self/fd")
SLICE = slice_of(400, 120)
LEAST = slice_of(40, 20)
"""States that each run has at the least, whatever the ids in its lines are."""
SEED = 1


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
