"""Power loss on a real file system: acknowledged events are there once."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults import NoToolError, Setting
from faults.pulls import HEADINGS, LEAST, MAKERS, suffer

PULLS = 5
SEED = 1


@pytest.mark.parametrize("system", MAKERS)
def test_a_pulled_plug_loses_nothing(system: str, tmp_path: Path) -> None:
    """Every event acknowledged before any pull is there exactly once; the log works on and verifies."""
    try:
        pulled = list(suffer(system, PULLS, Setting(tmp_path, SEED)))
    except NoToolError as missing:
        pytest.skip(str(missing))
    assert [[]] * PULLS == [each.problems for each in pulled]
    counts = {heading: sum(each.counts[heading] for each in pulled) for heading in HEADINGS}
    assert (0, 0, 0, 0) == tuple(counts[name] for name in ("lost", "doubled", "believed", "refused"))
    assert counts["acknowledged"] >= PULLS * LEAST
    # Something was in flight each time, and some of its pages were written and others not.
    assert counts["sealed"] > 0
