"""Power loss of a machine that shares a playbook: what was acknowledged is there once, and the next sync lands it."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults import NoToolError, Setting
from faults.share_power import LOSSES, suffer
from helpers.sweep import slice_of
from tallybook.ledger.storage import caches

# The others start servers; `python -m tests.faults share` makes all of them.
QUICK = ("git: power loss of machines",)


@pytest.mark.parametrize("name", LOSSES if slice_of(1, 0) else QUICK)
def test_a_power_loss_loses_and_doubles_nothing(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each acknowledged entry and rating is on every machine once after a power loss, and all playbooks agree."""
    monkeypatch.delenv(caches.VARIABLE, raising=False)
    try:
        tally = suffer(name, slice_of(10, 1), Setting(tmp_path))
    except NoToolError as missing:
        pytest.skip(str(missing))
    assert () == tally.failures
    assert [0, 0, 0] == [tally.counts[heading] for heading in ("lost", "doubled", "believed")]
