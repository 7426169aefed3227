"""The command: what shared playbooks do on real engines.

``git`` runs commands of git in clones that share, and ``crowd`` syncs many machines at the same time. ``race`` lets
processes race for the numbers of runs on every engine. ``cost`` prints the round trips of a sync and what a remote of
git grows by.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
import sys
import tempfile

import pytest

from share import crowd, git_walk, stores
from share.scenery import ENGINES


def main(words: Sequence[str]) -> int:
    """Run what the command line asks for; 1 where it did not hold, 2 where it cannot run here."""
    parser = argparse.ArgumentParser(prog="python -m tests.share", description=__doc__)
    parser.add_argument("what", choices=("git", "crowd", "race", "cost"))
    parser.add_argument("--engine", choices=tuple(ENGINES), help="the engine of the crowd; each without it")
    parser.add_argument("--count", type=int, default=git_walk.USUAL, help="how many commands of git")
    parser.add_argument("--seed", type=int, default=1, help="the same seed draws the same commands")
    parser.add_argument("--machines", type=int, default=crowd.MACHINES, help="how many machines sync at the same time")
    parser.add_argument("--rounds", type=int, default=crowd.ROUNDS, help="how often they do")
    asked = parser.parse_args(words)
    if min(asked.count, asked.machines, asked.rounds) < 1:
        parser.error("--count, --machines and --rounds take 1 or more")
    with tempfile.TemporaryDirectory(prefix="share-") as name:
        folder = Path(name).resolve()
        # A server refuses to run as root, and its user must reach its files.
        folder.chmod(0o755)
        try:
            if asked.what in {"race", "cost"}:
                return stores.report_race(folder) if asked.what == "race" else stores.report_cost(folder)
            if asked.what == "crowd":
                engines = [asked.engine] if asked.engine else [*ENGINES]
                return crowd.report(engines, folder, asked.machines, asked.rounds)
            return git_walk.report(folder, asked.count, asked.seed)
        except pytest.skip.Exception as missing:
            sys.stderr.write(f"cannot run here: {missing}\n")
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
