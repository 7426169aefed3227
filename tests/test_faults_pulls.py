"""Power loss on a real file system: what was acknowledged before the plug was pulled is there, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from faults import NoToolError
from faults.pulls import HEADINGS, MAKERS, suffer

if TYPE_CHECKING:
    from pathlib import Path

PULLS = 5
SEED = 1


@pytest.mark.parametrize("system", MAKERS)
def test_a_pulled_plug_loses_nothing(system: str, tmp_path: Path) -> None:
    """Every event acknowledged before any pull reads, none is there twice, the log goes on and verifies."""
    try:
        pulled = list(suffer(system, PULLS, SEED, tmp_path))
    except NoToolError as missing:
        pytest.skip(str(missing))
    assert [[]] * PULLS == [each.problems for each in pulled]
    assert [(0, 0, 0)] * PULLS == [tuple(each.counts[name] for name in HEADINGS[1:4]) for each in pulled]
    assert pulled[-1].counts["acknowledged"] > pulled[0].counts["acknowledged"] > 0
