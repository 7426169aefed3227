"""The command: measure the requested rows, and print one table of ratios without a verdict."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
import os
from pathlib import Path
import sys
import tempfile

from benchmarks import hooks, ledgers
from benchmarks.table import BenchmarkOptions, BenchmarkRow, NotMeasuredError, merge_rows, render
from tallybook.ledger.storage import caches

ROWS: dict[str, Callable[[BenchmarkOptions], Iterator[BenchmarkRow]]] = {
    "append": ledgers.append,
    "replay": ledgers.replay,
    "replay-different": ledgers.replay_different,
    "memory": ledgers.memory,
    "load": ledgers.load,
    "hook": hooks.rows,
    "questions": ledgers.questions,
}
"""Name of a row → what measures it; some have several lines."""
README = Path(__file__).resolve().parent / "README.md"


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def main(words: Sequence[str]) -> list[BenchmarkRow]:
    """Measure the rows of the command line, print them, even if the run ends early, and return them."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"one of {', '.join(ROWS)}; all where none is named")
    parser.add_argument("--events", type=_at_least_one, default=1_000_000, help="how long ledgers are")
    parser.add_argument("--repeats", type=_at_least_one, help="pairs for each row; its own number where not given")
    parser.add_argument("--write", action="store_true", help="write the lines measured into the README's table")
    parser.add_argument("--folder", type=Path, default=Path(), help="where files are made, on the disk to be measured")
    asked = parser.parse_args(words)
    if unknown := [name for name in asked.rows if name not in ROWS]:
        parser.error(f"no such row: {', '.join(unknown)}")
    rows: list[BenchmarkRow] = []
    # A folder of caches that is not absolute is not used.
    with tempfile.TemporaryDirectory(prefix=".benchmarks-", dir=asked.folder.resolve()) as folder:
        os.environ[caches.VARIABLE] = str(Path(folder) / "caches")
        # Where the folder is a repository, git is not to see a million events.
        (Path(folder) / ".gitignore").write_text("*\n", encoding="ascii")
        try:
            for name in asked.rows or ROWS:
                print(f"measuring {name}", file=sys.stderr, flush=True)
                try:
                    rows.extend(ROWS[name](BenchmarkOptions(Path(folder), asked.events, asked.repeats)))
                except NotMeasuredError as missing:
                    print(f"left out: {missing}", file=sys.stderr)
        finally:
            print(render(map(str, rows)), end="")
    if asked.write:
        README.write_text(merge_rows(README.read_text(encoding="utf-8"), rows, list(ROWS)), encoding="utf-8")
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
