"""What other answers say of lift: `why`, `show --lift`, `score --blame`, `what-if --policy lift` and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.hook_calls import events
from helpers.lift import end_events, load, six_entries
from tallybook.ledger.events import LiftAsked, Numbers, PlaybookInjected
from tallybook.projections.surfaces.writing import record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run
    from tallybook.projections.surfaces.workspace.project import Project


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with six entries, whose user draws half of the sessions."""
    return six_entries(project)


def judge(project: Project, run: Run, told: int, held: int) -> None:
    """Ask about an entry, and let 60 sessions end with these scores."""
    run("lift", "ask", "kpt_001", "--outcome", "ac02")
    id_, requests = load(project).open, []
    for number in range(60):
        session, name = f"s{number}", ("kpt_001",)
        names, withheld = ((), name) if number % 2 else (name, ())
        drawn = PlaybookInjected(names, withheld, Numbers({"room": 0}), None, "", id_, session, name, 0.5)
        ends = end_events((held if number % 2 else told) + number % 5)
        requests += [Request(PlainEvents(part), {"rater": "import", "session": session}) for part in ((drawn,), ends)]
    record.write(project, requests)


def test_an_entry_that_hurts_is_said_to(here: Project, run: Run) -> None:
    """Rule 9: `why`, `show --lift`, `score --blame` and the page say the same, and the page asks for no more."""
    assert "lift: nothing was asked\n" in run("show", "--lift").out
    assert "Lift" not in run("why", "kpt_001").out
    judge(here, run, 55, 95)
    assert "Lift: hurts (question 1).\n" in run("why", "kpt_001").out
    assert "Lift" not in run("why", "kpt_002").out
    line = "kpt_001: hurts (question 1)"
    assert run("show", "--lift").out.endswith(f"lift: {line}\n")
    assert run("score", "--blame", "ac02").out.endswith(f"lift: {line}\n")
    assert 0 == run("page", "--output", str(here.root / "page.html")).code
    assert f"<li>{line}</li>" in (here.root / "page.html").read_text()
    assert 2 == run("show", "--lift", "--json").code


def test_pruning_by_lift_is_a_policy_to_choose(here: Project, run: Run) -> None:
    """Rule 9: `what-if --policy lift` takes out what hurts, and the playbook itself keeps it."""
    before = here.playbook.read_bytes()
    judge(here, run, 55, 95)
    said = run("what-if", "--policy", "lift").out
    assert "by the policy lift: harmful >= 3 AND harmful > helpful, or lift says that it hurts\n" in said
    assert "kpt_001 would be retired" in said
    assert "nothing would differ" in run("what-if", "--policy", "final").out
    assert before == here.playbook.read_bytes()


def test_what_helps_stays_in_the_alternative_playbook(here: Project, run: Run) -> None:
    """Rule 9: only "hurts" takes an entry out."""
    judge(here, run, 95, 55)
    assert "nothing would differ" in run("what-if", "--policy", "lift").out
    assert "Lift: helps (question 1).\n" in run("why", "kpt_001").out
    assert 1 == len(events(here, LiftAsked))
