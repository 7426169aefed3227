"""The laws of sharing, over random histories of up to five machines, against a plain model of one ledger."""

from __future__ import annotations

import pytest

from helpers.sharing_runs import memory_folder, run_history

HISTORIES = 16
"""`python -m tests.sweeps laws` runs 20,000 of them."""
PIECES = 4


@pytest.mark.parametrize("piece", range(PIECES))
def test_laws_hold_in_random_histories(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines show the same key points, keep every past view, and have every batch in the book once."""
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    with memory_folder() as folder:
        for seed in range(piece, HISTORIES, PIECES):
            run_history(seed, folder)
