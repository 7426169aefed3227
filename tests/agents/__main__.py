"""The command: install the clients, run each, print a table; the exit code says whether a check failed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
import subprocess
import sys
import tempfile

from agents import clients, recording, runs
from agents.clients import CLIENTS, Installed

_PAIR = ("claude", "codex")
"""The clients that run in one project at the same time."""
_WORDS: dict[bool | None, str] = {True: "yes", False: "**no**", None: "—"}


def main(words: Sequence[str]) -> int:
    """Do what the command line asks for; return 1 where a check failed, or no client could be run."""
    asked = parse(words)
    with tempfile.TemporaryDirectory(prefix="tallybook-clients-", ignore_cleanup_errors=True) as name:
        folder = asked.clients or Path(name)
        chosen = [CLIENTS[agent] for agent in asked.agents or CLIENTS]
        if not asked.clients:
            sys.stderr.write("installing the clients\n")
            clients.install(chosen, folder)
        found = [clients.find(client, folder, Path(name)) for client in chosen]
        for client, installed in zip(chosen, found, strict=True):
            if isinstance(installed, str):
                sys.stdout.write(f"{client.agent}: not run: {installed}\n")
        there = [installed for installed in found if isinstance(installed, Installed)]
        if asked.record:
            for installed in there:
                recording.record(installed)
            return 0
        return int(not there or _check(there))


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


def _check(installed: Sequence[Installed]) -> bool:
    """Run the clients, each alone and then two at once; print the tables, and return whether a check failed."""
    alone = [_row([client], runs.CHECKS, partial(runs.check, client)) for client in installed]
    _print_table(runs.CHECKS, alone)
    pair = [member for member in installed if member.client.agent in _PAIR]
    together = [_row(pair, runs.TOGETHER, partial(runs.check_together, pair))] if len(pair) == len(_PAIR) else []
    if together:
        _print_table(runs.TOGETHER, together)
    return any(_WORDS[False] in row for row in [*alone, *together])


def _row(clients: Sequence[Installed], checks: Sequence[str], run: Callable[[], dict[str, bool | None]]) -> list[str]:
    """Run checks, and return a row of their verdicts; where a client or the command failed, none holds."""
    name = ", ".join(f"{client.client.agent} {client.version}" for client in clients)
    sys.stderr.write(f"running {name}\n")
    try:
        verdicts = run()
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        sys.stdout.write(f"{name}: {error}\n")
        verdicts = dict.fromkeys(checks, False)
    return [name, *(_WORDS[verdicts[check]] for check in checks)]


def _print_table(checks: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for row in [["client", *checks], ["---"] * (1 + len(checks)), *rows]:
        sys.stdout.write(f"| {' | '.join(row)} |\n")
    sys.stdout.write("\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
