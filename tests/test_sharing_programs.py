"""What programs meet in a shared project: the functions of `tallybook.compat`, and the tools of the MCP server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.shared_machines import SharedMachine, make_pair
from tallybook import Author, Ledger, compat
from tallybook.projections.surfaces.mcp import TOOLS


@pytest.fixture(name="pair")
def _pair(tmp_path: Path) -> tuple[SharedMachine, SharedMachine]:
    return make_pair(tmp_path)


def test_a_loaded_playbook_is_saved_and_shared(
    pair: tuple[SharedMachine, SharedMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `save_playbook` records is pending, and counts on the other machine once both synced."""
    anna, ben = pair
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(anna.project.root))
    playbook = compat.load_playbook()
    assert {"kpt_001", "kpt_002", "kpt_003"} == {entry["name"] for entry in playbook["key_points"]}
    update = {
        "new_key_points": ["Name units"],
        "evaluations": [{"name": "kpt_003", "rating": "harmful"}],
    }
    compat.save_playbook(compat.update_playbook_data(playbook, update))
    shown = anna.entries()
    assert (("Be kind", 2, 1), "Name units") == (shown["kpt_003"], shown[playbook["key_points"][-1]["name"]][0])
    for machine in (anna, ben):
        machine.sync()
    assert shown == anna.entries() == ben.entries()


def test_a_rating_after_a_sync_counts_for_the_entry_that_was_loaded(
    pair: tuple[SharedMachine, SharedMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A playbook that was loaded before a sync is saved after it: nothing of the other machine is lost."""
    anna, ben = pair
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(anna.project.root))
    playbook = compat.load_playbook()
    assert 0 == ben.run("add", "Write tests").code
    assert 0 == ben.run("rate", "kpt_003", "harmful").code
    ben.sync()
    anna.sync()
    update = {"new_key_points": [], "evaluations": [{"name": "kpt_003", "rating": "helpful"}]}
    compat.save_playbook(compat.update_playbook_data(playbook, update))
    for machine in (anna, ben):
        machine.sync()
    assert anna.entries() == ben.entries()
    assert ("Be kind", 3, 1) == anna.entries()["kpt_003"]
    assert "Write tests" in {text for text, _, _ in anna.entries().values()}


def test_the_mcp_server_rates_and_adds_in_a_shared_project(pair: tuple[SharedMachine, SharedMachine]) -> None:
    """The tools `rate` and `add` record in the own ledger, and reach the other machine with the next syncs."""
    anna, ben = pair
    rated, added = call_tools(
        anna, ("rate", {"name": "kpt_003", "rating": "helpful", "reason": "it was"}), ("add", {"text": "Name units"})
    )
    assert [] == rated["ignored"]
    (name,) = added["added"]
    assert (("Be kind", 3, 0), "Name units") == (anna.entries()["kpt_003"], anna.entries()[name][0])
    for machine in (anna, ben):
        machine.sync()
    assert anna.entries() == ben.entries()
    assert "it was" not in "".join(map(json.dumps, ben.lines("log")))


def call_tools(machine: SharedMachine, *calls: tuple[str, dict[str, str]]) -> list[Any]:
    """Return what tools of a machine's MCP server answer."""
    ledger = Ledger(machine.project, Author("agent", "s9"))
    return [TOOLS[name].run(ledger, **given) for name, given in calls]
