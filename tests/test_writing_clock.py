"""A system clock that no event can hold: nothing is recorded, and everything can still be read."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
import time

import pytest

from helpers.command_line import Run
from helpers.spool_files import held, spooled
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

YEAR_10000_S = 253_402_300_800
YEAR_1_S = -62_135_596_800
DAY_S = 86_400
READING = (["show"], ["show", "--at", "2d"], ["verify"], ["log"], ["why", "kpt_001"], ["score"], ["doctor"], ["replay"])


def set_clock(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    """Set the system's clock to a moment in seconds since 1970."""
    monkeypatch.setattr(time, "time_ns", lambda: seconds * 1_000_000_000)


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with one entry."""
    made = Project(project)
    commands.add(made, "Quote ids.", {"rater": "human"})
    return made


@pytest.mark.parametrize(
    "seconds",
    [YEAR_10000_S, YEAR_10000_S * 3, YEAR_1_S - 1, YEAR_1_S - 3 * 366 * DAY_S],
    ids=["10000", "26059", "0", "-3"],
)
@pytest.mark.parametrize("locked", [False, True], ids=["free", "locked"])
def test_a_clock_outside_of_the_years_1_to_9999_records_nothing(
    here: Project, run: Run, monkeypatch: pytest.MonkeyPatch, seconds: int, *, locked: bool
) -> None:
    """A verb that writes exits with 4 and names the clock, and the ledger does not change."""
    before = (here.ledger / "events.jsonl").read_bytes()
    with monkeypatch.context() as patch, held(here) if locked else nullcontext():
        set_clock(patch, seconds)
        answer = run("rate", "kpt_001", "helpful")
        assert (4, "") == (answer.code, answer.out)
        assert answer.err.startswith("tallybook: clock: is at ")
        assert answer.err.endswith("; set it to a year from 1 to 9999; nothing was recorded\n")
    assert (before, []) == ((here.ledger / "events.jsonl").read_bytes(), spooled(here))
    assert 0 == run("rate", "kpt_001", "helpful").code


@pytest.mark.parametrize("seconds", [YEAR_10000_S - 1, YEAR_1_S], ids=["9999", "1"])
def test_the_first_and_the_last_possible_second_are_recorded(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """A ledger that begins in the year 1 or ends in the year 9999 verifies, and is read at any time of the clock."""
    set_clock(monkeypatch, seconds)
    assert [0, 0] == [run("add", "Quote ids.").code, run("verify").code]
    assert (project / ".claude" / "playbook.json").is_file()
    for other in (YEAR_10000_S, YEAR_1_S - 1):
        set_clock(monkeypatch, other)
        assert dict.fromkeys(map(" ".join, READING), 0) == {" ".join(words): run(*words).code for words in READING}
