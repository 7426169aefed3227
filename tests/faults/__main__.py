"""The command: make the requested faults, print each tally; the exit code is 1 if a promise was broken."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
import os
from pathlib import Path
import sys
import tempfile

from faults import (
    FaultCounts,
    FaultOptions,
    NoToolError,
    at_calls,
    crash_states,
    forging,
    fuzz,
    mutations,
    pulls,
    share,
    share_power,
    writers,
)
from tallybook.ledger.storage import caches


def _share(setting: FaultOptions) -> Iterator[FaultCounts]:
    yield from share.rows(setting)
    yield from share_power.rows(setting)


ROWS: dict[str, Callable[[FaultOptions], Iterator[FaultCounts]]] = {
    "mutations": mutations.rows,
    "kills": writers.rows,
    "pulls": pulls.rows,
    "crash-states": crash_states.rows,
    "fuzz": fuzz.rows,
    "kills-at-calls": at_calls.kill_rows,
    "errors-at-calls": at_calls.error_rows,
    "share": _share,
    "forging": forging.rows,
}
"""Name of a row → what makes its faults."""


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def main(words: Sequence[str]) -> int:
    """Make the requested faults, and print the tallies; return 1 where a promise was broken, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"one of {', '.join(ROWS)}; all where none is named")
    parser.add_argument("--count", type=_at_least_one, metavar="N", help="faults of each row; its own number without")
    parser.add_argument("--only", default="", metavar="TEXT", help="faults or commands whose name has this text")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="the same seed makes the same faults")
    parser.add_argument("--folder", type=Path, help="where files are made; a folder in memory is fastest")
    asked = parser.parse_args(words)
    if unknown := [name for name in asked.rows if name not in ROWS]:
        parser.error(f"no such row: {', '.join(unknown)}")
    is_broken = False
    with tempfile.TemporaryDirectory(prefix=".faults-", dir=asked.folder) as name:
        folder = Path(name).resolve()
        os.environ[caches.VARIABLE] = str(folder / "caches")
        for row in asked.rows or ROWS:
            try:
                for tally in ROWS[row](FaultOptions(folder, asked.seed, asked.count, asked.only)):
                    sys.stdout.write(f"{tally}\n")
                    is_broken = is_broken or bool(tally.failures)
            except NoToolError as missing:
                sys.stdout.write(f"left out: {missing}\n")
    return int(is_broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
