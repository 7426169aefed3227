"""Proposals on a machine that shares a book."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from helpers.shared_machines import HUMAN, make_machines
from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.events import PointProposed
from tallybook.projections.review import LESSON_VERB
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.writing import proposals, record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from pathlib import Path


def test_a_proposal_changes_the_entry_that_it_meant(tmp_path: Path) -> None:
    """Where the entry got another name in the book, the proposal has that name."""
    anna, ben = make_machines(tmp_path, "anna", "ben")
    commands.add(anna.project, "Always test", HUMAN)
    anna.sync()
    for text in ("Be kind", "Be brief"):
        commands.add(ben.project, text, HUMAN)
    proposals.propose(ben.project, Curation("merge", "kpt_001", sources=("kpt_002",)), "protected", HUMAN)
    ben.sync()
    (proposal,) = proposals.open_proposals(ben.project)
    assert Curation("merge", "kpt_002", sources=("kpt_003",)) == proposals.wish_of(
        cast("PointProposed", proposal.event)
    )
    assert "merge kpt_002 with kpt_003" in ben.run("proposals").out
    proposals.accept(ben.project, proposal, "", HUMAN)
    assert {"kpt_001": ("Always test", 0, 0), "kpt_002": ("Be kind", 0, 0)} == ben.entries()


def test_a_lesson_stays_on_its_machine_until_a_person_accepts_it(tmp_path: Path) -> None:
    """Neither the lesson nor its message reaches another machine; the accepted entry does."""
    anna, ben = make_machines(tmp_path, "anna", "ben")
    lesson = PointProposed(LESSON_VERB, "", (), "lesson", "", "Seed the database first", "It was an empty database.")
    record.write(ben.project, [Request(PlainEvents((lesson,)), {"rater": "agent", "session": "s1"})])
    commands.add(ben.project, "Be kind", HUMAN)
    for machine in (ben, anna):
        machine.sync()
    assert ([], {"kpt_001": ("Be kind", 0, 0)}) == (proposals.open_proposals(anna.project), anna.entries())
    (proposal,) = proposals.open_proposals(ben.project)
    proposals.accept(ben.project, proposal, "", HUMAN)
    for machine in (ben, anna):
        machine.sync()
    assert ("Seed the database first", 0, 0) == anna.entries()["kpt_002"]
    received = [path.read_bytes() for path in anna.project.claude.rglob("*") if path.is_file()]
    assert not any(b"It was an empty database" in data for data in received)
