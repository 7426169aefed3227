"""Faults of row ``share`` that hit a server: killed, its connections reset, cut from machines.

A cut is either silent, as when packets are dropped, or resets every connection and refuses new ones. What was sent
during a silent cut arrives when it heals.
"""

from __future__ import annotations

from contextlib import contextmanager
import json
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from faults.share import Trial
    from helpers.postgres_front import Front
    from helpers.shared_clones import Machine

MOST_PAUSE_S = 0.9
LIMIT_S = "4"
MOST_CUT_S = 2.0


def kill_server(trial: Trial, machine: Machine) -> None:
    """Kill all processes of a server during a sync, and start it again; an emulated S3 has lost everything then."""
    server = trial.scenery.engine.server
    nothing = subprocess.DEVNULL
    process = machine.start("sync", "--limit", "10", stdout=nothing, stderr=nothing)
    time.sleep(trial.draw.random() * MOST_PAUSE_S)
    server.kill()
    process.wait()
    server.start()


def roll_back(trial: Trial, machine: Machine) -> None:
    """Take the last runs of the book away, or all."""
    machine.run("sync")
    trial.scenery.roll_back(
        lambda last: 0 if trial.draw.random() < 1 / 4 else max(last - trial.draw.randrange(1, 4), 0)
    )


def reset_connection(trial: Trial, machine: Machine) -> None:
    """Reset the connection of a sync after some bytes, or instead of the server's answer."""
    front = trial.scenery.engine.front
    front.answers = trial.draw.random() < 1 / 2
    front.bytes_to_reset = trial.draw.randrange(1, 20_000)
    machine.run("sync", "--limit", "5")
    front.bytes_to_reset, front.answers = None, True


@contextmanager
def _cut(front: Front, draw: Random) -> Iterator[None]:
    """Let a proxy pass on nothing for a while."""
    attribute = draw.choice(("silent", "closed"))
    setattr(front, attribute, True)
    try:
        yield
    finally:
        setattr(front, attribute, False)


def _lands(trial: Trial, machine: Machine) -> bool:
    """Record ratings, sync for a while, and return whether nothing is pending; a sync out of time succeeds as well."""
    trial.record(machine)
    answer = machine.run("sync", "--json", "--limit", LIMIT_S)
    landed = answer.code == 0 and not json.loads(answer.out)["pending"]
    trial.outcomes["syncs landed" if landed else "syncs did not land"] += 1
    return landed


def cut_machines(trial: Trial, machine: Machine) -> None:
    """Cut machines during a sync from the server, and let it go on afterwards."""
    engine, draw = trial.scenery.engine, trial.draw
    nothing = subprocess.DEVNULL
    process = machine.start("sync", "--limit", LIMIT_S, stdout=nothing, stderr=nothing)
    time.sleep(draw.random())
    with _cut(engine.front, draw):
        if _lands(trial, draw.choice(trial.scenery.machines)):
            trial.problems.append("a sync landed although no server was reached")
        time.sleep(draw.random() * MOST_CUT_S)
    process.wait()
