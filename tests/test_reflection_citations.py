"""Citations that no hook sees: what an agent says before it uses a tool stands in its transcript alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.hook_calls import call, events
from helpers.transcripts import Script, answer, asked_for, kept
from tallybook.ledger.events import PointCited
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli.main import run as run_here

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.transcripts import Client

BEFORE, LAST = "[kpt_001] says so; I look.", "Done, as [kpt_001] has it.\n"


@pytest.mark.parametrize("rater", ["none", "claude"])
def test_a_citation_before_a_tool_call_is_recorded(project: Path, client: Client, rater: str) -> None:
    """Once for each message, also where the hook of a turn's end recorded its last one, and with the time of it."""
    script = Script(kept(project) / "s1.jsonl").user("Fix it").agent(BEFORE).tool("Bash", {"command": "make"}, "ok")
    place = asked_for(project, script.agent(LAST))
    client.plans(answer())
    call({"hook_event_name": "Stop", "last_assistant_message": LAST.strip()})
    assert 1 == len(events(place, PointCited))
    for _ in range(2):
        assert 0 == run_here(["reflect", "--rater", rater])
    assert [PointCited("kpt_001", "message")] * 2 == events(place, PointCited)
    _, found = (row for row in commands.list_events(place) if row["kind"] == "point.cited")
    assert ("tallybook", "s1") == (found["by"]["rater"], found["by"]["session"])
    assert "2026-11-21T10:00:02.250000Z" == found["when"]


def test_a_citation_of_a_subagent_is_recorded_as_its_own(project: Path) -> None:
    """Under its id, so that the hook of its end and its transcript name the same message."""
    own = kept(project) / "s1" / "subagents" / "agent-a1.jsonl"
    Script(own, "s1", sidechain=True).user("Look").agent(BEFORE).agent(LAST)
    place = asked_for(project, Script(kept(project) / "s1.jsonl").user("Fix it"))
    call({"hook_event_name": "SubagentStop", "agent_id": "a1", "last_assistant_message": LAST.strip()})
    assert 0 == run_here(["reflect"])
    agents = [row["by"].get("agent") for row in commands.list_events(place) if row["kind"] == "point.cited"]
    assert ["a1", "a1"] == agents
