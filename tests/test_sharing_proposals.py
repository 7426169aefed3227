"""Proposals on a machine that shares a book."""

from __future__ import annotations

from pathlib import Path

from helpers.shared_machines import HUMAN, make_machines
from tallybook.ledger.events import PointProposed
from tallybook.projections.history.review import LESSON_VERB
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.writing import curation, record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request


def test_a_lesson_stays_on_its_machine_until_a_person_accepts_it(tmp_path: Path) -> None:
    """Neither the lesson nor its message reaches another machine; the accepted entry does."""
    anna, ben = make_machines(tmp_path, "anna", "ben")
    lesson = PointProposed(LESSON_VERB, "", (), "lesson", "", "Seed the database first", "It was an empty database.")
    record.write(ben.project, [Request(PlainEvents((lesson,)), {"rater": "agent", "session": "s1"})])
    commands.add(ben.project, "Be kind", HUMAN)
    for machine in (ben, anna):
        machine.sync()
    assert ([], {"kpt_001": ("Be kind", 0, 0)}) == (curation.open_proposals(anna.project), anna.entries())
    (proposal,) = curation.open_proposals(ben.project)
    curation.accept(ben.project, proposal, "", HUMAN)
    for machine in (ben, anna):
        machine.sync()
    assert ("Seed the database first", 0, 0) == anna.entries()["kpt_002"]
    received = [path.read_bytes() for path in anna.project.claude.rglob("*") if path.is_file()]
    assert not any(b"It was an empty database" in data for data in received)
