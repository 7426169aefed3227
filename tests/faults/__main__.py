"""The command: make the requested faults, print the tallies; the exit code is 1 if a promise was broken."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
import platform
import signal
import sys
import tempfile
from typing import TYPE_CHECKING

import attrs

from faults import (
    NoToolError,
    Setting,
    Tally,
    at_calls,
    crash_states,
    forging,
    fuzz,
    mutations,
    pulls,
    render,
    share,
    share_power,
    writers,
)
from tallybook.ledger.clock import utc_now
from tallybook.ledger.storage import caches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from threading import Event
    from types import FrameType


def _share(setting: Setting) -> Iterator[Tally]:
    yield from share.rows(setting)
    yield from share_power.rows(setting)


ROWS: dict[str, Callable[[Setting], Iterator[Tally]]] = {
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


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"one of {', '.join(ROWS)}; all where none is named")
    parser.add_argument("--count", type=_at_least_one, metavar="N", help="faults of each row; its own number without")
    parser.add_argument("--only", default="", metavar="TEXT", help="faults of `share` whose name has this text")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="the same seed makes the same faults")
    parser.add_argument("--folder", type=Path, help="where files are made; a folder in memory is fastest")
    asked = parser.parse_args(words)
    unknown = [name for name in asked.rows if name not in ROWS]
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}")
    return asked


def suffer(names: Sequence[str], setting: Setting, tallies: list[Tally], left_out: list[str]) -> None:
    """Add each tally to ``tallies``, and the reason for each missing one to ``left_out``."""
    for name in names:
        if setting.stop.is_set():
            left_out.append(f"{name}: the run was ended before")
            continue
        sys.stderr.write(f"making {name}\n")
        try:
            for tally in ROWS[name](setting):
                notes = ["the run was ended"] if setting.stop.is_set() else []
                tallies.append(attrs.evolve(tally, note="; ".join([*notes, *filter(None, [tally.note])])))
                sys.stderr.write(f"  {tally.store}: {tally.tried:,}\n")
        except NoToolError as missing:
            left_out.append(str(missing))


def end_on_signals(stop: Event) -> None:
    """Make the first Control-C or SIGTERM end the run in order, with its tallies; the second ends it at once."""

    def end_in_order(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        sys.stderr.write("ending; once more ends it at once\n")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end_in_order)


def machine(folder: Path) -> str:
    """Return the machine of the run: date, Python, cores, kernel, file system."""
    kind = ""
    mounts = Path("/proc/self/mounts")
    if mounts.exists():
        fields = [line.split() for line in mounts.read_text(encoding="utf-8").splitlines()]
        holding = [field for field in fields if folder.is_relative_to(field[1])]
        kind = ", " + max(holding, key=lambda field: len(field[1]))[2] if holding else ""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return f"{utc_now().at[:10]}, Python {platform.python_version()}, {os.cpu_count()} cores, {system}{kind}"


def main(words: Sequence[str]) -> int:
    """Make the requested faults, and print the tallies, even if the run ends early.

    Returns:
        1 where a promise was broken, else 0.
    """
    asked = parse(words)
    tallies: list[Tally] = []
    left_out: list[str] = []
    with tempfile.TemporaryDirectory(prefix=".faults-", dir=asked.folder) as name:
        folder = Path(name).resolve()
        os.environ[caches.VARIABLE] = str(folder / "caches")
        setting = Setting(folder, asked.seed, asked.count, asked.only)
        end_on_signals(setting.stop)
        try:
            suffer(asked.rows or list(ROWS), setting, tallies, left_out)
        finally:
            sys.stdout.write(f"{machine(folder)}, seed {asked.seed}\n\n{render(tallies, left_out)}")
    return int(any(tally.failures for tally in tallies))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
