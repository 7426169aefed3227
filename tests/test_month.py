"""The simulated month in a short form, a week: what becomes of entries where an agent marks truly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lift_simulation import chances
import month

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_week_of_true_marks_and_its_review_take_bad_entries_out_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bad entry leaves, and each good entry stays; `python -m tests.month` simulates whole months."""
    monkeypatch.setattr(month, "PERSON_IS_RIGHT", 1)
    with month.home():
        _, rng = chances(2)
        world = month.live(tmp_path / "world", rng, month.Habits(1.0, wrong=0.0), count=1, days=month.WEEK)
    assert {month.BAD} == {entry.quality for entry in world.entries.values() if entry.is_gone}
    assert [month.GOOD] * 2 == [entry.quality for entry in world.entries.values() if not entry.is_gone]
