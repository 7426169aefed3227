"""A rating travels: three machines, a real engine on loopback, and every command as a user types it."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from share.scenery import ENGINES, NAMES

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.shared_clones import Machine


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _type(machine: Machine, *words: str) -> None:
    _say(f"{machine.home.name}$ tallybook {shlex.join(words)}")
    for line in machine.do(*words).splitlines():
        _say(f"    {line}")


def show(engine: str, folder: Path) -> int:
    """Show a rating travel; return 0 if it arrived on every machine, else 1."""
    with ENGINES[engine](folder, NAMES) as scenery:
        first, *others = scenery.machines
        last = others[-1]
        _say(f"# 1. The engine runs: {scenery.said}")
        _say("# 2. Each of three machines joins the book; the first one makes it.")
        _type(first, "add", "Run the tests before a commit")
        for machine in scenery.machines:
            _type(machine, "share", *scenery.words, "--yes")
        _say("# 3. Two machines rate the same entry while they do not know of each other.")
        _type(last, "rate", "kpt_001", "helpful")
        _type(others[0], "rate", "kpt_001", "helpful")
        _say("# 4. Each syncs: the ratings go out, in the order in which the engine took them.")
        for machine in (last, others[0], first):
            _type(machine, "sync")
        _say("# 5. Every machine counts both.")
        for machine in others:
            _type(machine, "sync")
        for machine in scenery.machines:
            _type(machine, "show")
        playbooks = [machine.entries() for machine in scenery.machines]
        replicas = {machine.replica() for machine in scenery.machines}
        arrived = playbooks == [{"kpt_001": ("Run the tests before a commit", 2, 0)}] * len(playbooks)
        is_same = len(replicas) == 1
        _say(f"# {'The ratings arrived' if arrived else 'THE RATINGS DID NOT ARRIVE'} on {len(playbooks)} machines;")
        _say(f"# their copies of the book are {'the same bytes' if is_same else 'NOT THE SAME BYTES'}.")
        return int(not (arrived and is_same))
