"""The laws of sharing, over random histories of up to five machines, against a plain model of one ledger."""

from __future__ import annotations

import pytest

from helpers.engines import ENGINES
from helpers.sharing_runs import memory_folder, run_history

HISTORIES = 16
"""`python -m tests.sweeps laws` runs 20,000 of them."""
PIECES = 4
STEPS_ON_SERVERS = 15
"""`python -m tests.sharing_laws 50 --engine git` runs more and longer ones."""


@pytest.mark.parametrize("piece", range(PIECES))
def test_laws_hold_in_random_histories(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines show the same key points, keep every past view, and have every batch in the book once."""
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    with memory_folder() as folder:
        for seed in range(piece, HISTORIES, PIECES):
            run_history(seed, folder)


@pytest.mark.parametrize("name", ["git by path", "postgres", "s3"])
def test_laws_hold_on_real_engines(name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same laws hold where a git repository, PostgreSQL or an object store has the book."""
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    with memory_folder() as folder, ENGINES[name](request) as connect:
        run_history(1, folder, STEPS_ON_SERVERS, lambda _: connect())
