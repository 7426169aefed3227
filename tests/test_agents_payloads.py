"""Recorded payloads of every agent: who is recognised, what is answered and what the ledger says of it.

``python -m tests.agents --record`` records them with the real clients; Cursor's are written from descriptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from helpers.agent_payloads import observe, place_transcripts, recorded_payloads
from helpers.hook_calls import here
from tallybook.projections.surfaces.agents import table

if TYPE_CHECKING:
    from tallybook.projections.surfaces.workspace.project import Project

__all__ = ["here"]

ROWS = {
    f"{agent} {number} {row['event'] or ' '.join(row['payload'])}": row
    for agent in table.AGENTS
    for number, row in enumerate(recorded_payloads(agent), 1)
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_recorded_payload_comes_to_what_its_agent_means(here: Project, row: dict[str, Any]) -> None:
    """The caller is recognised, is answered only where it takes an answer, and nothing else is recorded as injected."""
    place_transcripts(row, here.root)
    outcome = observe(row, here)
    assert row["expected"] == outcome
    assert bool(outcome["answer"]) == ("playbook.injected" in outcome["recorded"])
