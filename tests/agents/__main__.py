"""The command: install the clients, run each, print a table; the exit code says whether a check failed."""

from __future__ import annotations

import argparse
from pathlib import Path
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from agents import clients, recording, runs
from agents.clients import CLIENTS, Installed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_WORDS = {True: "yes", False: "**no**", None: "—"}


def main(words: Sequence[str]) -> int:
    """Do what the command line asks for; return 1 where a check failed."""
    asked = parse(words)
    with tempfile.TemporaryDirectory(prefix="tallybook-clients-", ignore_cleanup_errors=True) as name:
        folder = asked.clients or Path(name)
        chosen = [CLIENTS[agent] for agent in asked.agents or CLIENTS]
        if not asked.clients:
            sys.stderr.write("installing the clients\n")
            clients.install(chosen, folder)
        found = [clients.find(client, folder, Path(name)) for client in chosen]
        for client, one in zip(chosen, found, strict=True):
            if isinstance(one, str):
                sys.stdout.write(f"{client.agent}: not run: {one}\n")
        there = [one for one in found if isinstance(one, Installed)]
        if asked.record:
            for one in there:
                recording.record(one)
            return 0
        return int(_check(there))


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.agents", description=__doc__)
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=f"one of {', '.join(CLIENTS)}; all if none is named")
    parser.add_argument(
        "--clients", type=Path, metavar="FOLDER", help="the folder of node_modules; else they are installed"
    )
    parser.add_argument("--record", action="store_true", help="write the payloads of the tests anew")
    asked = parser.parse_args(words)
    if unknown := [name for name in asked.agents if name not in CLIENTS]:
        parser.error(f"no such agent: {', '.join(unknown)}")
    return asked


def _check(installed: Iterable[Installed]) -> bool:
    """Run the clients, print the table, and return whether a check failed."""
    rows, failed = [], False
    for one in installed:
        sys.stderr.write(f"running {one.client.agent} {one.version}\n")
        try:
            verdicts = runs.check(one)
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            sys.stdout.write(f"{one.client.agent}: {error}\n")
            failed = True
            continue
        failed |= False in verdicts.values()
        rows.append([one.client.agent, one.version, *(_WORDS[verdicts[name]] for name in runs.CHECKS)])
    for row in [["client", "version", *runs.CHECKS], ["---"] * (2 + len(runs.CHECKS)), *rows]:
        sys.stdout.write(f"| {' | '.join(row)} |\n")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
