"""Machines that sync at the same time, again and again: everything lands, and nobody tries for long."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from helpers.git_repositories import make_remote
from helpers.shared_clones import Machine
from helpers.sweep import slice_of

if TYPE_CHECKING:
    from pathlib import Path

MACHINES = slice_of(16, 4)
ROUNDS = slice_of(5, 2)
MOST_TRIES = 32


def sync_together(machines: list[Machine]) -> list[int]:
    """Sync all machines at once, and return how often each one met another that was quicker."""
    pipe = subprocess.PIPE
    processes = [machine.start("sync", "--json", "--limit", "300", stdout=pipe, stderr=pipe) for machine in machines]
    answers = [process.communicate(timeout=600) for process in processes]
    assert [0] * len(machines) == [process.returncode for process in processes], answers
    return [json.loads(out)["tries"] for out, _ in answers]


def test_machines_that_sync_together_all_land(tmp_path: Path) -> None:
    """After each round every machine shows the same playbook, with an entry and a rating of each in it."""
    remote = make_remote(tmp_path / "remote.git")
    machines = [Machine(tmp_path / f"machine{number}") for number in range(MACHINES)]
    tries: list[int] = []
    for machine in machines:
        machine.root.mkdir(parents=True)
        (machine.root / ".claude").mkdir()
        machine.do("share", "git", str(remote), "--book", "crowd", "--as", machine.home.name, "--yes")
    for turn in range(ROUNDS):
        for machine in machines:
            added = json.loads(machine.do("add", f"{machine.home.name} in round {turn}", "--json"))
            machine.do("rate", *added["added"], "helpful")
        tries += sync_together(machines)
        sync_together(machines)
    shown = [json.loads(machine.do("show", "--json"))["key_points"] for machine in machines]
    expected = {(f"{machine.home.name} in round {turn}", 1) for machine in machines for turn in range(ROUNDS)}
    assert [shown[0]] * MACHINES == shown
    assert sorted(expected) == sorted((one["text"], one["helpful"]) for one in shown[0])
    assert max(tries) <= MOST_TRIES, tries
