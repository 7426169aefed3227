"""Machines that sync at the same time, again and again: everything lands, and nobody tries for long."""

from __future__ import annotations

from pathlib import Path

from helpers.sweep import slice_of
from share import crowd

MACHINES = slice_of(crowd.MACHINES, 3)
ROUNDS = slice_of(crowd.ROUNDS, 1)


def test_machines_that_sync_together_all_land(tmp_path: Path) -> None:
    """After each round every machine shows the same playbook, with an entry and a rating of each in it."""
    met = crowd.run("git", tmp_path, MACHINES, ROUNDS)
    assert [] == met.problems
    assert len(met.tries) == MACHINES * ROUNDS
    assert max(met.tries) <= crowd.MOST_TRIES, met.tries
