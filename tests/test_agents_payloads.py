"""Recorded payloads of every agent: who is recognised, what is answered and what the ledger says of it.

``python -m tests.agents --record`` records them with the real clients; Cursor's are written from descriptions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.agent_payloads import FOLDER, observe, place_transcripts, recorded_payloads
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


@pytest.mark.parametrize("agent", table.AGENTS)
def test_an_agents_payloads_name_each_of_its_events_and_no_machine(agent: str) -> None:
    """Start, prompt, tool, stop and end are there, and the only home folder in them is a made-up one."""
    rows = recorded_payloads(agent)
    needed = {"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"}
    assert needed <= {row["expected"]["event"] for row in rows}
    texts = json.dumps(rows).split('"')
    assert [] == [text for text in texts if text.startswith("/") and not text.startswith(("/home/me", "/compact"))]


def test_only_the_payloads_of_an_agent_that_cannot_be_run_are_written_from_descriptions() -> None:
    """A client that npm installs has its payloads recorded."""
    written = {agent for agent in table.AGENTS if any("written_from" in row for row in recorded_payloads(agent))}
    assert {"cursor"} == written
    assert sorted(table.AGENTS) == sorted(path.stem for path in FOLDER.iterdir())
