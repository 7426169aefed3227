"""The command: make the faults asked for, print the tallies; the exit code says whether a promise was broken."""

from __future__ import annotations

import argparse
from pathlib import Path
import platform
import sys
import tempfile
from typing import TYPE_CHECKING

from faults import NoToolError, Setting, Tally, crash_states, mutations, pulls, render, writers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROWS: dict[str, Callable[[Setting], Iterator[Tally]]] = {
    "mutations": mutations.rows,
    "kills": writers.rows,
    "pulls": pulls.rows,
    "crash-states": crash_states.rows,
}
"""Name of a row → what makes its faults; some make them to rivals as well."""


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"one of {', '.join(ROWS)}; all where none is named")
    parser.add_argument("--count", type=_at_least_one, metavar="N", help="faults of each row; its own number without")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="the same seed makes the same faults")
    parser.add_argument("--folder", type=Path, help="where files are made; a folder in memory is fastest")
    asked = parser.parse_args(words)
    unknown = [name for name in asked.rows if name not in ROWS]
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}")
    return asked


def suffer(names: Sequence[str], setting: Setting, tallies: list[Tally], left_out: list[str]) -> None:
    """Add each tally to ``tallies``, and why others were not taken to ``left_out``."""
    for name in names:
        sys.stderr.write(f"making {name}\n")
        try:
            for tally in ROWS[name](setting):
                tallies.append(tally)
                sys.stderr.write(f"  {tally.store}: {tally.tried:,}\n")
        except NoToolError as missing:
            left_out.append(str(missing))


def main(words: Sequence[str]) -> int:
    """Make what the command line asks for, and print it; what was tallied is told even if it ends early.

    Returns:
        1 where a promise was broken, else 0.
    """
    asked = parse(words)
    tallies: list[Tally] = []
    left_out: list[str] = []
    with tempfile.TemporaryDirectory(prefix=".faults-", dir=asked.folder) as folder:
        try:
            suffer(
                asked.rows or list(ROWS), Setting(Path(folder).resolve(), asked.seed, asked.count), tallies, left_out
            )
        finally:
            system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
            sys.stdout.write(f"{system}, seed {asked.seed}\n\n{render(tallies, left_out)}")
    return int(any(tally.failures for tally in tallies))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
