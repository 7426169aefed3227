"""Faults of row ``share`` that hit servers: killed, stopped, robbed of what they held, split, cut from machines.

A cut is either silent, as when packets are dropped, or resets every connection and refuses new ones. What was sent
during a silent cut arrives when it heals.
"""

from __future__ import annotations

from contextlib import contextmanager
import json
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random

    from faults.share import Trial
    from helpers.nats_cluster import Cluster
    from helpers.postgres_front import Front
    from helpers.shared_clones import Machine

MOST_PAUSE_S = 0.9
LIMIT_S = "4"
MOST_SPLIT_S = 12.0
"""Servers that hear nothing from their leader elect another one after four to nine seconds."""
MOST_CUT_S = 2.0
MOST_ELECTION_S = 30.0


def kill_servers(trial: Trial, machine: Machine) -> None:
    """Kill one nats-server, or all three at once, during a sync, and start them again."""
    cluster = trial.scenery.engine
    which = () if trial.draw.random() < 1 / 3 else (trial.draw.randrange(len(cluster.ports)),)
    nothing = subprocess.DEVNULL
    process = machine.start("sync", "--limit", "10", stdout=nothing, stderr=nothing)
    time.sleep(trial.draw.random() * MOST_PAUSE_S)
    cluster.kill(*which)
    process.wait()
    cluster.start()


def stop_server(trial: Trial, machine: Machine) -> None:
    """Stop one nats-server as SIGSTOP does during a sync."""
    cluster = trial.scenery.engine
    server = cluster.processes[trial.draw.randrange(len(cluster.ports))]
    server.send_signal(signal.SIGSTOP)
    machine.run("sync", "--limit", "10")
    server.send_signal(signal.SIGCONT)


def delete_stream(trial: Trial, machine: Machine) -> None:
    """Delete the stream of the book, or its last message."""
    machine.run("sync")
    cluster = trial.scenery.engine
    names = cluster.call("STREAM.NAMES").get("streams") or []
    for name in names:
        last = cluster.call(f"STREAM.INFO.{name}")["state"]["last_seq"]
        if trial.draw.random() < 1 / 2:
            cluster.call(f"STREAM.DELETE.{name}")
        else:
            cluster.call(f"STREAM.MSG.DELETE.{name}", seq=last)


def kill_database(trial: Trial, machine: Machine) -> None:
    """Kill all processes of PostgreSQL during a sync, and start it again."""
    server = trial.scenery.engine.server
    nothing = subprocess.DEVNULL
    process = machine.start("sync", "--limit", "10", stdout=nothing, stderr=nothing)
    time.sleep(trial.draw.random() * MOST_PAUSE_S)
    server.kill()
    process.wait()
    server.start()


def reset_connection(trial: Trial, machine: Machine) -> None:
    """Reset the connection of a sync after some bytes, or instead of the server's answer."""
    front = trial.scenery.engine.front
    front.answers = trial.draw.random() < 1 / 2
    front.bytes_to_reset = trial.draw.randrange(1, 20_000)
    machine.run("sync", "--limit", "5")
    front.bytes_to_reset, front.answers = None, True


@contextmanager
def _cut(fronts: Iterable[Front], draw: Random) -> Iterator[None]:
    """Let proxies pass on nothing for a while, all in the same way."""
    attribute = draw.choice(("silent", "closed"))
    cut = list(fronts)
    for front in cut:
        setattr(front, attribute, True)
    try:
        yield
    finally:
        for front in cut:
            setattr(front, attribute, False)


def _leader(cluster: Cluster) -> str:
    """Return the name of the server that leads the stream of the book, as soon as there is one; empty without."""
    until = time.monotonic() + MOST_ELECTION_S
    while time.monotonic() < until:
        for index in range(len(cluster.ports)):
            accounts: list[Any] = cluster.status(index).get("account_details") or []  # type: ignore[assignment]
            streams = [stream for account in accounts for stream in account.get("stream_detail") or []]
            for leader in (stream["cluster"].get("leader") for stream in streams):
                if leader:
                    return str(leader)
        time.sleep(0.2)
    return ""


def _lands(trial: Trial, machine: Machine) -> bool:
    """Record ratings, sync for a while, and return whether nothing is pending; a sync out of time succeeds as well."""
    trial.record(machine)
    answer = machine.run("sync", "--json", "--limit", LIMIT_S)
    landed = answer.code == 0 and not json.loads(answer.out)["pending"]
    trial.outcomes["syncs landed" if landed else "syncs did not land"] += 1
    return landed


def split_servers(trial: Trial, machine: Machine) -> None:
    """Split one server, often the leader, or all from the others, while machines add ratings and sync with any one."""
    cluster, draw = trial.scenery.engine, trial.draw
    numbers = range(len(cluster.ports))
    before = _leader(cluster)
    if not before:
        trial.problems.append(f"no server leads the stream within {MOST_ELECTION_S:g} s")
        return
    alone = draw.choice([{int(before[1:]) - 1}, {draw.choice(numbers)}, set(numbers)])
    routes = [front for pair, front in cluster.routes.items() if alone & set(pair)]
    until = time.monotonic() + draw.random() * MOST_SPLIT_S
    with _cut(routes, draw):
        others = [other for other in trial.scenery.machines if other is not machine]
        for one in (machine, draw.choice(others)):
            reached = draw.choice(numbers)
            for number, door in enumerate(cluster.doors):
                door.closed = number != reached
            if _lands(trial, one) and reached in alone:
                trial.problems.append(f"a sync landed although only n{reached + 1} was reached, of {alone}, alone")
        time.sleep(max(until - time.monotonic(), 0))
    for door in cluster.doors:
        door.closed = False
    cluster.wait_for_leader()
    trial.outcomes["leaders replaced"] += _leader(cluster) != before


def cut_machines(trial: Trial, machine: Machine) -> None:
    """Cut machines during a sync from the server, or of nats-servers from one or all, and let it go on afterwards."""
    engine, draw = trial.scenery.engine, trial.draw
    doors: list[Front] = [*getattr(engine, "doors", ())] or [engine.front]
    nothing = subprocess.DEVNULL
    process = machine.start("sync", "--limit", LIMIT_S, stdout=nothing, stderr=nothing)
    time.sleep(draw.random())
    cut = draw.choice([doors, doors[:1]])
    with _cut(cut, draw):
        if _lands(trial, draw.choice(trial.scenery.machines)) and cut == doors:
            trial.problems.append("a sync landed although no server was reached")
        time.sleep(draw.random() * MOST_CUT_S)
    process.wait()
