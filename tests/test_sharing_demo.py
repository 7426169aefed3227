"""The walk of git commands among clones that share, and the faults of shared books: a slice of each."""

from __future__ import annotations

from pathlib import Path
import sys

import pytest

from faults import NoToolError, Setting
from faults.share import FAULTS, suffer
from helpers.sweep import slice_of
from share import git_walk
from tallybook.ledger.storage import caches

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="starts servers and sends signals as on Linux")

QUICK = (
    "git: sync killed at its calls",
    "git: branch forced back or deleted",
    "objects: connections reset",
    "postgres: server killed",
)
"""The faults of which every run of the tests makes one; `python -m tests.sweeps tests` makes one of each."""


def test_no_command_of_git_is_stopped(tmp_path: Path) -> None:
    """Git's commands are stopped by nothing of ours and show nothing of it, and no rating is lost."""
    walk = git_walk.run(tmp_path, slice_of(git_walk.USUAL, 6), 1)
    assert [] == walk.problems
    assert walk.given > 0


@pytest.mark.parametrize("fault", FAULTS if slice_of(1, 0) else QUICK)
def test_a_fault_loses_and_doubles_nothing(tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each acknowledged rating counts once, all copies of the book are the same bytes, all playbooks the same."""
    monkeypatch.delenv(caches.VARIABLE, raising=False)
    try:
        tally = suffer(fault, 1, Setting(tmp_path))
    except NoToolError as missing:
        pytest.skip(str(missing))
    assert () == tally.failures
    assert [0, 0, 0] == [tally.counts[name] for name in ("lost", "doubled", "believed")]
