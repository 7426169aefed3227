"""The table in the README: measured rows replace earlier ones, the others stay."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from benchmarks.table import Row, figure
from tallybook.ledger import clock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

BEGIN, END = "<!-- benchmarks -->\n", "<!-- end of the benchmarks -->\n"
HEADINGS = ("| row | what | against | ratio | min to max | ours, theirs | measured |", "|---|---|---|---|---|---|---|")


class NoTableError(Exception):
    """The README has no place for the table."""


def machine() -> str:
    """Return the machine of the measurement, in a few words."""
    return f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def table_row(row: Row, runs: int) -> str:
    """Return a row as a line of the table."""
    spread = f"{min(row.ratios):.2f} to {max(row.ratios):.2f}"
    sides = f"{figure(row.ours)}, {figure(row.theirs)} {row.unit}"
    when = f"{clock.utc_now().at[:10]}, {runs} x {len(row.ratios) // runs}"
    return f"| {row.name} | {row.what} | {row.against} | {row.ratio:.2f} | {spread} | {sides} | {when} |"


def merged(text: str, rows: Iterable[Row], order: Sequence[str], runs: int) -> str:
    """Return the README with these rows in its table, in an order of their names.

    Raises:
        NoTableError: It has no such table.
    """
    before, begin, rest = text.partition(BEGIN)
    table, end, behind = rest.partition(END)
    if not begin or not end:
        raise NoTableError(f"expected {BEGIN.strip()} and {END.strip()} in it")
    fresh = [(row.name, table_row(row, runs)) for row in rows]
    measured = {name for name, _ in fresh}
    kept = [(line.split("|")[1].strip(), line) for line in table.splitlines() if line.startswith("| ")][1:]
    lines = [row for row in kept if row[0] in order and row[0] not in measured] + fresh
    told = [row for _, row in sorted(lines, key=lambda line: order.index(line[0]))]
    shown = "\n".join([f"Last on {machine()}.", "", *HEADINGS, *told])
    return f"{before}{begin}{shown}\n{end}{behind}"


def write(path: Path, rows: Iterable[Row], order: Sequence[str], runs: int) -> None:
    """Write rows into the table of a README.

    Raises:
        NoTableError: It has none.
    """
    path.write_text(merged(path.read_text(encoding="utf-8"), rows, order, runs), encoding="utf-8")
