"""Many machines sync at the same time, round after round: everything lands, and the slowest's tries are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
import json
from pathlib import Path
import subprocess
import sys
from typing import NamedTuple

from helpers.shared_clones import Machine
from share.scenery import ENGINES

MACHINES = 16
ROUNDS = 5
MOST_TRIES = 32


class Crowd(NamedTuple):
    """For each sync of pending events how often another machine was quicker, and what was lost or differs."""

    tries: list[int]
    problems: list[str]


def run(engine: str, folder: Path, count: int = MACHINES, rounds: int = ROUNDS) -> Crowd:
    """Let so many machines join a book, and each add and rate an entry in every round, then sync all at once."""
    names = [f"machine{number}" for number in range(count)]
    tries: list[int] = []
    with ENGINES[engine](folder, names) as scenery:
        machines: Sequence[Machine] = scenery.machines
        scenery.share()
        wanted = Counter(machines[0].entries().values())
        for turn in range(rounds):
            for machine in machines:
                added = json.loads(machine.do("add", f"{machine.home.name} in round {turn}", "--json"))
                machine.do("rate", *added["added"], "helpful")
            tries += _sync_together(machines)
            _sync_together(machines)
        shown = [machine.entries() for machine in machines]
    wanted.update((f"{name} in round {turn}", 1, 0) for name in names for turn in range(rounds))
    there = Counter(shown[0].values())
    problems = [
        f"{name} shows another playbook" for name, entries in zip(names, shown, strict=True) if entries != shown[0]
    ]
    problems += [f"not there: {entry}" for entry in wanted - there]
    problems += [f"there, and should not be: {entry}" for entry in there - wanted]
    return Crowd(tries, problems)


def _sync_together(machines: Sequence[Machine]) -> list[int]:
    """Sync all machines at once, and return how often each one met another that was quicker."""
    pipe = subprocess.PIPE
    processes = [machine.start("sync", "--json", "--limit", "300", stdout=pipe, stderr=pipe) for machine in machines]
    answers = [process.communicate(timeout=600) for process in processes]
    assert [0] * len(machines) == [process.returncode for process in processes], answers
    return [json.loads(out)["tries"] for out, _ in answers]


def report(engines: Sequence[str], folder: Path, count: int, rounds: int) -> int:
    """Run it over each engine and print what came of it; 1 where something was lost or took too many tries."""
    failed = False
    for engine in engines:
        place = folder / engine
        place.mkdir(mode=0o755)
        crowd = run(engine, place, count, rounds)
        line = f"{engine}: {count} machines, {rounds} rounds: the slowest needed {max(crowd.tries)} tries"
        sys.stdout.write("\n".join([f"{line}; problems: {len(crowd.problems)}", *crowd.problems]) + "\n")
        sys.stdout.flush()
        failed = failed or bool(crowd.problems) or max(crowd.tries) > MOST_TRIES
    return int(failed)
