"""A member of a book who forges lines stops nobody: a slice of the row of the fault suite."""

from __future__ import annotations

from pathlib import Path

from faults import Setting, forging
from helpers.sweep import slice_of


def test_a_forging_member_stops_nobody(tmp_path: Path) -> None:
    """Two honest machines go on, agree, say who wrote what does not count, and lose nothing."""
    tally = forging.suffer(Setting(tmp_path), slice_of(len(forging.forgeries()), 120))
    assert () == tally.failures
    assert [0, 0] == [tally.counts[name] for name in ("lost", "doubled")]
