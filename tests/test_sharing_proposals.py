"""Proposals on a machine that shares a book."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from helpers.shared_machines import HUMAN, make_machines
from tallybook.ledger.decisions.curation import Curation
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.writing import proposals

if TYPE_CHECKING:
    from pathlib import Path

    from tallybook.ledger.events import PointProposed


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
